"""Goose: a session in JSON lines (or exported), and the database of newer versions.

A message's content holds ``toolRequest`` and ``toolResponse`` blocks, in which ``status`` tells whether the call could
be read and whether the tool failed. In ``sessions.db`` the table ``messages`` holds that content as ``content_json``.
Shape: ``conversation/message.rs`` and ``session_manager.rs`` in block/goose.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import groupby

from ..events import BatchCall, Event, Status
from .archive import Tables, opened
from .items import Items, Placed, Unreadable
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, blocks_of, inner, json_text, text_of

_LISTS = ("conversation", "messages")


def fits(value: object) -> bool:
    """Whether a message in sight is one of Goose, or this is the header of a session."""
    if {"working_dir", "message_count"} <= as_object(value).keys():
        return True
    return any(blocks_of(one.get("content"), "toolRequest", "toolResponse") for one in inner(value, *_LISTS))


def fits_database(value: object) -> bool:
    """Whether this is Goose's database."""
    return isinstance(value, Tables) and value.has("messages", "session_id", "role", "content_json")


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one session."""
    return conversations(source, talks, _Session, *_LISTS)


def read_database(source: Source, talks: Talks) -> Items:
    """Every session of the database. ``line`` is the id of the row."""
    if source.path is None:
        yield Unreadable(0, "a Goose database is read from its file, not from standard input")
        return
    try:
        with opened(source.path) as database:
            rows = database.execute("SELECT id, session_id, role, content_json FROM messages ORDER BY session_id, id")
            for name, messages in groupby(rows, key=lambda row: str(row["session_id"])):
                session = _Session(talks.open(name))
                for row in messages:
                    fields: Object = {"role": row["role"], "content": json_text(str(row["content_json"]))}
                    yield from (Placed(event, row["id"]) for event in session.entry(fields))
    except (sqlite3.Error, IndexError) as error:
        yield Unreadable(0, f"not a Goose database that can be read: {error}")


class _Session:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one message."""
        content = fields.get("content")
        requests = blocks_of(content, "toolRequest", "frontendToolRequest")
        if requests:
            yield from self.talk.asked([_call(block) for block in requests])
        for block in requests:
            wrong = as_object(block.get("toolCall"))
            if wrong.get("status") == "error":
                yield self.talk.settled(text_of(block, "id"), result=wrong.get("error"), status=Status.REJECTED)
        responses = blocks_of(content, "toolResponse")
        for block in responses:
            status, result = _outcome(as_object(block.get("toolResult")))
            yield self.talk.settled(text_of(block, "id"), result=result, status=status)
        if fields.get("role") == "user" and not responses and as_list(content) and _is_visible(fields):
            yield self.talk.said()

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()


def _is_visible(message: Object) -> bool:
    return as_object(message.get("metadata")).get("userVisible") is not False


def _call(block: Object) -> BatchCall:
    value = as_object(as_object(block.get("toolCall")).get("value"))
    return BatchCall(text_of(block, "id"), text_of(value, "name"), value.get("arguments"))


def _outcome(result: Object) -> tuple[Status, object]:
    if result.get("status") == "error":
        return Status.ERROR, result.get("error")
    value = result.get("value")
    if isinstance(value, dict):
        return (Status.ERROR if value.get("isError") is True else Status.OK), value.get("content", value)
    return Status.OK, value
