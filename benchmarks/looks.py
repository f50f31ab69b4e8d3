"""Does a guard look at results? Found by trying.

The same call 40 times: once with the same result each time, once with another result each time. A guard whose
verdicts differ between the two compares results. The same with failures and their error texts. A guard whose verdicts
do not differ, but that takes longer for a longer result, reads results without using them here.
"""

from __future__ import annotations

import contextlib
import io

from msgspec import Struct

from .measure import once
from .peers import Runner
from .workload import Call


class Looks(Struct, frozen=True):
    """What a guard's verdicts depend on; ``reads``: its time grows with the result."""

    results: bool
    errors: bool
    reads: bool

    def __str__(self) -> str:
        if self.results:
            return "compared"
        if self.errors:
            return "only those of failures"
        return "read, not compared" if self.reads else "no"


def looks_at(runner: Runner) -> Looks:
    """Try a guard; what it prints while it halts is swallowed."""
    with contextlib.redirect_stdout(io.StringIO()):
        same, moving = (_flagged(runner, moving=moving, failing=False) for moving in (False, True))
        same_error, moving_error = (_flagged(runner, moving=moving, failing=True) for moving in (False, True))
        short, long = (min(once(runner(_calls(5, size))) for _ in range(4)) for size in (100, 300_000))
    return Looks(results=same != moving, errors=same_error != moving_error, reads=long > 3 * short)


def _flagged(runner: Runner, *, moving: bool, failing: bool) -> int:
    return runner(_calls(40, 100, moving=moving, failing=failing))()


def _calls(count: int, size: int, *, moving: bool = False, failing: bool = False) -> list[Call]:
    calls = []
    for at in range(count):
        text = ("abcdefgh " * (size // 9 + 1))[:size] + (f" {chr(97 + at % 26)}{at} " * 9 if moving else "")
        args = {"path": "src/main.py"}
        error = text if failing else None
        calls.append(Call(at, "read", args, None if failing else text, error, text))
    return calls
