"""What Claude Code's transcript and its stream have in common: messages of the Anthropic API, one block a line.

The lines of one response share ``message.id`` and may be interleaved with the results of its first calls, so the
calls and results of a response are held back until the next response of the same agent begins: then the whole batch
is known. Agents (the main one, each sub-agent) are told apart by the formats themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items, Placed
from .shell import finished
from .talk import Talk
from .values import Object, as_list, as_object, said_text, text_of

_EXIT = re.compile(r"Exit code (\d+)(?:\n|$)")
_WRAPPED = re.compile(r"\s*<tool_use_error>(.*)</tool_use_error>\s*", re.DOTALL)
_UNKNOWN = re.compile(r"(?:Error: )?No such tool available")
_NOT_TYPED = (
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<task-notification>",
    "<system-reminder>",
    "This session is being continued from a previous conversation",
)
INTERRUPT = "[Request interrupted by user"


class Chain:
    """One agent's line of responses. Feed it messages; it gives events as soon as a response is complete."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._response: str | None = None
        self._calls: list[BatchCall] = []
        self._seen: set[str] = set()
        self._held: list[tuple[int, int | Object]] = []  # a call's place in the batch, or a result block

    def assistant(self, message: Object, response: str, line: int) -> Items:
        """One line of a response. ``response`` tells it from the next one."""
        if response != self._response:
            yield from self.flush()
            self._response = response
        for block in map(as_object, as_list(message.get("content"))):
            call_id = text_of(block, "id")
            if block.get("type") != "tool_use" or call_id in self._seen:
                continue
            if call_id:
                self._seen.add(call_id)
            self._held.append((line, len(self._calls)))
            self._calls.append(BatchCall(call_id, text_of(block, "name"), block.get("input")))

    def result(self, block: Object, line: int) -> None:
        """One ``tool_result`` block."""
        self._held.append((line, block))

    def flush(self) -> Items:
        """The response is complete: its starts, each with the whole batch, and the results in the order they came."""
        starts = self.talk.asked(self._calls) if self._calls else []
        for line, what in self._held:
            yield Placed(starts[what] if isinstance(what, int) else self._settled(what), line)
        self._response = None
        self._calls, self._held = [], []
        self._seen.clear()

    def _settled(self, block: Object) -> Event:
        call_id = text_of(block, "tool_use_id")
        content = block.get("content")
        if block.get("is_error") is not True:
            return self.talk.settled(call_id, result=content, status=Status.OK)
        status, result = failure(content, self.talk.tool(call_id))
        return self.talk.settled(call_id, result=result, status=status)


def failure(content: object, tool: str) -> tuple[Status, object]:
    """What a failed result says, and the result to compare.

    A call that was never run because a sibling of its batch failed is ``skipped``: the same words for other arguments
    are no loop. A failed shell command is compared by exit code and output.
    """
    text = said_text(content)
    wrapped = _WRAPPED.fullmatch(text)
    inner = wrapped.group(1) if wrapped else text
    if wrapped and inner.startswith("Sibling tool call errored"):
        return Status.SKIPPED, content
    if wrapped and inner.startswith("InputValidationError"):
        return Status.REJECTED, content
    if _UNKNOWN.match(inner):
        return Status.UNKNOWN_TOOL, content
    if text.startswith("The user doesn't want to proceed with this tool use"):
        return Status.DENIED, content
    exit_line = _EXIT.match(text)
    if exit_line and tool.casefold() == "bash":
        return Status.ERROR, finished(int(exit_line.group(1)), text[exit_line.end() :])
    return Status.ERROR, content


def results_of(message: Object) -> Iterator[Object]:
    """The ``tool_result`` blocks of a user message."""
    for block in map(as_object, as_list(message.get("content"))):
        if block.get("type") == "tool_result":
            yield block


def typed(message: Object) -> bool:
    """Whether a person wrote this message, by what it says: not a result, an interrupt or a word of the program."""
    content = message.get("content")
    text = said_text(content).lstrip()
    if not text:
        return any(as_object(block).get("type") == "image" for block in as_list(content))
    return not text.startswith((*_NOT_TYPED, INTERRUPT))


def interrupted(message: Object) -> bool:
    """Whether this message says that the user stopped the agent."""
    return said_text(message.get("content")).lstrip().startswith(INTERRUPT)


def by_hand(boundary: Object, metadata: str) -> bool:
    """Whether the user asked for a compaction (``/compact``): then the agent does not go on with what it was doing."""
    return as_object(boundary.get(metadata)).get("trigger") == "manual"
