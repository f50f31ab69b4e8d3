"""``process`` with ``action`` ``poll`` or ``log`` (SPEC 5 rows 9 and 10).

A result that is neither text nor an object has none of these parts; it is left to the general rows.
"""

from __future__ import annotations

from typing import Final

from .parts import Compared, text_of

_POLL: Final = ("exitCode", "exitSignal", "aggregated")
_LOG: Final = ("status", "totalLines", "totalChars", "truncated", "exitCode", "exitSignal")


def compare_poll(result: object, details: dict[str, object]) -> Compared | None:
    """Status, exit and output; a status that is absent differs from one that is null."""
    if not isinstance(result, (str, dict)):
        return None
    value = {name: details.get(name) for name in _POLL}
    if "status" in details:
        value["status"] = details["status"]
    return Compared(9, value, text_of(result))


def compare_log(result: object, details: dict[str, object]) -> Compared | None:
    """Status, exit, the size of the log and the part of it that is shown."""
    if not isinstance(result, (str, dict)):
        return None
    return Compared(10, [details.get(name) for name in _LOG], text_of(result))
