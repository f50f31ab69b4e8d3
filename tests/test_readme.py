"""The README says what is so: its commands come first, its code runs as it stands, its output is real."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from helpers import detection, settings_of
from pages import ROOT, blocks, page

from loopguard_plugin import EmbeddedBus, LoopGuard, TurnEndingError

README = page("README.md")


def said(*arguments: str) -> str:
    """What the command line prints."""
    command = [sys.executable, "-m", "loopguard_plugin", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout


def test_readme_is_one_page() -> None:
    """At most 180 lines; everything else is in docs/."""
    assert len(README.splitlines()) <= 180


def test_the_two_commands_come_first() -> None:
    """A reader can copy both from the first screen: play a recording, run the tests."""
    played, tested = blocks(README, "sh")[:2]
    assert played.strip().endswith("loopguard replay tests/data/stuck.jsonl")
    assert tested.strip().endswith("pytest -q")
    assert len(README[: README.index(tested)].splitlines()) < 30


def test_shown_replay_is_real() -> None:
    """The output of the first command is what the README shows."""
    assert blocks(README, "text")[0] == said("replay", "tests/data/stuck.jsonl")


def test_shown_demo_is_real() -> None:
    """The excerpt is of the demo's first scene, line by line; `…` stands for what is left out."""
    (excerpt,) = [block for block in blocks(README, "text") if "call 11" in block]
    scene = said("demo").split("\n\n")[0]
    parts = excerpt.split("   …\n")
    assert len(parts) == 2
    assert all(part.rstrip() in scene for part in parts)


def test_shown_explanation_is_real() -> None:
    """The explanation is what the command under its prompt prints."""
    (shown,) = [block for block in blocks(README, "text") if block.startswith("$ loopguard explain")]
    command, output = shown.split("\n", 1)
    assert output == said(*command.split()[2:])


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_the_guarded_call_runs_as_it_stands() -> None:
    """The snippet gives the tool's result, then the result with a note, then the reason of the block, then the end."""
    (snippet,) = [block for block in blocks(README, "python") if "async def call(" in block]
    space: dict[str, Any] = {}
    exec(snippet, space)
    ran: list[object] = []

    async def run_tool(tool: str, args: object) -> str:
        ran.append(args)
        return "same"

    async def call(at: int) -> str:
        return str(await space["call"]("s", "r", f"c{at}", "read", {"path": "x"}, run_tool))

    assert [await call(at) for at in range(12)] == ["same"] * 12  # no setting: the rolling detectors are off
    space["bus"] = bus = EmbeddedBus()
    bus.use(LoopGuard(settings_of(detection(enabled=True, warningThreshold=2, criticalThreshold=3))))
    told = [await call(at) for at in range(4)]
    assert told[:2] == ["same", "same"]
    assert told[2].startswith("same\n\n[loopguard] ")
    assert told[3].startswith("[loopguard] This call was not run")
    with pytest.raises(TurnEndingError):
        await call(4)
    assert len(ran) == 12 + 3
