"""The contract as slow, obvious code: plain lists, nothing cached, everything counted anew at every event.

Written straight from SPEC 2, 4 and 6 to 10, to hold the real core to it. What a call or a result *is* (SPEC 3, 5) is
left to a :class:`Sight`: ``model_sight.py`` has a small one of its own, and the tests may plug in the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from model_streaks import FAILURES, Identity, Item, Limits, Past, Seen, Verdict, alike, judge

from loopguard_plugin.events import (
    CompactionRetry,
    Event,
    MessageKind,
    ToolCallSettled,
    ToolCallStarted,
    UserMessageCommitted,
)

NOT_RUN = ("blocked", "skipped", "aborted")
REMEMBERED = 64


class Answer(NamedTuple):
    """What an event comes to: action, detector, count and code of a ``--json`` line (SPEC 14).

    The count is called ``times`` here: a tuple already has a method of that name.
    """

    action: str
    detector: str | None = None
    times: int = 0
    code: str | None = None


class Sight(Protocol):
    """How calls and results are compared."""

    def call(self, tool: str, args: object) -> Identity:
        """Which call is asked for."""

    def settled(self, event: ToolCallSettled, tool: str, args: object) -> Seen:
        """What came of it. ``tool`` and ``args`` are those of the start."""


@dataclass(eq=False)
class Record:
    """One line of a run's history. ``batch``: whose sibling it is; None: a call of its own."""

    call: Identity
    batch: Batch | None
    veto: bool = False
    seen: Seen | None = None


@dataclass(eq=False)
class Call:
    """One call of a batch. ``state``: ``listed`` (not started), ``open``, ``blocked`` or ``settled``."""

    batch: Batch
    call_id: str
    index: int | None
    tool: str
    args: object
    identity: Identity
    number: int
    state: str = "listed"
    started: Answer | None = None
    verdict: Verdict | None = None
    record: Record | None = None
    seen: Seen | None = None
    seen_at: int = 0
    planned: bool = False
    """It was in the batch's list."""
    waiting: bool = False
    """Settled, but not applied yet."""
    answer: Answer | None = None
    """What its settlement was answered."""
    left_over: bool = False
    """Open or blocked when its batch ended."""


@dataclass(eq=False)
class Batch:
    """The calls of one response. ``full``: the first start brought the whole list, which is ``calls``."""

    batch_id: str | None
    full: bool = False
    calls: list[Call] = field(default_factory=list)
    block: Answer | None = None
    culprit: Identity | None = None
    error: Answer | None = None
    raised: bool = False
    ended: bool = False

    def in_model_order(self) -> list[Call]:
        """By index; where there is none, in order of starting."""
        if self.full:
            return self.calls
        places = [(call.index if call.index is not None else at, at) for at, call in enumerate(self.calls)]
        return [self.calls[at] for _, at in sorted(places)]

    def running(self) -> bool:
        """Whether a started call has not settled."""
        return any(call.state == "open" for call in self.calls)

    def refusal(self) -> Answer | None:
        """What a start gets once the batch is blocked, or owes or has raised an error (SPEC 8)."""
        if self.error is not None:
            return Answer("block", self.error.detector, self.error.times)
        return self.block

    def block_unstarted(self) -> None:
        """Whatever has not started will not run."""
        for call in self.calls:
            if call.state == "listed":
                call.state = "blocked"


