"""The ordinary call: the only one of its response, and settled plainly before the next one starts.

Nine events in ten are about such calls, so each of the two functions does in one go, and in as few steps as it takes,
what :mod:`.decide` and :mod:`.settle` do with all care. Both answer None, and have changed nothing, where the event
asks for that care. A call that is refused or warned about has a batch in full; in a run that stays stuck, each has.
"""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_128_intdigest

from ..answers import Deliver, Fact, Step
from ..events import BatchCall, Status, ToolCallSettled, ToolCallStarted, as_batch
from .batch import BLOCKED, LISTED, OVER, RUNNING, Batch, Lone, Slot
from .decide import let_run, open_batch
from .fingerprint import text_digest, without_ids
from .nonces import OPEN_BRACKET
from .observe import WHOLE_TEXT, Settlement, identify, object_outcome, observe_settlement
from .precedence import judge
from .record import Record
from .repeated_errors import RepeatedErrors
from .run import Run
from .settle import NOTHING, mark_failure, mark_success, settle
from .steps import PROCEEDS, settled, started

_OK: Final = Status.OK


def start_ordinary(event: ToolCallStarted, run: Run, now: float) -> Step | None:
    """A call starts a new batch after one call that has settled."""
    former: Lone | Batch | None = run.lone
    if former is not None:
        made = run.made
    else:
        former = run.current
        if former.by_id is not None:
            return _start_sibling(event, run, now)
        made = former.only() if run.left is None and run.window is None else None
    if made is None or event.continues is not None:
        return None
    call_id, tool, batch_id, index = event.call_id, event.tool, event.batch_id, event.index
    if (
        call_id.__class__ is not str
        or tool.__class__ is not str
        or (index is not None and (index.__class__ is not int or index < 0))
        or (event.batch is not None and not is_alone(event))
    ):
        return None
    if batch_id is not None:
        if batch_id.__class__ is not str:
            return None
        batch_id = batch_id.strip()
        if batch_id == former.batch_id or batch_id == run.before.batch_id:
            return None
    if run.careful and (run.capped or not run.left_nothing(batch_id)):
        return None
    call = identify(tool, event.args, run.tools)
    lone = Lone(batch_id, call_id, index, call)
    run.last_seen = now
    run.before = former
    history = run.history
    if history is not None:
        if run.limits.policies:
            history.add(made)
            run.end_response((made,))
        else:
            history.add_ordinary(made)
        if history.stirred or call.key in (history.lines if run.patient else history.newest):
            loop = judge(call, history, None, run.limits, history.stale(call.key))
            if loop is not None:
                facts: list[Fact] = []
                return started(run, open_batch(run, lone, loop, None, facts), facts)
    if run.lone is None:
        run.let_alone(lone)
        run.ending = None
        run.loose = False
    else:
        run.lone = lone
        run.made = None
    if run.apart:
        run.count_call(call.key)
    else:
        run.all_calls += 1
    return PROCEEDS


def settle_ordinary(event: ToolCallSettled, run: Run, now: float) -> Step | None:
    """The call that stands for the current batch settles."""
    lone = run.lone
    if lone is None or run.made is not None:
        return _settle_in_batch(event, run, now)
    if (
        event.call_id != lone.call_id
        or event.deliverable is not True
        or event.tool.__class__ is not str
    ):
        return None
    batch_id, index, status = event.batch_id, event.index, event.status
    if (
        (batch_id != lone.batch_id and batch_id is not None)
        or (index is not lone.index and index is not None)
        or (status is not None and status is not _OK)
    ):
        return None
    call, result, error, history = lone.call, event.result, event.error, run.history
    plain = call.plain and error is None and event.outcome_identity is None
    if plain and result.__class__ is str:
        if history is None:
            outcome = None
        elif result.isascii():  # text_digest(), in one step
            data = result.encode()
            if OPEN_BRACKET in data:
                data = without_ids(result, data)
            outcome = xxh3_128_intdigest(data, WHOLE_TEXT)
        else:
            outcome = text_digest(result, WHOLE_TEXT)
        made = Record(call.key, call.tool, outcome)
    elif (
        plain
        and result.__class__ is dict
        and status is None
        and history is not None
        and (outcome := object_outcome(result, call.rule)) is not None
    ):
        made = Record(call.key, call.tool, outcome)
    else:
        settlement = observe_settlement(event, call, history is not None, run.wants_identities())
        if settlement.status is not _OK:
            return _settle_otherwise(event, run, lone, settlement, now)
        made = Record(call.key, call.tool)
        mark_success(run, call, made, settlement)
    run.last_seen = now
    run.errors = None
    run.made = made
    return Step(Deliver(result, error))


