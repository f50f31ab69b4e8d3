"""Messages of the Anthropic API: a list, an object that holds one, or JSON lines. Cline and Roo keep theirs so.

A response is one assistant message with ``tool_use`` blocks; the user message after it holds the ``tool_result``
blocks. Tools that the provider runs (``server_tool_use``, ``mcp_tool_use``) have their results in the same message.
Text beside results that the program wrote (``<environment_details>`` and the like) is no user. Shape: the Messages API
reference of Anthropic.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .claude import failure
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, text_of

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


def fits(value: object) -> bool:
    """Whether a message in sight calls a tool, or holds the result of one, as in this API."""
    messages = (one for one in inner(value, "messages") if "role" in one)
    blocks = (as_object(block) for one in messages for block in as_list(one.get("content")))
    return any(_is_call(block) or _is_result(block) for block in blocks)


def read(source: Source, talks: Talks) -> Items:
    """Every conversation of one file."""
    return conversations(source, talks, Conversation, "messages")


class Conversation:
    """One conversation, message by message."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one message."""
        content = fields.get("content")
        blocks = [as_object(block) for block in as_list(content)]
        calls = [
            BatchCall(text_of(block, "id"), text_of(block, "name"), block.get("input"))
            for block in blocks
            if _is_call(block)
        ]
        if calls:
            yield from self.talk.asked(calls)
        results = [block for block in blocks if _is_result(block)]
        yield from map(self._settled, results)
        if fields.get("role") == "user":
            texts = [text for block in blocks if (text := text_of(block, "text").strip())]
            if not results:
                yield self.talk.said()
            elif any(not text.startswith(("<", "[")) for text in texts):
                yield self.talk.steered()

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()

    def _settled(self, block: Object) -> Event:
        call_id, content = text_of(block, "tool_use_id"), block.get("content")
        if block.get("is_error") is True:
            status, result = failure(content, self.talk.tool(call_id))
            return self.talk.settled(call_id, result=result, status=status)
        failed = text_of(as_object(content), "type").endswith("_error")  # of a tool that the provider runs
        return self.talk.settled(call_id, result=content, status=Status.ERROR if failed else Status.OK)


def _is_call(block: Object) -> bool:
    return block.get("type") in _CALLS and "input" in block


def _is_result(block: Object) -> bool:
    return text_of(block, "type").endswith("tool_result") and "tool_use_id" in block
