"""How fast does `loopguard replay` read recorded sessions, against a plain msgspec decode of the same lines?

Sessions are written to a temporary file first, in the shape that each agent writes them. One core, processor time,
rolling detectors on, reports included; the plain decode reads the same file line by line and drops what it decodes.
Memory: the most that a fresh process holds while it replays, for a file and for one four times as large.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from loopguard_plugin.cli.playing import play
from loopguard_plugin.settings import parse_settings

from .measure import pin, table, times

ON = {"tools": {"loopDetection": {"enabled": True}}}
WORDS = ("error", "test", "passed", "src/app.py", "line", "def", "return", "import", "value", "the", "of", "expected")
Line = dict[str, object]


def text(chance: random.Random, size: int) -> str:
    """Some output of a tool."""
    return " ".join(chance.choices(WORDS, k=max(1, size // 6)))


def calls(seed: int, result: int) -> Iterator[tuple[int, str, dict[str, object], str]]:
    """An agent at work, without end: number of the call, tool, arguments, result of about so many characters."""
    chance = random.Random(seed)
    at = 0
    while True:
        at += 1
        if chance.random() < 0.2:
            yield at, "bash", {"command": "pytest -q"}, text(chance, result)
        else:
            yield at, "read", {"path": f"src/module_{chance.randrange(200)}.py"}, text(chance, result)


def openclaw(seed: int, result: int) -> Iterator[Line]:
    """OpenClaw session JSONL."""
    yield {"type": "session", "version": 3, "id": f"s{seed}", "timestamp": "2026-01-05T09:00:00Z", "cwd": "/app"}
    for at, tool, args, out in calls(seed, result):
        ids = {"id": f"{2 * at:08x}", "parentId": f"{2 * at - 1:08x}", "timestamp": "2026-01-05T09:00:00Z"}
        call = {"type": "toolCall", "id": f"c{at}", "name": tool, "arguments": args}
        said = {"role": "assistant", "content": [{"type": "text", "text": "Next."}, call], "stopReason": "toolUse"}
        yield {"type": "message", **ids, "message": said}
        ids = {"id": f"{2 * at + 1:08x}", "parentId": f"{2 * at:08x}", "timestamp": "2026-01-05T09:00:01Z"}
        content = [{"type": "text", "text": out}]
        answer = {"role": "toolResult", "toolCallId": f"c{at}", "toolName": tool, "content": content, "isError": False}
        yield {"type": "message", **ids, "message": answer}


def claude_code(seed: int, result: int) -> Iterator[Line]:
    """Claude Code transcript JSONL."""
    for at, tool, args, out in calls(seed, result):
        where = {"parentUuid": f"u{at - 1}", "isSidechain": False, "sessionId": f"s{seed}", "version": "2.1.0"}
        block = {"type": "tool_use", "id": f"toolu_{at}", "name": tool.title(), "input": args}
        message: Line = {"id": f"msg_{at}", "role": "assistant", "content": [block]}
        yield {**where, "type": "assistant", "uuid": f"a{at}", "message": message}
        block = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": out}
        message = {"role": "user", "content": [block]}
        yield {**where, "type": "user", "uuid": f"u{at}", "message": message, "toolUseResult": {"stdout": out}}


def codex(seed: int, result: int) -> Iterator[Line]:
    """Codex rollout JSONL."""
    yield {"timestamp": "2026-01-05T09:00:00Z", "type": "session_meta", "payload": {"id": f"s{seed}"}}
    for at, _, args, out in calls(seed, result):
        call = {"type": "function_call", "name": "shell", "arguments": json.dumps(args), "call_id": f"c{at}"}
        yield {"timestamp": "2026-01-05T09:00:01Z", "type": "response_item", "payload": call}
        output = json.dumps({"output": out, "metadata": {"exit_code": 0, "duration_seconds": at / 10}})
        answer = {"type": "function_call_output", "call_id": f"c{at}", "output": output}
        yield {"timestamp": "2026-01-05T09:00:02Z", "type": "response_item", "payload": answer}


def events(seed: int, result: int) -> Iterator[Line]:
    """Events as a gateway publishes them."""
    for at, tool, args, out in calls(seed, result):
        call: Line = {"session_key": f"s{seed}", "run_id": "r", "call_id": f"c{at}", "tool": tool, "batch_id": f"b{at}"}
        yield {"type": "tool_call_started", **call, "args": args}
        yield {"type": "tool_call_settled", **call, "result": out}


SHAPES: dict[str, Callable[[int, int], Iterator[Line]]] = {
    "openclaw": openclaw,
    "claude-code": claude_code,
    "codex": codex,
    "events": events,
}


def written(path: Path, shape: str, result: int, megabytes: float) -> Path:
    """A file of about that size, in one session."""
    size = 0
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for line in SHAPES[shape](1, result):
            data = encoder.encode(line) + b"\n"
            file.write(data)
            size += len(data)
            if size >= megabytes * 1e6:
                return path
    raise AssertionError("shapes have no end")


def decoded(path: Path) -> float:
    """Seconds of processor time that a plain decode of every line takes."""
    decoder = msgspec.json.Decoder()
    began = time.process_time()
    with path.open("rb") as file:
        for line in file:
            decoder.decode(line)
    return time.process_time() - began


def replayed(path: Path) -> float:
    """Seconds of processor time that replaying takes, telling of the format and adding up included."""
    settings = parse_settings(ON)
    began = time.process_time()
    with contextlib.redirect_stderr(io.StringIO()):
        played = play([str(path)], settings, "auto", None, as_json=False)
    assert played.tally.events > 0
    assert played.problems == 0
    return time.process_time() - began


def peak_of_this() -> int:
    """The most memory that this process ever held, in KiB.

    Linux counts what the parent held into ``ru_maxrss`` of a process that it starts; VmHWM begins anew.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)


def peak(path: Path) -> float:
    """The most memory that a fresh process holds while it replays, in MB."""
    code = (
        "import sys; from benchmarks.replay import peak_of_this, replayed; from pathlib import Path; "
        "replayed(Path(sys.argv[1])); print(peak_of_this())"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return float(ran.stdout) / 1024


def report(megabytes: float = 12, rounds: int = 3) -> str:
    """The table."""
    pin()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            for result in (300, 4000):
                path = written(Path(folder) / "sessions.jsonl", shape, result, megabytes)
                size = path.stat().st_size / 1e6
                pairs = [(replayed(path), decoded(path)) for _ in range(rounds)]
                ours, plain = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
                small = peak(path)
                large = peak(written(path, shape, result, 4 * megabytes))
                lines.append(
                    (
                        shape,
                        f"{result} characters",
                        f"{size / ours * 60:,.0f} MB/min",
                        f"{size / plain * 60:,.0f} MB/min",
                        times(ours / plain),
                        f"{small:.0f} MB, {large:.0f} MB",
                    )
                )
    return table(("format", "a result", "replay", "plain decode", "replay to decode", "peak, and at 4 times"), lines)


if __name__ == "__main__":
    print(report())
