"""``loopguard install`` and ``doctor``: somebody else's settings, edited without harm, and a guard that is alive."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopguard_plugin.cli import claude_settings, json_edit, main
from loopguard_plugin.hosts._claude import EVENTS

OURS = claude_settings.hook_command()
THEIRS = {"matcher": "Bash", "hooks": [{"type": "command", "command": "their-hook"}]}

# Layouts of one and the same kind of file: as Claude Code writes it, by hand, by other programs, on other systems.
LAYOUTS = {
    "empty object": "{}",
    "empty object, spread": "{\n}\n",
    "empty object, a blank": "{ }",
    "empty hooks": '{\n  "hooks": {}\n}\n',
    "empty hooks, spread": '{\n  "hooks": {\n  }\n}\n',
    "empty list": '{\n  "hooks": {\n    "PreToolUse": [],\n    "Stop": []\n  }\n}\n',
    "empty list, spread": '{"hooks": {"PreToolUse": [\n]}}',
    "compact": '{"model":"opus","hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[]}],"Stop":[]}}',
    "one line": '{"model": "opus"}',
    "two blanks": json.dumps({"model": "opus", "hooks": {"PreToolUse": [THEIRS]}, "last": [1]}, indent=2) + "\n",
    "four blanks": json.dumps({"hooks": {"PostToolBatch": [THEIRS, THEIRS]}}, indent=4),
    "tabs": json.dumps({"a": {"b": 1}}, indent="\t") + "\n\n",
    "Windows": json.dumps({"a": {"b": 1}}, indent=2).replace("\n", "\r\n") + "\r\n",
    "byte order mark": '\ufeff{"a": 1}\n',
    "uneven": '{ "a":1\n ,"hooks"  : {"Stop" :[ ]\n}\n    }  ',
    "same key twice": '{"permissions": {"deny": ["x"]}, "permissions": {"allow": ["Read"]}}',
    "hooks twice": '{"hooks": {"Stop": []}, "hooks": {"PreToolUse": []}}',
    "huge numbers": '{"x": 1e999, "y": 1.0, "z": 12345678901234567890123, "w": 0.1e1, "u": ' + "7" * 5000 + "}",
    "surrogate": '{"statusLine": "\\ud83d cut", "\\u0041": "\\/ \\u00e9 é"}',
    "own wrapper": json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"command": f"nice {OURS}", "type": "command"}]}]}}),
    "own log": json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"command": "x > loopguard-hook.log"}]}]}}, indent=1),
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Claude Code's settings for the user; the state of the hooks is out of the way, too."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("LOOPGUARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("LOOPGUARD_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claude").mkdir()
    return tmp_path / "claude" / "settings.json"


def install(*more: str) -> int:
    return main(["install", "claude-code", "--yes", *more])


def ours(file: Path) -> dict[str, str]:
    """The commands of ours in a file, by event."""
    return {entry.event: entry.command for entry in claude_settings.entries(file.read_text().removeprefix("\ufeff"))}


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_undo_gives_back_the_very_bytes(file: Path, text: str) -> None:
    """However the file is laid out and whatever is in it: what was added is valid JSON, and goes without a trace."""
    file.write_bytes(text.encode())
    assert install() == 0
    written = file.read_bytes()
    json.loads(written.decode("utf-8-sig").replace("7" * 5000, "7"))
    assert ours(file) == dict.fromkeys(EVENTS, OURS)
    left = iter(written)
    assert all(byte in left for byte in text.encode()), "something was added, and nothing else was done"
    assert install() == 0
    assert file.read_bytes() == written
    assert install("--undo") == 0
    assert file.read_bytes() == text.encode()


def test_what_was_added_meanwhile_stays(file: Path) -> None:
    """After changes by others, undo takes out ours alone, also where they were put beside ours by hand."""
    file.write_text("{}")
    install()
    settings = json.loads(file.read_text())
    settings["hooks"]["PreToolUse"].append(THEIRS)
    settings["hooks"]["PostCompact"][0]["hooks"].insert(0, {"type": "command", "command": "theirs-too"})
    settings["model"] = "opus"
    file.write_text(json.dumps(settings))
    assert install("--undo") == 0
    assert json.loads(file.read_text()) == {
        "hooks": {
            "PreToolUse": [THEIRS],
            "PostCompact": [{"hooks": [{"type": "command", "command": "theirs-too"}]}],
        },
        "model": "opus",
    }


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        (OURS, True),
        (f"{OURS} --config '/a b/c.json5'", True),
        ("/old/venv/bin/python /old/lib/loopguard_plugin/hosts/_claude_start.py --as loopguard-hook", True),
        (f"nice {OURS}", False),
        (f"{OURS} --verbose x", False),
        (f"{OURS}; echo done", False),
        ("loopguard-hook", False),
        ("loopguard-hook --config x", False),
        ("my-wrapper --log /var/log/loopguard-hook.log", False),
        ("python x.py --as loopguard-hook", False),
        ("echo 'unclosed", False),
        (None, False),
    ],
)
def test_only_the_very_command_is_ours(command: object, is_ours: bool) -> None:
    """Whoever wrote a command of their own around the hook, or with its name in it, keeps it."""
    assert (claude_settings.parsed_command(command) is not None) is is_ours


def test_another_start_of_the_hook_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command of the user's own that starts the hook stays, and that calls count twice then is said."""
    file.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"command": "env X=1 loopguard-hook"}]}]}}))
    assert install() == 0
    assert "counts each call too" in capsys.readouterr().err
    assert main(["doctor"]) == 0
    assert "each call counts more than once" in capsys.readouterr().out