@dataclass(eq=False)
class Run:
    """One run of a session."""

    agent_id: str | None = None
    history: list[Record] = field(default_factory=list)
    current: Batch | None = None
    before: Batch | None = None
    older: list[Call] = field(default_factory=list)
    """Calls of older batches that were open or blocked when their batch ended."""
    own: list[Call] = field(default_factory=list)
    """Settlements that had no start."""
    streak: list[Hashable] = field(default_factory=list)
    """The identical failures up to now, one entry each (SPEC 4)."""
    continued: list[str] = field(default_factory=list)
    allowance_used: bool = False
    armed_at: int | None = None
    window_size: int = 0
    window: list[Hashable] = field(default_factory=list)
    ended: Answer | None = None
    """The last error raised, until something new begins (SPEC 9)."""
    remembered: list[tuple[Identity, Seen]] = field(default_factory=list)
    """The last outcome of the calls made most recently, newest last (SPEC 11.2)."""
    stale: list[list[Identity]] = field(default_factory=list)
    """The stale responses in a row, each with its calls."""
    failing: list[list[Identity]] = field(default_factory=list)
    """The responses in a row that failed, each with the calls that did."""

    def forget_responses(self) -> None:
        """Nothing before makes a response stale."""
        self.remembered, self.stale = [], []

    def remembers(self, call: Identity) -> bool:
        return any(known.key == call.key for known, _ in self.remembered)

    def known(self) -> list[Call]:
        """Every call that is still remembered, newest first."""
        batches = [batch for batch in (self.current, self.before) if batch is not None]
        calls = [call for batch in batches for call in batch.calls] + self.older + self.own
        return sorted(calls, key=lambda call: -call.number)


@dataclass(eq=False)
class Session:
    """One conversation. ``buckets``: (run, warning key) and the last bucket, oldest inserted first."""

    runs: dict[str | None, Run] = field(default_factory=dict)
    message_ids: list[str] = field(default_factory=list)
    buckets: list[tuple[tuple[str | None, Hashable], int]] = field(default_factory=list)


