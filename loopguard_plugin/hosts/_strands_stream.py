"""The reason of an ended turn as events of a Strands stream.

Strands lets a hook end a turn, but says nothing of it before its last event, the result: whoever streams would see the
agent fall silent. The stage of middleware that wraps a whole stream, and the classes of its events, are not public;
without them only the result has the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from strands import Agent
from strands.middleware._agent_stream import AgentStreamStage
from strands.types._events import (
    EventLoopStopEvent,
    ModelMessageEvent,
    ModelStreamChunkEvent,
    TextStreamEvent,
    TypedEvent,
)
from strands.types.content import Message

__all__ = ["tell"]


def tell(agent: Agent, take_reason: Callable[[], str | None]) -> None:
    """Have the agent's streams tell the reason. ``take_reason`` gives it once, right before the last event."""

    async def streaming(context: Any, next_fn: Any) -> AsyncIterator[Any]:
        async for event in next_fn(context):
            if isinstance(event, EventLoopStopEvent) and (reason := take_reason()) is not None:
                for word in _spoken(reason, event["stop"][1]):
                    yield word
            yield event

    agent.add_middleware(AgentStreamStage, streaming)


def _spoken(text: str, message: Message) -> list[TypedEvent]:
    """A model's answer as the consumer of a stream sees it: chunks as a provider sends them, the text, the message."""
    delta: Any = {"text": text}
    chunks: list[Any] = [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockStart": {"start": {}}},
        {"contentBlockDelta": {"delta": delta}},
        {"contentBlockStop": {}},
        {"messageStop": {"stopReason": "end_turn"}},
    ]
    events: list[TypedEvent] = [ModelStreamChunkEvent(chunk) for chunk in chunks]
    events.insert(3, TextStreamEvent(delta, text))
    return [*events, ModelMessageEvent(message)]
