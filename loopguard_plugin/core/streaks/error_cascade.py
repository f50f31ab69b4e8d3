"""The trouble is around the calls, not with one of them (SPEC 11.2, "error cascade"). It only warns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..record import FAILED, Record

WARNING: Final = 10  # for either count
TOOLS: Final = 2  # different tools at least, for the row
CALLS: Final = 3  # or so many different calls


class ErrorCascade:
    """Two counts: responses in a row that failed, and equal failures of one tool in the window.

    ``row``: how many responses in a row had a failure and no success. Of the records of the window that have a failure
    identity: how many share one, by tool, and which is the newest of each tool. ``many``: how many of these counts have
    come to the warning; while none has, and the row neither, there is nothing to say.
    """

    __slots__ = ("_calls", "_equal", "_newest", "_tools", "many", "row")

    def __init__(self) -> None:
        self.row = 0
        self._tools: tuple[str, ...] = ()
        self._calls: tuple[int, ...] = ()
        self.many = 0
        self._equal: dict[tuple[str, int], int] = {}
        self._newest: dict[str, int] = {}

    def add_response(self, response: Iterable[Record]) -> None:
        """A response is over. Calls without an outcome say nothing, and only a success ends the row."""
        failed = []
        for record in response:
            if record.outcome is not None:
                if not record.marks & FAILED:
                    if self.row:
                        self.end_row()
                    return
                failed.append(record)
        if failed:
            self.row += 1
            for record in failed:
                if len(self._tools) < TOOLS and record.tool not in self._tools:
                    self._tools = (*self._tools, record.tool)
                if len(self._calls) < CALLS and record.key not in self._calls:
                    self._calls = (*self._calls, record.key)

    def end_row(self) -> None:
        """A call worked."""
        self.row = 0
        self._tools = self._calls = ()

    def add(self, record: Record) -> None:
        """The newest record of the window, which has a failure identity."""
        failure = record.failure
        if failure is not None:
            name = (record.tool, failure)
            equal = self._equal[name] = self._equal.get(name, 0) + 1
            self._newest[record.tool] = failure
            if equal == WARNING:
                self.many += 1

    def forget(self, record: Record) -> None:
        """The oldest record left the window, and had a failure identity."""
        failure = record.failure
        if failure is not None:
            name = (record.tool, failure)
            equal = self._equal[name] = self._equal[name] - 1
            if equal == WARNING - 1:
                self.many -= 1
            if not equal:
                del self._equal[name]
                if self._newest[record.tool] == failure:
                    del self._newest[record.tool]

    def count_window(self, window: Iterable[Record]) -> None:
        """Count the failures of the window anew."""
        self._equal.clear()
        self._newest.clear()
        self.many = 0
        for record in window:
            self.add(record)

    def beside(self) -> ErrorCascade:
        """Another one with the same row, for another window."""
        other = ErrorCascade()
        other.row, other._tools, other._calls = self.row, self._tools, self._calls
        return other

    def in_a_row(self) -> int:
        """The row; 0 while it is one tool with one or two calls."""
        return self.row if len(self._tools) >= TOOLS or len(self._calls) >= CALLS else 0

    def equal(self, tool: str) -> int:
        """How many failures of the window are of this tool and equal its newest one."""
        newest = self._newest.get(tool)
        return 0 if newest is None else self._equal[tool, newest]

    def longest(self) -> int:
        """How long either count could be for the next call, at least the warning; 0 where neither has come to that."""
        return max(self.row, WARNING) if self.many or self.row >= WARNING else 0

    def state(self) -> tuple[int, Sequence[str], Sequence[int]]:
        """The row with its tools and calls; the rest is in the window."""
        return self.row, self._tools, self._calls

    def restore(self, row: int, tools: Iterable[str], calls: Iterable[int]) -> None:
        """The row as :meth:`state` gave it."""
        self.row, self._tools, self._calls = row, tuple(tools), tuple(calls)
