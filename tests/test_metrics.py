"""The numbers that a guard gives, read through the OpenTelemetry SDK."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
from typing import Any

import anyio
import pytest
from helpers import compaction, message, publish_all, settings_of, settle, start, turns
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram, HistogramDataPoint, InMemoryMetricReader, NumberDataPoint

from loopguard_plugin import EventError, LoopGuard, TurnEndingError
from loopguard_plugin.metrics import Metrics


class Meter:
    """A real SDK that keeps what it is told."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])
        self.metrics = Metrics(self.provider)

    def points(self, name: str) -> list[Any]:
        """The data points of one instrument."""
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def numbers(self, name: str) -> dict[str, int | float]:
        """The values of one counter or gauge, by its attributes: ``agent=a detector=ping_pong``."""
        found: dict[str, int | float] = {}
        for point in self.points(name):
            assert isinstance(point, NumberDataPoint)
            found[" ".join(f"{key}={value!s}" for key, value in sorted((point.attributes or {}).items()))] = point.value
        return found


@pytest.fixture
def meter() -> Meter:
    return Meter()


def test_notes_blocks_and_ends_are_counted_by_detector_and_agent(meter: Meter) -> None:
    """One agent is stuck until its turn ends with a second block; another fails in the same way three times."""
    guard = LoopGuard(
        settings_of({"enabled": True, "warningThreshold": 2, "criticalThreshold": 12}), metrics=meter.metrics
    )
    stuck = [start("c0", agent="a"), settle("c0"), *turns(13)]
    failing = [
        event
        for n in range(3)
        for event in (start(f"e{n}", run="q", agent="b"), settle(f"e{n}", run="q", agent="b", error="boom"))
    ]
    anyio.run(publish_all, guard, [*stuck, *failing])
    assert meter.numbers("loopguard.notes") == {
        "agent=a detector=generic_repeat": 2,
        "agent=b detector=generic_repeat": 1,
    }
    assert meter.numbers("loopguard.blocks") == {"agent=a detector=generic_repeat": 2}
    assert meter.numbers("loopguard.ends") == {
        "agent=a code=tool_loop_persisted detector=generic_repeat": 1,
        "agent=b code=repeated_tool_error detector=repeated_tool_error": 1,
    }
    assert meter.numbers("loopguard.runs") == {"": 2}
    assert meter.numbers("loopguard.errors") == {}


def test_a_turn_that_is_ended_again_and_again_is_one_end(meter: Meter) -> None:
    """A host that goes on after the end raises no number but that of blocked batches, until a user writes."""
    guard = LoopGuard(settings_of({"enabled": True, "criticalThreshold": 12}), metrics=meter.metrics)

    def play(count: int) -> None:
        for event in turns(count, prefix=f"{count}-"):
            with contextlib.suppress(TurnEndingError):
                guard.feed(event)

    play(20)
    assert list(meter.numbers("loopguard.ends").values()) == [1]
    assert sum(meter.numbers("loopguard.blocks").values()) == 8
    assert guard.stats().ends == 1
    guard.feed(message())
    play(2)
    assert list(meter.numbers("loopguard.ends").values()) == [2]


def test_what_observe_mode_would_have_done_is_told_apart(meter: Meter) -> None:
    """The same numbers, with an attribute of their own: whoever counts blocks does not count those."""
    config: dict[str, object] = {"tools": {"loopDetection": {"enabled": True}}}
    config["plugins"] = {"entries": {"loopguard": {"config": {"mode": "observe"}}}}
    guard = LoopGuard(settings_of(config), metrics=meter.metrics)
    for event in turns(25):
        guard.feed(event)
    assert meter.numbers("loopguard.notes") == {"detector=generic_repeat observed=True": 1}
    assert set(meter.numbers("loopguard.blocks")) == {"detector=generic_repeat observed=True"}


def test_events_are_counted_and_timed_by_kind(meter: Meter) -> None:
    """Every judged event counts once, with the agent that it names, and has its time in the histogram."""
    guard = LoopGuard(metrics=meter.metrics)
    for event in (start("c1", agent="a"), settle("c1"), start("c2"), compaction()):
        guard.feed(event)
    assert meter.numbers("loopguard.events") == {
        "agent=a event=tool_call_started": 1,
        "event=tool_call_started": 1,
        "event=tool_call_settled": 1,
        "event=compaction_retry": 1,
    }
    points = meter.points("loopguard.decision.duration")
    assert {str((point.attributes or {})["event"]): point.count for point in points} == {
        "tool_call_started": 2,
        "tool_call_settled": 1,
        "compaction_retry": 1,
    }
    for point in points:
        assert isinstance(point, HistogramDataPoint)
        assert 0 < point.min <= point.max < 60
        assert point.explicit_bounds[0] < 1e-4, "boundaries that tell microseconds apart"


