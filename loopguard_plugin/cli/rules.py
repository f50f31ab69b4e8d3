"""The rule behind a verdict, in words and with the setting that decides, and what would have reset its count."""

from __future__ import annotations

from typing import Final

from ..answers import Detector
from ..core.observe import CallKind
from .walk import Made, RunWalk

_NEW_RESULT: Final = "another result of this call; or enough other calls, so that these leave the last {history}"
_RESETS: Final = {
    Detector.GENERIC_REPEAT: _NEW_RESULT,
    Detector.GLOBAL_CIRCUIT_BREAKER: _NEW_RESULT,
    Detector.KNOWN_POLL_NO_PROGRESS: "a status that differs from the last one in any way",
    Detector.PING_PONG: "a third call in between, or the same call twice; for the block, another result of either",
    Detector.ARGUMENT_CHURN: "a call of another tool, a success that changes something, or another error",
    Detector.UNKNOWN_TOOL_REPEAT: "any call of a tool that exists",
    Detector.STAGNATION: "a new call, another result of any of these calls, a user message or a compaction",
    Detector.ERROR_CASCADE: "any call that works",
    Detector.CALL_LIMIT: "a new run; for the limit of a turn, a user message",
    Detector.REPEATED_TOOL_ERROR: "a call that works, a failure with other arguments or another text, a user message",
    Detector.COMPACTION_LOOP_PERSISTED: "any difference between these calls: tool, arguments or result",
}
_RULES: Final = {
    Detector.GENERIC_REPEAT: ("the same call, over and over", "6"),
    Detector.GLOBAL_CIRCUIT_BREAKER: ("the circuit breaker: no progress, whatever the detectors say", "6"),
    Detector.KNOWN_POLL_NO_PROGRESS: ("a status poller whose answer does not move", "6"),
    Detector.PING_PONG: ("two calls that take turns", "6"),
    Detector.ARGUMENT_CHURN: ("one tool that comes to nothing while its arguments go round", "6"),
    Detector.UNKNOWN_TOOL_REPEAT: ("a tool that does not exist", "6"),
    Detector.STAGNATION: ("nothing new comes back", "11.2"),
    Detector.ERROR_CASCADE: ("tools that fail one after another", "6"),
    Detector.CALL_LIMIT: ("the ceiling on calls", "6"),
    Detector.REPEATED_TOOL_ERROR: ("repeated tool errors, always on", "4"),
    Detector.COMPACTION_LOOP_PERSISTED: ("the guard after a compaction", "10"),
}


def rule(run: RunWalk, made: Made, detector: Detector, *, warning: bool) -> str:
    """The rule that matched, in words, with the setting and its value."""
    limits = run.limits
    words, section = _RULES[detector]
    policy = limits.policy(made.call.tool)
    bounds = limits if policy is None else policy
    where = f"for {made.call.tool}" if policy is not None else "for all tools"
    match detector:
        case Detector.REPEATED_TOOL_ERROR:
            retries = 2 if policy is None else policy.error_retries
            setting = f"ends the turn after errorRetries ({retries}) more than the first attempt"
        case Detector.COMPACTION_LOOP_PERSISTED:
            setting = f"ends the turn at postCompactionGuard.windowSize ({limits.window_size}) identical calls"
        case Detector.GLOBAL_CIRCUIT_BREAKER:
            setting = f"blocks at globalCircuitBreakerThreshold ({bounds.breaker}, {where})"
        case Detector.UNKNOWN_TOOL_REPEAT:
            setting = f"blocks at unknownToolThreshold ({bounds.unknown_tool}, {where})"
        case Detector.CALL_LIMIT:
            setting = "ends the turn at limits.callsPerRun or limits.callsPerTurn"
        case _ if warning:
            setting = f"notes at warningThreshold ({bounds.warning}, {where})"
        case _ if made.call.kind is CallKind.WAIT:
            setting = "blocks a wait at 10"
        case _:
            setting = f"blocks at criticalThreshold ({bounds.critical}, {where})"
    return f"{words}: {setting}; section {section} of the contract"


def reset(run: RunWalk, detector: Detector, *, warning: bool) -> str:
    """What would have started the count anew."""
    if detector is Detector.GENERIC_REPEAT and warning:
        history = run.limits.history_size
        return f"another tool or other arguments: equal calls of the last {history} count, with any result"
    return _RESETS[detector].format(history=run.limits.history_size)
