"""Text from outside on a terminal: no command prints a control character of a name, nor lets one forge a line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from loopguard_plugin.cli import main
from loopguard_plugin.errors import Problem, SettingsError
from loopguard_plugin.printable import printable, printable_lines

NASTY = "evil\x1b[31m\x9b2J\u202e\nINJECTED\r"
SAMPLE = Path(__file__).parent / "data" / "stuck.jsonl"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本 🙂", "plain é 日本 🙂"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("\u202eabc\u2028", "\\u202eabc\\u2028"),
        ("cut \ud83d", "cut \\ud83d"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    """Escape sequences, line breaks, direction marks and lone surrogates are shown, not obeyed; letters stay."""
    assert printable(text) == shown
    assert printable(text).isprintable()


def test_lines_stay_lines() -> None:
    """A text of several lines of our own keeps them; only what is in a line is escaped."""
    assert printable_lines("a\n\x1bb\n") == "a\n\\x1bb\n"


def test_errors_of_settings_cannot_forge_lines() -> None:
    """A file's name is part of the error's text."""
    error = SettingsError((Problem("a", "one"), Problem("b", "two")), "x\nINJECTED")
    assert str(error) == "x\\nINJECTED: a: one\nx\\nINJECTED: b: two"


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints, on either stream, as a test for what must not be in it."""

    def run(*argv: str) -> str:
        main(argv)
        out, err = capfd.readouterr()
        text = out + err
        assert [line for line in text.splitlines() if line.startswith("INJECTED")] == []
        assert text.replace("\n", "").isprintable(), ascii(text)
        return text

    return run


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A stuck session in a file with a nasty name, under nasty names inside, and a broken line."""
    lines = []
    for line in SAMPLE.read_text().splitlines():
        event = json.loads(line)
        event |= {"agent_id": NASTY, "session_key": f"s{NASTY}", "run_id": f"r{NASTY}"}
        event |= {"tool": f"t{NASTY}"} if "tool" in event else {}
        lines.append(json.dumps(event))
    path = tmp_path / "in" / f"{NASTY.strip()}.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join([*lines, "{broken \x1b[31m"]))
    return path


@pytest.mark.skipif(os.name == "nt", reason="no such file names there")
def test_replay_explain_and_tune(recording: Path, tmp_path: Path, said: Callable[..., str]) -> None:
    """Names of files, sessions, runs, agents and tools, in findings as in problems."""
    on = tmp_path / "on.json5"
    on.write_text("{tools: {loopDetection: {enabled: true, warningThreshold: 2, criticalThreshold: 3}}}")
    for argv in ([], ["--config", str(on)]):
        text = said("replay", str(recording), *argv)
        assert "\\x1b[31m" in text
        assert ":1" in text
    said("replay", str(recording.parent), "--format", "codex")
    said("replay", str(recording), "--html", str(recording) + ".html")
    for at in ("0", "9", "99999"):
        said("explain", str(recording), "--at", at, "--config", str(on))
    said("explain", str(recording) + ".gone", "--at", "0")
    said("tune", str(recording), "--stuck", str(recording))


@pytest.mark.skipif(os.name == "nt", reason="no such file names there")
def test_settings(tmp_path: Path, said: Callable[..., str]) -> None:
    """Keys, agents and values of a config file, good or bad, and its name."""
    path = tmp_path / f"{NASTY.strip()}.json5"
    agent = {NASTY: {"tools": {"loopDetection": {"enabled": True, "criticalThreshold": 1}}}}
    tools = {"plugins": {"entries": {"loopguard": {"config": {"tools": {NASTY: {"exempt": ["generic_repeat"]}}}}}}}
    for text in ({"agents": {"entries": agent}, **tools}, {"tools": {"loopDetection": {NASTY: 1}}}, {"tools": NASTY}):
        path.write_text(json.dumps(text))
        said("check-config", str(path))
        said("check-config", str(path), "--agent", NASTY)
        said("config", "get", "tools", "--file", str(path))
        said("config", "set", f'plugins.entries.loopguard.config.toolAliases["{NASTY}"]', "x", "--file", str(path))
        said("replay", str(SAMPLE), "--config", str(path), "--agent", NASTY)
    said("check-config", str(path) + NASTY)


@pytest.mark.skipif(os.name == "nt", reason="no such file names there")
def test_install_and_doctor(tmp_path: Path, said: Callable[..., str]) -> None:
    """The settings file's name, and what stands in it beside our hooks."""
    path = tmp_path / f"{NASTY.strip()}.json"
    theirs = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": "loopguard-hook \x1b"}]}]}})
    for text in ('{"a": "\x9b \u202e"}', '{"a": 1', theirs):
        path.write_text(text)
        said("install", "claude-code", "--yes", "--settings", str(path))
        said("doctor", "--settings", str(path))
        said("install", "claude-code", "--yes", "--undo", "--settings", str(path))
