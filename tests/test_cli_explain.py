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

    def fired(
        self, events: list[Event], own: dict[str, object] | None = None, **keys: object
    ) -> list[tuple[int, str, str, int]]:
        """Write the events; answers what fired: event, action, detector, count. ``own``: loopguard's own settings."""
        self.file.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
        plugins = {"entries": {"loopguard": {"config": own or {}}}}
        self.config.write_text(json.dumps({"tools": {"loopDetection": {"enabled": True, **keys}}, "plugins": plugins}))
        self.capsys.readouterr()
        assert main(["replay", str(self.file), "--config", str(self.config), "--json"]) == 0
        rows = [json.loads(line) for line in self.capsys.readouterr().out.splitlines()]
        return [(row["i"], row["action"], row["detector"], row["count"]) for row in rows if row["detector"]]

    def at(self, place: int | str) -> str:
        """What explain says of an event."""
        self.capsys.readouterr()
        assert main(["explain", str(self.file), "--config", str(self.config), "--at", str(place)]) == 0
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
    assert "reset: so many other calls that these leave the last 30" in told


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


def test_stagnation(explained: Explained) -> None:
    """Every call that went round is named with its events, in as many responses as the guard counted."""
    events = [event for at in range(28) for event in turns(1, "read", {"n": at % 4}, prefix=f"{at}-")]
    note, block = [one for one in explained.fired(events) if one[2] == "stagnation"][:2]
    assert note[1:] == ("note", "stagnation", 10)
    assert block[1:] == ("block", "stagnation", 20)
    told = explained.at(block[0])
    rounds = re.findall(r"read at events ([\d, ]+)", told)
    assert len(rounds) == 4
    assert sum(len(one.split(",")) for one in rounds) == 20
    assert "criticalThreshold (20, for all tools); section 11.2" in told
    assert "own count" not in told


def test_error_cascade(explained: Explained) -> None:
    """Responses that fail in a row are named; where one tool failed in one way more often, its failures are."""
    tools = ("read", "grep", "exec")
    events: list[Event] = []
    for at in range(11):
        events += turns(1, tools[at % 3], {"n": at}, prefix=f"{at}-", error=f"cannot do step {at}")
    ((i, action, detector, count),) = explained.fired(events)
    assert (action, detector, count) == ("note", "error_cascade", 10)
    told = explained.at(i)
    assert "10 responses in a row failed" in told
    assert "reset: any call that works" in told
    events = []
    for at in range(11):
        events += turns(1, "fetch", {"u": at}, prefix=f"{at}-", error="503")
        events += turns(1, "read", {"n": at}, prefix=f"r{at}-", result=f"line {at}")
    ((i, action, detector, count),) = explained.fired(events)
    assert (action, detector, count) == ("note", "error_cascade", 10)
    told = explained.at(i)
    assert "10 calls of fetch failed in one way" in told
    assert "reset: so many other calls that these leave the last 30" in told
    assert "notes at 10; section 11.2" in told


def test_ceilings(explained: Explained) -> None:
    """The ceiling that was passed is named with its value."""
    events = [event for at in range(6) for event in turns(1, "read", {"n": at}, prefix=f"{at}-")]
    fired = explained.fired(events, {"limits": {"callsPerTurn": 4, "callsPerRun": 100}})
    assert fired[0][1:] == ("end_turn", "call_limit", 4)
    told = explained.at(fired[0][0])
    assert "limits.callsPerTurn (4) and limits.callsPerRun (100)" in told
    assert "reset: of callsPerTurn a user message or a new run, of callsPerRun a new run" in told


def test_calls_since_a_change(explained: Explained) -> None:
    """Where a tool is declared to change things, only the calls since its last success are named."""
    own: dict[str, object] = {"tools": {"edit": {"mutates": True}}}
    events = [*turns(3, "check"), *turns(1, "edit", prefix="e", result="ok"), *turns(4, "check", prefix="d")]
    ((i, _, detector, count),) = explained.fired(events, own, warningThreshold=3)
    assert (i, detector, count) == (15, "generic_repeat", 3)
    told = explained.at(i)
    assert "3 calls with these arguments since edit changed something at event 7" in told


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


@pytest.mark.parametrize("case", read_cases("reports.jsonl", "vectors.jsonl", "wider.jsonl"), ids=lambda case: case.id)
def test_counts_are_the_guards_own(case: Case) -> None:
    """In every recorded report and every rule's case, as many calls are named as the guard counted."""
    settings = settings_of(case.config)
    guard, walk = Guard(settings), Walk(settings)
    for at, raw in enumerate(case.events):
        event = decode_event(raw)
        step = guard.feed(event, 0.0)
        told = list(explained_event(walk, at, Placed(event, at + 1), step, walk.take(at, event, step), "cases"))
        assert not [line for line in told if "the guard's own count" in line]


