"""Code Mode payloads of ``exec`` and ``wait`` (SPEC 5 row 3)."""

from __future__ import annotations

from typing import Final

from .parts import Compared, only_details

_STATUSES: Final = ("completed", "waiting", "failed")
_FRESH: Final = ("telemetry", "runId")  # new with every run
_OPERATION: Final = ("method", "args")


def compare(result: object, details: dict[str, object]) -> Compared | None:
    """The payload without what every run has anew; what the program itself returned counts, whatever its names are."""
    status = details.get("status")
    if not (isinstance(status, str) and status in _STATUSES):
        return None
    if "telemetry" not in details and "pendingToolCalls" not in details:
        return None
    payload = only_details(result, details).items()
    return Compared(3, {key: _stable(key, item) for key, item in payload if key not in _FRESH})


def _stable(key: str, item: object) -> object:
    if key == "pendingToolCalls" and isinstance(item, (list, tuple)):
        return [_operation(operation) for operation in item]
    if isinstance(item, dict) and "ref" in item and "identity" in item:  # kept by the gateway under a fresh reference
        return {name: inner for name, inner in item.items() if name != "ref"}
    return item


def _operation(operation: object) -> object:
    if not isinstance(operation, dict):
        return operation
    return {name: operation[name] for name in _OPERATION if name in operation}
