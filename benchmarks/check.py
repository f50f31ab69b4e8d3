"""Does any ratio fall behind? Exits with status 1 if so.

A short workload, a few rounds, and limits well above what is measured on a quiet machine, so that a failure means a
change in the code and not a busy neighbour: what fails is measured again, twice at most, before it counts. Needs
nothing but the package itself; peers that happen to be installed take part.

A limit is not a target. The targets ("must") are stated for the full workload on a quiet machine, the limits for
any machine: a limit is the target and a margin, which is widest where a cycle is shortest.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator

from msgspec import Struct

from . import (
    bus_cycle,
    core_cycle,
    exec_failures,
    floor,
    history_size,
    import_time,
    memory,
    open_runs,
    ours,
    peers,
    result_size,
    stuck,
)
from .measure import table
from .workload import Form, Movement, Shape

ATTEMPTS = 3


class Limit(Struct, frozen=True):
    """What is held: ``measure`` answers a number that is not to be above ``most``. ``must`` is the target."""

    what: str
    must: float
    most: float
    measure: Callable[[], float]


def _core() -> float:
    return core_cycle.compared(Shape(), runs=3, rounds=9, others=False).ratio(ours.CORE, floor.NAME)


def _large(form: Form) -> float:
    timings = result_size.compared(form, 256 * 1024, Movement.REPEATED, {}, rounds=7)
    return timings.best_ratio(ours.CORE, floor.NAME)


def _traffic() -> float:
    shape = Shape(size=None, form=Form.TOOL)
    return core_cycle.compared(shape, runs=5, rounds=7, others=False).ratio(ours.CORE, floor.NAME)


def _stuck() -> float:
    """The dearest of the runs that stay stuck, to ordinary traffic."""
    timings = stuck.compared(rounds=7)
    return max(timings.best_ratio(name, stuck.ORDINARY) for name in stuck.LOOPS)


def _bus() -> float:
    return bus_cycle.compared(runs=3, rounds=9).ratio(ours.BUS, ours.CORE)


def _spans() -> float:
    return exec_failures.worst(exec_failures.SPANS, exec_failures.PLAIN)


def _exec() -> float:
    return exec_failures.compared(max(exec_failures.DIGITS), count=16, rounds=3).best_ratio(
        ours.CORE, exec_failures.PLAIN
    )


def _history() -> float:
    return history_size.compared(history_size.traffic(), rounds=7).best_ratio("3000", "30")


def _open() -> float:
    return open_runs.compared((1, 20_000), calls=3_000, rounds=4).best_ratio("20,000", "1")


def _memory(calls: int) -> float:
    return memory.kept(500, calls) / 1024


def _import() -> float:
    taken = import_time.compared(7, (import_time.ALONE, import_time.WHOLE))
    return min(taken[import_time.WHOLE]) / min(taken[import_time.ALONE])


def _unwanted() -> float:
    return len(import_time.loaded())


def _peer(size: int) -> float:
    """The core to the fastest peer that compares results."""
    others = result_size.comparing()
    timings = result_size.compared(Form.TEXT, size, Movement.PROGRESSING, others, rounds=5)
    rival = result_size.fastest(timings, others)
    return timings.best_ratio(ours.CORE, rival) if rival else 0.0


def limits() -> Iterator[Limit]:
    """Everything that is held, the cheap ones first."""
    yield Limit("modules that importing should not load", 0, 0, _unwanted)
    yield Limit("import, to the libraries alone", 1.4, 1.7, _import)
    yield Limit("core, to the floor, 0.5 KiB of text", 10, 20, _core)
    yield Limit("core, to the floor, 256 KiB of text", 2, 3, lambda: _large(Form.TEXT))
    yield Limit("core, to the floor, 256 KiB of markup", 4.5, 6, lambda: _large(Form.MARKUP))
    yield Limit("core, to the floor, real traffic", 4.5, 8, _traffic)
    yield Limit("core, to the floor, rows of 256 KiB", 1.3, 2.4, lambda: _large(Form.ROWS))
    yield Limit("a run that stays stuck, to ordinary traffic", 2, 3, _stuck)
    yield Limit("bus, to the core", 1.8, 2.4, _bus)
    yield Limit("spans of failing commands, at worst, to five plain passes", 0.35, 0.42, _spans)
    yield Limit("failing commands full of spans, to five plain passes", 0.35, 0.42, _exec)
    yield Limit("historySize 3,000, to 30", 1.2, 1.6, _history)
    yield Limit("20,000 open runs, to one (must: 100,000)", 2.5, 3.5, _open)
    yield Limit("KiB kept per run of 30 different calls", 8, 8.4, lambda: _memory(30))
    yield Limit("KiB kept per run of 64 different calls", 16, 16.8, lambda: _memory(64))
    if peers.installed():
        for size in result_size.SIZES:
            what = f"core, to the fastest peer that compares, {size / 1024:g} KiB"
            yield Limit(what, 1, 1, functools.partial(_peer, size))


def main() -> int:
    """Measure, print the table, and say by the status whether all holds."""
    lines = []
    behind = 0
    for limit in limits():
        seen: list[float] = []
        while len(seen) < ATTEMPTS and (not seen or min(seen) > limit.most):
            seen.append(limit.measure())
        best = min(seen)
        behind += best > limit.most
        verdict = "behind" if best > limit.most else "holds, above must" if best > limit.must else ""
        lines.append((limit.what, f"{limit.must:g}", f"{limit.most:g}", f"{best:.2f}", verdict))
    print(table(("what", "must", "limit of this check", "measured", ""), lines))
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
