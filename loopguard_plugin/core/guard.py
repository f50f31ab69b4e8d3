"""The one funnel: ``Guard.feed(event, now) -> Step`` (SPEC 2).

Synchronous, no clock, no I/O, no logging, no randomness. Replay, buses, hosts and benchmarks all go through it. An
event is looked up among the calls that are known, observed (contents become digests), and decided on.
"""

from __future__ import annotations

from operator import attrgetter

from ..answers import PROCEED, Acknowledged, Blocked, Deliver, Effect, Fact, Step
from ..errors import EventError, TurnEndingError
from ..events import (
    BatchCall,
    CompactionRetry,
    Event,
    MessageKind,
    ToolCallSettled,
    ToolCallStarted,
    UserMessageCommitted,
    as_batch,
    check_batch,
    check_types,
)
from ..settings import Settings
from .batch import BLOCKED, FIRST, LISTED, OVER, RUNNING, Ending, Refusal, Slot
from .decide import begin, begin_listed, refuse_late, start
from .notes import Buckets, append_note
from .observe import observe_call, observe_settlement
from .run import Run
from .sessions import Sessions
from .settle import settle, settle_alone, settle_late

_PROCEEDS = Step(PROCEED)

# All names of an event that tell its run, in one look; and what the ordinary event leaves out.
_start_names = attrgetter("session_key", "run_id", "agent_id", "continues")
_settle_names = attrgetter("session_key", "run_id", "agent_id", "status")


