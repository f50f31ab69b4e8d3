"""The pages under docs/ say what is so: output is real, tables are complete, links and snippets hold."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyjson5
import pytest
from helpers import turns
from loguru import logger
from pages import PAGES, ROOT, blocks, page, rows

import loopguard_plugin
from loopguard_plugin import LoopGuard, TurnEndingError, decode_event, parse_settings
from loopguard_plugin.settings import Settings
from loopguard_plugin.settings_plugin import ToolSettings
from loopguard_plugin.transcripts import FORMATS

STUCK = "tests/data/stuck.jsonl"
CONFIGURATION = page("docs/configuration.md")
TEXTS = [ROOT / "README.md", *ROOT.glob("CONTRIBUTING.md"), *PAGES]
# Pages whose Python is one program, from the first block to the last; those of hosts need their host.
PROGRAMS = ["README.md", "docs/gateway.md", "docs/configuration.md", "docs/operations.md"]
MODULES = ROOT / "loopguard_plugin" / "hosts"
HOSTS = sorted(path.stem for path in MODULES.glob("[a-z]*.py") if path.stem != "claude_hook")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_shown_log_lines_are_real() -> None:
    """The log lines on the page about operations are those of the recording."""
    written: list[str] = []
    sink = logger.add(lambda message: written.append(str(message)), format="{level: <5} {message}")
    try:
        guard = LoopGuard()
        for line in (ROOT / STUCK).read_bytes().splitlines():
            try:
                guard.feed(decode_event(line))
            except TurnEndingError:
                continue
    finally:
        logger.remove(sink)
    shown = [block for block in blocks(page("docs/operations.md"), "text") if block.startswith("INFO")]
    assert shown == ["".join(written)]


@pytest.mark.parametrize("shown", blocks(page("docs/recordings.md"), "text"), ids=lambda block: block.split("\n")[0])
def test_shown_commands_print_what_they_print(shown: str) -> None:
    """Output under a prompt is what the command prints."""
    command, output = shown.split("\n", 1)
    words = [sys.executable, "-m", "loopguard_plugin", *command.removeprefix("$ loopguard ").split()]
    assert output == subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout


def test_shown_config_commands_print_what_they_print(tmp_path: Path) -> None:
    """Setting and resetting `enabled` in a file that leaves it unset says what the page shows."""
    pytest.importorskip("json5", reason="needs the extra cli")
    (shown,) = blocks(CONFIGURATION, "text")
    (tmp_path / "gateway.json5").write_text("{}", encoding="utf-8")
    lines: list[str] = []
    for line in shown.splitlines():
        if not line.startswith("$ loopguard "):
            continue
        words = [sys.executable, "-m", "loopguard_plugin", *line.split()[2:]]
        told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
        lines += [line, *told.stdout.splitlines()]
    assert lines == shown.splitlines()


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every setting of a configuration, by its dotted path; an empty table is a setting too."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value


def test_configuration_tables_are_complete() -> None:
    """Every setting of the example file stands on the page with its default."""
    example = pyjson5.decode((ROOT / "config.example.json5").read_text(encoding="utf-8"))
    tables = CONFIGURATION.split("## All settings\n")[1].split("\n## ")[0]
    told = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|", tables, re.MULTILINE))
    for path, default in leaves({"tools": example["tools"], "plugins": example["plugins"]}):
        setting = path.removeprefix("tools.loopDetection.").removeprefix("plugins.entries.loopguard.")
        assert setting in told, path
        assert json.loads(told[setting].strip("`")) == default, path


def test_settings_of_single_tools_are_complete() -> None:
    """The table about single tools has every field of a tool's settings, and the example above it is accepted."""
    text = CONFIGURATION.split("## Single tools\n")[1].split("\n## ")[0]
    named = {word for row in rows(text) for word in re.findall(r"`(\w+)`", row[0])}
    assert named == set(ToolSettings.__struct_encode_fields__)
    (example,) = blocks(text, "json5")
    tools: dict[str, Any] = pyjson5.decode("{" + example + "}")["tools"]
    settings = parse_settings({"plugins": {"entries": {"loopguard": {"config": {"tools": tools}}}}})
    assert isinstance(settings, Settings)