class Model:
    """Plays events one by one. ``limits`` gives the settings of an agent (None: the default one)."""

    def __init__(self, limits: Callable[[str | None], Limits], sight: Sight) -> None:
        self.limits = limits
        self.sight = sight
        self.sessions: dict[str, Session] = {}
        self.clock = 0

    def play(self, event: Event) -> Answer:
        """The answer to the next event."""
        self.clock += 1
        session = self.sessions.setdefault(event.session_key.strip(), Session())
        run_id = trimmed(event.run_id)
        run = session.runs.setdefault(run_id, Run())
        run.agent_id = trimmed(event.agent_id) or run.agent_id
        limits = self.limits(run.agent_id)
        if isinstance(event, UserMessageCommitted):
            return user_message(session, event)
        if isinstance(event, CompactionRetry):
            return self.compaction(run, limits)
        if isinstance(event, ToolCallStarted):
            continue_from(session, run, trimmed(event.continues))
            return self.start(run, limits, event)
        return self.settle(session, run_id, limits, event)

    def ended(self, session_key: str, run_id: str | None) -> Answer | None:
        """The error that a loop which gathers many publishers is given again (SPEC 9)."""
        session = self.sessions.get(session_key.strip(), Session())
        return session.runs.get(trimmed(run_id), Run()).ended

    def end_run(self, session_key: str, run_id: str | None = None) -> None:
        """The run is over: it is forgotten with its bucket keys, and the session with its last run."""
        session = self.sessions.get(session_key.strip(), Session())
        session.runs.pop(trimmed(run_id), None)
        session.buckets = [entry for entry in session.buckets if entry[0][0] != trimmed(run_id)]
        if not session.runs:
            self.sessions.pop(session_key.strip(), None)

    # Starts (SPEC 2, 6, 8, 9)

    def start(self, run: Run, limits: Limits, event: ToolCallStarted) -> Answer:
        batch_id, call_id = trimmed(event.batch_id), event.call_id.strip()
        call = find_start(run, batch_id, call_id, event.index)
        if call is not None and call.started is not None:
            return call.started
        batch = run.current
        if batch is None or batch_id is None or batch.batch_id != batch_id:
            ended = call.batch if call is not None else run.before
            refusal = ended.refusal() if ended is not None and ended.batch_id == batch_id else None
            if ended is not None and refusal is not None and batch_id is not None:
                call = call or self.new_call(ended, event)
                call.state = "blocked" if call.state == "listed" else call.state
                call.started, call.left_over = refusal, True
                return refusal
            before = self.started_before(run, event, batch_id)
            owed = self.end_batch(run, limits)
            batch = self.begin_batch(run, event, batch_id, before)
            run.current = batch
            call = find_start(run, batch_id, call_id, event.index) if batch.full else None
            if call is None or call.batch is not batch:
                call = self.new_call(batch, event)
            if owed is not None:
                batch.error, batch.raised, run.ended = owed, True, owed
                batch.block_unstarted()
                call.started = owed
                return owed
            if batch.full and limits.enabled is True:
                self.judge_whole(run, limits, batch)
        elif call is None:
            call = self.new_call(batch, event)
        call.started = self.admit(run, limits, batch, call)
        return call.started

    def new_call(self, batch: Batch, event: ToolCallStarted) -> Call:
        identity = self.sight.call(event.tool, event.args)
        call = Call(batch, event.call_id.strip(), event.index, event.tool, event.args, identity, self.clock)
        batch.calls.append(call)
        return call

    def started_before(self, run: Run, event: ToolCallStarted, batch_id: str | None) -> set[int]:
        """Places of a batch that comes back whose calls started before another batch ended it."""
        places = set()
        for at, one in enumerate(event.batch or ()):
            known = find_start(run, batch_id, one.call_id.strip(), at) if batch_id is not None else None
            if known is not None and known.started is not None:
                places.add(at)
        return places

    def begin_batch(self, run: Run, event: ToolCallStarted, batch_id: str | None, before: set[int]) -> Batch:
        batch = Batch(batch_id)
        if batch_id is not None and event.batch:
            batch.full = True
            for at, one in enumerate(event.batch):
                if at in before:
                    continue
                identity = self.sight.call(one.tool, one.args)
                call = Call(batch, one.call_id.strip(), at, one.tool, one.args, identity, self.clock, planned=True)
                batch.calls.append(call)
                for own in settled_before(run, call):
                    call.state, call.answer = "settled", own.answer
                    run.own.remove(own)
        return batch

    def end_batch(self, run: Run, limits: Limits) -> Answer | None:
        """The current batch is over; what is still open counts as aborted. Gives the error that it still owes."""
        batch = run.current
        if batch is None:
            return None
        for call in batch.in_model_order():
            if call.waiting:
                batch.error = first(batch.error, self.apply(run, call, limits))
        batch.ended = True
        count_response(run, limits, [record for record in run.history if record.batch is batch])
        for call in batch.calls:
            call.left_over = call.state in ("open", "blocked")
        if run.before is not None:
            run.older = (run.older + [call for call in run.before.calls if call.left_over])[-REMEMBERED:]
        run.before, run.current = batch, None
        return None if batch.raised else batch.error

    def judge_whole(self, run: Run, limits: Limits, batch: Batch) -> None:
        """Atomic admission: every verdict is fixed now, each call seeing its earlier siblings as vetoes."""
        past, beside = in_view(run, limits), past_of(run, limits, batch)
        asked = [call for call in batch.calls if call.state == "listed"]
        for call in asked:
            call.verdict = judge(past, call.identity, limits, beside)
            past.append(Item(call.identity, True, None))
        for call in asked:
            if call.verdict is not None and call.verdict.critical:
                self.block(run, batch, call, call.verdict)
                for sibling in asked:
                    if sibling.identity.key == call.identity.key:
                        run.history.append(Record(sibling.identity, batch, veto=True))
                return

    def admit(self, run: Run, limits: Limits, batch: Batch, call: Call) -> Answer:
        """The answer to the first start of a call of the current batch."""
        if batch.refusal() is None and not call.planned and limits.enabled is True:
            call.verdict = judge(in_view(run, limits), call.identity, limits, past_of(run, limits, batch))
            if call.verdict is not None and call.verdict.critical:
                self.block(run, batch, call, call.verdict)
        refusal = batch.refusal()
        if refusal is not None:
            batch.block_unstarted()
            if not call.planned and batch.culprit is not None and batch.culprit.key == call.identity.key:
                run.history.append(Record(call.identity, batch, veto=True))
            self.advance(run, batch, limits)
            return conclude(run, batch, refusal)
        if call.state == "listed":
            call.state, call.number = "open", self.clock
            if limits.enabled is True:
                call.record = Record(call.identity, batch)
                run.history.append(call.record)
        run.ended = None
        return Answer("proceed")

    def block(self, run: Run, batch: Batch, culprit: Call, verdict: Verdict) -> None:
        """One critical verdict refuses whatever of the batch has not started; the second time the run ends."""
        batch.culprit = culprit.identity
        batch.block = Answer("block", verdict.detector, verdict.times)
        if run.allowance_used and batch.error is None:
            batch.error = Answer("end_turn", verdict.detector, verdict.times, "tool_loop_persisted")
        run.allowance_used = True
        batch.block_unstarted()

    # Settlements (SPEC 2, 4, 7, 8)

    def settle(self, session: Session, run_id: str | None, limits: Limits, event: ToolCallSettled) -> Answer:
        run = session.runs[run_id]
        batch_id, call_id = trimmed(event.batch_id), event.call_id.strip()
        call = find_settled(run, batch_id, call_id, event.index)
        if call is not None and call.answer is not None:
            return call.answer
        if call is None and refused(run, batch_id):
            return Answer("ignored")
        if call is None:
            identity = self.sight.call(event.tool, event.args)
            stray = Batch(batch_id, ended=True)
            call = Call(stray, call_id, event.index, event.tool, event.args, identity, self.clock)
            run.own = [*run.own, call][-REMEMBERED:]
        was, call.state = call.state, "settled"
        call.seen, call.seen_at = self.sight.settled(event, call.tool, call.args), self.clock
        if was == "blocked":
            call.answer = Answer("ignored")
        elif call.batch is run.current:
            call.answer = self.settle_in_time(session, run_id, limits, call, event.deliverable)
        else:
            call.answer = self.settle_late(run, limits, call)
        return call.answer

    def settle_in_time(
        self, session: Session, run_id: str | None, limits: Limits, call: Call, deliverable: bool
    ) -> Answer:
        run = session.runs[run_id]
        status = seen_of(call).status
        if call.started is None and status not in NOT_RUN and limits.enabled is True:
            call.record = Record(call.identity, call.batch)
            run.history.append(call.record)
        answer = Answer("ignored" if status == "blocked" and call.started is None else "deliver")
        if call.verdict is not None and deliverable and status not in NOT_RUN:
            answer = note(session, run_id, call.verdict) or answer
        call.waiting = True
        self.advance(run, call.batch, limits)
        return conclude(run, call.batch, answer)

    def settle_late(self, run: Run, limits: Limits, call: Call) -> Answer:
        """A call of its own, or one whose batch has ended: counted on arrival, without a note."""
        seen = seen_of(call)
        if seen.status in NOT_RUN:
            self.apply(run, call, limits)
            return Answer("ignored" if seen.status == "blocked" and call.started is None else "deliver")
        if limits.enabled is True and not any(record is call.record for record in window(run, limits)):
            call.record = Record(call.identity, None)
            run.history.append(call.record)
        error = self.apply(run, call, limits)
        if error is None:
            return Answer("deliver")
        batch = run.current
        if batch is not None and batch.error is None:
            batch.error = error
            batch.block_unstarted()
            self.advance(run, batch, limits)
        if batch is not None and batch.running():
            return Answer("deliver")
        if batch is not None:
            batch.raised = True
        run.ended = error
        return error

    def advance(self, run: Run, batch: Batch, limits: Limits) -> None:
        """Apply what has settled, in model call order, up to the first call that holds the rest up."""
        for call in batch.in_model_order():
            if call.state in ("open", "listed"):
                return
            if call.waiting:
                error = self.apply(run, call, limits)
                if error is not None and batch.error is None:
                    batch.error = error
                    batch.block_unstarted()

    def apply(self, run: Run, call: Call, limits: Limits) -> Answer | None:
        """One outcome counts now. The error that it makes, if any; of both guards, that of SPEC 4."""
        call.waiting = False
        seen = seen_of(call)
        if seen.status in NOT_RUN:
            if seen.status == "blocked" and call.record is not None:
                call.record.veto = True
            return None
        if call.record is not None:
            call.record.seen = seen
        repeated = repeated_error(run, call.identity, seen, limits)
        persisted = self.compaction_loop(run, call, seen, limits)
        return first(repeated, persisted)

    # The guard after a compaction (SPEC 10)

    def compaction(self, run: Run, limits: Limits) -> Answer:
        run.forget_responses()
        if limits.enabled is False:
            return Answer("ignored")
        run.armed_at, run.window, run.window_size = self.clock, [], max(2, limits.window)
        return Answer("armed")

    def compaction_loop(self, run: Run, call: Call, seen: Seen, limits: Limits) -> Answer | None:
        if run.armed_at is None or call.seen_at < run.armed_at:
            return None
        compared = seen.outcome if seen.failure is None else seen.failure
        run.window.append((call.identity.key, seen.identity() if limits.similar and failed(seen) else compared))
        if len(run.window) < run.window_size:
            return None
        run.armed_at = None
        if any(triple != run.window[0] for triple in run.window):
            return None
        return Answer("end_turn", "compaction_loop_persisted", len(run.window), "compaction_loop_persisted")


