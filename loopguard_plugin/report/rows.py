"""One answered event as the line that scripts read (SPEC 14)."""

from __future__ import annotations

import json
from enum import StrEnum

import msgspec
from msgspec import Struct

from ..answers import Acknowledged, Answer, Blocked, Deliver
from ..errors import TurnEndingError
from ..events import Event, ToolCallSettled, ToolCallStarted


class Action(StrEnum):
    """What became of an event."""

    PROCEED = "proceed"
    BLOCK = "block"
    DELIVER = "deliver"
    NOTE = "note"
    END_TURN = "end_turn"
    IGNORED = "ignored"
    ARMED = "armed"
    RESET = "reset"


class Row(Struct, frozen=True, gc=False):
    """The fields of a line, in their order. ``i`` counts the events of the whole replay from 0.

    ``call_id`` and ``tool`` are None for events that are about no call. ``detector`` and ``count`` are set where
    something fired; ``message`` is the note, the reason or the error text.
    """

    i: int
    event: str
    session_key: str
    run_id: str | None
    call_id: str | None
    tool: str | None
    action: Action
    detector: str | None = None
    count: int = 0
    message: str | None = None
    code: str | None = None


def row(i: int, event: Event, answer: Answer | TurnEndingError) -> Row:
    """The line of an event and of the answer that it got, or of the error that it raised."""
    call = event if isinstance(event, (ToolCallStarted, ToolCallSettled)) else None
    action, detector, count, message, code = _said(answer)
    return Row(
        i=i,
        event=str(event.__struct_config__.tag),
        session_key=event.session_key,
        run_id=event.run_id,
        call_id=call.call_id if call is not None else None,
        tool=call.tool if call is not None else None,
        action=action,
        detector=detector,
        count=count,
        message=message,
        code=code,
    )


def _said(answer: Answer | TurnEndingError) -> tuple[Action, str | None, int, str | None, str | None]:
    if isinstance(answer, TurnEndingError):
        return Action.END_TURN, answer.detector, answer.count, answer.message, answer.code
    if isinstance(answer, Blocked):
        return Action.BLOCK, answer.detector, answer.count, answer.reason, None
    if isinstance(answer, Deliver):
        if answer.ignored:
            return Action.IGNORED, None, 0, None, None
        if answer.note is not None:
            return Action.NOTE, answer.detector, answer.count, answer.note, None
        return Action.DELIVER, None, 0, None, None
    if isinstance(answer, Acknowledged):
        return Action(answer.effect), None, 0, None, None
    return Action.PROCEED, None, 0, None, None


_encoder = msgspec.json.Encoder()


def json_line(line: Row) -> bytes:
    """The row as one line of JSON, with its newline."""
    try:
        return _encoder.encode(line) + b"\n"
    except UnicodeError:  # a lone surrogate in a name, which msgspec does not write
        return json.dumps(msgspec.structs.asdict(line)).encode() + b"\n"
