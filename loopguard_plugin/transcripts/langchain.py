"""LangChain messages: ``messages_to_dict`` (``{type, data}``), ``dumpd`` (``{lc, id, kwargs}``), or their own fields.

``tool_calls`` of an AI message are one batch, ``invalid_tool_calls`` among them; a tool message answers one, with
``status`` error for a failure. Shape: ``langchain_core/messages`` in langchain-ai/langchain.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, json_text, text_of

_TYPES = ("human", "ai", "tool", "system", "function", "chat", "remove")
_LISTS = ("messages",)


def fits(value: object) -> bool:
    """Whether a message in sight is one of this library."""
    return any(
        (one.get("type") in _TYPES and ("data" in one or ("content" in one and "role" not in one)))
        or (one.get("lc") is not None and "kwargs" in one)
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
        kind, message = _told(fields)
        if kind.startswith("human"):
            yield self.talk.said()
        elif kind.startswith("ai"):
            calls = [_call(as_object(call)) for call in _listed(message, "tool_calls", "invalid_tool_calls")]
            if calls:
                yield from self.talk.asked(calls)
        elif kind.startswith(("tool", "function")):
            name = text_of(message, "name")
            status = Status.ERROR if message.get("status") == "error" else Status.OK
            call_id = text_of(message, "tool_call_id") or name
            yield self.talk.settled(call_id, result=message.get("content"), status=status, tool=name)

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()


def _told(fields: Object) -> tuple[str, Object]:
    """The type of a message in small letters (``ai``, ``aimessage``), and its fields."""
    if "kwargs" in fields:
        names = [name for name in as_list(fields.get("id")) if isinstance(name, str)]
        return (names[-1].lower() if names else ""), as_object(fields["kwargs"])
    message = as_object(fields["data"]) if "data" in fields else fields
    return text_of(fields, "type").lower(), message


def _listed(message: Object, *names: str) -> list[object]:
    return [one for name in names for one in as_list(message.get(name))]


def _call(call: Object) -> BatchCall:
    args = call.get("args")
    name = text_of(call, "name")
    return BatchCall(text_of(call, "id") or name, name, json_text(args) if isinstance(args, str) else args)
