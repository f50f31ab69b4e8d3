"""The recommended settings as JSON5, to paste into the gateway's file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from glob import escape


def block(
    shared: Mapping[str, object],
    tools: Mapping[str, Mapping[str, object]],
    agent: str | None,
    own: Mapping[str, object] | None = None,
    told: Mapping[tuple[str, ...], str] | None = None,
) -> list[str]:
    """The settings as JSON5 to paste: for one agent where one is named, else for all.

    ``shared``: of ``tools.loopDetection``; ``own`` and ``tools``: loopguard's own. ``told``: a comment for a line, by
    its place: ``("loopDetection", key)``, ``("own", key)``, ``("own", key, inner)`` or ``("tools", tool)``.
    """
    comments = told or {}
    detection = {"enabled": True, **shared}
    lines = [_line(key, value, comments.get(("loopDetection", key))) for key, value in detection.items()]
    where = ["tools", "loopDetection"]
    ours = ["plugins", "entries", "loopguard", "config"]
    if agent:
        where = ["agents", "entries", agent, *where]
        ours = [*ours, "agents", agent]
    inside: list[str] = []
    for key, value in (own or {}).items():
        if isinstance(value, Mapping):
            settings = [_line(name, one, comments.get(("own", key, name))) for name, one in value.items()]
            inside += _nested([key], settings, depth=0)
        else:
            inside.append(_line(key, value, comments.get(("own", key))))
    if tools:
        policies = [
            _commented(f"{_key(escape(tool))}: {{ {_pairs(given)} }},", comments.get(("tools", tool)))
            for tool, given in tools.items()
        ]
        inside += _nested(["tools"], policies, depth=0)
    return ["{", *_nested(where, lines), *(_nested(ours, inside) if inside else ()), "}"]


def _line(key: str, value: object, comment: str | None) -> str:
    return _commented(f"{_key(key)}: {json.dumps(value)},", comment)


def _commented(line: str, comment: str | None) -> str:
    return f"{line} // {comment}" if comment else line


def _pairs(given: Mapping[str, object]) -> str:
    return ", ".join(f"{key}: {json.dumps(value)}" for key, value in given.items())


def _nested(path: Sequence[str], lines: Sequence[str], depth: int = 1) -> list[str]:
    """The lines inside objects by these names, indented from this depth on."""
    opened = [f"{'  ' * (depth + at)}{_key(name)}: {{" for at, name in enumerate(path)]
    closed = [f"{'  ' * (depth + at)}}}," for at in reversed(range(len(path)))]
    return [*opened, *(f"{'  ' * (depth + len(path))}{line}" for line in lines), *closed]


def _key(name: str) -> str:
    """A key of an object: bare where it may be, else quoted."""
    return name if name.isidentifier() and name.isascii() else json.dumps(name)
