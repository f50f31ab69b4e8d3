"""How settings are named to people: the path of a key, and a value as a config file would write it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

_PLAIN_KEY: Final = r"[\w-]+"
_LONGEST_SHOWN: Final = 60


def at(path: str, key: object) -> str:
    """The path one step further: ``path.name``, or ``path["notify_*"]`` where a bare name would mislead."""
    if isinstance(key, str) and len(key) <= _LONGEST_SHOWN and re.fullmatch(_PLAIN_KEY, key):
        return f"{path}.{key}" if path else key
    return f"{path}[{shown(key, bare=True)}]"


def shown(value: object, *, bare: bool = False) -> str:
    """A value as a config file would write it, shortened, with its type unless that is plain to see (or ``bare``)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        text = _short(repr(value)) if isinstance(value, float) or abs(value) < 10**30 else "a number beyond all use"
        return text if bare else f"{text} (number)"
    if isinstance(value, str):
        text = _short(json.dumps(value[: _LONGEST_SHOWN + 1], ensure_ascii=not value.isprintable()))
        return text if bare else f"{text} (string)"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, (list, tuple)) else f"a {type(value).__name__}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
