"""What does a run cost that stays stuck: its calls are refused or warned about, again and again?

Beside an ordinary cycle, which is the mean one of traffic (`core_cycle`, results of 0.5 KiB of text).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from . import ours
from .measure import Contender, Timings, microseconds, table, take_turns, times
from .texts import prose
from .workload import Call, Shape, call, runs_of_calls

ORDINARY = "ordinary traffic"
SIZE = 500
BEFORE, MEASURED = 120, 400
"""Calls until it is stuck for good, and calls that are measured."""


def _made(at: int, args: int, result: int) -> Call:
    text = prose(random.Random(result), SIZE)
    return call(at, "read", {"path": f"src/module_{args}.py", "offset": args, "reason": "the same again"}, text)


LOOPS: dict[str, Callable[[int], Call]] = {
    "one call, refused": lambda at: _made(at, 0, 0),
    "one call, its result another one each time": lambda at: _made(at, 0, at),
    "two calls in turn, refused": lambda at: _made(at, at % 2, at % 2),
    "two calls in turn, their results others each time": lambda at: _made(at, at % 2, at),
    "five calls in turn, refused": lambda at: _made(at, at % 5, at % 5),
}


def _stuck(name: str, make: Callable[[int], Call]) -> Contender:
    events = ours.timeline([make(at) for at in range(BEFORE + MEASURED)])
    return ours.core(events[2 * BEFORE :], name=name, warm=events[: 2 * BEFORE])


def compared(runs: int = 5, rounds: int = 7) -> Timings:
    """Every loop, and ordinary traffic."""
    ordinary = ours.core(ours.timelines(runs_of_calls(Shape(), runs)), name=ORDINARY)
    return take_turns([ordinary, *(_stuck(name, make) for name, make in LOOPS.items())], rounds)


def report() -> str:
    """The table."""
    timings = compared()
    lines = [
        (name, microseconds(timings.seconds(name)), times(timings.ratio(name, ORDINARY))) for name in timings.rounds
    ]
    return table(("run", "a call", "to ordinary traffic"), lines)


if __name__ == "__main__":
    print(report())
