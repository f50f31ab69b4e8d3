"""Items of OpenAI's Responses API for tools that the provider runs: web search, file search, code, images, MCP.

Such a call and what came of it are one item. Of a web search the item mostly holds no results.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .talk import Talk
from .values import Object, as_object, json_text, text_of

HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
_RESULTS = ("output", "outputs", "results", "result")
_NO_ARGUMENTS = ("id", "call_id", "type", "status", "error", "name", *_RESULTS)


def hosted(talk: Talk, item: Object) -> Iterator[Event]:
    """A call of a tool that the provider ran; settled where the item says what came of it."""
    kind = text_of(item, "type").removesuffix("_call")
    call_id = text_of(item, "id", "call_id")
    name = text_of(item, "name") if kind == "mcp" else kind
    yield from talk.asked([BatchCall(call_id, name or kind, arguments_of(item))])
    error = item.get("error")
    found = next((item[name] for name in _RESULTS if item.get(name) is not None), None)
    if error or item.get("status") == "failed":
        yield talk.settled(call_id, result=error or found, status=Status.ERROR)
    elif found is not None:
        yield talk.settled(call_id, result=found, status=Status.OK)
    elif item.get("status") in (None, "completed"):
        yield talk.unrecorded(call_id)


def arguments_of(item: Object) -> object:
    """What a call was made with: its arguments, its action, or whatever else its item says."""
    if "arguments" in item:
        given = item["arguments"]
        return json_text(given) if isinstance(given, str) else given
    if "action" in item:
        return as_object(item["action"]) or item["action"]
    return {name: value for name, value in item.items() if name not in _NO_ARGUMENTS} or None