def failed(seen: Seen) -> bool:
    return seen.status in FAILURES


def count_response(run: Run, limits: Limits, response: list[Record]) -> None:
    """A response is over: is it stale, and did it fail (SPEC 11.2)? Its calls in the order of the history."""
    settled = [record for record in response if record.seen is not None and not record.veto]
    if any(not failed(seen) for _, seen in outcomes_of(settled)):
        run.failing = []
    elif settled:
        run.failing.append([record.call for record in settled])
    watched = [record for record in response if (record.call.tool, "stagnation") not in limits.exempt]
    news, said = False, [record.call for record in watched if record.veto]
    for call, seen in outcomes_of(watched):
        known = [was for one, was in run.remembered if one.key == call.key]
        news = news or not known or not alike(known[0], seen)
        run.remembered = [entry for entry in run.remembered if entry[0].key != call.key] + [(call, seen)]
        run.remembered = run.remembered[-REMEMBERED:]
        said.append(call)
    if news:
        run.stale = []
    elif said:
        run.stale.append(said)


def outcomes_of(response: list[Record]) -> list[tuple[Identity, Seen]]:
    return [(record.call, record.seen) for record in response if record.seen is not None and not record.veto]


def past_of(run: Run, limits: Limits, batch: Batch) -> Past:
    """The stale responses that a call of this batch goes on with, and the responses that failed."""
    different = {call.key for response in run.stale for call in response}
    watched = [call for call in batch.calls if (call.identity.tool, "stagnation") not in limits.exempt]
    speaks = len(different) >= 3 and all(run.remembers(call.identity) for call in watched)
    return Past(len(run.stale) if speaks else 0, run.failing)


