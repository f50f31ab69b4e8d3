"""What does each kind of outcome cost: every row of the table in SPEC 5, results of 0.5 KiB?"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from . import floor, ours
from .measure import Timings, microseconds, table, take_turns, times
from .texts import drifting, markup, nonce, prose
from .workload import Call, call, rows

SIZE = 512
Made = tuple[str, dict[str, Any], Any]
"""Tool, arguments, result."""


def _content(text: str, **details: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **({"details": details} if details else {})}


def _code_mode(rng: random.Random) -> Made:
    asked = [{"id": f"op-{rng.getrandbits(30)}", "method": "read", "args": {"path": prose(rng, 40)}}]
    payload = {"status": "waiting", "runId": f"r-{rng.getrandbits(30)}", "telemetry": {"ms": rng.random()}}
    return "exec", {"code": prose(rng, 80)}, {**payload, "pendingToolCalls": asked, "output": prose(rng, 350)}


def _exec(rng: random.Random, **details: Any) -> Made:
    text = drifting(rng, rng, SIZE, 0.02)
    return "exec", {"command": prose(rng, 80)}, _content(text, aggregated=text, **details)


def _process(rng: random.Random, action: str) -> Made:
    args = {"action": action, "sessionId": f"p-{rng.getrandbits(32):x}"}
    return "process", args, _content(prose(rng, SIZE), status="running", exitCode=None, totalLines=10)


def _sent(rng: random.Random) -> Made:
    receipt = {"messageId": f"m-{rng.getrandbits(40):x}", "sentAt": rng.random(), "channel": "ops"}
    result = _content("sent", ok=True, receipt=receipt, to=prose(rng, 300))
    return "message", {"action": "send", "text": prose(rng, 80)}, result


def _hits(rng: random.Random) -> Made:
    hits = [{"path": f"n{at}.md", "snippet": prose(rng, 90), "score": rng.random(), "line": at} for at in range(4)]
    return "memory_search", {"query": prose(rng, 80)}, _content("hits", results=hits, timing={"ms": rng.random()})


def _window(rng: random.Random) -> Made:
    elements = [{"elementRef": f"e{at}", "role": "button", "label": prose(rng, 30)} for at in range(5)]
    seen = {"kind": "window", "observationId": f"o-{rng.getrandbits(30)}", "elements": elements}
    return "computer", {"action": "observe", "window": prose(rng, 80)}, {"observation": seen, "base64": prose(rng, 100)}


def _plain(rng: random.Random, result: Any) -> Made:
    return "lookup", {"query": prose(rng, 90)}, result


KINDS: dict[str, Callable[[random.Random], Made]] = {
    "1 outcome_identity": lambda rng: _plain(rng, prose(rng, SIZE)),
    "2 error": lambda rng: _plain(rng, prose(rng, SIZE)),
    "3 Code Mode": _code_mode,
    "4 exec, running": lambda rng: _exec(rng, status="running", tail=prose(rng, 200)),
    "5 exec, completed": lambda rng: _exec(rng, status="completed", exitCode=0),
    "5 exec, failing": lambda rng: _exec(rng, status="completed", exitCode=1),
    "6 exec, approval": lambda rng: _exec(rng, status="approval-pending", reason="new command", host="h"),
    "7 failure as a result": lambda rng: _plain(rng, _content(prose(rng, SIZE), status="failed")),
    "8 write, unchanged": lambda rng: ("write", {"path": prose(rng, 90)}, _content(prose(rng, SIZE), changed=False)),
    "9 process poll": lambda rng: _process(rng, "poll"),
    "10 process log": lambda rng: _process(rng, "log"),
    "11 message sent": _sent,
    "12 memory_search": _hits,
    "13 computer window": _window,
    "14 progress_card": lambda rng: ("progress_card", {"title": prose(rng, 80)}, {"steps": rows(rng, SIZE)}),
    "15 content blocks": lambda rng: _plain(rng, _content(prose(rng, SIZE))),
    "15 content and details": lambda rng: _plain(rng, _content(prose(rng, 300), rows=rows(rng, 200))),
    "15 wrapped in nonces": lambda rng: _plain(rng, _content(nonce(rng, markup(rng, SIZE - 180)))),
    "16 text": lambda rng: _plain(rng, prose(rng, SIZE)),
    "16 object": lambda rng: _plain(rng, {"rows": rows(rng, SIZE)}),
    "16 number": lambda rng: _plain(rng, rng.randrange(10**9)),
}


def calls_of(kind: str, count: int = 200) -> list[Call]:
    """Distinct calls of one kind."""
    rng = random.Random(kind)
    made = [KINDS[kind](rng) for _ in range(count)]
    if kind.startswith("1 "):
        named = (call(at, *one) for at, one in enumerate(made))
        return [msgspec.structs.replace(one, identity=f"state-{at}") for at, one in enumerate(named)]
    if kind.startswith("2 "):
        return [call(at, tool, args, None, text) for at, (tool, args, text) in enumerate(made)]
    return [call(at, *one) for at, one in enumerate(made)]


def compared(kind: str, rounds: int = 7) -> Timings:
    """The core and the floor over calls of one kind."""
    runs = [calls_of(kind)]
    return take_turns([floor.floor(runs), ours.core(ours.timelines(runs))], rounds)


def report() -> str:
    """The table."""
    lines = []
    for kind in KINDS:
        timings = compared(kind)
        cells = (microseconds(timings.seconds(name)) for name in (floor.NAME, ours.CORE))
        lines.append((kind, *cells, times(timings.ratio(ours.CORE, floor.NAME))))
    return table(("row of SPEC 5", "floor", "loopguard", "to the floor"), lines)


if __name__ == "__main__":
    print(report())
