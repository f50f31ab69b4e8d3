"""``loopguard config``: one setting in a gateway's file shown, set or reset, in place and with its comments kept.

*reset* removes the key, *set … false* writes false: for ``tools.loopDetection.enabled`` these are two states (SPEC 14).
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Final

from ..printable import printable
from .commands import Commands
from .exits import Exit

if TYPE_CHECKING:
    from ..settings import Settings
    from .config_paths import Steps

_UNSET: Final = "unset"


def add(commands: Commands) -> None:
    """Register the command with its three actions."""
    parser = commands.add_parser(
        "config",
        help="show, set or reset one setting in a config file",
        description="Show, set or reset one setting in a gateway's JSON5 file. The file is edited in place; comments "
        "and formatting stay. Nothing is written that check-config would refuse.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    about = {
        "get": "print the value that is set, or 'unset'",
        "set": "write a value; false is a value",
        "reset": "remove the key, so that the default holds (which is not the same as false)",
    }
    for name, text in about.items():
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        action.add_argument("path", metavar="PATH", help="for example tools.loopDetection.enabled")
        if name == "set":
            action.add_argument("value", metavar="VALUE", help='JSON5 (true, 12, ["a"], {…}) or a plain word')
        action.add_argument("--file", metavar="FILE", required=True, help="the gateway's JSON5 config file")
        action.set_defaults(run=run, action=name)


def run(arguments: argparse.Namespace) -> int:
    """Do it; every error goes to stderr, and then the file is as it was."""
    from ..errors import SettingsError
    from .config_paths import former_path, is_setting, nearest_path, parse_path, shown_path

    try:
        steps = parse_path(arguments.path)
    except ValueError as error:
        print(error, file=sys.stderr)
        return Exit.BAD_USAGE
    if not is_setting(steps):
        former, nearest = former_path(steps), nearest_path(steps)
        hint = f" any more, replaced by {former}" if former else f" (did you mean {nearest}?)" if nearest else ""
        print(printable(f"{shown_path(steps)}: not a setting of loopguard{hint}"), file=sys.stderr)
        return Exit.BAD_USAGE
    try:
        if arguments.action == "get":
            return _get(arguments.file, steps)
        return _edit(arguments.file, steps, arguments.value if arguments.action == "set" else None)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return Exit.BAD_USAGE
    except OSError as error:
        why = error.strerror or type(error).__name__
        print(f"{printable(arguments.file)}: cannot be written: {why}", file=sys.stderr)
        return Exit.BAD_INPUT


def _get(file: str, steps: Steps) -> int:
    from ..config_file import decode_config, load_config_bytes, read_config
    from ..errors import SettingsError
    from .config_paths import default_of

    data = read_config(file)
    unread = load_config_bytes(data, file).unread
    if unread:
        print(SettingsError(unread, file), file=sys.stderr)
    value = _found(decode_config(data, file), steps)
    if value is None:
        default = default_of(steps)
        print(_UNSET)
        if default is not None:
            print(printable(f"the default is {_shown(default)}"), file=sys.stderr)
        return Exit.OK
    text = json.dumps(value, ensure_ascii=False, indent=2)
    print(text if text.replace("\n", "").isprintable() else json.dumps(value, indent=2))
    return Exit.OK


def _edit(file: str, steps: Steps, value: str | None) -> int:
    """Set (``value`` None: reset), say what changed, and which guards are on now."""
    try:
        from .config_edit import EditError, with_value, without_value
    except ModuleNotFoundError as missing:
        print(f"editing needs {missing.name}: pip install 'loopguard-plugin[cli]'", file=sys.stderr)
        return Exit.BAD_USAGE
    from ..config_file import decode_config, load_config_bytes, read_config
    from ..errors import SettingsError
    from .config_paths import shown_path
    from .files import replace

    data = read_config(file)
    before = decode_config(data, file)
    text = data.decode("utf-8")
    try:
        new = (without_value(text, steps) if value is None else with_value(text, steps, value)).encode("utf-8")
    except EditError as error:
        print(printable(f"{file}: {error}"), file=sys.stderr)
        return Exit.BAD_USAGE
    settings = load_config_bytes(new, file)
    if settings.unread:
        raise SettingsError(settings.unread, file)
    after = decode_config(new, file)
    if repr(_without(before, steps)) != repr(_without(after, steps)):  # by their text: NaN is not equal to itself
        why = "cannot be edited without changing other parts of it; nothing was written"
        print(f"{printable(file)}: {why}", file=sys.stderr)
        return Exit.BAD_USAGE
    if new != data:
        replace(file, data, new)
    was, now = _found(before, steps), _found(after, steps)
    change = f"{_shown(was)} → {_shown(now)}" if new != data else f"{_shown(now)} already"
    print(printable(f"{shown_path(steps)}: {change}"))
    _report(settings, steps)
    return Exit.OK


def _found(value: object, steps: Steps) -> object:
    """What stands at a path; None where nothing does."""
    for step in steps:
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            return None
    return value


def _without(value: object, steps: Steps) -> object:
    """All of a config but what stands at a path; objects on the way that hold nothing else are as good as absent."""
    if not steps:
        return None
    first, *rest = steps
    if isinstance(value, list):
        return [_without(item, tuple(rest)) if place == first else item for place, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    inner = _without(value.get(first), tuple(rest))
    others = {key: item for key, item in value.items() if key != first}
    return {**others, first: inner} if inner else others


def _report(settings: Settings, steps: Steps) -> None:
    """Which guards are on now, for whom the path speaks, and what is worth knowing of the settings."""
    from .check_config import concerns, guards, whom

    agent = _agent(settings, steps)
    print(printable(f"guards for {whom(settings, agent)}"))
    for line in (*guards(settings, agent), *concerns(settings)):
        print(printable(line))


def _agent(settings: Settings, steps: Steps) -> str | None:
    """The agent whose own setting a path names."""
    for own in (("agents", "entries"), ("plugins", "entries", "loopguard", "config", "agents")):
        if steps[: len(own)] == own and len(steps) > len(own):
            return str(steps[len(own)]).strip()
    listed = settings.agents.listed if settings.agents else None
    if steps[:2] == ("agents", "list") and len(steps) > 2 and isinstance(steps[2], int) and listed:
        entry = listed[steps[2]] if steps[2] < len(listed) else None
        return str(entry.id).strip() if entry is not None else None
    return None


def _shown(value: object) -> str:
    return _UNSET if value is None else json.dumps(value, ensure_ascii=False)
