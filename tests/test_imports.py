"""The rooms of the house: which module may import which, what the core may not touch, and what importing loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import loopguard_plugin

PACKAGE = Path(loopguard_plugin.__file__).parent
NAME = "loopguard_plugin"

# Imports point from a later row to the same row or an earlier one. The parts of settings count as one room.
ROWS = (
    {"errors", "answers", "json_text", "printable", "events", "settings"},
    {"core"},
    {"composition", "decisions", "turn_ends", "log_lines", "logs", "config_file", "bus"},
    {"middleware", "metrics", "config_watch", "recorded", "recorded_files", "recording", "transcripts", "report"},
    {"hosts", "cluster", "cli"},
    {"__main__"},
)
IMPURE = {"time", "logging", "loguru", "asyncio", "anyio", "trio", "random", "secrets", "os", "io", "socket"}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    """``loopguard_plugin.core.guard`` for its file; a package by its own name."""
    parts = (NAME, *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, also inside functions and for type checking, in full."""
    own = dotted(path).split(".")
    home = own if path.name == "__init__.py" else own[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = home[: len(home) - node.level + 1] if node.level else []
            whole = ".".join([*base, *([node.module] if node.module else [])])
            yield whole
            yield from (f"{whole}.{alias.name}" for alias in node.names)


def room(module: str) -> str | None:
    """The room of one of our modules; None for the package itself and for what is not ours."""
    top, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    ours = top == NAME and ((PACKAGE / name / "__init__.py").exists() or (PACKAGE / f"{name}.py").exists())
    return name.partition("settings_")[0] or "settings" if ours and name else None


def row(name: str) -> int:
    return next(at for at, row in enumerate(ROWS) if name in row)


def test_every_module_has_a_room() -> None:
    """A new module is given its place in the rows, so that the direction of its imports is held."""
    known = set().union(*ROWS)
    assert {room(dotted(path)) for path in modules()} - {None} <= known


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_imports_point_one_way(path: Path) -> None:
    """No module imports from a room above its own."""
    here = room(dotted(path))
    if here is None:
        return
    above = {module for module in imports(path) if (there := room(module)) is not None and row(there) > row(here)}
    assert not above


@pytest.mark.parametrize("path", [path for path in modules() if path.is_relative_to(PACKAGE / "core")], ids=dotted)
def test_core_is_pure(path: Path) -> None:
    """The core has no clock, no I/O, no logging, no randomness and no event loop."""
    assert not {module.split(".")[0] for module in imports(path)} & IMPURE
    called = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"open", "print", "input"}


def test_loguru_is_imported_in_logs_alone() -> None:
    """Whoever wants other logging has one file to look at."""
    importers = {dotted(path) for path in modules() if any(name.split(".")[0] == "loguru" for name in imports(path))}
    assert importers == {f"{NAME}.logs"}


def test_all_is_exact() -> None:
    """``__all__`` names what the package offers, no more and no less, in order, and every name is there."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    bound = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    assert bound == set(loopguard_plugin.__all__)
    assert sorted(set(loopguard_plugin.__all__)) == loopguard_plugin.__all__
    for name in loopguard_plugin.__all__:
        assert getattr(loopguard_plugin, name).__module__.startswith(f"{NAME}.")
    assert set(loopguard_plugin.__all__) <= set(dir(loopguard_plugin))


def test_unknown_name_is_an_attribute_error() -> None:
    """Names that the package does not have are refused as anywhere else."""
    with pytest.raises(AttributeError, match="Loopguard"):
        loopguard_plugin.Loopguard  # noqa: B018  # the mistake under test


def loaded_by(code: str) -> set[str]:
    """The top-level names of all modules that a fresh interpreter has loaded after ``code``."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(told.stdout.split())


def test_import_loads_nothing_heavy() -> None:
    """Importing the package, and building and reading events, loads no event loop, logging or command line."""
    heavy = {"asyncio", "anyio", "trio", "loguru", "logging", "argparse", "rich", "pyjson5", "difflib", "inspect"}
    used = loaded_by(
        "import loopguard_plugin as l\n"
        "l.decode_event(b'{\"type\":\"compaction_retry\",\"session_key\":\"s\"}')\n"
        "l.batch_started('s', [('c', 'read', {})], batch_id='b')"
    )
    baseline = loaded_by("import msgspec, orjson, xxhash")
    assert not (used - baseline) & heavy
    assert not {name for name in used if name.startswith(f"{NAME}.")} - {
        f"{NAME}.{name}" for name in ("answers", "errors", "events", "json_text", "printable")
    }


def test_guard_needs_no_event_loop() -> None:
    """``LoopGuard`` for hosts without an event loop loads neither anyio nor the JSON5 reader."""
    assert not loaded_by("from loopguard_plugin import LoopGuard") & {"anyio", "trio", "pyjson5", "argparse", "rich"}
