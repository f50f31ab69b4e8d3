"""What settlements do to a run: outcomes in model call order, the two guards, the error that ends a turn.

Outcomes are applied as their batch hands them on (SPEC 8); a result that comes after its batch has ended, or whose
start was never seen, is applied where it arrives.
"""

from __future__ import annotations

from typing import Final

from ..answers import CallsUnsettled, Code, Detector, Fact, NoteEmitted, RunEnded, WindowClosed
from ..events import Status
from . import wording
from .batch import LISTED, RUNNING, SETTLED, Batch, Ending, Note, Refusal, Slot, Words
from .notes import OBSERVED
from .observe import Call, Settlement
from .post_compaction import CompactionWindow
from .precedence import Loop
from .record import EXEC_FAILURE, FAILED, GONE, MUTATED, REJECTED, UNCHANGED, UNKNOWN, VETO, Record
from .repeated_errors import RETRIES, RepeatedErrors
from .run import REMEMBERED, Run

NOTHING: Final = frozenset((Status.SKIPPED, Status.ABORTED, Status.BLOCKED))  # no outcome, neither count nor reset
_BLOCKED: Final = Status.BLOCKED
_OK: Final = Status.OK
_REJECTED: Final = Status.REJECTED


def settle(run: Run, slot: Slot, settlement: Settlement, deliverable: bool, facts: list[Fact]) -> None:
    """A call of the current batch ended: note, then outcomes in model call order, then an error that is due."""
    batch = run.current
    if slot.state is RUNNING:
        batch.running -= 1
    elif settlement.status not in NOTHING:  # listed, and settled without a start
        batch.record(slot)
        run.count_call(slot.call.key)
    else:
        slot.ignored = settlement.status is _BLOCKED
    slot.state = SETTLED
    if run.armings:
        slot.armed_at = run.armings
    if slot.warning is not None and deliverable and settlement.status not in NOTHING:
        _warn(run, slot, slot.warning, settlement, facts)
    queue = batch.queue
    if queue is None or queue.first is slot:
        if queue is not None:
            queue.pop()
        ending = _apply(run, slot, settlement, facts)
        if ending is not None and batch.owed is None:
            batch.owed = ending
    else:
        slot.settlement = settlement
    if queue is not None and (first := queue.first) is not None and first.state is not RUNNING:
        _apply_ready(run, batch, facts)
    if batch.owed is not None:
        raise_if_due(run, slot, facts)


def _apply_ready(run: Run, batch: Batch, facts: list[Fact]) -> None:
    """Apply what the batch hands on; the first error that comes of it is the one that it owes."""
    while (slot := batch.next_ready()) is not None:
        settlement, slot.settlement = slot.settlement, None  # an error text is kept no longer than it waits (SPEC 13)
        ending = _apply(run, slot, settlement, facts) if settlement is not None else None
        if batch.owed is None:
            batch.owed = ending


def settle_late(run: Run, slot: Slot, settlement: Settlement, facts: list[Fact]) -> None:
    """A call whose batch has ended: applied on arrival, without a note."""
    slot.state = SETTLED
    slot.armed_at = run.armings
    if run.history is not None:
        run.history.trim()
    record = slot.record
    if record is not None and record.marks & GONE:
        record = slot.record = None
    ending = _apply(run, slot, settlement, facts)
    if record is None:
        _own_record(run, slot, settlement)
    elif (record.outcome is not None or record.marks & VETO) and run.history is not None:
        run.history.refill(record)
        run.current.shadow = None
    run.count_open()
    _owe(run, slot, ending, facts)


def settle_alone(
    run: Run,
    slot: Slot,
    batch_id: str | None,
    settlement: Settlement,
    facts: list[Fact],
) -> None:
    """A settlement whose start was never seen: a call of its own, applied where it arrives."""
    run.remember_orphan(batch_id, slot)
    slot.state = SETTLED
    slot.armed_at = run.armings
    slot.ignored = settlement.status is _BLOCKED
    ending = _apply(run, slot, settlement, facts)
    if settlement.status not in NOTHING:
        run.count_call(slot.call.key)
    _own_record(run, slot, settlement)
    _owe(run, slot, ending, facts)


