"""Kimi CLI session (``wire.jsonl``): a message of its wire protocol a line, ``{timestamp, message: {type, payload}}``.

``ToolCall`` and ``ToolResult`` are paired by id; calls up to the first result are one batch. Arguments may go on in
``ToolCallPart``. What a sub-agent does is wrapped in ``SubagentEvent``: a run of its own. Shape: the wire mode page of
Kimi CLI's documentation, ``wire/types.py`` in MoonshotAI/kimi-cli.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_object, json_text, text_of

_TYPES = ("TurnBegin", "StepBegin", "ToolCall", "ToolResult", "ContentPart", "StatusUpdate", "CompactionBegin")


def fits(value: object) -> bool:
    """Whether this is a message of the wire."""
    fields = as_object(value)
    return as_object(fields.get("message")).get("type") in _TYPES or "protocol_version" in fields


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one session."""
    return conversations(source, talks, _Wire)


class _Wire:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._calls: list[tuple[str, str, str]] = []  # id, name, arguments as text so far
        self._agents: dict[str, _Wire] = {}

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one line."""
        message = as_object(fields.get("message"))
        yield from self._message(text_of(message, "type"), as_object(message.get("payload")))

    def _message(self, kind: str, payload: Object) -> Iterator[Event]:
        match kind:
            case "TurnBegin":
                yield from self.done()
                yield self.talk.said()
            case "SteerInput":
                yield from self.done()
                yield self.talk.steered()
            case "ToolCall":
                function = as_object(payload.get("function"))
                given = (text_of(payload, "id"), text_of(function, "name"), text_of(function, "arguments"))
                self._calls.append(given)
            case "ToolCallPart" if self._calls:
                call_id, name, text = self._calls[-1]
                self._calls[-1] = (call_id, name, text + text_of(payload, "arguments_part"))
            case "ToolResult":
                yield from self.done()
                value = as_object(payload.get("return_value") or payload.get("result"))
                failed = value.get("is_error") is True
                result = value.get("output") or value.get("message")
                status = Status.ERROR if failed else Status.OK
                yield self.talk.settled(text_of(payload, "tool_call_id"), result=result, status=status)
            case "StepBegin":
                yield from self.done()
            case "StepInterrupted":
                yield from self.done()
                yield from self.talk.cut()
            case "CompactionEnd":
                yield from self.done()
                yield self.talk.compacted()
            case "SubagentEvent":
                name = text_of(payload, "agent_id", "parent_tool_call_id", "task_tool_call_id") or "agent"
                agent = self._agents.setdefault(name, _Wire(self.talk.sub_agent(f"agent-{name}")))
                event = as_object(payload.get("event"))
                yield from agent._message(text_of(event, "type"), as_object(event.get("payload")))

    def done(self) -> Iterator[Event]:
        """The response is complete: its calls are one batch."""
        calls, self._calls = self._calls, []
        if calls:
            made = [BatchCall(call_id, name, json_text(text) if text else None) for call_id, name, text in calls]
            yield from self.talk.asked(made)
        for agent in self._agents.values():
            yield from agent.done()
