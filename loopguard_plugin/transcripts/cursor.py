"""Cursor: an agent transcript (JSON lines), and the database that the editor keeps its chats in.

The transcript (``~/.cursor/projects/…/agent-transcripts/…jsonl``) has calls and no results: ``{role, message}`` with
blocks of the Anthropic API, without ids. In ``state.vscdb`` a table ``cursorDiskKV`` holds ``composerData:<chat>`` with
the order of the messages, and ``bubbleId:<chat>:<message>`` with each of them; a call is ``toolFormerData``. Cursor
documents neither: both are as several readers of these files agree on them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .archive import Tables, opened
from .claude import typed
from .items import Items, Placed, Unreadable
from .reading import RUNNING, UNRECORDED, answered, conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, blocks_of, json_text, text_of

_USER = 1  # the type of a message in the database


def fits(value: object) -> bool:
    """Whether this is a line of a transcript."""
    fields = as_object(value)
    content = as_object(fields.get("message")).get("content")
    return "type" not in fields and "role" in fields and isinstance(content, list)


def fits_database(value: object) -> bool:
    """Whether this is the editor's database."""
    return isinstance(value, Tables) and value.has("cursorDiskKV", "key", "value")


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one transcript. What came of its calls is not in the file."""
    return conversations(source, talks, _Transcript)


class _Transcript:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._calls = 0

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one line."""
        message = as_object(fields.get("message"))
        if fields.get("role") == "user" and typed(message):
            yield self.talk.said()
        calls = []
        for block in blocks_of(message.get("content"), "tool_use"):
            self._calls += 1
            call_id = text_of(block, "id") or f"call-{self._calls}"
            calls.append((BatchCall(call_id, text_of(block, "name"), block.get("input")), None, UNRECORDED))
        if calls:
            yield from answered(self.talk, calls)

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()


def read_database(source: Source, talks: Talks) -> Items:
    """Every chat of the database. ``line`` is the place of the message in its chat."""
    if source.path is None:
        yield Unreadable(0, "a Cursor database is read from its file, not from standard input")
        return
    try:
        with opened(source.path) as database:
            chats = "SELECT key, value FROM cursorDiskKV WHERE key LIKE 'composerData:%' ORDER BY rowid"
            for row in database.execute(chats):
                chat = as_object(_value(row["value"]))
                name = str(row["key"]).partition(":")[2]
                yield from _chat(database, talks.open(name), name, chat)
    except sqlite3.Error as error:
        yield Unreadable(0, f"not a Cursor database that can be read: {error}")


def _chat(database: sqlite3.Connection, talk: Talk, name: str, chat: Object) -> Items:
    headers = as_list(chat.get("fullConversationHeadersOnly"))
    response: list[tuple[BatchCall, Status | None, object]] = []
    asked = ""
    for place, header in enumerate(map(as_object, headers or as_list(chat.get("conversation"))), 1):
        message = header
        if headers:
            key = f"bubbleId:{name}:{text_of(header, 'bubbleId')}"
            row = database.execute("SELECT value FROM cursorDiskKV WHERE key = ?", (key,)).fetchone()
            message = as_object(_value(row["value"])) if row is not None else {}
        call = as_object(message.get("toolFormerData"))
        mark = text_of(call, "modelCallId")
        if response and not (call and mark and mark == asked):  # calls of one response share that id
            yield from (Placed(event, place - 1) for event in answered(talk, response))
            response = []
        asked = mark
        if message.get("type") == _USER:
            yield Placed(talk.said(), place)
        elif text_of(call, "name"):
            response.append(_call(call, place))
    if response:
        yield from (Placed(event, len(headers)) for event in answered(talk, response))


def _call(call: Object, place: int) -> tuple[BatchCall, Status | None, object]:
    given = text_of(call, "rawArgs", "params")
    args = json_text(given) if given else call.get("rawArgs", call.get("params"))
    made = BatchCall(text_of(call, "toolCallId") or f"call-{place}", text_of(call, "name"), args)
    result = call.get("result")
    value = json_text(result) if isinstance(result, str) else result
    match text_of(call, "status"):
        case "error":
            return made, Status.ERROR, call.get("error", value)
        case "cancelled":
            return made, Status.ABORTED, value
        case "completed" | "success":
            return made, None, UNRECORDED if value is None else value
    return made, None, RUNNING if value is None else value


def _value(text: object) -> object:
    return json_text(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text))
