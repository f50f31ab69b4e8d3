"""loopguard's own entries in Claude Code's settings: found, put in and taken out, and every other byte left alone.

Ours is an entry whose command is the very one that :func:`hook_command` writes, for any Python and any place of the
package. A command of somebody's own that starts the hook too, or only names it, is theirs.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..json_text import read_json
from . import json_edit
from .json_edit import Member

MARK: Final = "loopguard-hook"  # every command of ours has it, so that people find it
SECONDS: Final = 30
PACKAGE: Final = Path(__file__).parents[1]
_START: Final = ("hosts", "_claude_start.py")


class Command(NamedTuple):
    """A command of ours, taken apart. ``config``: the settings that it is given, None for the defaults."""

    python: str
    start: str
    config: str | None


class Entry(NamedTuple):
    """An entry of ours, and what it stands in: the places where each opens in the text."""

    event: str
    command: str
    hook: Member
    hooks: int  # the list of a matcher that the entry is in
    matcher: Member
    matchers: int  # the list of an event
    event_member: Member
    events: int  # the object under "hooks"
    hooks_member: Member
    root: int


def user_settings() -> Path:
    """Claude Code's settings for the user."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path.home() / ".claude") / "settings.json"


def wanted_hooks(config: str | None) -> dict[str, dict[str, Any]]:
    """The entry for each event."""
    from ..hosts._claude import EVENTS

    command = hook_command()
    if config is not None:
        command += f" --config {shlex.quote(str(Path(config).resolve()))}"
    return {event: {"type": "command", "command": command, "timeout": SECONDS} for event in EVENTS}


def hook_command() -> str:
    """The hook of this very installation, whatever the PATH of Claude Code is, by its fastest start."""
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(PACKAGE.joinpath(*_START)))} --as {MARK}"


def parsed_command(command: object) -> Command | None:
    """The parts of a command of ours; None for any other."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return None
    if len(words) not in (4, 6) or words[2:4] != ["--as", MARK] or Path(words[1]).parts[-2:] != _START:
        return None
    if words[4:5] not in ([], ["--config"]):
        return None
    return Command(words[0], words[1], words[5] if len(words) == 6 else None)


def checked(text: str) -> Mapping[str, Any]:
    """The settings. Raises ValueError for what Claude Code would not take either."""
    settings = read_json(text)
    if not isinstance(settings, dict):
        raise ValueError("not a JSON object")
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(matchers, list) for matchers in hooks.values()):
        raise ValueError("hooks is not an object of lists")
    return settings


def entries(text: str) -> Iterator[Entry]:
    """Those of ours, in order, also under a key that stands twice."""
    root = json_edit.opening(text)
    for hooks_member in json_edit.members(text, root):
        if hooks_member.key != "hooks" or not isinstance(hooks_member.value, dict):
            continue
        for event in json_edit.members(text, hooks_member.at):
            if not isinstance(event.value, list):
                continue
            for matcher in json_edit.members(text, event.at):
                for hook, at in _hooks_of(text, matcher):
                    command = hook.value.get("command")
                    if hook.value.get("type") == "command" and parsed_command(command) is not None:
                        places = (matcher, event.at, event, hooks_member.at, hooks_member, root)
                        yield Entry(str(event.key), str(command), hook, at, *places)


def foreign_commands(settings: Mapping[str, Any]) -> list[str]:
    """Commands of somebody's own that seem to start our hook: with ours beside them each call would count twice."""
    found = []
    for matchers in settings.get("hooks", {}).values():
        for matcher in matchers:
            hooks = matcher.get("hooks") if isinstance(matcher, dict) else None
            for hook in hooks if isinstance(hooks, list) else ():
                command = hook.get("command") if isinstance(hook, dict) else None
                if isinstance(command, str) and parsed_command(command) is None and _starts_ours(command):
                    found.append(command)
    return list(dict.fromkeys(found))


def with_hooks(text: str, wanted: Mapping[str, Mapping[str, Any]]) -> str:
    """The settings with one entry of ours for each event, and no others of ours."""
    kept: set[str] = set()
    done = 0
    while (entry := next(_after(text, done), None)) is not None:
        hook = wanted.get(entry.event)
        if hook is None or entry.event in kept:
            text = _without(text, entry)
            continue
        kept.add(entry.event)
        done += 1
        if entry.hook.value != hook:
            text = json_edit.replace(text, entry.hook, hook)
    for event, hook in wanted.items():
        if event not in kept:
            text = _with(text, event, {"hooks": [hook]})
    return text


def without_hooks(text: str) -> str:
    """The settings without any entry of ours."""
    return with_hooks(text, {})


def _after(text: str, count: int) -> Iterator[Entry]:
    """The entries after the first so many."""
    for place, entry in enumerate(entries(text)):
        if place >= count:
            yield entry


def _hooks_of(text: str, matcher: Member) -> Iterator[tuple[Member, int]]:
    if isinstance(matcher.value, dict):
        for member in json_edit.members(text, matcher.at):
            if member.key == "hooks" and isinstance(member.value, list):
                for hook in json_edit.members(text, member.at):
                    if isinstance(hook.value, dict):
                        yield hook, member.at


def _with(text: str, event: str, matcher: object) -> str:
    """With one matcher more; of a key that stands twice the last one counts."""
    root = json_edit.opening(text)
    hooks = json_edit.last(text, root, "hooks")
    if hooks is None:
        return json_edit.append(text, root, {event: [matcher]}, "hooks")
    matchers = json_edit.last(text, hooks.at, event)
    if matchers is None:
        return json_edit.append(text, hooks.at, [matcher], event)
    return json_edit.append(text, matchers.at, matcher)


def _without(text: str, entry: Entry) -> str:
    """Without one entry, and without what was only there for its sake."""
    if sum(1 for _ in json_edit.members(text, entry.hooks)) > 1:
        return json_edit.remove(text, entry.hooks, entry.hook.start)[0]
    text, emptied = json_edit.remove(text, entry.matchers, entry.matcher.start)
    if emptied:
        text, emptied = json_edit.remove(text, entry.events, entry.event_member.start)
    if emptied:
        text, emptied = json_edit.remove(text, entry.root, entry.hooks_member.start)
    return text


def _starts_ours(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return any(Path(word).name in (MARK, _START[1]) or word.endswith("hosts.claude_hook") for word in words)
