"""A B C A B C …: rounds of three to eight calls with nothing new in any (off until asked for).

Responses are the units: a batch is one place of the round, whatever its order. Two units match where they share at
least one call and all calls they share had equal outcomes, so a sibling that differs every time hides nothing. Rounds
of one or two units are left to the other streaks unless a unit has several calls: beside a varying sibling those
streaks may never reach their thresholds within a small window. Nothing here depends on the window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from ..record import MUTATED, VETO, Record

LONGEST: Final = 8  # units of a round
SHORTEST: Final = 3  # for units of one call
WIDEST: Final = 64  # calls of a unit that are compared
_VETOED: Final = -1  # no digest: whatever the call had done, it was asked for again


class Cycles:
    """The last units and, for each length of a round, how many in a row matched the unit one round before."""

    __slots__ = ("_matched", "_units")

    def __init__(self) -> None:
        self._units: deque[dict[int, int | None]] = deque(maxlen=LONGEST)
        self._matched = [0] * (LONGEST + 1)

    def add(self, records: Iterable[Record]) -> None:
        """A unit is over. A success of a tool that changes things makes all before it another matter."""
        unit: dict[int, int | None] = {}
        for record in records:
            if record.marks & MUTATED:
                self._units.clear()
                self._matched = [0] * (LONGEST + 1)
                return
            if len(unit) < WIDEST:
                unit[record.key] = _VETOED if record.marks & VETO else record.outcome
        if not unit:
            return
        for length in range(1, len(self._units) + 1):
            matches = _match(unit, self._units[-length])
            self._matched[length] = self._matched[length] + 1 if matches else 0
        self._units.append(unit)

    def count(self, key: int) -> int:
        """How many units a round that this call would continue has, its own included; 0 before two whole rounds."""
        units = self._units
        for length in range(1, len(units) + 1):
            place = units[-length]
            matched = self._matched[length]
            if place.get(key) is None or matched < length:
                continue
            if length < SHORTEST and len(place) == 1 and len(units[-1]) == 1:
                return 0
            return length + matched + 1
        return 0


def _match(unit: dict[int, int | None], before: dict[int, int | None]) -> bool:
    """Whether two units share a call, and each call they share has an outcome that did not change."""
    shared = unit.keys() & before.keys()
    return bool(shared) and all(_same(unit[key], before[key]) for key in shared)


def _same(outcome: int | None, before: int | None) -> bool:
    if outcome is None or before is None:
        return False
    return outcome == before or _VETOED in (outcome, before)
