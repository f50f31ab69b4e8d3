"""Outbound sends: what was delivered where, without the ids and times of this very delivery (SPEC 5 row 11)."""

from __future__ import annotations

from typing import Final

from .parts import Compared, only_details
from .without import without

_DELIVERY: Final = frozenset(
    (
        "messageId",
        "message_id",
        "messageIds",
        "platformMessageId",
        "platformMessageIds",
        "fileId",
        "file_id",
        "fileKey",
        "pollId",
        "poll_id",
        "receipt",
        "runId",
        "idempotencyKey",
        "ts",
        "timestamp",
        "sentAt",
        "deliveredAt",
        "createdAt",
    )
)
_MESSAGE: Final = _DELIVERY | {"id"}
_SENDER: Final = ("direction", "senderId", "accountId")


def compare(result: object, details: dict[str, object]) -> Compared | None:
    """*details* without delivery ids; None for a result that is no object."""
    if not isinstance(result, dict):
        return None
    return Compared(11, [without(only_details(result, details), _dropped)])


def _dropped(holder: dict[str, object]) -> frozenset[str]:
    return _MESSAGE if _is_message(holder) else _DELIVERY


def _is_message(holder: dict[str, object]) -> bool:
    """A delivered message, whose own ``id`` is new each time; the ``id`` of a conversation or route is not."""
    if not (isinstance(holder.get("id"), str) and isinstance(holder.get("text"), str)):
        return False
    return any(isinstance(holder.get(name), str) for name in _SENDER) or isinstance(holder.get("conversation"), dict)