def _settle_otherwise(event: ToolCallSettled, run: Run, lone: Lone, settlement: Settlement, now: float) -> Step:
    """The call failed, or had no outcome at all; the first failure of its kind ends no turn yet."""
    run.last_seen = now
    call, status, errors = lone.call, settlement.status, run.errors
    outcome = run.error_outcome(settlement)
    if status in NOTHING or run.limits.policies or (errors is not None and errors.go_on(call.key, outcome)):
        return _settle(event, run, run.in_full().slots[0], settlement)
    run.errors = RepeatedErrors(call.key, outcome, settlement.error_text or "")
    run.made = made = Record(call.key, call.tool)
    mark_failure(made, settlement)
    return Step(Deliver(event.result, event.error))


def _start_sibling(event: ToolCallStarted, run: Run, now: float) -> Step | None:
    """A call of the current batch starts, of which its list was judged before."""
    batch, listed = run.current, event.batch
    slot = _sibling(event, batch)
    if (
        slot is None
        or slot.state is not LISTED
        or slot.order[1] >= batch.admitted
        or batch.owed is not None
        or event.continues is not None
        or (listed is not None and listed.__class__ is not tuple)
    ):
        return None
    run.last_seen = now
    let_run(run, batch, slot)
    return PROCEEDS


def _settle_in_batch(event: ToolCallSettled, run: Run, now: float) -> Step | None:
    """A call of the current batch settles; one of several in model call order where it can."""
    batch = run.current
    slot = _sibling(event, batch) if batch.by_id is not None else _only_call(event, batch)
    if slot is None or event.status is not None or event.deliverable is not True:
        return None
    if slot.state is not RUNNING:
        if slot.state is not BLOCKED:
            return None
        run.last_seen = now
        slot.state = OVER
        slot.ignored = True  # its batch is closed, so the run is `loose` as before
        return settled(event, run, slot, [])
    run.last_seen = now
    return _settle(event, run, slot, observe_settlement(event, slot.call, run.wants_outcomes(), run.wants_identities()))


def _settle(event: ToolCallSettled, run: Run, slot: Slot, settlement: Settlement) -> Step:
    facts: list[Fact] = []
    settle(run, slot, settlement, True, facts)
    return settled(event, run, slot, facts)


def _only_call(event: ToolCallSettled, batch: Batch) -> Slot | None:
    """The only call of a batch, where a settlement names it in full."""
    slots = batch.slots
    if event.batch_id is None or event.batch_id != batch.batch_id or len(slots) != 1:
        return None
    slot, index = slots[0], event.index
    if event.call_id != slot.call_id or event.tool.__class__ is not str:
        return None
    return slot if index is None or index is slot.index else None


def _sibling(event: ToolCallStarted | ToolCallSettled, batch: Batch) -> Slot | None:
    """The call of a batch of several that an event speaks of, where its id is enough to tell it."""
    batch_id, call_id, index = event.batch_id, event.call_id, event.index
    if (
        batch.by_id is None
        or batch_id is None
        or batch_id != batch.batch_id
        or call_id.__class__ is not str
        or event.tool.__class__ is not str
    ):
        return None
    same = batch.by_id.get(call_id)
    if same is None or len(same) != 1 or (index is not None and index is not same[0].index):
        return None
    return same[0]


def is_alone(event: ToolCallStarted) -> bool:
    """Whether the batch list has this call and no other; without ``batch_id`` a list says nothing."""
    batch = event.batch
    if batch is None or (batch.__class__ is not tuple and not as_batch(batch)):
        return True
    if not batch or event.batch_id is None:
        return True
    one = batch[0]
    return (
        len(batch) == 1
        and one.__class__ is BatchCall
        and one.call_id == event.call_id
        and one.tool.__class__ is str
    )
