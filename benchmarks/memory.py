"""What is kept per run?

tracemalloc over 10,000 runs of 30 distinct calls each, every run in a session of its own. Events are decoded one by
one and dropped; so every string that the guard keeps counts against it.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable

import orjson

from loopguard_plugin.core.guard import Guard
from loopguard_plugin.events import Event, decode_event

from . import ours
from .measure import table


def kept(runs: int = 10_000, calls: int = 30, **loop_detection: int) -> float:
    """Bytes that stay allocated for each run."""
    guard = Guard(ours.all_on(max_runs=runs, **loop_detection))
    feed = guard.feed
    _one_run(feed, -1, calls)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for run in range(runs - 1):
            _one_run(feed, run, calls)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / (runs - 1)
    finally:
        tracemalloc.stop()


def _event(fields: dict[str, object]) -> Event:
    """Made as a gateway makes it, with strings of its own."""
    return decode_event(orjson.dumps(fields))


def _started(run: int, at: int) -> dict[str, object]:
    args = {"path": f"src/module_{run}_{at}.py", "limit": 200}
    return {**_names(run, at), "type": "tool_call_started", "args": args}


def _settled(run: int, at: int) -> dict[str, object]:
    return {**_names(run, at), "type": "tool_call_settled", "result": f"text {run} {at} " * 30}


def _names(run: int, at: int) -> dict[str, object]:
    where = {"session_key": f"agent:main:{run}", "run_id": f"run-{run}", "batch_id": f"resp-{run}-{at}"}
    return {**where, "call_id": f"call-{run}-{at}", "tool": "read"}


def _one_run(feed: Callable[[Event, float], object], run: int, calls: int) -> None:
    for at in range(calls):
        feed(_event(_started(run, at)), 1.0)
        feed(_event(_settled(run, at)), 1.0)


def report() -> str:
    """The table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 10_000
    lines = [(f"{calls} calls", f"{kept(runs, calls) / 1024:.2f} KiB") for calls in (1, 30, 64)]
    return table((f"runs of ({runs:,} of them)", "kept per run"), lines)


if __name__ == "__main__":
    print(report())
