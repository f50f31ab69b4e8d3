"""One tool after another fails (off until asked for): the trouble is not with one call but around them all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..record import FAILED, Record

TOOLS: Final = 2  # different tools at least
WARNING: Final = 10  # responses in a row


class ErrorCascade:
    """How many responses in a row failed: each had a failure and no success."""

    __slots__ = ("_tools", "_units")

    def __init__(self) -> None:
        self._units = 0
        self._tools: set[str] = set()

    def add(self, records: Iterable[Record]) -> None:
        """A response is over. Calls without an outcome say nothing."""
        settled = [record for record in records if record.outcome is not None]
        if not all(record.marks & FAILED for record in settled):
            self._units = 0
            self._tools.clear()
        elif settled:
            self._units += 1
            if len(self._tools) < TOOLS:
                self._tools.update(record.tool for record in settled)

    def count(self) -> int:
        """The cascade so far; 0 while it is one tool alone."""
        return self._units if len(self._tools) >= TOOLS else 0
