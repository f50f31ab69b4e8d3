"""What a snapshot looks like in msgpack: arrays of small numbers that point into three kinds of tables.

A session has one table of texts and one of digests, a run one of records and one of slots. Texts are UTF-8 in which
lone surrogates may stand; digests are 16 bytes each, for msgpack ends at 64 bits. Records and slots have tables because
they are shared: a slot, the arrivals of its batch and the window hold one and the same record, which a late result
fills in place; a batch that has ended and the memory of open calls hold one and the same slot.

No ``from __future__ import annotations`` here: msgspec would have to compile every annotation for its decoder.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from ...answers import Code, Detector
from ...events import Status
from ..batch import State
from ..observe import CallKind
from ..outcomes.rules import Rule
from ..precedence import Level
from ..streaks.stagnation import NAMED, REMEMBERED

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Text: TypeAlias = Annotated[int, Meta(ge=0)]  # a place in the session's table of texts
Digest: TypeAlias = Annotated[int, Meta(ge=0)]  # a place in the session's table of digests
At: TypeAlias = Annotated[int, Meta(ge=0)]  # a place in the run's table of records, or of slots

KeyRow: TypeAlias = tuple[bytes | Digest | None, ...]  # a warning key: names as they are
BucketRow: TypeAlias = tuple[Text | None, KeyRow, int]  # run id, warning key, bucket
RecordRow: TypeAlias = tuple[Digest, Text, Digest | None, Digest | None, Count]  # key, tool, outcome, failure, marks
PathRow: TypeAlias = tuple[Text, ...]
CallRow: TypeAlias = tuple[Digest, Text, Text, CallKind, Rule, tuple[PathRow, ...], bool]  # as observe.Call
RefusalRow: TypeAlias = tuple[Detector, int, Text, bool]  # detector, count, reason, terminal
EndingRow: TypeAlias = tuple[Code, Detector, int, Text, Text, Text]  # code, detector, count, tool, call id, message
NoteRow: TypeAlias = tuple[Text, Detector, int, bool]  # text, detector, count, quotes
# level, detector, count, key, same, outcome, tools, row
LoopRow: TypeAlias = tuple[Level, Detector, int, KeyRow, bool, Digest | None, tuple[Text, ...], bool]
ErrorsRow: TypeAlias = tuple[Count, Digest, Digest | None, Text]  # count, key, outcome, text
MemoryRow: TypeAlias = list[tuple[Text | None, At]]  # batch id, slot


class SettlementRow(Struct, frozen=True, array_like=True, gc=False):
    """A settlement whose outcome waits for those of earlier calls."""

    status: Status
    outcome: Digest | None
    failure: Digest | None
    unknown_tool: bool
    unchanged: bool
    error_text: Text | None
    exec_failure: bool


class SlotRow(Struct, frozen=True, array_like=True, gc=False):
    """A call. ``waiting``: its settlement, where that came and has not been applied yet."""

    call_id: Text
    index: int | None
    call: CallRow
    state: State
    record: At | None
    refusal: RefusalRow | None
    warning: LoopRow | None
    note: NoteRow | None
    ending: EndingRow | None
    waiting: SettlementRow | None
    ignored: bool
    armed_at: Count


class BatchRow(Struct, frozen=True, array_like=True, gc=False):
    """A batch; the slots with a waiting settlement are those that it holds."""

    batch_id: Text | None
    running: int
    admitted: Count
    slots: list[At]
    arrivals: list[At]
    foreign: list[At] | None
    refusal: RefusalRow | None
    culprit: Digest | None
    owed: EndingRow | None
    raised: bool
    news: bool


class StagnationRow(Struct, frozen=True, array_like=True, gc=False):
    """What a run remembers of its latest different calls, and the stale responses with their calls and tools."""

    remembered: Annotated[list[tuple[Digest, Digest]], Meta(max_length=REMEMBERED)]
    count: Count
    stale: Annotated[list[tuple[Digest, Text]], Meta(max_length=NAMED)]


class CascadeRow(Struct, frozen=True, array_like=True, gc=False):
    """The responses in a row that failed, with their tools and calls, as far as these are kept."""

    row: Count
    tools: list[Text]
    calls: list[Digest]


class HistoryRow(Struct, frozen=True, array_like=True, gc=False):
    """A history. The first ``window`` records of the run are its window; streaks over them are made anew.

    ``since``: how many of the newest came after the last change.
    """

    size: Annotated[int, Meta(ge=1)]
    window: Count
    since: Count | None
    stagnation: StagnationRow | None
    cascades: bool
    cascade: CascadeRow | None


class WindowRow(Struct, frozen=True, array_like=True, gc=False):
    """The guard after a compaction, while it watches."""

    size: int
    before: list[Digest]
    first: tuple[Digest, Digest] | None
    same: Count
    seen: Count
    repeats: Count


class RunRow(Struct, frozen=True, array_like=True, gc=False):
    """A run. ``age``: seconds since its last event; ``previous`` is None where it is the current batch itself.

    ``rank``: its place among the runs of all sessions, the least recently used first.
    """

    run_id: Text | None
    agent_id: Text | None
    age: float
    rank: Count
    parked: bool
    records: list[RecordRow]
    slots: list[SlotRow]
    batch: BatchRow
    previous: BatchRow | None
    remembered: MemoryRow
    orphans: MemoryRow
    history: HistoryRow | None
    errors: ErrorsRow | None
    window: WindowRow | None
    armings: Count
    calls: list[Digest]
    spent: bool
    told: bool
    loose: bool
    all_calls: Count
    turn_calls: Count
    would: dict[str, Count]
    continued: bool
    ending: EndingRow | None


class SessionRow(Struct, frozen=True, array_like=True, gc=False):
    """A session: its tables, the message ids that it has seen, its buckets and its runs.

    Runs stand the least recently used first.
    """

    texts: list[bytes]
    digests: bytes
    messages: list[Text]
    buckets: list[BucketRow]
    runs: list[RunRow]


Directory: TypeAlias = list[tuple[bytes, Count, bytes]]  # of each session its key, size in bytes and checksum
