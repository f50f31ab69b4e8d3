"""mini-swe-agent: what its program says in the user's name, and its text mode.

In text mode a response holds one fenced block with a command, and the next user message what came of it. A response
without exactly one action is answered by a format error, which no user wrote: ``extra.interrupt_type`` says so in
newer versions, its words in older ones. Shape: ``agents/default.py`` and ``config/*.yaml`` in
SWE-agent/mini-swe-agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from ..events import BatchCall, Status
from .shell import finished
from .values import Object, as_object, said_text, text_of

_RETURN = re.compile(r"\s*<returncode>\s*(-?\d+)\s*</returncode>\s*")
_OUTPUT = re.compile(r"<output>\n?(.*?)\n?</output>\s*\Z", re.DOTALL)
_BLOCK = re.compile(r"```(?:bash|sh|mswea_bash_command)\s*\n(.*?)\n```", re.DOTALL)
_TIMEOUT = re.compile(r"The last command <command>.*</command> timed out", re.DOTALL)
_BY_PROGRAM = re.compile(r"Format error:|Tool call error:|Please (?:always )?provide exactly one action", re.IGNORECASE)
_OBSERVATION = "Observation: "


def outcome(message: Object) -> tuple[Status, object] | None:
    """How a command ended, if this message tells it as the agent does."""
    text = said_text(message.get("content"))
    extra = as_object(message.get("extra"))
    wrapped = _RETURN.match(text)
    code = extra.get("returncode", int(wrapped.group(1)) if wrapped else None)
    if not isinstance(code, int):
        return (Status.ERROR, text) if _TIMEOUT.match(text) else None
    output = extra.get("raw_output")
    if not isinstance(output, str):
        rest = text[wrapped.end() :] if wrapped else text
        told = _OUTPUT.match(rest)
        output = told.group(1) if told else rest
    return (Status.OK if code == 0 else Status.ERROR), finished(code, output)


def by_program(message: Object) -> bool:
    """Whether the agent's program wrote this user message."""
    told = text_of(as_object(message.get("extra")), "interrupt_type") == "FormatError"
    return told or _BY_PROGRAM.match(said_text(message.get("content")).lstrip()) is not None


def told_in_text(messages: Iterable[Object]) -> bool:
    """Whether commands are written in the text, one block a response."""
    listed = list(messages)
    if any(one.get("tool_calls") or one.get("function_call") for one in listed):
        return False
    pairs = pairwise(listed)
    return any(one.get("role") == "user" and outcome(one) is not None for one in listed) or any(
        one.get("role") == "assistant" and calls(one) and said_text(next_one.get("content")).startswith(_OBSERVATION)
        for one, next_one in pairs
    )


def calls(message: Object) -> list[BatchCall]:
    """The command of a response in text mode; none where it has not exactly one block."""
    blocks = _BLOCK.findall(said_text(message.get("content")))
    return [BatchCall("command", "bash", {"command": blocks[0].strip()})] if len(blocks) == 1 else []
