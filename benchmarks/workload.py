"""Seeded traffic, shaped like that of real agents.

A run is 200 tool calls: arguments of about 110 bytes (5 % at 2 kB), results of 500 bytes in the median and 6 kB at
the 95th percentile with some of 64 and 256 KiB, 4 % of the responses with several calls at once. Everything else is
a parameter of :class:`Shape`. The same shape gives the same calls, everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from .texts import drifting, foreign, markup, nonce, prose


class Form(StrEnum):
    """What a result looks like."""

    TEXT = "text"  # a string
    MARKUP = "markup"  # a string of HTML and source code, with many "<"
    BLOB = "blob"  # an object that holds one big string
    ROWS = "rows"  # an object that holds many small rows
    TOOL = "tool"  # whatever the tool in question answers with: text, content blocks, details, hits...


class Movement(StrEnum):
    """How calls follow each other."""

    TRAFFIC = "traffic"  # mostly new calls, one in six a repetition, one in twenty a failure
    REPEATED = "repeated"  # groups of 8 equal calls with equal results
    PROGRESSING = "progressing"  # groups of 8 equal calls, each with another result


class Shape(Struct, frozen=True):
    """What a run looks like. ``size`` is in bytes of result; None draws from real traffic's distribution."""

    calls: int = 200
    size: int | None = 512
    form: Form = Form.TEXT
    movement: Movement = Movement.TRAFFIC
    parallel: float = 0.04
    seed: int = 1


class Call(Struct, frozen=True):
    """One tool call and what came of it. ``response`` numbers the model's answers: equal numbers are one batch.

    ``text`` is the result or error as a guard sees it that takes nothing but strings. ``identity`` is the tool's own
    ``outcome_identity``, which only this project's guard knows.
    """

    response: int
    tool: str
    args: dict[str, Any]
    result: Any
    error: str | None
    text: str
    identity: str | None = None


READING = ("read", "grep", "list_dir", "web_fetch", "memory_search")
"""Tools that change nothing: what some guards call idempotent."""
ACTING = ("exec", "edit", "write", "message", "process")

GROUP = 8
"""Equal calls in a row, in the movements that repeat: below every guard's warning as the peers are set up here."""


def run_of_calls(shape: Shape) -> list[Call]:
    """The calls of one run, in model call order."""
    rng = random.Random(shape.seed)
    makers = {Movement.TRAFFIC: _traffic, Movement.REPEATED: _grouped, Movement.PROGRESSING: _grouped}
    planned = makers[shape.movement](rng, shape)
    calls = []
    response = left = 0
    for tool, args, result, error in planned:
        if left:
            left -= 1
        else:
            response += 1
            left = rng.randint(1, 3) if rng.random() < shape.parallel else 0
        calls.append(call(response, tool, args, result, error))
    return calls


def runs_of_calls(shape: Shape, runs: int) -> list[list[Call]]:
    """Several runs of that shape, each with a seed of its own."""
    return [run_of_calls(msgspec.structs.replace(shape, seed=shape.seed + at)) for at in range(runs)]


def call(response: int, tool: str, args: dict[str, Any], result: Any, error: str | None = None) -> Call:
    """A call with its result as text."""
    text = error or (result if isinstance(result, str) else orjson.dumps(result).decode())
    return Call(response=response, tool=tool, args=args, result=result, error=error, text=text)


Planned = tuple[str, dict[str, Any], Any, str | None]


def _traffic(rng: random.Random, shape: Shape) -> list[Planned]:
    planned: list[Planned] = []
    seen: dict[int, int] = {}
    for at in range(shape.calls):
        back = rng.randint(1, 6)
        if planned and rng.random() < 1 / 6 and back <= len(planned) and seen.get(id(planned[-back][1]), 0) < 4:
            tool, args, result, error = planned[-back]
            seen[id(args)] = seen.get(id(args), 0) + 1
            if error is None:
                result = again(result) if rng.random() < 0.5 else make_result(rng, tool, shape)
            planned.append((tool, args, result, error and f"{error} ({at})"))
            continue
        tool = rng.choice(READING if rng.random() < 0.6 else ACTING)
        args = make_args(rng, tool)
        failed = rng.random() < 0.05
        result = None if failed else make_result(rng, tool, shape)
        planned.append((tool, args, result, f"{tool}: no such target {rng.getrandbits(32):08x}" if failed else None))
    return planned


def _grouped(rng: random.Random, shape: Shape) -> list[Planned]:
    planned: list[Planned] = []
    while len(planned) < shape.calls:
        tool = rng.choice(READING)
        args = make_args(rng, tool)
        result = make_result(rng, tool, shape)
        for _ in range(min(GROUP, shape.calls - len(planned))):
            planned.append((tool, again(args), result, None))
            repeated = shape.movement is Movement.REPEATED
            result = again(result) if repeated else make_result(rng, tool, shape)
    return planned


