"""Does the cost grow with the number of open runs?"""

from __future__ import annotations

import random

from . import ours
from .measure import Contender, Timings, microseconds, table, take_turns, times
from .workload import Shape, run_of_calls

COUNTS = (1, 1_000, 100_000)


def visits(count: int, *, calls: int) -> tuple[ours.Timeline, ours.Timeline]:
    """A call in each of ``count`` runs, every one in a session of its own; and then calls in runs drawn at random.

    The calls and the number of event objects are the same for every ``count``.
    """
    rng = random.Random(5)
    traffic = run_of_calls(Shape(calls=calls, parallel=0.0))
    opening: ours.Timeline = []
    for run in range(count):
        opening += ours.timeline(traffic[run % 97 : run % 97 + 1], session_key=f"agent:main:{run}", run_id=f"run-{run}")
    visiting: ours.Timeline = []
    for at, one in enumerate(traffic):
        run = rng.randrange(count)
        visiting += ours.timeline([one], session_key=f"agent:main:{run}", run_id=f"run-{run}", first=at + 1)
    return opening, visiting


def compared(counts: tuple[int, ...] = COUNTS, *, calls: int = 10_000, rounds: int = 3) -> Timings:
    """Calls in runs drawn at random, by the number of runs that are open."""
    settings = ours.all_on(max_runs=2 * max(counts))

    def one(count: int) -> Contender:
        opening, visiting = visits(count, calls=calls)
        return ours.core(visiting, warm=opening, settings=settings, name=f"{count:,}")

    return take_turns([one(count) for count in counts], rounds)


def report() -> str:
    """The table."""
    timings = compared()
    lines = [(name, microseconds(timings.seconds(name)), times(timings.ratio(name, "1"))) for name in timings.rounds]
    return table(("open runs", "a call", "to one run"), lines)


if __name__ == "__main__":
    print(report())
