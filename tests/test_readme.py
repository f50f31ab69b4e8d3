"""The README says what is so: its loop runs as it stands, its output is real, its tables are complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pyjson5
import pytest
from helpers import detection, settings_of
from loguru import logger

from loopguard_plugin import EmbeddedBus, LoopGuard, ToolCallSettled, TurnEndingError, decode_event

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
STUCK = "tests/data/stuck.jsonl"
Outcome = dict[str, Any]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The loop runs on both event loops."""
    return str(request.param)


def blocks(language: str) -> list[str]:
    """The README's code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def the_loop() -> tuple[Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]]:
    """``run_calls`` and ``run_turn``, exactly as the README has them."""
    space: dict[str, Any] = {}
    for block in blocks("python"):
        if "async def" in block:
            exec(block, space)
    return space["run_calls"], space["run_turn"]


@dataclass
class Response:
    """What the scripted model says: calls, or a last text."""

    id: str
    calls: Sequence[tuple[str, str, object]] = ()
    text: str = ""


@dataclass
class World:
    """A scripted model, its tools, and a record of what was run and heard."""

    script: list[Response]
    tools: dict[str, Callable[[Any], Awaitable[Outcome]]]
    settings: dict[str, Any] = field(default_factory=dict)
    transcript: list[object] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    settled: list[ToolCallSettled] = field(default_factory=list)

    async def play(self) -> str:
        """One turn by the README's loop; the text that it ends with."""
        _, run_turn = the_loop()
        bus = EmbeddedBus()
        bus.use(LoopGuard(settings_of(self.settings)))
        bus.subscribe(ToolCallSettled, self.hear)
        script = iter(self.script)

        async def ask_model(transcript: list[object]) -> Response:
            return next(script)

        return str(await run_turn(bus, "s", "r", ask_model, self.run_tool, self.transcript))

    async def run_tool(self, tool: str, args: object) -> Outcome:
        self.ran.append(tool)
        return await self.tools[tool](args)

    async def hear(self, event: ToolCallSettled) -> None:
        await anyio.sleep(0)
        self.settled.append(event)


async def echo(args: Any) -> Outcome:
    """A tool that takes a while and gives its argument back."""
    await anyio.sleep(args / 1000)
    return {"result": f"echo {args}"}


async def refused(args: Any) -> Outcome:
    """A tool that always fails in the same way, after a while."""
    await anyio.sleep(0.002)
    return {"error": "connection refused"}


async def slow(args: Any) -> Outcome:
    """A tool whose result comes last, and must not be lost."""
    await anyio.sleep(0.01)
    return {"result": "precious"}


async def same(args: Any) -> Outcome:
    """A tool that always gives the same result."""
    return {"result": "same"}


def test_the_loop_is_short() -> None:
    """A gateway author can take it in at a glance: under 25 lines, no line too long for a page."""
    (loop,) = [block for block in blocks("python") if "run_calls(bus, session, run, response, run_tool):" in block]
    assert len(loop.splitlines()) < 25
    assert max(map(len, loop.splitlines())) <= 120


async def test_calls_run_in_parallel_and_results_come_in_order() -> None:
    """The results stand in the order of the calls, whichever ends first."""
    world = World(
        [Response("b1", [("c1", "echo", 20), ("c2", "echo", 0), ("c3", "echo", 10)]), Response("b2", text="done")],
        {"echo": echo},
    )
    assert await world.play() == "done"
    assert world.transcript == ["echo 20", "echo 0", "echo 10"]
    assert [event.call_id for event in world.settled] == ["c2", "c3", "c1"]


async def test_equal_ids_in_one_response() -> None:
    """A provider that gives every call the same id loses no result."""
    world = World(
        [Response("b1", [("c", "echo", 1), ("c", "echo", 0)]), Response("b2", [("c", "echo", 2)]), Response("b3")],
        {"echo": echo},
    )
    await world.play()
    assert world.transcript == ["echo 1", "echo 0", "echo 2"]


