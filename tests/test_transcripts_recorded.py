"""Real recorded sessions, where they are at hand: every call is read, and the guard leaves healthy sessions alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from loopguard_plugin.cli.playing import Played, play
from loopguard_plugin.events import ToolCallSettled, ToolCallStarted
from loopguard_plugin.settings import Settings, parse_settings
from loopguard_plugin.transcripts import Placed, Source, Talks, detect, read

TRACES = Path(__file__).parents[1].parent / "shared" / "traces"
FILES = sorted(path for path in TRACES.glob("*/*") if path.suffix in (".json", ".jsonl"))
NAMES = [path.relative_to(TRACES).as_posix() for path in FILES]
FORMATS = {"pi": "openclaw"}  # by folder, where the name differs
ON = {"tools": {"loopDetection": {"enabled": True}}}

# Sessions that did repeat one failing call three times in a row: the contract ends those turns (SPEC 4).
REPEATED_ERRORS = {"openai-chat/tau-retail-flaky-503.json": 5}
RUNAWAY = "claude-stream/runaway-poll-286.jsonl"
NOTED = {RUNAWAY, "claude-stream/poll-with-progress-and-compaction.jsonl"}

pytestmark = pytest.mark.skipif(not FILES, reason="no recorded sessions beside this checkout")


def calls_by_counting(path: Path) -> int:
    """The calls in a file without any reader: by the marks in its text, or in its lists."""
    folder, text = path.parent.name, path.read_text(encoding="utf-8")
    lines = [line for line in text.split("\n") if '"type":"progress"' not in line]
    match folder:
        case "openclaw" | "pi":
            return text.count('"type":"toolCall"')
        case "claude-code" | "claude-stream":
            return sum(line.count('"type":"tool_use"') for line in lines)
        case "codex":
            return text.count('"type":"function_call","')
        case "gemini":
            return sum(len(message.get("toolCalls", [])) for message in json.loads(text)["messages"])
    document = json.loads(text)
    runs = [document["messages"]] if isinstance(document, dict) else [run["traj"] for run in document]
    return sum(len(message.get("tool_calls") or []) for run in runs for message in run)


def replayed(path: Path, settings: Settings) -> Played:
    return play([str(path)], settings, "auto", None, as_json=False)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_every_call_is_read(path: Path) -> None:
    """Format told, nothing unreadable, as many starts as a simple count of the file gives, no result without a call."""
    with Source.open(str(path)) as source:
        assert detect(source) == FORMATS.get(path.parent.name, path.parent.name)
        items = list(read(source, Talks()))
    events = [item.event for item in items if isinstance(item, Placed)]
    assert len(events) == len(items)
    assert sum(isinstance(event, ToolCallStarted) for event in events) == calls_by_counting(path)
    assert [event for event in events if isinstance(event, ToolCallSettled) and event.batch_id is None] == []


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_default_settings_end_no_healthy_turn(path: Path) -> None:
    """Out of the box nothing is noted or blocked, and a turn ends only where one failure came three times in a row."""
    played = replayed(path, Settings())
    assert (played.problems, played.guard_failures) == (0, 0)
    fired = Counter((str(one.action), one.detector) for one in played.tally.findings.values())
    expected = REPEATED_ERRORS.get(path.relative_to(TRACES).as_posix(), 0)
    assert fired == (Counter({("end_turn", "repeated_tool_error"): expected}) if expected else Counter())


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_rolling_detectors_stop_the_runaway_alone(path: Path) -> None:
    """With the rolling detectors on, only the recorded runaway is blocked and ended; one busy poller gets a note."""
    name = path.relative_to(TRACES).as_posix()
    played = replayed(path, parse_settings(ON))
    assert played.guard_failures == 0
    rolling = [one for one in played.tally.findings.values() if one.detector != "repeated_tool_error"]
    assert {str(one.action) for one in rolling} == (
        {"note", "block", "end_turn"} if name == RUNAWAY else {"note"} if name in NOTED else set()
    )
    notes = [one for one in rolling if one.action == "note"]
    assert all(one.first_count == 10 for one in notes)  # the eleventh identical call
