"""Gemini CLI session (one JSON document, read whole): results lie beside their calls, in the message that made them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items, Placed, Unreadable
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, kind, text_of

# The shell tool's report ends with process ids, which change with every call.
_PIDS = re.compile(r"\n(?:Background PIDs|Process Group PGID): [^\n]*")


def fits(value: object) -> bool:
    """Whether this is a session."""
    fields = as_object(value)
    return isinstance(fields.get("messages"), list) and "sessionId" in fields


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one session file."""
    document, problem = source.document()
    messages = as_object(document).get("messages")
    if problem is not None or not isinstance(messages, list):
        yield Unreadable(0, f'expected an object with "messages": {problem or f"found {kind(document)}"}')
        return
    talk = talks.open(text_of(as_object(document), "sessionId") or source.stem)
    for place, message in enumerate(map(as_object, messages), 1):
        if message.get("type") == "user":
            yield Placed(talk.said(), place)
        yield from (Placed(event, place) for event in _response(talk, message))


def _response(talk: Talk, message: Object) -> Iterator[Event]:
    """The calls of one message: all started, then each settled."""
    calls = [as_object(call) for call in as_list(message.get("toolCalls"))]
    if not calls:
        return
    yield from talk.asked([BatchCall(text_of(call, "id"), text_of(call, "name"), call.get("args")) for call in calls])
    for call in calls:
        status, result = _outcome(call)
        yield talk.settled(text_of(call, "id"), result=result, status=status)


def _outcome(call: Object) -> tuple[Status, object]:
    results = [
        as_object(as_object(as_object(part).get("functionResponse")).get("response"))
        for part in as_list(call.get("result"))
    ]
    response = results[0] if results else {}
    output = response.get("output")
    if isinstance(output, str):
        response = {**response, "output": _PIDS.sub("", output)}
    result: object = response if len(results) <= 1 else [response, *results[1:]]
    if call.get("status") == "cancelled":
        return Status.ABORTED, result
    failed = call.get("status") == "error" or response.get("error")
    return (Status.ERROR if failed else Status.OK), result
