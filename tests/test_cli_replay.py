"""loopguard replay: the JSON lines that scripts rely on, the report for people, exit codes, bad input."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import message, settle, start

from loopguard_plugin import LoopGuard, TurnEndingError, parse_settings
from loopguard_plugin.answers import Acknowledged, Answer, Deliver, Effect
from loopguard_plugin.cli import main, progress
from loopguard_plugin.events import Event
from loopguard_plugin.report.rows import Action, Row, json_line, row
from loopguard_plugin.report.tally import Tally
from loopguard_plugin.transcripts import FORMATS, Source, Talks, read

ROOT = Path(__file__).parents[1]
SAMPLES = Path(__file__).parent / "data" / "transcripts"
EVENTS = str(SAMPLES / "events.jsonl")
KEYS = ["i", "event", "session_key", "run_id", "call_id", "tool", "action", "detector", "count", "message", "code"]


def stuck(path: Path, calls: int, **more: object) -> Path:
    """A recording of so many equal calls, one a turn."""
    with path.open("w") as file:
        for number in range(calls):
            call = {"session_key": "s", "run_id": "r", "call_id": f"c{number}", "tool": "read", **more}
            file.write(json.dumps({"type": "tool_call_started", "args": {"p": 1}, **call}) + "\n")
            file.write(json.dumps({"type": "tool_call_settled", "result": "same", **call}) + "\n")
    return path


@pytest.fixture
def rolling(tmp_path: Path) -> str:
    """A config with the rolling detectors on."""
    path = tmp_path / "on.json5"
    path.write_text("{ tools: { loopDetection: { enabled: true } } }")
    return str(path)


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_json_line_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    """Every event gives one line with exactly the keys of the contract, in order; the third failure ends the turn."""
    assert main(["replay", EVENTS, "--json"]) == 0
    found = rows(capsys)
    assert [list(row) for row in found] == [KEYS] * 8
    assert [row["i"] for row in found] == list(range(8))
    assert [row["action"] for row in found] == [
        "reset",
        "proceed",
        "deliver",
        "proceed",
        "deliver",
        "proceed",
        "end_turn",
        "armed",
    ]
    ended = found[6]
    assert (ended["detector"], ended["count"], ended["code"]) == ("repeated_tool_error", 3, "repeated_tool_error")
    assert "web_fetch" in ended["message"]
    assert (found[0]["call_id"], found[0]["tool"], found[0]["run_id"]) == (None, None, "r")
    assert found[1] == {
        "i": 1,
        "event": "tool_call_started",
        "session_key": "s",
        "run_id": "r",
        "call_id": "c1",
        "tool": "web_fetch",
        "action": "proceed",
        "detector": None,
        "count": 0,
        "message": None,
        "code": None,
    }


def test_note_block_and_end_in_json(tmp_path: Path, rolling: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The note comes with the 11th result, the 21st call is blocked, its settlement ignored, the next one ends."""
    assert main(["replay", str(stuck(tmp_path / "e.jsonl", 22)), "--config", rolling, "--json"]) == 0
    found = rows(capsys)
    fired = [(row["i"], row["action"], row["detector"], row["count"], row["code"]) for row in found]
    assert [one for one in fired if one[1] not in ("proceed", "deliver")] == [
        (21, "note", "generic_repeat", 10, None),
        (40, "block", "generic_repeat", 20, None),
        (41, "ignored", None, 0, None),
        (42, "end_turn", "generic_repeat", 21, "tool_loop_persisted"),
        (43, "ignored", None, 0, None),
    ]
    assert found[21]["message"].startswith("[loopguard]")
    assert found[40]["message"].startswith("[loopguard]")


