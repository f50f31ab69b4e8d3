"""``loopguard install``: put loopguard into a host that is configured by a file, and take it out again."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .commands import Commands
from .exits import Exit

MARK: Final = "loopguard-hook"  # every command of ours has it, so that they are found again
SECONDS: Final = 30
PACKAGE: Final = Path(__file__).parents[1]
DONE: Final = {False: "loopguard is in", True: "loopguard is out of"}


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "install",
        help="put loopguard into a host, or take it out again",
        description="Merge loopguard's hooks into Claude Code's settings. The change is shown, and made only after a "
        "yes. Hooks and settings of others stay as they are. Exit 1 if the file cannot be used or nothing was changed "
        "for want of a yes.",
    )
    parser.add_argument("host", choices=["claude-code"], help="the host")
    parser.add_argument("--settings", metavar="FILE", help="settings file (default: Claude Code's for the user)")
    parser.add_argument("--config", metavar="FILE", help="loopguard's own JSON5 settings, for the hooks to use")
    parser.add_argument("--print", action="store_true", dest="show", help="print the block to add, change nothing")
    parser.add_argument("--undo", action="store_true", help="take loopguard's hooks out again")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show the change, ask, make it."""
    hooks = {} if arguments.undo else _hooks(arguments.config)
    if arguments.show:
        print(json.dumps({"hooks": hooks}, indent=2))
        return Exit.OK
    if arguments.config is not None and not _usable(arguments.config):
        return Exit.BAD_USAGE
    file = Path(arguments.settings or _user_settings()).resolve()  # a link stays one
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        settings = json.loads(text) if text.strip() else {}
        new = _merged(settings, hooks)
    except (OSError, ValueError) as error:
        print(f"{file}: {error}; nothing was changed", file=sys.stderr)
        return Exit.BAD_INPUT
    written = json.dumps(new, indent=2, ensure_ascii=False) + "\n"
    if new == settings:
        print(f"{file}: nothing to change, {DONE[arguments.undo]} it already")
        return Exit.OK
    print(_difference(file, text, written))
    if not arguments.yes and not _agreed(file):
        print("nothing was changed", file=sys.stderr)
        return Exit.BAD_INPUT
    try:
        _write(file, written)
    except OSError as error:
        print(f"{file}: {error}; nothing was changed", file=sys.stderr)
        return Exit.BAD_INPUT
    print(f"{file}: written; {DONE[arguments.undo]} it from Claude Code's next session on")
    if not arguments.undo:
        _compile()
        print("take it out again with: loopguard install claude-code --undo")
    return Exit.OK


def _compile() -> None:
    """Bytecode for the package, so that the first hook is as fast as the others; without it hooks only start slower."""
    import compileall

    compileall.compile_dir(str(PACKAGE), quiet=2)


def _usable(config: str) -> bool:
    """Whether the hooks could use these settings: better told now than in every session."""
    from ..config_file import load_settings
    from ..errors import SettingsError

    try:
        load_settings(config)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return False
    return True


def _user_settings() -> Path:
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path.home() / ".claude") / "settings.json"


def _hooks(config: str | None) -> dict[str, list[dict[str, Any]]]:
    """The settings block: one command for every event."""
    from ..hosts._claude import EVENTS

    command = hook_command()
    if config is not None:
        command += f" --config {shlex.quote(str(Path(config).resolve()))}"
    hook = {"type": "command", "command": command, "timeout": SECONDS}
    return {event: [{"hooks": [dict(hook)]}] for event in EVENTS}


def hook_command() -> str:
    """The hook of this very installation, whatever the PATH of Claude Code is, by its fastest start."""
    start = PACKAGE / "hosts" / "_claude_start.py"
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(start))} --as {MARK}"


def _merged(settings: object, hooks: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The settings with these hooks of ours and no others; ValueError for what Claude Code would not take either."""
    if not isinstance(settings, dict):
        raise ValueError("not a JSON object")
    theirs = settings.get("hooks", {})
    if not isinstance(theirs, dict) or not all(isinstance(matchers, list) for matchers in theirs.values()):
        raise ValueError("hooks is not an object of lists")
    merged = {event: kept for event, matchers in theirs.items() if (kept := _without_ours(matchers)) or not matchers}
    for event, matchers in hooks.items():
        merged[event] = [*merged.get(event, ()), *matchers]
    new = {key: value for key, value in settings.items() if key != "hooks" or merged or not theirs}
    if merged:
        new["hooks"] = merged
    return new


def _without_ours(matchers: list[Any]) -> list[Any]:
    kept = []
    for matcher in matchers:
        hooks = matcher.get("hooks") if isinstance(matcher, dict) else None
        if isinstance(hooks, list) and any(_is_ours(hook) for hook in hooks):
            others = [hook for hook in hooks if not _is_ours(hook)]
            if others:
                kept.append({**matcher, "hooks": others})
        else:
            kept.append(matcher)
    return kept


def _is_ours(hook: object) -> bool:
    return isinstance(hook, dict) and MARK in str(hook.get("command", ""))


def _difference(file: Path, old: str, new: str) -> str:
    import difflib

    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), str(file), str(file), lineterm=""))


def _agreed(file: Path) -> bool:
    if not sys.stdin.isatty():
        print("--yes makes the change without asking", file=sys.stderr)
        return False
    try:
        return input(f"Write this to {file}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _write(file: Path, text: str) -> None:
    """All of it or nothing; the file keeps its rights."""
    import tempfile

    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(name, file.stat().st_mode & 0o7777 if file.exists() else 0o600)
        os.replace(name, file)
    except OSError:
        os.unlink(name)
        raise
