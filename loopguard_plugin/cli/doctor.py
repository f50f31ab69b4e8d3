"""``loopguard doctor``: whether what is installed is alive, for hosts that would lose the guard in silence.

Claude Code goes on as without a hook whose command cannot be started: the interpreter of a removed virtual environment,
say. So each command that is installed is run here with an event of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..printable import printable
from . import claude_settings
from .commands import Commands
from .exits import Exit

PATIENCE: Final = 30.0  # seconds; what the installed hooks are given, too
_PROBE: Final = {"session_id": "loopguard doctor", "hook_event_name": "UserPromptSubmit", "prompt": "is it alive?"}
_LONGEST_ANSWER: Final = 300


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "doctor",
        help="say whether what is installed is alive",
        description="Look for loopguard in Claude Code's settings (the user's, and those of the project in this "
        "directory), run each command found there, and say whether it answers. Exit 1 where something is installed and "
        "does not.",
    )
    parser.add_argument("--settings", metavar="FILE", help="look at this settings file of Claude Code alone")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Look at every file; say what is there."""
    files = [Path(arguments.settings)] if arguments.settings else list(_settings_files())
    found = dead = 0
    for file in files:
        for command, problems, remarks in _looked_at(file):
            found += 1
            dead += bool(problems)
            print(f"claude-code  {printable(str(file))}: {'DEAD' if problems else 'alive'}")
            print(f"  command: {printable(command)}")
            for line in (*problems, *remarks):
                print(f"  {printable(line)}")
    if not found:
        print(f"claude-code  not installed ({', '.join(printable(str(file)) for file in files)})")
    return Exit.BAD_INPUT if dead else Exit.OK


def _settings_files() -> Iterator[Path]:
    yield claude_settings.user_settings()
    for name in ("settings.json", "settings.local.json"):
        yield Path(".claude", name)


def _looked_at(file: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each command of ours in a file, what is wrong with it, and what is worth knowing."""
    from . import files

    try:
        data = files.read(file)
        if data is None:
            return
        text = data.decode("utf-8").removeprefix("\ufeff")
        settings = claude_settings.checked(text or "{}")
    except (OSError, ValueError) as error:
        yield "(unknown)", [f"the file cannot be used: {files.why(error)}"], []
        return
    events: dict[str, set[str]] = {}
    for entry in claude_settings.entries(text) if settings else ():
        events.setdefault(entry.command, set()).add(entry.event)
    for command, of in events.items():
        yield command, list(_problems(command, of, settings)), list(_remarks(command, settings, len(events)))


def _problems(command: str, events: set[str], settings: Mapping[str, Any]) -> Iterator[str]:
    again = "loopguard install claude-code writes the command anew"
    if settings.get("disableAllHooks") is True:
        yield "disableAllHooks is true in this file: Claude Code runs no hook at all"
    missing = [event for event in claude_settings.wanted_hooks(None) if event not in events]
    if missing:
        yield f"no hook for {', '.join(missing)}: {again}"
    parts = claude_settings.parsed_command(command)
    if parts is None:
        return
    gone = [path for path in (parts.python, parts.start) if not os.path.exists(path)]
    if gone:
        yield from (f"{path} is gone: {again}" for path in gone)
        return
    from ..hosts._claude_state import directory

    if os.path.exists(directory()) and not os.access(directory(), os.W_OK | os.X_OK):
        yield f"{directory()} cannot be written to: the hook could remember nothing"
    yield from _run(command)


def _run(command: str) -> Iterator[str]:
    """What is wrong with the answer to an event; it is kept out of the real state."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = subprocess.run(
                command,
                shell=True,  # as Claude Code runs it
                input=json.dumps(_PROBE),
                env={**os.environ, "LOOPGUARD_STATE_DIR": folder},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            yield f"it does not answer within {PATIENCE:g} seconds"
            return
    if told.returncode:
        yield f"it exits with {told.returncode}: {_shortly(told.stderr)}"
    elif told.stdout.strip():
        yield f"it answers: {_shortly(_message(told.stdout))}"
    elif told.stderr.strip():
        yield f"it says: {_shortly(told.stderr)}"


def _message(text: str) -> str:
    try:
        answer = json.loads(text)
    except ValueError:
        return text
    return str(answer.get("systemMessage", text)) if isinstance(answer, dict) else text


def _shortly(text: str) -> str:
    lines = text.strip().splitlines() or ["nothing on standard error"]
    return lines[-1][:_LONGEST_ANSWER]


def _remarks(command: str, settings: Mapping[str, Any], commands: int) -> Iterator[str]:
    parts = claude_settings.parsed_command(command)
    config = (parts.config if parts is not None else None) or os.environ.get("LOOPGUARD_CONFIG") or None
    yield f"settings: {config or 'the defaults'}{_switched(config)}"
    yield f"last event: {_last_event()}"
    if commands > 1 or claude_settings.foreign_commands(settings):
        yield "other commands start loopguard, too: each call counts more than once"


def _switched(config: str | None) -> str:
    if config is None:
        return ""
    from ..config_file import load_settings
    from ..errors import SettingsError

    try:
        settings = load_settings(config)
    except SettingsError:
        return ""  # told by the hook itself
    return "" if settings.plugin_enabled else " (plugins.entries.loopguard.enabled is false: every event passes)"


def _last_event() -> str:
    """When the hook last wrote the state of a session that is not over."""
    from ..hosts._claude_state import directory

    folder = directory()
    try:
        times = [file.stat(follow_symlinks=False).st_mtime for file in os.scandir(folder)]
    except OSError:
        times = []
    if not times:
        return f"none of an open session ({folder})"
    seconds = max(0, int(time.time() - max(times)))
    for unit, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit:
            count = seconds // unit
            return f"{count} {name}{'' if count == 1 else 's'} ago ({folder})"
    return f"less than a minute ago ({folder})"
