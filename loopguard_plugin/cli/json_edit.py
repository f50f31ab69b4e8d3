"""Members put into a JSON text and taken out again; every other byte stays as it is.

Nothing is parsed and written anew: duplicate keys, numbers that no program has a type for, and the way the text is laid
out are somebody else's. What :func:`append` adds, :func:`remove` takes away to the byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ..json_text import read_next

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NEW: Final = "  "  # trailing blanks after an opening bracket: what was empty before is not to be removed


class Member(NamedTuple):
    """One member of an object, or element of a list (``key`` None), in a text.

    It stands from ``start`` to ``end``, its value from ``at`` on.
    """

    key: str | None
    start: int
    at: int
    end: int
    value: Any  # as read from outside


def members(text: str, at: int) -> Iterator[Member]:
    """Those of the object or list that opens at a place. The text is JSON, as :func:`.json_text.read_json` says."""
    is_object = text[at] == "{"
    start = _skip(text, at + 1)
    while text[start] not in "}]":
        key = None
        value_at = start
        if is_object:
            name, end = read_next(text, start)
            key, value_at = str(name), _skip(text, _skip(text, end) + 1)
        value, end = read_next(text, value_at)
        yield Member(key, start, value_at, end, value)
        after = _skip(text, end)
        if text[after] != ",":
            return
        start = _skip(text, after + 1)


def opening(text: str) -> int:
    """Where the text's one value begins."""
    return _skip(text, 0)


def last(text: str, at: int, key: str) -> Member | None:
    """The member of that name: of several the last, which is the one that counts."""
    return next((member for member in reversed(list(members(text, at))) if member.key == key), None)


def closing(text: str, at: int) -> int:
    """Where the object or list that opens at a place closes."""
    return read_next(text, at)[1] - 1


def append(text: str, at: int, value: object, key: str | None = None) -> str:
    """The text with a member more at the end of the object or list that opens at ``at``, laid out as the others are."""
    there = list(members(text, at))
    end = closing(text, at)
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    if there:
        before = text[_end_before(text, there[-1].start) : there[-1].start]
        if "\n" not in before:
            return _put(text, there[-1].end, f",{before or ' ' if len(there) == 1 else before}{_one_line(value, key)}")
        indent = before.rpartition("\n")[2]
        shown = _laid_out(value, key, newline, indent, unit)
        return _put(text, there[-1].end, f",{newline}{indent}{shown}")
    inside = text[at + 1 : end]
    indent = _indent(text, at)
    shown = _laid_out(value, key, newline, indent + unit, unit)
    if not inside and at == opening(text):
        return _put(text, at + 1, f"{newline}{unit}{shown}{newline}")
    mark, rest = (_NEW, f"{newline}{indent}") if not inside else (" ", "")
    return _put(text, at + 1, f"{mark}{newline}{indent}{unit}{shown}{rest}")


def remove(text: str, at: int, start: int) -> tuple[str, bool]:
    """The text without the member that begins at ``start`` of what opens at ``at``.

    True besides where nothing is left in it and :func:`append` did not find it there: then it may go as well.
    """
    there = list(members(text, at))
    place = next(place for place, member in enumerate(there) if member.start == start)
    if place > 0:
        return text[: there[place - 1].end] + text[there[place].end :], False
    if len(there) > 1:
        return text[:start] + text[there[1].start :], False
    end = closing(text, at)
    before, after = text[at + 1 : start], text[there[0].end : end]
    root = at == opening(text)
    if before.startswith(_NEW):
        inside, was_there = "", True
    elif before.startswith(" ") and "\n" in before:
        inside, was_there = after, True
    else:
        inside, was_there = "", root
    return text[: at + 1] + inside + text[end:], not was_there


def replace(text: str, member: Member, value: object) -> str:
    """The text with another value in the place of a member's, laid out as the line it stands on."""
    newline = "\r\n" if "\r\n" in text else "\n"
    old = text[member.at : member.end]
    indent = _indent(text, member.at)
    new = _laid_out(value, None, newline, indent, _unit(text)) if "\n" in old else _one_line(value, None)
    return text[: member.at] + new + text[member.end :]


def _laid_out(value: object, key: str | None, newline: str, indent: str, unit: str) -> str:
    shown = json.dumps(value, indent=unit).replace("\n", newline + indent)
    return shown if key is None else f"{json.dumps(key)}: {shown}"


def _one_line(value: object, key: str | None) -> str:
    shown = json.dumps(value)
    return shown if key is None else f"{json.dumps(key)}: {shown}"


def _unit(text: str) -> str:
    """By how much a level is indented: as the text's first member is, else two blanks."""
    found = re.match(r"\s*\{[^\S\n]*\r?\n([ \t]+)\"", text.removeprefix("\ufeff"))
    return found.group(1) if found else "  "


def _indent(text: str, at: int) -> str:
    """The blanks at the beginning of the line that a place is on."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _end_before(text: str, start: int) -> int:
    """Where the comma or bracket before a member ends."""
    return len(text[:start].rstrip(" \t\r\n"))


def _put(text: str, at: int, more: str) -> str:
    return text[:at] + more + text[at:]


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text
