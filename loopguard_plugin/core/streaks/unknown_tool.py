"""One tool in a row that does not exist (SPEC 6, "unknown tool")."""

from __future__ import annotations

from collections import deque

from ..record import UNKNOWN, VETO, Record


class UnknownTool:
    """The newest records as long as each failed for want of the same tool; vetoes are passed over."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: deque[Record] = deque()

    def add(self, record: Record) -> None:
        """The next record of the window."""
        if record.marks & VETO:
            return
        if self.records and not (record.marks & UNKNOWN and record.tool == self.records[0].tool):
            self.records.clear()
        if record.marks & UNKNOWN:
            self.records.append(record)

    def forget(self) -> None:
        """The oldest of them left the window."""
        self.records.popleft()

    def count(self, tool: str) -> int:
        """The streak that a call of ``tool`` would continue."""
        return len(self.records) if self.records and self.records[0].tool == tool else 0
