"""JSON from outside, read the same way everywhere: events, transcripts, hooks.

Whatever is JSON is read, up to ``MAX_DEPTH`` levels of objects and lists. msgspec reads it where it can. It refuses
some JSON that tools do write, and how deep it goes depends on the interpreter and on who calls; the rest is read here:

- a lone surrogate (``"\\ud83d"``, a text that was cut inside an emoji) stays one;
- a number beyond a float (``1e309``) is infinite, as in JavaScript; ``NaN`` and ``Infinity`` are read too;
- an integer too long for ``int()`` is a ``decimal.Decimal``, which takes any number of digits in linear time;
- bytes that are not UTF-8 are replaced.
"""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec

MAX_DEPTH: Final = 1000

_LONGEST_INT: Final = 4300  # digits; what int() takes by default
_SPACE: Final = re.compile(r"[ \t\n\r]*")


class JSONError(ValueError):
    """Not JSON, or nested too deeply. ``at``: how many characters stand before the place."""

    def __init__(self, reason: str, text: str, at: int) -> None:
        line = text.count("\n", 0, at) + 1
        column = at - text.rfind("\n", 0, at)
        super().__init__(f"line {line}, column {column}: {reason}" if line > 1 else f"column {column}: {reason}")
        self.at = at


def read_json(data: bytes | str, *, deep: bool | None = None) -> object:
    """The one value of a text. Raises :class:`JSONError`, nothing else.

    ``deep``: what :func:`may_be_deep` says, where it was asked already.
    """
    value = _quickly(data, may_be_deep(data) if deep is None else deep)
    if value is not _REFUSED:
        return value
    text = _text(data)
    value, end = read_next(text, 0)
    end = _skip(text, end)
    if end < len(text):
        raise JSONError("not JSON: more after the value", text, end)
    return value


def read_line(data: bytes | str, blank: str = " \t\r\n\0") -> tuple[list[object], str | None]:
    """Every value of a line, and what is wrong with the rest of it (None: nothing).

    Objects glued together (``{…}{…}``, seen where two processes wrote one file) are taken apart. ``blank`` may stand
    between them: NUL bytes are what a crash leaves in a file.
    """
    value = _quickly(data, may_be_deep(data))
    if value is not _REFUSED:
        return [value], None
    text = _text(data).rstrip(blank)
    values: list[object] = []
    at = _past(text, 0, blank)
    while at < len(text):
        try:
            value, at = read_next(text, at)
        except JSONError as error:
            return values, str(error)
        values.append(value)
        at = _past(text, at, blank)
    return values, None


def may_be_deep(data: bytes | str) -> bool:
    """False where the text has too few brackets to be nested beyond ``MAX_DEPTH``."""
    if len(data) <= 2 * MAX_DEPTH:
        return False
    if isinstance(data, str):
        return data.count("[") + data.count("{") > MAX_DEPTH
    return data.count(b"[") + data.count(b"{") > MAX_DEPTH


_REFUSED: Final = object()


def _quickly(data: bytes | str, deep: bool) -> object:
    """The value as msgspec reads it; a mark where it does not."""
    try:
        value: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _REFUSED
    return _REFUSED if deep and _is_deep(value) else value


def _is_deep(value: object) -> bool:
    """Level by level: recursion is what has to be avoided."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        inner: list[dict[str, object] | list[object]] = []
        for holder in level:
            for item in holder.values() if isinstance(holder, dict) else holder:
                cls = item.__class__
                if cls is dict or cls is list:
                    inner.append(item)
        level = inner
        if not level:
            return False
    return True


def read_next(text: str, at: int) -> tuple[object, int]:
    """The value that begins at a place of a text, and where it ends. Raises :class:`JSONError`."""
    holders: list[dict[str, object] | list[object]] = []  # the open ones, the innermost last
    keys: list[str] = []  # of the open objects, those whose values are being read
    while True:
        at = _skip(text, at)
        first = text[at : at + 1]
        value: object
        if first in ("{", "["):
            if len(holders) == MAX_DEPTH:
                raise JSONError(f"nested more than {MAX_DEPTH} levels deep", text, at)
            new: dict[str, object] | list[object] = {} if first == "{" else []
            at = _skip(text, at + 1)
            if text[at : at + 1] != ("}" if first == "{" else "]"):
                holders.append(new)
                at = _key(text, at, keys) if first == "{" else at
                continue
            value, at = new, at + 1
        else:
            value, at = _scalar(text, at)
        while holders:
            holder = holders[-1]
            if isinstance(holder, dict):
                holder[keys.pop()] = value
            else:
                holder.append(value)
            at = _skip(text, at)
            after = text[at : at + 1]
            if after == ",":
                at = _key(text, _skip(text, at + 1), keys) if isinstance(holder, dict) else at + 1
                break
            if after != ("}" if isinstance(holder, dict) else "]"):
                raise JSONError(f"not JSON: expected a comma or the end of the {_name(holder)}", text, at)
            value = holders.pop()
            at += 1
        else:
            return value, at


def _key(text: str, at: int, keys: list[str]) -> int:
    """Take a key and its colon; where they end."""
    if text[at : at + 1] != '"':
        raise JSONError("not JSON: expected a key in double quotes", text, at)
    key, at = _scalar(text, at)
    keys.append(str(key))
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise JSONError("not JSON: expected a colon", text, at)
    return at + 1


def _scalar(text: str, at: int) -> tuple[object, int]:
    try:
        return _scalars.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise JSONError(f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}", text, error.pos) from None


def _integer(digits: str) -> object:
    if len(digits) <= _LONGEST_INT:
        try:
            return int(digits)
        except ValueError:
            pass  # the gateway has set a lower limit
    from decimal import Decimal  # hardly ever needed

    return Decimal(digits)


# Given the place of a string, a number or a word, the standard reader recurses into nothing.
_scalars: Final = json.JSONDecoder(parse_int=_integer)


def _name(holder: object) -> str:
    return "object" if isinstance(holder, dict) else "list"


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text


def _past(text: str, at: int, blank: str) -> int:
    while at < len(text) and text[at] in blank:
        at += 1
    return at


def _text(data: bytes | str) -> str:
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")