def repeated_error(run: Run, call: Identity, seen: Seen, limits: Limits) -> Answer | None:
    """Consecutive identical failures; the third and every further one ends the turn (SPEC 4)."""
    if seen.status not in FAILURES:
        run.streak = []
        return None
    failure = (call.key, seen.identity() if limits.similar else seen.outcome)
    if run.streak and run.streak[-1] != failure:
        run.streak = []
    run.streak.append(failure)
    if len(run.streak) < 3:
        return None
    return Answer("end_turn", "repeated_tool_error", len(run.streak), "repeated_tool_error")


def conclude(run: Run, batch: Batch, answer: Answer) -> Answer:
    """The answer, or the error that the batch owes once none of its calls is running."""
    if batch.error is None or batch.raised or batch.running():
        return answer
    batch.raised, run.ended = True, batch.error
    return batch.error


def note(session: Session, run_id: str | None, verdict: Verdict) -> Answer | None:
    """A note, if its bucket is larger than the last one of the same key (SPEC 7)."""
    key, bucket = (run_id, verdict.key), verdict.times // 10
    for at, (known, last) in enumerate(session.buckets):
        if known == key:
            if bucket <= last:
                return None
            session.buckets[at] = (key, bucket)
            break
    else:
        session.buckets = [*session.buckets, (key, bucket)][-256:]
    return Answer("note", verdict.detector, verdict.times)


