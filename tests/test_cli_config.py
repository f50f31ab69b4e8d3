"""``loopguard config``: single settings in a file, with its comments kept (SPEC 14)."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyjson5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopguard_plugin.cli import main
from loopguard_plugin.cli.config_edit import EditError, with_value, without_value
from loopguard_plugin.cli.config_paths import default_of, is_setting, nearest_path, parse_path, shown_path
from loopguard_plugin.config_file import load_settings
from loopguard_plugin.settings import ToolPolicy

EXAMPLE = Path(__file__).parent.parent / "config.example.json5"
ENABLED = "tools.loopDetection.enabled"
PLUGIN = "plugins.entries.loopguard.config"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A copy of the example, whose comments are worth keeping."""
    path = tmp_path / "gateway.json5"
    path.write_bytes(EXAMPLE.read_bytes())
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> tuple[int, list[str], list[str]]:
    """Exit code, and the lines on stdout and on stderr."""
    code = main(["config", *map(str, argv)])
    told = capsys.readouterr()
    return code, told.out.splitlines(), told.err.splitlines()


def added(file: Path) -> tuple[list[str], list[str]]:
    """The lines that the file has over the example, and those that it has lost."""
    new, old = file.read_text(encoding="utf-8").splitlines(), EXAMPLE.read_text(encoding="utf-8").splitlines()
    return [line for line in new if line not in old], [line for line in old if line not in new]


# What scripts and people see


