"""Pydantic AI messages (``ModelMessagesTypeAdapter.dump_json``): requests and responses with their parts.

The ``tool-call`` parts of a response are one batch; the next request holds a ``tool-return`` or, for a failure that the
model may correct, a ``retry-prompt`` for each. Shape: ``messages.py`` in pydantic/pydantic-ai.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, json_text, text_of

_CALLS = ("tool-call", "builtin-tool-call")
_RETURNS = ("tool-return", "builtin-tool-return", "retry-prompt")
_OUTCOMES = {"failed": Status.ERROR, "denied": Status.DENIED}
_LISTS = ("messages", "all_messages", "message_history")


def fits(value: object) -> bool:
    """Whether a message in sight is one of this library."""
    return any(
        one.get("kind") in ("request", "response") and any("part_kind" in part for part in _parts(one))
        for one in inner(value, *_LISTS)
    )


def read(source: Source, talks: Talks) -> Items:
    """Every conversation of one file."""
    return conversations(source, talks, _Conversation, *_LISTS)


class _Conversation:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one message."""
        parts = _parts(fields)
        calls = [_call(part) for part in parts if part.get("part_kind") in _CALLS]
        if calls:
            yield from self.talk.asked(calls)
        answers = [part for part in parts if part.get("part_kind") in _RETURNS and text_of(part, "tool_name")]
        for part in answers:
            retry = part.get("part_kind") == "retry-prompt"
            status = Status.ERROR if retry else _OUTCOMES.get(text_of(part, "outcome"), Status.OK)
            name = text_of(part, "tool_name")
            yield self.talk.settled(
                text_of(part, "tool_call_id") or name, result=part.get("content"), status=status, tool=name
            )
        if any(part.get("part_kind") == "user-prompt" for part in parts):
            yield self.talk.steered() if answers else self.talk.said()

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()


def _call(part: Object) -> BatchCall:
    args = part.get("args")
    name = text_of(part, "tool_name")
    return BatchCall(text_of(part, "tool_call_id") or name, name, json_text(args) if isinstance(args, str) else args)


def _parts(message: Object) -> list[Object]:
    return [as_object(part) for part in as_list(message.get("parts"))]