async def test_note_reaches_the_model() -> None:
    """A repeated call's result carries the note."""
    script = [*(Response(f"b{at}", [("c", "same", None)]) for at in range(3)), Response("end")]
    world = World(script, {"same": same}, detection(enabled=True, warningThreshold=2))
    await world.play()
    assert world.transcript[:2] == ["same", "same"]
    assert str(world.transcript[2]).startswith("same\n\n[loopguard] ")


async def test_blocked_batch_is_not_run_and_the_second_block_ends_the_turn() -> None:
    """The model reads why, may answer once more, and the next loop ends the turn; every call has an entry."""
    calls = [("c1", "same", None), ("c2", "other", None)]
    script = [Response("b1", calls[:1]), Response("b2", calls[:1]), *(Response(f"x{at}", calls) for at in range(2))]
    settings = detection(enabled=True, warningThreshold=1, criticalThreshold=2)
    world = World(script, {"same": same, "other": same}, settings)
    text = await world.play()
    assert "[loopguard]" in text
    assert world.ran == ["same", "same"]
    assert len(world.transcript) == 6
    assert all("not run" in str(entry) for entry in world.transcript[2:])
    assert {event.status for event in world.settled[2:]} == {"blocked"}


async def test_third_identical_error_ends_the_turn_and_loses_no_result() -> None:
    """The turn ends by a group's exception, and the slow sibling's result is in the transcript all the same."""
    calls = [("c1", "fetch", "u")]
    script = [
        Response("b1", calls),
        Response("b2", calls),
        Response("b3", [("c1", "fetch", "u"), ("c2", "slow", None), ("c3", "echo", 0)]),
    ]
    world = World(script, {"fetch": refused, "slow": slow, "echo": echo})
    text = await world.play()
    assert "connection refused" in text
    assert world.transcript == ["connection refused"] * 3 + ["precious", "echo 0"]
    assert len(world.settled) == 5


async def test_end_comes_out_of_the_group() -> None:
    """Whoever calls ``run_calls`` gets the error itself, with its code and text."""
    run_calls, _ = the_loop()
    world = World([], {"fetch": refused})
    bus = EmbeddedBus()
    bus.use(LoopGuard())
    for at in range(3):
        given, end = await run_calls(bus, "s", "r", Response(f"b{at}", [("c", "fetch", "u")]), world.run_tool)
        assert [one.error for one in given] == ["connection refused"]
    assert isinstance(end, TurnEndingError)
    assert (end.code, end.count) == ("repeated_tool_error", 3)


def test_advice_beside_the_loop() -> None:
    """Four lines of advice stand beside the loop."""
    after = README.split("return response.text\n```\n")[1].lstrip()
    advice = re.findall(r"^- (.*)$", after.split("\n\n")[0], re.MULTILINE)
    assert len(advice) == 4
    for word, line in zip(("run_id", "final", "shield", "blocked"), advice, strict=True):
        assert word in line


def test_shown_replay_is_real() -> None:
    """The output of the first command is what the README shows."""
    command = [sys.executable, "-m", "loopguard_plugin", "replay", STUCK]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert blocks("text")[0] == told.stdout


def test_shown_log_lines_are_real() -> None:
    """The log lines in the README are those of the recording."""
    written: list[str] = []
    sink = logger.add(lambda message: written.append(str(message)), format="{level: <5} {message}")
    try:
        guard = LoopGuard()
        for line in (ROOT / STUCK).read_bytes().splitlines():
            try:
                guard.feed(decode_event(line))
            except TurnEndingError:
                continue
    finally:
        logger.remove(sink)
    assert [block for block in blocks("text") if block.startswith("INFO")] == ["".join(written)]


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every setting of a configuration, by its dotted path; an empty table is a setting too."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value


def test_configuration_tables_are_complete() -> None:
    """Every setting of the example file stands in the README with its default."""
    example = pyjson5.decode((ROOT / "config.example.json5").read_text(encoding="utf-8"))
    tables = README.split("## Configuration\n")[1].split("\n### ")[0]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|", tables, re.MULTILINE))
    for path, default in leaves({"tools": example["tools"], "plugins": example["plugins"]}):
        name = path.removeprefix("tools.loopDetection.").removeprefix("plugins.entries.loopguard.")
        assert name in rows, path
        assert json.loads(rows[name].strip("`")) == default, path
