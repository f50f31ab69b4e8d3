"""The rule behind a verdict, in words and with the setting that decides, and what would have reset its count."""

from __future__ import annotations

from typing import Final

from ..answers import Detector
from ..core.observe import CallKind
from ..core.streaks.error_cascade import WARNING as CASCADE
from ..core.streaks.stagnation import REMEMBERED as STAGNATION_REMEMBERED
from .reasons import equal_failures, exec_failures, failing_row, no_progress
from .walk import Made, RunWalk

_LEAVING: Final = "so many other calls that these leave the last {history} of the run"
_NEW_RESULT: Final = f"another result of this call, in what is compared of it (section 5); or {_LEAVING}"
_CHANGE: Final = "; or a success of a tool with mutates"
_COMMANDS: Final = "a command that works, a command that fails in another way, or a call of another tool"
_RESETS: Final = {
    Detector.GENERIC_REPEAT: _NEW_RESULT,
    Detector.GLOBAL_CIRCUIT_BREAKER: _NEW_RESULT,
    Detector.KNOWN_POLL_NO_PROGRESS: _NEW_RESULT,
    Detector.PING_PONG: "a third call in between, or one of the two twice in a row",
    Detector.ARGUMENT_CHURN: "a call of another tool, a call of this one that works and changes something, or another "
    "error than these calls share",
    Detector.UNKNOWN_TOOL_REPEAT: "a call of another tool, or any other answer of this one than that it does not exist",
    Detector.STAGNATION: "a response with a call that was not among the last {remembered} different ones or that comes "
    "back with another outcome than its last, a user message, or a compaction",
    Detector.REPEATED_TOOL_ERROR: "a call that works, a failure of another tool, with other arguments or with another "
    "error, or a user message",
    Detector.COMPACTION_LOOP_PERSISTED: "one call that differs in tool, arguments or result; the guard then rests "
    "until the next compaction",
}
_RULES: Final = {
    Detector.GENERIC_REPEAT: ("the same call, over and over", "6"),
    Detector.GLOBAL_CIRCUIT_BREAKER: ("the circuit breaker: no progress, whatever the detectors say", "6"),
    Detector.KNOWN_POLL_NO_PROGRESS: ("a status poller whose answer does not move", "6"),
    Detector.PING_PONG: ("two calls that take turns", "6"),
    Detector.ARGUMENT_CHURN: ("one tool that comes to nothing while its arguments go round", "6"),
    Detector.UNKNOWN_TOOL_REPEAT: ("a tool that does not exist", "6"),
    Detector.STAGNATION: ("nothing new comes back", "11.2"),
    Detector.ERROR_CASCADE: ("failure after failure", "11.2"),
    Detector.CALL_LIMIT: ("the ceiling on calls", "11.2"),
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
            told = {"callsPerTurn": limits.calls_per_turn, "callsPerRun": limits.calls_per_run}
            ceilings = " and ".join(f"limits.{key} ({most})" for key, most in told.items() if most is not None)
            setting = f"ends the turn before a batch that would pass {ceilings}"
        case Detector.ERROR_CASCADE:
            setting = f"notes at {CASCADE}"
        case _ if warning:
            setting = f"notes at warningThreshold ({bounds.warning}, {where})"
        case _ if made.call.kind is CallKind.WAIT:
            setting = "blocks a wait at 10"
        case _:
            setting = f"blocks at criticalThreshold ({bounds.critical}, {where})"
    return f"{words}: {setting}; section {section} of the contract"


def reset(run: RunWalk, made: Made, detector: Detector, *, warning: bool) -> str:
    """What would have started the count of this verdict about this call anew."""
    return _reset(run, made, detector, warning=warning).format(
        history=run.limits.history_size, remembered=STAGNATION_REMEMBERED
    )


def _reset(run: RunWalk, made: Made, detector: Detector, *, warning: bool) -> str:
    limits = run.limits
    mutating = any(policy.mutates for _, policy in limits.policies)
    match detector:
        case Detector.GENERIC_REPEAT if warning:
            return f"{_LEAVING}: all equal calls in it count, whatever came of them{_CHANGE if mutating else ''}"
        case Detector.GENERIC_REPEAT | Detector.GLOBAL_CIRCUIT_BREAKER | Detector.KNOWN_POLL_NO_PROGRESS:
            commands = exec_failures(run, made)[0] > no_progress(run, made)[0]
            attempts = mutating and (warning or commands)
            return (_COMMANDS if commands else _RESETS[detector]) + (_CHANGE if attempts else "")
        case Detector.PING_PONG if not warning:
            return f"{_RESETS[detector]}; the block, another result of either, while it is among the last {{history}}"
        case Detector.PING_PONG | Detector.ARGUMENT_CHURN:
            return _RESETS[detector] + (_CHANGE if mutating else "")
        case Detector.ERROR_CASCADE:
            return _cascade(run, made)
        case Detector.CALL_LIMIT:
            turn = "a user message or a new run" if limits.calls_per_turn is not None else ""
            whole = "a new run" if limits.calls_per_run is not None else ""
            if turn and whole:
                return f"of callsPerTurn {turn}, of callsPerRun {whole}"
            return turn or whole
    return _RESETS[detector]


def _cascade(run: RunWalk, made: Made) -> str:
    """Of the two counts, those that have got far enough."""
    equal = f"{_LEAVING}; no success and no other failure in between does"
    if failing_row(run, made)[0] < CASCADE:
        return equal
    if equal_failures(run, made)[0] < CASCADE:
        return "any call that works"
    return f"of the responses in a row any call that works; of the equal failures {equal}"
