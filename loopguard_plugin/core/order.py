"""The calls of a wide batch in the orders that they are asked for in, without a walk over all of them (SPEC 13)."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .batch import Order, Slot

_TAKEN: Final = 64  # calls taken off the front of the list that are cut off at once


class Queue:
    """Calls whose outcomes are still to be applied, in model call order; ``first`` is the next one.

    Nearly all are added in that order, and stand in a list of which the first ``_at`` are taken off; it is never empty.
    Those that came with a smaller index than a call before them stand on a heap.
    """

    __slots__ = ("_at", "_early", "_in_order", "first")

    def __init__(self, slot: Slot) -> None:
        self._in_order = [slot]
        self._at = 0
        self._early: list[tuple[Order, Slot]] = []
        self.first: Slot | None = slot

    def __bool__(self) -> bool:
        return self.first is not None

    def add(self, slot: Slot) -> None:
        """One more call, wherever it stands."""
        in_order, order = self._in_order, slot.order
        if order < in_order[-1].order:
            heappush(self._early, (order, slot))  # no two calls have the same order
            if self.first is not None and self.first.order < order:
                return
        else:
            in_order.append(slot)
            if self.first is not None:
                return
        self.first = slot

    def pop(self) -> None:
        """Take the first one off."""
        early = self._early
        if early and early[0][1] is self.first:
            heappop(early)
        else:
            self._at += 1
        at, in_order = self._at, self._in_order
        if at < len(in_order):
            first = in_order[at]
            if at >= _TAKEN and len(in_order) < 2 * at:
                del in_order[:at]
                self._at = 0
            if not early or first.order < early[0][0]:
                self.first = first
                return
        self.first = early[0][1] if early else None

    def release(self) -> None:
        """Only calls that wait with their settlement stay."""
        waiting = [slot for slot in self._in_order[self._at :] if slot.settlement is not None]
        waiting += [slot for _, slot in self._early if slot.settlement is not None]
        waiting.sort(key=lambda slot: slot.order)
        self._in_order, self._at, self._early = waiting or self._in_order[-1:], 0 if waiting else 1, []
        self.first = waiting[0] if waiting else None


class SameId:
    """Calls of a batch that share an id, in the order in which they were added.

    ``places`` are those with an index, by it; the others, in ``unplaced``, fit every index. ``opened`` are calls in the
    order in which they started or were refused, also some that are over by now; ``fresh`` is before which one no call
    is only listed.
    """

    __slots__ = ("_fresh", "_opened", "_opened_unplaced", "_places", "_slots", "_unplaced")

    def __init__(self, slots: list[Slot]) -> None:
        self._slots: list[Slot] = []
        self._places: dict[int, Slot] = {}
        self._unplaced: Slot | None = None
        self._opened: list[Slot] = []
        self._opened_unplaced: list[Slot] = []
        self._fresh = 0
        for slot in slots:
            self.add(slot)
            if slot.open:
                self.open(slot)

    def add(self, slot: Slot) -> None:
        """One more call of this id."""
        self._slots.append(slot)
        if slot.index is None:
            self._unplaced = slot
        else:
            self._places[slot.index] = slot

    def open(self, slot: Slot) -> None:
        """A call of this id started, or was refused."""
        self._opened.append(slot)
        if slot.index is None:
            self._opened_unplaced.append(slot)

    def find(self, index: int | None, *, fresh: bool) -> Slot | None:
        """For a start (``fresh``) the first that is only listed; for a settlement the newest that is open, else the
        first that is listed; else the newest. ``index``: only a call that can stand there.
        """
        if index is not None:
            placed = self._places.get(index)
            if placed is not None:
                return placed
            return self._newest_open(self._opened_unplaced) or self._unplaced
        slots = self._slots
        return (None if fresh else self._newest_open(self._opened)) or self._first_listed() or slots[-1]

    def _newest_open(self, opened: list[Slot]) -> Slot | None:
        while opened and not opened[-1].open:
            opened.pop()
        return opened[-1] if opened else None

    def _first_listed(self) -> Slot | None:
        slots = self._slots
        while self._fresh < len(slots):
            slot = slots[self._fresh]
            if not slot.state:  # listed
                return slot
            self._fresh += 1
        return None
