"""One value of a JSON5 text set or removed, with every comment and all other formatting kept.

json-five reads the text into a model that holds its white space and comments, and writes it back unchanged but for the
edit. In that model what stands before a key belongs to the key, what follows the last value to that value, or to the
trailing comma where there is one; the first key's belongs to the object (``leading_wsc``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import pyjson5
from json5.dumper import ModelDumper
from json5.loader import ModelLoader, loads
from json5.model import (
    Comment,
    DoubleQuotedString,
    Identifier,
    JSONArray,
    JSONObject,
    JSONText,
    Key,
    KeyValuePair,
    Node,
    NullLiteral,
    String,
    TrailingComma,
    Value,
)
from json5.utils import JSON5DecodeError

from .config_paths import Steps, shown_path

# White space and comments, in order.
Space: TypeAlias = list[str | Comment]
N = TypeVar("N", bound=Node)

_LAST_LINE = re.compile(r"[^\r\n]*\Z")
_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


class EditError(Exception):
    """The text cannot be edited in this way; says why."""


def with_value(text: str, steps: Steps, value: str) -> str:
    """The text with ``value`` at that path: JSON5, or else a plain word that stands for itself as a string.

    Objects on the way that are missing are made. Raises :class:`EditError`.
    """
    root = _model(text)
    new = _value(value)
    holder, rest = _deepest(root.value, steps)
    for step in reversed(rest[1:]):
        new = JSONObject(_pair(root.value, step, new, " "), leading_wsc=[" "])
        new.values[-1].wsc_after = [" "]
    place = _place(holder, rest[0])
    if place is None:
        if not isinstance(holder, JSONObject):
            raise EditError(f"{shown_path(steps)}: there is no such place in that list")
        _append(root.value, holder, rest[0], new, "\r\n" if "\r\n" in text else "\n")
    else:
        old = holder.values[place]
        new.wsc_before, new.wsc_after = old.wsc_before, old.wsc_after
        holder.values[place] = new
    return _text(root)


def without_value(text: str, steps: Steps) -> str:
    """The text without the key at that path, also where it stands there twice; its comments stay.

    Raises :class:`EditError`.
    """
    root = _model(text)
    holder, rest = _deepest(root.value, steps)
    if len(rest) == 1 and isinstance(holder, JSONObject):
        while (place := _place(holder, rest[0])) is not None:
            _remove(holder, place)
    elif len(rest) == 1 and _place(holder, rest[0]) is not None:
        raise EditError(f"{shown_path(steps)}: one place of a list cannot be reset; set the whole list")
    return _text(root)


def _model(text: str) -> JSONText:
    """Raises :class:`EditError` where json-five cannot read the text, or would not write it back as it is."""
    try:
        root = loads(text, loader=ModelLoader())
    except (JSON5DecodeError, RecursionError, ValueError, TypeError, AssertionError) as error:
        raise EditError("cannot be edited with its comments kept: json-five does not read it") from error
    if not isinstance(root, JSONText) or _text(root) != text:
        raise EditError("cannot be edited with its comments kept: json-five would change other parts of it")
    return root


def _text(root: JSONText) -> str:
    dumper = ModelDumper()
    dumper.dump(root)
    dumper.env.outfile.seek(0)
    return dumper.env.outfile.read()


def _value(text: str) -> Value:
    try:
        pyjson5.decode(text)
        value = loads(text, loader=ModelLoader()).value
    except (pyjson5.Json5DecoderException, JSON5DecodeError):
        return DoubleQuotedString(text, json.dumps(text, ensure_ascii=False))
    assert isinstance(value, Value)
    value.wsc_before, value.wsc_after = [], []
    return value


def _deepest(value: Value, steps: Steps) -> tuple[JSONObject | JSONArray, Steps]:
    """How far the text goes along a path: the innermost object or list on it, and the steps from there on."""
    holder, at = _holder(value, steps[:0]), 0
    while at < len(steps) - 1:
        place = _place(holder, steps[at])
        if place is None or isinstance(holder.values[place], NullLiteral):
            break
        at += 1
        holder = _holder(holder.values[place], steps[:at])
    return holder, steps[at:]


def _holder(value: Value, path: Steps) -> JSONObject | JSONArray:
    if not isinstance(value, (JSONObject, JSONArray)):
        raise EditError(f"{shown_path(path)}: neither an object nor a list")
    return value


def _place(holder: JSONObject | JSONArray, step: str | int) -> int | None:
    """Where a key stands; of one that stands twice the last, which is the one that counts."""
    if isinstance(holder, JSONArray):
        return step if isinstance(step, int) and step < len(holder.values) else None
    places = [place for place, key in enumerate(holder.keys) if _name(key) == step]
    return places[-1] if places else None


def _name(key: Key) -> str:
    return key.characters if isinstance(key, String) else key.name if isinstance(key, Identifier) else ""


def _pair(root: Value, step: str | int, value: Value, between: str) -> KeyValuePair:
    """A new key, quoted where it has to be or where the file quotes its own."""
    name = str(step)
    quotes = isinstance(root, JSONObject) and bool(root.keys) and all(isinstance(key, String) for key in root.keys)
    if quotes or not _BARE_KEY.fullmatch(name):
        key: Key = DoubleQuotedString(name, json.dumps(name, ensure_ascii=False))
    else:
        key = Identifier(name)
    value.wsc_before = [between]
    return KeyValuePair(key, value)


def _append(root: Value, holder: JSONObject, step: str | int, value: Value, newline: str) -> None:
    """A new pair after the others, on a line of its own where they have one."""
    key, value = _pair(root, step, value, " ")
    if holder.trailing_comma is not None:
        holder.values[-1].wsc_after += holder.trailing_comma.wsc_before
        end, holder.trailing_comma.wsc_before = holder.trailing_comma.wsc_after, []
    elif holder.keys:
        end, holder.values[-1].wsc_after = holder.values[-1].wsc_after, []
    else:
        end, holder.leading_wsc = holder.leading_wsc, []
    head, closing = (end[:-1], end[-1:]) if end and isinstance(end[-1], str) else (end, [])
    lines = any(_breaks(space) for space in (holder.leading_wsc, end, *(one.wsc_before for one in holder.keys)))
    indent = _indent(holder, closing)
    if not holder.keys and lines and isinstance(root, JSONObject) and root.trailing_comma is not None:
        holder.trailing_comma = TrailingComma()
    before: Space = [*head, f"{newline}{indent}" if lines else " "]
    if holder.keys:
        key.wsc_before = before
    else:
        holder.leading_wsc = before
    if holder.trailing_comma is not None:
        holder.trailing_comma.wsc_after = closing
    else:
        value.wsc_after = closing or [" "]
    holder.keys.append(key)
    holder.values.append(value)


def _indent(holder: JSONObject, closing: Space) -> str:
    """The white space before the keys of an object; in an empty one, two columns more than before its brace."""
    before = holder.leading_wsc if len(holder.keys) == 1 else holder.keys[-1].wsc_before if holder.keys else []
    last = before[-1] if before else None
    if isinstance(last, str) and _breaks(before):
        return re.split(r"[\r\n]", last)[-1]
    own = closing[-1] if closing and isinstance(closing[-1], str) else ""
    return re.split(r"[\r\n]", own)[-1] + "  "


def _remove(holder: JSONObject, place: int) -> None:
    """Take one pair out; the comments around it stay where they were, on lines of their own if need be."""
    key, value = holder.keys.pop(place), holder.values.pop(place)
    inside = [*key.wsc_after, *value.wsc_before]
    before = holder.leading_wsc if place == 0 else key.wsc_before
    kept = _joined(before, inside, value.wsc_after)
    if place < len(holder.keys):
        kept = _joined(kept, holder.keys[place].wsc_before)
        if place > 0:
            holder.keys[place].wsc_before = kept
        else:
            holder.leading_wsc, holder.keys[0].wsc_before = kept, []
        return
    comma, holder.trailing_comma = holder.trailing_comma, None
    if comma is not None:
        kept = _joined(kept, comma.wsc_before, comma.wsc_after)
    if place == 0:
        holder.leading_wsc = kept if any(isinstance(part, Comment) for part in kept) else []
    elif comma is not None:
        comma.wsc_before, comma.wsc_after = [], kept
        holder.trailing_comma = comma
    else:
        holder.values[-1].wsc_after = _joined(holder.values[-1].wsc_after, kept)


def _joined(*spaces: Sequence[str | Comment]) -> Space:
    """One after the other. Of two stretches of white space that meet, the line breaks of the longer are enough."""
    found: Space = []
    for part in (part for space in spaces for part in space):
        last = found[-1] if found else None
        if not isinstance(part, str) or not isinstance(last, str):
            found.append(part)
        elif not _breaks([last]):
            found[-1] = part
        elif _breaks([part]):
            longer = last if last.count("\n") > part.count("\n") else part
            found[-1] = _LAST_LINE.sub("", longer) + re.split(r"[\r\n]", part)[-1]
    return found


def _breaks(space: Sequence[str | Comment]) -> bool:
    return any(isinstance(part, str) and ("\n" in part or "\r" in part) for part in space)
