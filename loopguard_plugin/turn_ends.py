"""Which turns have ended, so that each counts as one end, however long its host goes on afterwards.

A turn that has ended and whose host goes on without a user message is ended again by every further identical failure
or blocked batch (SPEC 4, 9). Whoever adds up ends asks here: the guard's own statistics and its metrics, and the
reports of a replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from .answers import Fact, RunEnded, RunEvicted
from .events import Event, ToolCallSettled, ToolCallStarted, UserMessageCommitted

Response: TypeAlias = tuple[str | None, str | None]  # batch id and, without one, the call's own id


class TurnEnds:
    """The ended turns of runs that are still in them.

    A new turn starts with a user message of any kind, for all runs of its session, or with a new run. A run that goes
    on from another one (``continues``) goes on in its turn. A compaction starts no turn. Remembers nothing of turns
    that have not ended.

    ``turns``: by session and run, the response that ended the turn. The same mapping for good, empty most of the time.
    """

    __slots__ = ("turns",)

    def __init__(self) -> None:
        self.turns: dict[str, dict[str | None, Response]] = {}

    def over(self, event: Event) -> bool:
        """Whether the event's turn has ended."""
        return bool(self.turns) and _run_of(event) in self.turns.get(_session_of(event), ())

    def further(self, event: Event) -> bool:
        """Take the next event. Answers whether it starts a call after the end of its turn, in another response."""
        if not self.turns:
            return False
        session = self.turns.get(_session_of(event))
        if session is None:
            return False
        if isinstance(event, UserMessageCommitted):
            del self.turns[_session_of(event)]
            return False
        if not isinstance(event, ToolCallStarted):
            return False
        run = _run_of(event)
        if run not in session and event.continues is not None:
            before = event.continues.strip() or None
            if before in session:
                session[run] = session[before]
        return run in session and session[run] != _response_of(event)

    def ends(self, event: Event) -> bool:
        """The event ended its turn. False where that had ended before: then this is no other end."""
        session = self.turns.setdefault(_session_of(event), {})
        run = _run_of(event)
        if run in session:
            return False
        session[run] = _response_of(event)
        return True

    def once(self, event: Event, facts: Iterable[Fact]) -> Iterator[Fact]:
        """The facts of the next event, without a further end of a turn that had ended before."""
        self.further(event)
        for fact in facts:
            if isinstance(fact, RunEvicted):
                self.forget(fact.session_key, fact.run_id)
            if not isinstance(fact, RunEnded) or self.ends(event):
                yield fact

    def forget(self, session_key: str, run_id: str | None) -> None:
        """A run is over, and its turn with it."""
        key = session_key.strip()
        session = self.turns.get(key)
        if session is not None:
            session.pop((run_id or "").strip() or None, None)
            if not session:
                del self.turns[key]


def _session_of(event: Event) -> str:
    return event.session_key.strip()


def _run_of(event: Event) -> str | None:
    return (event.run_id or "").strip() or None


def _response_of(event: Event) -> Response:
    if not isinstance(event, (ToolCallStarted, ToolCallSettled)):
        return None, None
    batch_id = (event.batch_id or "").strip() or None
    return batch_id, (event.call_id.strip() if batch_id is None else None)
