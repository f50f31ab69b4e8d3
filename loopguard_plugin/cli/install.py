"""``loopguard install``: put loopguard into a host that is configured by a file, and take it out again."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from ..printable import printable, printable_lines
from . import claude_settings, files
from .claude_settings import PACKAGE
from .commands import Commands
from .exits import Exit

BACKUP: Final = ".before-loopguard"
DONE: Final = {False: "loopguard is in", True: "loopguard is out of"}
_BOM: Final = "\ufeff"


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "install",
        help="put loopguard into a host, or take it out again",
        description="Merge loopguard's hooks into Claude Code's settings. The change is shown, and made only after a "
        "yes; a copy of the file as it was stays beside it. Everything else in the file stays as it is, to the byte. "
        "Exit 1 if the file cannot be used or nothing was changed for want of a yes.",
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
    hooks = {} if arguments.undo else claude_settings.wanted_hooks(arguments.config)
    if arguments.show:
        print(json.dumps({"hooks": {event: [{"hooks": [hook]}] for event, hook in hooks.items()}}, indent=2))
        return Exit.OK
    if arguments.config is not None and not _usable(arguments.config):
        return Exit.BAD_USAGE
    file = Path(arguments.settings or claude_settings.user_settings()).resolve()  # a link stays one
    shown = printable(str(file))
    try:
        return _change(file, shown, hooks, arguments)
    except (OSError, ValueError) as error:
        print(f"{shown}: {printable(files.why(error))}; nothing was changed", file=sys.stderr)
        return Exit.BAD_INPUT


def _change(file: Path, shown: str, hooks: dict[str, dict[str, object]], arguments: argparse.Namespace) -> int:
    data = files.read(file)
    whole = (data or b"").decode("utf-8")
    bom = _BOM if whole.startswith(_BOM) else ""
    text = whole.removeprefix(bom)
    if not text.strip():
        text = "{}\n"
    for command in claude_settings.foreign_commands(claude_settings.checked(text)):
        print(f"{shown}: a hook that is not of loopguard's writing stays, and counts each call too if it starts "
              f"loopguard: {printable(command)}", file=sys.stderr)  # fmt: skip
    new = claude_settings.with_hooks(text, hooks)
    if new == text:
        print(f"{shown}: nothing to change, {DONE[arguments.undo]} it already")
        return Exit.OK
    print(printable_lines(_difference(str(file), whole.removeprefix(bom), new)))
    if not arguments.yes and not _agreed(shown):
        print("nothing was changed", file=sys.stderr)
        return Exit.BAD_INPUT
    file.parent.mkdir(parents=True, exist_ok=True)
    files.unchanged(file, data)
    if data is not None:
        copy = files.back_up(file, data, BACKUP)
        print(f"{printable(str(copy))}: the file as it was")
    files.replace(file, data, (bom + new).encode("utf-8"))
    print(f"{shown}: written; {DONE[arguments.undo]} it from Claude Code's next session on")
    if not arguments.undo:
        _compile()
        print("see that it is alive with: loopguard doctor")
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
        print(printable_lines(str(error)), file=sys.stderr)
        return False
    return True


def _difference(file: str, old: str, new: str) -> str:
    import difflib

    name = printable(file)
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm=""))


def _agreed(file: str) -> bool:
    if not sys.stdin.isatty():
        print("--yes makes the change without asking", file=sys.stderr)
        return False
    try:
        return input(f"Write this to {file}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
