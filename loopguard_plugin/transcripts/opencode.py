"""opencode: an exported session, the stream of ``opencode run --format json``, and its database.

A part of type ``tool`` is a call with its result beside it; parts of one step (between two ``step-start``) are one
batch. The prompt is not in the stream. In the database ``message`` and ``part`` hold these objects as JSON, beside
their ids. A compaction that the user asked for (``auto`` false) is none that goes on. Shapes: ``message-v2.ts`` and
``cli/cmd/run.ts`` in sst/opencode.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from ..events import BatchCall, Event, Status
from .archive import Tables, opened
from .items import Items, Placed, Unreadable
from .reading import RUNNING, answered, conversations
from .shell import finished
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, json_text, text_of

_STREAM = ("tool_use", "step_start", "step_finish", "text", "reasoning", "error")


def fits(value: object) -> bool:
    """Whether this is an export, or a line of the stream."""
    fields = as_object(value)
    if fields.get("type") in _STREAM and "sessionID" in fields:
        return True
    return any("parts" in one and "role" in as_object(one.get("info")) for one in inner(value, "messages"))


def fits_database(value: object) -> bool:
    """Whether this is opencode's database."""
    return isinstance(value, Tables) and value.has("part", "message_id", "data") and value.has("message", "data")


def read(source: Source, talks: Talks) -> Items:
    """The session of an export or of a stream."""
    return conversations(source, talks, _Session, "messages", name=_name)


def _name(holder: Object, first: Object) -> str:
    return text_of(as_object(holder.get("info")), "id") or text_of(first, "sessionID")


class _Session:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._step: list[Object] = []  # the parts of the stream's step

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one message of an export, or of one line of the stream."""
        if "parts" in fields:
            parts = [as_object(part) for part in as_list(fields["parts"])]
            yield from told(self.talk, as_object(fields.get("info")), parts)
        elif fields.get("type") == "tool_use":
            # The stream tells a call once it is over, and every step apart: what is over together was one batch.
            self._step.append(as_object(fields.get("part")))
        elif fields.get("type") in ("step_start", "step_finish"):
            yield from self.done()

    def done(self) -> Iterator[Event]:
        """The step is over. A stream that tells no steps has one call in each."""
        parts, self._step = self._step, []
        steps = [parts] if all(text_of(part, "messageID") for part in parts) else [[part] for part in parts]
        for step in steps:
            yield from _calls(self.talk, step)


def read_database(source: Source, talks: Talks) -> Items:
    """Every session of the database. ``line`` is the place of the message in its session."""
    if source.path is None:
        yield Unreadable(0, "an opencode database is read from its file, not from standard input")
        return
    try:
        with opened(source.path) as database:
            sessions = "SELECT DISTINCT session_id FROM message ORDER BY session_id"
            for (name,) in database.execute(sessions).fetchall():
                talk = talks.open(str(name))
                messages = "SELECT id, data FROM message WHERE session_id = ? ORDER BY id"
                for place, row in enumerate(database.execute(messages, (name,)), 1):
                    parts = database.execute("SELECT data FROM part WHERE message_id = ? ORDER BY id", (row["id"],))
                    listed = [as_object(json_text(str(part["data"]))) for part in parts]
                    events = told(talk, as_object(json_text(str(row["data"]))), listed)
                    yield from (Placed(event, place) for event in events)
    except (sqlite3.Error, IndexError) as error:
        yield Unreadable(0, f"not an opencode database that can be read: {error}")


def told(talk: Talk, info: Object, parts: list[Object]) -> Iterator[Event]:
    """The events of one message."""
    if info.get("role") == "user":
        compaction = next((part for part in parts if part.get("type") == "compaction"), None)
        if compaction is not None:
            if compaction.get("auto") is not False:
                yield talk.compacted()
        elif any(part.get("type") != "text" or part.get("synthetic") is not True for part in parts) or not parts:
            yield talk.said()
        return
    step: list[Object] = []
    for part in parts:
        if part.get("type") == "step-start":
            yield from _calls(talk, step)
            step = []
        elif part.get("type") == "tool":
            step.append(part)
    yield from _calls(talk, step)


def _calls(talk: Talk, parts: Iterable[Object]) -> Iterator[Event]:
    calls = [(_call(part), *_outcome(part)) for part in parts if text_of(part, "tool")]
    if calls:
        yield from answered(talk, calls)


def _call(part: Object) -> BatchCall:
    return BatchCall(text_of(part, "callID", "id"), text_of(part, "tool"), as_object(part.get("state")).get("input"))


def _outcome(part: Object) -> tuple[Status | None, object]:
    state = as_object(part.get("state"))
    match state.get("status"):
        case "completed":
            code = as_object(state.get("metadata")).get("exit")
            if text_of(part, "tool") == "bash" and isinstance(code, int):
                return (Status.OK if code == 0 else Status.ERROR), finished(code, text_of(state, "output"))
            return Status.OK, state.get("output")
        case "error":
            return Status.ERROR, state.get("error")
    return None, RUNNING
