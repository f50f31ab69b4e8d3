"""JSON values that come from outside: read leniently, looked at without trusting their shape."""

from __future__ import annotations

import json
from typing import TypeAlias

import msgspec

Object: TypeAlias = dict[str, object]

_reader = json.JSONDecoder()
_BLANK = " \t\r\n\x00"


def json_values(line: bytes) -> tuple[list[object], str | None]:
    """Every JSON value of one line, and what is wrong with the rest of it (None: nothing).

    What msgspec refuses is tried with the standard library's reader, which takes the lone surrogates and ``NaN`` that
    real tools write; bytes that are not UTF-8 are replaced. Objects glued together (``{…}{…}``, seen where two
    processes wrote one file) are taken apart.
    """
    try:
        return [msgspec.json.decode(line)], None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    text = line.decode("utf-8", "replace").rstrip()
    values: list[object] = []
    at = _skip_blank(text, 0)
    while at < len(text):
        try:
            value, at = _reader.raw_decode(text, at)
        except RecursionError:
            return values, f"column {at + 1}: nested too deeply"
        except ValueError as error:
            return values, _why(error, at)
        values.append(value)
        at = _skip_blank(text, at)
    return values, None


def json_text(text: str) -> object:
    """The value of a JSON text that was found inside another (call arguments), or the text itself if it is none."""
    values, problem = json_values(text.encode("utf-8", "surrogatepass"))
    return values[0] if problem is None and len(values) == 1 else text


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _why(error: ValueError, at: int) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"column {error.pos + 1}: not JSON: {error.msg}"
    return f"column {at + 1}: not JSON: {error}"


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
