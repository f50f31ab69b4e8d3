"""Copilot CLI session (``~/.copilot/session-state/…/events.jsonl``): one event a line, ``{type, data, id, parentId}``.

``assistant.message`` lists the calls of a response; each is told again as it starts, and once it is complete. A call
that only starts (of a sub-agent, for one) is a batch of its own. Shapes: ``session-events.ts`` in github/copilot-sdk.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, text_of

_TYPES = ("session.", "user.message", "assistant.", "tool.execution_", "subagent.", "abort")


def fits(value: object) -> bool:
    """Whether this is an event of a session."""
    fields = as_object(value)
    return isinstance(fields.get("data"), dict) and text_of(fields, "type").startswith(_TYPES)


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one session."""
    return conversations(
        source, talks, _Session, name=lambda holder, first: text_of(as_object(first.get("data")), "sessionId")
    )


class _Session:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._known: set[str] = set()

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one line."""
        data = as_object(fields.get("data"))
        call_id = text_of(data, "toolCallId")
        match fields.get("type"):
            case "user.message" if text_of(data, "source") in ("", "user"):
                yield self.talk.said()
            case "assistant.message":
                calls = [_call(as_object(one)) for one in as_list(data.get("toolRequests"))]
                yield from self._asked([call for call in calls if call.tool])
            case "tool.execution_start" if call_id not in self._known:
                yield from self._asked([BatchCall(call_id, text_of(data, "toolName"), data.get("arguments"))])
            case "tool.execution_complete":
                ok = data.get("success") is not False and not data.get("error")
                result = data.get("result") if ok else data.get("error", data.get("result"))
                yield self.talk.settled(call_id, result=result, status=Status.OK if ok else Status.ERROR)
            case "session.compaction_complete" if data.get("success") is not False and not _by_hand(data):
                yield self.talk.compacted()
            case "abort":
                yield from self.talk.cut()

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()

    def _asked(self, calls: list[BatchCall]) -> Iterator[Event]:
        if calls:
            self._known.update(call.call_id for call in calls)
            yield from self.talk.asked(calls)


def _call(request: Object) -> BatchCall:
    return BatchCall(text_of(request, "toolCallId"), text_of(request, "name"), request.get("arguments"))


def _by_hand(data: Object) -> bool:
    """Whether the user asked for a compaction, rather than the context being full."""
    return text_of(data, "trigger", "reason") in ("manual", "user")
