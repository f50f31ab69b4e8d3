"""Factory Droid session (``~/.factory/sessions/<id>.jsonl``): messages of the Anthropic API, one a line.

``{type: "message", id, parentId, message}`` after a header ``{type: "session_start"}``. Reminders that Droid itself
writes begin with a tag. Factory does not document the file; this is how it looks.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import Event
from .anthropic import Conversation
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_object, blocks_of, said_text, text_of


def fits(value: object) -> bool:
    """Whether this is the header, or a message with a call or a result."""
    fields = as_object(value)
    if fields.get("type") == "session_start":
        return "id" in fields and any(name in fields for name in ("title", "sessionTitle", "cwd"))
    content = as_object(fields.get("message")).get("content")
    return fields.get("type") == "message" and bool(blocks_of(content, "tool_use", "tool_result"))


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one session."""
    return conversations(source, talks, _Session, name=_name)


def _name(holder: Object, first: Object) -> str:
    return text_of(first, "id") if first.get("type") == "session_start" else ""


class _Session:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._messages = Conversation(talk)

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one line."""
        if fields.get("type") == "compaction_state":
            yield self.talk.compacted()
        message = as_object(fields.get("message"))
        by_program = message.get("role") == "user" and said_text(message.get("content")).lstrip().startswith("<")
        if message and (not by_program or blocks_of(message.get("content"), "tool_result")):
            yield from self._messages.entry(message)

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()
