"""What the next call of an open batch is judged against: the history, and its earlier siblings as vetoes (SPEC 8)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .history import History
from .record import VETO, Record
from .streaks.ping_pong import Alternation


class Projection:
    """Earlier siblings of an open batch, at least one, each taken as a veto: as if it had run in vain (SPEC 8).

    ``tool`` is the tool of them all, None once they are of several.
    """

    __slots__ = ("_alternation", "_later", "siblings", "tool")

    def __init__(self, history: History, key: int, tool: str) -> None:
        self.siblings = {key: 1}
        self.tool: str | None = tool
        self._alternation = history.tail()
        self._later = [key]  # calls that it has not taken in yet: few are ever asked for it

    def add(self, key: int, tool: str) -> None:
        """One more sibling that stands before the next call to be judged."""
        self.siblings[key] = self.siblings.get(key, 0) + 1
        if tool != self.tool:
            self.tool = None
        self._later.append(key)

    def alternation(self) -> Alternation:
        """How history and siblings end."""
        for key in self._later:
            self._alternation = self._alternation.then(key)
        self._later.clear()
        return self._alternation


class _Sibling(Record, gc=False):
    """A sibling among the records of a :class:`Shadow`."""


class Shadow(History):
    """The history as a sibling must see it when calls of their own arrived amid the batch.

    Calls of their own, as those of the history, are taken as they are, and no more than ``historySize`` of them
    together; siblings are taken as vetoes, and none of them is ever forgotten. So that nothing has to be removed from
    the middle, siblings that stand before all others are kept beside the window, by how often each was made
    (``_before``; ``_earlier``: all together) and how they end (``_ends``): as the oldest vetoes they count for little
    else.
    """

    __slots__ = ("_before", "_earlier", "_ends", "_others", "_room")

    def __init__(self, history: History, arrivals: Sequence[Record], foreign: Sequence[Record]) -> None:
        """``arrivals``: the records of the open batch in order of arrival; those of ``foreign`` are no siblings."""
        super().__init__(sys.maxsize)  # siblings push nothing out
        self._before: dict[int, int] = {}
        self._earlier = 0
        self._ends = Alternation(None, None, 0)
        self._room = history.size
        if history.stagnation is not None:
            history.stagnation.index(history.records)  # then adding to another window does not concern it
            self.stagnation = history.stagnation
        self.cascades = history.cascades
        self.cascade = None if history.cascade is None else history.cascade.beside()
        own = {id(record) for record in foreign}
        room = history.size - len(own)
        surplus = max(0, -room)
        kept = list(history.records)[-room:] if room > 0 else []
        self._others = len(kept)
        for record in kept:
            self.add(record)
        for record in arrivals:
            if id(record) not in own:
                self.add_sibling(record)
            elif surplus:
                surplus -= 1
            else:
                self.add(record)
                self._others += 1

    def add_sibling(self, record: Record) -> None:
        """One more sibling that stands before the next call to be judged."""
        self.add(_Sibling(record.key, record.tool, marks=VETO))

    def add_own(self, record: Record) -> None:
        """A call of its own arrived; the oldest of these, or of the history, leaves when there are too many."""
        self.add(record)
        self._others += 1
        while self._others > self._room:
            oldest = self.records[0]
            self._forget()
            if isinstance(oldest, _Sibling):
                self._before[oldest.key] = self._before.get(oldest.key, 0) + 1
                self._earlier += 1
                self._ends = self._ends.then(oldest.key)
            else:
                self._others -= 1
        self.note_stir()

    def note_stir(self) -> None:
        super().note_stir()
        if self._before:
            self.stirred = sys.maxsize  # a call that is not in the window may stand before it

    def recent(self, key: int) -> int:
        return super().recent(key) + self._before.get(key, 0)

    def no_progress(self, key: int) -> tuple[int, int | None]:
        count, outcome = super().no_progress(key)
        return (count if outcome is not None else count + self._before.get(key, 0)), outcome

    def since_change(self, key: int) -> tuple[int, int] | None:
        since = super().since_change(key)
        if since is None or since[1] < len(self.records):
            return since
        return since[0] + self._before.get(key, 0), since[1] + self._earlier

    def tail(self) -> Alternation:
        state, records = super().tail(), self.records
        if state.length < len(records) or self._ends.last is None or self._ends.last == records[0].key:
            return state
        first, ends = records[0].key, self._ends
        if len(records) > 1 and records[1].key != ends.last:
            return state
        before = ends.last if state.before is None else state.before
        return Alternation(state.last, before, state.length + (ends.length if ends.before == first else 1))
