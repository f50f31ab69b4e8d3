"""From any object to the structs of ``settings_model``, with everything that is wrong at once.

msgspec would stop at the first mistake and words it for programmers; a person who edits a config file wants the whole
list, the path as they would write it and the key that they meant (SPEC 11). So this walks the annotations itself.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import TypeAlias, cast

from msgspec import Struct, inspect

from .errors import Problem
from .settings_model import DOTTED, NOT_BLANK
from .settings_names import misspelt_key, misspelt_part, nearest, nearest_key, one_edit_apart, places_of
from .settings_paths import at, shown
from .settings_plugin import FORMER_KEYS, FORMER_WORDS

Number: TypeAlias = inspect.IntType | inspect.FloatType

_EXPECTED = {
    None: "a string",
    NOT_BLANK: "a string that is not blank",
    DOTTED: "a name, or names with a dot between each two (meta.requestId)",
}


class Findings:
    """What is wrong with a file: ``problems`` make it useless, ``unread`` keys are the gateway's, so it may have them.

    An unread key stands in an object of the gateway's and is one edit away from ours: nobody would read what is under
    it.
    """

    __slots__ = ("problems", "unread")

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.unread: list[Problem] = []


def read_fields(cls: type[Struct], value: object, found: Findings) -> dict[str, object]:
    """The fields of ``cls`` in an object of a config file, by their Python names; unset ones are left out.

    ``value`` may be an instance of ``cls`` too, whose fields are then checked as if they had been read. What is wrong
    is added to ``found``; the fields are of use only if there were no problems.
    """
    return _fields(_struct(cls), value, "", found)


@functools.cache
def _struct(cls: type[Struct]) -> inspect.StructType:
    return cast(inspect.StructType, inspect.type_info(cls))


def _fields(info: inspect.StructType, value: object, path: str, found: Findings) -> dict[str, object]:
    if isinstance(value, info.cls):
        value = {field.encode_name: getattr(value, field.name) for field in info.fields}
    if not isinstance(value, Mapping):
        found.problems.append(Problem(path, f"expected an object, found {shown(value)}"))
        return {}
    known = {field.encode_name: field for field in info.fields}
    read: dict[str, object] = {}
    for key, inner in value.items():
        here = at(path, key)
        field = known.get(key) if isinstance(key, str) else None
        if field is not None:
            read[field.name] = _value(field.type, inner, here, found)
        elif info.forbid_unknown_fields:
            found.problems.append(_unknown(path, key, info))
        elif inner is not None and (meant := misspelt_part(key, info)):
            found.unread.append(Problem(here, "loopguard does not read this key", nearest=meant))
    return read


def _unknown(path: str, key: object, info: inspect.StructType) -> Problem:
    """A key that the object at ``path`` does not have; it is ours, so nobody else reads it."""
    here, former = at(path, key), FORMER_KEYS.get(info.cls, {})
    if isinstance(key, str) and key in former:
        now = former[key]
        what = f"an older key, replaced by {now}" if now else "an older key, of no use any more: remove it"
        return Problem(here, what, nearest=now, told=True)
    meant = misspelt_key(key, info) or next(
        (now for old, now in former.items() if isinstance(key, str) and one_edit_apart(key, old)), None
    )
    places = [] if meant else places_of(key, path)
    if places:
        return Problem(here, f"unknown key here; it belongs at {' or '.join(places)}", nearest=places[0], told=True)
    names = ", ".join(sorted(field.encode_name for field in info.fields))
    return Problem(here, f"unknown key, expected one of {names}", nearest=meant or nearest_key(key, info))


def _value(kind: inspect.Type, value: object, path: str, found: Findings, default: object = None) -> object:
    """``value`` as ``kind``; None where it is unset or wrong."""
    if isinstance(kind, inspect.Metadata):
        return _value(kind.type, value, path, found, (kind.extra_json_schema or {}).get("default"))
    if isinstance(kind, inspect.UnionType):  # always "something or null"
        if value is None:
            return None
        (kind,) = (option for option in kind.types if not isinstance(option, inspect.NoneType))
    match kind:
        case inspect.StructType():
            fields = _fields(kind, value, path, found)
            return None if found.problems else kind.cls(**fields)
        case inspect.DictType():
            return _dict(kind, value, path, found)
        case inspect.VarTupleType():
            return _list(kind, value, path, found)
        case inspect.AnyType():
            return value
    checked, expected, meant = _leaf(kind, value)
    if checked is None:
        usual = f" (default {shown(default, bare=True)})" if isinstance(default, (bool, int)) else ""
        former = _former(kind, value)
        what = f"an older word, replaced by {former}" if former else f"expected {expected}{usual}, found {shown(value)}"
        found.problems.append(Problem(path, what, nearest=meant, told=former is not None))
    return checked


def _dict(kind: inspect.DictType, value: object, path: str, found: Findings) -> dict[str, object] | None:
    if not isinstance(value, Mapping):
        found.problems.append(Problem(path, f"expected an object, found {shown(value)}"))
        return None
    read: dict[str, object] = {}
    for key, inner in value.items():
        here = at(path, key)
        checked, expected, _ = _leaf(kind.key_type, key)
        if not isinstance(checked, str):
            found.problems.append(Problem(here, f"expected {expected} as key, found {shown(key)}"))
            continue
        read[checked] = _value(kind.value_type, inner, here, found)
    return read


def _list(kind: inspect.VarTupleType, value: object, path: str, found: Findings) -> tuple[object, ...] | None:
    if not isinstance(value, (list, tuple)):
        found.problems.append(Problem(path, f"expected a list, found {shown(value)}", nearest=_alone(kind, value)))
        return None
    return tuple(_value(kind.item_type, inner, f"{path}[{place}]", found) for place, inner in enumerate(value))


def _alone(kind: inspect.VarTupleType, value: object) -> str | None:
    """The list that a single word was probably meant to be."""
    if not isinstance(kind.item_type, (inspect.StrType, inspect.EnumType)):
        return None
    checked, _, meant = _leaf(kind.item_type, value)
    word = value if checked is not None else meant
    return None if word is None else f"[{shown(word, bare=True)}]"


def _leaf(kind: inspect.Type, value: object) -> tuple[object | None, str, str | None]:
    """A plain value as ``kind`` (None: it is not one), what was expected, and the nearest value that would do."""
    match kind:
        case inspect.BoolType():
            return (value if isinstance(value, bool) else None), "true or false", _meant(value, {"true", "false"})
        case inspect.IntType() | inspect.FloatType():
            return _number(kind, value)
        case inspect.EnumType():
            words = {str(member.value): member for member in kind.cls}
            known = words.get(value) if isinstance(value, str) else None
            return known, f"one of {', '.join(words)}", _former(kind, value) or _meant(value, words)
        case inspect.StrType():
            return _string(kind, value)
    raise NotImplementedError(f"settings have no fields of type {kind}")


def _former(kind: inspect.Type, value: object) -> str | None:
    """The word that has taken the place of an older one."""
    if not isinstance(kind, inspect.EnumType) or not isinstance(value, str):
        return None
    return FORMER_WORDS.get(kind.cls, {}).get(value)


def _string(kind: inspect.StrType, value: object) -> tuple[str | None, str, str | None]:
    fits = isinstance(value, str) and (kind.pattern is None or re.search(kind.pattern, value) is not None)
    text = value if isinstance(value, str) else ""
    meant = ".".join(filter(None, text.split("."))) if kind.pattern == DOTTED else ""
    return (text if fits else None), _EXPECTED[kind.pattern], meant or None


def _number(kind: Number, value: object) -> tuple[float | None, str, str | None]:
    whole = isinstance(kind, inspect.IntType)
    if whole:
        expected = f"a whole number from {kind.ge}" + (f" to {kind.le}" if _too_large(kind, value) else "")
    else:
        expected = f"a number above {kind.gt}"
    number = _as_number(value)
    if number is None:
        quoted = _as_number(_unquoted(value))
        return None, expected, shown(quoted, bare=True) if quoted and _number(kind, quoted)[0] is not None else None
    if whole:
        number = int(number) if number == int(number) else number
        low, high = int(kind.ge or 0), int(kind.le or 0)
        if isinstance(number, int) and low <= number <= high:
            return number, expected, None
        return None, expected, str(min(max(round(number), low), high))
    return (number if number > (kind.gt or 0) else None), expected, None


def _too_large(kind: Number, value: object) -> bool:
    number = _as_number(value)
    return number is not None and kind.le is not None and number > kind.le


def _as_number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def _unquoted(value: object) -> object:
    """The number that someone put in quotes, if it is one."""
    if not isinstance(value, str) or not re.fullmatch(r"\s*[0-9]{1,15}(\.[0-9]{1,15})?\s*", value):
        return None
    return float(value) if "." in value else int(value)


def _meant(value: object, words: Mapping[str, object] | set[str]) -> str | None:
    """The word that a misspelt one was probably meant to be."""
    if not isinstance(value, str):
        return None
    return nearest(value.strip().casefold(), words)
