"""OpenHands: the events of a session, as a list or one a line; of the agent SDK (v1), and of the server before it (v0).

v0: ``{source, action, args}``, answered by ``{observation, cause, content, extras}``; actions of one response share
``tool_call_metadata.model_response.id``. v1: ``{kind: "ActionEvent", tool_name, tool_call_id, action}``, answered by an
``ObservationEvent``; actions of one response share ``llm_response_id``. Shapes: ``openhands/events`` in
All-Hands-AI/OpenHands, ``openhands-sdk/openhands/sdk/event`` in its agent SDK.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import conversations
from .shell import finished
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_object, inner, text_of

_NO_CALL = ("message", "system", "change_agent_state", "recall", "finish", "null", "condensation", "start", "pause")
_NO_ARGUMENTS = ("thought", "is_input", "blocking", "hidden", "confirmation_state", "security_risk", "kind")
_ANSWERS = ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation")
_LISTS = ("history", "events", "trajectory")


def fits(value: object) -> bool:
    """Whether an event in sight is one of OpenHands."""
    return any(
        ("source" in one and ("action" in one or "observation" in one) and ("args" in one or "extras" in one))
        or (text_of(one, "kind").endswith("Event") and "source" in one)
        for one in inner(value, *_LISTS)
    )


def read(source: Source, talks: Talks) -> Items:
    """The session of one file."""
    return conversations(source, talks, _Session, *_LISTS)


class _Session:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._calls: list[BatchCall] = []
        self._response: object = None
        self._known: set[str] = set()

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one of its events."""
        if "kind" in fields and "action" not in fields and "observation" not in fields:
            yield from self._other(fields)
        elif text_of(fields, "kind") == "ActionEvent":
            yield from self._asked(_sdk_call(fields), text_of(fields, "llm_response_id"))
        elif text_of(fields, "kind") in _ANSWERS:
            yield from self._answered(text_of(fields, "tool_call_id"), *_sdk_outcome(fields))
        elif "observation" in fields:
            yield from self._answered(str(fields.get("cause")), *_outcome(fields))
        elif fields.get("action") == "message" and fields.get("source") == "user":
            yield from self.done()
            yield self.talk.said()
        elif fields.get("source") == "agent" and text_of(fields, "action") not in _NO_CALL:
            response = as_object(as_object(fields.get("tool_call_metadata")).get("model_response"))
            yield from self._asked(_call(fields), text_of(response, "id"))

    def _other(self, fields: Object) -> Iterator[Event]:
        kind = text_of(fields, "kind")
        if kind == "MessageEvent" and fields.get("source") == "user":
            yield from self.done()
            yield self.talk.said()
        elif kind == "AgentErrorEvent":
            yield from self._answered(text_of(fields, "tool_call_id"), Status.ERROR, fields.get("error"))
        elif kind == "UserRejectObservation":
            reason = fields.get("rejection_reason")
            yield from self._answered(text_of(fields, "tool_call_id"), Status.DENIED, reason)
        elif kind == "Condensation":
            yield from self.done()
            yield self.talk.compacted()

    def _asked(self, call: BatchCall, response: str) -> Iterator[Event]:
        if not response or response != self._response:
            yield from self.done()
        self._response = response
        if call.tool:
            self._known.add(call.call_id)
            self._calls.append(call)

    def _answered(self, call_id: str, status: Status, result: object) -> Iterator[Event]:
        if call_id in self._known:
            yield from self.done()
            self._known.discard(call_id)
            yield self.talk.settled(call_id, result=result, status=status)

    def done(self) -> Iterator[Event]:
        """The response is complete: its calls are one batch."""
        calls, self._calls = self._calls, []
        if calls:
            yield from self.talk.asked(calls)


def _call(event: Object) -> BatchCall:
    args = {name: value for name, value in as_object(event.get("args")).items() if name not in _NO_ARGUMENTS}
    name = text_of(as_object(event.get("tool_call_metadata")), "function_name") or text_of(event, "action")
    return BatchCall(str(event.get("id")), name, args)


def _outcome(event: Object) -> tuple[Status, object]:
    extras = as_object(event.get("extras"))
    metadata = as_object(extras.get("metadata"))
    code = metadata.get("exit_code", extras.get("exit_code"))
    if event.get("observation") == "run" and isinstance(code, int):
        return (Status.OK if code in (0, -1) else Status.ERROR), finished(code, text_of(event, "content"))
    if event.get("observation") == "user_rejected":
        return Status.DENIED, event.get("content")
    failed = event.get("observation") == "error" or extras.get("error") is True
    return (Status.ERROR if failed else Status.OK), event.get("content")


def _sdk_call(event: Object) -> BatchCall:
    args = {name: value for name, value in as_object(event.get("action")).items() if name not in _NO_ARGUMENTS}
    return BatchCall(text_of(event, "tool_call_id", "id"), text_of(event, "tool_name"), args)


def _sdk_outcome(event: Object) -> tuple[Status, object]:
    observation = as_object(event.get("observation"))
    code = observation.get("exit_code", as_object(observation.get("metadata")).get("exit_code"))
    content = observation.get("content", observation.get("output"))
    if isinstance(code, int) and code not in (0, -1):
        return Status.ERROR, {"exitCode": code, "content": content}
    failed = observation.get("is_error") is True or bool(observation.get("error"))
    return (Status.ERROR if failed else Status.OK), content
