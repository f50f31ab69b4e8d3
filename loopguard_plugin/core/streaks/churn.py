"""A few arguments tried over and over with one tool, and nothing comes of any (SPEC 6, "churn")."""

from __future__ import annotations

from collections import deque

from ..record import FAILED, UNCHANGED, Record

VARIANTS = 2  # argument variants at least
EACH = 3  # times each variant was seen at least


class Churn:
    """The newest records of one tool that each failed or changed nothing.

    Each variant of the arguments has one outcome in the stretch: a changed one ends it, looking back.
    """

    __slots__ = ("_outcome_of", "_outcomes", "_seen", "_thin", "records")

    def __init__(self) -> None:
        self.records: deque[Record] = deque()
        self._seen: dict[int, int] = {}  # how often, by arguments
        self._outcome_of: dict[int, int] = {}  # by arguments
        self._outcomes: dict[int, int] = {}  # how many variants share it, by outcome
        self._thin = 0  # variants seen less than EACH times

    def add(self, record: Record) -> None:
        """The next record of the window."""
        if self.records and self.records[0].tool != record.tool:
            self.clear()
        outcome = record.outcome
        if outcome is None:
            return
        if not record.marks & (FAILED | UNCHANGED):
            self.clear()
            return
        key = record.key
        if self._outcome_of.get(key, outcome) != outcome:
            while key in self._seen:
                self.forget()
        self.records.append(record)
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if seen == 1:
            self._outcome_of[key] = outcome
            self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
            self._thin += 1
        elif seen == EACH:
            self._thin -= 1

    def forget(self) -> None:
        """The oldest of them left the window, or counts no more."""
        key = self.records.popleft().key
        seen = self._seen[key] = self._seen[key] - 1
        if seen == EACH - 1:
            self._thin += 1
        elif not seen:
            self._thin -= 1
            del self._seen[key]
            outcome = self._outcome_of.pop(key)
            self._outcomes[outcome] -= 1
            if not self._outcomes[outcome]:
                del self._outcomes[outcome]

    def clear(self) -> None:
        """Start over."""
        if self.records:
            self.records.clear()
            self._seen.clear()
            self._outcome_of.clear()
            self._outcomes.clear()
            self._thin = 0

    def count(self, tool: str, key: int) -> int:
        """The streak that a call of ``tool`` with these arguments would continue."""
        if not self.records or self.records[0].tool != tool or key not in self._seen:
            return 0
        churning = len(self._seen) >= VARIANTS and not self._thin and len(self._outcomes) == 1
        return len(self.records) if churning else 0
