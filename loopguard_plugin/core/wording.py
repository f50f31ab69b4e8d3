"""Every sentence that the model or an operator reads in a result, a reason or an error. No contents but the last error.

Tool names are shown as the model wrote them, shortened.
"""

from __future__ import annotations

from typing import Final

from ..answers import Detector

NAME_LIMIT: Final = 80  # characters of a tool name shown

# What stayed the same, by detector, completing "…".
_WHAT: Final = {
    Detector.UNKNOWN_TOOL_REPEAT: "the tool {tool} does not exist here and was asked for {count} times in a row",
    Detector.GLOBAL_CIRCUIT_BREAKER: "{tool} was called {count} times with the same arguments and nothing changed",
    Detector.KNOWN_POLL_NO_PROGRESS: "{tool} was polled {count} times and the status did not change",
    Detector.PING_PONG: "{tool} and one other call have alternated {count} times",
    Detector.GENERIC_REPEAT: "{tool} was called {count} times with the same arguments",
    Detector.ARGUMENT_CHURN: "{tool} was called {count} times with the same few arguments and nothing came of any",
    Detector.STAGNATION: "{tool} is part of a round of calls that has gone on for {count} steps",
    Detector.ERROR_CASCADE: "{count} steps in a row have failed, whichever tool was used",
    Detector.CALL_LIMIT: "the limit of tool calls is reached after {count} of them",
}

_SAME: Final = {
    Detector.GENERIC_REPEAT: "{tool} gave the same outcome {count} times in a row",
    Detector.PING_PONG: "{tool} and one other call have alternated {count} times with the same outcomes",
    Detector.STAGNATION: "{tool} is part of a round of calls that has gone on for {count} steps with the same outcomes",
}

# One concrete next step, by detector.
_NEXT: Final = {
    Detector.KNOWN_POLL_NO_PROGRESS: "Wait longer before the next check, do something else meanwhile, or report that "
    "it is still not done.",
    Detector.PING_PONG: "Decide with what the two calls have shown already, or try a third way.",
    Detector.GENERIC_REPEAT: "Use the result you have, or change the arguments or the tool.",
    Detector.STAGNATION: "Leave the round: use what its steps have shown already, or try another way.",
    Detector.ERROR_CASCADE: "Stop and look for the cause that the failures share before trying another tool.",
    Detector.ARGUMENT_CHURN: "Read the latest result for the reason and change the approach, not only the arguments.",
}


def name(tool: str) -> str:
    """A tool name for a sentence, quoted and shortened."""
    flat = " ".join(tool.split())
    return f"`{flat[:NAME_LIMIT]}…`" if len(flat) > NAME_LIMIT else f"`{flat or 'tool'}`"


def _fill(text: str, tool: str, count: int) -> str:
    return text.format(tool=name(tool), count=count)


def note(detector: Detector, tool: str, count: int) -> str:
    """The note that is appended to a delivered result (SPEC 7)."""
    return f"[loopguard] Possible loop: {_fill(_WHAT[detector], tool, count)}. {_NEXT[detector]}"


def _happened(detector: Detector, tool: str, count: int) -> str:
    return _fill(_SAME.get(detector) or _WHAT[detector], tool, count)


def culprit(detector: Detector, tool: str, count: int) -> str:
    """Why the call that repeats was not run (SPEC 9)."""
    if detector is Detector.CALL_LIMIT:
        return f"[loopguard] This call was not run: {_happened(detector, tool, count)}. Answer with what you know."
    return (
        f"[loopguard] This call was not run: {_happened(detector, tool, count)}. Do not repeat this exact action. "
        "Answer with what you know, ask the user, or use another tool or other arguments."
    )


def sibling(detector: Detector, tool: str, count: int) -> str:
    """Why another call of the blocked batch was not run (SPEC 9)."""
    if detector is Detector.CALL_LIMIT:
        return culprit(detector, tool, count)
    return (
        f"[loopguard] This call was not run because another call of the same response repeats: "
        f"{_happened(detector, tool, count)}. Ask for it again without that one if you still need it."
    )


def loop_persisted(detector: Detector, tool: str, count: int) -> str:
    """Why the turn ends after a second critical loop."""
    return (
        f"[loopguard] The turn was ended: a tool loop went on after a first block: "
        f"{_happened(detector, tool, count)}. Say what to do differently to go on."
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
