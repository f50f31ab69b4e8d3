"""State to rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final

from ..batch import Batch, Ending, Note, Refusal, Slot
from ..history import History
from ..observe import Call, Settlement
from ..post_compaction import BEFORE, CompactionWindow
from ..precedence import Loop
from ..record import Record
from ..repeated_errors import RepeatedErrors
from ..run import Name, Run
from ..sessions import Session, Sessions
from ..streaks.error_cascade import ErrorCascade
from ..streaks.stagnation import Stagnation
from .rows import (
    BatchRow,
    BucketRow,
    CallRow,
    CascadeRow,
    EndingRow,
    ErrorsRow,
    HistoryRow,
    KeyRow,
    LoopRow,
    MemoryRow,
    NoteRow,
    RecordRow,
    RefusalRow,
    RunRow,
    SessionRow,
    SettlementRow,
    SlotRow,
    StagnationRow,
    WindowRow,
)

_LARGEST: Final = (1 << 63) - 1


def write(sessions: Sessions, now: float) -> Iterator[tuple[str, SessionRow]]:
    """All sessions with their keys; ages are counted from ``now``.

    Of those with as many runs, the one that is to lose a run first comes first.
    """
    rank = {run: at for at, run in enumerate((*sessions._parked, *sessions._runs))}
    for size in sorted(sessions._sized):
        for session in sessions._sized[size]:
            yield next(iter(session.runs.values())).session_key, _SessionWriter(rank).session(session, now)


def packed(text: str) -> bytes:
    """A text that may hold lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _bounded(number: int) -> int:
    """A number from outside; msgpack ends at 64 bits, and no place or size is larger in earnest."""
    return min(number, _LARGEST)


