"""Why the guard said what it said: the streak by event numbers, the rule, and what would have reset it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..answers import Detector
from ..core.observe import CallKind
from .walk import Made, RunWalk

_LISTED: Final = 40  # events that are named one by one


def numbers(events: Iterable[int]) -> str:
    """Event numbers as people read them."""
    listed = list(events)
    if len(listed) <= _LISTED:
        return ", ".join(map(str, listed))
    half = _LISTED // 2
    return f"{', '.join(map(str, listed[:half]))}, … {', '.join(map(str, listed[-half:]))}"


def results(made: Sequence[Made]) -> str:
    """Where the results of these calls stand."""
    return numbers(one.settled for one in made if one.settled is not None)


def equal_outcomes(run: RunWalk, made: Made) -> tuple[list[Made], list[Made]]:
    """The latest calls like this one whose outcomes are equal, and the vetoes that count with them, oldest first."""
    equal: list[Made] = []
    vetoes: list[Made] = []
    waiting: list[Made] = []
    for one in reversed(run.before(made)):
        if one.call.key != made.call.key:
            continue
        if one.vetoed:
            waiting.append(one)
        elif one.outcome is None:
            continue
        elif equal and one.outcome != equal[0].outcome:
            break
        else:
            equal.append(one)
            vetoes += waiting
            waiting = []
    if not equal:
        vetoes = waiting
    return equal[::-1], vetoes[::-1]


def no_progress(run: RunWalk, made: Made) -> tuple[str, ...]:
    """The no-progress streak that a call meets."""
    equal, vetoes = equal_outcomes(run, made)
    told = []
    if equal:
        word = "failed in the same way" if _failed(equal[-1]) else "gave the same result"
        told.append(f"{counted(len(equal), 'call')} with these arguments {word}, up to the latest:")
        told.append(f"  results at events {results(equal)}")
    if vetoes:
        told.append(f"{counted(len(vetoes), 'blocked call')} of it count too: events {numbers(v.at for v in vetoes)}")
    told += beside(run, made)
    return tuple(told)


def beside(run: RunWalk, made: Made) -> list[str]:
    """Earlier calls of the same response that count."""
    same = [one for one in run.siblings(made) if one.call.key == made.call.key]
    if not same:
        return []
    return [f"{counted(len(same), 'earlier call')} of the same response, taken as if it had come to nothing"]


def _failed(made: Made) -> bool:
    return made.settlement is not None and made.settlement.error_text is not None


def repeats(run: RunWalk, made: Made) -> tuple[str, ...]:
    """Every call in the history with this tool and these arguments, whatever came of it."""
    same = [one for one in run.before(made) if one.call.key == made.call.key]
    told = [
        f"{counted(len(same), 'call')} with these arguments among the last {run.limits.history_size} of the run:",
        f"  started at events {numbers(one.at for one in same)}",
    ]
    equal, _ = equal_outcomes(run, made)
    if equal:
        told.append(f"  of these the last {len(equal)} had equal results: events {results(equal)}")
    return (*told, *beside(run, made))


def alternation(run: RunWalk, made: Made) -> tuple[str, ...]:
    """The two calls that take turns, up to this one."""
    before = [*run.before(made), *run.siblings(made)]
    stretch: list[Made] = []
    for one in reversed(before):
        expected = before[-1].call.key if len(stretch) % 2 == 0 else made.call.key
        if one.call.key != expected or before[-1].call.key == made.call.key:
            break
        stretch.append(one)
    stretch.reverse()
    sides = {key: [one for one in stretch if one.call.key == key] for key in {one.call.key for one in stretch}}
    told = [f"{counted(len(stretch), 'call')} in strict alternation, and this one:"]
    for side in sides.values():
        same = len({one.outcome for one in side if not one.vetoed}) == 1
        word = "always the same result" if same else "results that changed or are missing"
        told.append(f"  {side[0].call.shown} at events {numbers(one.at for one in side)}: {word}")
    return tuple(told)


def churn(run: RunWalk, made: Made) -> tuple[str, ...]:
    """Unbroken calls of one tool that all came to nothing in the same way."""
    stretch: list[Made] = []
    for one in reversed(run.before(made)):
        if one.call.tool != made.call.tool:
            break
        if one.outcome is None:
            continue
        if stretch and one.outcome != stretch[0].outcome:
            break
        stretch.append(one)
    stretch.reverse()
    kinds: dict[int, list[Made]] = {}
    for one in stretch:
        kinds.setdefault(one.call.key, []).append(one)
    told = [f"{counted(len(stretch), 'call')} of {made.call.shown} in a row, all with one outcome:"]
    told += [f"  the same arguments at events {numbers(one.at for one in kind)}" for kind in kinds.values()]
    return tuple(told)


def missing_tool(run: RunWalk, made: Made) -> tuple[str, ...]:
    """Calls in a row to a tool that does not exist."""
    stretch: list[Made] = []
    for one in reversed(run.before(made)):
        if one.vetoed:
            continue
        if one.call.tool != made.call.tool or one.settlement is None or not one.settlement.unknown_tool:
            break
        stretch.append(one)
    stretch.reverse()
    return (
        f"{counted(len(stretch), 'call')} in a row to {made.call.shown}, which does not exist:",
        f"  errors at events {results(stretch)}",
    )


def failures(run: RunWalk, made: Made, message: int | None) -> tuple[str, ...]:
    """The identical failures in a row that this settlement ended."""
    stretch: list[Made] = []
    for one in sorted((one for one in run.made if one.settled is not None), key=_order, reverse=True):
        if _order(one) > _order(made):
            continue
        if message is not None and (one.settled or 0) < message:
            break
        if one.settlement is None:
            continue
        if not _failed(one) or (one.call.key, one.outcome) != (made.call.key, made.outcome):
            break
        stretch.append(one)
    stretch.reverse()
    return (
        f"{counted(len(stretch), 'failure')} in a row with the same tool, arguments and error:",
        f"  errors at events {results(stretch)}",
    )


def _order(made: Made) -> tuple[int, int, int]:
    """Model call order."""
    return made.batch, made.index if made.index is not None else made.at, made.at


def after_compaction(run: RunWalk, made: Made) -> tuple[str, ...]:
    """The calls since the context was compacted."""
    since = run.compaction or 0
    stretch = [one for one in run.made if one.settled is not None and one.settled > since and one.settlement]
    return (
        f"the context was compacted at event {since}; after it {counted(len(stretch), 'call')}, all the same:",
        f"  results at events {results(stretch)}",
    )


def exec_failures(run: RunWalk, made: Made) -> tuple[str, ...]:
    """Commands that failed for one cause, whatever their arguments; empty where another streak is longer."""
    if made.call.tool != "exec":
        return ()
    stretch: list[Made] = []
    for one in reversed(run.before(made)):
        if one.call.tool != "exec":
            break
        if one.settlement is None or one.vetoed:
            continue
        failure = one.settlement.failure
        if failure is None or (stretch and stretch[0].settlement and failure != stretch[0].settlement.failure):
            break
        stretch.append(one)
    stretch.reverse()
    if len(stretch) <= len(equal_outcomes(run, made)[0]):
        return ()
    return (
        f"{counted(len(stretch), 'command')} in a row failed for one cause (times, durations and ids left aside):",
        f"  results at events {results(stretch)}",
    )


def counted(count: int, word: str) -> str:
    """A number and its noun."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


