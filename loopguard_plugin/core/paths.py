"""Which parts of arguments and results count, where an operator says so (``identity`` and ``ignoreResult``).

A path is a tuple of keys. It leads through objects, and through each element of a list on its way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

Path: TypeAlias = tuple[str, ...]


def only(args: object, paths: Iterable[Path]) -> object:
    """The parts of a call's arguments that identify it; arguments that are no object count in full.

    A part that is absent differs from one that is null.
    """
    if not isinstance(args, dict):
        return args
    kept: dict[str, object] = {}
    for path in paths:
        value: object = args
        for key in path:
            if not isinstance(value, dict) or key not in value:
                break
            value = value[key]
        else:
            kept[".".join(path)] = value
    return kept


def without(result: object, paths: Iterable[Path]) -> object:
    """A result less its volatile parts, as a new value; the one that was given is not changed.

    Text that is a JSON object or list is read as such, for that is how many tools give one: alone, or as ``content``
    or a text block of it.
    """
    for path in paths:
        result = _less(result, path)
    return result


def _less(value: object, path: Path) -> object:
    if isinstance(value, str):
        read = _read(value)
        return value if read is None else msgspec.json.encode(_less(read, path), order="sorted").decode()
    if isinstance(value, list):
        return [_less(item, path) for item in value]
    if not isinstance(value, dict):
        return value
    first, *rest = path
    kept = dict(value)
    if first in kept:
        if not rest:
            del kept[first]
        elif isinstance(kept[first], (dict, list)):
            kept[first] = _less(kept[first], tuple(rest))
    for carrier in ("content", "text"):
        inner = kept.get(carrier)
        if first != carrier and isinstance(inner, (str, list)):
            kept[carrier] = _less(inner, path)
    return kept


def _read(text: str) -> object:
    """The JSON object or list that a text is; None if it is anything else."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        read: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return read
