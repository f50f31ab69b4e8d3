"""Results of ``exec`` (SPEC 5 rows 3 to 6)."""

from __future__ import annotations

import re
from typing import Final

from . import code_mode
from .parts import Compared, string, text_of

_APPROVAL: Final = ("approval-pending", "approval-unavailable")
_APPROVAL_FIELDS: Final = ("reason", "host", "command", "warningText")

# What an exec tool says by itself when a command fails without a word; no sign of a cause (SPEC 5.1).
_NO_OUTPUT: Final = re.compile(r"(?:\(no output\)|\(Command exited with code -?[0-9]+\)|\s)*+", re.IGNORECASE)


def compare(result: object, details: dict[str, object]) -> Compared | None:
    """What a command showed, without process ids, durations and places; None for a status that is none of these."""
    found = code_mode.compare(result, details)
    if found:
        return found
    status = details.get("status")
    if not isinstance(status, str):
        return None
    if status == "running":
        return Compared(4, [status], string(details.get("tail")))
    if status in ("completed", "failed"):
        return _ended(status, result, details)
    if status in _APPROVAL:
        return Compared(6, [status, *(string(details.get(name)) for name in _APPROVAL_FIELDS)])
    return None


def _ended(status: str, result: object, details: dict[str, object]) -> Compared:
    code = details.get("exitCode")
    if isinstance(code, bool) or not isinstance(code, (int, float)):
        code = None
    timed_out = details.get("timedOut") is True
    output = string(details.get("aggregated")).strip() or string(details.get("output")).strip() or text_of(result)
    drifts = bool(code) and not timed_out and _NO_OUTPUT.fullmatch(output) is None
    return Compared(5, [status, code, timed_out], output, drifts)