class Guard:
    """Every session's state under one set of settings. Not safe for threads: callers that have several lock."""

    def __init__(self, settings: Settings) -> None:
        self._sessions = Sessions(settings.max_runs, settings.idle_minutes * 60)
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Other settings from the next event on; open runs keep their counts."""
        self._settings = settings
        self._latest = Run("", None, Buckets())  # the run used last, if what follows tells its events
        self._start_names: tuple[object, ...] = ()
        self._settle_names: tuple[object, ...] = ()
        self._sessions.bound(settings.max_runs, settings.idle_minutes * 60)

    @property
    def runs(self) -> int:
        """How many runs are open."""
        return len(self._sessions)

    def feed(self, event: Event, now: float) -> Step:
        """Judge one event. ``now``: seconds on any clock that only goes forward; it serves idle expiry alone.

        Raises :class:`EventError` for anything that is not a well-formed event; then nothing has changed.
        """
        kind = event.__class__
        facts: list[Fact] = []
        # What equals the names of the run used last needs neither checks nor look-ups, and most events do.
        if kind is ToolCallStarted:
            if _start_names(event) != self._start_names or now >= self._sessions.due:
                self._arrive(event, now, facts)
            return self._started(event, self._latest, now, facts)  # type: ignore[arg-type]  # its very class was compared
        if kind is ToolCallSettled:
            if _settle_names(event) != self._settle_names or now >= self._sessions.due:
                self._arrive(event, now, facts)
            return self._settled(event, self._latest, now, facts)  # type: ignore[arg-type]  # as above
        return self._other(event, now, facts)

    def _other(self, event: Event, now: float, facts: list[Fact]) -> Step:
        """The two rarer events; or an event of a class made from one of the four."""
        run = self._arrive(event, now, facts)
        if isinstance(event, ToolCallStarted):
            return self._started(event, run, now, facts)
        if isinstance(event, ToolCallSettled):
            return self._settled(event, run, now, facts)
        run.last_seen = now
        if isinstance(event, CompactionRetry):
            armed = run.arm(run.limits, facts)
            return Step(Acknowledged(Effect.ARMED if armed else Effect.IGNORED), None, tuple(facts))
        self._user_message(event, run)
        return Step(Acknowledged(Effect.RESET), None, tuple(facts))

    def ended(self, session_key: str, run_id: str | None = None) -> TurnEndingError | None:
        """The last error that ended the run's turn; None once a user wrote again or another batch was let through."""
        run = self._sessions.find(session_key.strip(), _trimmed(run_id))
        return _error(run, run.ending, None) if run is not None and run.ending is not None else None

    def end_run(self, session_key: str, run_id: str | None = None) -> tuple[Fact, ...]:
        """Forget a run; nothing happens if there is none."""
        facts: list[Fact] = []
        run = self._sessions.find(session_key.strip(), _trimmed(run_id))
        if run is not None:
            self._sessions.drop(run, facts)
            self._start_names = self._settle_names = ()
        return tuple(facts)

    def snapshot(self, now: float) -> bytes:
        """What is remembered, without contents; ``now`` as on :meth:`feed`. See :mod:`.snapshot` for what is inside."""
        from .snapshot import dump  # most guards are never asked

        return dump(self._sessions, now)

    def restore(self, data: bytes, now: float) -> None:
        """What a snapshot remembers, in place of what this guard does; runs take its settings at their next event.

        Raises :class:`SnapshotError` for bytes that cannot be used; then nothing has changed.
        """
        from .snapshot import load

        settings = self._settings
        self._sessions = load(data, now, settings.max_runs, settings.idle_minutes * 60)
        self._start_names = self._settle_names = ()

    def _arrive(self, event: Event, now: float, facts: list[Fact]) -> Run:
        """The event's run under the settings of its agent, once the event is known to be well-formed."""
        check_types(event)
        session_key = event.session_key.strip()
        if not session_key:
            raise EventError("session_key", "must not be blank")
        if isinstance(event, ToolCallStarted) and event.batch is not None:
            self._check_list(event)
        self._start_names = self._settle_names = ()
        run = self._sessions.touch(session_key, _trimmed(event.run_id), now, facts)
        agent_id = _trimmed(event.agent_id)
        if run.settings is not self._settings or (agent_id is not None and agent_id != run.agent_id):
            run.agent_id = agent_id or run.agent_id
            run.settings = self._settings
            run.limits = self._settings.resolve(run.agent_id)
            run.fit()
        self._latest = run
        self._start_names = (run.session_key, run.run_id, event.agent_id, None)
        self._settle_names = (run.session_key, run.run_id, event.agent_id, None)
        return run

    def _check_list(self, event: ToolCallStarted) -> None:
        """Look at a list that is new before anything is done for its sake: a run that is made may push out another."""
        run = self._sessions.find(event.session_key.strip(), _trimmed(event.run_id))
        batch_id = _trimmed(event.batch_id)
        if batch_id is not None and (run is None or not run.knows_batch(batch_id)):
            check_batch(event.batch)
        else:
            as_batch(event.batch)

    def _started(self, event: ToolCallStarted, run: Run, now: float, facts: list[Fact]) -> Step:
        batch_id, call_id, index = event.batch_id, event.call_id, event.index
        if (
            call_id.__class__ is not str
            or event.tool.__class__ is not str
            or (index is not None and (index.__class__ is not int or index < 0))
            or (batch_id is not None and batch_id.__class__ is not str)
        ):
            check_types(event)
        run.last_seen = now
        call_id = call_id.strip()
        if batch_id is None:
            fresh = not run.batch.running and not run.loose
        else:
            batch_id = batch_id.strip() or None
            fresh = batch_id != run.batch.batch_id and batch_id != run.previous.batch_id
            fresh = fresh and (run.left is None or not run.left.remembered)
        if fresh and event.continues is None and (event.batch is None or _is_alone(event)):
            slot = begin(run, batch_id, call_id, index, observe_call(event.tool, event.args, run.limits), facts)
        else:
            slot = _start_known(event, run, call_id, batch_id, facts, self._sessions)
        refusal = slot.refusal
        if refusal is None:
            return Step(PROCEED, None, tuple(facts)) if facts else _PROCEEDS
        if slot.ending is not None:
            return Step(None, _error(run, slot.ending, _blocked(refusal)), tuple(facts))
        return Step(_blocked(refusal), None, tuple(facts))

    def _settled(self, event: ToolCallSettled, run: Run, now: float, facts: list[Fact]) -> Step:
        slot = run.alone
        if (
            slot is not None
            and event.call_id == slot.call_id
            and (event.batch_id is None or event.batch_id == run.batch.batch_id)
            and (event.index is None or (event.index == slot.index and event.index.__class__ is int))
            and event.tool.__class__ is str
            and event.deliverable is True
        ):  # the ordinary settlement: of the only call of the current batch, which runs
            run.last_seen = now
            run.alone = None
            settlement = observe_settlement(event, slot.call, run.history is not None or run.window is not None)
            settle(run, slot, settlement, True, facts)
        else:
            check_types(event)
            run.last_seen = now
            slot = _settle_other(event, run, facts)
        if slot.note is None and slot.ending is None and not facts:
            return Step(Deliver(event.result, event.error, None, None, 0, slot.ignored))
        answer = _delivered(event, slot)
        if slot.ending is not None and slot.refusal is None:
            return Step(None, _error(run, slot.ending, answer), tuple(facts))
        return Step(answer, None, tuple(facts))

    def _user_message(self, event: UserMessageCommitted, run: Run) -> None:
        session = self._sessions.session(run.session_key)
        message_id = _trimmed(event.message_id)
        if session is None or (message_id is not None and not session.is_new(message_id)):
            return
        session.buckets.tell_anew()
        for one in session.runs.values():
            one.new_input()
        if event.kind == MessageKind.MESSAGE and None in session.runs:
            session.runs[None].renew()


