"""One run's last ``historySize`` calls, and the streaks over them (SPEC 6).

The history changes only between batches: while a batch is open its calls wait in the order of arrival, and whoever
judges a sibling sees the history as it stood before, plus the earlier siblings as vetoes (:mod:`.projection`). When
the batch ends its calls are added with what came of them. So adding is always at the end, each streak is kept up to
date by one step a call, and the one exception, a result that arrives after its batch ended, is :meth:`History.refill`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from .record import FAILED, GONE, MUTATED, VETO, Record
from .streaks.error_cascade import ErrorCascade
from .streaks.no_progress import NoProgress
from .streaks.ping_pong import Alternation, PingPong
from .streaks.since import Since
from .streaks.tails import Tails

if TYPE_CHECKING:
    from .projection import Projection

_NO_LINES: Final[dict[int, NoProgress]] = {}  # never filled: most runs have none
SHORT: Final = 64  # calls of a window that is kept in a list
SLACK: Final = 8  # calls that may have left the window before they are forgotten, all at once


class HasRecords(Protocol):
    """A response: what it has recorded itself."""

    def own(self) -> Sequence[Record]: ...


class History:
    """The window and its streaks. ``size`` is ``historySize``.

    While it is ``calm`` (no streak over a tool's unbroken records, no alternation) nothing more comes of a call that is
    new in it than its place in ``newest`` and ``records``. These may hold up to ``SLACK`` calls that have left the
    window: :meth:`trim` forgets them all at once, and whoever counts calls it first.
    """

    __slots__ = (
        "_since",
        "_tails",
        "brim",
        "busy",
        "calm",
        "cascade",
        "lines",
        "newest",
        "records",
        "size",
        "stirred",
        "swing",
        "wide",
    )

    def __init__(self, size: int) -> None:
        self.size = size
        self.brim = size + SLACK
        # An empty deque takes as much as forty records; a short list loses its first element just as quickly.
        self.records: deque[Record] | list[Record] = [] if size <= SHORT else deque()
        # Newest record of each call; the streak of a call is kept only from its second record on.
        self.newest: dict[int, Record] = {}
        self.lines: dict[int, NoProgress] = _NO_LINES
        self.swing = PingPong()
        self._tails: Tails | None = None  # made when something fails or changes nothing for the first time
        # How long a streak over a tool's unbroken records may be by now, beyond all bounds where a wider pattern is
        # asked for: ordinary traffic skips these. ``busy``: or calls since a change are counted.
        self.stirred = 0
        self.busy = False
        self.calm = False
        # Calls since a tool that changes things last worked; None: none did, or none is declared.
        self._since: Since | None = None
        # The wider patterns, where they are asked for.
        self.cascade: ErrorCascade | None = None
        self.wide = False

    def widen(self, *, error_cascade: bool) -> None:
        """Switch the wider patterns; one that stays on keeps its counts."""
        self.cascade = (self.cascade or ErrorCascade()) if error_cascade else None
        self.wide = error_cascade
        self._note_stir()

    def end_unit(self, batch: HasRecords) -> None:
        """A response is over, and its calls are added: the wider patterns go by those."""
        self._end_unit(batch.own())

    def end_call(self, record: Record) -> None:
        """As :meth:`end_unit`, for a call of its own."""
        self._end_unit([record])

    def _end_unit(self, records: Sequence[Record]) -> None:
        if self.cascade is not None:
            self.cascade.add(records)

    def add(self, record: Record) -> None:
        """The newest call, with what came of it; the oldest one leaves when the window is full."""
        key = record.key
        records = self.records
        newest = self.newest
        if self.calm and key not in newest and not record.marks and record.failure is None:
            newest[key] = record
            records.append(record)
            if len(records) > self.brim:
                self.trim()
            return
        swing = self.swing
        if key in newest:
            lines = self.lines
            if lines is _NO_LINES:
                lines = self.lines = {}
            line = lines.get(key)
            if line is None:
                line = lines[key] = NoProgress(newest[key])
            line.add(record)
            swing.add(record, records)
        elif swing.length != 2:  # a call that is new in this window alternates with none
            swing.begin(records)
        newest[key] = record
        records.append(record)
        if self.busy or record.marks or record.failure is not None:
            self.trim()
            self._stir(record)
        elif len(records) > self.brim:
            self.trim()
        self.calm = swing.length == 2 and not self.busy

    def trim(self) -> None:
        """Forget what has left the window since calls were added to it without a look at its size."""
        records = self.records
        over = len(records) - self.size
        if over <= 0:
            return
        if self.busy or self.swing.length > self.size or not isinstance(records, list):
            for _ in range(over):
                self._forget()
            return
        gone = records[:over]  # as one by one, but in fewer steps
        del records[:over]
        newest, lines = self.newest, self.lines
        for record in gone:
            key = record.key
            if record.outcome is None:
                record.marks |= GONE
            if key in lines:
                lines[key].forget()
                if newest[key] is not record:
                    continue
                del lines[key]
            del newest[key]

    def _stir(self, record: Record) -> None:
        if record.marks & MUTATED:
            self._since = Since()
        elif self._since is not None:
            self._since.add(record.key)
        if self._tails is None:
            self._tails = Tails()
        self._tails.add(record)
        self._note_stir()

    def _note_stir(self) -> None:
        if self.wide:
            self.stirred = sys.maxsize
        else:
            self.stirred = 0 if self._tails is None else self._tails.longest()
        self.busy = self.stirred > 0 or self._since is not None
        self.calm = self.calm and not self.busy

    def _forget(self) -> None:
        """The oldest record leaves the window."""
        records = self.records
        record = records.pop(0) if type(records) is list else records.popleft()  # type: ignore[union-attr]  # a deque
        key = record.key
        if record.outcome is None:
            record.marks |= GONE  # a late result must not be filled in
        lines = self.lines
        if key in lines:
            lines[key].forget()
            if self.newest[key] is record:
                del self.newest[key], lines[key]
        else:
            del self.newest[key]
        if self.swing.length > len(records):
            self.swing.forget(record)
            self.calm = False
        if self.busy:
            if self._since is not None and self._since.calls > len(records):
                self._since.forget(key)
            if self._tails is not None:
                self._tails.forget(record)

    def resize(self, size: int) -> None:
        """Another ``historySize`` while the run is open: the newest calls stay."""
        self.trim()
        self.size = size
        self.brim = size + SLACK
        if size > SHORT and type(self.records) is list:
            self.records = deque(self.records)
        while len(self.records) > size:
            self._forget()

    def make_room(self, beside: int) -> None:
        """So many calls of their own stand beside the window while a batch is open, and count as in it."""
        while self.records and len(self.records) + beside > self.size:
            self._forget()

    def refill(self, record: Record) -> None:
        """A record in the window, not the newest perhaps, got its outcome after its batch had ended."""
        line = self.lines.get(record.key)
        if line is not None:
            line.rebuild()
        self.calm = False
        self.swing.rebuild(self.records)
        tail: list[Record] = []
        met = False
        for other in reversed(self.records):
            if other is record:
                met = True
            elif other.outcome is not None and not other.marks & ~MUTATED and other.failure is None:
                # A call that simply worked ends each of the three streaks.
                if not met:
                    return
                break
            tail.append(other)
        since, self._since = self._since, None
        self._tails = None
        for other in reversed(tail):
            self._stir(other)
        if not record.marks & MUTATED:  # these calls were counted when they were added
            self._since = since
            self._note_stir()

    def recent(self, key: int) -> int:
        """How many calls of the window are this call, whatever came of them."""
        if key in self.lines:
            return len(self.lines[key].records)
        return 1 if key in self.newest else 0

    def no_progress(self, key: int) -> tuple[int, int | None]:
        """The no-progress streak of a call, and the outcome that its calls share (None: vetoes alone)."""
        line = self.lines.get(key)
        if line is not None:
            return line.count, line.outcome
        only = self.newest.get(key)
        if only is None:
            return 0, None
        return int(only.outcome is not None or only.marks & VETO != 0), only.outcome

    def since_change(self, key: int) -> tuple[int, int] | None:
        """How often this call, and any call, was made since a tool that changes things worked; None: none did."""
        since = self._since
        return (since.by_key.get(key, 0), since.calls) if since is not None else None

    def failing(self, key: int) -> bool:
        """Whether the outcome that the no-progress streak of a call shares is a failure."""
        line = self.lines.get(key)
        if line is not None:
            return line.failing
        only = self.newest.get(key)
        return only is not None and (only.failure is not None or only.marks & FAILED != 0)

    def exec_failures(self, key: int, projection: Projection | None) -> int:
        """The streak of exec failures that a call with these arguments would meet."""
        if self._tails is None:
            return 0
        if projection is None:
            return self._tails.exec.count(key)
        return self._tails.exec.count(key, projection.siblings.get(key, 0)) if projection.tool == "exec" else 0

    def unknown_tool(self, tool: str) -> int:
        """How often in a row this tool did not exist."""
        return self._tails.unknown.count(tool) if self._tails is not None else 0

    def churn(self, tool: str, key: int, projection: Projection | None) -> int:
        """The churn streak that a call of this tool with these arguments would meet."""
        if self._tails is None or (projection is not None and projection.tool != tool):
            return 0
        return self._tails.churn.count(tool, key)

    def tail(self) -> Alternation:
        """How the window ends, for the alternation."""
        self.trim()
        return self.swing.tail(self.records)

    def ping_pong(self, key: int, projection: Projection | None) -> tuple[int, bool, int]:
        """The alternation that this call would continue (itself included), the evidence, and the other side."""
        state = self.tail() if projection is None else projection.alternation()
        if state.last == key or state.before != key:
            return 0, False, 0
        return state.length + 1, state.unbroken and self.swing.evidence(self.records), state.last or 0
