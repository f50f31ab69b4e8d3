"""The path of a setting as it is typed: ``tools.loopDetection.enabled``, ``agents.list[0].id``, ``tools["notify_*"]``.

Paths read as in error messages. Which ones there are comes from the annotations of the settings, as everything else.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import inspect

from ..settings_model import Ours
from ..settings_names import misspelt_key, places_of
from ..settings_paths import at
from ..settings_plugin import FORMER_KEYS, ConfigFile

Steps: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(r"""\.?(?P<name>[^.\[\]"]+)|\[(?P<place>\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]""")
_ANY_NAME = "NAME"


def parse_path(text: str) -> Steps:
    """Its steps, from the outside in. Raises ValueError where it is no path."""
    steps: list[str | int] = []
    end = 0
    while end < len(text):
        step = _STEP.match(text, end)
        if step is None or (not steps and text[0] in ".["):
            raise ValueError(f'{text}: not a path such as tools.loopDetection.enabled or agents.entries["my.agent"]')
        if step["place"] is not None:
            steps.append(int(step["place"]))
        else:
            steps.append(step["name"] if step["name"] is not None else str(json.loads(step["quoted"])))
        end = step.end()
    if not steps:
        raise ValueError("an empty path")
    return tuple(steps)


def shown_path(steps: Steps) -> str:
    """The path as error messages write it."""
    path = ""
    for step in steps:
        path = f"{path}[{step}]" if isinstance(step, int) else at(path, step)
    return path


def is_setting(steps: Steps) -> bool:
    """Whether loopguard reads this."""
    kind: inspect.Type | None = _ROOT
    for step in steps:
        kind = None if kind is None else _inner(_bare(kind), step)
    return kind is not None


def default_of(steps: Steps) -> object:
    """What an absent key means, where that is one value; else None. An agent's own settings have none."""
    kind: inspect.Type = _ROOT
    for step in steps:
        inner = _inner(_bare(kind), step)
        if inner is None or step == "agents":
            return None
        kind = inner
    said = kind.extra_json_schema if isinstance(kind, inspect.Metadata) else None
    return (said or {}).get("default")


def former_path(steps: Steps) -> str | None:
    """The path that has taken the place of an older key's."""
    holder = _holder(steps)
    now = FORMER_KEYS.get(holder.cls, {}).get(str(steps[-1])) if holder else None
    return shown_path((*steps[:-1], now)) if now and "." not in now else now


def nearest_path(steps: Steps) -> str | None:
    """The known path that was probably meant."""
    holder = _holder(steps)
    if holder is not None and issubclass(holder.cls, Ours):
        place, own = shown_path(steps[:-1]), misspelt_key(steps[-1], holder)
        places = [f"{place}.{own}"] if own else places_of(steps[-1], place)
        if places:
            return places[0]
    known = [shown_path(path) for path in _known(_ROOT, (), steps)]
    typed = shown_path(steps)
    last = _folded(str(steps[-1]))
    by_text = {_folded(path): path for path in reversed(known)}
    by_name = {_folded(re.split(r"[.\[]", path)[-1]): path for path in reversed(known)}
    for names, word, cutoff in ((by_text, _folded(typed), 0.85), (by_name, last, 0.99), (by_name, last, 0.75)):
        close = difflib.get_close_matches(word, names, n=1, cutoff=cutoff)
        if close:
            return names[close[0]]
    return None


def _holder(steps: Steps) -> inspect.StructType | None:
    """The object in which the last key of a path stands, where it is one that loopguard reads."""
    kind: inspect.Type | None = _ROOT
    for step in steps[:-1]:
        kind = None if kind is None else _inner(_bare(kind), step)
    bare = None if kind is None else _bare(kind)
    return bare if isinstance(bare, inspect.StructType) else None


def _known(kind: inspect.Type, path: Steps, typed: Steps) -> Iterator[Steps]:
    """Every path, with the typed names where any name will do."""
    kind = _bare(kind)
    here = typed[len(path)] if len(typed) > len(path) and typed[: len(path)] == path else None
    if path:
        yield path
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from _known(field.type, (*path, field.encode_name), typed)
    elif isinstance(kind, inspect.DictType):
        yield from _known(kind.value_type, (*path, here if isinstance(here, str) else _ANY_NAME), typed)
    elif isinstance(kind, inspect.VarTupleType) and isinstance(_bare(kind.item_type), inspect.StructType):
        yield from _known(kind.item_type, (*path, here if isinstance(here, int) else 0), typed)


def _inner(kind: inspect.Type, step: str | int) -> inspect.Type | None:
    match kind:
        case inspect.StructType(fields=fields):
            return next((field.type for field in fields if field.encode_name == step), None)
        case inspect.DictType(value_type=value):
            return value if isinstance(step, str) and step.strip() else None
        case inspect.VarTupleType(item_type=item):
            return item if isinstance(step, int) else None
    return None


def _bare(kind: inspect.Type) -> inspect.Type:
    """The type itself: without what is said about it, and without null."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        return _bare(next(option for option in kind.types if not isinstance(option, inspect.NoneType)))
    return kind


def _folded(text: str) -> str:
    return re.sub(r"[\s_-]", "", text).casefold()


_ROOT = inspect.type_info(ConfigFile)
