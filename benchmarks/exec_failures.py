"""What do failing commands cost whose output drifts (SPEC 5.1)?

Beside five plain ``re.sub`` passes over the same output, which is the obvious way to take the drift out of it.
"""

from __future__ import annotations

import random
import re

from . import floor, ours
from .measure import Contender, Timed, Timings, microseconds, table, take_turns, times
from .texts import drifting
from .workload import GROUP, Call, call

SIZE = 64 * 1024
DIGITS = (0.0, 0.002, 0.02, 0.2)
"""Share of words that have digits in them."""
PLAIN = "five re.sub passes"

_PASSES = [
    (re.compile(pattern, re.IGNORECASE | re.ASCII), replacement)
    for pattern, replacement in (
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)?", "<timestamp>"),
        (r"\b\d{1,2}:\d\d:\d\d(?:\.\d{1,6})?\b", "<time>"),
        (r"\b(attempt|retry)([\s#:=]*)\d+\b", r"\1\2<n>"),
        (r"\b\d+(?:\.\d+)?\s?(?:ns|us|ms|s|seconds?|minutes?|hours?)\b", "<duration>"),
        (r"\b(ppid|pid)([\s#:=]*)\d+\b", r"\1\2<n>"),
    )
]


def failures(digits: float, *, size: int = SIZE, count: int = 24) -> list[Call]:
    """Commands that fail with exit code 1, eight in a row with the same cause, each output with other times in it."""
    calls = []
    for at in range(count):
        group, drift = random.Random(at // GROUP), random.Random(1000 + at)
        text = drifting(group, drift, size, digits)
        details = {"status": "completed", "exitCode": 1, "timedOut": False, "durationMs": at, "aggregated": text}
        result = {"content": [{"type": "text", "text": text}], "details": details}
        calls.append(call(at, "exec", {"command": f"make target-{at // GROUP}", "timeout": 600}, result))
    return calls


def plain(calls: list[Call]) -> Contender:
    """The five passes, one after the other, over each output."""
    texts = [one.result["details"]["aggregated"] for one in calls]

    def timed() -> None:
        for text in texts:
            for pattern, replacement in _PASSES:
                text = pattern.sub(replacement, text)

    def prepare() -> Timed:
        return timed

    return Contender(name=PLAIN, per=len(calls), prepare=prepare)


def compared(digits: float, *, size: int = SIZE, count: int = 24, rounds: int = 5) -> Timings:
    """The core, the floor and the passes over the same failures."""
    calls = failures(digits, size=size, count=count)
    return take_turns([floor.floor([calls]), plain(calls), ours.core(ours.timeline(calls))], rounds)


def report() -> str:
    """The table."""
    lines = []
    for digits in DIGITS:
        timings = compared(digits)
        lines.append(
            (
                f"{digits:.1%}",
                microseconds(timings.seconds(PLAIN)),
                microseconds(timings.seconds(ours.CORE)),
                times(timings.ratio(ours.CORE, PLAIN)),
                times(timings.ratio(ours.CORE, floor.NAME)),
            )
        )
    return table(("words with digits", PLAIN, "loopguard", "to the passes", "to the floor"), lines)


if __name__ == "__main__":
    print(report())
