"""Events that are short to write, and a way to play them through the public face.

    play({"enabled": True}, [start("c1"), settle("c1"), start("c2"), settle("c2", error="boom")])

gives one :class:`model.Answer` an event: action, detector, count and code, as ``loopguard replay --json`` has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import anyio
from model import Answer

from loopguard_plugin import EmbeddedBus, LoopGuard, TurnEndingError
from loopguard_plugin.answers import Acknowledged, Blocked, Deliver, Proceed
from loopguard_plugin.events import (
    BatchCall,
    CompactionRetry,
    Event,
    MessageKind,
    Status,
    ToolCallSettled,
    ToolCallStarted,
    UserMessageCommitted,
    decode_event,
)
from loopguard_plugin.settings import Settings, parse_settings

SAME: dict[str, object] = {"p": 1}


def start(
    call_id: str,
    tool: str = "read",
    args: object = SAME,
    *,
    run: str | None = "r",
    session: str = "s",
    batch_id: str | None = None,
    index: int | None = None,
    batch: Iterable[tuple[str, str, object]] | None = None,
    continues: str | None = None,
    agent: str | None = None,
) -> ToolCallStarted:
    """A call is about to run. ``batch``: the whole response, as ``(call_id, tool, args)``."""
    return ToolCallStarted(
        session_key=session,
        run_id=run,
        agent_id=agent,
        call_id=call_id,
        tool=tool,
        args=args,
        batch_id=batch_id,
        index=index,
        batch=None if batch is None else tuple(BatchCall(*call) for call in batch),
        continues=continues,
    )


def settle(
    call_id: str,
    tool: str = "read",
    result: object = None,
    *,
    error: object = None,
    status: str | None = None,
    args: object = None,
    run: str | None = "r",
    session: str = "s",
    batch_id: str | None = None,
    index: int | None = None,
    identity: object = None,
    deliverable: bool = True,
    agent: str | None = None,
) -> ToolCallSettled:
    """A call ended; without a result or an error it gave the text "same"."""
    return ToolCallSettled(
        session_key=session,
        run_id=run,
        agent_id=agent,
        call_id=call_id,
        tool=tool,
        result="same" if result is None and error is None else result,
        error=error,
        status=None if status is None else Status(status),
        args=args,
        batch_id=batch_id,
        index=index,
        outcome_identity=identity,
        deliverable=deliverable,
    )


def compaction(*, run: str | None = "r", session: str = "s") -> CompactionRetry:
    """The gateway compacted the context and retries."""
    return CompactionRetry(session_key=session, run_id=run)


def message(
    kind: str = "message", *, message_id: str | None = None, run: str | None = "r", session: str = "s"
) -> UserMessageCommitted:
    """A user message entered the transcript."""
    return UserMessageCommitted(session_key=session, run_id=run, kind=MessageKind(kind), message_id=message_id)


def turns(count: int, tool: str = "read", args: object = SAME, *, prefix: str = "c", **settled: Any) -> list[Event]:
    """``count`` calls one after another, each settled before the next: ``c1``, ``c2``… ``settled``: see settle."""
    events: list[Event] = []
    for at in range(1, count + 1):
        events.append(start(f"{prefix}{at}", tool, args, session=settled.get("session", "s")))
        events.append(settle(f"{prefix}{at}", tool, **settled))
    return events


def detection(**values: object) -> dict[str, object]:
    """A whole configuration with these keys under ``tools.loopDetection``."""
    return {"tools": {"loopDetection": values}}


def settings_of(settings: Settings | Mapping[str, object]) -> Settings:
    """Settings as they are, from a whole configuration, or from the keys of ``tools.loopDetection`` alone."""
    if isinstance(settings, Settings):
        return settings
    whole = {"tools", "agents", "plugins"} & set(settings) or not settings
    return parse_settings(settings if whole else detection(**settings))


def play(
    settings: Settings | Mapping[str, object], events: Iterable[Event | Mapping[str, Any]]
) -> list[tuple[str, str | None, int, str | None]]:
    """The answers to these events, in order, of a fresh guard on an embedded bus."""
    return list(anyio.run(publish_all, LoopGuard(settings_of(settings)), events))


async def publish_all(guard: LoopGuard, events: Iterable[Event | Mapping[str, Any]]) -> list[Answer]:
    """The answers of this guard, on a bus with one subscriber that stands for the gateway."""
    bus = EmbeddedBus()
    bus.use(guard)
    bus.subscribe(object, _gateway)
    answers = []
    for one in events:
        event = decode_event(one) if isinstance(one, Mapping) else one
        try:
            answers.append(line(await bus.publish(event)))
        except TurnEndingError as error:
            answers.append(line(error))
    assert guard.stats().errors == 0, "the guard failed open"
    return answers


def line(answer: object) -> Answer:
    """An answer, or the error in its place, as a ``--json`` line says it (SPEC 14)."""
    if isinstance(answer, TurnEndingError):
        return Answer("end_turn", str(answer.detector), answer.count, str(answer.code))
    if isinstance(answer, Proceed):
        return Answer("proceed")
    if isinstance(answer, Blocked):
        return Answer("block", str(answer.detector), answer.count)
    if isinstance(answer, Acknowledged):
        return Answer(str(answer.effect))
    assert isinstance(answer, Deliver), answer
    if answer.note is not None:
        return Answer("note", str(answer.detector), answer.count)
    return Answer("ignored" if answer.ignored else "deliver")


async def _gateway(event: object) -> None:
    """Hears every event and has no opinion."""
