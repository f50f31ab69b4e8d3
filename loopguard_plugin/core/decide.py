"""One run: admit a batch, apply outcomes, spend the allowance (SPEC 4, 8, 9, 10).

The deciding half of the guard. It moves a run's state with observations (digests and flags), never sees contents, and
leaves its verdict on the call's :class:`~.batch.Slot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..answers import (
    BatchBlocked,
    CallsUnsettled,
    Code,
    Detector,
    Fact,
    NoteEmitted,
    RunEnded,
    WindowArmed,
    WindowClosed,
)
from ..events import Status
from ..settings import ResolvedSettings
from . import wording
from .batch import Batch, Ending, Note, Refusal, Slot, State
from .history import History, Projection, shadow
from .notes import Buckets
from .observe import Call, Settlement
from .post_compaction import BEFORE, CompactionWindow
from .precedence import Level, Loop, judge
from .record import FAILED, GONE, REJECTED, UNCHANGED, UNKNOWN, VETO, Record
from .repeated_errors import ATTEMPTS, RepeatedErrors

REMEMBERED: Final = 64  # open and blocked calls of ended batches, a run (SPEC 2)

_FAILURES: Final = frozenset((Status.ERROR, Status.UNKNOWN_TOOL, Status.REJECTED, Status.DENIED))
_NOTHING: Final = frozenset((Status.SKIPPED, Status.ABORTED, Status.BLOCKED))  # no outcome, neither count nor reset


class Run:
    """The state of one run. Methods that take ``facts`` append what happened to it."""

    __slots__ = (
        "_armings",
        "_calls",
        "_continued",
        "_history",
        "_remembered",
        "_spent",
        "_told",
        "_window",
        "agent_id",
        "batch",
        "buckets",
        "ending",
        "errors",
        "last_seen",
        "parked",
        "previous",
        "run_id",
        "session_key",
    )

    def __init__(self, session_key: str, run_id: str | None, buckets: Buckets) -> None:
        self.session_key = session_key
        self.run_id = run_id
        self.agent_id: str | None = None
        self.buckets = buckets  # the session's
        self.last_seen = 0.0
        self.parked = False
        self.batch = Batch(None)
        self.previous = self.batch
        self._remembered: dict[tuple[str | None, str, int | None], Slot] = {}
        self._history: History | None = None
        self.errors = RepeatedErrors()
        self._window: CompactionWindow | None = None
        self._armings = 0
        self._calls: list[int] = []  # keys of the latest calls, for the window
        self._spent = False  # the recovery allowance
        self._told = False  # that calls never settled
        self._continued = False
        self.ending: Ending | None = None

    # Finding a call again

    def known_start(self, call_id: str, batch_id: str | None, index: int | None) -> Slot | None:
        """The call that a start speaks of, if it is known: started before, or listed in the current batch."""
        if batch_id is None:
            for batch in (self.batch, self.previous):
                if batch.batch_id is None:
                    slot = batch.find(call_id, None, fresh=False)
                    if slot is not None and slot.open:
                        return slot
            slot = self._remembered.get((None, call_id, None)) if self._remembered else None
            return slot if slot is not None and slot.open else None
        if batch_id == self.batch.batch_id:
            return self.batch.find(call_id, index, fresh=True)
        if batch_id == self.previous.batch_id:
            slot = self.previous.find(call_id, index, fresh=True)
            if slot is not None and slot.state is State.LISTED:
                return None
            return slot
        return self._recall(call_id, batch_id, index)

    def known_settlement(self, call_id: str, batch_id: str | None, index: int | None) -> Slot | None:
        """The call that a settlement speaks of, if it is known: without ``batch_id`` the newest open one of that id."""
        if batch_id is not None:
            for batch in (self.batch, self.previous):
                if batch.batch_id == batch_id:
                    return batch.find(call_id, index, fresh=False) or self._recall(call_id, batch_id, index)
            return self._recall(call_id, batch_id, index)
        settled = None
        for batch in (self.batch, self.previous):
            slot = batch.find(call_id, index, fresh=False)
            if slot is not None:
                if slot.open:
                    return slot
                settled = settled or slot
        for slot in reversed(self._remembered.values()):
            if slot.call_id == call_id and _same_place(slot, index):
                if slot.open:
                    return slot
                settled = settled or slot
        return settled

    def _recall(self, call_id: str, batch_id: str, index: int | None) -> Slot | None:
        for (its_batch, its_call, _), slot in reversed(self._remembered.items()):
            if its_call == call_id and its_batch == batch_id and _same_place(slot, index):
                return slot
        return None

    def batch_of(self, slot: Slot) -> Batch | None:
        """The current or the previous batch, if the call is one of its own."""
        for batch in (self.batch, self.previous):
            if batch.holds(slot):
                return batch
        return None

    def closed_batch(self, batch_id: str | None) -> Batch | None:
        """The current or previous batch of that id, if its calls that have not started count as blocked."""
        for batch in (self.batch, self.previous):
            if batch_id is not None and batch.batch_id == batch_id and batch.closed:
                return batch
        return None

    # Starting

    def open_batch(self, batch_id: str | None, limits: ResolvedSettings, facts: list[Fact]) -> bool:
        """End the current batch, unless this is its id, and begin another; answers whether it is another.

        An error that the old one could not raise is owed by the new one at once.
        """
        if batch_id is not None and batch_id == self.batch.batch_id:
            return False
        left = self._end_batch(limits, facts)
        self.batch = Batch(batch_id)
        if left is not None:
            self.batch.owed = left
        return True

    def admit(self, calls: Sequence[tuple[str, Call]], limits: ResolvedSettings, facts: list[Fact]) -> None:
        """A whole batch in model call order, ``(call_id, call)``: the verdict of every call is fixed now (SPEC 8)."""
        batch = self.batch
        for index, (call_id, call) in enumerate(calls):
            batch.add(call_id, index, call)
        batch.admitted = len(calls)
        history = self._window_for(limits)
        if history is None or batch.closed:
            return
        projection: Projection | None = None
        for slot in batch.slots:
            call = slot.call
            loop = judge(call, history, projection, limits)
            if loop is not None and loop.level is Level.CRITICAL:
                self._refuse(slot, loop, facts)
                return
            slot.warning = loop
            if projection is None:
                projection = Projection(history, call.key, call.tool)
            else:
                projection.add(call.key, call.tool)

    def start(self, slot: Slot, limits: ResolvedSettings, facts: list[Fact]) -> None:
        """A call of the current batch, listed or just added, starts; its verdict is left on it."""
        batch = self.batch
        if not batch.closed and slot.order[1] >= batch.admitted:
            self._judge_alone(slot, limits, facts)
        if batch.closed:
            self._bar(slot, batch)
            self._raise_if_due(slot, facts)
            return
        self.ending = None
        batch.start(slot, Record(slot.call.key, slot.call.tool))
        if limits.post_compaction:
            self._count_call(slot.call.key)

    def bar(self, batch: Batch, call_id: str, index: int | None, call: Call) -> Slot:
        """A call of a closed batch that nobody had heard of: blocked like its siblings."""
        slot = batch.add(call_id, index, call)
        self._bar(slot, batch)
        return slot

    def _bar(self, slot: Slot, batch: Batch) -> None:
        if slot.state is not State.LISTED:
            return
        slot.state = State.BLOCKED
        owed = batch.owed
        if batch.refusal is not None and (owed is None or owed.code is Code.TOOL_LOOP_PERSISTED):
            slot.refusal = batch.refusal
            if slot.call.key == batch.culprit:
                batch.arrivals.append((Record(slot.call.key, slot.call.tool, marks=VETO), True))
        elif owed is not None:
            slot.refusal = Refusal(owed.detector, owed.count, wording.ended_sibling(owed.message), terminal=True)

    def _judge_alone(self, slot: Slot, limits: ResolvedSettings, facts: list[Fact]) -> None:
        """Without the whole list: judged as it starts, against the history and the siblings that started before."""
        history = self._window_for(limits)
        if history is None:
            return
        batch = self.batch
        call = slot.call
        if batch.foreign:
            if batch.shadow is None:
                batch.shadow = shadow(history, batch.arrivals)
            loop = judge(call, batch.shadow, None, limits)
        else:
            loop = judge(call, history, batch.siblings(history), limits)
        if loop is not None and loop.level is Level.CRITICAL:
            self._refuse(slot, loop, facts)
        else:
            slot.warning = loop

    def _refuse(self, slot: Slot, loop: Loop, facts: list[Fact]) -> None:
        """Block all of the batch that has not started, because of this call."""
        batch = self.batch
        terminal = self._spent
        self._spent = True
        shown, detector, count = slot.call.shown, loop.detector, loop.count
        batch.culprit = slot.call.key
        batch.refusal = Refusal(detector, count, wording.sibling(detector, shown, count), terminal)
        culprit = Refusal(detector, count, wording.culprit(detector, shown, count), terminal)
        if terminal:
            message = wording.loop_persisted(detector, shown, count)
            batch.owed = Ending(Code.TOOL_LOOP_PERSISTED, detector, count, shown, slot.call_id, message)
        waiting = [one for one in batch.slots if one.state is State.LISTED]
        for one in waiting:
            one.state = State.BLOCKED
            one.warning = None
            one.refusal = culprit if one.call.key == batch.culprit else batch.refusal
            if one.call.key == batch.culprit:
                batch.arrivals.append((Record(one.call.key, one.call.tool, marks=VETO), True))
        facts.append(
            BatchBlocked(
                **self._place(),
                tool=shown,
                call_id=slot.call_id,
                detector=detector,
                count=count,
                terminal=terminal,
                calls=len(waiting),
            )
        )

    def _raise_if_due(self, slot: Slot, facts: list[Fact]) -> None:
        """Once nothing of the batch runs, this call's start or settlement raises what the batch owes."""
        batch = self.batch
        if batch.owed is not None and not batch.raised and not batch.running:
            batch.raised = True
            self._raise(slot, batch.owed, facts)

    def _raise(self, slot: Slot, ending: Ending, facts: list[Fact]) -> None:
        slot.ending = self.ending = ending
        facts.append(
            RunEnded(
                **self._place(),
                tool=ending.tool,
                call_id=ending.call_id,
                detector=ending.detector,
                code=ending.code,
                count=ending.count,
            )
        )

    # Settling

    def wants_outcome(self, limits: ResolvedSettings) -> bool:
        """Whether anything compares outcomes of calls that worked."""
        return limits.rolling or self._window is not None

    def settle(
        self, slot: Slot, settlement: Settlement, deliverable: bool, limits: ResolvedSettings, facts: list[Fact]
    ) -> None:
        """A call of the current batch ended: note, then outcomes in model call order, then an error that is due."""
        batch = self.batch
        happened = settlement.status not in _NOTHING
        if slot.state is State.LISTED and happened:
            slot.record = Record(slot.call.key, slot.call.tool)
            batch.arrivals.append((slot.record, True))
        slot.armed_at = self._armings
        slot.ignored = settlement.status is Status.BLOCKED
        warning = slot.warning
        if warning is not None and deliverable and happened:
            self._warn(slot, warning, facts)
        for ready in batch.settle(slot, settlement):
            ending = self._apply(ready, limits, facts)
            if ending is not None and batch.owed is None:
                batch.owed = ending
        if batch.owed is not None:
            self._raise_if_due(slot, facts)

    def settle_late(self, slot: Slot, settlement: Settlement, limits: ResolvedSettings, facts: list[Fact]) -> None:
        """A call whose batch has ended: applied on arrival, without a note."""
        slot.state = State.SETTLED
        slot.settlement = settlement
        slot.armed_at = self._armings
        slot.ignored = settlement.status is Status.BLOCKED
        record = slot.record
        if record is not None and record.marks & GONE:
            record = slot.record = None
        ending = self._apply(slot, limits, facts)
        if record is None:
            self._own_record(slot)
        elif record.outcome is not None and self._history is not None:
            self._history.refill(record)
        self._owe(slot, ending, facts)

    def settle_alone(
        self,
        slot: Slot,
        batch_id: str | None,
        settlement: Settlement,
        limits: ResolvedSettings,
        facts: list[Fact],
    ) -> None:
        """A settlement whose start was never seen: a call of its own, applied where it arrives."""
        self._remember(batch_id, slot)
        slot.state = State.SETTLED
        slot.settlement = settlement
        slot.armed_at = self._armings
        slot.ignored = settlement.status is Status.BLOCKED
        self._window_for(limits)
        ending = self._apply(slot, limits, facts)
        if settlement.status not in _NOTHING and limits.post_compaction:
            self._count_call(slot.call.key)
        self._own_record(slot)
        self._owe(slot, ending, facts)

    def _own_record(self, slot: Slot) -> None:
        """Put a call of its own into the history where it arrived: amid the open batch."""
        settlement = slot.settlement
        if settlement is None or settlement.status in _NOTHING or self._history is None:
            return
        record = Record(slot.call.key, slot.call.tool)
        _fill(record, settlement)
        self.batch.arrivals.append((record, False))
        self.batch.foreign = True
        self.batch.shadow = None

    def _owe(self, slot: Slot, ending: Ending | None, facts: list[Fact]) -> None:
        """Raise an error that came from outside the current batch, or leave it to that one while calls of it run."""
        if ending is None:
            return
        batch = self.batch
        if batch.running and not batch.raised:
            batch.owed = batch.owed or ending
        else:
            self._raise(slot, ending, facts)

    def _warn(self, slot: Slot, warning: Loop, facts: list[Fact]) -> None:
        detector, count, shown = warning.detector, warning.count, slot.call.shown
        if not self.buckets.spend(self.run_id, warning.key, count):
            return
        slot.note = Note(wording.note(detector, shown, count), detector, count)
        facts.append(
            NoteEmitted(**self._place(), tool=shown, call_id=slot.call_id, detector=detector, count=count)
        )

    def _apply(self, slot: Slot, limits: ResolvedSettings, facts: list[Fact]) -> Ending | None:
        """A call's outcome takes effect, in model call order; answers the error that it makes due."""
        settlement = slot.settlement
        assert settlement is not None
        if settlement.status in _NOTHING:
            return None
        if slot.record is not None:
            _fill(slot.record, settlement)
        ending = None
        errors = self.errors
        if settlement.status in _FAILURES:
            count = errors.fail(slot.call, settlement)
            if count >= ATTEMPTS:
                ending = self._ending(slot, Code.REPEATED_TOOL_ERROR, Detector.REPEATED_TOOL_ERROR, count)
        elif errors.count:
            errors.clear()
        if self._window is not None and slot.armed_at == self._armings and limits.post_compaction:
            persisted = self._watch(self._window, slot, settlement, facts)
            ending = ending or persisted
        return ending

    def _watch(
        self, window: CompactionWindow, slot: Slot, settlement: Settlement, facts: list[Fact]
    ) -> Ending | None:
        outcome = settlement.failure if settlement.failure is not None else settlement.outcome
        if outcome is None:
            return None
        window.take(slot.call.key, outcome)
        if not window.closed:
            return None
        self._window = None
        if window.persisted:
            return self._ending(
                slot, Code.COMPACTION_LOOP_PERSISTED, Detector.COMPACTION_LOOP_PERSISTED, window.size
            )
        facts.append(
            WindowClosed(**self._place(), tool_calls=window.seen, pre_compaction_repeats=window.repeats)
        )
        return None

    def _ending(self, slot: Slot, code: Code, detector: Detector, count: int) -> Ending:
        shown = slot.call.shown
        if code is Code.REPEATED_TOOL_ERROR:
            message = wording.repeated_error(shown, count, self.errors.text)
        else:
            message = wording.compaction_persisted(shown, count)
        return Ending(code, detector, count, shown, slot.call_id, message)

    # Between batches

    def _end_batch(self, limits: ResolvedSettings, facts: list[Fact]) -> Ending | None:
        """Apply what still waits, put the batch into the history; answers an error that it could not raise."""
        batch = self.batch
        if batch.running and not self._told:
            self._told = True
            facts.append(CallsUnsettled(**self._place(), calls=batch.running))
        for slot in batch.end():
            ending = self._apply(slot, limits, facts)
            if ending is not None and batch.owed is None:
                batch.owed = ending
        history = self._window_for(limits)
        if history is not None:
            for record, _ in batch.arrivals:
                history.add(record)
        batch.arrivals.clear()
        if self.previous is not batch:
            for slot in self.previous.slots[-REMEMBERED:]:
                if slot.open:
                    self._remember(self.previous.batch_id, slot)
        self.previous = batch
        return None if batch.raised else batch.owed

    def _remember(self, batch_id: str | None, slot: Slot) -> None:
        remembered = self._remembered
        key = (batch_id, slot.call_id, None if batch_id is None else slot.index)
        remembered.pop(key, None)
        remembered[key] = slot
        if len(remembered) > REMEMBERED:
            del remembered[next(iter(remembered))]

    def _window_for(self, limits: ResolvedSettings) -> History | None:
        """The history under the settings of the moment; None while the rolling detectors are off."""
        history = self._history
        if not limits.rolling:
            self._history = None
        elif history is None:
            history = self._history = History(limits.history_size)
        elif history.size != limits.history_size:
            history.resize(limits.history_size)
        return self._history

    # Other events

    def arm(self, limits: ResolvedSettings, facts: list[Fact]) -> bool:
        """A compaction retry; answers whether the guard is on."""
        if not limits.post_compaction:
            self._window = None
            return False
        self._window = CompactionWindow(limits.window_size, self._calls[-BEFORE:])
        self._armings += 1
        facts.append(WindowArmed(**self._place(), attempts=limits.window_size))
        return True

    def renew(self) -> None:
        """A user message of kind ``message``: the unnamed run may survive another blocked batch."""
        self._spent = False

    def continue_from(self, old: Run | None) -> None:
        """This run goes on from an old one: the error streak moves over, once."""
        if self._continued:
            return
        self._continued = True
        if old is not None and old is not self and old.errors.count and not self.errors.count:
            self.errors, old.errors = old.errors, self.errors

    def open_calls(self) -> int:
        """How many calls of this run are known to have started and not to have settled."""
        late = [*self.previous.slots, *self._remembered.values()] if self.previous is not self.batch else []
        return self.batch.running + sum(slot.state is State.RUNNING for slot in late)

    def _count_call(self, key: int) -> None:
        calls = self._calls
        calls.append(key)
        if len(calls) >= 2 * BEFORE:
            del calls[:BEFORE]

    def _place(self) -> dict[str, str | None]:
        return {"session_key": self.session_key, "run_id": self.run_id, "agent_id": self.agent_id}


def _fill(record: Record, settlement: Settlement) -> None:
    """What came of a call, into its record."""
    record.outcome = settlement.outcome
    record.failure = settlement.failure
    if settlement.status in _FAILURES:
        record.marks |= FAILED
    if settlement.status is Status.REJECTED:
        record.marks |= REJECTED
    if settlement.unknown_tool:
        record.marks |= UNKNOWN
    if settlement.unchanged:
        record.marks |= UNCHANGED


def _same_place(slot: Slot, index: int | None) -> bool:
    return index is None or slot.index is None or slot.index == index
