"""loopguard: stops agents that repeat the same tool call without getting anywhere.

``LoopGuard`` is middleware for an agent gateway's event bus. The gateway publishes four events; the guard lets calls
run, adds a note to a result, blocks a batch, or ends the turn with ``TurnEndingError``. docs/gateway.md shows a whole
loop.

All names are loaded when they are first asked for: events can be built and read without event loop and logging, and the
hook of a process an event decides itself what is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .answers import Acknowledged, Blocked, Code, Deliver, Detector, Proceed
    from .bus import EmbeddedBus
    from .errors import EventError, LoopGuardError, SettingsError, SnapshotError, TurnEndingError
    from .events import (
        BatchCall,
        CompactionRetry,
        MessageKind,
        Status,
        ToolCallSettled,
        ToolCallStarted,
        UserMessageCommitted,
        batch_started,
        decode_event,
    )
    from .middleware import LoopGuard
    from .recording import RecordEvents
    from .settings import Settings, parse_settings

__version__ = "0.1.0"

__all__ = [
    "Acknowledged",
    "BatchCall",
    "Blocked",
    "Code",
    "CompactionRetry",
    "Deliver",
    "Detector",
    "EmbeddedBus",
    "EventError",
    "LoopGuard",
    "LoopGuardError",
    "MessageKind",
    "Proceed",
    "RecordEvents",
    "Settings",
    "SettingsError",
    "SnapshotError",
    "Status",
    "ToolCallSettled",
    "ToolCallStarted",
    "TurnEndingError",
    "UserMessageCommitted",
    "batch_started",
    "decode_event",
    "parse_settings",
]

_ROOMS = {
    "answers": ("Acknowledged", "Blocked", "Code", "Deliver", "Detector", "Proceed"),
    "bus": ("EmbeddedBus",),
    "errors": ("EventError", "LoopGuardError", "SettingsError", "SnapshotError", "TurnEndingError"),
    "events": (
        "BatchCall",
        "CompactionRetry",
        "MessageKind",
        "Status",
        "ToolCallSettled",
        "ToolCallStarted",
        "UserMessageCommitted",
        "batch_started",
        "decode_event",
    ),
    "middleware": ("LoopGuard",),
    "recording": ("RecordEvents",),
    "settings": ("Settings", "parse_settings"),
}
_LATE = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f".{_LATE[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
