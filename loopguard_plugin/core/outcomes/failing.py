"""Failures that came as results (SPEC 5.2), and what an error says."""

from __future__ import annotations

import re
from typing import Final

from ...events import Status
from ..fingerprint import canonical
from .parts import text_of

SHOWN: Final = 300  # characters of an error text that are kept for messages

_FAILED_WORDS: Final = frozenset(
    (
        "error",
        "failed",
        "failure",
        "timeout",
        "timed_out",
        "denied",
        "forbidden",
        "unavailable",
        "disabled",
        "aborted",
        "cancelled",
        "canceled",
        "killed",
        "invalid",
    )
)

# SPEC 6: what a failure says when no such tool exists, small letters.
_UNKNOWN: Final = re.compile(
    r"""\bunknown\ tool(?:\ id)?[\s:]+["'`]?[^\s"'`]
    | \btool\s+["'`]?[\w./:@-]+["'`]?\s+(?:not\ found|is\ not\ available)\b""",
    re.VERBOSE,
)
_READ: Final = 4096  # characters of an error text that are looked at for that


def status_of(result: object, details: dict[str, object]) -> Status:
    """The status of a settlement that gives neither a status nor an error: ``ok``, ``error`` or ``blocked``."""
    if details:
        status = details.get("status")
        if status == "blocked" and details.get("deniedReason") == "tool-loop":
            return Status.BLOCKED
        if _failed(details, status):
            return Status.ERROR
    if details is not result and isinstance(result, dict):
        return Status.ERROR if result.get("isError") is True or result.get("is_error") is True else Status.OK
    return Status.OK


def _failed(details: dict[str, object], status: object) -> bool:
    if "ok" in details or "success" in details:
        said = (details.get("ok"), details.get("success"))
        if said[0] is False or said[1] is False:
            return True
        worked = said[0] is True or said[1] is True
    else:
        worked = False
    if not worked and isinstance(status, str) and status in _FAILED_WORDS:
        return True
    if details.get("isError") is True or details.get("is_error") is True:
        return True
    return "error" in details and _truthy(details["error"])


def _truthy(value: object) -> bool:
    """Truth as Python has it for plain values; an object of a framework is there, that is enough."""
    if value is None or isinstance(value, (str, bool, int, float, list, tuple, dict)):
        return bool(value)
    return True


def error_text(error: object) -> str:
    """An error in full: the message of an exception, its class name where it has none, a string, or canonical JSON."""
    if isinstance(error, str):
        return error
    if isinstance(error, BaseException):
        try:
            message = str(error)
        except Exception:
            message = ""
        return message or type(error).__name__
    return canonical(error).decode("utf-8", "backslashreplace")  # bytes that differ have to go on differing


def result_error_text(result: object, details: dict[str, object]) -> str:
    """What a failure that came as a result says: its ``error`` or message, else its text, else all of it."""
    for name in ("error", "message", "reason"):
        said = details.get(name)
        if isinstance(said, dict):
            said = said.get("message")
        if isinstance(said, str) and said.strip():
            return said.strip()
    return text_of(result) or canonical(result).decode("utf-8", "replace")


def says_unknown_tool(text: str) -> bool:
    """Whether an error text says that no such tool exists (SPEC 6)."""
    said = text[:_READ].lower()
    return "tool" in said and _UNKNOWN.search(said) is not None
