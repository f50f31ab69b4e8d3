"""One run's last ``historySize`` calls, and the streaks over them (SPEC 6).

The history changes only between batches: while a batch is open its calls wait in the order of arrival, and whoever
judges a sibling sees the history as it stood before, plus the earlier siblings as vetoes (:mod:`.projection`). When
the batch ends its calls are added with what came of them. So adding is always at the end, each streak is kept up to
date by one step a call, and the one exception, a result that arrives after its batch ended, is :meth:`History.refill`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from .record import FAILED, GONE, MUTATED, VETO, Record, compared
from .streaks.error_cascade import ErrorCascade
from .streaks.no_progress import NoProgress
from .streaks.ping_pong import Alternation, PingPong
from .streaks.since import Since
from .streaks.stagnation import Stagnation
from .streaks.tails import Tails

if TYPE_CHECKING:
    from .projection import Projection

_NO_LINES: Final[dict[int, NoProgress]] = {}  # never filled: most runs have none
SHORT: Final = 64  # calls of a window that is kept in a list
SLACK: Final = 8  # calls that may have left the window before they are forgotten, all at once


class History:
    """The window and its streaks. ``size`` is ``historySize``.

    While it is ``calm`` (no streak over a tool's unbroken records, no alternation, no stale response, no failing row)
    nothing more comes of a call that is new in it than its place in ``newest`` and ``records``. These may hold up to
    ``SLACK`` calls that have left the window: :meth:`trim` forgets them all at once, and whoever counts calls it first.
    """

    __slots__ = (
        "_since",
        "_tails",
        "brim",
        "busy",
        "calm",
        "cascade",
        "cascades",
        "lines",
        "newest",
        "records",
        "size",
        "stagnation",
        "stirred",
        "swing",
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
        # How long any streak but those of one call and of an alternation may be by now: ordinary traffic skips these.
        # ``busy``: one over a tool's unbroken records is under way, or calls since a change are counted.
        self.stirred = 0
        self.busy = False
        self.calm = False
        # Calls since a tool that changes things last worked; None: none did, or none is declared.
        self._since: Since | None = None
        self.stagnation: Stagnation | None = None  # None: switched off
        self.cascades = False  # whether error cascades are looked for
        self.cascade: ErrorCascade | None = None  # made when something fails for the first time

    def switch(self, *, stagnation: bool, error_cascade: bool) -> None:
        """Switch two of the detectors; one that stays on keeps its counts."""
        self.trim()
        self.stagnation = (self.stagnation or Stagnation()) if stagnation else None
        if self.cascades is not error_cascade:
            self.cascades = error_cascade
            self.cascade = None
            if error_cascade and any(record.failure is not None for record in self.records):
                self.cascade = ErrorCascade()
                self.cascade.count_window(self.records)
        self.note_stir()

    def add_ordinary(self, record: Record) -> None:
        """The newest call, the only one of a response that is over, of a tool that is exempt from nothing."""
        stagnation, key = self.stagnation, record.key
        if (
            key not in self.newest
            and not record.marks
            and record.failure is None
            and (stagnation is None or key not in stagnation.remembered)
            and (self.calm or self._calm_down(record))
        ):
            if stagnation is not None:
                stagnation.pending += 1
            self.newest[key] = record
            self.records.append(record)
            if len(self.records) > self.brim:
                self.trim()
            return
        self.add(record)
        response = (record,)
        self.end_response(response, response)

    def _calm_down(self, record: Record) -> bool:
        """Whether a call that is new, and has no marks, ends all that is under way: then that is done. It is not added.

        A call that worked does, but for the count of calls since a change.
        """
        if record.outcome is None or self._since is not None:
            return False
        if self.swing.length != 2:
            self.swing.begin(self.records)
        self._tails = None
        self.busy = False
        self.stirred = 0
        if self.stagnation is not None and self.stagnation.count:
            self.stagnation.end_row()
        cascade = self.cascade
        if cascade is not None:
            if cascade.row:
                cascade.end_row()
            self.stirred = cascade.longest()
        self.calm = self.swing.length == 2
        return True

    def end_response(self, response: Sequence[Record], watched: Sequence[Record]) -> None:
        """A response is over, and its calls are added. ``watched``: those of tools that stagnation looks at."""
        stagnation, cascade = self.stagnation, self.cascade
        if stagnation is not None:
            stagnation.add(watched)
        if cascade is not None:
            cascade.add_response(response)
        self.note_stir()
        self.calm = (
            self.swing.length == 2
            and not self.busy
            and (stagnation is None or not stagnation.count)
            and (cascade is None or not cascade.row)
        )

    def forget_responses(self) -> None:
        """A user wrote, or the context was compacted: nothing that came before makes a response stale."""
        if self.stagnation is not None:
            self.stagnation.forget_all()
            self.note_stir()

    def stale(self, key: int) -> int:
        """How many stale responses in a row a call would go on with; 0 where it is not remembered."""
        stagnation = self.stagnation
        if stagnation is None or not stagnation.count or key not in stagnation.remembered:
            return 0
        return stagnation.count if stagnation.speaks() else 0

    def add(self, record: Record) -> None:
        """The newest call, with what came of it; the oldest one leaves when the window is full."""
        key = record.key
        records = self.records
        newest = self.newest
        if self.stagnation is not None and self.stagnation.pending:
            self.stagnation.index(records)
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
        if record.failure is not None and self.cascades:
            if self.cascade is None:
                self.cascade = ErrorCascade()
            self.cascade.add(record)
        if self.busy or record.marks or record.failure is not None:
            self._stir(record)
            self.trim()
        elif len(records) > self.brim:
            self.trim()
        self.calm = False  # until the response is over

    def trim(self) -> None:
        """Forget what has left the window since calls were added to it without a look at its size."""
        records = self.records
        over = len(records) - self.size
        if over <= 0:
            return
        if self.stagnation is not None and self.stagnation.pending:
            self.stagnation.index(records)
        if self.busy or self.swing.length > self.size or not isinstance(records, list):
            for _ in range(over):
                self._forget()
            return
        gone = records[:over]  # as one by one, but in fewer steps
        del records[:over]
        newest, lines, cascade = self.newest, self.lines, self.cascade
        for record in gone:
            key = record.key
            if record.outcome is None:
                record.marks |= GONE
            elif record.failure is not None and cascade is not None:
                cascade.forget(record)
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
        self.busy = self._tails.longest > 0 or self._since is not None

    def note_stir(self) -> None:
        """Work out ``stirred`` and ``busy`` anew: whoever adds records, and ends no response, has to ask for that."""
        tails = 0 if self._tails is None else self._tails.longest
        self.busy = tails > 0 or self._since is not None
        stale = 0 if self.stagnation is None else self.stagnation.count
        failing = 0 if self.cascade is None else self.cascade.longest()
        self.stirred = max(tails, stale, failing)

    def _forget(self) -> None:
        """The oldest record leaves the window."""
        records = self.records
        if self.stagnation is not None and self.stagnation.pending:
            self.stagnation.index(records)
        record = records.pop(0) if type(records) is list else records.popleft()  # type: ignore[union-attr]  # a deque
        key = record.key
        if record.outcome is None:
            record.marks |= GONE  # a late result must not be filled in
        elif record.failure is not None and self.cascade is not None:
            self.cascade.forget(record)
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
        """A record in the window, not the newest perhaps, got its outcome or its veto after its batch had ended."""
        if record.failure is not None and self.cascades:
            self.cascade = self.cascade or ErrorCascade()
            self.cascade.count_window(self.records)
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
        self.note_stir()

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
        outcome = compared(only)
        return int(outcome is not None or only.marks & VETO != 0), outcome

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
        commands = None if self._tails is None else self._tails.exec
        if commands is None:
            return 0
        if projection is None:
            return commands.count(key)
        return commands.count(key, projection.siblings.get(key, 0)) if projection.tool == "exec" else 0

    def unknown_tool(self, tool: str) -> int:
        """How often in a row this tool did not exist."""
        unknown = None if self._tails is None else self._tails.unknown
        return 0 if unknown is None else unknown.count(tool)

    def churn(self, tool: str, key: int, projection: Projection | None) -> int:
        """The churn streak that a call of this tool with these arguments would meet."""
        churn = None if self._tails is None else self._tails.churn
        if churn is None or (projection is not None and projection.tool != tool):
            return 0
        return churn.count(tool, key)

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
