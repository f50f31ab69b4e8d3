"""One run: admit a batch, refuse it, spend the allowance (SPEC 8, 9).

The deciding half of the guard. It moves a run's state with observations (digests and flags), never sees contents, and
leaves its verdict on the call's :class:`~.batch.Slot`. What settlements do stands in :mod:`.settle`. Most calls take a
shorter way to the same end, :mod:`.ordinary`, for which nothing needs to be known that is not said here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..answers import BatchBlocked, Code, Detector, Fact
from . import wording
from .batch import BLOCKED, LISTED, Batch, Ending, Lone, Refusal, Slot, Words
from .history import History
from .notes import OBSERVED
from .observe import Call
from .precedence import CRITICAL, WARNING, Loop, judge
from .projection import Projection, shadow
from .record import VETO, Record
from .run import SPENT, Run
from .settle import bar, end_open, observe_ending, raise_if_due


def begin(
    run: Run, batch_id: str | None, call_id: str, index: int | None, call: Call, facts: list[Fact]
) -> Slot | None:
    """A new batch without the whole list: its first call starts, the former batch ends. As :func:`open_batch`."""
    left = _end(run, facts)
    history = run.history
    loop = None
    if history is not None and (history.stirred or call.key in history.newest):
        loop = judge(call, history, None, run.limits, history.stale(call.key))
    return open_batch(run, Lone(batch_id, call_id, index, call), loop, left, facts)


def _end(run: Run, facts: list[Fact]) -> Ending | None:
    """The current batch ends, and its calls go into the history. Answers an error that it could not raise."""
    batch, history = run.current, run.history
    left = None
    if batch.running or batch.queue or batch.owed is not None or batch.refusal is not None:
        left = end_open(run, batch, facts)
        run.loose = run.has_open()
    if history is not None:
        for record in batch.arrivals:
            history.add(record)
        run.end_response(batch.own())
    run.before = batch
    return left


def open_batch(run: Run, lone: Lone, loop: Loop | None, owed: Ending | None, facts: list[Fact]) -> Slot | None:
    """A batch opens with this call, judged already; None where nothing is said about it. ``owed`` comes with it."""
    if loop is None and owed is None and not run.capped and run.window is None:
        run.let_alone(lone)
        run.ending = None
        run.count_call(lone.call.key)
        return None
    batch = Batch(lone.batch_id, owed=owed)
    run.open(batch)
    batch.news = run.is_news(lone.call)
    slot = batch.add(lone.call_id.strip(), lone.index, lone.call)
    if owed is None and run.capped:
        loop = _limit(run, 1) or loop
    _start(run, slot, loop, facts)
    return slot


def begin_listed(run: Run, batch_id: str | None, calls: Sequence[tuple[int, str, Call]], facts: list[Fact]) -> None:
    """A new batch of which the whole list is known, none of it started; the former batch ends."""
    left = _end(run, facts)
    run.open(Batch(batch_id, owed=left))
    admit(run, calls, facts)


def admit(run: Run, calls: Sequence[tuple[int, str, Call]], facts: list[Fact]) -> None:
    """A whole batch in model call order, ``(index, call_id, call)``: every verdict is fixed now (SPEC 8)."""
    batch = run.current
    for index, call_id, call in calls:
        batch.add(call_id, index, call)
    batch.admitted = len(calls)
    if batch.closed:
        return
    if run.capped and (limit := _limit(run, len(calls))) is not None:
        _critical(run, batch.slots[0], limit, facts)
        return
    history = run.history
    if history is None:
        return
    keys = {slot.call.key for slot in batch.slots}
    if not history.stirred and len(keys) == len(batch.slots) and history.newest.keys().isdisjoint(keys):
        return  # all of them are new, and nothing is under way that they could go on with
    projection: Projection | None = None
    stale = min(_stale(run, history, slot.call) for slot in batch.slots)
    for slot in batch.slots:
        call = slot.call
        loop = judge(call, history, projection, run.limits, stale)
        if loop is None or loop.level is WARNING:
            slot.warning = loop
        elif batch.culprit is None:
            _critical(run, slot, loop, facts)
            if batch.closed:
                return
        if projection is None:
            projection = Projection(history, call.key, call.tool)
        else:
            projection.add(call.key, call.tool)


def start(run: Run, slot: Slot, facts: list[Fact]) -> None:
    """A call of the current batch, listed or just added, starts; its verdict is left on it."""
    batch = run.current
    loop = None
    if slot.order[1] >= batch.admitted and batch.owed is None and batch.refusal is None:
        loop = _limit(run, 1) if run.capped else None
        if loop is None and run.history is not None:
            loop = _judge_alone(run, slot.call, run.history)
    _start(run, slot, loop, facts)


def _start(run: Run, slot: Slot, loop: Loop | None, facts: list[Fact]) -> None:
    """A call of the current batch starts. ``loop``: the verdict on it alone; its batch may have been closed before."""
    batch = run.current
    if loop is not None and batch.owed is None and batch.refusal is None:
        if loop.level is WARNING:
            slot.warning = loop
        elif batch.culprit is None:
            _critical(run, slot, loop, facts)
    if batch.owed is not None or batch.refusal is not None:
        run.loose = True
        bar(slot, batch)
        raise_if_due(run, slot, facts)
        return
    let_run(run, batch, slot)


def let_run(run: Run, batch: Batch, slot: Slot) -> None:
    """A call of the current batch runs."""
    run.ending = None
    batch.start(slot)
    run.count_call(slot.call.key)


def refuse_late(run: Run, batch: Batch, call_id: str, index: int | None, call: Call) -> Slot:
    """A call of a closed batch that has ended, of which nobody had heard: blocked like its siblings."""
    slot = batch.add(call_id, index, call)
    bar(slot, batch)
    run.remember(batch.batch_id, slot)
    run.loose = True
    return slot


def _judge_alone(run: Run, call: Call, history: History) -> Loop | None:
    """Without the whole list: judged as it starts, against the history and the siblings that started before."""
    batch = run.current
    stale = _stale(run, history, call)
    if not batch.arrivals:
        return judge(call, history, None, run.limits, stale)
    if not batch.foreign:
        return judge(call, history, batch.siblings(history), run.limits, stale)
    if batch.shadow is None:
        batch.shadow = shadow(history, batch.arrivals, batch.foreign)
    return judge(call, batch.shadow, None, run.limits, stale)


def _stale(run: Run, history: History, call: Call) -> int:
    """How many stale responses in a row the current batch, of which this call is known now, would go on with.

    0 from the first call on that is not remembered; calls of exempt tools are passed over.
    """
    batch, stagnation = run.current, history.stagnation
    batch.news = batch.news or run.is_news(call)
    return 0 if stagnation is None or batch.news or not stagnation.speaks() else stagnation.count


def _limit(run: Run, asked: int) -> Loop | None:
    """Whether so many more calls would pass a hard ceiling of the run or the turn."""
    made = run.over_limit(asked)
    return None if made is None else Loop(CRITICAL, Detector.CALL_LIMIT, made)


def _critical(run: Run, slot: Slot, loop: Loop, facts: list[Fact]) -> None:
    """A call must not run: its batch is blocked, and the allowance spent; if it was spent before, the turn ends."""
    capped = loop.detector is Detector.CALL_LIMIT
    observe = run.limits.observe
    terminal = run.spent or capped or (observe and run.observed(SPENT) > 0)
    if not capped:
        run.current.culprit = slot.call.key
        if observe:
            run.leftovers().would[SPENT] = 1  # the model has met no block yet, should this be enforced later
        else:
            run.spent = True
    if observe:
        _observe(run, slot, loop, terminal, facts)
    else:
        _refuse(run, slot, loop, terminal, facts)


def _refuse(run: Run, slot: Slot, loop: Loop, terminal: bool, facts: list[Fact]) -> None:
    """Block all of the batch that has not started, because of this call."""
    batch = run.current
    run.loose = True
    detector, count, about = loop.detector, loop.count, (loop, slot.call.shown)
    batch.refusal = Refusal(detector, count, Words(wording.sibling, about), terminal)
    culprit = Refusal(detector, count, Words(wording.culprit, about), terminal)
    if terminal:
        batch.owed = _persisted(slot, loop)
    waiting = 0
    for one in batch.slots:
        if one.state is LISTED:
            waiting += 1
            one.state = BLOCKED
            one.warning = None
            if one.call.key == batch.culprit:
                one.refusal = culprit
                batch.arrivals.append(Record(one.call.key, one.call.tool, marks=VETO))
            else:
                one.refusal = batch.refusal
    facts.append(_blocked(run, slot, loop, waiting, terminal=terminal, observed=False))


def _observe(run: Run, slot: Slot, loop: Loop, terminal: bool, facts: list[Fact]) -> None:
    """Observe mode: only say what would have been done, and again no oftener than notes may come or a user writes."""
    repeats: str | int | None = slot.call.key
    if loop.detector is Detector.CALL_LIMIT:
        repeats = None  # no call does
    elif loop.detector is Detector.UNKNOWN_TOOL_REPEAT:
        repeats = slot.call.tool
    if not run.buckets.spend(run.run_id, (OBSERVED, "ends" if terminal else "blocks", repeats), loop.count):
        return
    if terminal:
        observe_ending(run, _persisted(slot, loop), facts)
        return
    run.count_observed("blocks")
    waiting = sum(one.state is LISTED for one in run.current.slots)
    facts.append(_blocked(run, slot, loop, waiting, terminal=False, observed=True))


def _persisted(slot: Slot, loop: Loop) -> Ending:
    shown, detector, count = slot.call.shown, loop.detector, loop.count
    if detector is Detector.CALL_LIMIT:
        said = Words(wording.limit_reached, (count,))
        return Ending(Code.CALL_LIMIT_REACHED, detector, count, shown, slot.call_id, said)
    said = Words(wording.loop_persisted, (loop, shown))
    return Ending(Code.TOOL_LOOP_PERSISTED, detector, count, shown, slot.call_id, said)


def _blocked(run: Run, slot: Slot, loop: Loop, calls: int, *, terminal: bool, observed: bool) -> BatchBlocked:
    return BatchBlocked(
        session_key=run.session_key,
        run_id=run.run_id,
        agent_id=run.agent_id,
        tool=slot.call.shown,
        call_id=slot.call_id,
        detector=loop.detector,
        count=loop.count,
        terminal=terminal,
        calls=calls,
        observed=observed,
    )
