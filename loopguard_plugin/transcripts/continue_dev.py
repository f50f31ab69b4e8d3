"""Continue session (``~/.continue/sessions/<id>.json``): a history whose items hold a message and its calls' states.

``toolCallStates`` tells what came of the calls in ``message.toolCalls``. Shape: ``core/index.d.ts`` in
continuedev/continue.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import RUNNING, answered, conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, json_text, text_of

_ENDED = {"done": Status.OK, "errored": Status.ERROR, "canceled": Status.ABORTED}


def fits(value: object) -> bool:
    """Whether this is a session."""
    return any(
        "role" in as_object(one.get("message")) and ("contextItems" in one or "toolCallStates" in one)
        for one in inner(value, "history")
    )


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one session."""
    return conversations(source, talks, _Session, "history")


class _Session:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one item of the history."""
        message = as_object(fields.get("message"))
        if message.get("role") == "user":
            yield self.talk.said()
        states = {text_of(one, "toolCallId"): one for one in map(as_object, as_list(fields.get("toolCallStates")))}
        calls = [_call(as_object(call)) for call in as_list(message.get("toolCalls"))]
        if calls:
            yield from answered(self.talk, [(call, *_outcome(states.get(call.call_id, {}))) for call in calls])

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()


def _call(call: Object) -> BatchCall:
    function = as_object(call.get("function"))
    args = function.get("arguments")
    return BatchCall(text_of(call, "id"), text_of(function, "name"), json_text(args) if isinstance(args, str) else args)


def _outcome(state: Object) -> tuple[Status | None, object]:
    status = _ENDED.get(text_of(state, "status"))
    output = [text_of(as_object(item), "content") for item in as_list(state.get("output"))]
    return (status, "\n".join(output)) if status is not None else (None, RUNNING)
