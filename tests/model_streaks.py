"""What the slow model counts: the streaks of SPEC 6 over a plain list of records, and the table that ranks them.

Every function walks the list anew, from its newest record back.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

FAILURES = ("error", "unknown_tool", "rejected", "denied")
WAIT_LIMIT = 10
CASCADE = 10


class Identity(NamedTuple):
    """Which call it is (SPEC 3). ``kind``: ``wait``, ``poll`` or ``plain``."""

    tool: str
    key: Hashable
    kind: str


class Seen(NamedTuple):
    """What came of a call (SPEC 5). ``failure``: the failure identity of 5.1, ``similar``: that of 5.1b."""

    status: str
    outcome: Hashable
    failure: Hashable | None = None
    unknown_tool: bool = False
    unchanged: bool = False
    similar: Hashable | None = None

    def identity(self) -> Hashable:
        """The failure identity, of whichever section."""
        return self.failure if self.failure is not None else self.similar


def alike(one: Seen, other: Seen) -> bool:
    """Whether the rolling detectors take two outcomes for equal: failures by their identities, too."""
    if one.outcome == other.outcome:
        return True
    if one.status not in FAILURES or other.status not in FAILURES:
        return False
    return one.identity() is not None and one.identity() == other.identity()


class Item(NamedTuple):
    """One past call, as a detector looks at it. ``seen`` None: no outcome (pending, skipped, aborted)."""

    call: Identity
    veto: bool
    seen: Seen | None


class Verdict(NamedTuple):
    """What a detector says. ``key``: the warning key of SPEC 7."""

    critical: bool
    detector: str
    times: int
    key: Hashable


@dataclass(frozen=True)
class Limits:
    """The settings of one agent (SPEC 11), resolved."""

    enabled: bool | None = None
    history: int = 30
    warning: int = 10
    critical: int = 20
    unknown_tool: int = 10
    breaker: int = 30
    window: int = 3
    generic_repeat: bool = True
    known_poll: bool = True
    ping_pong: bool = True
    churn: bool = True
    stagnation: bool = True
    cascade: bool = True
    similar: bool = False
    exempt: frozenset[tuple[str, str]] = frozenset()
    """Pairs of tool and detector."""


class Past(NamedTuple):
    """What is known beside the window: ``stale``: stale responses in a row that the asked-for batch goes on with;
    ``row``: calls of the responses in a row that failed, one list a response."""

    stale: int
    row: list[list[Identity]]


NOTHING_PAST = Past(0, [])


def judge(past: list[Item], call: Identity, limits: Limits, beside: Past = NOTHING_PAST) -> Verdict | None:
    """The table of SPEC 6 and 11.2: the first row that matches. ``past`` is oldest first."""
    repeats, outcome = no_progress(past, call)
    if call.tool == "exec":
        repeats = max(repeats, exec_failures(past, call))
    unknown = unknown_tool(past, call)
    length, evidence, other = ping_pong(past, call)
    recent = sum(item.call.key == call.key for item in past)
    churned = churn(past, call)
    poller = call.kind in ("wait", "poll")
    pair = frozenset((call.key, other))
    if unknown >= limits.unknown_tool:
        return Verdict(True, "unknown_tool_repeat", unknown, None)
    if repeats >= limits.breaker:
        return Verdict(True, "global_circuit_breaker", repeats, None)
    if poller and limits.known_poll and repeats >= (WAIT_LIMIT if call.kind == "wait" else limits.critical):
        return Verdict(True, "known_poll_no_progress", repeats, None)
    if call.kind == "poll" and limits.known_poll and repeats >= limits.warning:
        return Verdict(False, "known_poll_no_progress", repeats, ("known_poll_no_progress", call.key, outcome))
    if limits.ping_pong and length >= limits.critical and evidence:
        return Verdict(True, "ping_pong", length, None)
    if not poller and limits.generic_repeat and repeats >= limits.critical:
        return Verdict(True, "generic_repeat", repeats, None)
    watched = limits.stagnation and (call.tool, "stagnation") not in limits.exempt
    if watched and beside.stale >= limits.critical:
        return Verdict(True, "stagnation", beside.stale, None)
    if limits.ping_pong and length >= limits.warning:
        return Verdict(False, "ping_pong", length, ("ping_pong", pair))
    if limits.churn and churned >= limits.warning:
        return Verdict(False, "argument_churn", churned, ("argument_churn", call.tool))
    if not poller and limits.generic_repeat and recent >= limits.warning:
        return Verdict(False, "generic_repeat", recent, ("generic_repeat", call.key))
    if watched and beside.stale >= limits.warning:
        return Verdict(False, "stagnation", beside.stale, "stagnation")
    if limits.cascade and (call.tool, "error_cascade") not in limits.exempt:
        failing = max(failing_row(beside.row), equal_failures(past, call))
        if failing >= CASCADE:
            return Verdict(False, "error_cascade", failing, "error_cascade")
    return None


def failing_row(row: list[list[Identity]]) -> int:
    """Responses in a row that failed, by two different tools or three different calls."""
    calls = [call for response in row for call in response]
    enough = len({call.tool for call in calls}) >= 2 or len({call.key for call in calls}) >= 3
    return len(row) if enough else 0


def equal_failures(past: list[Item], call: Identity) -> int:
    """Failures of this tool in the window that equal its newest one, whatever their arguments."""
    known = [item.seen.identity() for item in past if item.call.tool == call.tool and item.seen is not None]
    identities = [identity for identity in known if identity is not None]
    return identities.count(identities[-1]) if identities else 0


def no_progress(past: list[Item], call: Identity) -> tuple[int, Hashable]:
    """The latest equal outcomes of the same call, and that outcome (None: there is none)."""
    count = vetoes = 0
    newest: Seen | None = None
    for item in reversed(past):
        if item.call.key != call.key:
            continue
        if item.veto:
            vetoes += 1
        elif item.seen is not None:
            if newest is not None and not alike(item.seen, newest):
                break
            newest = newest or item.seen
            count += 1 + vetoes
            vetoes = 0
    if newest is None:
        return vetoes, None
    return count, newest.identity() if newest.status in FAILURES else newest.outcome


def exec_failures(past: list[Item], call: Identity) -> int:
    """Failures of ``exec`` with one cause, whatever the arguments."""
    count = vetoes = 0
    newest: Seen | None = None
    met_others = False
    for item in reversed(past):
        if item.call.tool != "exec":
            break
        if item.veto:
            vetoes += item.call.key == call.key
            continue
        if item.seen is None or item.seen.status == "rejected":
            continue
        if item.seen.failure is None:
            break
        if newest is not None and newest.outcome != item.seen.outcome and newest.failure != item.seen.failure:
            break
        if item.call.key == call.key and met_others:
            break
        met_others = met_others or item.call.key != call.key
        newest = newest or item.seen
        count += 1 + vetoes
        vetoes = 0
    return count


def unknown_tool(past: list[Item], call: Identity) -> int:
    """Consecutive failures of this tool name because no such tool exists."""
    count = 0
    for item in reversed(past):
        if item.veto:
            continue
        if item.call.tool != call.tool or item.seen is None or not item.seen.unknown_tool:
            break
        count += 1
    return count


def ping_pong(past: list[Item], call: Identity) -> tuple[int, bool, Hashable]:
    """Length of the alternation with this call, whether its evidence holds, and the other side's key."""
    if len(past) < 2 or past[-1].call.key == call.key or past[-2].call.key != call.key:
        return 0, False, None
    other = past[-1].call.key
    sides: tuple[list[Item], list[Item]] = ([], [])
    for back, item in enumerate(reversed(past)):
        if item.call.key != (other if back % 2 == 0 else call.key):
            break
        sides[back % 2].append(item)
    evidence = all(settled_alike(side) for side in sides)
    return len(sides[0]) + len(sides[1]) + 1, evidence, other


def settled_alike(side: list[Item]) -> bool:
    """Whether every past call of one side that is no veto has an outcome, and all are equal; at least one has."""
    real = [item for item in side if not item.veto]
    outcomes = [item.seen for item in real if item.seen is not None]
    return len(real) > 0 and len(outcomes) == len(real) and all(alike(seen, outcomes[0]) for seen in outcomes)


def churn(past: list[Item], call: Identity) -> int:
    """The unbroken stretch of one tool whose calls failed or changed nothing, if it goes in circles."""
    stretch: list[tuple[Hashable, Hashable]] = []
    for item in reversed(past):
        if item.call.tool != call.tool:
            break
        if item.veto or item.seen is None:
            continue
        if item.seen.status not in FAILURES and not item.seen.unchanged:
            break
        if any(key == item.call.key and outcome != item.seen.outcome for key, outcome in stretch):
            break
        stretch.append((item.call.key, item.seen.outcome))
    keys = [key for key, _ in stretch]
    outcomes = {outcome for _, outcome in stretch}
    variants = set(keys)
    if len(variants) < 2 or len(outcomes) != 1 or call.key not in variants:
        return 0
    if any(keys.count(key) < 3 for key in variants):
        return 0
    return len(stretch)
