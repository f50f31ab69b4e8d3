"""The recommended settings as JSON5, to paste into the gateway's file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from glob import escape


def block(shared: Mapping[str, object], tools: Mapping[str, Mapping[str, object]], agent: str | None) -> list[str]:
    """The settings as JSON5 to paste: for one agent where one is named, else for all."""
    detection = {"enabled": True, **shared}
    lines = [f"{key}: {json.dumps(value)}," for key, value in detection.items()]
    where = ["tools", "loopDetection"]
    own = ["plugins", "entries", "loopguard", "config"]
    if agent:
        where = ["agents", "entries", agent, *where]
        own = [*own, "agents", agent]
    text = ["{", *_nested(where, lines)]
    if tools:
        policies = [
            f"{_key(escape(tool))}: {{ {', '.join(f'{key}: {json.dumps(value)}' for key, value in given.items())} }},"
            for tool, given in tools.items()
        ]
        text += _nested([*own, "tools"], policies)
    return [*text, "}"]


def _nested(path: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The lines inside objects by these names."""
    opened = [f"{'  ' * (depth + 1)}{_key(name)}: {{" for depth, name in enumerate(path)]
    closed = [f"{'  ' * (depth + 1)}}}," for depth in reversed(range(len(path)))]
    return [*opened, *(f"{'  ' * (len(path) + 1)}{line}" for line in lines), *closed]


def _key(name: str) -> str:
    """A key of an object: bare where it may be, else quoted."""
    return name if name.isidentifier() and name.isascii() else json.dumps(name)
