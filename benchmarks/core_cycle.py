"""What does a call cost, start and settlement, against the floor and against other guards?"""

from __future__ import annotations

from . import floor, ours, peers
from .looks import looks_at
from .measure import Timings, microseconds, table, take_turns, times
from .workload import Form, Shape, runs_of_calls, sizes

SHAPES = {
    "Results of 0.5 KiB of text": Shape(),
    "Results of 16 KiB of text": Shape(calls=64, size=16 * 1024),
    "Results of 256 KiB of text": Shape(calls=24, size=256 * 1024),
    "Results as real traffic has them (all sizes, all kinds)": Shape(size=None, form=Form.TOOL),
}


def compared(shape: Shape, *, runs: int = 5, rounds: int = 7, others: bool = True) -> Timings:
    """The core, the floor and, if asked for, every installed peer over the same runs."""
    given = runs_of_calls(shape, runs)
    contenders = [floor.floor(given), ours.core(ours.timelines(given))]
    if others:
        contenders += [peers.contender(name, runner, given) for name, runner in peers.installed().items()]
    return take_turns(contenders, rounds)


def by_naming(rounds: int = 7) -> Timings:
    """The core, by how a gateway names responses."""
    given = runs_of_calls(Shape(), 5)
    named = [ours.core(ours.timelines(given, naming), name=naming) for naming in ours.Naming]
    return take_turns([floor.floor(given), *named], rounds)


def report() -> str:
    """The tables."""
    looks = {name: str(looks_at(runner)) for name, runner in {ours.CORE: ours.runner(), **peers.installed()}.items()}
    parts = []
    for title, shape in SHAPES.items():
        args, result = sizes([call for calls in runs_of_calls(shape, 5) for call in calls])
        timings = compared(shape)
        ranked = sorted(timings.rounds, key=timings.seconds)
        lines = [
            (
                name,
                microseconds(timings.seconds(name)),
                times(timings.ratio(name, floor.NAME)),
                times(timings.ratio(name, ours.CORE)),
                looks.get(name, ""),
            )
            for name in ranked
        ]
        head = ("guard", "a call", "to the floor", "to loopguard", "results")
        mean = f"mean {args:.0f} bytes of arguments, {result:.0f} of result"
        parts.append(f"**{title}** ({mean})\n\n{table(head, lines)}")
    timings = by_naming()
    named = [
        (name, microseconds(timings.seconds(name)), times(timings.ratio(name, floor.NAME))) for name in ours.Naming
    ]
    parts.append("**By how responses are named**\n\n" + table(("events carry", "a call", "to the floor"), named))
    if absent := peers.missing():
        parts.append(f"Not installed, so not measured: {', '.join(absent)}.")
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(report())
