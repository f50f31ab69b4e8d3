"""Which key was meant: misspelt ones, and those that are written in the wrong one of our two places.

The settings stand under ``tools.loopDetection`` (for all agents, or in an agent's ``tools``) and under
``plugins.entries.loopguard``. All of this is about keys that we do not know; of a file that is right, these are the
gateway's own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, cast

from msgspec import Struct, inspect

from .settings_model import LoopDetection, Ours
from .settings_plugin import AgentSettings, Plugin, ToolSettings

# A path in the file, and the object that stands there.
Place: TypeAlias = tuple[str, type[Struct]]

_LOOP_DETECTION: Final = "tools.loopDetection"
_PLUGIN: Final = "plugins.entries.loopguard"
_AGENTS: Final = f"{_PLUGIN}.config.agents"
_ANY: Final = ".NAME"  # where the path does not tell the name
_STEP: Final = r'(\.[\w-]+|\["(?:[^"\\]|\\.)*"\])'
_AGENT: Final = re.compile(rf"(?:agents\.entries|{re.escape(_AGENTS)}){_STEP}")
_LONGEST: Final = 60


def folded(name: str) -> str:
    """``history_size`` and ``HistorySize`` are the same as ``historySize``."""
    return re.sub(r"[\s_-]", "", name[: _LONGEST + 1]).casefold()


def one_edit_apart(one: str, other: str) -> bool:
    """Whether two names are the same but for one letter: one more, one less, another one, or two swapped.

    Upper and lower case, blanks, ``_`` and ``-`` do not count.
    """
    one, other = folded(one), folded(other)
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((at for at, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its), None)
    if start is None:  # equal, or the longer one has one more at its end
        return True
    mine, its = one[start:], other[start:]
    swapped = mine[:2] == its[1::-1] and mine[2:] == its[2:]
    return swapped or mine[1:] == its[1:] or mine[1:] == its or mine == its[1:]


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that looks most like this one, if any does."""
    import difflib

    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)), None)


def nearest_key(key: object, info: inspect.StructType) -> str | None:
    """The nearest known key of an object, or (``detectors.pingPong``) of one inside it."""
    if not isinstance(key, str):
        return None
    by_name = {folded(name.rsplit(".", 1)[-1]): name for name in reversed(list(_names(info)))}
    close = nearest(folded(key), by_name)
    return None if close is None else by_name[close]


def misspelt_key(key: object, info: inspect.StructType) -> str | None:
    """As :func:`nearest_key`, but only a key that is one edit away."""
    if not isinstance(key, str):
        return None
    return next(iter(_matches(key, [("", info)])), None)


def misspelt_part(key: object, info: inspect.StructType) -> str | None:
    """The key of the gateway's object that is ours to the last key, where ``key`` is one edit away from it."""
    return next((name for name in _parts(info.cls) if isinstance(key, str) and one_edit_apart(key, name)), None)


def places_of(key: object, path: str) -> list[str]:
    """The paths at which a key can stand that does not belong into the object at ``path``; the likeliest first."""
    if not isinstance(key, str):
        return []
    found = (_matches(key, [(root, _struct(cls)) for root, cls in group]) for group in _groups(path))
    return next(filter(None, found), [])


def _groups(path: str) -> Iterator[list[Place]]:
    """Where to look for a key that was found at ``path``: where the same is said of the same agents first."""
    agent = _AGENT.match(path)
    named = agent[1] if agent else _ANY
    if agent or path.startswith("agents."):
        places: list[Place] = [
            (f"agents.entries{named}.{_LOOP_DETECTION}", LoopDetection),
            (f"{_AGENTS}{named}", AgentSettings),
        ]
        yield places
    yield [(_PLUGIN, Plugin), (_LOOP_DETECTION, LoopDetection)]
    yield [(f"{_PLUGIN}.config.tools{_ANY}", ToolSettings)]


def _matches(key: str, places: Iterable[tuple[str, inspect.StructType]]) -> list[str]:
    """The paths that end with this key; where none does, those whose last key is one edit away from it."""
    paths = [f"{root}.{name}" if root else name for root, info in places for name in _names(info)]
    last = {path: path.rsplit(".", 1)[-1] for path in paths}
    exact = [path for path, name in last.items() if folded(key) == folded(name)]
    return exact or [path for path, name in last.items() if one_edit_apart(key, name)]


def _names(info: inspect.StructType) -> Iterator[str]:
    """The keys of an object, then those of the objects inside it, as paths."""
    yield from (field.encode_name for field in info.fields)
    for field in info.fields:
        inner = _object_in(field)
        if inner is not None:
            yield from (f"{field.encode_name}.{name}" for name in _names(inner))


def _object_in(field: inspect.Field) -> inspect.StructType | None:
    """The object that stands under a key."""
    kind = field.type.type if isinstance(field.type, inspect.Metadata) else field.type
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return next((option for option in options if isinstance(option, inspect.StructType)), None)


@functools.cache
def _parts(cls: type[Struct]) -> tuple[str, ...]:
    """The keys of a gateway's object under which an object of ours stands."""
    objects = {field.encode_name: _object_in(field) for field in _struct(cls).fields}
    return tuple(name for name, inner in objects.items() if inner is not None and issubclass(inner.cls, Ours))


@functools.cache
def _struct(cls: type[Struct]) -> inspect.StructType:
    return cast(inspect.StructType, inspect.type_info(cls))
