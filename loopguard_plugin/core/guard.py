"""The one funnel: ``Guard.feed(event, now) -> Step`` (SPEC 2).

Synchronous, no clock, no I/O, no logging, no randomness. Replay, buses, hosts and benchmarks all go through it. An
event is looked up among the calls that are known, observed (contents become digests), and decided on.
"""

from __future__ import annotations

from typing import Final

from ..answers import Acknowledged, AgentsUnnamed, Effect, Fact, FailureInside, SessionRefused, Step
from ..errors import EventError, TurnEndingError
from ..events import (
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
from .batch import BLOCKED, FIRST, LISTED, OVER, RUNNING, SETTLED, Batch, Slot
from .decide import begin, begin_anew, begin_listed, refuse_late, refuse_settled, start
from .names import LONGEST, trimmed, trimmed_or_none
from .notes import Buckets
from .observe import identify, observe_settlement
from .ordinary import is_alone, settle_ordinary, start_ordinary
from .run import Place, Run
from .sessions import Sessions
from .settle import settle, settle_alone, settle_late
from .steps import error_of, settled, started
from .troubles import NOTED, take

_NO_SESSION: Final = object()


class Guard:
    """Every session's state under one set of settings. Not safe for threads: callers that have several lock."""

    def __init__(self, settings: Settings) -> None:
        self._sessions = Sessions(settings.max_runs, settings.idle_minutes * 60)
        self._agents_settled = False  # an event has named an agent, or it was told that none does
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Other settings from the next event on; open runs keep their counts."""
        self._settings = settings
        self._latest = Run("", None, Buckets())
        self._leave()
        self._sessions.bound(settings.max_runs, settings.idle_minutes * 60)
        self._wants_agent = not self._agents_settled and settings.default_agent is None and bool(settings.own_agents)

    @property
    def runs(self) -> int:
        """How many runs are open."""
        return len(self._sessions)

    def feed(self, event: Event, now: float) -> Step:
        """Judge one event. ``now``: seconds on any clock that only goes forward; it serves idle expiry alone.

        Raises :class:`EventError` for anything that is not a well-formed event; then nothing has changed. After any
        other exception, which would be a mistake in here, the event's run starts afresh.
        """
        if NOTED:
            take()  # left by somebody who observes without a guard
        try:
            # An event with the names of the one before it needs neither checks nor look-ups, and most events have them.
            kind = event.__class__
            if kind is ToolCallStarted:
                if (
                    event.session_key == self._session_key
                    and event.run_id == self._run_id
                    and (event.agent_id is self._agent_id or event.agent_id == self._agent_id)
                    and now < self._sessions.due
                ):
                    run = self._latest
                    step = start_ordinary(event, run, now) or self._started(event, run, now, [])  # type: ignore[arg-type]  # its very class was compared
                    return step if not NOTED else self._with_noted(step, event)
            elif kind is ToolCallSettled and (
                event.session_key == self._session_key
                and event.run_id == self._run_id
                and (event.agent_id is self._agent_id or event.agent_id == self._agent_id)
                and now < self._sessions.due
            ):
                run = self._latest
                step = settle_ordinary(event, run, now) or self._settled(event, run, now, [])  # type: ignore[arg-type]  # as above
                return step if not NOTED else self._with_noted(step, event)
            step = self._look_up(event, now)
        except EventError:
            raise
        except Exception:
            self._start_afresh(event)
            raise
        return step if not NOTED else self._with_noted(step, event)

    def _look_up(self, event: Event, now: float) -> Step:
        """Judge an event whose run is to be found first."""
        facts: list[Fact] = []
        run = self._arrive(event, now, facts)
        if isinstance(event, ToolCallStarted):
            return (None if facts else start_ordinary(event, run, now)) or self._started(event, run, now, facts)
        if isinstance(event, ToolCallSettled):
            return (None if facts else settle_ordinary(event, run, now)) or self._settled(event, run, now, facts)
        run.last_seen = now
        if isinstance(event, CompactionRetry):
            run.forget_responses()
            armed = run.arm(run.limits, facts)
            return Step(Acknowledged(Effect.ARMED if armed else Effect.IGNORED), None, tuple(facts))
        self._user_message(event, run)
        return Step(Acknowledged(Effect.RESET), None, tuple(facts))

    def _with_noted(self, step: Step, event: Event) -> Step:
        """The step with what the observing half got over."""
        place: Place = {"session_key": event.session_key, "run_id": event.run_id, "agent_id": event.agent_id}
        tool = event.tool if isinstance(event, (ToolCallStarted, ToolCallSettled)) else None
        noted = [FailureInside(**place, kind=kind, place=at, tool=tool) for kind, at in take()]
        return step if not noted else Step(step.answer, step.error, (*step.facts, *noted))

    def _start_afresh(self, event: Event) -> None:
        """The run in which something went wrong forgets all it knew: no later event of it may fail for that."""
        take()
        self._leave()
        run = self._sessions.find(trimmed(event.session_key), trimmed_or_none(event.run_id))
        if run is not None:
            self._sessions.renew(run)

    def ended(self, session_key: str, run_id: str | None = None) -> TurnEndingError | None:
        """The last error that ended the run's turn; None once a user wrote again or another batch was let through."""
        run = self._sessions.find(trimmed(session_key), trimmed_or_none(run_id))
        return error_of(run, run.ending, None) if run is not None and run.ending is not None else None

    def end_run(self, session_key: str, run_id: str | None = None) -> tuple[Fact, ...]:
        """Forget a run; nothing happens if there is none."""
        facts: list[Fact] = []
        run = self._sessions.find(trimmed(session_key), trimmed_or_none(run_id))
        if run is not None:
            self._sessions.drop(run, facts)
            self._leave()
        return tuple(facts)

    def snapshot(self, now: float) -> bytes:
        """What is remembered, without contents; ``now`` as on :meth:`feed`. See :mod:`.snapshot` for what is inside."""
        from .snapshot import dump  # most guards are never asked

        return dump(self._sessions, now)

    def restore(self, data: bytes, now: float) -> tuple[SessionRefused, ...]:
        """What a snapshot remembers, in place of what this guard does; runs take its settings at their next event.

        Answers the sessions that could not be restored, with the reason; these start afresh. Raises
        :class:`SnapshotError` for bytes of which nothing can be used; then nothing has changed.
        """
        from .snapshot import load

        settings = self._settings
        self._sessions, refused = load(data, now, settings.max_runs, settings.idle_minutes * 60)
        self._leave()
        return refused

    def _leave(self) -> None:
        """The next event is looked up, whatever its names."""
        self._session_key: object = _NO_SESSION

    def _arrive(self, event: Event, now: float, facts: list[Fact]) -> Run:
        """The event's run under the settings of its agent, once the event is known to be well-formed."""
        check_types(event)
        session_key = trimmed(event.session_key)
        if not session_key:
            raise EventError("session_key", "must not be blank")
        if isinstance(event, ToolCallStarted) and event.batch is not None:
            self._check_list(event)
        self._leave()
        run = self._sessions.touch(session_key, trimmed_or_none(event.run_id), now, facts)
        agent_id = trimmed_or_none(event.agent_id)
        if run.settings is not self._settings or (agent_id is not None and agent_id != run.agent_id):
            run.agent_id = agent_id or run.agent_id
            run.settings = self._settings
            run.limits = self._settings.resolve(run.agent_id)
            run.fit()
        self._latest = run
        self._session_key, self._run_id, self._agent_id = session_key, run.run_id, event.agent_id
        if event.agent_id is not None and len(event.agent_id) > LONGEST:
            self._leave()
            self._agent_id = None
        if self._wants_agent:
            self._look_for_agent(event, run, facts)
        return run

    def _look_for_agent(self, event: Event, run: Run, facts: list[Fact]) -> None:
        """Tell once that per-agent settings apply to nobody: at the first settlement in a run that names no agent.

        An agent in any event ends this, for then the gateway does name agents. Until one of the two, no event takes
        the short way past the look-up.
        """
        if run.agent_id is None and not isinstance(event, ToolCallSettled):
            self._leave()
            return
        if run.agent_id is None:
            facts.append(AgentsUnnamed(**run.place(), agents=self._settings.own_agents))
        self._agents_settled, self._wants_agent = True, False

    def _check_list(self, event: ToolCallStarted) -> None:
        """Look at a list that is new before anything is done for its sake: a run that is made may push out another."""
        run = self._sessions.find(trimmed(event.session_key), trimmed_or_none(event.run_id))
        batch_id = trimmed_or_none(event.batch_id)
        if batch_id is not None and (run is None or not run.knows_batch(batch_id)):
            check_batch(event.batch)
        else:
            as_batch(event.batch)

    def _started(self, event: ToolCallStarted, run: Run, now: float, facts: list[Fact]) -> Step:
        """A start that asks for care."""
        _check_call(event)
        run.last_seen = now
        batch_id, call_id, batch = trimmed_or_none(event.batch_id), trimmed(event.call_id), run.in_full()
        known = (
            batch.running > 0
            if batch_id is None
            else batch_id == batch.batch_id or batch_id == run.before.batch_id
        )
        if known or event.continues is not None or not run.left_nothing(batch_id):
            slot = _start_known(event, run, call_id, batch_id, facts, self._sessions)
        elif is_alone(event) or batch_id is None:
            call = identify(event.tool, event.args, run.tools)
            slot = begin(run, batch_id, call_id, event.index, call, facts)
        else:
            check_batch(event.batch)
            slot = _start_listed(event, run, call_id, batch_id, facts)
        return started(run, slot, facts)

    def _settled(self, event: ToolCallSettled, run: Run, now: float, facts: list[Fact]) -> Step:
        """A settlement that asks for care."""
        if event.status is None and event.deliverable is True:
            _check_call(event)
        else:
            check_types(event)
        run.last_seen = now
        return settled(event, run, _settle_other(event, run, run.in_full(), facts), facts)

    def _user_message(self, event: UserMessageCommitted, run: Run) -> None:
        session = self._sessions.session(run.session_key)
        message_id = trimmed_or_none(event.message_id)
        if session is None or (message_id is not None and not session.is_new(message_id)):
            return
        session.buckets.tell_anew()
        for one in session.runs.values():
            one.new_input()
        if event.kind == MessageKind.MESSAGE and None in session.runs:
            session.runs[None].renew()


def _check_call(event: ToolCallStarted | ToolCallSettled) -> None:
    """The fields that tell calls apart, where the others are known to be well-formed."""
    call_id, index, batch_id = event.call_id, event.index, event.batch_id
    if (
        call_id.__class__ is not str
        or event.tool.__class__ is not str
        or (index is not None and (index.__class__ is not int or index < 0))
        or (batch_id is not None and batch_id.__class__ is not str)
    ):
        check_types(event)


def _start_known(
    event: ToolCallStarted, run: Run, call_id: str, batch_id: str | None, facts: list[Fact], sessions: Sessions
) -> Slot | None:
    """A start that may have come before, or belongs to a batch that is known, or comes while calls are open."""
    if event.batch is not None:
        as_batch(event.batch)
    slot = run.known_start(call_id, batch_id, event.index)
    if slot is not None and slot.state is not LISTED and not run.settled_unstarted(slot):
        return slot
    over, listed = None, False
    if slot is None:
        over = None if batch_id is None else run.closed_batch(batch_id)
        new = over is None and batch_id != run.current.batch_id
        listed = new and (not is_alone(event) or (bool(event.batch) and run.has_orphans(batch_id)))
        if listed:
            check_batch(event.batch)  # before anything is done
    if event.continues is not None:
        run.continue_from(sessions.find_live(run.session_key, trimmed_or_none(event.continues), run.last_seen))
    if slot is not None:
        if slot.state is LISTED:
            start(run, slot, facts)
        else:
            refuse_settled(run, slot, facts)
        return slot
    if over is not None and over is not run.current:
        return refuse_late(run, over, call_id, event.index, identify(event.tool, event.args, run.tools))
    if batch_id is not None and batch_id == run.current.batch_id:
        if run.current.full:
            call = identify(event.tool, event.args, run.tools)
            return begin_anew(run, batch_id, call_id, event.index, call, facts)
        slot = run.current.add(call_id, event.index, identify(event.tool, event.args, run.tools))
        start(run, slot, facts)
        return slot
    if listed and batch_id is not None:
        return _start_listed(event, run, call_id, batch_id, facts)
    return begin(run, batch_id, call_id, event.index, identify(event.tool, event.args, run.tools), facts)


def _start_listed(event: ToolCallStarted, run: Run, call_id: str, batch_id: str, facts: list[Fact]) -> Slot:
    """The first start of a new batch whose whole list it carries.

    Of a batch that comes back after another one, the calls that started before are left out of the list. A call that
    settled before any start of its batch counts as settled.
    """
    tools = run.tools
    back = run.knows_batch(batch_id) or not run.left_nothing(batch_id)
    listed = [
        (at, trimmed(one.call_id), identify(one.tool, one.args, tools))
        for at, one in enumerate(event.batch or ())
        if not (back and run.has_started(trimmed(one.call_id), batch_id, at))
    ]
    begin_listed(run, batch_id, listed, facts)
    slot = run.current.find(call_id, event.index, fresh=True)
    if slot is None:
        slot = run.current.add(call_id, event.index, identify(event.tool, event.args, tools))
    if slot.state is not SETTLED:
        start(run, slot, facts)
    elif run.current.closed:
        refuse_settled(run, slot, facts)
    else:
        run.ending = None
    return slot


def _settle_other(event: ToolCallSettled, run: Run, batch: Batch, facts: list[Fact]) -> Slot:
    """A settlement of one call among several, a late or a repeated one, or one whose start was never seen."""
    batch_id, call_id = trimmed_or_none(event.batch_id), trimmed(event.call_id)
    slot = run.known_settlement(call_id, batch_id, event.index)
    if slot is None:
        slot = Slot(call_id, event.index, FIRST, identify(event.tool, event.args, run.tools))
        if batch_id is not None and run.closed_batch(batch_id) is not None:
            slot.ignored = True
        else:
            settlement = observe_settlement(event, slot.call, run.wants_outcomes(), run.wants_identities())
            settle_alone(run, slot, batch_id, settlement, facts)
    elif slot.state is RUNNING or slot.state is LISTED:
        current = batch.holds(slot)
        if slot.state is LISTED and (batch if current else run.previous).closed:
            slot.state = OVER
            slot.ignored = True
            return slot
        settlement = observe_settlement(event, slot.call, run.wants_outcomes(), run.wants_identities())
        if current:
            settle(run, slot, settlement, event.deliverable, facts)
        else:
            settle_late(run, slot, settlement, facts)
    elif slot.state is BLOCKED:
        slot.state = OVER
        slot.ignored = True
        run.count_open()
    return slot
