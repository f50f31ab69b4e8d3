"""The state of one run, and finding its calls again (SPEC 2, 13)."""

from __future__ import annotations

from typing import Final, TypeAlias, TypedDict

from ..answers import Fact, RunSummary, WindowArmed
from ..settings import ResolvedSettings, Settings
from ..settings_resolved import DEFAULTS
from .batch import LISTED, OVER, RUNNING, SETTLED, Batch, Ending, Slot, slot_is_at
from .history import History
from .notes import Buckets
from .post_compaction import BEFORE, CompactionWindow
from .record import VETO
from .repeated_errors import RepeatedErrors

CALLS: Final = 2 * BEFORE
SPENT: Final = "spent"  # beside notes, blocks and ends
REMEMBERED: Final = 64  # open and blocked calls of ended batches, a run (SPEC 2)


# Batch id, call id, index.
Name: TypeAlias = tuple[str | None, str, int | None]


class Place(TypedDict):
    """Where a fact happened."""

    session_key: str
    run_id: str | None
    agent_id: str | None


class Leftovers:
    """What a run keeps that most runs never have.

    ``remembered``: open and blocked calls of ended batches; ``orphans``: calls whose start was never seen; ``would``:
    how many notes, blocks and ends observe mode left undone, and whether it would have spent the allowance.
    """

    __slots__ = ("orphans", "remembered", "would")

    def __init__(self) -> None:
        self.remembered: dict[Name, Slot] = {}
        self.orphans: dict[Name, Slot] = {}
        self.would: dict[str, int] = {}


