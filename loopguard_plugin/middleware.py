"""LoopGuard: the guard as middleware on a bus, or called directly by hosts without an event loop.

The guard decides on the raw event before its first await, then always calls the next handler, so that every handler
sees every event (SPEC 9). It never takes the gateway down (SPEC 13): what goes wrong inside is logged and counted, and
the event passes on unjudged. Only ``TurnEndingError``, cancellation and what the next handlers raise leave it.

One guard belongs to one thread: a host that calls :meth:`LoopGuard.feed` from several puts a lock around it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, cast, overload

from msgspec import Struct

from . import logs
from .answers import (
    PROCEED,
    Acknowledged,
    Answer,
    BatchBlocked,
    Blocked,
    Deliver,
    EvictionReason,
    Fact,
    FailureInside,
    NoteEmitted,
    Proceed,
    RunEnded,
    RunEvicted,
    SessionRefused,
    Step,
)
from .composition import compose, plain_answer
from .core.guard import Guard
from .decisions import LoopGuardDecision, decision
from .errors import EventError, TurnEndingError
from .events import EVENT_TYPES, CompactionRetry, Event, ToolCallSettled, ToolCallStarted, UserMessageCommitted, check
from .settings import Settings
from .turn_ends import TurnEnds

if TYPE_CHECKING:
    from .metrics import Metrics

E = TypeVar("E")
A = TypeVar("A")

MOST_UNTOLD = 256
QUIET_SECONDS = 60.0  # between two log lines about the same trouble


class Stats(Struct, frozen=True):
    """What a guard has seen so far.

    ``events``: events of the four kinds, malformed ones too. ``malformed``: those passed on or refused for a field of
    the wrong type. ``errors``: exceptions inside the guard. ``runs``: runs remembered now.

    ``notes``: warnings appended to results. ``blocks``: batches refused, those with which a turn ended among them.
    ``ends``: turns ended, each once, also where its host went on and it was ended again; a turn lasts until a user
    message or a new run, see :class:`loopguard_plugin.turn_ends.TurnEnds`. Of agents in observe mode the three count
    what would have been done. They count from the making of this guard on, whatever it was restored from.
    """

    events: int
    malformed: int
    errors: int
    runs: int
    notes: int = 0
    blocks: int = 0
    ends: int = 0


class Publisher(Protocol):
    """What takes decisions: a bus, or anything with its ``publish``."""

    def publish(self, event: LoopGuardDecision, /) -> Awaitable[object]: ...


class LoopGuard:
    """Stops agents that repeat the same tool call without getting anywhere.

    ``clock`` gives seconds and only ever goes forward; it serves idle expiry alone. ``metrics`` counts and times what
    the guard does, see :class:`loopguard_plugin.metrics.Metrics`. ``bus``, usually the one that the guard is registered
    on, gets a :class:`loopguard_plugin.decisions.LoopGuardDecision` for every note, block and end, once, before the
    answer is given; where the publisher is cancelled before that, with the next event, its own published again or any
    other. Raises TypeError for anything but :class:`Settings`: a gateway must not start in the belief that it is
    guarded.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        metrics: Metrics | None = None,
        bus: Publisher | None = None,
    ) -> None:
        settings = Settings() if settings is None else settings
        if not isinstance(settings, Settings):
            raise TypeError(_no_settings(settings))
        if not callable(clock):
            raise TypeError(f"clock must be a function that returns seconds, got {type(clock).__name__}")
        self.settings = settings
        self._on = settings.plugin_enabled
        self._guard = Guard(settings)
        self._clock = clock
        self._seldom = Seldom()
        self._events = self._malformed = self._errors = 0
        self._notes = self._blocks = self._ends = 0
        self._turn_ends = TurnEnds()
        self._ended_turns = self._turn_ends.turns
        self._metrics = metrics
        self._bus = bus
        self._untold: deque[Fact] = deque(maxlen=MOST_UNTOLD)  # of publishers that were cancelled
        self._feed = self._guard.feed if metrics is None else self._measured
        if metrics is not None:
            metrics.watch(self)
        logs.started(settings)

    @classmethod
    def from_config_file(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = time.monotonic,
        metrics: Metrics | None = None,
        bus: Publisher | None = None,
    ) -> Self:
        """A guard with the settings of a gateway's JSON5 file. Raises ``SettingsError``, also if it cannot be read."""
        from .config_file import load_settings  # the JSON5 reader is not needed without a file

        return cls(load_settings(path), clock=clock, metrics=metrics, bus=bus)

    def use(self, settings: Settings) -> None:
        """Other settings from the next event on, all of them at once; open runs keep their counts (SPEC 11.2).

        To be called from the guard's own thread. Raises TypeError for anything but :class:`Settings`, and then the
        former ones stay. :func:`loopguard_plugin.config_watch.watch_config` calls this whenever a file has changed.
        """
        if not isinstance(settings, Settings):
            raise TypeError(_no_settings(settings, "use"))
        before = self.settings
        settings.resolve()  # whatever could fail has failed before anything is swapped
        self.settings, self._on = settings, settings.plugin_enabled
        self._guard.use(settings)
        logs.settings_changed(before, settings)

    async def __call__(self, event: E, call_next: Callable[[E], Awaitable[A]]) -> A | Answer:
        """Judge one event, let the next handlers have it, and answer it.

        Anything that is not one of the four events passes untouched. Raises ``TurnEndingError`` where the turn ends,
        once the next handlers have run; its ``answer`` carries their result. A publisher that was cancelled meanwhile
        may publish the event again, and gets the same answer (SPEC 2).
        """
        if not self._on or not isinstance(event, EVENT_TYPES):
            return await call_next(event)
        try:
            step = self._step(event)  # type: ignore[arg-type]  # one of the four, as was just seen
        except EventError as malformed:
            self._pass_on(event, malformed)
            step = None
        if step is None:
            return await call_next(event)
        if step.facts or step.error is not None or self._untold:
            return await self._notable(step, event, call_next)
        theirs = await call_next(event)
        ours = step.answer
        if ours is PROCEED and theirs is not None:  # the commonest answer has nothing to add to theirs
            return theirs
        return self._composed(ours, theirs, event)

    async def _notable(self, step: Step, event: E, call_next: Callable[[E], Awaitable[A]]) -> A | Answer:
        """An answer that comes with an error to raise, or with something to tell on the bus."""
        error = step.error
        try:
            theirs = await call_next(event)
        except Exception as failure:  # the turn ends, whatever became of the others
            await self._announce(step.facts, event)
            if error is None:
                raise
            raise error from failure
        except BaseException:
            self._keep_untold(step.facts)
            raise
        await self._announce(step.facts, event)
        if error is None:
            return self._composed(step.answer, theirs, event)
        answer = self._composed(error.answer, theirs, event)
        if isinstance(answer, (Deliver, Blocked)):
            error.answer = answer
        raise error

    async def _announce(self, facts: Iterable[Fact], event: object) -> None:
        """Publish what was decided. Whoever cannot take it does not keep the answer from the publisher.

        What an earlier publisher could not, because it was cancelled, comes first. Where this one is cancelled, too,
        what has not been handed to the bus by then is kept for the next event.
        """
        if self._bus is None:
            return
        left = deque((*self._untold, *facts))
        self._untold.clear()
        while left:
            fact = left.popleft()
            try:
                decided = decision(fact)
                if decided is not None:
                    await self._bus.publish(decided)
            except Exception as error:
                self._failed(error, event)
            except BaseException:
                self._untold.extendleft(reversed(left))
                raise

    def _keep_untold(self, facts: Iterable[Fact]) -> None:
        if self._bus is not None:
            self._untold.extend(facts)

    @overload
    def feed(self, event: ToolCallStarted) -> Proceed | Blocked: ...
    @overload
    def feed(self, event: ToolCallSettled) -> Deliver: ...
    @overload
    def feed(self, event: CompactionRetry | UserMessageCommitted) -> Acknowledged: ...
    @overload
    def feed(self, event: Event) -> Answer: ...
    def feed(self, event: Event) -> Answer:
        """Judge one event without a bus.

        Raises ``TurnEndingError`` where the turn ends, and ``EventError`` for what is not one of the four events or
        has a field of the wrong type: here nobody else waits for the event.
        """
        if not self._on:
            check(event)
            return plain_answer(event)
        step = self._step(event)
        if step is None:
            return plain_answer(event)
        if step.error is not None:
            raise step.error
        return step.answer or plain_answer(event)

    def ended(self, session_key: str, run_id: str | None = None) -> TurnEndingError | None:
        """The error that ended the run's turn, for a loop that gathers many publishers; None while it goes on."""
        return self._guard.ended(session_key, run_id)

    def end_run(self, session_key: str, run_id: str | None = None) -> None:
        """Forget a run that is over. Without this it is forgotten once it is idle (SPEC 2)."""
        facts = self._guard.end_run(session_key, run_id)
        self._turn_ends.forget(session_key, run_id)
        if facts:
            self._tell(facts, None)
            self._count(facts)

    def snapshot(self) -> bytes:
        """What is remembered, for :meth:`restore` in another process: to be called at shutdown, after the last event.

        Digests, names and counts; no arguments, no results: :mod:`loopguard_plugin.core.snapshot` says what is inside.
        """
        return self._guard.snapshot(self._clock())

    def restore(self, data: bytes) -> tuple[SessionRefused, ...]:
        """Go on from a snapshot, in place of what is remembered now: to be called before the first event.

        Settings stay those of this guard. Sessions that are damaged, or cut off, are left out and start afresh: they
        are logged, and answered with the reason. Raises :class:`SnapshotError` for bytes of which no session can be
        restored: of another version, with a damaged head, or no snapshot at all; then everything is as it was, and a
        guard that has just been made starts clean.
        """
        refused = self._guard.restore(data, self._clock())
        self._turn_ends.turns.clear()
        if refused:
            logs.sessions_refused(refused)
        return refused

    def stats(self) -> Stats:
        """What has been seen so far; cheap."""
        return Stats(
            events=self._events,
            malformed=self._malformed,
            errors=self._errors,
            runs=self._guard.runs,
            notes=self._notes,
            blocks=self._blocks,
            ends=self._ends,
        )

    def _step(self, event: Event) -> Step | None:
        """The guard's step, or None for a failure inside: then the event is to pass as it is.

        Raises ``EventError`` for a malformed event.
        """
        self._events += 1
        try:
            step = self._feed(event, self._clock())
        except EventError:
            self._malformed += 1
            if self._metrics is not None:
                self._metrics.malformed()
            raise
        except Exception as error:
            self._failed(error, event)
            return None
        if step.facts:
            self._tell(step.facts, event)
        if step.facts or self._ended_turns:
            self._count([*self._turn_ends.once(event, step.facts)])
        return step

    def _pass_on(self, event: object, error: EventError) -> None:
        """A malformed event is told once a minute for its type and field, and goes to the next handler.

        The places in a list do not count, nor does the value: a publisher may send another one with each event.
        """
        field = re.sub(r"\[\d+\]", "[]", error.field)
        unreported = self._seldom.passes((type(event), field), time.monotonic())
        if unreported is not None:
            try:
                logs.malformed(event, error, unreported)
            except Exception as failure:
                self._failed(failure, event)

    def _measured(self, event: Event, now: float) -> Step:
        """The core's ``feed`` where somebody counts and times it."""
        began = time.perf_counter()
        step = self._guard.feed(event, now)
        seconds = time.perf_counter() - began
        try:
            cast("Metrics", self._metrics).record(event, seconds)
        except Exception as error:
            self._failed(error, event)
        return step

    def _count(self, facts: Sequence[Fact]) -> None:
        """Add up what was done, each end of a turn once."""
        for fact in facts:
            if isinstance(fact, NoteEmitted):
                self._notes += 1
            elif isinstance(fact, BatchBlocked):
                self._blocks += 1
            elif isinstance(fact, RunEnded):
                self._ends += 1
        if facts and self._metrics is not None:
            try:
                self._metrics.count(facts)
            except Exception as error:
                self._failed(error, None)

    def _tell(self, facts: Iterable[Fact], event: object) -> None:
        """The log lines of a step. Above ``maxRuns`` every new run evicts one: of these, a line a minute will do."""
        now = time.monotonic()
        for fact in facts:
            seldom: Hashable = None
            if isinstance(fact, RunEvicted) and fact.reason is EvictionReason.CAPACITY:
                seldom = "maxRuns"
            elif isinstance(fact, FailureInside):
                self._count_failure()
                seldom = fact.kind, fact.place
            if seldom is None or self._seldom.passes(seldom, now) is not None:
                try:
                    logs.fact(fact, event)
                except Exception as error:
                    self._failed(error, event)

    def _composed(self, ours: Answer | None, theirs: A, event: object) -> A | Answer:
        """One answer out of the guard's and the next handlers'; theirs alone where that fails."""
        if ours is None:
            return theirs
        try:
            return cast("A | Answer", compose(ours, theirs))
        except Exception as error:
            self._failed(error, event)
            return theirs

    def _count_failure(self) -> None:
        self._errors += 1
        if self._metrics is not None:
            with contextlib.suppress(Exception):  # it may be what failed
                self._metrics.failed()

    def _failed(self, error: Exception, event: object) -> None:
        self._count_failure()
        unreported = self._seldom.passes((type(error), _place(error)), time.monotonic())
        if unreported is not None:
            with contextlib.suppress(Exception):  # nobody is left to be told
                logs.guard_failed(event, error, unreported)


