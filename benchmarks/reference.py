"""How does the core compare with the detector of the reference gateway, which runs in Node?

Seven loads, the very same values for both, in turns. One call is all that a guard does for it: detect and record for
the reference, start and settlement (the making of the events included) for this project. The package is not part of
this repository::

    npm pack openclaw && tar xzf openclaw-*.tgz          # anywhere
    OPENCLAW_DIST=package/dist python -m benchmarks.reference
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from loopguard_plugin.core.guard import Guard
from loopguard_plugin.events import ToolCallSettled, ToolCallStarted

from . import ours
from .measure import pin, table, times

SCRIPT = Path(__file__).with_suffix(".mjs")
PLACES = ("package/dist", "node_modules/openclaw/dist", "benchmarks/node_modules/openclaw/dist")
SMALL, LARGE = 500, 64 * 1024
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Load(Struct, frozen=True):
    """Calls that come round and round: the i-th has the i-th arguments and the i-th result."""

    name: str
    tool: str
    args: list[Any]
    results: list[Any]


def dense(seed: int, size: int) -> str:
    """Words in base 36, nearly all with digits in them: the hardest text to look for volatile spans in."""
    rng = random.Random(seed)
    words, length = [], 0
    while length < size:
        word = "".join(rng.choices(_DIGITS, k=rng.randint(5, 7))) + rng.choice(("\n", *" " * 6))
        words.append(word)
        length += len(word)
    return "".join(words)[:size]


def _args(at: int) -> dict[str, Any]:
    return {"path": f"/repo/src/part_{at:04d}.ts", "offset": at, "limit": 200, "note": dense(at, 24)}


def _page(at: int, text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "details": {"ok": True, "path": f"/repo/{at}"}}


def _failure(at: int, size: int) -> dict[str, Any]:
    drift = f"failed at 2026-08-30T10:20:{10 + at % 50}Z pid={at} attempt {at} after {at}ms\n"
    details = {"status": "completed", "exitCode": 1, "durationMs": at, "aggregated": drift + dense(5, size)}
    return {"content": [{"type": "text", "text": "failed"}], "details": details}


def _wrapped(at: int, size: int) -> dict[str, Any]:
    name = f"{random.Random(at).getrandbits(64):016x}"
    mark = f'EXTERNAL_UNTRUSTED_CONTENT id="{name}">>>'
    return _page(0, f"<<<{mark}\nSource: Browser\n---\n{dense(3, size)}\n<<<END_{mark}")


def loads() -> list[Load]:
    """The seven."""
    small, large = range(256), range(64)
    commands = [{"command": f"python job-{at % 64}.py --flag {dense(2, 60)}"} for at in small]
    moving, same = [_args(at) for at in small], [_args(1)]
    return [
        Load("0.5 KiB, progressing", "read", moving, [_page(at, dense(at, SMALL)) for at in small]),
        Load("0.5 KiB, stuck: one call, one result", "read", same, [_page(1, dense(1, SMALL))]),
        Load("0.5 KiB, failing commands", "exec", commands, [_failure(at, SMALL) for at in small]),
        Load("0.5 KiB, one call, wrapped anew", "web_fetch", same, [_wrapped(at, SMALL) for at in small]),
        Load("64 KiB, progressing", "read", moving[:64], [_page(at, dense(at, LARGE)) for at in large]),
        Load("64 KiB, failing commands", "exec", moving[:64], [_failure(at, LARGE) for at in large]),
        Load("64 KiB, one call, wrapped anew", "web_fetch", same, [_wrapped(at, LARGE) for at in large]),
    ]


def core_rate(load: Load, seconds: float) -> float:
    """Calls a second of a fresh guard."""
    feed = Guard(ours.all_on()).feed
    args, results, tool = load.args, load.results, load.tool
    calls = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        for at in range(calls, calls + 32):
            name = f"c{at}"
            own: dict[str, Any] = {"session_key": "s", "run_id": "run-1", "call_id": name, "batch_id": name}
            feed(ToolCallStarted(**own, tool=tool, args=args[at % len(args)]), 0.0)
            feed(ToolCallSettled(**own, tool=tool, result=results[at % len(results)]), 0.0)
        calls += 32
    return calls / (time.perf_counter() - start)


def missing() -> str | None:
    """What is not here that the reference needs."""
    if shutil.which("node") is None:
        return "Node is not installed"
    if _dist() is None:
        return "the npm package openclaw is not here (see the head of benchmarks/reference.py)"
    return None


def _dist() -> Path | None:
    places = [os.environ["OPENCLAW_DIST"]] if "OPENCLAW_DIST" in os.environ else PLACES
    return next((Path(place) for place in places if Path(place).is_dir()), None)


class Reference:
    """The detector in a process of its own."""

    def __init__(self, asked: IO[str], answers: IO[str]) -> None:
        self._asked, self._answers = asked, answers

    def ask(self, line: dict[str, Any]) -> None:
        """Send one line."""
        self._asked.write(json.dumps(line) + "\n")
        self._asked.flush()

    def rate(self, load: Load, seconds: float) -> float:
        """Calls a second."""
        self.ask({"time": load.name, "seconds": seconds})
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError("the reference ended: its package may have another layout by now")
        return float(json.loads(answer)["rate"])


@contextmanager
def reference(given: list[Load]) -> Iterator[Reference]:
    """The detector with these loads, ready to be timed."""
    with subprocess.Popen(["node", str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipes")
        try:
            asked = Reference(process.stdin, process.stdout)
            asked.ask({"dist": str(_dist())})
            for load in given:
                asked.ask({"define": load.name, "tool": load.tool, "args": load.args, "results": load.results})
            yield asked
        finally:
            process.kill()


def compared(rounds: int = 9, seconds: float = 0.15) -> dict[str, tuple[float, float]]:
    """Calls a second of the reference and of the core, by load: of the best of the rounds, for time is the clock's."""
    given = loads()
    found = {}
    pin()
    with reference(given) as other:
        for load in given:
            pairs = [(other.rate(load, seconds), core_rate(load, seconds)) for _ in range(rounds + 1)][1:]
            theirs, mine = map(max, zip(*pairs, strict=True))
            found[load.name] = (theirs, mine)
    return found


def report() -> str:
    """The table, or what is not here."""
    absent = missing()
    if absent:
        return f"Not measured: {absent}."
    lines = [
        (name, f"{theirs:,.0f}", f"{mine:,.0f}", times(mine / theirs)) for name, (theirs, mine) in compared().items()
    ]
    return table(("load", "reference, calls a second", "loopguard core", "ratio"), lines)


if __name__ == "__main__":
    print(report())
