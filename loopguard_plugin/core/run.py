"""The state of one run, and finding its calls again (SPEC 2, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, TypedDict

from ..answers import Detector, Fact, RunSummary, WindowArmed
from ..settings import ResolvedSettings, Settings
from ..settings_resolved import DEFAULTS
from .batch import LISTED, OVER, RUNNING, SETTLED, Batch, Ending, Lone, Slot, slot_is_at
from .history import History
from .notes import Buckets
from .observe import Call, Settlement, tools_under
from .post_compaction import BEFORE, CompactionWindow
from .record import VETO, Record
from .repeated_errors import RepeatedErrors

CALLS: Final = 2 * BEFORE
SPENT: Final = "spent"  # beside notes, blocks and ends
REMEMBERED: Final = 64  # open and blocked calls of ended batches, a run (SPEC 2)


# Batch id, call id, index.
Name: TypeAlias = tuple[str | None, str, int | None]


_NO_BATCH: Final = Batch(None)  # while a call stands for it


class Place(TypedDict):
    """Where a fact happened."""

    session_key: str
    run_id: str | None
    agent_id: str | None


class Leftovers:
    """What a run keeps that most runs never have.

    ``remembered``: open and blocked calls of ended batches; ``orphans``: calls whose start was never seen;
    ``batches``: how many of both there are, by batch id; ``would``: how many notes, blocks and ends observe mode left
    undone, and whether it would have spent the allowance.
    """

    __slots__ = ("batches", "orphans", "remembered", "would")

    def __init__(self) -> None:
        self.remembered: dict[Name, Slot] = {}
        self.batches: dict[str | None, int] = {}
        self.orphans: dict[Name, Slot] = {}
        self.would: dict[str, int] = {}

    def keep(self, memory: dict[Name, Slot], batch_id: str | None, slot: Slot) -> None:
        """One more call in one of the two memories; the oldest in it goes when there are too many."""
        name = (batch_id, slot.call_id, None if batch_id is None else slot.index)
        if name in memory:
            self.drop(memory, name)
        memory[name] = slot
        self.batches[batch_id] = self.batches.get(batch_id, 0) + 1
        if len(memory) > REMEMBERED:
            self.drop(memory, next(iter(memory)))

    def drop(self, memory: dict[Name, Slot], name: Name) -> None:
        """Forget a call."""
        del memory[name]
        self.batches[name[0]] -= 1
        if not self.batches[name[0]]:
            del self.batches[name[0]]


class Run:
    """What the guard knows of one run.

    ``limits`` are what ``settings`` come to for the run's agent, ``tools`` what is known of tools under them.
    ``buckets`` are the session's. ``ending``: what last ended its turn. ``errors``: the streak of failures, if there
    is one. ``calls`` are keys of the latest calls, where the history does not have them (``apart``). ``spent``: the
    recovery allowance is; ``told``: that calls never settled; ``capped``: a ceiling is set; ``loose``: a call is open
    in a batch that has ended, or was blocked; ``patient``: nothing is said about a call that was made once before;
    ``careful``: a start needs more than a look at the current batch, for there is a ceiling or something left over.

    Most batches are one call that nothing is said about. Such a call, ``lone``, stands for its batch; once it has
    settled, ``made`` is its record, which the history takes with the next batch. ``current`` is nothing then: whoever
    needs the batch itself asks for it :meth:`in_full`. ``before`` is the batch before it.
    """

    __slots__ = (
        "agent_id",
        "all_calls",
        "apart",
        "armings",
        "before",
        "buckets",
        "calls",
        "calls_before",
        "capped",
        "careful",
        "continued",
        "current",
        "ending",
        "errors",
        "history",
        "last_seen",
        "left",
        "limits",
        "lone",
        "loose",
        "made",
        "parked",
        "patient",
        "run_id",
        "session_key",
        "settings",
        "spent",
        "told",
        "tools",
        "window",
    )

    def __init__(self, session_key: str, run_id: str | None, buckets: Buckets) -> None:
        self.session_key = session_key
        self.run_id = run_id
        self.agent_id: str | None = None
        self.settings: Settings | None = None
        self.limits = DEFAULTS
        self.tools = tools_under(DEFAULTS)
        self.buckets = buckets
        self.last_seen = 0.0
        self.parked = False
        self.current = Batch(None)
        self.before: Lone | Batch = self.current
        self.lone: Lone | None = None
        self.made: Record | None = None
        self.left: Leftovers | None = None
        self.history: History | None = None
        self.errors: RepeatedErrors | None = None
        self.window: CompactionWindow | None = None
        self.armings = 0
        self.calls: list[int] | None = None
        self.spent = False
        self.told = False
        self.capped = self.careful = False
        self.apart = True
        self.patient = False
        self.loose = False
        self.all_calls = self.calls_before = 0
        self.continued = False
        self.ending: Ending | None = None

    def in_full(self) -> Batch:
        """The current batch: from now on it is ``current``, and no call stands for it."""
        lone, made = self.lone, self.made
        if lone is not None:
            running = made is None
            self.open(lone.spread(made or Record(lone.call.key, lone.call.tool), running=running))
            self.current.news = self.is_news(lone.call)
        return self.current

    def open(self, batch: Batch) -> None:
        """Another batch is the current one."""
        self.current = batch
        self.lone = self.made = None

    def let_alone(self, lone: Lone) -> None:
        """A new batch of one call, which runs and stands for it: there is no ``current`` one until more is asked."""
        self.lone, self.made = lone, None
        self.current = _NO_BATCH

    @property
    def previous(self) -> Batch:
        """The batch before the current one; that one itself where there was none."""
        before = self.before
        if isinstance(before, Lone):
            before = self.before = before.spread(None)
        return before

    def known_start(self, call_id: str, batch_id: str | None, index: int | None) -> Slot | None:
        """The call that a start speaks of, if it is known: started before, or listed in the current batch.

        Without ``batch_id`` an id that has settled is free again, so only an open call is known.
        """
        batch = self.current
        if batch_id is None:
            for one in (batch, self.previous):
                if one.batch_id is None and one.slots and one.slots[0].call_id == call_id and one.slots[0].open:
                    return one.slots[0]
            alone = self.left.remembered.get((None, call_id, None)) if self.left is not None else None
            return alone if alone is not None and alone.open else None
        known = batch.find(call_id, index, fresh=True) if batch_id == batch.batch_id else None
        if known is None and batch_id == self.before.batch_id:
            known = self.previous.find(call_id, index, fresh=True)
            if known is not None and known.state is LISTED:
                known = None
        if known is None:
            known = self._recall(call_id, batch_id, index)
        return known

    def known_settlement(self, call_id: str, batch_id: str | None, index: int | None) -> Slot | None:
        """The call that a settlement speaks of, if it is known: without ``batch_id`` the newest open one of that id."""
        settled = None
        for batch in (self.current, self.previous):
            if batch_id is None or batch.batch_id == batch_id:
                slot = batch.find(call_id, index, fresh=False)
                if slot is not None and (batch_id is not None or slot.open):
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
        return batch_id == self.current.batch_id or batch_id == self.before.batch_id

    def settled_unstarted(self, slot: Slot) -> bool:
        """Whether a listed call was settled without a start and its batch is closed by now: then it may not start."""
        settled = slot.state is SETTLED or slot.state is OVER
        unstarted = slot.record is None and slot.refusal is None
        return settled and unstarted and self.current.closed and self.current.holds(slot)

    def closed_batch(self, batch_id: str) -> Batch | None:
        """The current or previous batch of that id, if its calls that have not started count as blocked."""
        for batch in (self.current, self.before):
            if batch.batch_id == batch_id and isinstance(batch, Batch) and batch.closed:
                return batch
        return None

    def leftovers(self) -> Leftovers:
        """What the run keeps beyond the ordinary, made when there is something."""
        if self.left is None:
            self.left = Leftovers()
            self.careful = True
        return self.left

    def remembered(self) -> dict[Name, Slot]:
        """Calls that are kept beyond their batch, by name."""
        return {} if self.left is None else self.left.remembered

    def remember(self, batch_id: str | None, slot: Slot) -> None:
        """Keep a call beyond its batch: the newest of those that were open or blocked when it ended."""
        left = self.leftovers()
        left.keep(left.remembered, batch_id, slot)

    def left_nothing(self, batch_id: str | None) -> bool:
        """Whether no call is remembered that a start with this batch id and its list, or without an id, could mean."""
        if batch_id is None:
            return not self.loose
        return self.left is None or batch_id not in self.left.batches

    def end_response(self, response: Sequence[Record]) -> None:
        """A response is over, and its records are in the history: some detectors go by responses."""
        history = self.history
        if history is not None:
            watched = response
            if self.limits.policies:
                watched = [record for record in response if not self.is_exempt(record.tool, Detector.STAGNATION)]
            history.end_response(response, watched)

    def is_news(self, call: Call) -> bool:
        """Whether a call of the current batch keeps it from being a stale response: it is not remembered."""
        stagnation = None if self.history is None else self.history.stagnation
        if stagnation is None or not stagnation.count or call.key in stagnation.remembered:
            return False
        return not self.is_exempt(call.tool, Detector.STAGNATION)

    def is_exempt(self, tool: str, detector: Detector) -> bool:
        """Whether a detector is to leave a tool alone."""
        policy = self.limits.policy(tool)
        return policy is not None and detector in policy.exempt

    def error_outcome(self, settlement: Settlement) -> int | None:
        """What the guards that are always on compare of a failure."""
        similar = self.limits.similar_errors and settlement.error_text is not None
        return settlement.failure if similar else settlement.outcome

    def count_open(self) -> None:
        """Note whether a call is open beyond the current batch, or blocked in it: then its start may come again."""
        self.loose = self.current.closed or self.has_open()

    def has_open(self) -> bool:
        """Whether a call is open beyond the current batch."""
        return self.left is not None and any(slot.open for slot in self.left.remembered.values())

    def remember_orphan(self, batch_id: str | None, slot: Slot) -> None:
        """Keep a call whose start was never seen: the newest of them."""
        left = self.leftovers()
        left.keep(left.orphans, batch_id, slot)

    def has_orphans(self, batch_id: str | None) -> bool:
        """Whether calls of that batch settled before any start of it, as far as these are remembered."""
        left = self.left
        return (
            left is not None
            and batch_id is not None
            and batch_id in left.batches
            and any(name[0] == batch_id for name in left.orphans)
        )

    def claim_orphan(self, call_id: str, batch_id: str, index: int) -> Slot | None:
        """The call that settled before any start of its batch, if it is the one at that place of the list."""
        if self.left is not None:
            for name, slot in self.left.orphans.items():
                if name[0] == batch_id and name[1] == call_id and slot_is_at(slot, index):
                    self.left.drop(self.left.orphans, name)
                    return slot
        return None

    def wants_outcomes(self) -> bool:
        """Whether anything compares outcomes of calls that worked."""
        return self.history is not None or self.window is not None

    def wants_identities(self) -> bool:
        """Whether anything compares failure identities."""
        return self.history is not None or self.window is not None or self.limits.similar_errors

    def fit(self) -> None:
        """Bring the run in line with the settings of the moment; there is no history while the detectors are off."""
        limits = self.limits
        history = self.history
        self.tools = tools_under(limits)
        self.capped = limits.calls_per_run is not None or limits.calls_per_turn is not None
        self.careful = self.capped or self.left is not None
        batch = self.in_full()
        batch.projection = batch.shadow = None  # made of a history that may be another one below
        if not limits.rolling:
            self.history = None
        else:
            if history is None:
                history = self.history = History(limits.history_size)
            elif history.size != limits.history_size:
                history.resize(limits.history_size)
            history.switch(stagnation=limits.stagnation, error_cascade=limits.error_cascade)
        self.apart = self.history is None or self.history.size < BEFORE
        self.patient = limits.warning > 4 and not limits.policies

    def arm(self, limits: ResolvedSettings, facts: list[Fact]) -> bool:
        """A compaction retry; answers whether the guard is on."""
        if not limits.post_compaction:
            self.window = None
            return False
        self.window = CompactionWindow(limits.window_size, self.latest_calls(self.in_full()))
        self.armings += 1
        facts.append(WindowArmed(**self.place(), attempts=limits.window_size))
        return True

    def latest_calls(self, batch: Batch) -> list[int]:
        """Keys of the latest calls: out of the history where there is one that reaches back far enough."""
        if self.apart or self.history is None:
            return (self.calls or [])[-BEFORE:]
        records = [*self.history.records, *batch.arrivals]
        return [record.key for record in records if not record.marks & VETO][-BEFORE:]

    def new_input(self) -> None:
        """A user message of whatever kind: error streaks, the turn's calls and stale responses are counted afresh."""
        self.forget_responses()
        self.errors = None
        self.ending = None
        self.calls_before = self.all_calls

    def forget_responses(self) -> None:
        """Nothing that came before makes a response stale from here on."""
        if self.history is not None:
            self.history.forget_responses()

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
        return self.in_full().running + sum(slot.state is RUNNING for slot in self.remembered().values())

    @property
    def turn_calls(self) -> int:
        """How many calls were made since the last user message."""
        return self.all_calls - self.calls_before

    def count_call(self, key: int) -> None:
        """A call was let through, or a settlement shows that it was made."""
        self.all_calls += 1
        if self.apart:
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