def again(value: Any) -> Any:
    """An equal value that is another object throughout, as it would come off the wire once more."""
    return orjson.loads(orjson.dumps(value))


def make_args(rng: random.Random, tool: str) -> dict[str, Any]:
    """Arguments of about 110 bytes of JSON; one in twenty 2 kB."""
    path = f"src/{rng.choice('abcdefgh')}{rng.randrange(900)}/module_{rng.randrange(9000)}.py"
    args = _ARGS[tool](rng, path)
    size = 2000 if rng.random() < 0.05 else max(70, round(rng.gauss(110, 18)))
    missing = size - len(orjson.dumps(args))
    if missing > 10:
        args["content" if tool == "write" else "reason"] = prose(rng, missing - 12)
    return args


_ARGS: dict[str, Callable[[random.Random, str], dict[str, Any]]] = {
    "read": lambda rng, path: {"path": path, "offset": rng.randrange(5000), "limit": 200},
    "grep": lambda rng, path: {"pattern": prose(rng, 14), "path": path, "flags": ["-n", "-i"], "context": 2},
    "list_dir": lambda rng, path: {"path": path, "depth": 2, "hidden": False},
    "web_fetch": lambda rng, path: {"url": f"https://example.org/{path}", "max_bytes": 65536},
    "memory_search": lambda rng, path: {"query": prose(rng, 24), "limit": 8, "min_score": 0.35},
    "exec": lambda rng, path: {"command": f"pytest -q {path} -k {rng.getrandbits(24):x}", "timeout": 120},
    "edit": lambda rng, path: {"path": path, "edits": [{"old": prose(rng, 12), "new": prose(rng, 12)}]},
    "write": lambda rng, path: {"path": path, "content": ""},
    "message": lambda rng, path: {"action": "send", "channel": "ops", "text": prose(rng, 20), "silent": True},
    "process": lambda rng, path: {"action": "poll", "sessionId": f"p-{rng.getrandbits(32):08x}", "timeout": 5},
}


def make_result(rng: random.Random, tool: str, shape: Shape) -> Any:
    """A result of about ``shape.size`` bytes, in the shape's form."""
    size = traffic_size(rng) if shape.size is None else shape.size
    if shape.form is Form.TEXT:
        return prose(rng, size)
    if shape.form is Form.MARKUP:
        return markup(rng, size)
    if shape.form is Form.BLOB:
        return {"path": "out.log", "truncated": False, "body": prose(rng, max(1, size - 60))}
    if shape.form is Form.ROWS:
        return {"rows": rows(rng, size), "next": None}
    return _BY_TOOL[tool](rng, size)


def traffic_size(rng: random.Random) -> int:
    """500 bytes in the median, 6 kB at the 95th percentile; 1 % of 64 KiB and 0.5 % of 256 KiB."""
    dice = rng.random()
    if dice < 0.005:
        return 256 * 1024
    if dice < 0.015:
        return 64 * 1024
    return max(2, min(64 * 1024, round(500 * rng.lognormvariate(0.0, 1.45))))


def rows(rng: random.Random, size: int) -> list[dict[str, Any]]:
    """Rows of about 100 bytes of JSON each."""
    return [
        {"id": at, "name": prose(rng, 30), "score": round(rng.random(), 3), "tags": ["a", "b"], "ok": True}
        for at in range(max(1, size // 100))
    ]


def _content(text: str, **details: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if details:
        result["details"] = details
    return result


def _exec(rng: random.Random, size: int) -> dict[str, Any]:
    text = drifting(rng, rng, size, rng.random() * 0.02)
    return _content(text, status="completed", exitCode=0, durationMs=rng.randrange(9000), aggregated=text)


def _web(rng: random.Random, size: int) -> dict[str, Any]:
    return _content(nonce(rng, markup(rng, size)), url="https://example.org/", status=200)


_BY_TOOL: dict[str, Callable[[random.Random, int], Any]] = {
    "read": lambda rng, size: _content(foreign(rng, size) if rng.random() < 0.15 else prose(rng, size)),
    "grep": prose,
    "list_dir": lambda rng, size: {"entries": rows(rng, size), "total": size // 100},
    "web_fetch": _web,
    "memory_search": lambda rng, size: _content("hits", results=rows(rng, size), timing={"ms": rng.randrange(90)}),
    "exec": _exec,
    "edit": lambda rng, size: _content("edited", changed=True, diff=prose(rng, size)),
    "write": lambda rng, size: _content(f"wrote {size} bytes", changed=True),
    "message": lambda rng, size: _content("sent", ok=True, messageId=f"m-{rng.getrandbits(40):x}", channel="ops"),
    "process": lambda rng, size: _content(prose(rng, size), status="running", exitCode=None),
}


def sizes(calls: Sequence[Call]) -> tuple[float, float]:
    """Mean bytes of canonical arguments and of result text: printed above the tables."""
    count = len(calls)
    args = sum(len(orjson.dumps(call.args)) for call in calls)
    return args / count, sum(len(call.text) for call in calls) / count