class _SessionWriter:
    """Rows of one session. Tables grow as what they hold is met; those of records and slots are of one run."""

    def __init__(self, rank: Mapping[Run, int]) -> None:
        self._rank = rank
        self._texts: dict[str, int] = {}
        self._digests: dict[int, int] = {}
        self._records: dict[int, int] = {}  # by identity
        self._record_rows: list[RecordRow] = []
        self._slots: dict[int, int] = {}  # by identity
        self._slot_rows: list[SlotRow] = []

    def session(self, session: Session, now: float) -> SessionRow:
        messages = [self._text(one) for one in session._messages or ()]
        buckets: list[BucketRow] = [
            (None if run_id is None else self._text(run_id), self._key(warning), bucket)
            for (run_id, warning), bucket in (session.buckets._last or {}).items()
        ]
        runs = [self._run(run, now) for run in session.runs.values()]
        digests = b"".join(digest.to_bytes(16, "big") for digest in self._digests)
        return SessionRow([packed(one) for one in self._texts], digests, messages, buckets, runs)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _digest(self, digest: int) -> int:
        return self._digests.setdefault(digest, len(self._digests))

    def _maybe(self, digest: int | None) -> int | None:
        return None if digest is None else self._digests.setdefault(digest, len(self._digests))

    def _key(self, key: Hashable) -> KeyRow:
        """A warning key: names, digests and nothing else."""
        if not isinstance(key, tuple):
            raise TypeError(f"a warning key is a tuple, got {type(key).__name__}")
        return tuple(packed(part) if isinstance(part, str) else self._maybe(part) for part in key)

    def _run(self, run: Run, now: float) -> RunRow:
        self._records, self._record_rows = {}, []
        self._slots, self._slot_rows = {}, []
        batch, previous = run.in_full(), run.previous
        if run.history is not None:
            run.history.trim()
        window = list(run.history.records) if run.history is not None else []
        for record in window:
            self._record(record)
        return RunRow(
            run_id=None if run.run_id is None else self._text(run.run_id),
            agent_id=None if run.agent_id is None else self._text(run.agent_id),
            age=now - run.last_seen,
            rank=self._rank[run],
            parked=run.parked,
            records=self._record_rows,
            slots=self._slot_rows,
            batch=self._batch(batch),
            previous=None if previous is batch else self._batch(previous),
            remembered=self._memory(run.remembered()),
            orphans=self._memory({} if run.left is None else run.left.orphans),
            history=None if run.history is None else self._history(run.history),
            errors=self._errors(run.errors),
            window=None if run.window is None else self._window(run.window),
            armings=run.armings,
            calls=[self._digest(key) for key in run.calls or ()[-BEFORE:]],
            spent=run.spent,
            told=run.told,
            loose=run.loose,
            all_calls=run.all_calls,
            turn_calls=run.turn_calls,
            would={} if run.left is None else run.left.would,
            continued=run.continued,
            ending=self._ending(run.ending),
        )

    def _record(self, record: Record) -> int:
        at = self._records.get(id(record))
        if at is None:
            at = self._records[id(record)] = len(self._record_rows)
            outcome, failure = self._maybe(record.outcome), self._maybe(record.failure)
            row = (self._digest(record.key), self._text(record.tool), outcome, failure, record.marks)
            self._record_rows.append(row)
        return at

    def _batch(self, batch: Batch) -> BatchRow:
        return BatchRow(
            batch_id=None if batch.batch_id is None else self._text(batch.batch_id),
            running=batch.running,
            admitted=batch.admitted,
            slots=[self._slot(slot) for slot in batch.slots],
            arrivals=[self._record(record) for record in batch.arrivals],
            foreign=None if batch.foreign is None else [self._record(record) for record in batch.foreign],
            refusal=self._refusal(batch.refusal),
            culprit=self._maybe(batch.culprit),
            owed=self._ending(batch.owed),
            raised=batch.raised,
            news=batch.news,
        )

    def _memory(self, memory: dict[Name, Slot]) -> MemoryRow:
        return [(None if name[0] is None else self._text(name[0]), self._slot(slot)) for name, slot in memory.items()]

    def _slot(self, slot: Slot) -> int:
        at = self._slots.get(id(slot))
        if at is None:
            at = self._slots[id(slot)] = len(self._slot_rows)
            self._slot_rows.append(self._slot_row(slot))
        return at

    def _slot_row(self, slot: Slot) -> SlotRow:
        return SlotRow(
            call_id=self._text(slot.call_id),
            index=None if slot.index is None else _bounded(slot.index),
            call=self._call(slot.call),
            state=slot.state,
            record=None if slot.record is None else self._record(slot.record),
            refusal=self._refusal(slot.refusal),
            warning=self._loop(slot.warning),
            note=self._note(slot.note),
            ending=self._ending(slot.ending),
            waiting=None if slot.settlement is None else self._settlement(slot.settlement),
            ignored=slot.ignored,
            armed_at=slot.armed_at,
        )

    def _call(self, call: Call) -> CallRow:
        ignore = tuple(tuple(self._text(key) for key in path) for path in call.ignore)
        tool, shown = self._text(call.tool), self._text(call.shown)
        return self._digest(call.key), tool, shown, call.kind, call.rule, ignore, call.similar

    def _settlement(self, settlement: Settlement) -> SettlementRow:
        return SettlementRow(
            status=settlement.status,
            outcome=self._maybe(settlement.outcome),
            failure=self._maybe(settlement.failure),
            unknown_tool=settlement.unknown_tool,
            unchanged=settlement.unchanged,
            error_text=None if settlement.error_text is None else self._text(settlement.error_text),
            exec_failure=settlement.exec_failure,
        )

    def _refusal(self, one: Refusal | None) -> RefusalRow | None:
        return None if one is None else (one.detector, one.count, self._text(one.reason), one.terminal)

    def _ending(self, one: Ending | None) -> EndingRow | None:
        if one is None:
            return None
        tool, call_id, message = self._text(one.tool), self._text(one.call_id), self._text(one.message)
        return one.code, one.detector, one.count, tool, call_id, message

    def _note(self, one: Note | None) -> NoteRow | None:
        return None if one is None else (self._text(one.text), one.detector, one.count, one.quotes)

    def _loop(self, one: Loop | None) -> LoopRow | None:
        if one is None:
            return None
        outcome, tools = self._maybe(one.outcome), tuple(self._text(tool) for tool in one.tools)
        return one.level, one.detector, one.count, self._key(one.key), one.same, outcome, tools, one.row

    def _errors(self, errors: RepeatedErrors | None) -> ErrorsRow | None:
        if errors is None:
            return None
        return errors.count, self._digest(errors.key), self._maybe(errors.outcome), self._text(errors.text)

    def _window(self, window: CompactionWindow) -> WindowRow:
        first = window._first
        return WindowRow(
            size=_bounded(window.size),
            before=[self._digest(key) for key in sorted(window._before)],
            first=None if first is None else (self._digest(first[0]), self._digest(first[1])),
            same=window._same,
            seen=window.seen,
            repeats=window.repeats,
        )

    def _history(self, history: History) -> HistoryRow:
        return HistoryRow(
            size=_bounded(history.size),
            window=len(history.records),
            since=None if history._since is None else history._since.calls,
            stagnation=None if history.stagnation is None else self._stagnation(history.stagnation, history),
            cascades=history.cascades,
            cascade=None if history.cascade is None else self._cascade(history.cascade),
        )

    def _stagnation(self, stagnation: Stagnation, history: History) -> StagnationRow:
        stagnation.index(history.records)
        return StagnationRow(
            remembered=[(self._digest(key), self._digest(outcome)) for key, outcome in stagnation.remembered.items()],
            count=stagnation.count,
            stale=[(self._digest(key), self._text(tool)) for key, tool in (stagnation.stale or {}).items()],
        )

    def _cascade(self, cascade: ErrorCascade) -> CascadeRow:
        row, tools, calls = cascade.state()
        return CascadeRow(row, [self._text(tool) for tool in tools], [self._digest(key) for key in calls])
