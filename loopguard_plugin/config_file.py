"""A gateway's JSON5 config file, or its text, to settings; errors with file, line and column (SPEC 11).

Of a key that stands twice in one object the last one counts, as everywhere in JSON: the reader shows no other.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

import pyjson5

from .errors import Problem, SettingsError
from .settings import Settings, parse_settings

# Deep enough for any config, and shallow enough for the reader's recursion.
MAX_DEPTH = 200

_NEAR = re.compile(r"\s*near (\d+)")
_WORDS = {
    "b'JSON5Value'": "a value",
    "b'IdentifierStart'": "a key",
    "b'hexadecimal character'": "a hexadecimal digit",
    "b'comma'": "a comma",
    "b'colon'": "a colon",
}
_UNCLOSED = {
    "object": "the text ends inside the object that starts here",
    "array": "the text ends inside the list that starts here",
    "string": "the string that starts here does not end on its line",
    "comment": "the comment that starts here is never closed",
    "NumericLiteral": "not a number",
}
_STRAY = {b"comma": ",", b"slash": "/", b"colon": ":"}


class Place(NamedTuple):
    """A place in a text; both count from 1, columns in characters."""

    line: int
    column: int


def load_settings(path: str | os.PathLike[str]) -> Settings:
    """The settings in a JSON5 file (UTF-8, with or without byte order mark).

    Raises :class:`SettingsError`, with ``file`` set, also where the file cannot be read; nothing else.
    """
    return load_config_bytes(read_config(path), os.fspath(path))


def read_config(path: str | os.PathLike[str], *, wait: bool = True) -> bytes:
    """The contents of a file. Raises :class:`SettingsError` where it cannot be read; nothing else.

    ``wait=False``: nobody is waited for who should write into a pipe; what is not a plain file is refused.
    """
    try:
        # pathlib alone would take longer to load than all else here
        with open(os.fspath(path), "rb", opener=None if wait else _without_waiting) as file:
            if not (wait or stat.S_ISREG(os.fstat(file.fileno()).st_mode)):
                raise OSError(0, "not a plain file")
            return file.read()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
        raise SettingsError((Problem("", f"cannot be read: {reason}"),), os.fspath(path)) from error


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def load_config_bytes(data: bytes, file: str | None = None) -> Settings:
    """The settings in the contents of a file; ``file`` is only for errors. Raises :class:`SettingsError`, no other."""
    return _parsed(decode_config(data, file), file)


def load_config_text(text: str, file: str | None = None) -> Settings:
    """The settings in a text of JSON5; ``file`` is only for errors. Raises :class:`SettingsError`, nothing else."""
    return _parsed(_decoded(text, file), file)


def decode_config(data: bytes, file: str | None = None) -> object:
    """What the contents of a file say, whoever's it is. Raises :class:`SettingsError` where they are not JSON5."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode("utf-8", "replace"), len(data))
        raise SettingsError((Problem("", "not UTF-8 text", line=line, column=column),), file) from error
    return _decoded(text, file)


def _decoded(text: str, file: str | None) -> object:
    text = text.removeprefix("\ufeff")
    try:
        decoded: object = pyjson5.decode(text, maxdepth=MAX_DEPTH)
    except pyjson5.Json5DecoderException as error:
        # The reader's own error is not chained: it carries all that was read so far, secrets of others included.
        raise SettingsError((_problem(text, error.args),), file) from None
    except (ValueError, TypeError, OverflowError, RecursionError, UnicodeError) as error:
        raise SettingsError((Problem("", f"not JSON5: {type(error).__name__}"),), file) from None
    return decoded


def _parsed(decoded: object, file: str | None) -> Settings:
    try:
        return parse_settings(decoded)
    except SettingsError as error:
        raise SettingsError(error.problems, file) from None


def _problem(text: str, args: tuple[object, ...]) -> Problem:
    """What is wrong with the text, from the arguments of the reader's exception: (message, read so far, culprit)."""
    message = str(args[0]) if args else ""
    culprit = args[2] if len(args) > 2 else None
    near = _NEAR.search(message)
    offset = max(int(near.group(1)) - 1, 0) if near else 0
    if message.startswith("Extra data"):  # counted to the end of what was read before
        offset += 1
    line, column = _place(text, _exact(text, offset, culprit))
    return Problem("", f"not JSON5: {_worded(message)}", line=line, column=column)


def _exact(text: str, offset: int, culprit: object) -> int:
    """Where the culprit stands: the reader counts to the token that it is in, or just past it."""
    if isinstance(culprit, bytes):
        return max(text.rfind(_STRAY.get(culprit, "\0"), 0, offset + 1), 0) or offset
    found = text.find(culprit, offset) if isinstance(culprit, str) and culprit else -1
    return offset if found < 0 else found


def _worded(message: str) -> str:
    """The reader's message in words: ``Expected b'comma' or U+007d near 6, found U+0062``."""
    for name, meaning in _UNCLOSED.items():
        if message.startswith(f"Unclosed b'{name}'"):
            return meaning
    if message.startswith("Maximum nesting level"):
        return f"nested deeper than {MAX_DEPTH} levels"
    if message.startswith("No JSON data"):
        return "no value in it"
    message = (
        _NEAR.sub("", message).replace("Stray b'comma'", "a comma too many").replace("Stray b'slash'", "a stray slash")
    )
    for name, meaning in _WORDS.items():
        message = message.replace(name, meaning)
    message = re.sub(r"U\+([0-9A-Fa-f]{4,6})", lambda found: _character(int(found.group(1), 16)), message)
    return message[:1].lower() + message[1:]


def _character(code: int) -> str:
    character = chr(code) if code < 0x110000 else ""
    return f"`{character}`" if character.isprintable() and character else f"U+{code:04X}"


def _place(text: str, offset: int) -> Place:
    lines = re.split(r"\r\n|\r|\n", text[:offset])
    return Place(len(lines), len(lines[-1]) + 1)