def _own_record(run: Run, slot: Slot, settlement: Settlement) -> None:
    """Put a call of its own into the history where it arrived: amid the open batch."""
    if settlement.status in NOTHING or run.history is None:
        return
    record = Record(slot.call.key, slot.call.tool)
    slot.record = record
    if settlement.status is _OK:
        mark_success(run, slot.call, record, settlement)
    else:
        mark_failure(record, settlement)
    history, batch = run.history, run.current
    batch.join(record)
    batch.trim(history.size)
    history.make_room(len(batch.foreign or ()))


def _owe(run: Run, slot: Slot, ending: Ending | None, facts: list[Fact]) -> None:
    """Raise an error that came from outside the current batch, or leave it to that one while calls of it run."""
    if ending is None:
        return
    batch = run.current
    first = batch.owed is None
    if first:
        batch.owed = ending
    if not batch.running or batch.raised:
        batch.raised = True
        end_turn(run, slot, ending, facts)


def raise_if_due(run: Run, slot: Slot, facts: list[Fact]) -> None:
    """Once nothing of the batch runs, this call's start or settlement raises what the batch owes."""
    batch = run.current
    if batch.owed is not None and not batch.raised and not batch.running:
        batch.raised = True
        end_turn(run, slot, batch.owed, facts)


def end_turn(run: Run, slot: Slot, ending: Ending, facts: list[Fact]) -> None:
    """This call's start or settlement raises the error that ends the turn."""
    slot.ending = run.ending = ending
    facts.append(_ended(run, ending, observed=False))


def observe_ending(run: Run, ending: Ending, facts: list[Fact]) -> None:
    """Observe mode: the turn would have ended here."""
    run.count_observed("ends")
    facts.append(_ended(run, ending, observed=True))


def _ended(run: Run, ending: Ending, *, observed: bool) -> RunEnded:
    return RunEnded(
        session_key=run.session_key,
        run_id=run.run_id,
        agent_id=run.agent_id,
        tool=ending.tool,
        call_id=ending.call_id,
        detector=ending.detector,
        code=ending.code,
        count=ending.count,
        observed=observed,
    )


def _warn(run: Run, slot: Slot, warning: Loop, settlement: Settlement, facts: list[Fact]) -> None:
    detector, count, shown = warning.detector, warning.count, slot.call.shown
    if not run.buckets.spend(run.run_id, warning.key, count):
        return
    observed = run.limits.observe
    if observed:
        run.count_observed("notes")
    else:
        failed = settlement.error_text is not None
        again = settlement.compared == warning.outcome
        slot.note = Note(wording.note(warning, shown, again=again, failed=failed), detector, count, failed)
    facts.append(
        NoteEmitted(
            **run.place(), tool=shown, call_id=slot.call_id, detector=detector, count=count, observed=observed
        )
    )


def _apply(run: Run, slot: Slot, settlement: Settlement, facts: list[Fact]) -> Ending | None:
    """A call's outcome takes effect, in model call order; answers the error that it makes due."""
    record = slot.record
    if settlement.status is _OK:
        if record is not None:
            mark_success(run, slot.call, record, settlement)
        run.errors = None
        if run.window is None:
            return None
        ending = None
    elif settlement.status in NOTHING:
        if record is not None and settlement.status is _BLOCKED:
            record.marks |= VETO  # another layer refused a call that this guard had let run
        return None
    else:
        if record is not None:
            mark_failure(record, settlement)
        ending = None
        errors = run.errors
        text = settlement.error_text or ""
        outcome = run.error_outcome(settlement)
        if errors is None or not errors.go_on(slot.call.key, outcome):
            errors = run.errors = RepeatedErrors(slot.call.key, outcome, text)
        else:
            errors.count += 1
            errors.text = text
        count = errors.count
        if count > _retries(run, slot):
            said = Words(wording.repeated_error, (slot.call.shown, count, text))
            code, detector = Code.REPEATED_TOOL_ERROR, Detector.REPEATED_TOOL_ERROR
            ending = _ending_of(slot, code, detector, count, said)
    if run.window is not None and slot.armed_at == run.armings and run.limits.post_compaction:
        persisted = _watch(run, run.window, slot, settlement, facts)
        ending = ending or persisted
    if ending is not None and run.limits.observe:
        if run.buckets.spend(run.run_id, (OBSERVED, ending.code, slot.call.key), ending.count):
            observe_ending(run, ending, facts)
        return None
    return ending


