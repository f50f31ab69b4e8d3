"""What the readers of conversations have in common: where the entries stand, and who is asked about each of them.

Products keep the same messages in several ways: one a line, as a list, or as a list in an object. A reader says what
one entry means; here it is found, whichever way it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ..events import BatchCall, Event, Status
from .items import Items, Placed, Unreadable
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, json_values, kind, text_of

_SESSION = ("sessionId", "session_id", "sessionID", "conversation_id", "instance_id")


class Reading(Protocol):
    """One conversation. ``entry`` gives the events of one entry; ``done`` those that were held back to the end."""

    def entry(self, fields: Object) -> Iterator[Event]: ...
    def done(self) -> Iterator[Event]: ...


def name_of(holder: Object, first: Object) -> str:
    """The conversation's own name, by what holds it or by its first entry; empty if it has none."""
    return text_of(holder, *_SESSION, "id") or text_of(first, *_SESSION)


def conversations(
    source: Source,
    talks: Talks,
    reading: Callable[[Talk], Reading],
    *lists: str,
    name: Callable[[Object, Object], str] = name_of,
) -> Items:
    """The events of every conversation in a file. ``lists``: the names under which an object keeps its entries."""
    held: Object | None = None
    current: Reading | None = None
    line = 0
    for item in entries(source, *lists):
        if isinstance(item, Unreadable):
            yield item
            continue
        holder, line, fields = item
        if current is None or holder is not held:
            if current is not None:
                yield from (Placed(event, line) for event in current.done())
            held = holder
            current = reading(talks.open(name(holder, fields) or source.stem))
        yield from (Placed(event, line) for event in current.entry(fields))
    if current is not None:
        yield from (Placed(event, line) for event in current.done())


def entries(source: Source, *lists: str) -> Iterator[tuple[Object, int, Object] | Unreadable]:
    """``(holder, place, entry)``; the entries of one conversation share one holder, as the same object.

    Lines that are entries themselves are one conversation, held by an empty object.
    """
    if not source.by_lines():
        document, problem = source.document()
        if problem is None:
            yield from _of_value(document, lists, {}, None)
        else:
            yield Unreadable(0, f"expected one JSON document: {problem}")
        return
    loose: Object = {}
    for line, text in source.lines():
        values, problem = json_values(text)
        for value in values:
            yield from _of_value(value, lists, loose, line)
        if problem is not None:
            yield Unreadable(line, f"expected a JSON object: {problem}")


def _of_value(
    value: object, lists: tuple[str, ...], loose: Object, line: int | None
) -> Iterator[tuple[Object, int, Object] | Unreadable]:
    """The entries of a line or of a document. In a list, whatever holds a list of entries is a conversation."""
    if isinstance(value, dict):
        held = [name for name in lists if isinstance(value.get(name), list)]
        if not held:
            yield loose, line or 1, value
            return
        found = [one for name in held for one in as_list(value[name])]
        holder = value
    elif isinstance(value, list):
        if any(isinstance(one, dict) and any(isinstance(one.get(name), list) for name in lists) for one in value):
            for place, one in enumerate(value, 1):
                yield from _of_value(one, lists, loose, line or place)
            return
        found, holder = value, {}
    else:
        yield Unreadable(line or 0, f"expected an object or a list, found {kind(value)}")
        return
    for place, one in enumerate(found, 1):
        if isinstance(one, dict):
            yield holder, place, one


def answered(talk: Talk, calls: Sequence[tuple[BatchCall, Status | None, object]]) -> Iterator[Event]:
    """One response whose results stand beside its calls: all start, then each settles. Status None: derived.

    In place of a result may stand ``RUNNING`` or ``UNRECORDED``.
    """
    yield from talk.asked([call for call, _, _ in calls])
    for call, status, result in calls:
        if result is UNRECORDED:
            yield talk.unrecorded(call.call_id)
        elif result is not RUNNING:
            yield talk.settled(call.call_id, result=result, status=status)


RUNNING: object = object()  # the call had not ended when the file was written: it never settles
UNRECORDED: object = object()  # it ended, and the file does not say with what
