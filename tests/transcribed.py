"""Transcripts written in a test, and what is read from them, one short line an event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from loopguard_plugin.events import CompactionRetry, Event, ToolCallSettled, ToolCallStarted, UserMessageCommitted
from loopguard_plugin.transcripts import Placed, Source, Talks, Unreadable, detect, read

JSON = object


def lines(path: Path, *values: JSON) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def document(path: Path, value: JSON) -> Path:
    """A file that is one JSON document over several lines."""
    path.write_text(json.dumps(value, indent=1))
    return path


def items(path: Path, form: str = "auto") -> list[Placed | Unreadable]:
    with Source.open(str(path)) as source:
        return list(read(source, Talks(), form))


def format_of(path: Path) -> str | None:
    with Source.open(str(path)) as source:
        return detect(source)


def events(path: Path) -> list[Event]:
    """The events of a file that has nothing unreadable in it."""
    every = items(path)
    assert [item for item in every if isinstance(item, Unreadable)] == []
    return [item.event for item in every if isinstance(item, Placed)]


def told(path: Path) -> list[str]:
    """A file as one short line an event."""
    return [tell(event) for event in events(path)]


def results(path: Path) -> dict[str, object]:
    """The last result of each call id."""
    return {event.call_id: event.result for event in events(path) if isinstance(event, ToolCallSettled)}


def arguments(path: Path) -> list[object]:
    """The arguments of every call, in order."""
    return [event.args for event in events(path) if isinstance(event, ToolCallStarted)]


def tell(event: Event) -> str:
    if isinstance(event, ToolCallStarted):
        assert event.batch is not None
        assert event.index is not None
        assert event.batch[event.index].call_id == event.call_id
        return f"{event.run_id} start {event.call_id} {event.tool} {event.index + 1}/{len(event.batch)}"
    if isinstance(event, ToolCallSettled):
        return f"{event.run_id} settle {event.call_id} {event.tool} {event.status or 'derived'}"
    if isinstance(event, UserMessageCommitted):
        return f"{event.run_id} user {event.kind}"
    assert isinstance(event, CompactionRetry)
    return f"{event.run_id} compaction"


def walk(value: JSON) -> Iterator[dict[str, object]]:
    """Every object in a JSON value, however deep."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)


def counted(path: Path, is_call: Callable[[dict[str, object]], object]) -> int:
    """How many objects of a JSON file are calls, by a plain walk and without any reader."""
    text = path.read_text()
    try:
        values = [json.loads(text)]
    except json.JSONDecodeError:
        values = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return sum(bool(is_call(one)) for value in values for one in walk(value))
