"""Same call, equal outcomes (SPEC 6, "no-progress"). One of these a call that was made at least twice."""

from __future__ import annotations

from collections import deque
from typing import Final

from ..record import FAILED, VETO, Record, compared

SHORT: Final = 16  # records that are kept in a list


class NoProgress:
    """The window's records of one call, and how many of the latest share one outcome.

    ``count`` is the streak: the newest equal outcomes and the vetoes that are newer than the oldest of them; with no
    outcome in the window, all vetoes. ``outcome`` is the shared one, of failures their identity; ``failing``: it is a
    failure. The first ``_before`` records stand before the oldest outcome that counts.
    """

    __slots__ = ("_before", "count", "failing", "outcome", "records")

    def __init__(self, first: Record) -> None:
        self.records: list[Record] | deque[Record] = [first]  # a deque takes longer to make than a few records to move
        self.outcome = compared(first)
        self.count = 1 if self.outcome is not None or first.marks & VETO else 0
        self.failing = self.outcome is not None and (first.failure is not None or first.marks & FAILED != 0)
        self._before = 0

    def add(self, record: Record) -> None:
        """The newest record of this call."""
        outcome = compared(record)
        if outcome is not None:
            if outcome != self.outcome:
                self.outcome = outcome
                self.failing = record.failure is not None or record.marks & FAILED != 0
                self._before = len(self.records)
                self.count = 0
            self.count += 1
        elif record.marks & VETO:
            self.count += 1
        records = self.records
        records.append(record)
        if len(records) == SHORT and isinstance(records, list):
            self.records = deque(records)

    def forget(self) -> None:
        """The oldest record left the window."""
        records = self.records
        left = records.popleft() if isinstance(records, deque) else records.pop(0)
        if self.outcome is None:
            self.count -= left.marks & VETO
        elif self._before:
            self._before -= 1
        else:  # the oldest outcome that counts
            self.count -= 1
            if not records or records[0].outcome is None:
                self._lose_vetoes()

    def _lose_vetoes(self) -> None:
        """Vetoes that are now older than every equal outcome count no more."""
        vetoes = 0
        for at, record in enumerate(self.records):
            if record.outcome is not None:
                self.count -= vetoes
                self._before = at
                return
            vetoes += record.marks & VETO
        self.outcome = None
        self.failing = False
        self.count = vetoes

    def rebuild(self) -> None:
        """A record in the middle got its outcome."""
        records = self.records
        self.records = []
        self.count = self._before = 0
        self.outcome = None
        self.failing = False
        for record in records:
            self.add(record)
