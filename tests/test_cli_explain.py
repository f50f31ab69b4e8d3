"""loopguard explain: for each detector the events that were counted, as many as the guard said, and the rule."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from cases import Case, read_cases
from helpers import compaction, message, settings_of, settle, start, turns

from loopguard_plugin.cli import main
from loopguard_plugin.cli.explain import explained_event
from loopguard_plugin.cli.walk import Walk
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.events import Event, decode_event
from loopguard_plugin.transcripts import Placed

ROOT = Path(__file__).parents[1]


@pytest.fixture
def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Explained:
    return Explained(tmp_path, capsys)


class Explained:
    """Plays events with the rolling detectors on, and explains one of them."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file, self.config, self.capsys = path / "e.jsonl", path / "on.json5", capsys

    def fired(self, events: list[Event], **keys: object) -> list[tuple[int, str, str, int]]:
        """Write the events; answers what fired: event, action, detector, count."""
        self.file.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
        self.config.write_text(json.dumps({"tools": {"loopDetection": {"enabled": True, **keys}}}))
        self.capsys.readouterr()
        assert main(["replay", str(self.file), "--config", str(self.config), "--json"]) == 0
        rows = [json.loads(line) for line in self.capsys.readouterr().out.splitlines()]
        return [(row["i"], row["action"], row["detector"], row["count"]) for row in rows if row["detector"]]

    def at(self, number: int) -> str:
        """What explain says of an event."""
        self.capsys.readouterr()
        assert main(["explain", str(self.file), "--config", str(self.config), "--at", str(number)]) == 0
        return self.capsys.readouterr().out


def listed(told: str, words: str) -> list[int]:
    """The event numbers after these words."""
    found = re.search(rf"{words} ([\d, ]+)", told)
    assert found is not None, told
    return [int(number) for number in found.group(1).split(",") if number.strip()]


def test_note_of_a_repeated_call(explained: Explained) -> None:
    """The note names the ten calls before, and that it was judged when the call started."""
    fired = explained.fired(turns(11))
    assert fired == [(21, "note", "generic_repeat", 10)]
    told = explained.at(21)
    assert "the guard's answer: note, generic_repeat, count 10" in told
    assert listed(told, "started at events") == list(range(0, 20, 2))
    assert "judged when the call started, at event 20" in told
    assert "warningThreshold (10, for all tools); section 6" in told
    assert "reset: another tool or other arguments" in told


def test_block_and_end(explained: Explained) -> None:
    """The block names twenty equal results; the end also the veto and the first block."""
    explained.fired([*turns(20), start("a"), settle("a", status="blocked"), start("b")])
    told = explained.at(40)
    assert listed(told, "results at events") == list(range(1, 40, 2))
    assert "criticalThreshold (20" in told
    told = explained.at(42)
    assert "end_turn (tool_loop_persisted), generic_repeat, count 21" in told
    assert len(listed(told, "results at events")) + len(listed(told, "count too: events")) == 21
    assert "had been blocked before, at event 40" in told
    assert "had been blocked at event 40" in explained.at(41)


def test_a_changed_result_in_between_is_not_counted(explained: Explained) -> None:
    """Only results since the last change count, and calls that are still open are passed over."""
    events = [*turns(3, prefix="x"), *turns(1, prefix="y", result="other"), start("open"), *turns(2, prefix="z")]
    explained.fired(events)
    told = explained.at(len(events) - 1)
    assert "no rule matched" in told
    assert "6 earlier calls" in told
    assert listed(told, "without progress, results at events") == [10]


def test_atomic_batch_counts_its_own_calls(explained: Explained) -> None:
    """A first batch of 21 equal calls is refused whole: the 21st meets the 20 before it in the same response."""
    batch = [(f"c{at}", "read", {"p": 1}) for at in range(21)]
    fired = explained.fired([start("c0", batch_id="b", index=0, batch=batch)])
    assert fired == [(0, "block", "generic_repeat", 20)]
    told = explained.at(0)
    assert "not for this call, but for read" in told
    assert "20 earlier calls of the same response" in told


def test_sibling_of_a_blocked_call(explained: Explained) -> None:
    """A call that is blocked because of another one of its response is explained by that one."""
    batch = [("a", "list", {}), ("b", "read", {"p": 1})]
    events = [*turns(20), start("a", "list", {}, batch_id="b", index=0, batch=batch)]
    explained.fired(events)
    told = explained.at(40)
    assert "not for this call, but for read" in told
    assert len(listed(told, "results at events")) == 20


