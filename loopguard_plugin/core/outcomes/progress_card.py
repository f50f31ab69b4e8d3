"""``progress_card`` without an identity of its own (SPEC 5 row 14)."""

from __future__ import annotations

from .parts import Compared


def compare(result: object, details: dict[str, object]) -> Compared | None:
    """In full: nothing of it is known to be without meaning."""
    return Compared(14, [result])
