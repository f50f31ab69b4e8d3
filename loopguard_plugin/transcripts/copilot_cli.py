"""Copilot CLI session (``~/.copilot/session-state/…/events.jsonl``): one event a line, ``{type, data, id, parentId}``.

``assistant.message`` lists the calls of a response; each is told again as it starts, and once it is complete. A call
that only starts is a batch of its own. What a sub-agent does carries ``agentId``: a run of its own. Calls that the user
made, and compactions that the user asked for, are left out. Shapes: ``session-events.ts`` in github/copilot-sdk.
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
        self._agents: dict[str, Talk] = {}
        self._known: set[str] = set()  # ids of calls that the model asked for
        self._by_user: set[str] = set()
        self._trigger = ""  # of the compaction that is under way

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one line."""
        data = as_object(fields.get("data"))
        talk = self._talk_of(text_of(fields, "agentId") or text_of(data, "parentToolCallId"))
        call_id = text_of(data, "toolCallId")
        match fields.get("type"):
            case "user.message" if talk is self.talk and not _by_program(data):
                yield talk.steered() if data.get("delivery") == "steering" else talk.said()
            case "assistant.message":
                calls = [_call(as_object(one)) for one in as_list(data.get("toolRequests"))]
                yield from self._asked(talk, [call for call in calls if call.tool])
            case "tool.user_requested":
                self._by_user.add(call_id)
            case _ if call_id in self._by_user:
                return
            case "tool.execution_start" if call_id not in self._known:
                yield from self._asked(talk, [BatchCall(call_id, text_of(data, "toolName"), data.get("arguments"))])
            case "tool.execution_complete":
                yield _settled(talk, call_id, data)
            case "session.compaction_start":
                self._trigger = text_of(data, "trigger")
            case "session.compaction_complete" if data.get("success") is not False:
                if self._trigger != "manual" and not data.get("customInstructions"):
                    yield talk.compacted()
                self._trigger = ""
            case "session.snapshot_rewind":
                talk.branched()
            case "abort":
                yield from talk.cut()

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()

    def _talk_of(self, agent: str) -> Talk:
        if not agent:
            return self.talk
        return self._agents.setdefault(agent, self.talk.sub_agent(f"agent-{agent}"))

    def _asked(self, talk: Talk, calls: list[BatchCall]) -> Iterator[Event]:
        if calls:
            self._known.update(call.call_id for call in calls)
            yield from talk.asked(calls)


def _call(request: Object) -> BatchCall:
    return BatchCall(text_of(request, "toolCallId"), text_of(request, "name"), request.get("arguments"))


def _settled(talk: Talk, call_id: str, data: Object) -> Event:
    """The end of a call. Of its result, what the model reads is compared, not what the terminal shows."""
    if data.get("success") is False or data.get("error"):
        return talk.settled(call_id, result=data.get("error", data.get("result")), status=Status.ERROR)
    result = data.get("result")
    return talk.settled(call_id, result=as_object(result).get("content", result), status=Status.OK)


def _by_program(data: Object) -> bool:
    """Whether nobody wrote this message: a skill, another agent, or the autopilot that goes on by itself."""
    return data.get("isAutopilotContinuation") is True or text_of(data, "source") not in ("", "user")
