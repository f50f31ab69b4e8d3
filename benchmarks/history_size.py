"""Does the cost grow with ``historySize``?"""

from __future__ import annotations

from . import ours
from .measure import Contender, Timings, microseconds, table, take_turns, times
from .workload import Call, Shape, call, run_of_calls

SIZES = (30, 300, 3000)
FILLED, TIMED = 3200, 400


def traffic() -> list[Call]:
    """One long run of ordinary traffic."""
    return run_of_calls(Shape(calls=FILLED + TIMED))


def poller() -> list[Call]:
    """One call for ever, whose result always moves."""
    args = {"action": "poll", "sessionId": "p-1"}
    return [call(at, "process", args, f"line {at}") for at in range(FILLED + TIMED)]


def alternating() -> list[Call]:
    """Two calls in turn for ever, whose results always move."""
    return [call(at, "read", {"path": f"file_{at % 2}.py"}, f"line {at}") for at in range(FILLED + TIMED)]


def churning() -> list[Call]:
    """One tool that always fails in another way, with arguments that go round."""
    return [call(at, "edit", {"path": f"file_{at % 5}.py"}, None, f"error {at}") for at in range(FILLED + TIMED)]


RUNS = {"traffic": traffic, "a poller": poller, "two calls in turn": alternating, "failures": churning}


def compared(calls: list[Call], *, rounds: int = 7) -> Timings:
    """The last calls of a run long enough to fill every history."""
    split = next(at for at in range(FILLED, len(calls)) if calls[at].response != calls[at - 1].response)
    warm, timed = ours.timeline(calls[:split]), ours.timeline(calls[split:], first=split)

    def one(size: int) -> Contender:
        return ours.core(timed, warm=warm, settings=ours.all_on(historySize=size), name=str(size))

    return take_turns([one(size) for size in SIZES], rounds)


def report() -> str:
    """The table."""
    lines = []
    for name, make in RUNS.items():
        timings = compared(make())
        cells = [f"{microseconds(timings.seconds(str(n)))} ({times(timings.ratio(str(n), '30'))})" for n in SIZES]
        lines.append((name, *cells))
    return table(("run", *(f"historySize {size}" for size in SIZES)), lines)


if __name__ == "__main__":
    print(report())
