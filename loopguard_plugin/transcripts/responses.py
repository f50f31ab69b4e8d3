"""Items of OpenAI's Responses API: a list, JSON lines, or responses and requests that hold one.

The calls up to the first output are one batch, as in Codex' rollouts, which hold the same items. A tool that the
provider runs (``web_search_call`` and its kind) is a batch of its own; what it found is mostly not in the item.
Shape: the Responses API reference of OpenAI.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .codex import outcome
from .hosted import HOSTED, arguments_of, hosted
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, inner, text_of

_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call")
_OUTPUTS = tuple(f"{name}_output" for name in _CALLS)


def fits(value: object) -> bool:
    """Whether an item in sight is a call or its output."""
    return any(one.get("type") in (*_CALLS, *_OUTPUTS, *HOSTED) for one in inner(value, *_LISTS))


_LISTS = ("input", "output", "items", "messages")


def read(source: Source, talks: Talks) -> Items:
    """Every conversation of one file."""
    return conversations(source, talks, Responses, *_LISTS)


class Responses:
    """One conversation, item by item."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._calls: list[BatchCall] = []

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one item."""
        kind = text_of(fields, "type")
        call_id = text_of(fields, "call_id", "id")
        if kind in _CALLS:
            name = text_of(fields, "name") or kind.removesuffix("_call")
            self._calls.append(BatchCall(call_id, name, arguments_of(fields)))
        elif kind in _OUTPUTS:
            yield from self.done()
            status, result = outcome(fields.get("output"))
            failed = fields.get("status") == "failed" or fields.get("error")
            yield self.talk.settled(call_id, result=result, status=Status.ERROR if failed else status)
        elif kind in HOSTED:
            yield from hosted(self.talk, fields)
        elif fields.get("role") == "user":
            yield from self.done()
            yield self.talk.said()

    def done(self) -> Iterator[Event]:
        """The response is complete: its calls are one batch."""
        calls, self._calls = self._calls, []
        if calls:
            yield from self.talk.asked(calls)