def _is_alone(event: ToolCallStarted) -> bool:
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


def _start_known(
    event: ToolCallStarted, run: Run, call_id: str, batch_id: str | None, facts: list[Fact], sessions: Sessions
) -> Slot:
    """A start that may have come before, or belongs to a batch that is known, or comes while calls are open."""
    if event.batch is not None:
        as_batch(event.batch)
    slot = run.known_start(call_id, batch_id, event.index)
    if slot is not None and slot.state is not LISTED and not run.settled_unstarted(slot):
        return slot
    over = None if batch_id is None else run.closed_batch(batch_id)
    listed = slot is None and over is None and batch_id != run.batch.batch_id and not _is_alone(event)
    if listed:
        check_batch(event.batch)  # before anything is done
    if event.continues is not None:
        run.continue_from(sessions.find(run.session_key, _trimmed(event.continues)))
    if slot is not None:
        slot.state = LISTED
        run.alone = None
        start(run, slot, facts)
        return slot
    if over is not None and over is not run.batch:
        return refuse_late(run, over, call_id, event.index, observe_call(event.tool, event.args, run.limits))
    if batch_id is not None and batch_id == run.batch.batch_id:
        run.alone = None
        slot = run.batch.add(call_id, event.index, observe_call(event.tool, event.args, run.limits))
        start(run, slot, facts)
        return slot
    if listed and batch_id is not None:
        return _start_listed(event, run, call_id, batch_id, facts)
    return begin(run, batch_id, call_id, event.index, observe_call(event.tool, event.args, run.limits), facts)


def _start_listed(event: ToolCallStarted, run: Run, call_id: str, batch_id: str, facts: list[Fact]) -> Slot:
    """The first start of a new batch whose whole list it carries.

    Of a batch that comes back after another one, the calls that started before are left out of the list.
    """
    limits = run.limits
    listed = [
        (at, one.call_id.strip(), observe_call(one.tool, one.args, limits))
        for at, one in enumerate(event.batch or ())
        if not run.has_started(one.call_id.strip(), batch_id, at)
    ]
    begin_listed(run, batch_id, listed, facts)
    slot = run.batch.find(call_id, event.index, fresh=True)
    if slot is None:
        slot = run.batch.add(call_id, event.index, observe_call(event.tool, event.args, limits))
    start(run, slot, facts)
    return slot


def _settle_other(event: ToolCallSettled, run: Run, facts: list[Fact]) -> Slot:
    """A settlement of one call among several, a late or a repeated one, or one whose start was never seen."""
    batch_id, call_id = _trimmed(event.batch_id), event.call_id.strip()
    slot = run.known_settlement(call_id, batch_id, event.index)
    if slot is None:
        slot = Slot(call_id, event.index, FIRST, observe_call(event.tool, event.args, run.limits))
        if batch_id is not None and run.closed_batch(batch_id) is not None:
            slot.ignored = True
        else:
            settlement = observe_settlement(event, slot.call, run.wants_outcomes())
            settle_alone(run, slot, batch_id, settlement, facts)
    elif slot.state is RUNNING or slot.state is LISTED:
        if slot is run.alone:
            run.alone = None
        current = run.batch.holds(slot)
        if slot.state is LISTED and (run.batch if current else run.previous).closed:
            slot.state = OVER
            slot.ignored = True
            return slot
        settlement = observe_settlement(event, slot.call, run.wants_outcomes())
        if current:
            settle(run, slot, settlement, event.deliverable, facts)
        else:
            settle_late(run, slot, settlement, facts)
    elif slot.state is BLOCKED:
        slot.state = OVER
        slot.ignored = True
        run.count_open()
    return slot


def _trimmed(name: str | None) -> str | None:
    """A name that may be absent; blank is as good as absent."""
    return None if name is None else name.strip() or None


def _blocked(refusal: Refusal) -> Blocked:
    return Blocked(refusal.reason, refusal.detector, refusal.count, refusal.terminal)


def _delivered(event: ToolCallSettled, slot: Slot) -> Deliver:
    """The answer to a settlement: what it brought, with the note that its call was given."""
    note = slot.note
    if note is None:
        return Deliver(event.result, event.error, ignored=slot.ignored)
    result, error = event.result, event.error
    if error is not None:
        error = append_note(error, note.text)
    else:
        result = append_note(result, note.text)
    return Deliver(result, error, note.text, note.detector, note.count)


def _error(run: Run, ending: Ending, answer: Deliver | Blocked | None) -> TurnEndingError:
    return TurnEndingError(
        code=ending.code,
        message=ending.message,
        session_key=run.session_key,
        run_id=run.run_id,
        tool=ending.tool,
        count=ending.count,
        detector=ending.detector,
        answer=answer,
    )
