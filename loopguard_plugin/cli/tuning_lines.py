"""The lines of a recommendation, and the sessions that each of them changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final

from msgspec import Struct

from ..report.text import whole
from .tuning_advice import Results, Session
from .tuning_moves import Choice, Move
from .tuning_plays import BLOCKED

_NAMED: Final = 3  # sessions that a line names


class Line(Struct, frozen=True):
    """One line of the settings: ``tools.loopDetection.KEY``, a setting of loopguard's own, or all of one tool.

    ``without``: the same choice less this line.
    """

    place: tuple[str, ...]
    without: Choice


def lines_of(choice: Choice, enabled: bool | None) -> list[Line]:
    """The lines of a choice in the order of the block. ``enabled``: what holds without the line that switches it on."""
    detection = choice.detection
    found = [Line(("loopDetection", "enabled"), Choice({**detection, "enabled": enabled}, choice.moves))]
    for key in detection:
        less = {name: value for name, value in detection.items() if name != key}
        found.append(Line(("loopDetection", key), Choice(less, choice.moves)))
    for key, value in choice.own.items():
        for inner in value if isinstance(value, dict) else ("",):
            moves = tuple(move for move in choice.moves if not _is_of(move, key, inner))
            found.append(Line(("own", key, inner) if inner else ("own", key), Choice(choice.shared, moves)))
    for tool in choice.tools:
        moves = tuple(move for move in choice.moves if move.tool != tool)
        found.append(Line(("tools", tool), Choice(choice.shared, moves)))
    return found


def _is_of(move: Move, key: str, inner: str) -> bool:
    value = move.given.get(key)
    return move.tool is None and key in move.given and (not inner or (isinstance(value, dict) and inner in value))


class Names:
    """Sessions by names that are short and still tell them apart: the file's own name, with the key if need be."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        every = list(sessions)
        paths = {PurePath(file).name: set[str]() for file, _ in every}
        for file, _ in every:
            paths[PurePath(file).name].add(file)
        self._paths = paths
        self._sessions = Counter(file for file, _ in every)

    def name(self, session: Session) -> str:
        """The name, on one line."""
        file, key = session
        short = PurePath(file).name
        shown = short if len(self._paths.get(short, ())) <= 1 else file
        return whole(shown if self._sessions[file] <= 1 else f"{shown} {key}")


def explained(results: Results, chosen: int, without: int, names: Names) -> str:
    """Which sessions change because of a line: ``stops: b.jsonl (call 31); leaves alone: a.jsonl``; or nothing.

    ``chosen``: the place of the whole recommendation among the settings that were played, ``without``: of the same
    less the line.
    """
    stops: list[str] = []
    lost: list[str] = []
    alone: list[str] = []
    interrupts: list[str] = []
    notes: list[str] = []
    for one in sorted(results.labels.stuck):
        old, new = results.level(without, one), results.level(chosen, one)
        if new >= BLOCKED > old:
            stops.append(f"{names.name(one)} (call {results.first(chosen, one, BLOCKED)})")
        elif old >= BLOCKED > new:
            lost.append(names.name(one))
    for one in sorted(results.labels.fine):
        old, new = min(results.level(without, one), BLOCKED), min(results.level(chosen, one), BLOCKED)
        if new < old:
            alone.append(names.name(one))
        elif new > old:
            worse = interrupts if new == BLOCKED else notes
            worse.append(f"{names.name(one)} (call {results.first(chosen, one, new)})")
    told = (
        ("stops", stops),
        ("leaves alone", alone),
        ("but lets through", lost),
        ("but interrupts", interrupts),
        ("but notes", notes),
    )
    return "; ".join(f"{what}: {_listed(found)}" for what, found in told if found)


def _listed(found: Sequence[str]) -> str:
    more = len(found) - _NAMED
    return ", ".join(found[:_NAMED]) + (f" and {more} more" if more > 0 else "")
