"""What the guard answers: verdicts as steps."""

from __future__ import annotations

from typing import Final

from ..answers import PROCEED, Blocked, Deliver, Fact, Step
from ..errors import TurnEndingError
from ..events import ToolCallSettled
from . import wording
from .batch import Ending, Slot
from .notes import append_note
from .observe import failure_text
from .run import Run

PROCEEDS: Final = Step(PROCEED)


def started(run: Run, slot: Slot | None, facts: list[Fact]) -> Step:
    """To a start. ``slot``: None where nothing is said about the call."""
    refusal = None if slot is None else slot.refusal
    if slot is None or refusal is None:
        return Step(PROCEED, None, tuple(facts)) if facts else PROCEEDS
    blocked = Blocked(refusal.reason, refusal.detector, refusal.count, refusal.terminal)
    if slot.ending is not None:
        return Step(None, error_of(run, slot.ending, blocked), tuple(facts))
    return Step(blocked, None, tuple(facts))


def settled(event: ToolCallSettled, run: Run, slot: Slot, facts: list[Fact]) -> Step:
    """To a settlement: what it brought, with the note that its call was given."""
    result, error, note = event.result, event.error, slot.note
    if note is None:
        answer = Deliver(result, error, ignored=slot.ignored)
    else:
        text = wording.quoting(note.text, failure_text(result, error)) if note.quotes else note.text
        if error is not None:
            error = append_note(error, text)
        else:
            result = append_note(result, text)
        answer = Deliver(result, error, text, note.detector, note.count)
    if slot.ending is not None and slot.refusal is None:
        return Step(None, error_of(run, slot.ending, answer), tuple(facts))
    return Step(answer, None, tuple(facts))


def error_of(run: Run, ending: Ending, answer: Deliver | Blocked | None) -> TurnEndingError:
    """The error that ends a turn, made anew for each that must hear of it."""
    return TurnEndingError(
        code=ending.code,
        message=ending.message,
        session_key=run.session_key,
        run_id=run.run_id,
        tool=ending.tool,
        count=ending.count,
        detector=ending.detector,
        answer=answer,
    )
