"""The always-on guard: identical failures in a row (SPEC 4)."""

from __future__ import annotations

from typing import Final

RETRIES: Final = 2  # after the first attempt; a tool may be given others (SPEC 4)


class RepeatedErrors:
    """The streak of a run's latest failures with the same tool, arguments and error.

    ``key`` and ``outcome`` (its failure identity where similar errors count) say which failure it is, ``text`` is its
    last error text (at most 300 characters), for the message.
    """

    __slots__ = ("count", "key", "outcome", "text")

    def __init__(self, key: int, outcome: int | None, text: str, count: int = 1) -> None:
        self.key = key
        self.outcome = outcome
        self.text = text
        self.count = count

    def go_on(self, key: int, outcome: int | None) -> bool:
        """Whether this failure of a call would be one more of them."""
        return self.key == key and self.outcome == outcome
