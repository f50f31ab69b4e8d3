"""JSON values that come from outside: read leniently, looked at without trusting their shape."""

from __future__ import annotations

from typing import TypeAlias

from ..json_text import read_line

Object: TypeAlias = dict[str, object]

_MOST_LOOKED_AT = 2000


def json_values(line: bytes) -> tuple[list[object], str | None]:
    """Every JSON value of one line, and what is wrong with the rest of it (None: nothing).

    :func:`loopguard_plugin.json_text.read_line` says what is read. A line of NUL bytes, which a crash leaves in a
    file, is no blank one.
    """
    values, problem = read_line(line)
    if not values and problem is None and b"\0" in line:
        return [], f"{line.count(0)} NUL bytes and nothing else"
    return values, problem


def json_text(text: str) -> object:
    """The value of a JSON text that was found inside another (call arguments), or the text itself if it is none."""
    values, problem = read_line(text)
    return values[0] if problem is None and len(values) == 1 else text


def kind(value: object) -> str:
    """What a JSON value is called in a message."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def as_object(value: object) -> Object:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text_of(owner: Object, *names: str) -> str:
    """The first of these fields that is a string and not blank, else the empty string."""
    for name in names:
        value = owner.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def said_text(content: object) -> str:
    """The text of a message's content: a string, or its text blocks joined by newlines."""
    if isinstance(content, str):
        return content
    blocks = [as_object(block) for block in as_list(content)]
    return "\n".join(text for block in blocks if isinstance(text := block.get("text"), str))


def inner(value: object, *names: str) -> list[Object]:
    """The objects to tell a format by: a line itself, the first ones of a list, and those in lists of these names."""
    found: list[Object] = []
    for holder in value[:_MOST_LOOKED_AT] if isinstance(value, list) else [value]:
        if isinstance(holder, dict):
            found.append(holder)
            for name in names:
                found += [one for one in as_list(holder.get(name))[:_MOST_LOOKED_AT] if isinstance(one, dict)]
        if len(found) > _MOST_LOOKED_AT:
            break
    return found


def blocks_of(content: object, *kinds: str) -> list[Object]:
    """The blocks of a message's content that are of these types."""
    return [one for one in map(as_object, as_list(content)) if one.get("type") in kinds]
