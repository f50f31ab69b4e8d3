"""Hermes' store (``~/.hermes/state.db``): messages in the shape of OpenAI chat, one row each, in a SQLite database.

Opened read-only and read row by row, so a gateway may be writing to it. Needs a file: a database cannot be read from
standard input.
"""

from __future__ import annotations

import sqlite3
from itertools import groupby

from ..events import Status
from .archive import Tables, opened
from .hermes_results import STEERED, outcome
from .items import Items, Placed, Unreadable
from .openai_chat import messages_of
from .source import Source
from .talk import Talk, Talks
from .values import json_text

NOT_RUN = "[loopguard] This call was not run"
_STRUCTURED = "\x00json:"  # how Hermes marks content that is no plain text


def fits(value: object) -> bool:
    """Whether this is a Hermes database."""
    return isinstance(value, Tables) and value.has("messages", "session_id", "role", "content", "tool_calls")


def read(source: Source, talks: Talks) -> Items:
    """Every conversation of the database. ``line`` is the id of the row."""
    if source.path is None:
        yield Unreadable(0, "a Hermes database is read from its file, not from standard input")
        return
    try:
        with opened(source.path) as database:
            rows = database.execute("SELECT * FROM messages ORDER BY session_id, id")
            for name, session in groupby(rows, key=lambda row: str(row["session_id"])):
                talk = talks.open(name)
                for row in session:
                    yield from _events(talk, row)
    except (sqlite3.Error, IndexError) as error:  # IndexError: a column that is not there
        yield Unreadable(0, f"not a Hermes database that can be read: {error}")


def _events(talk: Talk, row: sqlite3.Row) -> Items:
    if row["role"] == "tool":
        name = str(row["tool_name"] or "")
        call_id = str(row["tool_call_id"] or name)
        content = row["content"]
        status, result = outcome(talk.tool(call_id) or name, _decoded(content))
        if isinstance(result, dict) and str(result.get("error")).startswith(NOT_RUN):
            status = Status.BLOCKED
        yield Placed(talk.settled(call_id, result=result, status=status, tool=name), row["id"])
        if isinstance(content, str) and STEERED in content:
            yield Placed(talk.steered(), row["id"])
    elif row["role"] in ("user", "assistant"):
        message: dict[str, object] = {"role": row["role"], "content": row["content"]}
        if row["tool_calls"]:
            message["tool_calls"] = json_text(str(row["tool_calls"]))
        yield from messages_of(talk, [message], row["id"])


def _decoded(content: object) -> object:
    """Content that is no plain text is kept as JSON behind a mark."""
    if isinstance(content, str) and content.startswith(_STRUCTURED):
        return json_text(content.removeprefix(_STRUCTURED))
    return content
