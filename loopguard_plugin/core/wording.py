"""Every sentence that the model or an operator reads in a result, a reason or an error. No contents but the last error.

Tool names are shown as the model wrote them, shortened.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..answers import Detector

if TYPE_CHECKING:
    from .precedence import Loop

NAME_LIMIT: Final = 80  # characters of a tool name shown
ERROR_LIMIT: Final = 200  # characters of an error that a note names
MOST_NAMES: Final = 5  # tools that a sentence names

# What happened, by detector: why a call was blocked, and what a note begins with.
_WHAT: Final = {
    Detector.UNKNOWN_TOOL_REPEAT: "the tool {tool} does not exist here and was asked for {count} times in a row",
    Detector.GLOBAL_CIRCUIT_BREAKER: "{tool} was called {count} times with the same arguments and nothing changed",
    Detector.KNOWN_POLL_NO_PROGRESS: "{tool} was polled {count} times and the status did not change",
    Detector.PING_PONG: "{tool} and one other call have alternated {count} times with the same outcomes",
    Detector.GENERIC_REPEAT: "{tool} came back with the same outcome {count} times in a row",
    Detector.ARGUMENT_CHURN: "{tool} was called {count} times with the same few arguments and nothing came of any",
    Detector.STAGNATION: "the last {count} responses brought nothing new: each call of them ({tools}) was made before "
    "and came back as it did the last time",
    Detector.CALL_LIMIT: "the limit of tool calls is reached after {count} of them",
}

_PROGRESS: Final = (
    "If that is the progress you expect, nothing needs to change. If you are waiting, wait longer before "
)
_GUESSING: Final = "If you are guessing, stop and find out first what would have to be different."

# The note: what was counted and whether the outcomes were equal, then one next step. By detector and by what came of
# the calls: all of them equal, this one too ("same"); equal failures, this one too ("failed"); equal up to this one,
# which differs ("moved"); different all along ("differed"). A note never sends the model back to a result that changed.
_NOTES: Final[dict[Detector, dict[str, str]]] = {
    Detector.GENERIC_REPEAT: {
        "same": "{tool} was called {count} times before with the same arguments, and the result was the same each "
        "time. Use the result you have, or change the arguments or the tool.",
        "failed": "{tool} was called {count} times before with the same arguments and failed in the same way each "
        "time. Remove the cause that the error names, or change the arguments or the tool.",
        "moved": "{tool} was called {count} times before with the same arguments and the same result; this result is "
        f"another one. {_PROGRESS}the next call. {_GUESSING}",
        "differed": "{tool} was called {count} times before with the same arguments, and its result differed. "
        f"{_PROGRESS}the next call. {_GUESSING}",
    },
    Detector.KNOWN_POLL_NO_PROGRESS: {
        "same": "{tool} was polled {count} times before and the status has not changed. Wait longer before the next "
        "check, do something else meanwhile, or report that it is still not done.",
        "failed": "{tool} was polled {count} times before and failed in the same way each time. Remove the cause that "
        "the error names, or report that the status cannot be read.",
        "moved": "{tool} was polled {count} times before without a change; the status has changed now. Go on with this "
        "status, and wait longer between checks if it is still not done.",
    },
    Detector.PING_PONG: {
        "same": "{tool} and one other call have alternated {count} times, and each came back with the same outcome "
        "every time. Decide with what the two calls have shown already, or try a third way.",
        "failed": "{tool} and one other call have alternated {count} times, and each came back with the same outcome "
        "every time. Remove the cause that the error names before making either call again.",
        "moved": "{tool} and one other call have alternated {count} times with the same outcomes; this result is "
        f"another one. {_PROGRESS}the next round. {_GUESSING}",
        "differed": "{tool} and one other call have alternated {count} times, and their results differed. "
        f"{_PROGRESS}the next round. {_GUESSING}",
    },
    Detector.ARGUMENT_CHURN: {
        "same": "{tool} was called {count} times before with the same few arguments and changed nothing. Look at the "
        "current state first, then change the approach, not only the arguments.",
        "failed": "{tool} was called {count} times before with the same few arguments and failed in the same way each "
        "time. Remove the cause that the error names; other arguments of this kind will not.",
        "moved": "{tool} was called {count} times before with the same few arguments and nothing came of any; this "
        "result is another one. Go on from this result.",
    },
    Detector.STAGNATION: {
        "same": "the last {count} responses brought nothing new: each call of them ({tools}) was made before and "
        "came back as it did the last time, this one too. Answer with what these calls have shown, or make a call that "
        "you have not made yet.",
        "failed": "the last {count} responses brought nothing new: each call of them ({tools}) was made before and "
        "came back as it did the last time, this one too. Remove the cause that the error names, or make a call that "
        "you have not made yet.",
        "moved": "the last {count} responses brought nothing new: each call of them ({tools}) was made before and came "
        "back as it did the last time. This result is new: go on from it.",
    },
}
_CASCADE: Final = {
    True: "the last {count} responses all failed, with different calls.",
    False: "{tool} failed in the same way {count} times among the latest calls.",
}
_CASCADE_NEXT: Final = {
    True: "Look for the cause that these failures share, and remove it before you try another call.",
    False: "This call worked: go on from it, and do not go back to what failed.",
}
NOTED: Final = (*_NOTES, Detector.ERROR_CASCADE)  # the detectors that warn


def name(tool: str) -> str:
    """A tool name for a sentence, quoted and shortened."""
    flat = " ".join(tool.split())
    return f"`{flat[:NAME_LIMIT]}…`" if len(flat) > NAME_LIMIT else f"`{flat or 'tool'}`"


def _fill(text: str, tool: str, loop: Loop) -> str:
    fill = _filled if len(tool) <= NAME_LIMIT else _filled.__wrapped__
    return fill(text, tool, loop.count, loop.tools)


# A run that stays stuck is told the same in more than one place, again and again.
@functools.lru_cache(maxsize=64)
def _filled(text: str, tool: str, count: int, tools: tuple[str, ...]) -> str:
    return text.format(tool=name(tool), count=count, tools=_listed(tools))


def _listed(tools: Sequence[str]) -> str:
    """Tool names for a sentence, the first few of them."""
    shown = [name(tool) for tool in tools[:MOST_NAMES]]
    more = len(tools) - len(shown)
    if more > 0:
        shown.append("others")
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)


def note(loop: Loop, tool: str, *, again: bool, failed: bool) -> str:
    """The note that is appended to a delivered result (SPEC 7). It names the error where ``quoting`` is given one.

    ``again``: the call came back once more with the outcome that was counted; ``failed``: it failed.
    """
    if loop.detector is Detector.ERROR_CASCADE:
        text = f"{_CASCADE[loop.row]} {_CASCADE_NEXT[failed]}"
    else:
        texts = _NOTES[loop.detector]
        if not loop.same:
            kind = "differed"
        elif not again:
            kind = "moved"
        else:
            kind = "failed" if failed else "same"
        text = texts.get(kind) or texts["same"]
    return f"[loopguard] Possible loop: {_fill(text, tool, loop)}"


def quoting(note: str, error: str) -> str:
    """The note with the error that its call settled with, shortened."""
    flat = " ".join(error.split())
    shown = f"{flat[:ERROR_LIMIT]}…" if len(flat) > ERROR_LIMIT else flat
    return f"{note} The error: {shown}" if shown else note


def culprit(loop: Loop, tool: str) -> str:
    """Why the call that repeats was not run (SPEC 9)."""
    what = _fill(_WHAT[loop.detector], tool, loop)
    if loop.detector is Detector.CALL_LIMIT:
        return f"[loopguard] This call was not run: {what}. Answer with what you know."
    return (
        f"[loopguard] This call was not run: {what}. Do not repeat this exact action. "
        "Answer with what you know, ask the user, or use another tool or other arguments."
    )


def sibling(loop: Loop, tool: str) -> str:
    """Why another call of the blocked batch was not run (SPEC 9)."""
    if loop.detector is Detector.CALL_LIMIT:
        return culprit(loop, tool)
    return (
        f"[loopguard] This call was not run because another call of the same response repeats: "
        f"{_fill(_WHAT[loop.detector], tool, loop)}. Ask for it again without that one if you still need it."
    )


def loop_persisted(loop: Loop, tool: str) -> str:
    """Why the turn ends after a second critical loop."""
    return (
        f"[loopguard] The turn was ended: a tool loop went on after a first block: "
        f"{_fill(_WHAT[loop.detector], tool, loop)}. Say what to do differently to go on."
    )


def limit_reached(count: int) -> str:
    """Why the turn ends at a hard ceiling of calls."""
    return f"[loopguard] The turn was ended: the limit of tool calls is reached after {count} of them."


def repeated_error(tool: str, count: int, text: str) -> str:
    """Why the turn ends after identical failures (SPEC 4). ``text``: the last error, shortened already."""
    stop = "" if text[-1:] in (".", "!", "?", "…") else "."
    error = f" Last error: {text}{stop}" if text else ""
    return (
        f"[loopguard] The turn was ended: {name(tool)} failed {count} times in a row with the same arguments and the "
        f"same error.{error} Check the arguments of the call, or switch to a model with native tool calling."
    )


def compaction_persisted(tool: str, count: int) -> str:
    """Why the turn ends after a compaction that did not help (SPEC 10)."""
    return (
        f"[loopguard] The turn was ended: right after the context was compacted, {name(tool)} made {count} identical "
        "calls with identical outcomes. Start again with a smaller task, or tell the agent what to do next."
    )


def ended_sibling(message: str) -> str:
    """Why a call that had not started is not run once the turn's end is certain."""
    return f"[loopguard] This call was not run because the turn is ending. {message.removeprefix('[loopguard] ')}"
