"""The always-on guard: identical failures in a row (SPEC 4)."""

from __future__ import annotations

from typing import Final

from .observe import Call, Settlement

RETRIES: Final = 2  # after the first attempt; a tool may be given others (SPEC 4)


class RepeatedErrors:
    """The streak of a run's latest failures with the same tool, arguments and error.

    ``key`` and ``outcome`` say which failure it is, ``text`` is its last error text (at most 300 characters), for
    the message.
    """

    __slots__ = ("count", "key", "outcome", "text")

    def __init__(self) -> None:
        self.count = 0
        self.key = 0
        self.outcome: int | None = None
        self.text = ""

    def is_it(self, call: Call, settlement: Settlement) -> bool:
        """Whether a failure would go on with the streak."""
        return self.count > 0 and self.key == call.key and self.outcome == settlement.outcome

    def fail(self, call: Call, settlement: Settlement) -> int:
        """One more failure, applied in model call order; answers how many in a row are identical to it."""
        if self.is_it(call, settlement):
            self.count += 1
        else:
            self.count = 1
            self.key = call.key
            self.outcome = settlement.outcome
        self.text = settlement.error_text or ""
        return self.count