def test_every_format_of_recordings_is_told() -> None:
    """The table of sources has every format that `--format` takes."""
    text = page("docs/recordings.md").split("## What can be read\n")[1].split("\n## ")[0]
    assert {word for row in rows(text) for word in re.findall(r"`([\w-]+)`", row[1])} == set(FORMATS)


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link names a file, and a heading of it where it names one; pages link to pages only."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target, _, anchor = link.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        file = (path.parent / target).resolve() if target else path
        assert file.is_file(), link
        assert "docs" not in path.parts[len(ROOT.parts) : -1] or (ROOT / "docs") in file.parents, link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
            assert anchor in slugs, link


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is in the group dev")
@pytest.mark.parametrize("text", PROGRAMS)
def test_snippets_pass_mypy(text: str, tmp_path: Path) -> None:
    """The Python of a page passes `mypy --strict`, as one program."""
    program = tmp_path / "program.py"
    program.write_text("\n\n".join(snippets(text)), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(program)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert told.returncode == 0, told.stdout


@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="basedpyright is in the group pyright")
def test_snippets_pass_pyright(tmp_path: Path) -> None:
    """The Python of every page passes pyright as well, whose rules are others."""
    for text in PROGRAMS:
        program = tmp_path / f"{Path(text).stem}.py"
        program.write_text("\n\n".join(snippets(text)), encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}', encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert told.returncode == 0, told.stdout


def snippets(text: str) -> list[str]:
    """The Python blocks of a page, without those that need a host's package."""
    found = blocks(page(text), "python")
    return [block for block in found if "loopguard_plugin.hosts" not in block]


def test_the_reference_has_every_public_name() -> None:
    """Each name of `__all__` is on the page that the site is built from, and each name on it is there."""
    named = re.findall(r"^::: ([\w.]+)\.(\w+)$", page("docs/reference.md"), re.MULTILINE)
    assert set(loopguard_plugin.__all__) <= {name for _, name in named}
    for module, name in named:
        tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        assert name in {node.name for node in tree.body if isinstance(node, kinds)}, f"{module}.{name}"


def test_every_page_is_in_the_navigation() -> None:
    """A page that nobody can reach from the site's menu is a page that nobody reads."""
    shown = set(re.findall(r"([\w/-]+\.md)$", page("mkdocs.yml"), re.MULTILINE))
    assert shown == {str(path.relative_to(ROOT / "docs")) for path in PAGES}


def test_every_host_has_a_page() -> None:
    """One page a host, linked from the table."""
    linked = set(re.findall(r"\]\(([\w-]+)\.md\)", page("docs/hosts/index.md")))
    assert linked == {host.replace("_", "-") for host in HOSTS}
    assert {path.stem for path in (ROOT / "docs" / "hosts").glob("*.md")} == linked | {"index"}


@pytest.mark.parametrize("host", HOSTS)
def test_snippets_of_hosts_import_what_is_there(host: str) -> None:
    """Each Python block compiles, and what it imports from the host's module is defined there."""
    tree = ast.parse((MODULES / f"{host}.py").read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for block in blocks(page(f"docs/hosts/{host.replace('_', '-')}.md"), "python"):
        parsed = compile(block, host, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(parsed):
            if isinstance(node, ast.ImportFrom) and node.module == f"loopguard_plugin.hosts.{host}":
                assert {alias.name for alias in node.names} <= defined


@pytest.mark.parametrize("text", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_files_that_are_named_are_there(text: str) -> None:
    """Every path on the pages for contributors exists, in the package or beside it."""
    shown = re.sub(r"^```.*?^```$", "", page(text), flags=re.MULTILINE | re.DOTALL)
    named = [word for word in re.findall(r"`([\w./*-]+)`", shown) if "/" in word or word.endswith((".py", ".md"))]
    places = (ROOT, ROOT / "loopguard_plugin")
    assert len(named) > 20
    for word in named:
        assert "NAME" in word or any([*place.glob(word)] for place in places), word


def test_the_restart_of_the_page_keeps_what_was_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two failures before the restart and one after it end the turn; a damaged file is told, an absent one is none."""
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    (code,) = [block for block in blocks(page("docs/operations.md"), "python") if "def on_shutdown" in block]
    exec(code, space)
    before, after = LoopGuard(), LoopGuard()
    assert space["on_start"](before) is None
    for event in turns(2, "fetch", {}, error="refused"):
        before.feed(event)
    space["on_shutdown"](before)
    assert space["on_start"](after) is None
    assert [path.name for path in tmp_path.iterdir()] == []
    started, settled = turns(1, "fetch", {}, prefix="later", error="refused")
    after.feed(started)
    with pytest.raises(TurnEndingError):
        after.feed(settled)
    (tmp_path / "loopguard.state").write_bytes(b"no snapshot")
    assert "snapshot" in space["on_start"](LoopGuard())


def test_every_metric_is_told() -> None:
    """The table of instruments has each that the module makes, and no other."""
    source = (ROOT / "loopguard_plugin" / "metrics.py").read_text(encoding="utf-8")
    text = page("docs/operations.md").split("## Metrics\n")[1].split("\n## ")[0]
    told = {word for row in rows(text) for word in re.findall(r"`(loopguard\.[\w.]+)`", row[0])}
    assert told == set(re.findall(r'"(loopguard\.[\w.]+)"', source))