def user_message(session: Session, event: UserMessageCommitted) -> Answer:
    """A fresh count of errors for all runs, and for the unnamed run a fresh allowance (SPEC 4, 9)."""
    message_id = trimmed(event.message_id)
    if message_id is not None:
        if message_id in session.message_ids:
            return Answer("reset")
        session.message_ids = [*session.message_ids, message_id][-256:]
    for run_id, run in session.runs.items():
        run.streak, run.ended = [], None
        run.forget_responses()
        if run_id is None and event.kind == MessageKind.MESSAGE:
            run.allowance_used = False
    return Answer("reset")


def continue_from(session: Session, run: Run, old_id: str | None) -> None:
    """The error streak moves over from the run that this one goes on from (SPEC 4)."""
    if old_id is None or old_id in run.continued:
        return
    run.continued.append(old_id)
    old = session.runs.get(old_id)
    if old is not None and not run.streak:
        run.streak, old.streak = old.streak, []


def find_start(run: Run, batch_id: str | None, call_id: str, index: int | None) -> Call | None:
    """The call that this start names: first a place of the list that has not started, else a known one."""
    alike = [call for call in run.known() if call.call_id == call_id and same_index(call, index)]
    alike = [call for call in alike if call.batch.batch_id == batch_id and call not in run.own]
    if batch_id is None:
        alike = [call for call in alike if call.state in ("open", "blocked")]
    unstarted = [call for call in alike if call.started is None and call.batch is run.current]
    return next(iter(unstarted + alike), None)


def settled_before(run: Run, call: Call) -> list[Call]:
    """The settlement without a start that was of this listed call: it counts as settled (SPEC 8)."""
    own = [one for one in run.own if one.batch.batch_id == call.batch.batch_id and one.call_id == call.call_id]
    return [one for one in own if same_index(one, call.index)][:1]


def find_settled(run: Run, batch_id: str | None, call_id: str, index: int | None) -> Call | None:
    """The call that this settlement names: the newest one not over, else a place of the list, else a settled one."""
    alike = [call for call in run.known() if call.call_id == call_id and same_index(call, index)]
    if batch_id is not None:
        alike = [call for call in alike if call.batch.batch_id == batch_id]
    for states in (("open", "blocked"), ("listed",), ("settled",)):
        for call in alike:
            if call.state in states:
                return call
    return None


def refused(run: Run, batch_id: str | None) -> bool:
    """Whether that batch was blocked or has an error: then unknown calls of it are no calls of their own."""
    batches = [batch for batch in (run.current, run.before) if batch is not None and batch_id is not None]
    return any(batch.batch_id == batch_id and batch.refusal() is not None for batch in batches)


def window(run: Run, limits: Limits) -> list[Record]:
    """The history as the detectors know it: the newest calls, and beside them the siblings of the open batch."""
    ordinary = [record for record in run.history if not is_sibling(run, record)]
    kept = ordinary[-limits.history :]
    return [record for record in run.history if is_sibling(run, record) or record in kept]


def is_sibling(run: Run, record: Record) -> bool:
    """Whether it belongs to the batch that is still open."""
    return record.batch is not None and record.batch is run.current


def in_view(run: Run, limits: Limits) -> list[Item]:
    """The window with the siblings of the open batch as vetoes, whatever came of them (SPEC 8)."""
    items = []
    for record in window(run, limits):
        projected = Item(record.call, True, None)
        items.append(projected if is_sibling(run, record) else Item(record.call, record.veto, record.seen))
    return items


def same_index(call: Call, index: int | None) -> bool:
    return index is None or call.index is None or call.index == index


def seen_of(call: Call) -> Seen:
    assert call.seen is not None
    return call.seen


def first(one: Answer | None, other: Answer | None) -> Answer | None:
    return one if one is not None else other


def trimmed(name: str | None) -> str | None:
    """An id as it is compared: blank is none."""
    return (name or "").strip() or None
