"""What came since a tool that changes things last worked: before it, equal calls were other attempts."""

from __future__ import annotations


class Since:
    """The calls of the window that came after the last change."""

    __slots__ = ("by_key", "calls")

    def __init__(self) -> None:
        self.by_key: dict[int, int] = {}
        self.calls = 0

    def add(self, key: int) -> None:
        """One more call."""
        self.by_key[key] = self.by_key.get(key, 0) + 1
        self.calls += 1

    def forget(self, key: int) -> None:
        """One of them left the window."""
        self.calls -= 1
        self.by_key[key] -= 1
        if not self.by_key[key]:
            del self.by_key[key]
