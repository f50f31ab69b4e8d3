"""A walk over recorded events beside the guard: which calls a run made, and what the guard made of them.

The guard keeps digests and answers; which *events* they came from only a recording can tell. Calls are compared here by
what the guard's own observing half says of them, so that the two cannot disagree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from ..answers import BatchBlocked, Fact, RunEnded, Step
from ..core.observe import Call, Settlement, observe_call, observe_settlement
from ..events import CompactionRetry, Event, Status, ToolCallSettled, ToolCallStarted, UserMessageCommitted
from ..settings import ResolvedSettings, Settings

_MARGIN: Final = 1024  # calls of a run that are kept beyond its history: a wide batch may stand in it

_NOTHING: Final = (Status.SKIPPED, Status.ABORTED, Status.BLOCKED)


@dataclass(slots=True, eq=False)
class Made:
    """One call. ``started`` and ``settled`` are numbers of events; ``batch`` counts the batches of its run.

    ``vetoed``: the guard refused it; ``silent``: without a trace in the history, for it was not the one that repeats.
    """

    call: Call
    call_id: str
    batch_id: str | None
    index: int | None
    batch: int
    started: int | None = None
    settled: int | None = None
    settlement: Settlement | None = None
    vetoed: bool = False
    silent: bool = False

    @property
    def at(self) -> int:
        """The number of its first event."""
        return self.started if self.started is not None else self.settled or 0

    @property
    def outcome(self) -> int | None:
        """What came of it, compared in full; None while there is nothing."""
        return None if self.settlement is None or self.vetoed else self.settlement.outcome

    @property
    def failed(self) -> bool:
        """Whether it has failed."""
        return self.outcome is not None and self.settlement is not None and self.settlement.error_text is not None

    @property
    def failure(self) -> int | None:
        """Its failure identity; that of a failure without one is the outcome. None where there is none."""
        if self.settlement is None or self.vetoed:
            return None
        return self.outcome if self.failed and self.settlement.failure is None else self.settlement.failure

    @property
    def compared(self) -> int | None:
        """What no-progress, ping-pong evidence and stagnation compare: of failures their identity, else the outcome."""
        return self.failure if self.failed else self.outcome


@dataclass(slots=True)
class RunWalk:
    """One run. ``blocks``: events at which a batch was blocked, with the fact; ``ends`` likewise.

    ``listed``: the whole current batch, where its first start brought the list.
    """

    limits: ResolvedSettings
    made: deque[Made] = field(default_factory=deque)
    blocks: list[tuple[int, BatchBlocked]] = field(default_factory=list)
    ends: list[tuple[int, RunEnded]] = field(default_factory=list)
    compaction: int | None = None
    batch_id: str | None = None
    batches: int = 0
    listed: list[Made] = field(default_factory=list)

    def before(self, made: Made) -> list[Made]:
        """The calls of earlier batches that the history still holds when this call is judged, the oldest first."""
        earlier = [one for one in self.made if one.batch < made.batch and not one.silent]
        return earlier[-self.limits.history_size :]

    def responses(self, made: Made) -> Iterator[tuple[int, list[Made]]]:
        """The responses before that of a call, in order, each with the event at which it was over (SPEC 8).

        It is over when the next one begins. Settlements without a start are no response.
        """
        starts: dict[int, list[Made]] = {}
        for one in self.made:
            if one.started is not None and one.batch <= made.batch:
                starts.setdefault(one.batch, []).append(one)
        numbers = sorted(starts)
        for number, after in pairwise(numbers):
            over = min(one.at for one in starts[after])
            yield over, [one for one in starts[number] if not one.silent]

    def siblings(self, made: Made) -> list[Made]:
        """Calls of the same batch that stand before it: in the list where there is one, else as they started."""
        if made.batch == self.batches and self.listed:
            place = next((at for at, one in enumerate(self.listed) if same_call(one, made)), 0)
            return self.listed[:place]
        return [one for one in self.made if one.batch == made.batch and one is not made and one.at < made.at]


def same_call(one: Made, other: Made) -> bool:
    """Whether two records of the current batch speak of one call."""
    return one.call_id == other.call_id and (None in (one.index, other.index) or one.index == other.index)


class Walk:
    """All runs so far."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.runs: dict[tuple[str, str | None], RunWalk] = {}
        self.messages: dict[str, int] = {}  # the last user message of each session
        self._seen: set[tuple[str, str]] = set()

    def run_of(self, event: Event) -> RunWalk:
        """The run of an event, made if need be."""
        key = (event.session_key.strip(), (event.run_id or "").strip() or None)
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = RunWalk(self._settings.resolve(event.agent_id))
        elif event.agent_id:
            run.limits = self._settings.resolve(event.agent_id)
        return run

    def take(self, i: int, event: Event, step: Step) -> Made | None:
        """One event and the guard's step; the call that it is about."""
        run = self.run_of(event)
        self._facts(i, run, step.facts)
        if isinstance(event, ToolCallStarted):
            return _started(i, run, event, step)
        if isinstance(event, ToolCallSettled):
            return _settled(i, run, event)
        if isinstance(event, CompactionRetry):
            run.compaction = i
        elif isinstance(event, UserMessageCommitted):
            self._user(i, event)
        return None

    def _user(self, i: int, event: UserMessageCommitted) -> None:
        name = (event.session_key.strip(), (event.message_id or "").strip())
        if not name[1] or name not in self._seen:
            self._seen.add(name)
            self.messages[name[0]] = i

    @staticmethod
    def _facts(i: int, run: RunWalk, facts: tuple[Fact, ...]) -> None:
        for fact in facts:
            if isinstance(fact, BatchBlocked):
                run.blocks.append((i, fact))
            elif isinstance(fact, RunEnded):
                run.ends.append((i, fact))


