"""Laying settings over each other: the strongest value that is set, thresholds that rise, and what to report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from msgspec import Struct

V = TypeVar("V")

# Strongest first, each with the path at which it stands.
Layers: TypeAlias = Sequence[tuple[str, Struct]]


class Adjustment(Struct, frozen=True):
    """A value that is not used as given, or that does not do what it seems to (then ``used`` equals ``given``).

    ``path`` is where it was given; for a default that another setting pushed up, where it could be.
    """

    path: str
    given: int | bool
    used: int | bool
    why: str


class Notice(Struct, frozen=True):
    """A setting that does what it says, and that an operator should be reminded of. ``what`` reads on from the path."""

    path: str
    what: str


def strongest(layers: Layers, name: str, default: V, where: str) -> tuple[V, str]:
    """The first value set for a field, and its path; without any, the default, and its path under ``where``."""
    for path, layer in layers:
        value: V | None = getattr(layer, name)
        if value is not None:
            return value, f"{path}.{camel(name)}"
    return default, f"{where}.{camel(name)}"


def raised(
    layers: Layers, name: str, default: int, where: str, *, floor: tuple[str, int], notes: list[Adjustment]
) -> int:
    """A threshold, raised to one above ``floor`` where it is not larger; a loop would be blocked unannounced else."""
    value, path = strongest(layers, name, default, where)
    floor_name, lowest = floor
    if value > lowest:
        return value
    notes.append(Adjustment(path, value, lowest + 1, f"has to be larger than {floor_name}, which is {lowest}"))
    return lowest + 1


def camel(name: str) -> str:
    """A field's name as a config file writes it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
