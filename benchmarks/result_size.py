"""How does the cost grow with the result, and who is the fastest guard that compares results too?"""

from __future__ import annotations

import functools
from collections.abc import Collection

from . import floor, ours, peers
from .looks import looks_at
from .measure import Timings, microseconds, table, take_turns, times
from .peers import Runner
from .workload import Form, Movement, Shape, runs_of_calls

KIB = 1024
SIZES = {KIB // 2: 200, 16 * KIB: 64, 256 * KIB: 24}
"""Size of result → calls a run."""
FORMS = (Form.TEXT, Form.MARKUP, Form.BLOB, Form.ROWS)
MOVEMENTS = (Movement.REPEATED, Movement.PROGRESSING)


def compared(
    form: Form, size: int, movement: Movement, others: dict[str, Runner], *, runs: int = 1, rounds: int = 5
) -> Timings:
    """The core, the floor and these peers with results of one form and size."""
    given = runs_of_calls(Shape(calls=SIZES[size], size=size, form=form, movement=movement), runs)
    rivals = [peers.contender(name, runner, given) for name, runner in others.items()]
    return take_turns([floor.floor(given), ours.core(ours.timelines(given)), *rivals], rounds)


@functools.cache
def comparing() -> dict[str, Runner]:
    """The installed peers whose verdicts depend on results."""
    return {name: runner for name, runner in peers.installed().items() if looks_at(runner).results}


def fastest(timings: Timings, among: Collection[str]) -> str | None:
    """The fastest of these peers."""
    return min((name for name in timings.rounds if name in among), key=timings.seconds, default=None)


def _beside(timings: Timings, rival: str | None) -> str:
    return f"{rival}: {times(timings.ratio(rival, ours.CORE))}" if rival else ""


def report() -> str:
    """The table."""
    others = comparing()
    lines = []
    for form in FORMS:
        for size in SIZES:
            for movement in MOVEMENTS:
                timings = compared(form, size, movement, others, runs=2 if size < KIB else 1)
                given_text = set() if form in (Form.TEXT, Form.MARKUP) else peers.text_only()
                lines.append(
                    (
                        f"{form}, {size / KIB:g} KiB, {movement}",
                        microseconds(timings.seconds(floor.NAME)),
                        microseconds(timings.seconds(ours.CORE)),
                        times(timings.ratio(ours.CORE, floor.NAME)),
                        _beside(timings, fastest(timings, others.keys() - given_text)),
                        _beside(timings, fastest(timings, others.keys() & given_text)),
                    )
                )
    head = ("results", "floor", "loopguard", "to the floor", "fastest peer that compares", "given ready-made text")
    return f"{table(head, lines)}\n\nPeers: their time to loopguard's; above 1, loopguard is faster."


if __name__ == "__main__":
    print(report())