def test_calls_that_never_settle_are_counted(meter: Meter) -> None:
    """A host that delivers no outcomes shows in a number of its own."""
    guard = LoopGuard(metrics=meter.metrics)
    for n in range(5):
        guard.feed(start(f"c{n}", agent="a"))
    assert meter.numbers("loopguard.unsettled") == {"agent=a": 4}
    guard.end_run("s", "r")
    assert meter.numbers("loopguard.unsettled") == {"agent=a": 5}


def test_a_turn_that_ends_is_timed_too(meter: Meter) -> None:
    """The settlement that raises was judged as any other."""
    guard = LoopGuard(metrics=meter.metrics)
    *before, last = turns(3, error="boom")
    for event in before:
        guard.feed(event)
    with pytest.raises(TurnEndingError):
        guard.feed(last)
    assert sum(meter.numbers("loopguard.events").values()) == 6


def test_malformed_events_and_failures_inside_are_counted(meter: Meter) -> None:
    """What could not be judged is no event, and is not lost from sight either."""

    def broken() -> float:
        raise RuntimeError("clock")

    guard = LoopGuard(metrics=meter.metrics, clock=broken)
    guard.feed(start("c1"))
    whole = LoopGuard(metrics=meter.metrics)
    with pytest.raises(EventError):
        whole.feed(start("c1", session=5))  # type: ignore[arg-type]  # the mistake under test
    assert meter.numbers("loopguard.errors") == {"": 1}
    assert meter.numbers("loopguard.malformed") == {"": 1}
    assert meter.numbers("loopguard.events") == {}


def test_metrics_that_fail_change_no_answer() -> None:
    """A meter that raises is a failure inside, counted in the guard's own stats; the verdict stands."""

    class Broken(Metrics):
        def record(self, *_: object) -> None:
            raise RuntimeError("meter")

        failed = record

    guard = LoopGuard(metrics=Broken(Meter().provider))
    *before, last = turns(3, error="boom")
    for event in before:
        guard.feed(event)
    with pytest.raises(TurnEndingError):
        guard.feed(last)
    assert guard.stats().errors == 6


def test_runs_are_those_of_all_guards_that_live(meter: Meter) -> None:
    """One Metrics serves every guard of the process and keeps none of them alive."""
    one, other = LoopGuard(metrics=meter.metrics), LoopGuard(metrics=meter.metrics)
    one.feed(start("c1", run="a"))
    one.feed(start("c1", run="b"))
    other.feed(start("c1", run="a"))
    assert meter.numbers("loopguard.runs") == {"": 3}
    one.end_run("s", "a")
    del other
    gc.collect()
    assert meter.numbers("loopguard.runs") == {"": 1}


def test_without_an_sdk_nothing_happens() -> None:
    """The API alone takes the numbers and drops them."""
    guard = LoopGuard(metrics=Metrics())
    guard.feed(start("c1"))
    assert guard.stats().errors == 0


def test_nothing_is_loaded_or_timed_without_asking() -> None:
    """A guard without metrics loads no OpenTelemetry and asks no second clock."""
    code = (
        "import sys, time\n"
        "from loopguard_plugin import LoopGuard, ToolCallStarted\n"
        "del time.perf_counter\n"
        "guard = LoopGuard()\n"
        "guard.feed(ToolCallStarted(session_key='s', call_id='c', tool='t', args={}))\n"
        "assert guard.stats().errors == 0\n"
        "print(*(name for name in sys.modules if name.startswith('opentelemetry')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == ""


def test_every_instrument_says_what_it_counts(meter: Meter) -> None:
    """Each has a description and a unit, and the time is a histogram in seconds."""
    guard = LoopGuard(metrics=meter.metrics)
    guard.feed(start("c1"))
    data = meter.reader.get_metrics_data()
    assert data is not None
    found = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    assert set(found) == {"loopguard.events", "loopguard.decision.duration", "loopguard.runs"}
    assert all(metric.description and metric.unit for metric in found.values())
    assert isinstance(found["loopguard.decision.duration"].data, Histogram)
    assert found["loopguard.decision.duration"].unit == "s"
