"""What a guard does, as numbers for OpenTelemetry (extra ``otel``). Nothing here is loaded by a guard without metrics.

::

    guard = LoopGuard.from_config_file("gateway.json5", metrics=Metrics())

Only the API is used: without an SDK in the process nothing is counted, and nothing fails. No contents are in any
attribute: ``event``, ``detector`` and ``code`` are closed sets, ``agent`` is the agent's id where it is known. What
observe mode only would have done has ``observed`` true.

==============================  ====================  ===================================================
``loopguard.events``            event, agent          events judged
``loopguard.notes``             detector, agent       warnings appended to a result
``loopguard.blocks``            detector, agent       batches refused
``loopguard.ends``              detector, agent,      turns ended, each once until a user message or a new run
                                code
``loopguard.unsettled``         agent                 calls that had not settled when the batch or the run was over
``loopguard.decision.duration`` event                 seconds that the guard took over one event (histogram)
``loopguard.runs``                                    runs remembered now
``loopguard.errors``                                  failures inside the guard, whose events passed unjudged
``loopguard.malformed``                               events not judged for a field of the wrong type
==============================  ====================  ===================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider

from . import __version__
from .answers import BatchBlocked, CallsUnsettled, Fact, NoteEmitted, RunEnded
from .logs import event_name

if TYPE_CHECKING:
    from .events import Event
    from .middleware import LoopGuard

# A decision takes some ten microseconds; the SDK's usual boundaries begin at five seconds.
_SECONDS: Final = (5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 1e-2, 0.1, 1.0)


class Metrics:
    """Counts and times what guards do; one for all guards of a process.

    ``meter_provider`` None: the process's own, also one that is set only later.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        meter = (meter_provider or get_meter_provider()).get_meter("loopguard_plugin", __version__)
        self._guards: WeakSet[LoopGuard] = WeakSet()
        self._events = meter.create_counter("loopguard.events", "{event}", "Events judged.")
        self._notes = meter.create_counter("loopguard.notes", "{note}", "Warnings appended to a result.")
        self._blocks = meter.create_counter("loopguard.blocks", "{batch}", "Batches refused.")
        self._ends = meter.create_counter("loopguard.ends", "{turn}", "Turns ended.")
        self._unsettled = meter.create_counter("loopguard.unsettled", "{call}", "Calls whose settlement never came.")
        self._seconds = meter.create_histogram(
            "loopguard.decision.duration",
            "s",
            "What the guard took over one event.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._errors = meter.create_counter("loopguard.errors", "{error}", "Failures inside the guard.")
        self._malformed = meter.create_counter(
            "loopguard.malformed", "{event}", "Events with a field of the wrong type; nothing judged them."
        )
        meter.create_observable_gauge("loopguard.runs", [self._runs], "{run}", "Runs remembered now.")

    def watch(self, guard: LoopGuard) -> None:
        """Count the runs of this guard too, as long as it lives. ``LoopGuard`` calls this itself."""
        self._guards.add(guard)

    def record(self, event: Event, seconds: float) -> None:
        """One event was judged; what was done with it goes to :meth:`count`."""
        of_event = {"event": event_name(event)}
        self._seconds.record(seconds, of_event)
        self._events.add(1, {**of_event, "agent": event.agent_id} if event.agent_id else of_event)

    def count(self, facts: Iterable[Fact]) -> None:
        """What was done, with an event or when a run was ended by hand, and each end of a turn only once."""
        for fact in facts:
            if isinstance(fact, NoteEmitted):
                self._notes.add(1, _who(fact))
            elif isinstance(fact, BatchBlocked):
                self._blocks.add(1, _who(fact))
            elif isinstance(fact, RunEnded):
                self._ends.add(1, {**_who(fact), "code": str(fact.code)})
            elif isinstance(fact, CallsUnsettled):
                self._unsettled.add(fact.calls, {"agent": fact.agent_id} if fact.agent_id else {})

    def failed(self) -> None:
        """Something failed inside a guard."""
        self._errors.add(1)

    def malformed(self) -> None:
        """An event could not be judged."""
        self._malformed.add(1)

    def _runs(self, options: CallbackOptions) -> Iterator[Observation]:
        yield Observation(sum(guard.stats().runs for guard in self._guards))


def _who(fact: NoteEmitted | BatchBlocked | RunEnded) -> dict[str, str | bool]:
    """Attributes that are absent where they say nothing, so that ordinary series stay as they are."""
    said: dict[str, str | bool] = {"detector": str(fact.detector)}
    if fact.agent_id:
        said["agent"] = fact.agent_id
    if fact.observed:
        said["observed"] = True
    return said
