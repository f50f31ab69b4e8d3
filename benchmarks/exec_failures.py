"""What do failing commands cost whose output is full of times and ids (SPEC 5.1, 5.1b)?

Beside plain ``re.sub`` passes over the same output, which is the obvious way to take the volatile spans out of it: five
for SPEC 5.1, nine with those of 5.1b. Two functions alone, and the whole cycle of the core.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from loopguard_plugin.core.outcomes.volatile import without_spans, without_volatile

from . import floor, ours
from .measure import Contender, Timed, Timings, microseconds, table, take_turns, times
from .texts import drifting
from .workload import GROUP, Call, call

SIZE = 64 * 1024
DIGITS = (0.0, 0.002, 0.02, 0.1, 0.2, 0.5, 1.0)
"""Share of words that have digits in them."""
PLAIN = "five re.sub passes"
NINE = "nine re.sub passes"
SPANS = "without_spans"
VOLATILE = "without_volatile"

_HEX = "[0-9a-f]"
_PASSES = [
    (re.compile(pattern, re.IGNORECASE | re.ASCII), replacement)
    for pattern, replacement in (
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)?", "<timestamp>"),
        (r"\b\d{1,2}:\d\d:\d\d(?:\.\d{1,6})?\b", "<time>"),
        (r"\b(attempt|retry)([\s#:=]*)\d+\b", r"\1\2<n>"),
        (r"\b\d+(?:\.\d+)?\s?(?:ns|us|ms|s|seconds?|minutes?|hours?)\b", "<duration>"),
        (r"\b(ppid|pid)([\s#:=]*)\d+\b", r"\1\2<n>"),
        (rf"\b{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}\b", "<uuid>"),
        (rf"\b0x{_HEX}+\b", "<address>"),
        (rf"\b(?=[a-z]*\d)(?=\d*[a-z])(?:[a-z\d]{{16,}}|{_HEX}{{12,}})\b", "<id>"),
        (r"""\b((?:x-)?(?:request|trace|correlation|span)[ _-]?id\b[\s"':=#]*)[\w.-]+""", r"\1<id>"),
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


def over(name: str, texts: Sequence[str], work: Callable[[str], object]) -> Contender:
    """The work, over each of the texts."""

    def timed() -> None:
        for text in texts:
            work(text)

    def prepare() -> Timed:
        return timed

    return Contender(name=name, per=len(texts), prepare=prepare)


def passes(count: int) -> Callable[[str], str]:
    """The first passes, one after the other."""

    def work(text: str) -> str:
        for pattern, replacement in _PASSES[:count]:
            text = pattern.sub(replacement, text)
        return text

    return work


def compared(digits: float, *, size: int = SIZE, count: int = 24, rounds: int = 5) -> Timings:
    """The functions, the passes, the core and the floor over the same failures."""
    calls = failures(digits, size=size, count=count)
    texts = [one.result["details"]["aggregated"] for one in calls]
    return take_turns(
        [
            over(PLAIN, texts, passes(5)),
            over(SPANS, texts, without_spans),
            over(NINE, texts, passes(9)),
            over(VOLATILE, texts, without_volatile),
            ours.core(ours.timeline(calls)),
            floor.floor([calls]),
        ],
        rounds,
    )


def worst(name: str, to: str, *, count: int = 16, rounds: int = 3) -> float:
    """The highest ratio of the best rounds, of all shares of words with digits."""
    return max(compared(digits, count=count, rounds=rounds).best_ratio(name, to) for digits in DIGITS)


def report() -> str:
    """The table."""
    lines = []
    for digits in DIGITS:
        timings = compared(digits)
        line = [f"{digits:.1%}"]
        for name, to in ((SPANS, PLAIN), (VOLATILE, NINE), (ours.CORE, PLAIN)):
            line += [microseconds(timings.seconds(name)), times(timings.ratio(name, to))]
        lines.append([*line, times(timings.ratio(ours.CORE, floor.NAME))])
    heads = (SPANS, f"to {PLAIN}", VOLATILE, f"to {NINE}", ours.CORE, "to the five", "to the floor")
    return table(("words with digits", *heads), lines)


if __name__ == "__main__":
    print(report())
