"""How the answers of several handlers become one (SPEC 9). Pure; shared by the bus and the middleware.

The strictest answer to a start wins. The guard's note goes onto the result that the next handlers return. An answer
of a kind that is not ours, on a bus that is not ours, is passed on wherever the guard has nothing to say itself.
"""

from __future__ import annotations

from typing import overload

import msgspec

from .answers import PROCEED, Acknowledged, Answer, Blocked, Deliver, Effect, Proceed
from .core.notes import append_note
from .events import CompactionRetry, Event, ToolCallSettled, ToolCallStarted, UserMessageCommitted


@overload
def plain_answer(event: Event) -> Answer: ...
@overload
def plain_answer(event: object) -> Answer | None: ...
def plain_answer(event: object) -> Answer | None:
    """What an event is answered where nobody objects; None for anything that is not one of the four.

    A user message is always answered ``reset``: where nothing is counted, nothing outlives it either.
    """
    if isinstance(event, ToolCallStarted):
        return PROCEED
    if isinstance(event, ToolCallSettled):
        return Deliver(result=event.result, error=event.error)
    if isinstance(event, CompactionRetry):
        return Acknowledged(Effect.IGNORED)
    if isinstance(event, UserMessageCommitted):
        return Acknowledged(Effect.RESET)
    return None


def stricter(first: Proceed | Blocked, second: Proceed | Blocked) -> Proceed | Blocked:
    """The stricter of two answers to a start: terminal beats blocked beats proceed; of equals, the first."""
    return second if _strictness(second) > _strictness(first) else first


def _strictness(answer: Proceed | Blocked) -> int:
    if isinstance(answer, Blocked):
        return 2 if answer.terminal else 1
    return 0


def compose(ours: Answer, theirs: object) -> object:
    """The guard's answer to an event and that of the next handlers, as one. None from them counts as no answer."""
    if theirs is None:
        return ours
    if isinstance(ours, Deliver):
        return _delivered(ours, theirs)
    if isinstance(ours, Blocked):
        return stricter(ours, theirs) if isinstance(theirs, (Proceed, Blocked)) else ours
    if isinstance(ours, Acknowledged) and isinstance(theirs, Acknowledged):
        return ours
    return theirs


def _delivered(ours: Deliver, theirs: object) -> object:
    if ours.note is None and not ours.ignored:
        return theirs
    if not isinstance(theirs, Deliver):
        return ours
    if ours.note is None:
        return msgspec.structs.replace(theirs, ignored=True)
    result, error = theirs.result, theirs.error
    if error is not None:
        error = append_note(error, ours.note)
    else:
        result = append_note(result, ours.note)
    return Deliver(
        result=result,
        error=error,
        note=f"{theirs.note}\n\n{ours.note}" if theirs.note else ours.note,
        detector=ours.detector,
        count=ours.count,
        ignored=ours.ignored or theirs.ignored,
    )
