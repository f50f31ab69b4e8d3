"""The table of SPEC 6, row by row: which repetition, if any, a call that is about to start would continue."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Final, TypeAlias

from msgspec import Struct

from ..answers import Detector
from ..settings import ResolvedSettings
from .history import History
from .observe import Call, CallKind
from .projection import Projection
from .streaks.error_cascade import WARNING as CASCADE_WARNING
from .streaks.stagnation import Stagnation

WAIT_CRITICAL: Final = 10  # equal waits that block the next, whatever criticalThreshold is (SPEC 6, row 3)

WarningKey: TypeAlias = tuple[str | int | None, ...]


class Level(IntEnum):
    """How bad it is: a warning lets the call run with a note, a critical one blocks its batch."""

    WARNING = 1
    CRITICAL = 2


# Names in the module, for looking a member up on its class costs 0.1 us on Python 3.11.
WARNING: Final = Level.WARNING
CRITICAL: Final = Level.CRITICAL
UNKNOWN_TOOL_REPEAT: Final = Detector.UNKNOWN_TOOL_REPEAT
GLOBAL_CIRCUIT_BREAKER: Final = Detector.GLOBAL_CIRCUIT_BREAKER
KNOWN_POLL_NO_PROGRESS: Final = Detector.KNOWN_POLL_NO_PROGRESS
PING_PONG: Final = Detector.PING_PONG
GENERIC_REPEAT: Final = Detector.GENERIC_REPEAT
ARGUMENT_CHURN: Final = Detector.ARGUMENT_CHURN
STAGNATION: Final = Detector.STAGNATION
ERROR_CASCADE: Final = Detector.ERROR_CASCADE
_PLAIN: Final = CallKind.PLAIN
_WAIT: Final = CallKind.WAIT
_NOTHING: Final[frozenset[str]] = frozenset()


class Loop(Struct, frozen=True):
    """A row of the table that matched.

    ``key``: under which warnings of it are rate-limited (SPEC 7). ``same``: all that was counted had one outcome, and
    ``outcome`` is that of this very call, of failures their identity. ``tools``: those of the calls that go round.
    ``row``: of an error cascade, whether responses in a row were counted.
    """

    level: Level
    detector: Detector
    count: int
    key: WarningKey = ()
    same: bool = False
    outcome: int | None = None
    tools: tuple[str, ...] = ()
    row: bool = False


def judge(
    call: Call, history: History, siblings: Projection | None, limits: ResolvedSettings, stale: int = 0
) -> Loop | None:
    """The first row that matches, or None. ``siblings``: those of the open batch that stand before this call.

    ``stale``: how many stale responses in a row the call's batch would go on with (SPEC 11.2). The rows stand in the
    order of SPEC 6 and 11.2. A row from which the tool is exempt is passed over.
    """
    key = call.key
    beside = 0 if siblings is None else siblings.siblings.get(key, 0)
    if not beside and not stale and key not in history.newest and not history.stirred:
        return None  # never made in this window, and no streak over other calls is under way
    warning = limits.warning
    recent = history.recent(key) + beside
    turns = history.swing.length + 1 if siblings is None else 2 * recent + 2  # no alternation is longer
    stirred = max(history.stirred + beside, stale)
    if (
        recent < warning
        and turns < warning
        and (not stirred or (stirred < warning and stirred < limits.unknown_tool and stirred < CASCADE_WARNING))
        and call.kind is not _WAIT
        and not limits.policies
    ):
        return None  # no count over this call, nor an alternation with it, can have got that far
    if len(history.records) > history.size:
        history.trim()
        recent = history.recent(key) + beside
    policy = limits.policy(call.tool) if limits.policies else None
    exempt = policy.exempt if policy is not None else _NOTHING
    bounds = limits if policy is None else policy
    critical, warning = bounds.critical, bounds.warning
    equal, outcome = history.no_progress(key)
    no_progress = equal = equal + beside
    since = history.since_change(key)
    fresh, fresh_calls = (sys.maxsize, sys.maxsize) if since is None else (since[0] + beside, since[1] + beside)
    if call.tool == "exec":
        if since is not None and history.failing(key):
            no_progress = min(no_progress, fresh)
        no_progress = max(no_progress, history.exec_failures(key, siblings))

    count = history.unknown_tool(call.tool)
    if count >= bounds.unknown_tool and UNKNOWN_TOOL_REPEAT not in exempt:
        return Loop(CRITICAL, UNKNOWN_TOOL_REPEAT, count)
    if no_progress >= bounds.breaker and GLOBAL_CIRCUIT_BREAKER not in exempt:
        return Loop(CRITICAL, GLOBAL_CIRCUIT_BREAKER, no_progress)
    poller = call.kind is not _PLAIN
    if poller and limits.known_poll_no_progress and KNOWN_POLL_NO_PROGRESS not in exempt:
        waits = call.kind is _WAIT
        if no_progress >= (WAIT_CRITICAL if waits else critical):
            return Loop(CRITICAL, KNOWN_POLL_NO_PROGRESS, no_progress)
        if not waits and (polls := min(no_progress, fresh)) >= warning:
            return _warning(KNOWN_POLL_NO_PROGRESS, polls, (key, outcome), outcome)
    swing, evident, other = 0, False, 0
    if turns >= warning and limits.ping_pong and PING_PONG not in exempt:
        swing, evident, other = history.ping_pong(key, siblings)
        if swing >= critical and evident:
            return Loop(CRITICAL, PING_PONG, swing)
    repeats = not poller and limits.generic_repeat and GENERIC_REPEAT not in exempt
    if repeats and no_progress >= critical:
        return Loop(CRITICAL, GENERIC_REPEAT, no_progress)
    stagnation = history.stagnation if STAGNATION not in exempt else None
    if stagnation is not None and stale >= critical:
        return Loop(CRITICAL, STAGNATION, stale, tools=_named(stagnation, call))
    if min(swing, fresh_calls + 1) >= warning:
        return _warning(PING_PONG, swing, (min(key, other), max(key, other)), outcome if evident else None)
    if limits.argument_churn and ARGUMENT_CHURN not in exempt:
        churn = history.churn(call.tool, key, siblings)
        if min(churn, fresh_calls) >= warning:
            return _warning(ARGUMENT_CHURN, churn, (call.tool,), outcome)
    if repeats and min(recent, fresh) >= warning:
        count = min(recent, fresh)
        return _warning(GENERIC_REPEAT, count, (key,), outcome if equal >= count else None)
    if stagnation is not None and stale >= warning:
        tools = _named(stagnation, call)
        return Loop(WARNING, STAGNATION, stale, (STAGNATION,), True, stagnation.remembered.get(key), tools)
    cascade = history.cascade
    if cascade is not None and ERROR_CASCADE not in exempt:
        row = cascade.in_a_row()
        count = max(row, cascade.equal(call.tool))
        if count >= CASCADE_WARNING:
            return Loop(WARNING, ERROR_CASCADE, count, (ERROR_CASCADE,), row=row == count)
    return None


def _named(stagnation: Stagnation, call: Call) -> tuple[str, ...]:
    """The tools of the calls that go round; that of this call as the model wrote it."""
    tools = stagnation.tools()
    if call.shown == call.tool:
        return tools
    return tuple(call.shown if tool == call.tool else tool for tool in tools)


def _warning(detector: Detector, count: int, key: WarningKey, outcome: int | None) -> Loop:
    """``outcome``: the one that all counted calls share; None where they differed."""
    return Loop(WARNING, detector, count, (detector, *key), outcome is not None, outcome)
