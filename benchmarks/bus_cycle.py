"""What do the bus and the middleware add to the core?"""

from __future__ import annotations

from . import floor, ours
from .measure import Timings, microseconds, table, take_turns, times
from .workload import Shape, runs_of_calls


def compared(*, runs: int = 5, rounds: int = 9) -> Timings:
    """Core and bus over the same events."""
    given = runs_of_calls(Shape(), runs)
    events = ours.timelines(given)
    return take_turns([floor.floor(given), ours.core(events), ours.bus(events)], rounds)


def report() -> str:
    """The table."""
    timings = compared()
    lines = [
        (name, microseconds(timings.seconds(name)), times(timings.ratio(name, ours.CORE)))
        for name in (ours.CORE, ours.BUS)
    ]
    return table(("way", "a call", "to the core"), lines)


if __name__ == "__main__":
    print(report())
