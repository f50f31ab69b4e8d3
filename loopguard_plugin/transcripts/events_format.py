"""The ``events`` format: one event of SPEC 2 a line, played exactly as it stands."""

from __future__ import annotations

import msgspec

from ..errors import EventError
from ..events import EVENT_TYPES, Event, decode_event
from .items import Item, Items, Placed, Unreadable
from .source import Source
from .talk import Talks
from .values import as_object, json_values, kind

_TYPES = frozenset(str(kind.__struct_config__.tag) for kind in EVENT_TYPES)


def fits(value: object) -> bool:
    """Whether this line is an event."""
    tag = as_object(value).get("type")
    return isinstance(tag, str) and tag in _TYPES


def read(source: Source, talks: Talks) -> Items:
    """Events as they were published. A line that is none is reported, and the rest plays (SPEC 14)."""
    for line, text in source.lines():
        try:
            yield Placed(_of_agent(decode_event(text), talks.agent_id), line)
        except EventError as error:
            yield from _again(text, line, error, talks.agent_id)


def _again(text: bytes, line: int, error: EventError, agent_id: str | None) -> Items:
    """A line that failed as a whole: taken apart if it holds several values, else reported."""
    values, problem = json_values(text)
    if len(values) == 1 and problem is None and isinstance(values[0], dict) and error.field != "(event)":
        yield Unreadable(line, f"expected an event: {error}")
        return
    for value in values:
        yield _decoded(value, line, agent_id)
    if problem is not None:
        yield Unreadable(line, f"expected an event: {problem}")


def _decoded(value: object, line: int, agent_id: str | None) -> Item:
    if not isinstance(value, dict):
        return Unreadable(line, f"expected an event, found {kind(value)}")
    try:
        return Placed(_of_agent(decode_event(value), agent_id), line)
    except EventError as error:
        return Unreadable(line, f"expected an event: {error}")


def _of_agent(event: Event, agent_id: str | None) -> Event:
    """The event under the agent that the caller asked for, unless it names one itself."""
    if agent_id is None or (event.agent_id or "").strip():
        return event
    return msgspec.structs.replace(event, agent_id=agent_id)
