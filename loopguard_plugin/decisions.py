"""What the guard did, as an event on the gateway's own bus, for notices, webhooks and dashboards. No contents."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from .answers import BatchBlocked, Code, Detector, Fact, NoteEmitted, RunEnded


class Action(StrEnum):
    """What was done, or in observe mode would have been."""

    WARN = "warn"
    BLOCK = "block"
    END_TURN = "end_turn"
    WOULD_WARN = "would_warn"
    WOULD_BLOCK = "would_block"
    WOULD_END_TURN = "would_end_turn"


class LoopGuardDecision(Struct, frozen=True, kw_only=True, tag_field="type", tag="loop_guard_decision"):
    """A note, a blocked batch, the end of a turn, or what observe mode left undone.

    ``tool`` is the name as the model wrote it, ``call_id`` the call that repeats. ``code`` is set where a turn ends.
    """

    session_key: str
    run_id: str | None
    agent_id: str | None
    tool: str
    call_id: str
    action: Action
    detector: Detector
    count: int
    code: Code | None = None


def decision(fact: Fact) -> LoopGuardDecision | None:
    """The event for a fact; None for facts that tell of no decision."""
    if isinstance(fact, NoteEmitted):
        action = Action.WOULD_WARN if fact.observed else Action.WARN
    elif isinstance(fact, BatchBlocked):
        action = Action.WOULD_BLOCK if fact.observed else Action.BLOCK
    elif isinstance(fact, RunEnded):
        action = Action.WOULD_END_TURN if fact.observed else Action.END_TURN
    else:
        return None
    return LoopGuardDecision(
        session_key=fact.session_key,
        run_id=fact.run_id,
        agent_id=fact.agent_id,
        tool=fact.tool,
        call_id=fact.call_id,
        action=action,
        detector=fact.detector,
        count=fact.count,
        code=fact.code if isinstance(fact, RunEnded) else None,
    )