class Seldom:
    """Lets the same trouble be reported once in ``QUIET_SECONDS``, and counts what was left out. Bounded."""

    MOST_KINDS = 256

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[float, int]] = {}

    def passes(self, key: Hashable, now: float) -> int | None:
        """None where it was reported lately; else how many went unreported since the last time."""
        last = self._last.pop(key, None)
        if last is not None and now - last[0] < QUIET_SECONDS:
            self._last[key] = (last[0], last[1] + 1)
            return None
        if len(self._last) >= self.MOST_KINDS:
            del self._last[next(iter(self._last))]
        self._last[key] = (now, 0)
        return last[1] if last is not None else 0


def _place(error: Exception) -> tuple[str, int] | None:
    """Where an error came from: file and line of its innermost frame."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno) if traceback is not None else None


def _no_settings(given: object, called: str = "LoopGuard") -> str:
    """What to do instead of passing this where settings are wanted."""
    if isinstance(given, (str, os.PathLike)):
        instead = "LoopGuard.from_config_file(path)" if called == "LoopGuard" else f"{called}(load_settings(path))"
    elif isinstance(given, Mapping):
        instead = f"{called}(parse_settings(mapping))"
    elif given is Settings:
        instead = f"{called}(Settings()), an instance"
    else:
        instead = f"{called}() for the defaults" if called == "LoopGuard" else f"{called}(Settings()) for the defaults"
    return f"{called} takes Settings, got {type(given).__name__}; use {instead}"
