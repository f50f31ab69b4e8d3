"""One small file of every shape, where they are at hand: read with the right count, or refused in words that help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from transcribed import counted, items

from loopguard_plugin.cli import main
from loopguard_plugin.events import ToolCallStarted
from loopguard_plugin.transcripts import Placed, Unreadable

SHAPES = Path(__file__).parents[1].parent / "shared" / "formats"
FILES = sorted(path for path in SHAPES.glob("*") if path.suffix != ".md")
pytestmark = pytest.mark.skipif(not FILES, reason="no shapes of transcripts beside this checkout")


def typed(*kinds: str) -> Callable[[dict[str, object]], object]:
    return lambda one: one.get("type") in kinds


def keyed(name: str) -> Callable[[dict[str, object]], object]:
    return lambda one: name in one


# What a call is in each file, said without any reader. The text modes are counted by their marks.
CALLS: dict[str, Callable[[dict[str, object]], object]] = {
    "amp-thread.json": typed("tool_use"),
    "anthropic-lines.jsonl": typed("tool_use"),
    "anthropic-list.json": typed("tool_use"),
    "anthropic-messages.json": typed("tool_use"),
    "atif-17.json": keyed("tool_call_id"),
    "atif-terminus.json": lambda one: "keystrokes" in str(one.get("message")),
    "browser-use.json": keyed("click_element"),
    "claude-array.json": typed("tool_use"),
    "claude-loglines.json": typed("tool_use"),
    "codex-appserver-wrapped.jsonl": typed("commandExecution"),
    "codex-websearch.jsonl": typed("web_search_call"),
    "continue-session.json": keyed("function"),
    "copilot-events.jsonl": typed("tool.execution_start"),
    "cursor-transcript.jsonl": typed("tool_use"),
    "droid.jsonl": typed("tool_use"),
    "gemini-cli.jsonl": keyed("args"),
    "gemini-contents.json": keyed("functionCall"),
    "goose.jsonl": typed("toolRequest"),
    "inspect.json": keyed("function"),
    "kimi-wire.jsonl": keyed("function"),
    "langchain.json": lambda one: "args" in one and "name" in one,
    "mini-format-errors.json": lambda one: str(one.get("content")).count("```") == 2,
    "mini-text-old.json": lambda one: str(one.get("content")).count("```") == 2,
    "opencode-export.json": typed("tool"),
    "opencode-run.jsonl": typed("tool"),
    "openhands.json": lambda one: one.get("action") == "run",
    "otlp.json": keyed("spanId"),
    "pydantic-ai.json": lambda one: one.get("part_kind") == "tool-call",
    "qwen.jsonl": keyed("functionCall"),
    "responses-lines.jsonl": typed("function_call"),
    "responses-list.json": typed("function_call"),
    "vscode-chat.json": lambda one: one.get("kind") == "toolInvocationSerialized",
}
WITHOUT_CALLS = {
    "opencode.db": "read as an opencode database",  # its tables are empty
    "x.eval": "read as an Inspect log",  # a question that was answered without tools
}


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_every_shape_is_read_or_refused_in_words(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many starts as a plain walk of the JSON gives; where there is no call, exit 1 and what the file looks like."""
    every = items(path)
    starts = sum(isinstance(item, Placed) and isinstance(item.event, ToolCallStarted) for item in every)
    if path.name in WITHOUT_CALLS:
        assert starts == 0
        assert main(["replay", str(path), "--fail-on", "warn"]) == 1
        assert WITHOUT_CALLS[path.name] in capsys.readouterr().err
        return
    assert [item for item in every if isinstance(item, Unreadable)] == []
    assert starts == counted(path, CALLS[path.name]) > 0