def test_stdout_is_json_alone() -> None:
    """As a program: log lines and problems go to stderr, stdout holds nothing but the lines of the events."""
    text = Path(EVENTS).read_text() + "oops\n"
    ran = subprocess.run(
        [sys.executable, "-m", "loopguard_plugin", "replay", "-", "--json"],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 1
    assert [json.loads(line)["i"] for line in ran.stdout.splitlines()] == list(range(8))
    assert "<stdin>:9: expected an event" in ran.stderr
    assert "tool loop: tool=web_fetch" in ran.stderr


@pytest.mark.parametrize(
    ("calls", "asked", "code"),
    [
        (5, "warn", 0),
        (11, "warn", 3),
        (11, "block", 0),
        (21, "block", 3),
        (21, "end_turn", 0),
        (22, "end_turn", 3),
        (22, "warn", 3),
    ],
)
def test_fail_on(calls: int, asked: str, code: int, tmp_path: Path, rolling: str) -> None:
    """3 when something that strong, or stronger, fired; else 0."""
    path = str(stuck(tmp_path / "e.jsonl", calls))
    assert main(["replay", path, "--config", rolling, "--fail-on", asked]) == code
    assert main(["replay", path, "--config", rolling]) == 0


def test_agent_chooses_the_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--agent plays with that agent's settings, but an event that names its own agent keeps it."""
    config = tmp_path / "agents.json5"
    config.write_text("{ agents: { entries: { ana: { tools: { loopDetection: { enabled: true } } } } } }")
    unnamed = str(stuck(tmp_path / "unnamed.jsonl", 11))
    named = str(stuck(tmp_path / "named.jsonl", 11, agent_id="bo"))
    for path, argv, notes in ((unnamed, [], 0), (unnamed, ["--agent", "ana"], 1), (named, ["--agent", "ana"], 0)):
        assert main(["replay", path, "--config", str(config), "--json", *argv]) == 0
        assert [row["action"] for row in rows(capsys)].count("note") == notes


def test_bad_lines_are_told_and_the_rest_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad lines give 1 at the end, each with file, line and what was expected; i counts the events alone."""
    good = Path(EVENTS).read_text().splitlines()
    path = tmp_path / "e.jsonl"
    path.write_text("\n".join([good[0], "{", '{"type":"tool_call_started","session_key":"s"}', *good[1:]]))
    assert main(["replay", str(path), "--json"]) == 1
    captured = capsys.readouterr()
    assert [json.loads(line)["i"] for line in captured.out.splitlines()] == list(range(8))
    told = captured.err.splitlines()
    assert told[0].startswith(f"{path}:2: expected an event: column 2: not JSON")
    assert told[1].startswith(f"{path}:3: expected an event: call_id")


def test_bad_lines_and_a_finding(tmp_path: Path) -> None:
    """What --fail-on was asked to find goes before the bad line: the finding is certain."""
    path = tmp_path / "e.jsonl"
    path.write_text(Path(EVENTS).read_text() + "oops\n")
    assert main(["replay", str(path), "--fail-on", "end_turn"]) == 3
    assert main(["replay", str(path)]) == 1


def test_missing_file_and_the_next_one_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is bad input; the others play."""
    assert main(["replay", str(tmp_path / "gone.jsonl"), EVENTS]) == 1
    captured = capsys.readouterr()
    assert "gone.jsonl: No such file or directory" in captured.err
    assert "1 file, 1 run, 3 calls" in captured.out


def test_directory_skips_what_is_no_transcript(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a directory an index or a note is skipped and said so; named itself it is bad input; none at all too."""
    (tmp_path / "logs").mkdir()
    index = tmp_path / "logs" / "sessions.json"
    index.write_text('{"agent:main": {"updatedAt": 1}}')
    (tmp_path / "logs" / "s.jsonl").write_bytes(Path(EVENTS).read_bytes())
    (tmp_path / "none").mkdir()
    assert main(["replay", str(tmp_path / "logs")]) == 0
    assert f"{index}: skipped" in capsys.readouterr().err
    assert main(["replay", str(index)]) == 1
    assert main(["replay", str(tmp_path / "none")]) == 1


def test_report_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """A table of what fired and where, a verdict a run, a sum, and a word on the detectors that are off."""
    assert main(["replay", EVENTS, str(SAMPLES / "openclaw-v3.jsonl")]) == 0
    captured = capsys.readouterr()
    told = captured.out.splitlines()
    assert told[0].split() == ["action", "detector", "tool", "count", "times", "first", "at", "session", "run"]
    assert told[1].split()[:5] == ["end_turn", "repeated_tool_error", "web_fetch", "3", "1"]
    assert "events.jsonl:7" in told[1]
    assert told[3].startswith("s r: turn ended, 3 calls: repeated_tool_error (web_fetch,")
    assert told[4:6] == ["claw-1 turn-1: fine, 2 calls", "claw-1 turn-2: fine, 2 calls"]
    assert told[6] == "2 files, 3 runs, 7 calls: 0 notes, 0 blocked calls, 1 end of turn"
    assert told[7].startswith("rolling detectors are off")
    assert captured.err == ""  # the table says what the log lines would


def test_names_from_outside_cannot_move_the_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of a recorded name are not printed."""
    path = stuck(tmp_path / "e.jsonl", 1, session_key="s\x1b[2J\n")
    assert main(["replay", str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_row_with_a_lone_surrogate_is_written() -> None:
    """A name that is no valid Unicode still gives a JSON line."""
    row = Row(0, "tool_call_started", "s\ud800", None, "c", "t", Action.PROCEED)
    assert json.loads(json_line(row))["session_key"] == "s\ud800"


def test_reader_gone_is_no_error(tmp_path: Path) -> None:
    """Output that nobody reads any more (… | head) ends the program quietly."""
    path = stuck(tmp_path / "e.jsonl", 5000)
    program = subprocess.Popen(
        [sys.executable, "-m", "loopguard_plugin", "replay", str(path), "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.readline()
    program.stdout.close()
    told = program.stderr.read().decode()
    program.stderr.close()
    assert program.wait(60) == 141
    assert "Traceback" not in told
    assert "BrokenPipe" not in told


def test_wrong_format_name_lists_those_of_the_readers(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that --format does not take is answered with auto and every name of the registry."""
    assert main(["replay", "--format", "morse", EVENTS]) == 2
    assert ", ".join(f"'{name}'" for name in ("auto", *FORMATS)) in capsys.readouterr().err


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("bar", [False, True], ids=["line", "rich"])
def test_progress_on_a_terminal(bar: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a terminal long input shows how far it is and how fast it goes, and is wiped at the end; elsewhere nothing."""
    if bar:
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr(progress, "_display", progress.Line)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    path = stuck(tmp_path / "e.jsonl", 2000)
    monkeypatch.setattr(progress, "_FIRST_AFTER", 0.0)
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with Source.open(str(path)) as source, progress.Progress(2 * path.stat().st_size) as shown:
            assert sum(1 for _ in shown.watch(source, read(source, Talks()))) == 4000
            assert sum(1 for _ in shown.watch(source, read(source, Talks()))) == 0
        told = stream.getvalue()
        if isinstance(stream, Terminal):
            assert " MB/s, " in told
            assert " s left" in told
            assert "e.jsonl" in told
            assert told.endswith("\x1b[2K" if bar else "\r\x1b[K")
        else:
            assert told == ""


def tallied(sessions: Iterable[tuple[str, int]]) -> Tally:
    """What a replay of stuck agents adds up to: by session, so many equal calls."""
    tally = Tally()
    guard = LoopGuard(parse_settings({"tools": {"loopDetection": {"enabled": True}}}))
    for session, calls in sessions:
        for event in events_of(session, calls):
            answer: Answer | TurnEndingError
            try:
                answer = guard.feed(event)
            except TurnEndingError as ending:
                answer = ending
            tally.add(row(tally.events, event, answer), event, f"{session}.jsonl", tally.events + 1)
    return tally


def events_of(session: str, calls: int) -> Iterator[Event]:
    for number in range(calls):
        yield start(f"c{number}", session=session)
        yield settle(f"c{number}", session=session, result="x" * 1000)


def test_worst_session_first_with_what_it_would_have_saved() -> None:
    """Ends before blocks before notes; the results of blocked calls, and of all after the end, count as saved."""
    tally = tallied([("[red]fine", 3), ("noted", 12), ("ended", 30), ("blocked", 21)])
    assert [(one.session_key, one.notes, one.blocks, one.ends, one.further, one.saved) for one in tally.worst()] == [
        ("ended", 1, 1, 1, 8, 10_000),
        ("blocked", 1, 1, 0, 0, 1_000),
        ("noted", 1, 0, 0, 0, 0),
    ]
    first = tally.worst()[0].first
    assert first is not None
    assert (first.action, first.place) == ("note", "ended.jsonl:52")
    (summed,) = tally.by_detector()
    assert (summed.detector, summed.tool) == ("generic_repeat", "read")
    assert (summed.notes, summed.blocks, summed.ends) == (3, 2, 1)
    assert len(summed.sessions) == 3
    assert [key[0] for key, _ in tally.verdicts()] == ["ended", "blocked", "noted", "[red]fine"]


def test_saved_ends_with_the_next_user_message() -> None:
    """After the end of a turn nothing more would have come; once a user wrote again, results are given as ever."""
    tally = tallied([("s", 30)])
    saved = tally.sessions["s"].saved
    said = message(session="s")
    tally.add(row(tally.events, said, Acknowledged(Effect.RESET)), said, "s.jsonl", 61)
    late = settle("x", session="s", result="y" * 500)
    tally.add(row(tally.events, late, Deliver("y" * 500)), late, "s.jsonl", 62)
    assert tally.sessions["s"].saved == saved


@pytest.mark.parametrize("columns", [160, 44])
@pytest.mark.parametrize("colour", [False, True])
def test_report_on_a_terminal(columns: int, colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables through rich, the worst session first; nothing wider than the terminal; NO_COLOR leaves no colour."""
    rich_console = pytest.importorskip("rich.console")
    from loopguard_plugin.report.terminal import show

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False) if colour else monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    console = rich_console.Console(file=out, width=columns, force_terminal=True)
    show(tallied([("[red]fine", 3), ("noted", 12), ("ended", 30)]), 3, console)
    told = out.getvalue()
    assert ("\x1b[33m" in told) == colour
    assert ("\x1b[3" in told) == colour
    plain = re.sub(r"\x1b\[[0-9;]*m", "", told)
    tables = plain[: plain.index("ended r: turn ended")]
    assert all(len(line) <= columns for line in tables.splitlines())
    assert tables.index("ended") < tables.index("noted")
    assert "1 end of turn, 8 more calls after the end" in plain
    for part in ("generic_repeat", "10.0k", "ended.jsonl:52", "By detector and tool"):
        assert part in tables
    assert "[red]fine r: fine, 3 calls" in plain


def test_many_fine_runs_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the runs in which nothing fired are not all listed once there are hundreds of them."""
    rich_console = pytest.importorskip("rich.console")
    from loopguard_plugin.report.terminal import show

    out = io.StringIO()
    show(tallied((f"s{number}", 1) for number in range(150)), 1, rich_console.Console(file=out, width=80))
    assert "… and 130 more runs that are fine" in out.getvalue()


def test_html_without_its_extra_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--html without jinja2 is bad usage, told before anything is played; so are contents without a page."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "loopguard_plugin.report.page", raising=False)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    assert main(["replay", EVENTS, "--html", str(tmp_path / "r.html")]) == 2
    assert "loopguard-plugin[report]" in stream.getvalue()
    assert main(["replay", EVENTS, "--include-content"]) == 2
    assert "--html" in stream.getvalue()
