"""A file from which no call can be read is never passed over: what is said of it, and with which exit code."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path

import pytest

from loopguard_plugin.cli import main
from loopguard_plugin.transcripts import FORMATS, Placed, Source, Talks, Unreadable, read

SAMPLES = Path(__file__).parent / "data" / "transcripts"
TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def refused(path: Path, form: str = "auto") -> str:
    """The last word on a file that has no call."""
    with Source.open(str(path)) as source:
        items = list(read(source, Talks(), form))
    assert isinstance(items[-1], Unreadable)
    return items[-1].text


@pytest.mark.parametrize("more", [[], ["--fail-on", "warn"], ["--json"]])
def test_talk_without_a_call_is_bad_input(more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that was named and plays as nothing ends with exit 1 and says as what it was read, and why."""
    path = written(tmp_path / "chat.json", TALK)
    assert main(["replay", str(path), *more]) == 1
    told = f'{path}: read as OpenAI chat messages (told by "role" and "content"): '
    assert told in capsys.readouterr().err


def test_talk_without_a_call_in_a_directory_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside sessions that play, a talk without tools is told and passed over; alone in a directory it is bad input."""
    path = written(tmp_path / "chat.json", TALK)
    assert main(["replay", str(tmp_path)]) == 1
    (tmp_path / "b.jsonl").write_bytes((SAMPLES / "events.jsonl").read_bytes())
    capsys.readouterr()
    assert main(["replay", str(tmp_path)]) == 0
    assert f"{path}: skipped, read as OpenAI chat messages" in capsys.readouterr().err


def test_talk_without_a_call_among_an_agents_own_sessions_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody named a file that --from found: chats without tools are passed over there, as in a directory."""
    sessions = tmp_path / "projects" / "p"
    sessions.mkdir(parents=True)
    (sessions / "a.jsonl").write_bytes((SAMPLES / "claude-code.jsonl").read_bytes())
    chat = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "hi"}}
    path = written(sessions / "b.jsonl", chat)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert main(["replay", "--from", "claude-code"]) == 0
    assert f"{path}: skipped, read as a Claude Code transcript" in capsys.readouterr().err
    assert main(["replay", str(path)]) == 1


def test_file_that_is_suspicious_is_bad_input_in_a_directory_too(tmp_path: Path) -> None:
    """Where a file without a call looks like another format, or like a known one that is not read, it is an error."""
    (tmp_path / "a.jsonl").write_bytes((SAMPLES / "events.jsonl").read_bytes())
    autogen = [{"role": "user", "content": "x"}, {"source": "a", "models_usage": None, "content": "x"}]
    written(tmp_path / "b.json", {"messages": autogen})
    assert main(["replay", str(tmp_path)]) == 1


def test_number_beyond_any_type_is_refused_in_words(tmp_path: Path) -> None:
    """Looking for another format that fits raises for no value that a file may hold."""
    path = tmp_path / "chat.json"
    path.write_text('[{"role": "user", "content": "x", "n": ' + "7" * 5000 + "}]")
    assert refused(path).endswith("1 entry, no tool call")


@pytest.mark.parametrize(("head", "what"), [(b"SQLite format 3\x00", "a database"), (b"PK\x03\x04", "a ZIP archive")])
def test_archive_from_standard_input_is_refused(head: bytes, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database and an archive are read from their files, and the message says so."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(head + b"\n" * 100)))
    assert refused(Path("-")) == f"{what} is read from its file, not from standard input"


def test_empty_file_has_nothing_to_refuse(tmp_path: Path) -> None:
    """An empty file is no error."""
    path = tmp_path / "none.jsonl"
    path.touch()
    with Source.open(str(path)) as source:
        assert list(read(source, Talks())) == []


def test_events_may_be_without_calls(tmp_path: Path) -> None:
    """In the events format every line is checked by itself, so a recording of user messages alone is complete."""
    path = written(tmp_path / "e.jsonl", {"type": "user_message_committed", "session_key": "s"})
    with Source.open(str(path)) as source:
        (item,) = read(source, Talks())
    assert isinstance(item, Placed)


def test_schema_version_alone_is_no_atif(tmp_path: Path) -> None:
    """Many formats have a schema_version; without a sign of ATIF the file is told by its keys."""
    told = refused(written(tmp_path / "a.json", {"schema_version": "2.0", "runs": []}))
    assert told.startswith("cannot tell the format; ")
    assert told.endswith("its first value is an object with the keys schema_version, runs")


def test_atif_without_a_call_says_why_it_was_taken_for_it(tmp_path: Path) -> None:
    """A guess that finds nothing names what it was based on."""
    steps = [{"step_id": 1, "source": "user", "message": "hi"}]
    told = refused(written(tmp_path / "a.json", {"schema_version": "ATIF-v1.6", "agent": {}, "steps": steps}))
    assert told == (
        'read as an ATIF trajectory (told by an ATIF "schema_version", or "steps" and "agent"): 1 entry, no tool call'
    )


@pytest.mark.parametrize(
    ("sample", "form", "told"),
    [
        ("codex.jsonl", "gemini", "this looks like a Codex rollout: --format codex"),
        ("gemini.json", "openclaw", "this looks like a Gemini CLI session: --format gemini"),
        ("openclaw-v3.jsonl", "claude-code", "this looks like an OpenClaw or pi session: --format openclaw"),
        ("openai-tau.json", "swe-agent", "this looks like OpenAI chat messages: --format openai-chat"),
    ],
)
def test_format_that_does_not_fit_names_the_one_that_does(sample: str, form: str, told: str) -> None:
    """A format that was named and finds nothing says how far it read, and what the file looks like."""
    text = refused(SAMPLES / sample, form)
    assert text.startswith(f"read as {FORMATS[form].called} (as --format says): ")
    assert text.endswith(told)


def test_format_that_does_not_fit_says_where_it_stopped(tmp_path: Path) -> None:
    """Where nothing known is in sight, the message counts the lines and describes the first value."""
    path = tmp_path / "n.jsonl"
    path.write_text('{"a": 1, "b": 2}\n{"a": 2}\n')
    assert refused(path, "codex") == (
        "read as a Codex rollout (as --format says): 2 lines, no tool call; "
        "its first value is an object with the keys a, b"
    )


@pytest.mark.parametrize(
    ("value", "called"),
    [
        ([{"title": "t", "mapping": {}, "current_node": "n"}], "a ChatGPT data export"),
        ([{"uuid": "u", "chat_messages": []}], "a claude.ai data export"),
        ({"run_type": "llm", "inputs": {}}, "a LangSmith run"),
        ({"log": {"entries": []}}, "a HAR file of a browser"),
        ({"data": [{"traceID": "1", "spans": []}]}, "a Jaeger trace (export it as OTLP)"),
        ([{"source": "a", "models_usage": None, "content": "x"}], "an AutoGen message"),
        (
            [{"role": "assistant", "parts": [{"type": "tool-search", "toolCallId": "c"}]}],
            "a message of the Vercel AI SDK's user interface",
        ),
    ],
)
def test_known_products_that_are_not_read(value: object, called: str, tmp_path: Path) -> None:
    """What is known and not read is called by its name."""
    assert refused(written(tmp_path / "x.json", value)) == f"this is {called}, which is not read"


def test_archive_that_is_not_read(tmp_path: Path) -> None:
    """A ZIP archive of something else is told by what stands in it; a broken one as broken."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "x")
    assert refused(path) == "this is a ZIP archive with notes.txt, which is not read"
    path.write_bytes(path.read_bytes()[:40])
    assert "a ZIP archive that cannot be read" in refused(path)
