"""Hermes' store (``~/.hermes/state.db``): messages in the shape of OpenAI chat, one row each, in a SQLite database.

Opened read-only and read row by row, so a gateway may be writing to it. Needs a file: a database cannot be read from
standard input.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import groupby

from ..events import Status
from .items import Items, Placed, Unreadable
from .openai_chat import messages_of
from .source import Source
from .talk import Talk, Talks
from .values import as_object, json_text

MAGIC = b"SQLite format 3\x00"
_STRUCTURED = "\x00json:"  # how Hermes marks content that is no plain text


def read(source: Source, talks: Talks) -> Items:
    """Every conversation of the database. ``line`` is the id of the row."""
    if source.path is None:
        yield Unreadable(0, "a Hermes database is read from its file, not from standard input")
        return
    try:
        with closing(sqlite3.connect(f"{source.path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            rows = database.execute("SELECT * FROM messages ORDER BY session_id, id")
            for name, session in groupby(rows, key=lambda row: str(row["session_id"])):
                talk = talks.open(name)
                for row in session:
                    yield from _events(talk, row)
    except (sqlite3.Error, IndexError) as error:  # IndexError: a column that is not there
        yield Unreadable(0, f"not a Hermes database that can be read: {error}")


def _events(talk: Talk, row: sqlite3.Row) -> Items:
    if row["role"] == "tool":
        status, result = _outcome(row["content"])
        name = str(row["tool_name"] or "")
        yield Placed(talk.settled(str(row["tool_call_id"] or name), result=result, status=status, tool=name), row["id"])
    elif row["role"] in ("user", "assistant"):
        message: dict[str, object] = {"role": row["role"], "content": row["content"]}
        if row["tool_calls"]:
            message["tool_calls"] = json_text(str(row["tool_calls"]))
        yield from messages_of(talk, [message], row["id"])


def _outcome(content: object) -> tuple[Status | None, object]:
    """A result as the guard wants it: most tools answer with a JSON object, whose ``error`` it reads itself."""
    text = content.removeprefix(_STRUCTURED) if isinstance(content, str) else content
    value = json_text(text) if isinstance(text, str) and text[:1] in ("{", "[") else text
    code = as_object(value).get("exit_code")
    if isinstance(code, int) and code != 0:
        return Status.ERROR, value
    if isinstance(value, str) and value.startswith("Error"):
        return Status.ERROR, value
    return None, value
