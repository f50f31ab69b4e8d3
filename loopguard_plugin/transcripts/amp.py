"""Amp thread (one JSON document): blocks as in the Anthropic API, with ``toolUseID`` and what became of the ``run``.

Amp does not document the file; this is how readers of it describe it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_object, blocks_of, inner, text_of

_ENDED = {"error": Status.ERROR, "cancelled": Status.ABORTED, "rejected-by-user": Status.DENIED}


def fits(value: object) -> bool:
    """Whether a message in sight holds the result of a call, as Amp writes it."""
    results = (block for one in inner(value, "messages") for block in blocks_of(one.get("content"), "tool_result"))
    return any("toolUseID" in block for block in results)


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one thread."""
    return conversations(source, talks, _Thread, "messages")


class _Thread:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one message."""
        content = fields.get("content")
        uses = blocks_of(content, "tool_use")
        if uses:
            calls = [BatchCall(text_of(one, "id"), text_of(one, "name"), one.get("input")) for one in uses]
            yield from self.talk.asked(calls)
        results = blocks_of(content, "tool_result")
        for block in results:
            run = as_object(block.get("run"))
            status = _ENDED.get(text_of(run, "status"), Status.OK)
            result = run.get("result") if status is Status.OK else run.get("error", run.get("reason"))
            yield self.talk.settled(text_of(block, "toolUseID"), result=result, status=status)
        if fields.get("role") == "user" and not results:
            yield self.talk.said()

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()
