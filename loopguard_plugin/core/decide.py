"""One run: admit a batch, refuse it, spend the allowance (SPEC 8, 9).

The deciding half of the guard. It moves a run's state with observations (digests and flags), never sees contents, and
leaves its verdict on the call's :class:`~.batch.Slot`. What settlements do stands in :mod:`.settle`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..answers import BatchBlocked, Code, Fact
from . import wording
from .batch import BLOCKED, LISTED, Batch, Ending, Refusal, Slot
from .history import History, Projection, shadow
from .observe import Call
from .precedence import CRITICAL, Loop, judge
from .record import VETO, Record
from .run import Run
from .settle import end_batch, raise_if_due


def open_batch(run: Run, batch_id: str | None, facts: list[Fact]) -> bool:
    """End the current batch, unless this is its id, and begin another; answers whether it is another.

    An error that the old one could not raise is owed by the new one at once.
    """
    if batch_id is not None and batch_id == run.batch.batch_id:
        return False
    left = end_batch(run, facts)
    run.batch = Batch(batch_id)
    if left is not None:
        run.batch.owed = left
    return True


def admit(run: Run, calls: Sequence[tuple[str, Call]], facts: list[Fact]) -> None:
    """A whole batch in model call order, ``(call_id, call)``: the verdict of every call is fixed now (SPEC 8)."""
    batch = run.batch
    for index, (call_id, call) in enumerate(calls):
        batch.add(call_id, index, call)
    batch.admitted = len(calls)
    history = run.history
    if history is None or batch.closed:
        return
    projection: Projection | None = None
    for slot in batch.slots:
        call = slot.call
        loop = judge(call, history, projection, run.limits)
        if loop is not None and loop.level is CRITICAL:
            _refuse(run, slot, loop, facts)
            return
        slot.warning = loop
        if projection is None:
            projection = Projection(history, call.key, call.tool)
        else:
            projection.add(call.key, call.tool)


def start(run: Run, slot: Slot, facts: list[Fact]) -> None:
    """A call of the current batch, listed or just added, starts; its verdict is left on it."""
    batch = run.batch
    history = run.history
    if history is not None and slot.order[1] >= batch.admitted and batch.owed is None and batch.refusal is None:
        loop = _judge_alone(run, slot.call, history)
        if loop is not None and loop.level is CRITICAL:
            _refuse(run, slot, loop, facts)
        else:
            slot.warning = loop
    if batch.owed is not None or batch.refusal is not None:
        _bar(slot, batch)
        raise_if_due(run, slot, facts)
        return
    run.ending = None
    batch.start(slot, Record(slot.call.key, slot.call.tool))
    if run.limits.post_compaction:
        run.count_call(slot.call.key)


def bar(batch: Batch, call_id: str, index: int | None, call: Call) -> Slot:
    """A call of a closed batch that nobody had heard of: blocked like its siblings."""
    slot = batch.add(call_id, index, call)
    _bar(slot, batch)
    return slot


def _bar(slot: Slot, batch: Batch) -> None:
    if slot.state is not LISTED:
        return
    slot.state = BLOCKED
    owed = batch.owed
    if batch.refusal is not None and (owed is None or owed.code is Code.TOOL_LOOP_PERSISTED):
        slot.refusal = batch.refusal
        if slot.call.key == batch.culprit:
            batch.arrivals.append(Record(slot.call.key, slot.call.tool, marks=VETO))
    elif owed is not None:
        slot.refusal = Refusal(owed.detector, owed.count, wording.ended_sibling(owed.message), terminal=True)


def _judge_alone(run: Run, call: Call, history: History) -> Loop | None:
    """Without the whole list: judged as it starts, against the history and the siblings that started before."""
    batch = run.batch
    if not batch.arrivals:
        return judge(call, history, None, run.limits)
    if not batch.foreign:
        return judge(call, history, batch.siblings(history), run.limits)
    if batch.shadow is None:
        batch.shadow = shadow(history, batch.arrivals, batch.foreign)
    return judge(call, batch.shadow, None, run.limits)


def _refuse(run: Run, slot: Slot, loop: Loop, facts: list[Fact]) -> None:
    """Block all of the batch that has not started, because of this call."""
    batch = run.batch
    terminal = run.spent
    run.spent = True
    shown, detector, count = slot.call.shown, loop.detector, loop.count
    batch.culprit = slot.call.key
    batch.refusal = Refusal(detector, count, wording.sibling(detector, shown, count), terminal)
    culprit = Refusal(detector, count, wording.culprit(detector, shown, count), terminal)
    if terminal:
        message = wording.loop_persisted(detector, shown, count)
        batch.owed = Ending(Code.TOOL_LOOP_PERSISTED, detector, count, shown, slot.call_id, message)
    waiting = [one for one in batch.slots if one.state is LISTED]
    for one in waiting:
        one.state = BLOCKED
        one.warning = None
        one.refusal = culprit if one.call.key == batch.culprit else batch.refusal
        if one.call.key == batch.culprit:
            batch.arrivals.append(Record(one.call.key, one.call.tool, marks=VETO))
    facts.append(
        BatchBlocked(
            **run.place(),
            tool=shown,
            call_id=slot.call_id,
            detector=detector,
            count=count,
            terminal=terminal,
            calls=len(waiting),
        )
    )
