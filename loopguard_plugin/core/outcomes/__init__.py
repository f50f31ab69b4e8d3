"""What counts as the same result: the table of SPEC 5, rows 3 to 14, by kind of tool.

Rows 1, 2, 7, 15 and 16 are the same for all tools and stand in :mod:`..observe`, which asks here in between: a failure
that came as a result is compared in full (row 7) unless one of ``OF_FAILURES_TOO`` knows its form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from . import code_mode, computer, execution, memory, process, progress_card, sends, write
from .parts import Compared
from .rules import Rule

__all__ = ["OF_FAILURES_TOO", "OF_SUCCESSES", "Compare", "Compared", "Rule"]

# (result, details) → what counts, or None where the result has another form.
Compare: TypeAlias = Callable[[object, dict[str, object]], Compared | None]

OF_FAILURES_TOO: Final[Mapping[Rule, Compare]] = {
    Rule.EXEC: execution.compare,  # rows 3 to 6
    Rule.WAIT: code_mode.compare,  # row 3
}
OF_SUCCESSES: Final[Mapping[Rule, Compare]] = {
    Rule.WRITE: write.compare,  # row 8
    Rule.PROCESS_POLL: process.compare_poll,  # row 9
    Rule.PROCESS_LOG: process.compare_log,  # row 10
    Rule.SEND: sends.compare,  # row 11
    Rule.MEMORY_SEARCH: memory.compare,  # row 12
    Rule.COMPUTER: computer.compare,  # row 13
    Rule.PROGRESS_CARD: progress_card.compare,  # row 14
}
