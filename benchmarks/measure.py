"""Taking turns: medians of interleaved rounds, and ratios within each round."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

Timed = Callable[[], object]
_SIGN = "\N{MULTIPLICATION SIGN}"


class Contender(Struct, frozen=True):
    """Something to be timed. ``prepare`` builds what it needs, off the clock, afresh for every round, and returns
    what is timed. ``per`` is how many cycles one round holds."""

    name: str
    per: int
    prepare: Callable[[], Timed]


class Timings(Struct, frozen=True):
    """Seconds a cycle, for each contender, round by round."""

    rounds: dict[str, list[float]]

    def seconds(self, name: str) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, to: str) -> float:
        """The median of the ratios within each round."""
        pairs = zip(self.rounds[name], self.rounds[to], strict=True)
        return statistics.median(mine / other for mine, other in pairs)

    def best_ratio(self, name: str, to: str) -> float:
        """The ratio of the best rounds: least moved by what else the machine does, for limits that must not flake."""
        return min(self.rounds[name]) / min(self.rounds[to])


def pin() -> None:
    """Stay on one core, where the system can be asked for that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def take_turns(contenders: Sequence[Contender], rounds: int = 7) -> Timings:
    """Time the contenders A B C A B C ...; one more round first, to warm up, is thrown away."""
    pin()
    taken: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for turn in range(rounds + 1):
        for contender in contenders:
            seconds = once(contender.prepare()) / contender.per
            if turn:
                taken[contender.name].append(seconds)
    return Timings(rounds=taken)


def once(timed: Timed) -> float:
    """Seconds of processor time that one call takes: what other processes do meanwhile does not count.

    The collector is on, but blind to all that was built before.
    """
    gc.collect()
    gc.freeze()
    try:
        start = time.process_time()
        timed()
        return time.process_time() - start
    finally:
        gc.unfreeze()


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are aligned to the right."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *lines))


def microseconds(seconds: float) -> str:
    """Three digits or so: ``0.52 µs``, ``14.6 µs``, ``2650 µs``."""
    value = seconds * 1e6
    return f"{value:.2f} µs" if value < 10 else f"{value:.1f} µs" if value < 100 else f"{value:.0f} µs"


def times(ratio: float) -> str:
    """A ratio as people write it: 7.40 and a multiplication sign."""
    return f"{ratio:.2f} {_SIGN}" if ratio < 10 else f"{ratio:.0f} {_SIGN}"
