"""What the guard had counted when it spoke, by the numbers of the recorded events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from ..answers import Detector
from ..core.streaks.error_cascade import CALLS as CASCADE_CALLS
from ..core.streaks.error_cascade import TOOLS as CASCADE_TOOLS
from ..core.streaks.stagnation import REMEMBERED as STAGNATION_REMEMBERED
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
        elif equal and one.compared != equal[0].compared:
            break
        else:
            equal.append(one)
            vetoes += waiting
            waiting = []
    if not equal:
        vetoes = waiting
    return equal[::-1], vetoes[::-1]


def no_progress(run: RunWalk, made: Made, *, warning: bool = False) -> Told:
    """The no-progress streak that a call meets.

    For a warning, and for a command that fails, calls before the last change (``mutates``) were other attempts.
    """
    equal, vetoes = equal_outcomes(run, made)
    told = []
    if equal:
        word = "failed in the same way" if equal[-1].failed else "gave the same result"
        told.append(f"{counted(len(equal), 'call')} with these arguments {word}, up to the latest:")
        told.append(f"  results at events {results(equal)}")
    if vetoes:
        told.append(f"{counted(len(vetoes), 'blocked call')} of it count too: events {numbers(v.at for v in vetoes)}")
    more, words = beside(run, made)
    count = len(equal) + len(vetoes)
    calls, change = since_change(run, made)
    if change is not None and (warning or (made.call.tool == "exec" and equal and equal[-1].failed)):
        fresh = sum(one.call.key == made.call.key for one in calls)
        told.append(f"{fresh} of them since {change.call.shown} changed something at event {change.settled}")
        count = min(count, fresh)
    return count + more, told + words


def beside(run: RunWalk, made: Made) -> Told:
    """Earlier calls of the same response that count."""
    same = [one for one in run.siblings(made) if one.call.key == made.call.key]
    if not same:
        return 0, []
    return len(same), [f"{counted(len(same), 'earlier call')} of the same response, taken as if it had come to nothing"]


def repeats(run: RunWalk, made: Made) -> Told:
    """Every call in the history with this tool and these arguments, whatever came of it."""
    calls, change = since_change(run, made)
    same = [one for one in calls if one.call.key == made.call.key]
    where = f"among the last {run.limits.history_size} of the run"
    if change is not None:
        where = f"since {change.call.shown} changed something at event {change.settled}"
    told = [
        f"{counted(len(same), 'call')} with these arguments {where}:",
        f"  started at events {numbers(one.at for one in same)}",
    ]
    equal, _ = equal_outcomes(run, made)
    if equal:
        told.append(f"  of these the last {len(equal)} had equal results: events {results(equal)}")
    more, words = beside(run, made)
    return len(same) + more, told + words


def since_change(run: RunWalk, made: Made) -> tuple[list[Made], Made | None]:
    """The calls of the history since a tool that is declared to change things (``mutates``) last worked, and that one.

    All of the history, and None, where none did.
    """
    before = run.before(made)
    for at in reversed(range(len(before))):
        one = before[at]
        policy = run.limits.policy(one.call.tool)
        if policy is not None and policy.mutates and one.outcome is not None and not one.failed:
            return before[at + 1 :], one
    return before, None


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
        same = len({one.compared for one in side if not one.vetoed}) == 1
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
        if not one.failed or one.call.key != made.call.key or _error(run, one) != _error(run, made):
            break
        stretch.append(one)
    stretch.reverse()
    return len(stretch), [
        f"{counted(len(stretch), 'failure')} in a row with the same tool, arguments and error:",
        f"  errors at events {results(stretch)}",
    ]


def _error(run: RunWalk, made: Made) -> int | None:
    """What repeated tool errors compare: the error in full, or its identity where similar ones count."""
    return made.failure if run.limits.similar_errors else made.outcome


def latest_failure(run: RunWalk) -> Made | None:
    """The last call in model call order that failed."""
    return max((one for one in run.made if one.failed), key=_order, default=None)


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
    return one.settlement is not None and one.settlement.exec_failure and one.failure == newest.failure


def stagnation(run: RunWalk, made: Made, message: int | None) -> Told:
    """The responses in a row in which nothing new came back (SPEC 11.2)."""
    since = max(-1 if message is None else message, -1 if run.compaction is None else run.compaction)
    remembered: dict[int, int] = {}
    row: list[list[Made]] = []
    for over, response in run.responses(made):
        if over < since:
            continue
        said = news = False
        watched = [one for one in response if not _is_exempt(run, one, Detector.STAGNATION)]
        for one in watched:
            outcome = _outcome_by(one, over)
            if outcome is not None:
                news = remembered.pop(one.call.key, None) != outcome or news
                remembered[one.call.key] = outcome
                if len(remembered) > STAGNATION_REMEMBERED:
                    del remembered[next(iter(remembered))]
            said = said or one.vetoed or outcome is not None
        if news:
            row.clear()
        elif said:
            row.append(watched)
    calls: dict[int, list[Made]] = {}
    for response in row:
        for one in response:
            calls.setdefault(one.call.key, []).append(one)
    told = [f"{counted(len(row), 'response')} in a row with nothing but calls made before, each with its last outcome:"]
    told += [f"  {same[0].call.shown} at events {numbers(one.at for one in same)}" for same in calls.values()]
    return len(row), told


def _outcome_by(made: Made, over: int) -> int | None:
    """What is compared of a call, where it had settled when its response was over."""
    return made.compared if made.settled is not None and made.settled < over else None


def _is_exempt(run: RunWalk, made: Made, detector: Detector) -> bool:
    policy = run.limits.policy(made.call.tool)
    return policy is not None and detector in policy.exempt


def failing_row(run: RunWalk, made: Made) -> Told:
    """The responses in a row that failed (SPEC 11.2, "error cascade"); 0 while it is one tool with one or two calls."""
    row: list[list[Made]] = []
    for over, response in run.responses(made):
        settled = [one for one in response if _outcome_by(one, over) is not None]
        if not all(one.failed for one in settled):
            row.clear()
        elif settled:
            row.append(settled)
    calls = [one for response in row for one in response]
    if len({one.call.tool for one in calls}) < CASCADE_TOOLS and len({one.call.key for one in calls}) < CASCADE_CALLS:
        return 0, []
    return len(row), [
        f"{counted(len(row), 'response')} in a row failed, and nothing worked in between:",
        f"  errors at events {results(calls)}",
    ]


def equal_failures(run: RunWalk, made: Made) -> Told:
    """The failures of this tool in the history that equal its newest one, whatever their arguments (SPEC 11.2)."""
    failed = [one for one in run.before(made) if one.call.tool == made.call.tool and one.failure is not None]
    same = [one for one in failed if one.failure == failed[-1].failure]
    return len(same), [
        f"{counted(len(same), 'call')} of {made.call.shown} failed in one way, among the last "
        f"{run.limits.history_size} of the run (times, durations and ids left aside):",
        f"  errors at events {results(same)}",
    ]


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
        case Detector.STAGNATION:
            return stagnation(run, made, message)
        case Detector.ERROR_CASCADE:
            return max(failing_row(run, made), equal_failures(run, made), key=lambda told: told[0])
        case Detector.GENERIC_REPEAT if warning:
            return repeats(run, made)
        case Detector.GENERIC_REPEAT | Detector.GLOBAL_CIRCUIT_BREAKER | Detector.KNOWN_POLL_NO_PROGRESS:
            return max(no_progress(run, made, warning=warning), exec_failures(run, made), key=lambda told: told[0])
    recent = [*run.before(made), *run.siblings(made)][-count:]
    return count, ["the latest calls of the run:", f"  started at events {numbers(one.at for one in recent)}"]
