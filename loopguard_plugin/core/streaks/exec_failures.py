"""Shell commands that fail in one and the same way, whatever their arguments (SPEC 6, "exec failures")."""

from __future__ import annotations

from collections import deque

from ..record import EXEC_FAILURE, REJECTED, VETO, Record


class ExecFailures:
    """The newest ``exec`` failures of one failure identity, with the vetoes among them.

    Equal outcomes have equal failure identities, so comparing these is enough.
    """

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: deque[Record] = deque()

    def add(self, record: Record) -> None:
        """The next record of the window."""
        records = self.records
        if record.tool != "exec":
            records.clear()
        elif record.marks & VETO:
            if records:
                records.append(record)
        elif record.marks & EXEC_FAILURE:
            if records and records[0].failure != record.failure:
                records.clear()
            records.append(record)
        elif record.outcome is not None and not record.marks & REJECTED:
            records.clear()

    def forget(self) -> None:
        """The oldest of them left the window; vetoes older than every failure count for nobody."""
        records = self.records
        records.popleft()
        while records and records[0].marks & VETO:
            records.popleft()

    def count(self, key: int, siblings: int = 0) -> int:
        """The streak that a call with these arguments would meet; ``siblings`` are vetoes of it yet to come."""
        total = 0
        crossed = False  # a failure over other arguments was met
        vetoes = siblings  # of this call, newer than the failures counted so far
        for record in reversed(self.records):
            if record.marks & VETO:
                vetoes += record.key == key
                continue
            if record.key != key:
                crossed = True
            elif crossed:
                break
            total += 1 + vetoes
            vetoes = 0
        return total