def _started(i: int, run: RunWalk, event: ToolCallStarted, step: Step) -> Made:
    batch_id, call_id = (event.batch_id or "").strip() or None, event.call_id.strip()
    if batch_id is None or batch_id != run.batch_id:
        run.batches += 1
        run.batch_id = batch_id
        run.listed = [
            Made(observe_call(one.tool, one.args, run.limits), one.call_id.strip(), batch_id, at, run.batches, i)
            for at, one in enumerate(event.batch or ())
        ]
    fresh = Made(observe_call(event.tool, event.args, run.limits), call_id, batch_id, event.index, run.batches, i)
    if batch_id is not None:
        known = next((one for one in reversed(run.made) if one.batch_id == batch_id and same_call(one, fresh)), None)
        if known is not None:
            return known  # published twice, or of a listed batch that was blocked whole
    made = next((one for one in run.listed if same_call(one, fresh) and one not in run.made), fresh)
    made.started = i
    run.made.append(made)
    if is_refused(step):
        made.vetoed = True
        made.silent = not _repeats(run, made.call)
        for other in run.listed:
            if other not in run.made and _repeats(run, other.call):
                other.vetoed = True
                run.made.append(other)
    while len(run.made) > run.limits.history_size + _MARGIN:
        run.made.popleft()
    return made


def is_refused(step: Step) -> bool:
    """Whether a start was answered by a block, or by the end of the turn."""
    return step.error is not None or type(step.answer).__name__ == "Blocked"


def _repeats(run: RunWalk, call: Call) -> bool:
    """Whether a blocked call is the one that repeats, or the same as it: only these leave a veto."""
    if not run.blocks:
        return False
    culprit = run.blocks[-1][1].call_id
    return any(one.call_id == culprit and one.call.key == call.key for one in (*run.listed, *reversed(run.made)))


def _settled(i: int, run: RunWalk, event: ToolCallSettled) -> Made:
    batch_id = (event.batch_id or "").strip() or None
    found = next(_fitting(run, event, batch_id), None)
    if found is None:
        run.batches += 1
        call = observe_call(event.tool, event.args, run.limits)
        found = Made(call, event.call_id.strip(), batch_id, event.index, run.batches)
        run.listed = []
        run.made.append(found)
    if found.settled is None:
        found.settled = i
        if not found.vetoed:
            settlement = observe_settlement(event, found.call, want_outcome=True)
            found.settlement = None if settlement.status in _NOTHING else settlement
            found.vetoed = settlement.status is Status.BLOCKED  # by another layer, for this guard had let it run
    return found


def _fitting(run: RunWalk, event: ToolCallSettled, batch_id: str | None) -> Iterator[Made]:
    """The calls that a settlement may belong to, the newest open one first."""
    same = [
        one
        for one in reversed(run.made)
        if one.call_id == event.call_id.strip()
        and (batch_id is None or one.batch_id == batch_id)
        and (event.index is None or one.index is None or one.index == event.index)
    ]
    yield from (one for one in same if one.settled is None)
    yield from same
