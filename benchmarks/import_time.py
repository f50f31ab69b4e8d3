"""What does importing cost, beside importing msgspec, orjson and xxhash alone? And what does it load?"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from .measure import table, times

ALONE = "import msgspec, orjson, xxhash"
WHOLE = "from loopguard_plugin import Deliver, TurnEndingError, decode_event"  # the package alone loads nothing
USED = "from loopguard_plugin import LoopGuard, Settings"
UNWANTED = ("asyncio", "anyio", "trio", "loguru", "argparse", "rich", "click", "logging", "pyjson5")
"""Not to be loaded by importing the package: event loops, logging, libraries of the command line."""


def once(statement: str) -> float:
    """Seconds of processor time that the statement takes in a fresh interpreter."""
    code = f"from time import process_time as t\na = t()\n{statement}\nprint(t() - a)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def compared(rounds: int = 15, statements: tuple[str, ...] = (ALONE, WHOLE, USED)) -> dict[str, list[float]]:
    """Seconds by statement, taking turns; one round to warm up is thrown away."""
    taken: dict[str, list[float]] = {statement: [] for statement in statements}
    for turn in range(rounds + 1):
        for statement in statements:
            seconds = once(statement)
            if turn:
                taken[statement].append(seconds)
    return taken


def loaded(statement: str = WHOLE) -> list[str]:
    """Those of the unwanted modules that the statement loads, beyond what the interpreter itself does."""
    code = (
        f"import sys, json\nbefore = set(sys.modules)\n{ALONE}\n{statement}\n"
        f"print(json.dumps([m for m in {UNWANTED!r} if m in sys.modules and m not in before]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return [str(name) for name in json.loads(out)]


def report() -> str:
    """The table."""
    taken = compared()
    base = statistics.median(taken[ALONE])
    lines = [
        (
            f"`{statement}`",
            f"{statistics.median(seconds) * 1e3:.1f} ms",
            times(statistics.median(seconds) / base),
            ", ".join(loaded(statement)) or "none",
        )
        for statement, seconds in taken.items()
    ]
    return table(("statement", "time", "to the libraries alone", "event loop, logging or CLI loaded"), lines)


if __name__ == "__main__":
    print(report())