def test_reset_and_false_are_different_things(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`set … false` writes false and both guards are off; `reset` removes the key and the compaction guard is on."""
    code, out, _ = run(capsys, "set", ENABLED, "true", "--file", file)
    assert (code, out[0]) == (0, f"{ENABLED}: unset → true")
    assert added(file) == (["      enabled: true,"], [])
    code, out, _ = run(capsys, "set", ENABLED, "false", "--file", file)
    assert (code, added(file)) == (0, (["      enabled: false,"], []))
    assert out == [
        f"{ENABLED}: true → false",
        "guards for events that name no agent: the global ones",
        "  repeated tool errors    on   always, whatever tools.loopDetection says",
        f"  rolling detectors       off  {ENABLED} is false (on only if true)",
        f"  post-compaction guard   off  {ENABLED} is false (off only if false)",
    ]
    assert load_settings(file).resolve().enabled is False
    code, out, _ = run(capsys, "reset", ENABLED, "--file", file)
    assert (code, out[0]) == (0, f"{ENABLED}: false → unset")
    assert out[3:] == [
        f"  rolling detectors       off  {ENABLED} is unset (on only if true)",
        f"  post-compaction guard   on   {ENABLED} is unset (off only if false)",
    ]
    assert file.read_bytes() == EXAMPLE.read_bytes()


def test_get_prints_what_the_file_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A value as JSON on stdout; `unset` where there is none, with the default on stderr."""
    assert run(capsys, "get", "tools.loopDetection.historySize", "--file", file) == (0, ["30"], [])
    assert run(capsys, "get", f"{PLUGIN}.mode", "--file", file) == (0, ['"enforce"'], [])
    assert run(capsys, "get", ENABLED, "--file", file) == (0, ["unset"], [])
    assert run(capsys, "get", f"{PLUGIN}.limits.callsPerRun", "--file", file) == (0, ["unset"], [])
    code, out, _ = run(capsys, "get", "tools.loopDetection.postCompactionGuard", "--file", file)
    assert (code, json.loads("\n".join(out))) == (0, {"windowSize": 3})
    file.write_text("{}")
    assert run(capsys, "get", "tools.loopDetection.historySize", "--file", file) == (
        0,
        ["unset"],
        ["the default is 30"],
    )


def test_the_agent_that_a_path_names_is_the_one_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever switches something for one agent wants to know what holds for that one."""
    code, out, _ = run(capsys, "set", f"agents.entries.cron.{ENABLED}", "true", "--file", file)
    assert (code, out[1]) == (0, "guards for agent cron")
    assert out[3] == f"  rolling detectors       on   agents.entries.cron.{ENABLED} is true (on only if true)"
    code, out, _ = run(capsys, "set", f"{PLUGIN}.agents.cron.mode", "observe", "--file", file)
    assert (code, out[0]) == (0, f'{PLUGIN}.agents.cron.mode: unset → "observe"')
    assert out[-1] == "  observe mode: verdicts are logged and counted, nothing is noted, blocked or ended"
    file.write_text('{agents: {list: [{id: "a"}, {id: "b", tools: {loopDetection: {}}}]}}')
    code, out, _ = run(capsys, "set", f"agents.list[1].{ENABLED}", "true", "--file", file)
    assert (code, out[1]) == (0, "guards for agent b")


def test_what_an_operator_should_know_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Adjustments and weighty exemptions are said at once, not only when the guard starts."""
    _, out, _ = run(capsys, "set", "tools.loopDetection.criticalThreshold", "5", "--file", file)
    assert out[-2:] == [
        "to be aware of:",
        "  tools.loopDetection.criticalThreshold: 5 is used as 11, has to be larger than warningThreshold, which is 10",
    ]


def test_setting_what_holds_already_writes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is not even touched; the guards are shown all the same."""
    before = file.stat()
    code, out, _ = run(capsys, "set", "tools.loopDetection.historySize", "30", "--file", file)
    assert (code, out[0]) == (0, "tools.loopDetection.historySize: 30 already")
    for path in (ENABLED, "agents.list[0].id", f"{PLUGIN}.agents.nobody.limits.callsPerRun"):
        code, out, _ = run(capsys, "reset", path, "--file", file)
        assert (code, out[0]) == (0, f"{path}: unset already")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (
            ("set", "tools.loopDetection.warningThreshold", "ten"),
            '{file}: tools.loopDetection.warningThreshold: expected a whole number from 1 (default 10), found "ten" '
            "(string)",
        ),
        (
            ("set", ENABLED, "ture"),
            f'{{file}}: {ENABLED}: expected true or false, found "ture" (string) (did you mean true?)',
        ),
        (
            ("set", f"{PLUGIN}.tools.x.exempt", "cycle"),
            f'{{file}}: {PLUGIN}.tools.x.exempt: expected a list, found "cycle" (string) '
            '(did you mean ["stagnation"]?)',
        ),
        (
            ("set", f"{PLUGIN}.tools.x.exempt", '["cycle"]'),
            f"{{file}}: {PLUGIN}.tools.x.exempt[0]: an older word, replaced by stagnation",
        ),
        (
            ("set", f"{PLUGIN}.detectors", "{ cycle: true }"),
            f"{{file}}: {PLUGIN}.detectors.cycle: an older key, replaced by stagnation",
        ),
        (
            ("set", f"{PLUGIN}.detectors.cycle", "true"),
            f"{PLUGIN}.detectors.cycle: not a setting of loopguard any more, replaced by {PLUGIN}.detectors.stagnation",
        ),
        (
            ("set", f"{PLUGIN}.agents.a.detectors.cycle", "true"),
            f"{PLUGIN}.agents.a.detectors.cycle: not a setting of loopguard any more, replaced by "
            f"{PLUGIN}.agents.a.detectors.stagnation",
        ),
        (
            ("get", "tools.loopDetection.repeatThreshold"),
            "tools.loopDetection.repeatThreshold: not a setting of loopguard any more, replaced by "
            "tools.loopDetection.warningThreshold",
        ),
        (
            ("set", "tools.loopDetection.detectors.stagnation", "true"),
            "tools.loopDetection.detectors.stagnation: not a setting of loopguard (did you mean "
            f"{PLUGIN}.detectors.stagnation?)",
        ),
        (
            ("set", f"{PLUGIN}.agents.a.warningThreshold", "4"),
            f"{PLUGIN}.agents.a.warningThreshold: not a setting of loopguard (did you mean "
            "agents.entries.a.tools.loopDetection.warningThreshold?)",
        ),
        (
            ("set", "tools.loopDetecton", "{ enabled: true }"),
            "tools.loopDetecton: not a setting of loopguard (did you mean tools.loopDetection?)",
        ),
        (
            ("set", "tools.loopDetection.enable", "true"),
            f"tools.loopDetection.enable: not a setting of loopguard (did you mean {ENABLED}?)",
        ),
        (("get", "enabled"), f"enabled: not a setting of loopguard (did you mean {ENABLED}?)"),
        (
            ("reset", "history_size"),
            "history_size: not a setting of loopguard (did you mean tools.loopDetection.historySize?)",
        ),
        (
            ("set", f"{PLUGIN}.tools.search.warnThreshold", "4"),
            f"{PLUGIN}.tools.search.warnThreshold: not a setting of loopguard (did you mean "
            f"{PLUGIN}.tools.search.warningThreshold?)",
        ),
        (("get", "channels.telegram.token"), "channels.telegram.token: not a setting of loopguard"),
        (
            ("get", "tools..enabled"),
            'tools..enabled: not a path such as tools.loopDetection.enabled or agents.entries["my.agent"]',
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_told_and_the_file_is_untouched(
    file: Path, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], told: str
) -> None:
    """A bad value is told as by check-config, an unknown path with the nearest known one; nothing is written."""
    code, out, err = run(capsys, *argv, "--file", file)
    assert (code, out, err) == (2, [], [told.format(file=file)])
    assert file.read_bytes() == EXAMPLE.read_bytes()


def test_a_file_that_is_broken_or_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The place of the mistake, as by check-config; a file is never made."""
    broken, missing = tmp_path / "broken.json5", tmp_path / "missing.json5"
    broken.write_text("{\n  tools: }")
    for action in (("get", ENABLED), ("set", ENABLED, "true"), ("reset", ENABLED)):
        code, _, err = run(capsys, *action, "--file", broken)
        assert (code, err) == (2, [f"{broken}: line 2, column 10: not JSON5: expected a value, found `}}`"])
        code, _, err = run(capsys, *action, "--file", missing)
        assert (code, err) == (2, [f"{missing}: cannot be read: No such file or directory"])
    assert broken.read_text() == "{\n  tools: }"
    assert not missing.exists()


def test_a_bad_value_can_be_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the result has to be good; the file before may have been refused."""
    path = tmp_path / "gateway.json5"
    path.write_text("{tools: {loopDetection: {historySize: 'x', enabled: true}}}")
    assert run(capsys, "reset", "tools.loopDetection.historySize", "--file", path)[0] == 0
    assert path.read_text() == "{tools: {loopDetection: { enabled: true}}}"


def test_a_file_with_settings_that_nothing_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`get` prints the value and says what is not read; nothing is written that check-config would refuse."""
    path = tmp_path / "gateway.json5"
    path.write_text("{ tools: { loopDetectoin: { enabled: true } } }")
    told = f"{path}: tools.loopDetectoin: loopguard does not read this key (did you mean loopDetection?)"
    assert run(capsys, "get", ENABLED, "--file", path) == (0, ["unset"], [told])
    assert run(capsys, "set", ENABLED, "true", "--file", path) == (2, [], [told])
    assert run(capsys, "reset", ENABLED, "--file", path) == (2, [], [told])
    assert path.read_text() == "{ tools: { loopDetectoin: { enabled: true } } }"


def test_every_new_setting_is_set_shown_and_reset(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`stagnation`, `errorCascade`, `repeatedErrors` and `similar`, for all and for one agent."""
    settings = {
        f"{PLUGIN}.detectors.stagnation": "false",
        f"{PLUGIN}.detectors.errorCascade": "false",
        f"{PLUGIN}.repeatedErrors": '"similar"',
        f"{PLUGIN}.tools.ci_status.similar": "true",
        f"{PLUGIN}.agents.cron.detectors.stagnation": "true",
    }
    file.write_text("{}")
    for path, value in settings.items():
        code, out, _ = run(capsys, "set", path, value, "--file", file)
        assert (code, out[0]) == (0, f"{path}: unset → {value}")
        assert run(capsys, "get", path, "--file", file) == (0, [value], [])
    resolved = load_settings(file).resolve()
    assert (resolved.stagnation, resolved.error_cascade, resolved.similar_errors) == (False, False, True)
    assert load_settings(file).resolve("cron").stagnation
    for path in settings:
        assert run(capsys, "reset", path, "--file", file)[0] == 0
    resolved = load_settings(file).resolve()
    assert (resolved.stagnation, resolved.error_cascade, resolved.similar_errors) == (True, True, False)
    assert resolved.policy("ci_status") == ToolPolicy()


def test_help_explains_the_actions(capsys: pytest.CaptureFixture[str]) -> None:
    """Usage errors and help as with every other command."""
    assert run(capsys, "--help")[0] == 0
    assert run(capsys)[0] == 2
    assert run(capsys, "set", ENABLED, "--file", "x")[0] == 2
    assert run(capsys, "get", ENABLED)[0] == 2


def test_without_the_extra_editing_says_what_to_install(file: Path) -> None:
    """Reading needs nothing; editing names the extra that is missing."""
    code = (
        "import sys; sys.modules['json5'] = None\n"
        "from loopguard_plugin.cli import main\n"
        f"print(main(['config', 'get', '{ENABLED}', '--file', {str(file)!r}]))\n"
        f"print(main(['config', 'set', '{ENABLED}', 'true', '--file', {str(file)!r}]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=EXAMPLE.parent, capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.split() == ["unset", "0", "2"]
    assert "pip install 'loopguard-plugin[cli]'" in told.stderr


# The file


def test_mode_and_links_are_kept(tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The new file has the old one's mode; a link still leads to it; no temporary file is left."""
    file.chmod(0o640)
    link = tmp_path / "link.json5"
    link.symlink_to(file.name)
    assert run(capsys, "set", ENABLED, "true", "--file", link)[0] == 0
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert load_settings(file).resolve().rolling
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gateway.json5", "link.json5"]


def test_a_write_that_fails_leaves_the_file(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is told, exit 1; the file is whole and nothing is left beside it."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, out, err = run(capsys, "set", ENABLED, "true", "--file", file)
    assert (code, out, err) == (1, [], [f"{file}: cannot be written: No space left on device"])
    assert file.read_bytes() == EXAMPLE.read_bytes()
    assert [path.name for path in file.parent.iterdir()] == ["gateway.json5"]


def test_what_someone_else_wrote_meanwhile_is_not_lost(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two editors at once: the later one is told, and the file stays as the other left it."""
    fsync = os.fsync

    def meanwhile(number: int) -> None:
        fsync(number)
        file.write_text("{ theirs: 1 }")

    monkeypatch.setattr(os, "fsync", meanwhile)
    code, _, err = run(capsys, "set", ENABLED, "true", "--file", file)
    assert (code, err) == (1, [f"{file}: cannot be written: it was changed by someone else meanwhile"])
    assert file.read_text() == "{ theirs: 1 }"


# The text

EDITS = [
    # what stands, path, value (None: reset), what stands then
    ("{}", "a", "1", "{ a: 1 }"),
    ("{ }", "a", "1", "{ a: 1 }"),
    ("{}", "a.b.c", "1", "{ a: { b: { c: 1 } } }"),
    ("{\n}\n", "a", "1", "{\n  a: 1\n}\n"),
    ("{ a: 1 }", "a", "[1, /* x */ 2]", "{ a: [1, /* x */ 2] }"),
    ("{ a: null }", "a.b", "1", "{ a: { b: 1 } }"),
    ("{ a: 1 }", "b", "2", "{ a: 1, b: 2 }"),
    ("{a:1}", "b", "2", "{a:1, b: 2 }"),
    ('{"a": 1}', "b", "x", '{"a": 1, "b": "x" }'),
    ("{a:1,a:2}", "a", "3", "{a:1,a:3}"),
    ("{\n  a: 1, // one\n}\n", "b", "2", "{\n  a: 1, // one\n  b: 2,\n}\n"),
    ("{\n  a: 1 // one\n}\n", "b", "2", "{\n  a: 1, // one\n  b: 2\n}\n"),
    ("{\r\n\ta: 1\r\n}\r\n", "b", "2", "{\r\n\ta: 1,\r\n\tb: 2\r\n}\r\n"),
    ("{\n  a: {\n    // none yet\n  },\n}\n", "a.b", "1", "{\n  a: {\n    // none yet\n    b: 1,\n  },\n}\n"),
    ("{ a: [{ b: 1 }] }", "a[0].b", "2", "{ a: [{ b: 2 }] }"),
    ("{ a: 1 }", "a", None, "{}"),
    ("{ a: 1, b: 2 }", "a", None, "{ b: 2 }"),
    ("{ a: 1, b: 2 }", "b", None, "{ a: 1 }"),
    ("{ a: 1, b: 2 }", "c", None, "{ a: 1, b: 2 }"),
    ("{a:1,b:2,a:3}", "a", None, "{b:2}"),
    ("{\n  a: 1,\n  b: 2,\n}\n", "a", None, "{\n  b: 2,\n}\n"),
    ("{\n  a: 1,\n  b: 2,\n}\n", "b", None, "{\n  a: 1,\n}\n"),
    ("{\n  a: 1,\n  b: 2\n}\n", "b", None, "{\n  a: 1\n}\n"),
    ("{\n  a: 1,\n\n  b: 2,\n\n  c: 3,\n}\n", "b", None, "{\n  a: 1,\n\n  c: 3,\n}\n"),
    ("{\n  a: 1, // one\n  // above\n  b: 2, // two\n}\n", "b", None, "{\n  a: 1, // one\n  // above\n  // two\n}\n"),
    ("{\n  a: 1, // one\n  b: 2, // two\n}\n", "a", None, "{\n  // one\n  b: 2, // two\n}\n"),
    ("{\n  a: // why\n    1,\n  b: 2,\n}\n", "a", None, "{\n  // why\n  b: 2,\n}\n"),
]


@pytest.mark.parametrize(("text", "path", "value", "then"), EDITS, ids=[f"{e[0]}-{e[1]}-{e[2]}" for e in EDITS])
def test_one_edit(text: str, path: str, value: str | None, then: str) -> None:
    """Comments, indentation, line ends, commas and quotes are those of the file."""
    steps = parse_path(path)
    assert (without_value(text, steps) if value is None else with_value(text, steps, value)) == then


def test_a_place_of_a_list_is_not_for_resetting() -> None:
    """The others would move up; the whole list is to be set."""
    with pytest.raises(EditError, match=r"a\[0\]: one place of a list cannot be reset; set the whole list"):
        without_value("{ a: [1, 2] }", ("a", 0))
    with pytest.raises(EditError, match=r"a\[5\]: there is no such place in that list"):
        with_value("{ a: [1, 2] }", ("a", 5), "1")


SPACES = st.sampled_from(["", " ", "\n", "\n  ", "\r\n\t", "/* # */", " /* # */ ", " // #\n", "\n  // #\n  "])
NAMES = st.sampled_from(["a", "b", '"c"', "'d e'"])


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> str:
    """The text of an object, with white space and comments in every place."""
    pairs = []
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        inner = st.sampled_from(["1", "null", "'x'", "[1, 2]", "-0.5"]) | (
            objects(depth - 1) if depth else st.nothing()
        )
        between = [draw(SPACES) for _ in range(4)]
        pairs.append(f"{between[0]}{name}{between[1]}:{between[2]}{draw(inner)}{between[3]}")
    end = draw(st.sampled_from(["", ","])) if pairs else ""
    return "{" + ",".join(pairs) + end + draw(SPACES) + "}"


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A whole text, every comment in it with a number of its own."""
    text = draw(SPACES) + draw(objects()) + draw(SPACES)
    numbers = iter(range(1000))
    return re.sub("#", lambda _: f"c{next(numbers)}", text)


def _comments(text: str) -> list[str]:
    return sorted(re.findall(r"\bc\d+\b", text))


@given(documents(), st.lists(st.sampled_from(["a", "b", "c", "d e", "new"]), min_size=1, max_size=3), st.booleans())
def test_any_edit_changes_its_value_and_nothing_else(text: str, path: list[str], reset: bool) -> None:
    """The other values and every comment around are there as before, wherever they stand."""
    before = pyjson5.decode(text)
    steps = tuple(path)
    try:
        new = without_value(text, steps) if reset else with_value(text, steps, "'new'")
    except EditError:
        assert not _passable(before, path)
        return
    assert pyjson5.decode(new) == _expected(before, path, None if reset else "new")
    if not isinstance(_found(before, path), (dict, list)):  # what stands inside a value goes with it
        assert _comments(new) == _comments(text)
    assert without_value(new, steps) == without_value(without_value(new, steps), steps)


def _passable(value: Any, path: list[str]) -> bool:
    """Whether all on the way is an object, null or absent."""
    for step in path[:-1]:
        if value is None:
            return True
        if not isinstance(value, dict):
            return False
        value = value.get(step)
    return value is None or isinstance(value, dict) or len(path) == 1


def _found(value: Any, path: list[str]) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _expected(value: Any, path: list[str], new: object) -> Any:
    first, *rest = path
    if not isinstance(value, dict):
        if new is None:
            return value
        value = {}
    if rest:
        inner = value.get(first)
        return value if new is None and inner is None else {**value, first: _expected(inner, rest, new)}
    if new is None:
        return {key: item for key, item in value.items() if key != first}
    return {**value, first: new}


# Paths


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (ENABLED, ("tools", "loopDetection", "enabled")),
        ("agents.list[0].id", ("agents", "list", 0, "id")),
        (f'{PLUGIN}.tools["notify_*"].kind', (*PLUGIN.split("."), "tools", "notify_*", "kind")),
        (f"{PLUGIN}.tools.notify_*.kind", (*PLUGIN.split("."), "tools", "notify_*", "kind")),
        ('agents.entries["my.\\"agent"].default', ("agents", "entries", 'my."agent', "default")),
    ],
)
def test_paths_read_as_in_error_messages(text: str, steps: tuple[str | int, ...]) -> None:
    """What an error names can be typed as it stands; all these are settings."""
    assert parse_path(text) == steps
    assert parse_path(shown_path(steps)) == steps
    assert is_setting(steps)


@pytest.mark.parametrize("text", ["", ".", ".tools", "tools.", "tools..a", "[0]", "tools[", 'tools["a]', "tools]"])
def test_what_is_no_path_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="path"):
        parse_path(text)


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("tools.loopDetection.warningThreshold", 10),
        (f"{PLUGIN}.mode", "enforce"),
        (f"{PLUGIN}.tools.x.errorRetries", 2),
        (ENABLED, None),
        (f"agents.entries.a.{ENABLED.replace('enabled', 'historySize')}", None),
        (f"{PLUGIN}.repeatedErrors", "exact"),
        (f"{PLUGIN}.detectors.stagnation", True),
        (f"{PLUGIN}.tools.x.similar", False),
        (f"{PLUGIN}.agents.a.detectors.stagnation", None),
    ],
)
def test_defaults_are_those_of_the_schema(path: str, default: object) -> None:
    """An agent's own settings have none: there the ones for all hold."""
    assert default_of(parse_path(path)) == default


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    """A wild guess would help nobody."""
    assert nearest_path(("channels", "telegram")) is None
