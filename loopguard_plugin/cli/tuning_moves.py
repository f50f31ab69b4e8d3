"""Single changes of the settings that are worth a try for a history (pure; plays nothing).

Each is tried because of something in the sessions: a tool that was noted where all was well, a stuck session that got
through. None is tried without such a reason, so a short history has few of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..answers import Detector
from ..settings import ResolvedSettings
from .tuning_advice import Policies, Results, Session, by_tool
from .tuning_hints import Hints

MOST: Final = 24  # moves that are tried
_EACH: Final = 6  # tools for which one kind of move is tried, those of most sessions first
_REPEATED: Final = 5  # times that a call was made, at least, to be looked at in a stuck session
_ROOM: Final = 1.5  # between the longest healthy turn and a ceiling
_TEN: Final = 10  # ceilings are round numbers

# What the names of tools have in them that change things: another tool's success makes no call a new attempt.
_CHANGING: Final = (
    *("edit", "write", "patch", "create", "insert", "replace", "delete", "remove", "update", "save", "commit"),
)


class Move(Struct, frozen=True):
    """One change: of a tool's own settings, or (``tool`` None) of loopguard's settings for all tools."""

    tool: str | None
    given: dict[str, object]


class Choice(Struct, frozen=True):
    """Several moves together, over shared settings."""

    shared: dict[str, object]
    moves: tuple[Move, ...] = ()

    @property
    def tools(self) -> Policies:
        """What is said about single tools."""
        found: Policies = {}
        for move in self.moves:
            if move.tool is not None:
                found.setdefault(move.tool, {}).update(move.given)
        return found

    @property
    def own(self) -> dict[str, object]:
        """What is said for all tools, beside ``shared``."""
        found: dict[str, object] = {}
        for move in self.moves:
            if move.tool is None:
                for key, value in move.given.items():
                    old = found.get(key)
                    found[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        return found

    @property
    def detection(self) -> dict[str, object]:
        """The shared settings, with a history in which the breakers of single tools can be reached."""
        reached = [value for given in self.tools.values() if isinstance(value := given.get(_BREAKER), int)]
        size = self.shared.get("historySize")
        if not reached or not isinstance(size, int):
            return self.shared
        return {**self.shared, "historySize": max(size, *reached)}


_BREAKER: Final = "globalCircuitBreakerThreshold"


def moves(
    results: Results,
    shared: int,
    pairs: Sequence[tuple[int, int]],
    hints: Mapping[Session, Hints],
    limits: ResolvedSettings,
    agent: str | None,
) -> list[Move]:
    """What to try over a shared setting, the most telling first; at most ``MOST``.

    ``limits``: what is in force now. ``agent``: the one that is tuned; ``repeatedErrors`` is a setting for all.
    """
    kinds = [
        _retries(results),
        _changing(results, shared, hints),
        *_of_tools(results, shared, pairs),
        _switches(results, shared, limits),
        _for_stuck(results, shared, hints, limits, agent),
    ]
    # One of each kind in turn, so that none is left out where there are many tools.
    places = [(nth, kind, move) for kind, found in enumerate(kinds) for nth, move in enumerate(found)]
    places.sort(key=lambda one: one[:2])
    return [move for _, _, move in sorted(places[:MOST], key=lambda one: (one[1], one[0]))]


def _retries(results: Results) -> Iterator[Move]:
    """Tools whose identical failures healthy sessions lived through."""
    for tool in sorted(results.tools):
        lived = results.errors_lived_through(tool)
        if lived:
            yield Move(tool, {"errorRetries": lived})


def _of_tools(results: Results, shared: int, pairs: Sequence[tuple[int, int]]) -> list[list[Move]]:
    """Kind, thresholds and exemptions of single tools, the simplest first."""
    tools = sorted(results.tools)
    better = by_tool(results, shared, pairs)
    polls = [Move(tool, {"kind": "poll"}) for tool in tools if results.score(shared, tool).noted]
    exempt = [
        Move(tool, {"exempt": names})
        for tool in tools
        if tool not in better and (names := results.only_fine(shared, tool))
    ]
    return [polls, [Move(tool, given) for tool, given in better.items()], exempt]


def _changing(results: Results, shared: int, hints: Mapping[Session, Hints]) -> Iterator[Move]:
    """Tools that change things, by their names, and worked in healthy sessions that are noted or interrupted."""
    bothered = results.bothered(shared)
    worked = (hints[one].worked for one in bothered if one in hints)
    changing = Counter(tool for tools in worked for tool in tools if any(part in tool for part in _CHANGING))
    for tool, _ in sorted(changing.items(), key=lambda one: (-one[1], one[0]))[:_EACH]:
        yield Move(tool, {"mutates": True})


def _switches(results: Results, shared: int, limits: ResolvedSettings) -> Iterator[Move]:
    """Detectors that speak in healthy sessions, switched off."""
    if limits.stagnation and results.fires_on_fine(shared, Detector.STAGNATION):
        yield Move(None, {"detectors": {"stagnation": False}})
    if limits.error_cascade and results.fires_on_fine(shared, Detector.ERROR_CASCADE):
        yield Move(None, {"detectors": {"errorCascade": False}})


def _for_stuck(
    results: Results, shared: int, hints: Mapping[Session, Hints], limits: ResolvedSettings, agent: str | None
) -> Iterator[Move]:
    """What could catch stuck sessions that get through."""
    missed = [hints[one] for one in sorted(results.uncaught(shared)) if one in hints]
    if not missed:
        return
    repeated = Counter(tool for one in missed for tool, times in one.repeated.items() if times >= _REPEATED)
    often = [tool for tool, _ in sorted(repeated.items(), key=lambda one: (-one[1], one[0]))[:_EACH]]
    for tool in often:
        for paths in dict.fromkeys(one.moving[tool] for one in missed if tool in one.moving):
            yield Move(tool, {"ignoreResult": list(paths)})
    if not limits.similar_errors and agent is None:
        yield Move(None, {"repeatedErrors": "similar"})
    for tool in often:
        yield Move(tool, {"similar": True})
    if not limits.stagnation:
        yield Move(None, {"detectors": {"stagnation": True}})
    fine = [hints[one] for one in results.labels.fine if one in hints]
    yield from _ceilings("callsPerTurn", (one.turn for one in fine), (one.turn for one in missed))
    yield from _ceilings("callsPerRun", (one.run for one in fine), (one.run for one in missed))


def _ceilings(key: str, healthy: Iterable[int], missed: Iterable[int]) -> Iterator[Move]:
    """A ceiling well above all healthy sessions, where a stuck one passes it. None without a healthy one to go by."""
    longest = max(healthy, default=0)
    ceiling = -(-int(longest * _ROOM) // _TEN) * _TEN
    if longest and max(missed) > ceiling:
        yield Move(None, {"limits": {key: ceiling}})
