"""The guard after a compaction retry: the same call, over and over, right after the context was cut (SPEC 10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

BEFORE: Final = 16  # calls before arming that are remembered for the closing line


class CompactionWindow:
    """The next ``size`` settled calls after a compaction.

    ``persisted`` once all of them were one call with one outcome, ``closed`` once they are used up. ``repeats``:
    how many of them had been among the last calls before it.
    """

    __slots__ = ("_before", "_first", "_same", "repeats", "seen", "size")

    def __init__(self, size: int, before: Iterable[int]) -> None:
        self.size = size
        self._before = frozenset(before)
        self._first: tuple[int, int] | None = None
        self._same = 0
        self.seen = 0
        self.repeats = 0

    def take(self, key: int, outcome: int) -> None:
        """One settled call. ``outcome``: its failure identity where it has one, else its outcome."""
        self.seen += 1
        self.repeats += key in self._before
        if self._first is None:
            self._first = (key, outcome)
        self._same += self._first == (key, outcome)

    @property
    def closed(self) -> bool:
        """Whether the window is used up."""
        return self.seen >= self.size

    @property
    def persisted(self) -> bool:
        """Whether the whole window was one and the same."""
        return self._same >= self.size
