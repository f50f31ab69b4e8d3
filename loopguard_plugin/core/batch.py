"""The calls of one response, and their settlements in model call order (SPEC 8).

Settlements arrive in any order; a batch hands them on so that each waits for all earlier calls that still run (or,
with the full ``batch`` list, that have not started yet). Most batches are one call, so the ordering is set up only
with the second.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

from msgspec import Struct

from ..answers import Code, Detector
from .history import History
from .observe import Call, Settlement
from .order import Queue, SameId
from .precedence import Loop
from .projection import Projection, Shadow
from .record import Record

WIDEST: Final = 10_000  # calls of a batch of which nothing runs any more, and that are kept of one that is over
MOST: Final = 10 * WIDEST  # calls of a batch of which some still run


class State(IntEnum):
    """Where a call stands."""

    LISTED = 0  # known, not started
    RUNNING = 1
    SETTLED = 2
    BLOCKED = 3  # refused; its settlement has not come
    OVER = 4  # refused, and its settlement came


# Looking a member up on its class costs 0.1 us on Python 3.11, a name in the module a tenth of that.
LISTED: Final = State.LISTED
RUNNING: Final = State.RUNNING
SETTLED: Final = State.SETTLED
BLOCKED: Final = State.BLOCKED
OVER: Final = State.OVER


class Words(Struct, frozen=True):
    """A text that is put together whenever it is read: of the reasons for a block most are never read."""

    write: Callable[..., str]
    about: tuple[object, ...]


class Refusal(Struct, frozen=True):
    """Why a call was not allowed to run."""

    detector: Detector
    count: int
    said: str | Words
    terminal: bool = False

    @property
    def reason(self) -> str:
        """The text for the model."""
        said = self.said
        return said if isinstance(said, str) else said.write(*said.about)


class Ending(Struct, frozen=True):
    """Why a turn ends; an error is made of it for each that must hear of it. ``tool``: as the model wrote it."""

    code: Code
    detector: Detector
    count: int
    tool: str
    call_id: str
    said: str | Words

    @property
    def message(self) -> str:
        """The text for the transcript."""
        said = self.said
        return said if isinstance(said, str) else said.write(*said.about)


class Note(Struct, frozen=True):
    """A note that was emitted for a call. ``quotes``: the error that the call settled with is to be named in it."""

    text: str
    detector: Detector
    count: int
    quotes: bool = False


Order: TypeAlias = tuple[int, int]

FIRST: Final = (0, 0)


class Slot(Struct, eq=False):
    """One call of a batch, and all verdicts on it.

    ``order``: (index, arrival) in the batch; ``warning`` is fixed when the call starts and ``note`` when it settles;
    ``ending`` is the error that its start (then there is a ``refusal``) or its settlement raised, kept to answer a
    redelivery alike; ``settlement`` waits for those of earlier calls; ``armed_at``: which arming of the post-compaction
    guard it settled under.
    """

    call_id: str
    index: int | None
    order: Order
    call: Call
    state: State = LISTED
    record: Record | None = None
    refusal: Refusal | None = None
    warning: Loop | None = None
    note: Note | None = None
    ending: Ending | None = None
    settlement: Settlement | None = None
    ignored: bool = False
    armed_at: int = 0

    @property
    def open(self) -> bool:
        """Whether a settlement is still to come: the call runs, or was refused and nobody said so back."""
        state = self.state
        return state is RUNNING or state is BLOCKED


class Batch(Struct, eq=False):
    """One response's calls.

    ``refusal`` blocks every call that has not started; ``culprit`` is the key of the call that repeats. ``owed`` is
    the error that the batch must raise once nothing of it runs. ``arrivals``: records in order of arrival; those of
    ``foreign`` are calls of their own that arrived meanwhile. ``news``: a call of it is not among those that the run
    remembers, so that it cannot be a stale response. ``projection`` and ``shadow`` are what the next sibling
    is judged by, made when there is one. The first ``admitted`` slots came with the whole list and were judged at
    once. ``queue`` (calls whose outcomes are still to be applied, in model call order) serves batches of several calls,
    as does ``by_id``; ``shared`` are the calls that share an id, by it.
    """

    batch_id: str | None
    running: int = 0
    admitted: int = 0
    slots: list[Slot] = []
    arrivals: list[Record] = []
    refusal: Refusal | None = None
    culprit: int | None = None
    owed: Ending | None = None
    raised: bool = False
    news: bool = False
    foreign: list[Record] | None = None
    projection: Projection | None = None
    shadow: Shadow | None = None
    by_id: dict[str, list[Slot]] | None = None
    shared: dict[str, SameId] | None = None
    queue: Queue | None = None

    @property
    def closed(self) -> bool:
        """Whether calls that have not started count as blocked."""
        return self.owed is not None or self.refusal is not None

    def only(self) -> Record | None:
        """What its only call left, once nothing more can come of it; None for every other batch."""
        if len(self.slots) != 1 or len(self.arrivals) != 1 or self.running or self.foreign is not None:
            return None
        state = self.slots[0].state
        over = state is SETTLED or state is OVER
        return self.arrivals[0] if over and self.queue is None and (self.owed is None or self.raised) else None

    def find(self, call_id: str, index: int | None, *, fresh: bool) -> Slot | None:
        """The call of that id, told apart by ``index`` where both sides give one.

        Among several of one id as in :meth:`.order.SameId.find`.
        """
        same = self.slots if self.by_id is None else self.by_id.get(call_id, ())
        if len(same) == 1:
            slot = same[0]
            return slot if slot.call_id == call_id and slot_is_at(slot, index) else None
        shared = None if self.shared is None else self.shared.get(call_id)
        return None if shared is None else shared.find(index, fresh=fresh)

    def holds(self, slot: Slot) -> bool:
        """Whether the call is one of this batch."""
        at = slot.order[1]
        return at < len(self.slots) and self.slots[at] is slot

    @property
    def full(self) -> bool:
        """Whether one more call, which no list had, would be too many."""
        slots = len(self.slots)
        return slots >= WIDEST and (not self.running or self.closed or slots >= MOST)

    def add(self, call_id: str, index: int | None, call: Call) -> Slot:
        """One more call, not started yet. Without ``index`` it stands where it comes."""
        slots = self.slots
        if not slots:
            slot = Slot(call_id, index, FIRST if index is None else (index, 0), call)
            slots.append(slot)
            return slot
        at = len(slots)
        slot = Slot(call_id, index, (at if index is None else index, at), call)
        by_id, queue = self.by_id, self.queue
        if by_id is None or queue is None:  # with its second call a batch begins to keep its calls by id and in order
            by_id = self.by_id = {slots[0].call_id: [slots[0]]}
            queue = self.queue = Queue(slots[0])
        slots.append(slot)
        if call_id in by_id:
            self._share_id(call_id, by_id[call_id], slot)
        else:
            by_id[call_id] = [slot]
        queue.add(slot)
        return slot

    def _share_id(self, call_id: str, same: list[Slot], slot: Slot) -> None:
        same.append(slot)
        if self.shared is None:
            self.shared = {}
        if call_id in self.shared:
            self.shared[call_id].add(slot)
        else:
            self.shared[call_id] = SameId(same)

    def reopen(self) -> None:
        """All calls are as they were in another process: those that share an id were opened as they arrived."""
        if self.shared is None:
            return
        arrived = {id(record): at for at, record in enumerate(self.arrivals)}
        for slot in sorted(self.slots, key=lambda slot: arrived.get(id(slot.record), len(arrived))):
            if slot.open and slot.call_id in self.shared:
                self.shared[slot.call_id].open(slot)

    def start(self, slot: Slot) -> None:
        """A call begins to run."""
        slot.state = RUNNING
        self.running += 1
        self.record(slot)
        if self.shared is not None and slot.call_id in self.shared:
            self.shared[slot.call_id].open(slot)

    def block(self, slot: Slot) -> None:
        """A call is not to run."""
        slot.state = BLOCKED
        if self.shared is not None and slot.call_id in self.shared:
            self.shared[slot.call_id].open(slot)

    def record(self, slot: Slot) -> None:
        """A call of this batch is made, and stands before those that are judged later."""
        slot.record = record = Record(slot.call.key, slot.call.tool)
        self.arrivals.append(record)
        if self.projection is not None:
            self.projection.add(record.key, record.tool)
        if self.shadow is not None:
            self.shadow.add_sibling(record)

    def join(self, record: Record) -> None:
        """A call of its own, of another batch or none, arrived meanwhile."""
        self.arrivals.append(record)
        if self.foreign is None:
            self.foreign = []
        self.foreign.append(record)
        if self.shadow is not None:
            self.shadow.add_own(record)

    def trim(self, size: int) -> None:
        """Forget calls of their own that newer ones, ``size`` of them, will have pushed out of the window anyway.

        Seldom enough that a wide batch is not walked through for each of them.
        """
        if self.foreign is not None and len(self.foreign) >= max(2 * size, len(self.slots)):
            gone = {id(record) for record in self.foreign[:-size]}
            self.arrivals = [record for record in self.arrivals if id(record) not in gone]
            self.foreign = self.foreign[-size:]

    def own(self) -> list[Record]:
        """The records of this batch alone."""
        if self.foreign is None:
            return self.arrivals
        foreign = {id(record) for record in self.foreign}
        return [record for record in self.arrivals if id(record) not in foreign]

    def siblings(self, history: History) -> Projection | None:
        """The calls that have started so far, as the next one is judged against them; None: there are none."""
        if self.projection is None and self.arrivals:
            first, *others = self.arrivals  # calls of their own are not among them: then there is a shadow
            self.projection = Projection(history, first.key, first.tool)
            for record in others:
                self.projection.add(record.key, record.tool)
        return self.projection

    def next_ready(self) -> Slot | None:
        """Take off the next call whose outcome may be applied now, in model call order.

        One at a time, for applying it may close the batch, and then calls that have not started hold nobody up.
        """
        queue = self.queue
        while queue is not None and (first := queue.first) is not None:
            if first.settlement is None:
                state = first.state
                if state is RUNNING or (state is LISTED and self.owed is None and self.refusal is None):
                    return None
            queue.pop()
            if first.settlement is not None:
                return first
        return None

    def shorten(self) -> None:
        """The batch is over, and its calls are in the history: of very many the newest are kept."""
        if len(self.slots) > WIDEST:
            kept = self.slots[-WIDEST:]
            self.slots, self.by_id, self.shared, self.queue = [], None, None, None
            self.arrivals, self.foreign, self.projection, self.shadow = [], None, None, None
            for slot in kept:
                self._keep(slot)
            self.reopen()

    def _keep(self, slot: Slot) -> None:
        self.slots.append(slot)
        if self.by_id is None:
            self.by_id = {}
        if slot.call_id in self.by_id:
            self._share_id(slot.call_id, self.by_id[slot.call_id], slot)
        else:
            self.by_id[slot.call_id] = [slot]

    def release(self) -> None:
        """The batch is over: nothing waits any longer; what still runs comes late."""
        if self.queue:
            self.queue.release()


class Lone(Struct, frozen=True, gc=False):
    """The only call of its response, let through without a word: it stands for the whole batch until more is asked.

    ``call_id`` is as it came; a ``batch_id`` may be blank, which is as good as none.
    """

    batch_id: str | None
    call_id: str
    index: int | None
    call: Call

    def spread(self, record: Record | None, *, running: bool = False) -> Batch:
        """The batch in full. ``record``: what the history does not have yet."""
        order = FIRST if self.index is None else (self.index, 0)
        state = RUNNING if running else SETTLED
        slot = Slot(self.call_id.strip(), self.index, order, self.call, state, record)
        return Batch(self.batch_id or None, int(running), 0, [slot], [] if record is None else [record])


def slot_is_at(slot: Slot, index: int | None) -> bool:
    """Whether a call can be the one at ``index``; unknown places fit everywhere."""
    return index is None or slot.index is None or slot.index == index
