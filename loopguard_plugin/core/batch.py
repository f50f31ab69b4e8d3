"""The calls of one response, and their settlements in model call order (SPEC 8).

Settlements arrive in any order; a batch hands them on so that each waits for all earlier calls that still run (or,
with the full ``batch`` list, that have not started yet).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from typing import TypeAlias

from msgspec import Struct

from ..answers import Code, Detector
from .history import History, Projection
from .observe import Call, Settlement
from .precedence import Loop
from .record import VETO, Record


class State(IntEnum):
    """Where a call stands."""

    LISTED = 0  # known from the batch list only
    RUNNING = 1
    SETTLED = 2
    BLOCKED = 3  # refused; its settlement has not come
    OVER = 4  # refused, and its settlement came


class Refusal(Struct, frozen=True):
    """Why a call was not allowed to run."""

    detector: Detector
    count: int
    reason: str
    terminal: bool = False


class Ending(Struct, frozen=True):
    """Why a turn ends; an error is made of it for each that must hear of it. ``tool``: as the model wrote it."""

    code: Code
    detector: Detector
    count: int
    tool: str
    call_id: str
    message: str


class Note(Struct, frozen=True):
    """A note that was emitted for a call."""

    text: str
    detector: Detector
    count: int


Order: TypeAlias = tuple[int, int]


class Slot:
    """One call of a batch.

    ``order``: (index, arrival) in the batch; ``warning`` is fixed when the call starts and ``note`` when it settles;
    ``ending`` is the error that its start or its settlement raised, kept to answer a redelivery alike.
    """

    __slots__ = (
        "armed_at",
        "call",
        "call_id",
        "ending",
        "ignored",
        "index",
        "note",
        "order",
        "record",
        "refusal",
        "settlement",
        "state",
        "warning",
    )

    def __init__(self, call_id: str, index: int | None, order: Order, call: Call) -> None:
        self.call_id = call_id
        self.index = index
        self.order = order
        self.call = call
        self.state = State.LISTED
        self.record: Record | None = None
        self.refusal: Refusal | None = None
        self.warning: Loop | None = None
        self.note: Note | None = None
        self.ending: Ending | None = None
        self.settlement: Settlement | None = None
        self.ignored = False
        self.armed_at = 0

    def __lt__(self, other: Slot) -> bool:
        return self.order < other.order

    @property
    def open(self) -> bool:
        """Whether a settlement is still to come: the call runs, or was refused and nobody said so back."""
        return self.state is State.RUNNING or self.state is State.BLOCKED


class Batch:
    """One response's calls.

    ``refusal`` blocks every call that has not started; ``culprit`` is the key of the call that repeats. ``owed`` is
    the error that the batch must raise once nothing of it runs. ``arrivals``: records in order of arrival, with
    whether each is of this batch (a call of its own may arrive meanwhile: ``foreign``). ``projection`` and ``shadow``
    are what the next sibling is judged by, made when there is one. The first ``admitted`` slots came with the whole
    list and were judged at once.
    """

    __slots__ = (
        "_by_id",
        "_held",
        "_open",
        "admitted",
        "arrivals",
        "batch_id",
        "culprit",
        "foreign",
        "owed",
        "projection",
        "raised",
        "refusal",
        "running",
        "shadow",
        "slots",
    )

    def __init__(self, batch_id: str | None) -> None:
        self.batch_id = batch_id
        self.admitted = 0
        self.slots: list[Slot] = []
        self._by_id: dict[str, list[Slot]] | None = None  # made for the second call
        self._open: list[Slot] = []  # heap of calls that may hold others up; used from the second call on
        self._held: list[Slot] = []  # heap of settled calls that wait
        self.running = 0
        self.refusal: Refusal | None = None
        self.culprit: int | None = None
        self.owed: Ending | None = None
        self.raised = False
        self.arrivals: list[tuple[Record, bool]] = []
        self.foreign = False
        self.projection: Projection | None = None
        self.shadow: History | None = None

    @property
    def closed(self) -> bool:
        """Whether calls that have not started count as blocked."""
        return self.owed is not None or self.refusal is not None

    def find(self, call_id: str, index: int | None, *, fresh: bool) -> Slot | None:
        """The call of that id, told apart by ``index`` where both sides give one.

        Among several of one id: for a start (``fresh``) the first that is only listed, for a settlement the first
        that is open; else the newest.
        """
        if self._by_id is None:
            same = self.slots
            if not same or same[0].call_id != call_id:
                return None
        else:
            same = self._by_id.get(call_id, [])
        best = None
        for slot in same:
            if index is not None and slot.index is not None and slot.index != index:
                continue
            if (slot.state is State.LISTED) if fresh else slot.open:
                return slot
            best = slot
        return best

    def holds(self, slot: Slot) -> bool:
        """Whether the call is one of this batch."""
        at = slot.order[1]
        return at < len(self.slots) and self.slots[at] is slot

    def add(self, call_id: str, index: int | None, call: Call) -> Slot:
        """One more call, not started yet. Without ``index`` it stands where it comes."""
        slots = self.slots
        at = len(slots)
        slot = Slot(call_id, index, (at if index is None else index, at), call)
        if at == 1 and self._by_id is None:
            self._by_id = {slots[0].call_id: [slots[0]]}
            if slots[0].state <= State.RUNNING:
                self._open.append(slots[0])
        if self._by_id is not None:
            self._by_id.setdefault(call_id, []).append(slot)
            heappush(self._open, slot)
        slots.append(slot)
        return slot

    def start(self, slot: Slot, record: Record) -> None:
        """A call begins to run."""
        slot.state = State.RUNNING
        slot.record = record
        self.running += 1
        self.arrivals.append((record, True))
        if self.projection is not None:
            self.projection.add(record.key, record.tool)
        if self.shadow is not None:
            self.shadow.add(Record(record.key, record.tool, marks=VETO))

    def siblings(self, history: History) -> Projection | None:
        """The calls that have started so far, as the next one is judged against them; None: there are none."""
        if self.projection is None:
            for record, sibling in self.arrivals:
                if not sibling:
                    continue
                if self.projection is None:
                    self.projection = Projection(history, record.key, record.tool)
                else:
                    self.projection.add(record.key, record.tool)
        return self.projection

    def settle(self, slot: Slot, settlement: Settlement) -> Iterator[Slot]:
        """A call ended; hands on every call whose outcome may be applied now, in model call order."""
        if slot.state is State.RUNNING:
            self.running -= 1
        slot.state = State.SETTLED
        slot.settlement = settlement
        if self._by_id is None:
            return iter((slot,))
        heappush(self._held, slot)
        return self.ready()

    def ready(self) -> Iterator[Slot]:
        """Calls whose outcome may be applied now, taken off one by one (applying one may close the batch)."""
        while self._held and not self._holds_up(self._held[0]):
            yield heappop(self._held)

    def _holds_up(self, slot: Slot) -> bool:
        """Whether an earlier call keeps this one waiting."""
        heap = self._open
        while heap:
            first = heap[0]
            if first.state is State.RUNNING or (first.state is State.LISTED and not self.closed):
                return first < slot
            heappop(heap)
        return False

    def held(self) -> list[Slot]:
        """Settled calls that wait for earlier ones."""
        return self._held

    def end(self) -> Iterator[Slot]:
        """The batch is over: nothing waits any longer; what still runs comes late."""
        self._open.clear()
        return self.ready()