_NEW_RESULT: Final = "another result of this call; or enough other calls, so that these leave the last {history}"
_RESETS: Final = {
    Detector.GENERIC_REPEAT: _NEW_RESULT,
    Detector.GLOBAL_CIRCUIT_BREAKER: _NEW_RESULT,
    Detector.KNOWN_POLL_NO_PROGRESS: "a status that differs from the last one in any way",
    Detector.PING_PONG: "a third call in between, or the same call twice; for the block, another result of either",
    Detector.ARGUMENT_CHURN: "a call of another tool, a success that changes something, or another error",
    Detector.UNKNOWN_TOOL_REPEAT: "any call of a tool that exists",
    Detector.CYCLE: "another result of any of these calls, or a call that is none of them",
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
    Detector.CYCLE: ("several calls that go round", "6"),
    Detector.ERROR_CASCADE: ("tools that fail one after another", "6"),
    Detector.CALL_LIMIT: ("the ceiling on calls", "6"),
    Detector.REPEATED_TOOL_ERROR: ("repeated tool errors, always on", "4"),
    Detector.COMPACTION_LOOP_PERSISTED: ("the guard after a compaction", "10"),
}


def streak(run: RunWalk, made: Made, detector: Detector, *, warning: bool, message: int | None) -> tuple[str, ...]:
    """What was counted for a verdict of this detector about this call."""
    match detector:
        case Detector.REPEATED_TOOL_ERROR:
            return failures(run, made, message)
        case Detector.COMPACTION_LOOP_PERSISTED:
            return after_compaction(run, made)
        case Detector.PING_PONG:
            return alternation(run, made)
        case Detector.ARGUMENT_CHURN:
            return churn(run, made)
        case Detector.UNKNOWN_TOOL_REPEAT:
            return missing_tool(run, made)
        case Detector.GENERIC_REPEAT if warning:
            return repeats(run, made)
        case Detector.GENERIC_REPEAT | Detector.GLOBAL_CIRCUIT_BREAKER | Detector.KNOWN_POLL_NO_PROGRESS:
            return exec_failures(run, made) or no_progress(run, made)
    recent = [*run.before(made), *run.siblings(made)][-8:]
    return ("the latest calls of the run:", f"  started at events {numbers(one.at for one in recent)}")


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
