"""Nothing new comes back, whatever the pattern (SPEC 11.2, "stagnation").

A run remembers with what outcome its latest different calls came back. A response is stale when each of its calls was
made before and came back as it did the last time; so many stale responses in a row mean that nothing new comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..record import VETO, Record, compared

REMEMBERED: Final = 64  # different calls, those made most recently
DIFFERENT: Final = 3  # calls that the stale responses hold at least; one or two are the business of the other streaks
NAMED: Final = 8  # stale calls that are kept for the note


class Stagnation:
    """What the latest different calls came to, and how many responses in a row brought nothing new.

    ``remembered``: outcome by call, the least recently made first, at most ``REMEMBERED``. The newest ``pending``
    records of the window belong to it too, but are not in it yet: each was a response of its own whose call was new.
    ``count``: stale responses in a row; ``stale``: their calls with their tools, the first ``NAMED`` of them.
    Invariant: ``pending`` is 0 unless ``count`` is, and every pending call differs from the others and from those in
    ``remembered``.
    """

    __slots__ = ("count", "pending", "remembered", "stale")

    def __init__(self) -> None:
        self.remembered: dict[int, int] = {}
        self.pending = 0
        self.count = 0
        self.stale: dict[int, str] | None = None

    def index(self, window: Sequence[Record]) -> None:
        """Take in the pending records. To be called before the window changes in any other way."""
        remembered, pending = self.remembered, self.pending
        self.pending = 0
        if pending >= REMEMBERED:
            remembered.clear()
            pending = REMEMBERED
        for back in range(-pending, 0):
            record = window[back]
            if record.outcome is not None:
                remembered[record.key] = record.outcome
        while len(remembered) > REMEMBERED:
            del remembered[next(iter(remembered))]

    def add(self, response: Iterable[Record]) -> None:
        """A response is over. ``response``: its records in the order of the history, but for those of exempt tools."""
        remembered = self.remembered
        said = news = False
        stale: list[Record] = []
        for record in response:
            outcome = compared(record)
            if outcome is not None:
                if remembered.pop(record.key, None) != outcome:
                    news = True
                remembered[record.key] = outcome
                if len(remembered) > REMEMBERED:
                    del remembered[next(iter(remembered))]
            elif not record.marks & VETO:
                continue
            said = True
            if len(stale) < NAMED:
                stale.append(record)
        if news:
            self.end_row()
        elif said:
            self.count += 1
            known = self.stale
            if known is None:
                known = self.stale = {}
            for record in stale:
                if len(known) < NAMED:
                    known.setdefault(record.key, record.tool)

    def end_row(self) -> None:
        """Something new came back."""
        self.count = 0
        self.stale = None

    def forget_all(self) -> None:
        """A user wrote, or the context was compacted: making a call again is fair from here on."""
        self.remembered.clear()
        self.pending = 0
        self.end_row()

    def speaks(self) -> bool:
        """Whether the stale responses hold enough different calls."""
        return self.stale is not None and len(self.stale) >= DIFFERENT

    def tools(self) -> tuple[str, ...]:
        """The tools of the calls that go round, each once."""
        return tuple(dict.fromkeys((self.stale or {}).values()))
