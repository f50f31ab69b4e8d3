"""The table of SPEC 6, row by row: which repetition, if any, a call that is about to start would continue."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

from msgspec import Struct

from ..answers import Detector
from ..settings import ResolvedSettings
from .history import History, Projection
from .observe import Call, CallKind

WAIT_CRITICAL: Final = 10  # equal waits that block the next, whatever criticalThreshold is (SPEC 6, row 3)

WarningKey: TypeAlias = tuple[str | int | None, ...]


class Level(IntEnum):
    """How bad it is: a warning lets the call run with a note, a critical one blocks its batch."""

    WARNING = 1
    CRITICAL = 2


WARNING: Final = Level.WARNING
CRITICAL: Final = Level.CRITICAL
_PLAIN: Final = CallKind.PLAIN
_WAIT: Final = CallKind.WAIT


class Loop(Struct, frozen=True):
    """A row of the table that matched. ``key``: under which warnings of it are rate-limited (SPEC 7)."""

    level: Level
    detector: Detector
    count: int
    key: WarningKey = ()


def judge(call: Call, history: History, siblings: Projection | None, limits: ResolvedSettings) -> Loop | None:
    """The first row that matches, or None. ``siblings``: those of the open batch that stand before this call."""
    key = call.key
    recent = history.recent(key)
    if siblings is not None:
        recent += siblings.siblings.get(key, 0)
    if not recent and not history.stirred:
        return None  # never made in this window, and no streak over other arguments is under way
    no_progress, outcome = history.no_progress(key)
    if siblings is not None:
        no_progress += siblings.siblings.get(key, 0)
    if call.tool == "exec":
        no_progress = max(no_progress, history.exec_failures(key, siblings))
    poller = call.kind is not _PLAIN
    critical, warning = limits.critical, limits.warning

    count = history.unknown_tool(call.tool)
    if count >= limits.unknown_tool:
        return Loop(CRITICAL, Detector.UNKNOWN_TOOL_REPEAT, count)
    if no_progress >= limits.breaker:
        return Loop(CRITICAL, Detector.GLOBAL_CIRCUIT_BREAKER, no_progress)
    if poller and limits.known_poll_no_progress:
        waits = call.kind is _WAIT
        if no_progress >= (WAIT_CRITICAL if waits else critical):
            return Loop(CRITICAL, Detector.KNOWN_POLL_NO_PROGRESS, no_progress)
        if no_progress >= warning and not waits:
            poll = Detector.KNOWN_POLL_NO_PROGRESS
            return Loop(WARNING, poll, no_progress, (poll, key, outcome))
    swing, evident, other = history.ping_pong(key, siblings) if limits.ping_pong else (0, False, 0)
    if swing >= critical and evident:
        return Loop(CRITICAL, Detector.PING_PONG, swing)
    if not poller and limits.generic_repeat and no_progress >= critical:
        return Loop(CRITICAL, Detector.GENERIC_REPEAT, no_progress)
    if swing >= warning:
        return Loop(WARNING, Detector.PING_PONG, swing, (Detector.PING_PONG, min(key, other), max(key, other)))
    if limits.argument_churn and (churn := history.churn(call.tool, key, siblings)) >= warning:
        return Loop(WARNING, Detector.ARGUMENT_CHURN, churn, (Detector.ARGUMENT_CHURN, call.tool))
    if not poller and limits.generic_repeat and recent >= warning:
        return Loop(WARNING, Detector.GENERIC_REPEAT, recent, (Detector.GENERIC_REPEAT, key))
    return None