def mark_success(run: Run, call: Call, record: Record, settlement: Settlement) -> None:
    """What came of a call that worked, and what it did to the world."""
    record.outcome = settlement.outcome
    record.failure = settlement.failure
    if settlement.unchanged:
        record.marks |= UNCHANGED
    if settlement.exec_failure:
        record.marks |= EXEC_FAILURE
    policy = run.limits.policy(call.tool)
    if policy is not None and policy.mutates:
        record.marks |= MUTATED


def mark_failure(record: Record, settlement: Settlement) -> None:
    """What kind of failure it was."""
    record.outcome = settlement.outcome
    record.failure = settlement.failure if settlement.failure is not None else settlement.outcome
    record.marks |= EXEC_FAILURE | FAILED if settlement.exec_failure else FAILED
    if settlement.status is _REJECTED:
        record.marks |= REJECTED
    if settlement.unknown_tool:
        record.marks |= UNKNOWN


def _retries(run: Run, slot: Slot) -> int:
    """How many identical failures after the first a call is let."""
    policy = run.limits.policy(slot.call.tool)
    return RETRIES if policy is None else policy.error_retries


def _watch(
    run: Run, window: CompactionWindow, slot: Slot, settlement: Settlement, facts: list[Fact]
) -> Ending | None:
    outcome = run.error_outcome(settlement)
    if settlement.exec_failure and settlement.failure is not None:
        outcome = settlement.failure
    if outcome is None:
        return None
    window.take(slot.call.key, outcome)
    if not window.closed:
        return None
    run.window = None
    if window.persisted:
        said = Words(wording.compaction_persisted, (slot.call.shown, window.size))
        code, detector = Code.COMPACTION_LOOP_PERSISTED, Detector.COMPACTION_LOOP_PERSISTED
        return _ending_of(slot, code, detector, window.size, said)
    facts.append(
        WindowClosed(**run.place(), tool_calls=window.seen, pre_compaction_repeats=window.repeats)
    )
    return None


def _ending_of(slot: Slot, code: Code, detector: Detector, count: int, said: Words) -> Ending:
    return Ending(code, detector, count, slot.call.shown, slot.call_id, said)


def end_open(run: Run, batch: Batch, facts: list[Fact]) -> Ending | None:
    """The batch ends: what still waits is applied, and calls that are open or were blocked are remembered for a while.

    Answers an error that it could not raise. A batch of one call that has settled has nothing of all this.
    """
    if batch.running:
        facts.append(CallsUnsettled(**run.place(), calls=batch.running, first=not run.told))
        run.told = True
    if batch.queue:
        batch.release()
        _apply_ready(run, batch, facts)
    if batch.running or batch.closed:
        late = [slot for slot in batch.slots if slot.open or (slot.state is LISTED and batch.closed)]
        for slot in late[-REMEMBERED:]:
            bar(slot, batch)
            run.remember(batch.batch_id, slot)
    return None if batch.raised else batch.owed


def _ended_sibling(owed: Ending) -> str:
    return wording.ended_sibling(owed.message)


def bar(slot: Slot, batch: Batch) -> None:
    """A call that has not started is blocked like the rest of its batch."""
    if slot.state is not LISTED:
        return
    batch.block(slot)
    slot.refusal = refusal_of(batch)
    if slot.call.key == batch.culprit and batch.refusal is not None:
        batch.arrivals.append(Record(slot.call.key, slot.call.tool, marks=VETO))


def refusal_of(batch: Batch) -> Refusal | None:
    """What a call of a closed batch is told that has not started."""
    owed = batch.owed
    if owed is not None and (batch.refusal is None or not batch.refusal.terminal):
        return Refusal(owed.detector, owed.count, Words(_ended_sibling, (owed,)), terminal=True)
    return batch.refusal
