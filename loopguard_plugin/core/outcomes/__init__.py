"""What counts as the same result: the table of SPEC 5, rows 3 to 14, by kind of tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from .parts import Compared
from .rules import Rule

__all__ = ["OF_FAILURES_TOO", "OF_SUCCESSES", "Compared", "Rule"]

Compare: TypeAlias = Callable[[object, dict[str, object]], Compared | None]

OF_FAILURES_TOO: Final[dict[Rule, Compare]] = {}
OF_SUCCESSES: Final[dict[Rule, Compare]] = {}
