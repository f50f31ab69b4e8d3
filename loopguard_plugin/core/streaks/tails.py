"""The three streaks over the newest records of one tool, together: most runs never have any."""

from __future__ import annotations

from ..record import FAILED, UNCHANGED, UNKNOWN, Record
from .churn import Churn
from .exec_failures import ExecFailures
from .unknown_tool import UnknownTool


class Tails:
    """The three streaks over the newest records of one tool."""

    __slots__ = ("churn", "exec", "unknown")

    def __init__(self) -> None:
        self.unknown = UnknownTool()
        self.exec = ExecFailures()
        self.churn = Churn()

    def add(self, record: Record) -> None:
        """The next record of the window. A streak that is not under way is asked only about what could begin it."""
        marks = record.marks
        if marks & UNKNOWN or self.unknown.records:
            self.unknown.add(record)
        if record.tool == "exec" or self.exec.records:
            self.exec.add(record)
        if marks & (FAILED | UNCHANGED) or self.churn.records:
            self.churn.add(record)

    def forget(self, record: Record) -> None:
        """A record left the window."""
        for streak in (self.unknown, self.exec, self.churn):
            if streak.records and streak.records[0] is record:
                streak.forget()

    def longest(self) -> int:
        """How long any of them could be for the next call."""
        return max(len(self.unknown.records), len(self.exec.records), len(self.churn.records))
