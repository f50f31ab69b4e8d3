"""What Codex tells while it works, Magentic-One, Hermes' database, branches of OpenClaw, and where agents keep them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from test_transcripts import events, results, told
from transcribed import tell

from loopguard_plugin.cli import main, places, replay
from loopguard_plugin.transcripts import Placed, Source, Talks, Unreadable, detect, read

SAMPLES = Path(__file__).parent / "data" / "transcripts"


def test_codex_exec_stream() -> None:
    """Items that start before the next completion are one batch; a change of files is told only once it is done."""
    assert told("codex-exec.jsonl") == [
        "turn-1 user message",
        "turn-1 start item_1 shell 1/2",
        "turn-1 start item_2 mcp__docs__search 2/2",
        "turn-1 settle item_2 mcp__docs__search error",
        "turn-1 settle item_1 shell ok",
        "turn-1 start item_3 apply_patch 1/1",
        "turn-1 settle item_3 apply_patch ok",
        "turn-1 start item_4 shell 1/1",
        "turn-1 settle item_4 shell error",
    ]
    assert results("codex-exec.jsonl")["item_4"] == {"status": "completed", "exitCode": 1, "aggregated": "1 failed"}


def test_codex_app_server_log() -> None:
    """Each item counts once, though it is told twice or three times; declined is denied, an interrupt aborts."""
    assert told("codex-app-server.jsonl") == [
        "turn-1 user message",
        "turn-1 start call-1 shell 1/1",
        "turn-1 settle call-1 shell ok",
        "turn-1 start call-2 shell 1/1",
        "turn-1 settle call-2 shell denied",
        "turn-1 compaction",
        "turn-1 start call-3 shell 1/1",
        "turn-1 settle call-3 shell aborted",
    ]
    assert {event.session_key for event in events("codex-app-server.jsonl")} == {"thread-2"}
    assert "durationMs" not in json.dumps(results("codex-app-server.jsonl"))


def test_codex_tui_log() -> None:
    """Begin and end of commands, patches and MCP calls; a task is a run; what an abort leaves open is aborted."""
    assert told("codex-tui.jsonl") == [
        "turn-1 user message",
        "turn-1 start c1 shell 1/1",
        "turn-1 settle c1 shell ok",
        "turn-1 start c2 apply_patch 1/1",
        "turn-1 settle c2 apply_patch error",
        "turn-1 start c3 mcp__docs__search 1/1",
        "turn-1 settle c3 mcp__docs__search aborted",
    ]


def test_magentic_one() -> None:
    """An instruction of the orchestrator is a call of the agent that it goes to; thoughts are none."""
    assert told("magentic-one.json") == [
        "turn-1 user message",
        "turn-1 start WebSurfer WebSurfer 1/1",
        "turn-1 settle WebSurfer WebSurfer ok",
        "turn-1 start WebSurfer WebSurfer 1/1",
        "turn-1 settle WebSurfer WebSurfer ok",
    ]


def test_openclaw_branch_is_a_run_of_its_own() -> None:
    """Where the user jumped back in the tree and the agent answers anew, the calls of the old branch do not count."""
    assert told("openclaw-branch.jsonl") == [
        "turn-1 user message",
        "turn-1 start read:0 read 1/1",
        "turn-1 settle read:0 read derived",
        "turn-2 start read:0 read 1/1",
        "turn-2 settle read:0 read derived",
    ]


def database(path: Path) -> Path:
    """A store as Hermes keeps it, with two sessions whose rows are mixed."""
    call = [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}]
    rows = [
        ("b", "user", "hello", None, None, None),
        ("a", "user", "list", None, None, None),
        ("a", "assistant", None, None, json.dumps(call), None),
        ("b", "assistant", "hello!", None, None, None),
        ("a", "tool", '{"output": "no", "exit_code": 2, "error": null}', "c1", None, "terminal"),
    ]
    with sqlite3.connect(path) as file:
        file.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, "
            "tool_call_id TEXT, tool_calls TEXT, tool_name TEXT)"
        )
        file.executemany("INSERT INTO messages VALUES (NULL, ?, ?, ?, ?, ?, ?)", rows)
    file.close()
    return path


def test_hermes_database(tmp_path: Path) -> None:
    """Sessions are read one after the other; a result with an exit code other than 0 failed."""
    with Source.open(str(database(tmp_path / "state.db"))) as source:
        assert detect(source) == "hermes"
        items = list(read(source, Talks()))
    found = [item.event for item in items if isinstance(item, Placed)]
    assert [(event.session_key, tell(event)) for event in found] == [
        ("a", "turn-1 user message"),
        ("a", "turn-1 start c1 terminal 1/1"),
        ("a", "turn-1 settle c1 terminal error"),
        ("b", "turn-1 user message"),
    ]
    assert [item.line for item in items] == [2, 3, 5, 1]


def test_another_database_is_no_crash(tmp_path: Path) -> None:
    """A database without Hermes' tables is reported as unreadable."""
    with sqlite3.connect(tmp_path / "state.db") as file:
        file.execute("CREATE TABLE other (id INTEGER)")
    file.close()
    with Source.open(str(tmp_path / "state.db")) as source:
        (problem,) = read(source, Talks())
    assert isinstance(problem, Unreadable)
    assert problem.text == "this is a SQLite database with the tables other, which is not read"


KEPT = {
    "claude-code": ("CLAUDE_CONFIG_DIR", "projects/-home-ana/s.jsonl", "claude-code.jsonl"),
    "codex": ("CODEX_HOME", "sessions/2026/01/05/rollout-1.jsonl", "codex.jsonl"),
    "openclaw": ("OPENCLAW_STATE_DIR", "agents/main/sessions/s.jsonl", "openclaw-v3.jsonl"),
    "hermes": ("HERMES_HOME", "sessions/session_1.json", "openai-mini-swe.json"),
}


@pytest.mark.parametrize("name", KEPT)
def test_sessions_are_found_where_agents_keep_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--from finds the agent's sessions in its usual directory or the one that its variable names; else it says so."""
    variable, place, sample = KEPT[name]
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv(variable, raising=False)
    for root in (tmp_path / "home" / f".{name.partition('-')[0]}", tmp_path / "elsewhere"):
        file = root / place
        file.parent.mkdir(parents=True)
        file.write_bytes((SAMPLES / sample).read_bytes())
        assert places.sessions(name) == [str(file)]
        assert main(["replay", "--from", name]) == 0
        assert "1 file" in capsys.readouterr().out
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    assert main(["replay", "--from", name]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_hermes_database_goes_before_its_old_logs(tmp_path: Path) -> None:
    """The JSON logs of Hermes repeat what its database holds: with a database they are not played."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "session_1.json").write_text("{}")
    store = database(tmp_path / "state.db")
    assert places.sessions("hermes", {"HERMES_HOME": str(tmp_path)}) == [str(store)]


def test_names_of_places_are_those_of_the_command() -> None:
    """The names that --from takes are those of the places."""
    assert tuple(places.PLACES) == replay.AGENTS
