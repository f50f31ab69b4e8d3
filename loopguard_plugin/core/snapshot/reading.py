"""Rows to state: objects of their own, nothing of which anybody else holds until all of it is there."""

from __future__ import annotations

import math

from ..batch import FIRST, Batch, Ending, Note, Refusal, Slot
from ..history import History
from ..observe import Call, Settlement
from ..outcomes.rules import is_plain
from ..post_compaction import CompactionWindow
from ..precedence import Loop
from ..record import Record
from ..repeated_errors import RepeatedErrors
from ..run import Run
from ..sessions import Session, Sessions
from ..streaks.error_cascade import ErrorCascade
from ..streaks.since import Since
from ..streaks.stagnation import Stagnation
from .rows import (
    BatchRow,
    CallRow,
    EndingRow,
    ErrorsRow,
    HistoryRow,
    KeyRow,
    LoopRow,
    NoteRow,
    RefusalRow,
    RunRow,
    SessionRow,
    SettlementRow,
    SlotRow,
    StagnationRow,
    WindowRow,
)


class Restored:
    """Sessions as they were, read one by one, and then put under the bounds of another guard."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._sessions: dict[str, Session] = {}
        self._rank: dict[Run, int] = {}
        self._parked: set[Run] = set()

    def add(self, key: str, row: SessionRow) -> None:
        """One more session. Raises LookupError or ValueError where it does not fit together; then it is left out."""
        if key in self._sessions:
            raise ValueError("a session of this key was read before")
        session = _SessionReader(row).session(key, row, self._now)
        self._sessions[key] = session
        for run, run_row in zip(session.runs.values(), row.runs, strict=True):
            self._rank[run] = run_row.rank
            if run_row.parked:
                self._parked.add(run)

    def sessions(self, limit: int, idle: float) -> Sessions:
        """All of them, in the order of use."""
        sessions = Sessions(limit, idle)
        for session in self._sessions.values():
            sessions.adopt(session)
        for run in sorted(self._rank, key=self._rank.__getitem__):
            sessions.line_up(run, parked=run in self._parked)
        sessions.expect()
        return sessions


def unpacked(text: bytes) -> str:
    """A text that may hold lone surrogates."""
    return text.decode("utf-8", "surrogatepass")


class _SessionReader:
    """Rows of one session, with its tables and those of the run at hand."""

    def __init__(self, row: SessionRow) -> None:
        packed = row.digests
        if len(packed) % 16:
            raise ValueError("a digest is cut short")
        self._texts = [unpacked(text) for text in row.texts]
        self._digests = [int.from_bytes(packed[at : at + 16], "big") for at in range(0, len(packed), 16)]
        self._records: list[Record] = []
        self._slot_rows: list[SlotRow] = []
        self._slots: dict[int, Slot] = {}

    def session(self, key: str, row: SessionRow, now: float) -> Session:
        session = Session()
        for message in row.messages:
            session.is_new(self._texts[message])
        if row.buckets:
            session.buckets._last = {
                (self._text(run_id), self._key(warning)): bucket for run_id, warning, bucket in row.buckets
            }
        for run_row in row.runs:
            session.add(self._run(run_row, key, session, now))
        if not row.runs or len(session.runs) != len(row.runs):
            raise ValueError("a session without runs, or two runs of one name")
        return session

    def _text(self, at: int | None) -> str | None:
        return None if at is None else self._texts[at]

    def _maybe(self, at: int | None) -> int | None:
        return None if at is None else self._digests[at]

    def _key(self, row: KeyRow) -> tuple[str | int | None, ...]:
        return tuple(unpacked(part) if isinstance(part, bytes) else self._maybe(part) for part in row)

    def _run(self, row: RunRow, session_key: str, session: Session, now: float) -> Run:
        """A run without settings: it takes those of its guard at its next event."""
        if not math.isfinite(row.age):
            raise ValueError("an age is no number of seconds")
        digests, texts = self._digests, self._texts
        self._records = [
            Record(digests[key], texts[tool], self._maybe(outcome), self._maybe(failure), marks)
            for key, tool, outcome, failure, marks in row.records
        ]
        self._slot_rows, self._slots = row.slots, {}
        run = Run(session_key, self._text(row.run_id), session.buckets)
        run.agent_id = self._text(row.agent_id)
        run.last_seen = now - row.age
        run.open(self._batch(row.batch))
        run.before = run.current if row.previous is None else self._batch(row.previous)
        for batch_id, at in row.remembered:
            run.remember(self._text(batch_id), self._slot(at))
        for batch_id, at in row.orphans:
            run.remember_orphan(self._text(batch_id), self._slot(at))
        if row.history is not None:
            run.history = self._history(row.history)
        if row.errors is not None:
            run.errors = self._errors(row.errors)
        if row.window is not None:
            run.window = self._window(row.window)
        run.armings = row.armings
        run.calls = [digests[key] for key in row.calls] or None
        run.spent, run.told, run.loose, run.continued = row.spent, row.told, row.loose, row.continued
        run.all_calls, run.calls_before = row.all_calls, row.all_calls - row.turn_calls
        if row.would:
            run.leftovers().would.update(row.would)
        run.ending = self._ending(row.ending)
        return run

    def _batch(self, row: BatchRow) -> Batch:
        batch = Batch(self._text(row.batch_id))
        for at in row.slots:
            its = self._slot_rows[at]
            self._slots[at] = slot = batch.add(self._texts[its.call_id], its.index, self._call(its.call))
            self._fill(slot, its)
        batch.running, batch.admitted, batch.raised, batch.news = row.running, row.admitted, row.raised, row.news
        batch.arrivals = [self._records[at] for at in row.arrivals]
        batch.foreign = None if row.foreign is None else [self._records[at] for at in row.foreign]
        batch.refusal = self._refusal(row.refusal)
        batch.culprit = self._maybe(row.culprit)
        batch.owed = self._ending(row.owed)
        batch.reopen()
        return batch

    def _slot(self, at: int) -> Slot:
        """A slot that batches and memories may share; one of no batch here stands for itself."""
        slot = self._slots.get(at)
        if slot is None:
            its = self._slot_rows[at]
            self._slots[at] = slot = Slot(self._texts[its.call_id], its.index, FIRST, self._call(its.call))
            self._fill(slot, its)
        return slot

    def _fill(self, slot: Slot, row: SlotRow) -> None:
        slot.state = row.state
        slot.record = None if row.record is None else self._records[row.record]
        slot.refusal = self._refusal(row.refusal)
        slot.warning = self._loop(row.warning)
        slot.note = self._note(row.note)
        slot.ending = self._ending(row.ending)
        slot.settlement = None if row.waiting is None else self._settlement(row.waiting)
        slot.ignored, slot.armed_at = row.ignored, row.armed_at

    def _call(self, row: CallRow) -> Call:
        key, tool, shown, kind, rule, paths, similar = row
        ignore = tuple(tuple(self._texts[at] for at in path) for path in paths)
        plain = is_plain(rule, ignore, similar)
        return Call(self._digests[key], self._texts[tool], self._texts[shown], kind, rule, ignore, similar, plain)

    def _settlement(self, row: SettlementRow) -> Settlement:
        outcome, failure, text = self._maybe(row.outcome), self._maybe(row.failure), self._text(row.error_text)
        return Settlement(row.status, outcome, failure, row.unknown_tool, row.unchanged, text, row.exec_failure)

    def _refusal(self, row: RefusalRow | None) -> Refusal | None:
        if row is None:
            return None
        detector, count, reason, terminal = row
        return Refusal(detector, count, self._texts[reason], terminal)

    def _ending(self, row: EndingRow | None) -> Ending | None:
        if row is None:
            return None
        code, detector, count, tool, call_id, message = row
        return Ending(code, detector, count, self._texts[tool], self._texts[call_id], self._texts[message])

    def _note(self, row: NoteRow | None) -> Note | None:
        return None if row is None else Note(self._texts[row[0]], *row[1:])

    def _loop(self, row: LoopRow | None) -> Loop | None:
        if row is None:
            return None
        level, detector, count, key, same, outcome, tools, responses = row
        named = tuple(self._texts[tool] for tool in tools)
        return Loop(level, detector, count, self._key(key), same, self._maybe(outcome), named, responses)

    def _errors(self, row: ErrorsRow) -> RepeatedErrors:
        count, key, outcome, text = row
        return RepeatedErrors(self._digests[key], self._maybe(outcome), self._texts[text], count)

    def _window(self, row: WindowRow) -> CompactionWindow:
        window = CompactionWindow(row.size, (self._digests[key] for key in row.before))
        if row.first is not None:
            window._first = self._digests[row.first[0]], self._digests[row.first[1]]
        window._same, window.seen, window.repeats = row.same, row.seen, row.repeats
        return window

    def _history(self, row: HistoryRow) -> History:
        """A history over the first records of the run: its streaks come of adding them once more."""
        if row.window > min(row.size, len(self._records)) or (row.since or 0) > row.window:
            raise ValueError("a history of more calls than there are")
        history = History(row.size)
        history.cascades = row.cascades
        window = self._records[: row.window]
        for record in window:
            history.add(record)
        history._since = None if row.since is None else Since()
        if history._since is not None:
            for record in window[row.window - (row.since or 0) :]:
                history._since.add(record.key)
        history.switch(stagnation=row.stagnation is not None, error_cascade=row.cascades)
        if row.stagnation is not None and history.stagnation is not None:
            self._stagnation(row.stagnation, history.stagnation)
        if row.cascade is not None:
            cascade = history.cascade = history.cascade or ErrorCascade()
            tools = [self._texts[tool] for tool in row.cascade.tools]
            cascade.restore(row.cascade.row, tools, [self._digests[key] for key in row.cascade.calls])
        history.end_response((), ())
        return history

    def _stagnation(self, row: StagnationRow, stagnation: Stagnation) -> None:
        stagnation.remembered = {self._digests[key]: self._digests[outcome] for key, outcome in row.remembered}
        stagnation.count = row.count
        stagnation.stale = {self._digests[key]: self._texts[tool] for key, tool in row.stale} or None
