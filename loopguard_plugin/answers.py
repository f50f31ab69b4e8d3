"""What the guard answers, and the facts of a step (SPEC 2, 9).

An *answer* goes back to whoever published the event. A *fact* is a plain value that says what the guard just did:
logs, metrics and reports render facts and know nothing else of the core. Neither holds arguments or results, except
``Deliver``, which carries the very result (or error) that the settlement brought.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from .errors import TurnEndingError


class Detector(StrEnum):
    """What found the repetition.

    ``call_limit`` is off until asked for. The last two are the guards of SPEC 4 and 10, and equal their codes.
    """

    UNKNOWN_TOOL_REPEAT = "unknown_tool_repeat"
    GLOBAL_CIRCUIT_BREAKER = "global_circuit_breaker"
    KNOWN_POLL_NO_PROGRESS = "known_poll_no_progress"
    PING_PONG = "ping_pong"
    GENERIC_REPEAT = "generic_repeat"
    ARGUMENT_CHURN = "argument_churn"
    STAGNATION = "stagnation"
    ERROR_CASCADE = "error_cascade"
    CALL_LIMIT = "call_limit"
    REPEATED_TOOL_ERROR = "repeated_tool_error"
    COMPACTION_LOOP_PERSISTED = "compaction_loop_persisted"


class Code(StrEnum):
    """Why a turn was ended."""

    REPEATED_TOOL_ERROR = "repeated_tool_error"
    TOOL_LOOP_PERSISTED = "tool_loop_persisted"
    COMPACTION_LOOP_PERSISTED = "compaction_loop_persisted"
    CALL_LIMIT_REACHED = "call_limit_reached"


class Effect(StrEnum):
    """What an acknowledged event did: the guard armed or left off, or counts reset."""

    ARMED = "armed"
    IGNORED = "ignored"
    RESET = "reset"


class Proceed(Struct, frozen=True):
    """The call may run."""


class Blocked(Struct, frozen=True):
    """The call must not run; ``reason`` is the tool result that the model should read in its place.

    ``detector`` and ``count`` are those of the call that made the batch be blocked. ``terminal``: the turn ends too.
    """

    reason: str
    detector: Detector
    count: int
    terminal: bool = False


class Deliver(Struct, frozen=True):
    """What the model should be given for this call: the result or error as it came, plus the note where there is one.

    ``note`` is set whether or not it could be written into the result. ``ignored``: the call had been blocked.
    """

    result: Any = None
    error: Any = None
    note: str | None = None
    detector: Detector | None = None
    count: int = 0
    ignored: bool = False


class Acknowledged(Struct, frozen=True):
    """The event was taken note of."""

    effect: Effect


Answer: TypeAlias = Proceed | Blocked | Deliver | Acknowledged

PROCEED: Final = Proceed()


class Fact(Struct, frozen=True, kw_only=True):
    """Where something happened. ``run_id`` is None for the session's unnamed run."""

    session_key: str
    run_id: str | None
    agent_id: str | None


class NoteEmitted(Fact, frozen=True, kw_only=True):
    """A warning was appended to a delivered result (SPEC 7). ``observed``: it only would have been (observe mode)."""

    tool: str
    call_id: str
    detector: Detector
    count: int
    observed: bool = False


class BatchBlocked(Fact, frozen=True, kw_only=True):
    """A whole batch was refused because of one call of it (SPEC 8). ``calls``: how many of it were known then.

    ``observed``: it only would have been (observe mode).
    """

    tool: str
    call_id: str
    detector: Detector
    count: int
    terminal: bool
    calls: int
    observed: bool = False


class RunEnded(Fact, frozen=True, kw_only=True):
    """A ``TurnEndingError`` was raised (SPEC 9). ``observed``: it only would have been (observe mode)."""

    tool: str
    call_id: str
    detector: Detector
    code: Code
    count: int
    observed: bool = False


class WindowArmed(Fact, frozen=True, kw_only=True):
    """The post-compaction guard watches the next ``attempts`` settled calls (SPEC 10)."""

    attempts: int


class WindowClosed(Fact, frozen=True, kw_only=True):
    """The post-compaction window is used up without an abort (SPEC 10)."""

    tool_calls: int
    pre_compaction_repeats: int


class CallsUnsettled(Fact, frozen=True, kw_only=True):
    """A batch, or its run, ended while calls of it were still open (SPEC 8, 13).

    ``calls``: how many; ``first``: of its run, and nothing else tells of them.
    """

    calls: int
    first: bool


class RunSummary(Fact, frozen=True, kw_only=True):
    """A run in observe mode is over; how often the guard would have stepped in. Not told of runs without any."""

    notes: int
    blocks: int
    ends: int


class AgentsUnnamed(Fact, frozen=True, kw_only=True):
    """No event has named an agent so far, so the settings of ``agents`` apply to nobody (SPEC 11.2); told once."""

    agents: tuple[str, ...]


class FailureInside(Fact, frozen=True, kw_only=True):
    """An exception inside the guard that it got over: a value that it could not read was compared by less (SPEC 13).

    ``kind``: the exception's class; ``place``: file and line. Its message may hold contents and is not kept. ``tool``:
    as the model wrote it, None where no call was looked at.
    """

    kind: str
    place: str
    tool: str | None = None


class EvictionReason(StrEnum):
    """Why a run was forgotten."""

    IDLE = "idle"
    CAPACITY = "capacity"


class RunEvicted(Fact, frozen=True, kw_only=True):
    """A run was forgotten: idle, or above ``maxRuns`` the oldest of the session with the most runs (SPEC 13)."""

    reason: EvictionReason
    open_calls: int


class SessionRefused(Struct, frozen=True):
    """A session of a snapshot that could not be restored, and why; it starts afresh."""

    session_key: str
    reason: str


class Step(Struct, frozen=True):
    """What one event came to: an answer, or an error to raise, and the facts. An error carries its answer itself."""

    answer: Answer | None
    error: TurnEndingError | None = None
    facts: tuple[Fact, ...] = ()