def test_older_entries_of_ours_are_replaced(file: Path) -> None:
    """Of several entries one stays, in its place, with the new command; one for an event of the past goes."""
    old = {"type": "command", "command": "/old/python /old/hosts/_claude_start.py --as loopguard-hook"}
    hooks = {"PreToolUse": [{"hooks": [old]}, THEIRS, {"hooks": [old]}], "Notification": [{"hooks": [old]}]}
    file.write_text(json.dumps({"hooks": hooks}, indent=2))
    assert install() == 0
    assert ours(file) == dict.fromkeys(EVENTS, OURS)
    found = json.loads(file.read_text())["hooks"]["PreToolUse"]
    assert [entry["hooks"][0]["command"] for entry in found] == [OURS, "their-hook"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"a":1,', "column 8: not JSON: expected a key in double quotes"),
        (b'{\n// comment\n"a":1}', "line 2, column 1: not JSON: expected a key in double quotes"),
        (b'{"a":"\xe9"}', "not UTF-8 text (byte 7)"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested more than 1000 levels deep"),
        (b'{"a": "\x1b[31m"}', "column 8: not JSON: invalid control character at"),
        (b"[]", "not a JSON object"),
        (b'{"hooks": null}', "hooks is not an object of lists"),
        (b'{"hooks": {"PreToolUse": {}}}', "hooks is not an object of lists"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_and_left(
    file: Path, data: bytes, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the file and the reason; no backup, no other file, and doctor says the same."""
    file.write_bytes(data)
    assert install() == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{file}: ")
    assert told in error
    assert error.count("\n") == 1
    assert file.read_bytes() == data
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]
    assert main(["doctor"]) == 1
    assert told in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="no pipes by name there")
def test_only_a_plain_file_is_read(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe in the place of the settings is not waited for."""
    os.mkfifo(file)
    assert install() == 1
    assert "not a plain file" in capsys.readouterr().err


def test_a_copy_stays_beside_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file as it was, for the same readers, is there after each change; its name is told."""
    file.write_text('{"env": {"TOKEN": "secret"}}')
    file.chmod(0o640)
    assert install() == 0
    copy = file.with_name("settings.json.before-loopguard")
    assert str(copy) in capsys.readouterr().out
    assert copy.read_text() == '{"env": {"TOKEN": "secret"}}'
    assert (stat.S_IMODE(copy.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) == (0o640, 0o640)
    installed = file.read_text()
    assert install("--undo") == 0
    assert copy.read_text() == installed
    assert sorted(path.name for path in file.parent.iterdir()) == ["settings.json", "settings.json.before-loopguard"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root writes another's files")
def test_the_owner_is_kept(file: Path) -> None:
    """Root may edit a user's file; it stays that user's, as does the copy."""
    file.write_text("{}")
    os.chown(file, 65534, 65534)
    assert install() == 0
    for path in file.parent.iterdir():
        assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65534)


@pytest.mark.parametrize("before", ['{"model": "a"}', None])
def test_what_changed_while_it_asks_is_kept(
    file: Path, before: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude Code may write its settings before the yes comes: then nothing is written, and that is said."""
    if before is not None:
        file.write_text(before)
    after = '{"model": "a", "permissions": {"deny": ["Bash(rm:*)"]}}'

    def meanwhile(question: str) -> str:
        file.write_text(after)
        return "y"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", meanwhile)
    assert main(["install", "claude-code"]) == 1
    assert "it was changed by someone else meanwhile; nothing was changed" in capsys.readouterr().err
    assert file.read_text() == after
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


def test_the_last_words_say_how_to_see_that_it_is_alive(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever installs learns of doctor, and doctor finds what was installed."""
    assert main(["doctor"]) == 0
    assert "not installed" in capsys.readouterr().out
    assert install() == 0
    assert "loopguard doctor" in capsys.readouterr().out
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert f"claude-code  {file}: alive" in said
    assert "last event: none of an open session" in said
    assert not (file.parents[1] / "state").exists(), "the probe is kept out of the real state"


def changed(file: Path, change: Callable[[str], str]) -> None:
    """Every command of ours, made another."""
    settings = json.loads(file.read_text())
    for matchers in settings["hooks"].values():
        matchers[0]["hooks"][0]["command"] = change(matchers[0]["hooks"][0]["command"])
    file.write_text(json.dumps(settings))


@pytest.mark.skipif(os.name == "nt", reason="a shell of another kind")
def test_doctor_finds_what_is_dead(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A removed environment, a removed package, one that cannot start, and settings that cannot be used: exit 1."""
    python, start = shlex.quote(sys.executable), shlex.split(OURS)[1]
    config, broken = tmp_path / "bad.json5", tmp_path / "hosts" / "_claude_start.py"
    config.write_text("{tools: {loopDetection: {histroySize: 1}}}")
    broken.parent.mkdir()
    broken.write_text("import a_module_that_was_removed")
    for change, told in (
        (lambda command: command.replace(python, "/gone/bin/python"), "/gone/bin/python is gone"),
        (lambda command: command.replace(start, "/gone/hosts/_claude_start.py"), "_claude_start.py is gone"),
        (lambda command: command.replace(start, str(broken)), "it exits with 1: ModuleNotFoundError"),
        (lambda command: command.replace(python, "/bin/false"), "it exits with 1: nothing on standard error"),
        (lambda command: f"{command} --config {config}", "it answers: loopguard is off, its settings cannot be used"),
    ):
        install()
        changed(file, change)
        assert main(["doctor"]) == 1
        said = capsys.readouterr().out
        assert f"claude-code  {file}: DEAD" in said
        assert told in said


def test_doctor_finds_what_is_missing_or_switched_off(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An event without a hook, and hooks that Claude Code does not run, are dead; a plugin that is off is as wanted."""
    config = tmp_path / "off.json5"
    config.write_text("{plugins: {entries: {loopguard: {enabled: false}}}}")
    assert install("--config", str(config)) == 0
    assert main(["doctor"]) == 0
    assert "enabled is false: every event passes" in capsys.readouterr().out
    settings = json.loads(file.read_text())
    del settings["hooks"]["PostToolBatch"]
    file.write_text(json.dumps({**settings, "disableAllHooks": True}))
    assert main(["doctor", "--settings", str(file)]) == 1
    said = capsys.readouterr().out
    assert "no hook for PostToolBatch" in said
    assert "disableAllHooks is true" in said


def test_doctor_looks_at_the_project_too(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hooks in the settings of the project that one stands in count as installed."""
    project = Path(".claude", "settings.local.json")
    project.parent.mkdir()
    assert install("--settings", str(project)) == 0
    capsys.readouterr()
    assert main(["doctor"]) == 0
    assert f"claude-code  {project}: alive" in capsys.readouterr().out


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=3), VALUES, max_size=4),
    st.sampled_from([None, 1, 2, "\t"]),
    st.lists(st.sampled_from(["", " ", "\n", "\t", "\r\n "]), min_size=3, max_size=3),
    VALUES,
)
def test_what_is_appended_can_be_removed(
    settings: dict[str, object], indent: int | str | None, blanks: list[str], value: object
) -> None:
    """For any object and any blanks in and around it: after append, the new member is there; after remove, the text
    is what it was."""
    text = blanks[0] + json.dumps(settings, indent=indent) + blanks[1]
    if not settings:
        text = text.replace("{}", "{" + blanks[2] + "}")
    root = json_edit.opening(text)
    longer = json_edit.append(text, root, value, "new!")
    assert json.loads(longer) == {**settings, "new!": value}
    new = json_edit.last(longer, root, "new!")
    assert new is not None
    assert json_edit.remove(longer, root, new.start) == (text, False)
