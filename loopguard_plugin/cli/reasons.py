"""What the guard had counted when it spoke, by the numbers of the recorded events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from ..answers import Detector
from ..events import Status
from .walk import Made, RunWalk

_LISTED: Final = 40  # events that are named one by one

Told: TypeAlias = tuple[int, list[str]]  # how many were counted, and which


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


def no_progress(run: RunWalk, made: Made) -> Told:
    """The no-progress streak that a call meets."""
    equal, vetoes = equal_outcomes(run, made)
    told = []
    if equal:
        word = "failed in the same way" if _failed(equal[-1]) else "gave the same result"
        told.append(f"{counted(len(equal), 'call')} with these arguments {word}, up to the latest:")
        told.append(f"  results at events {results(equal)}")
    if vetoes:
        told.append(f"{counted(len(vetoes), 'blocked call')} of it count too: events {numbers(v.at for v in vetoes)}")
    more, words = beside(run, made)
    return len(equal) + len(vetoes) + more, told + words


def beside(run: RunWalk, made: Made) -> Told:
    """Earlier calls of the same response that count."""
    same = [one for one in run.siblings(made) if one.call.key == made.call.key]
    if not same:
        return 0, []
    return len(same), [f"{counted(len(same), 'earlier call')} of the same response, taken as if it had come to nothing"]


def _failed(made: Made) -> bool:
    return made.settlement is not None and made.settlement.error_text is not None


def repeats(run: RunWalk, made: Made) -> Told:
    """Every call in the history with this tool and these arguments, whatever came of it."""
    same = [one for one in run.before(made) if one.call.key == made.call.key]
    told = [
        f"{counted(len(same), 'call')} with these arguments among the last {run.limits.history_size} of the run:",
        f"  started at events {numbers(one.at for one in same)}",
    ]
    equal, _ = equal_outcomes(run, made)
    if equal:
        told.append(f"  of these the last {len(equal)} had equal results: events {results(equal)}")
    more, words = beside(run, made)
    return len(same) + more, told + words


def alternation(run: RunWalk, made: Made) -> Told:
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
    return len(stretch) + 1, told


def churn(run: RunWalk, made: Made) -> Told:
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
    return len(stretch), told


def missing_tool(run: RunWalk, made: Made) -> Told:
    """Calls in a row to a tool that does not exist."""
    stretch: list[Made] = []
    for one in reversed(run.before(made)):
        if one.vetoed:
            continue
        if one.call.tool != made.call.tool or one.settlement is None or not one.settlement.unknown_tool:
            break
        stretch.append(one)
    stretch.reverse()
    return len(stretch), [
        f"{counted(len(stretch), 'call')} in a row to {made.call.shown}, which does not exist:",
        f"  errors at events {results(stretch)}",
    ]


def failures(run: RunWalk, made: Made, message: int | None) -> Told:
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
    return len(stretch), [
        f"{counted(len(stretch), 'failure')} in a row with the same tool, arguments and error:",
        f"  errors at events {results(stretch)}",
    ]


def latest_failure(run: RunWalk) -> Made | None:
    """The last call in model call order that failed."""
    return max((one for one in run.made if _failed(one)), key=_order, default=None)


def _order(made: Made) -> tuple[int, int, int]:
    """Model call order."""
    return made.batch, made.index if made.index is not None else made.at, made.at


def after_compaction(run: RunWalk, made: Made) -> Told:
    """The calls since the context was compacted."""
    since = run.compaction or 0
    stretch = [one for one in run.made if one.settled is not None and one.settled > since and one.settlement]
    return len(stretch), [
        f"the context was compacted at event {since}; after it {counted(len(stretch), 'call')}, all the same:",
        f"  results at events {results(stretch)}",
    ]


def exec_failures(run: RunWalk, made: Made) -> Told:
    """Commands that failed for one cause, whatever their arguments (SPEC 6, "exec failures")."""
    if made.call.tool != "exec":
        return 0, []
    stretch: list[Made] = []
    vetoes: list[Made] = []
    waiting: list[Made] = []  # vetoes newer than the failures so far
    crossed = False  # a failure over other arguments was met
    for one in reversed(run.before(made)):
        if one.call.tool != "exec":
            break
        if one.vetoed:
            waiting += [one] if one.call.key == made.call.key else []
            continue
        if one.settlement is None or one.settlement.status is Status.REJECTED:
            continue
        if not _of_one_cause(one, stretch[0] if stretch else one):
            break
        if one.call.key == made.call.key and crossed:
            break
        crossed = crossed or one.call.key != made.call.key
        stretch.append(one)
        vetoes += waiting
        waiting = []
    more, words = beside(run, made)
    told = [
        f"{counted(len(stretch), 'command')} in a row failed for one cause (times, durations and ids left aside):",
        f"  results at events {results(stretch[::-1])}",
    ]
    if vetoes:
        told.append(f"{counted(len(vetoes), 'blocked call')} count too: events {numbers(v.at for v in vetoes[::-1])}")
    return len(stretch) + len(vetoes) + more, told + words


def _of_one_cause(one: Made, newest: Made) -> bool:
    """Whether a command failed as the newest one did, by its outcome or its failure identity."""
    mine, other = one.settlement, newest.settlement
    if mine is None or other is None or mine.failure is None:
        return False
    return mine.outcome == other.outcome or mine.failure == other.failure


def counted(count: int, word: str) -> str:
    """A number and its noun."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def streak(
    run: RunWalk, made: Made, detector: Detector, count: int, *, warning: bool, message: int | None
) -> Told:
    """What was counted for a verdict of this detector about this call. ``message``: event of the last user message."""
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
            return max(no_progress(run, made), exec_failures(run, made), key=lambda told: told[0])
    recent = [*run.before(made), *run.siblings(made)][-count:]
    return count, ["the latest calls of the run:", f"  started at events {numbers(one.at for one in recent)}"]
