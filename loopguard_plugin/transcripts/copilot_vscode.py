"""VS Code Copilot chat: an export, a session file, or its journal in JSON lines.

Each request is a turn. Where the extension kept its own record (``result.metadata.toolCallRounds``), calls have
arguments and results; else only ``toolInvocationSerialized`` parts tell that a tool was called, and what the user read
about it stands for the arguments. The journal begins with the session (``kind`` 0) and goes on with values that are
set (1) or appended (2) at a path. Shapes: ``chatModel.ts`` and ``chatService.ts`` in microsoft/vscode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ..events import BatchCall, Event, Status
from .items import Items, Placed, Unreadable
from .reading import RUNNING, UNRECORDED, answered, entries
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, json_text, text_of

_SET, _APPEND = 1, 2
_REFUSED = {"0": Status.DENIED, "5": Status.SKIPPED}  # what the user said when asked


def fits(value: object) -> bool:
    """Whether this is a chat, or the first line of a journal."""
    fields = as_object(value)
    if fields.get("kind") == 0 and "v" in fields:
        fields = as_object(fields["v"])
    requests = fields.get("requests")
    if not isinstance(requests, list):
        return False
    first = as_object(next(iter(requests), None))
    return "responderUsername" in fields or {"message", "response"} <= first.keys()


def read(source: Source, talks: Talks) -> Items:
    """The chat of one file. ``line`` is the number of the request."""
    chat: Object = {}
    for item in entries(source):
        if isinstance(item, Unreadable):
            yield item
        else:
            chat = _folded(chat, item[2])
    talk = talks.open(text_of(chat, "sessionId") or source.stem)
    for place, request in enumerate(map(as_object, as_list(chat.get("requests"))), 1):
        yield Placed(talk.said(), place)
        yield from (Placed(event, place) for event in _events(talk, request))


def _events(talk: Talk, request: Object) -> Iterator[Event]:
    metadata = as_object(as_object(request.get("result")).get("metadata"))
    results = as_object(metadata.get("toolCallResults"))
    told = False
    for turn in map(as_object, as_list(metadata.get("toolCallRounds"))):
        calls = [as_object(call) for call in as_list(turn.get("toolCalls"))]
        if calls:
            told = True
            yield from answered(talk, [(_call(call), *_result(results, text_of(call, "id"))) for call in calls])
    if told:
        return
    for part in map(as_object, as_list(request.get("response"))):
        if part.get("kind") == "toolInvocationSerialized":
            yield from answered(talk, [_told(part)])


def _call(call: Object) -> BatchCall:
    arguments = call.get("arguments")
    args = json_text(arguments) if isinstance(arguments, str) else arguments
    return BatchCall(text_of(call, "id"), text_of(call, "name"), args)


def _result(results: Object, call_id: str) -> tuple[Status | None, object]:
    return None, results.get(call_id, UNRECORDED)


def _told(part: Object) -> tuple[BatchCall, Status | None, object]:
    """A call as the user saw it."""
    given = {name: part[name] for name in ("invocationMessage", "toolSpecificData") if part.get(name) is not None}
    call = BatchCall(text_of(part, "toolCallId"), text_of(part, "toolId"), given or None)
    confirmed = part.get("isConfirmed")
    refused = Status.DENIED if confirmed is False else _REFUSED.get(str(as_object(confirmed).get("type")))
    if refused is not None:
        return call, refused, "refused"
    details = part.get("resultDetails")
    if details is None:
        return call, None, RUNNING if part.get("isComplete") is False else UNRECORDED
    return call, (Status.ERROR if as_object(details).get("isError") is True else None), details


def _folded(chat: Object, line: Object) -> Object:
    """The chat after one more line of its journal; any other object is the chat itself."""
    if "requests" in line or "k" not in line:
        return as_object(line.get("v")) if line.get("kind") == 0 else line
    path = as_list(line["k"])
    holder: object = chat
    try:
        for step in path[:-1]:
            holder = cast(Object, holder)[cast(str, step)]  # a list by its index alike
        last = cast(str, path[-1])
        if line.get("kind") == _SET:
            cast(Object, holder)[last] = line.get("v")
        elif line.get("kind") == _APPEND:
            kept = as_list(holder.get(last) if isinstance(holder, dict) else cast(Object, holder)[last])
            start = line.get("i")
            cast(Object, holder)[last] = [*(kept[:start] if isinstance(start, int) else kept), *as_list(line.get("v"))]
    except (LookupError, TypeError):
        pass  # a line that changes what is not there changes nothing
    return chat
