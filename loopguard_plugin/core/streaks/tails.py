"""The three streaks over the newest records of one tool, together: most runs never have any."""

from __future__ import annotations

from ..record import EXEC_FAILURE, FAILED, UNCHANGED, UNKNOWN, Record
from .churn import Churn
from .exec_failures import ExecFailures
from .unknown_tool import UnknownTool


class Tails:
    """The three streaks over the newest records of one tool, each made with the first record that could begin it.

    ``longest``: how long any of them could be for the next call.
    """

    __slots__ = ("churn", "exec", "longest", "unknown")

    def __init__(self) -> None:
        self.unknown: UnknownTool | None = None
        self.exec: ExecFailures | None = None
        self.churn: Churn | None = None
        self.longest = 0

    def add(self, record: Record) -> None:
        """The next record of the window. A streak that is not under way is asked only about what could begin it."""
        marks = record.marks
        longest = 0
        unknown = self.unknown
        if unknown is None and marks & UNKNOWN:
            unknown = self.unknown = UnknownTool()
        if unknown is not None and (unknown.records or marks & UNKNOWN):
            unknown.add(record)
            longest = len(unknown.records)
        commands = self.exec
        if commands is None and marks & EXEC_FAILURE:
            commands = self.exec = ExecFailures()
        if commands is not None and (commands.records or marks & EXEC_FAILURE):
            commands.add(record)
            longest = max(longest, len(commands.records))
        churn = self.churn
        if churn is None and marks & (FAILED | UNCHANGED):
            churn = self.churn = Churn()
        if churn is not None and (churn.records or marks & (FAILED | UNCHANGED)):
            churn.add(record)
            longest = max(longest, len(churn.records))
        self.longest = longest

    def forget(self, record: Record) -> None:
        """A record left the window."""
        longest = 0
        for streak in (self.unknown, self.exec, self.churn):
            if streak is not None and streak.records:
                if streak.records[0] is record:
                    streak.forget()
                longest = max(longest, len(streak.records))
        self.longest = longest