def test_file_and_line_as_a_report_prints_them(
    explained: Explained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The place that a report prints can be given as it is, with the file, without it, or instead of it."""
    explained.fired(turns(11))
    config = ["--config", str(explained.config)]
    assert main(["replay", str(explained.file), *config]) == 0
    (place,) = set(re.findall(r"\S+e\.jsonl:\d+", capsys.readouterr().out))
    told = explained.at(21)
    assert explained.at(place) == explained.at(":22") == told
    assert main(["explain", "--at", place, *config]) == 0
    assert capsys.readouterr().out == told


def test_long_paths_are_printed_in_full(explained: Explained, capsys: pytest.CaptureFixture[str]) -> None:
    """However long a path is, what a report prints of it can be given to explain."""
    folder = explained.file.parent / ("long-" * 20) / "deeper"
    folder.mkdir(parents=True)
    explained.file = folder / "e.jsonl"
    explained.fired(turns(11))
    assert main(["replay", str(explained.file), "--config", str(explained.config)]) == 0
    assert capsys.readouterr().out.count(f"{explained.file}:22") == 2


def test_a_line_with_several_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the events of one line the one at which the guard spoke is explained, else the first; the others are named."""
    calls = [{"type": "tool_use", "id": f"c{at}", "name": "Fetch", "input": {"u": 1}} for at in range(4)]
    results = [{"type": "tool_result", "tool_use_id": f"c{at}", "content": "503", "is_error": True} for at in range(4)]
    lines = [
        {"type": "system", "message": {"subtype": "init", "session_id": "s"}},
        {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": calls}},
        {"type": "user", "message": {"role": "user", "content": results}},
    ]
    path = tmp_path / "stream.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["replay", str(path)]) == 0
    (place,) = set(re.findall(r"\S+stream\.jsonl:\d+", capsys.readouterr().out))
    assert main(["explain", "--at", place]) == 0
    told = capsys.readouterr().out
    assert "end_turn (repeated_tool_error)" in told
    assert "other events of this line, up to here: 4, 5" in told
    assert main(["explain", "--at", f"{path}:2"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("event 0 (")
    assert "other events of this line, up to here: 1, 2, 3" in told


def test_places_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another file than the named one, no file and no place are bad usage; a line that is not there is bad input."""
    stuck = str(ROOT / "tests" / "data" / "stuck.jsonl")
    other = tmp_path / "other.jsonl"
    other.write_text("")
    assert main(["explain", stuck, "--at", f"{other}:3"]) == 2
    assert "names another file" in capsys.readouterr().err
    assert main(["explain", "--at", "3"]) == 2
    assert "name a FILE" in capsys.readouterr().err
    for text in ("-1", "x", "x:", ":", "e.jsonl:1x"):
        assert main(["explain", stuck, f"--at={text}"]) == 2
    capsys.readouterr()
    assert main(["explain", stuck, "--at", ":999"]) == 1
    assert "none of them stands at line 999" in capsys.readouterr().err


def test_the_same_file_from_another_directory(
    explained: Explained, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A place that was printed elsewhere serves, whichever way the file is named."""
    explained.fired(turns(11))
    monkeypatch.chdir(explained.file.parent)
    assert main(["explain", "e.jsonl", "--at", f"{explained.file}:22", "--config", str(explained.config)]) == 0
    assert "note, generic_repeat" in capsys.readouterr().out
    assert main(["explain", "e.jsonl", "--at", "sessions/e.jsonl:22", "--config", str(explained.config)]) == 0


def test_names_from_outside_cannot_move_the_cursor(explained: Explained) -> None:
    """Control characters of a recorded tool's name are not printed."""
    explained.fired(turns(11, "re\x1b[2Jad\n"))
    assert "\x1b" not in explained.at(21)


def test_transcript_as_well_as_events(capsys: pytest.CaptureFixture[str]) -> None:
    """Any format that replay reads can be explained, by the same numbers of events."""
    assert main(["explain", str(ROOT / "tests" / "data" / "transcripts" / "codex.jsonl"), "--at", "1"]) == 0
    assert "codex.jsonl:" in capsys.readouterr().out


def test_no_such_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number beyond the end, and a file that is not there, are bad input."""
    assert main(["explain", str(ROOT / "tests" / "data" / "stuck.jsonl"), "--at", "999"]) == 1
    assert "has 27 events" in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "gone"), "--at", "0"]) == 1
