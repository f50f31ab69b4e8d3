"""Two calls in strict alternation (SPEC 6, "ping-pong")."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..record import VETO, Record, compared


class Alternation(Struct, frozen=True, gc=False):
    """How the window ends: its last two calls (None: there is none) and how long they have alternated.

    ``unbroken``: the alternation reaches into the history itself, not only into projected siblings.
    """

    last: int | None
    before: int | None
    length: int
    unbroken: bool = True

    def then(self, key: int) -> Alternation:
        """With one more call, a projected sibling, at the end."""
        if key == self.last:
            return Alternation(key, None, 1, unbroken=False)
        if key == self.before:
            return Alternation(key, self.last, self.length + 1, self.unbroken)
        return Alternation(key, self.last, 2 if self.last is not None else 1, unbroken=False)


class Side:
    """One side of a swing: how many outcomes it has, and how many of the newest are equal."""

    __slots__ = ("equal", "last", "missing", "outcomes")

    def __init__(self) -> None:
        self.outcomes = 0
        self.equal = 0
        self.missing = 0  # calls that ran (no veto) and have no outcome
        self.last: int | None = None

    def add(self, record: Record) -> None:
        outcome = compared(record)
        if outcome is not None:
            self.equal = self.equal + 1 if outcome == self.last else 1
            self.last = outcome
            self.outcomes += 1
        elif not record.marks & VETO:
            self.missing += 1

    def forget(self, record: Record) -> None:
        if record.outcome is not None:
            self.outcomes -= 1
            self.equal = min(self.equal, self.outcomes)
        elif not record.marks & VETO:
            self.missing -= 1

    def steady(self) -> bool:
        return self.outcomes > 0 and not self.missing and self.equal == self.outcomes


class PingPong:
    """The alternation at the end of the window. Sides are kept only while one of three calls or more is under way."""

    __slots__ = ("_sides", "length")

    def __init__(self) -> None:
        self.length = 0  # records of the window in the alternation, at its end
        self._sides: dict[int, Side] | None = None

    def add(self, record: Record, records: Sequence[Record]) -> None:
        """The next record, of a call that was made before; ``records`` is the window without it."""
        key = record.key
        if key == records[-1].key:
            self.length = 1
            self._sides = None
        elif self.length > 1 and records[-2].key == key:
            if self._sides is None:
                self._sides = _sides(records[-2], records[-1])
            self._sides[key].add(record)
            self.length += 1
        else:
            self.length = 2
            self._sides = None

    def begin(self, records: Sequence[Record]) -> None:
        """The next record, of a call that is new: it alternates with none. Nothing changes where the length is two."""
        self.length = 2 if records else 1
        self._sides = None

    def forget(self, record: Record) -> None:
        """The oldest record of the alternation left the window."""
        self.length -= 1
        if self.length <= 2:
            self._sides = None
        elif self._sides is not None:
            self._sides[record.key].forget(record)

    def rebuild(self, records: Sequence[Record]) -> None:
        """A record of the alternation got its outcome."""
        if self._sides is None:
            return
        tail = [records[-at] for at in range(self.length, 0, -1)]
        self._sides = _sides(*tail[:2])
        for record in tail[2:]:
            self._sides[record.key].add(record)

    def tail(self, records: Sequence[Record]) -> Alternation:
        """How the window ends."""
        if self.length > 1:
            return Alternation(records[-1].key, records[-2].key, self.length)
        return Alternation(records[-1].key if records else None, None, self.length)

    def evidence(self, records: Sequence[Record]) -> bool:
        """Whether each side has outcomes for all calls that ran, and each side's are all equal."""
        if self.length < 2:
            return False
        sides = self._sides if self._sides is not None else _sides(records[-2], records[-1])
        return all(side.steady() for side in sides.values())


def _sides(*records: Record) -> dict[int, Side]:
    """The two sides of an alternation that begins with these two records."""
    sides: dict[int, Side] = {}
    for record in records:
        side = sides[record.key] = Side()
        side.add(record)
    return sides