def test_ping_pong(explained: Explained) -> None:
    """Both sides are named with their events; the alternation counts this call too."""
    events: list[Event] = []
    for at in range(10):
        events += turns(1, "read" if at % 2 else "list", prefix=f"{at}-")
    events += turns(1, "list", prefix="last-")
    ((i, action, detector, count), *_) = explained.fired(events)
    assert (i, action, detector) == (19, "note", "ping_pong")
    told = explained.at(i)
    sides = listed(told, "list at events") + listed(told, "read at events")
    assert len(sides) + 1 == count
    assert "always the same result" in told


def test_churn(explained: Explained) -> None:
    """The stretch is shown by its variants of the arguments."""
    events: list[Event] = []
    for at in range(16):
        events += turns(1, "edit", {"n": at % 4}, prefix=f"{at}-", error="no match")
    found = next(one for one in explained.fired(events) if one[2] == "argument_churn")
    told = explained.at(found[0])
    assert f"{found[3]} calls of edit in a row" in told
    assert told.count("the same arguments at events") == 4


def test_unknown_tool(explained: Explained) -> None:
    """The calls to a tool that does not exist are named, whatever their arguments."""
    events: list[Event] = []
    for at in range(11):
        events += turns(1, "fly", {"n": at}, prefix=f"{at}-", error="unknown tool fly")
    ((i, _, detector, count),) = explained.fired(events)[:1]
    assert (detector, count) == ("unknown_tool_repeat", 10)
    assert len(listed(explained.at(i), "errors at events")) == 10


def test_exec_failures_with_other_arguments(explained: Explained) -> None:
    """Commands that fail for one cause count though their arguments and times differ."""
    events: list[Event] = []
    for at in range(21):
        result = {"status": "completed", "exitCode": 1, "aggregated": f"failed after {at} ms"}
        events += turns(1, "exec", {"command": f"make {at}"}, prefix=f"{at}-", result=result)
    ((i, action, detector, count),) = [one for one in explained.fired(events) if one[1] == "block"][:1]
    assert (action, detector, count) == ("block", "generic_repeat", 20)
    told = explained.at(i)
    assert "failed for one cause" in told
    assert len(listed(told, "results at events")) == count


def test_repeated_error(explained: Explained) -> None:
    """Three identical failures are named; a user message before them starts the count anew."""
    failing = [settle(f"e{at}", error="boom") for at in range(4)]
    events: list[Event] = [start("e0"), failing[0], message()]
    for at in (1, 2, 3):
        events += [start(f"e{at}"), failing[at]]
    assert explained.fired(events) == [(8, "end_turn", "repeated_tool_error", 3)]
    told = explained.at(8)
    assert listed(told, "errors at events") == [4, 6, 8]
    assert "errorRetries (2)" in told
    assert "section 4 of the contract" in told
    assert "2 failures in a row" in explained.at(6)
    assert "a user wrote" in explained.at(2)


def test_compaction_loop(explained: Explained) -> None:
    """The compaction and the calls after it are named."""
    explained.fired([*turns(2), compaction(), *turns(3, prefix="after")])
    told = explained.at(10)
    assert "the context was compacted at event 4" in told
    assert listed(told, "results at events") == [6, 8, 10]
    assert "windowSize (3)" in told
    assert "the next calls of the run are watched" in explained.at(4)


@pytest.mark.parametrize("case", read_cases("reports.jsonl", "vectors.jsonl"), ids=lambda case: case.id)
def test_counts_are_the_guards_own(case: Case) -> None:
    """In every recorded report and every rule's case, as many calls are named as the guard counted."""
    settings = settings_of(case.config)
    guard, walk = Guard(settings), Walk(settings)
    for at, raw in enumerate(case.events):
        event = decode_event(raw)
        step = guard.feed(event, 0.0)
        told = list(explained_event(walk, at, Placed(event, at + 1), step, walk.take(at, event, step), "cases"))
        assert not [line for line in told if "the guard's own count" in line]


def test_transcript_as_well_as_events(capsys: pytest.CaptureFixture[str]) -> None:
    """Any format that replay reads can be explained, by the same numbers of events."""
    assert main(["explain", str(ROOT / "tests" / "data" / "transcripts" / "codex.jsonl"), "--at", "1"]) == 0
    assert "codex.jsonl:" in capsys.readouterr().out


def test_no_such_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number beyond the end, and a file that is not there, are bad input."""
    assert main(["explain", str(ROOT / "tests" / "data" / "stuck.jsonl"), "--at", "999"]) == 1
    assert "has 27 events" in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "gone"), "--at", "0"]) == 1