class Run:
    """What the guard knows of one run.

    ``limits`` are what ``settings`` come to for the run's agent. ``buckets`` are the session's. ``ending``: what last
    ended its turn. ``errors``: the streak of failures, if there is one. ``alone``: the only call of the current
    batch, while it runs. ``calls`` are keys of the latest calls, where the history does not have them. ``spent``: the
    recovery allowance is; ``told``: that calls never settled; ``capped``: a ceiling is set; ``loose``: a call is open
    in a batch that has ended, or was blocked.
    """

    __slots__ = (
        "agent_id",
        "all_calls",
        "alone",
        "armings",
        "batch",
        "buckets",
        "calls",
        "calls_before",
        "capped",
        "continued",
        "ending",
        "errors",
        "history",
        "last_seen",
        "left",
        "limits",
        "loose",
        "parked",
        "previous",
        "run_id",
        "session_key",
        "settings",
        "spent",
        "told",
        "window",
    )

    def __init__(self, session_key: str, run_id: str | None, buckets: Buckets) -> None:
        self.session_key = session_key
        self.run_id = run_id
        self.agent_id: str | None = None
        self.settings: Settings | None = None
        self.limits = DEFAULTS
        self.buckets = buckets
        self.last_seen = 0.0
        self.parked = False
        self.batch = Batch(None)
        self.previous = self.batch
        self.alone: Slot | None = None
        self.left: Leftovers | None = None
        self.history: History | None = None
        self.errors: RepeatedErrors | None = None
        self.window: CompactionWindow | None = None
        self.armings = 0
        self.calls: list[int] | None = None
        self.spent = False
        self.told = False
        self.capped = False
        self.loose = False
        self.all_calls = self.calls_before = 0
        self.continued = False
        self.ending: Ending | None = None

    def known_start(self, call_id: str, batch_id: str | None, index: int | None) -> Slot | None:
        """The call that a start speaks of, if it is known: started before, or listed in the current batch.

        Without ``batch_id`` an id that has settled is free again, so only an open call is known.
        """
        batch, previous = self.batch, self.previous
        if batch_id is None:
            for one in (batch, previous):
                if one.batch_id is None and one.slots and one.slots[0].call_id == call_id and one.slots[0].open:
                    return one.slots[0]
            alone = self.left.remembered.get((None, call_id, None)) if self.left is not None else None
            return alone if alone is not None and alone.open else None
        known = batch.find(call_id, index, fresh=True) if batch_id == batch.batch_id else None
        if known is None and batch_id == previous.batch_id:
            known = previous.find(call_id, index, fresh=True)
            if known is not None and known.state is LISTED:
                known = None
        if known is None:
            known = self._recall(call_id, batch_id, index)
        return known

    def known_settlement(self, call_id: str, batch_id: str | None, index: int | None) -> Slot | None:
        """The call that a settlement speaks of, if it is known: without ``batch_id`` the newest open one of that id."""
        settled = None
        for batch in (self.batch, self.previous):
            if batch_id is None or batch.batch_id == batch_id:
                slot = batch.find(call_id, index, fresh=False)
                if slot is not None and (slot.open or batch_id is not None):
                    return slot
                settled = settled or slot
        for memory in () if self.left is None else (self.left.remembered, self.left.orphans):
            for (its_batch, its_call, _), slot in reversed(memory.items()):
                if its_call == call_id and (batch_id is None or its_batch == batch_id) and slot_is_at(slot, index):
                    if slot.open or batch_id is not None:
                        return slot
                    settled = settled or slot
        return settled

    def _recall(self, call_id: str, batch_id: str, index: int | None) -> Slot | None:
        for (its_batch, its_call, _), slot in reversed(self.remembered().items()):
            if its_call == call_id and its_batch == batch_id and slot_is_at(slot, index):
                return slot
        return None

    def has_started(self, call_id: str, batch_id: str, index: int) -> bool:
        """Whether this call of a batch that comes back started before the batch ended."""
        slot = self.previous.find(call_id, index, fresh=False) if self.previous.batch_id == batch_id else None
        slot = slot or self._recall(call_id, batch_id, index)
        return slot is not None and slot.state is not LISTED

    def knows_batch(self, batch_id: str) -> bool:
        """Whether the current or the previous batch is of that id."""
        return batch_id == self.batch.batch_id or batch_id == self.previous.batch_id

    def settled_unstarted(self, slot: Slot) -> bool:
        """Whether a listed call was settled without a start and its batch is closed by now: then it may not start."""
        settled = slot.state is SETTLED or slot.state is OVER
        unstarted = slot.record is None and slot.refusal is None
        return settled and unstarted and self.batch.closed and self.batch.holds(slot)

    def closed_batch(self, batch_id: str) -> Batch | None:
        """The current or previous batch of that id, if its calls that have not started count as blocked."""
        for batch in (self.batch, self.previous):
            if batch.batch_id == batch_id and batch.closed:
                return batch
        return None

    def leftovers(self) -> Leftovers:
        """What the run keeps beyond the ordinary, made when there is something."""
        if self.left is None:
            self.left = Leftovers()
        return self.left

    def remembered(self) -> dict[Name, Slot]:
        """Calls that are kept beyond their batch, by name."""
        return {} if self.left is None else self.left.remembered

    def remember(self, batch_id: str | None, slot: Slot) -> None:
        """Keep a call beyond its batch: the newest of those that were open or blocked when it ended."""
        _keep(self.leftovers().remembered, batch_id, slot)

    def count_open(self) -> None:
        """Note whether a call is open beyond the current batch, or blocked in it: then its start may come again."""
        self.loose = self.batch.closed or any(slot.open for slot in self.remembered().values())

    def remember_orphan(self, batch_id: str | None, slot: Slot) -> None:
        """Keep a call whose start was never seen: the newest of them."""
        _keep(self.leftovers().orphans, batch_id, slot)

    def wants_outcomes(self) -> bool:
        """Whether anything compares outcomes of calls that worked."""
        return self.history is not None or self.window is not None

    def fit(self) -> None:
        """Bring the run in line with the settings of the moment; there is no history while the detectors are off."""
        limits = self.limits
        history = self.history
        self.capped = limits.calls_per_run is not None or limits.calls_per_turn is not None
        self.batch.projection = self.batch.shadow = None  # made of a history that may be another one below
        if not limits.rolling:
            self.history = None
        else:
            if history is None:
                history = self.history = History(limits.history_size)
            elif history.size != limits.history_size:
                history.resize(limits.history_size)
            history.widen(cycle=limits.cycle, error_cascade=limits.error_cascade)

    def arm(self, limits: ResolvedSettings, facts: list[Fact]) -> bool:
        """A compaction retry; answers whether the guard is on."""
        if not limits.post_compaction:
            self.window = None
            return False
        self.window = CompactionWindow(limits.window_size, self.latest_calls())
        self.armings += 1
        facts.append(WindowArmed(**self.place(), attempts=limits.window_size))
        return True

    def latest_calls(self) -> list[int]:
        """Keys of the latest calls: out of the history where there is one that reaches back far enough."""
        if self.history is None or self.history.size < BEFORE:
            return (self.calls or [])[-BEFORE:]
        records = [*self.history.records, *self.batch.arrivals]
        return [record.key for record in records if not record.marks & VETO][-BEFORE:]

    def new_input(self) -> None:
        """A user message of whatever kind: error streaks and the turn's calls are counted afresh."""
        self.errors = None
        self.ending = None
        self.calls_before = self.all_calls

    def renew(self) -> None:
        """A user message of kind ``message``: the unnamed run may survive another blocked batch."""
        self.spent = False
        if self.left is not None:
            self.left.would.pop(SPENT, None)

    def over_limit(self, asked: int) -> int | None:
        """Whether so many more calls would pass a ceiling; if so, how many of its calls were made."""
        limits = self.limits
        if limits.calls_per_turn is not None and self.turn_calls + asked > limits.calls_per_turn:
            return self.turn_calls
        if limits.calls_per_run is not None and self.all_calls + asked > limits.calls_per_run:
            return self.all_calls
        return None

    def continue_from(self, old: Run | None) -> None:
        """This run goes on from an old one: the error streak moves over, once."""
        if self.continued:
            return
        self.continued = True
        if old is not None and old is not self and self.errors is None:
            self.errors, old.errors = old.errors, None

    def open_calls(self) -> int:
        """How many calls of this run are known to have started and not to have settled."""
        return self.batch.running + sum(slot.state is RUNNING for slot in self.remembered().values())

    @property
    def turn_calls(self) -> int:
        """How many calls were made since the last user message."""
        return self.all_calls - self.calls_before

    def count_call(self, key: int) -> None:
        """A call was let through, or a settlement shows that it was made."""
        self.all_calls += 1
        if self.history is None or self.history.size < BEFORE:
            calls = self.calls
            if calls is None:
                calls = self.calls = []
            calls.append(key)
            if len(calls) >= CALLS:
                del calls[:BEFORE]

    def count_observed(self, what: str) -> None:
        """One more of the ``notes``, ``blocks`` or ``ends`` that observe mode left undone."""
        would = self.leftovers().would
        would[what] = would.get(what, 0) + 1

    def observed(self, what: str) -> int:
        """How many of the ``notes``, ``blocks`` or ``ends`` observe mode left undone."""
        return 0 if self.left is None else self.left.would.get(what, 0)

    def summary(self) -> RunSummary | None:
        """What observe mode left undone in this run, if anything."""
        notes, blocks, ends = map(self.observed, ("notes", "blocks", "ends"))
        if not notes + blocks + ends:
            return None
        return RunSummary(**self.place(), notes=notes, blocks=blocks, ends=ends)

    def place(self) -> Place:
        """Where a fact about this run happened."""
        return {"session_key": self.session_key, "run_id": self.run_id, "agent_id": self.agent_id}


def _keep(memory: dict[Name, Slot], batch_id: str | None, slot: Slot) -> None:
    name = (batch_id, slot.call_id, None if batch_id is None else slot.index)
    memory.pop(name, None)
    memory[name] = slot
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
