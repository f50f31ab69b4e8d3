"""What does a restart cost?

A guard with many runs, every one in a session of its own, is written down and read again: bytes and microseconds for
each run. A run of 30 calls fills its history; most of its bytes are digests of arguments and results, 16 each.
"""

from __future__ import annotations

import sys

from msgspec import Struct

from loopguard_plugin.core.guard import Guard

from . import ours
from .measure import microseconds, once, table
from .workload import Shape, run_of_calls


class Cost(Struct, frozen=True):
    """For one run: bytes of the snapshot, and seconds to write and to read it."""

    size: float
    writing: float
    reading: float


def cost(runs: int = 10_000, calls: int = 30, rounds: int = 3) -> Cost:
    """The best of a few rounds."""
    guard = Guard(ours.all_on(max_runs=runs))
    traffic = run_of_calls(Shape(calls=calls))
    for run in range(runs):
        for event, now in ours.timeline(traffic, session_key=f"agent:main:{run}", run_id=f"run-{run}"):
            guard.feed(event, now)
    taken: list[bytes] = []
    writing = min(once(lambda: taken.append(guard.snapshot(1e4))) for _ in range(rounds))
    data = taken[-1]
    reading = min(once(lambda: Guard(ours.all_on(max_runs=runs)).restore(data, 1e4)) for _ in range(rounds))
    return Cost(len(data) / runs, writing / runs, reading / runs)


def report() -> str:
    """The table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 10_000
    lines = []
    for calls in (1, 30):
        one = cost(runs, calls)
        lines.append((f"{calls} calls", f"{one.size:,.0f}", microseconds(one.writing), microseconds(one.reading)))
    return table((f"runs of ({runs:,} of them)", "bytes a run", "written in", "read in"), lines)


if __name__ == "__main__":
    print(report())
