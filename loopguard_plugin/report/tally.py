"""What a replay adds up to: what fired, where first and how often, and how each run and session fared.

A turn counts as one end, however often it is ended while its host goes on (:mod:`loopguard_plugin.turn_ends`); what
comes after it is told as so many further calls. Holds no contents, and grows with the runs, not with their calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from ..events import Event, ToolCallSettled
from ..turn_ends import TurnEnds
from .rows import Action, Row

RunKey: TypeAlias = tuple[str, str | None]
FIRED = (Action.NOTE, Action.BLOCK, Action.END_TURN)  # from the weakest to the strongest


@dataclass(slots=True)
class Finding:
    """The same thing, fired once or many times in one run. Counts are those of the first and the last time."""

    session_key: str
    run_id: str | None
    action: Action
    detector: str
    tool: str
    place: str
    first_count: int
    last_count: int
    times: int = 1


@dataclass(slots=True)
class RunTally:
    """How one run fared. ``place`` is where its strongest finding fired first.

    ``blocks``: blocked calls. ``ends``: ended turns. ``further``: calls that came after the end of their turn.
    """

    calls: int = 0
    notes: int = 0
    blocks: int = 0
    ends: int = 0
    further: int = 0
    strongest: Action | None = None
    detector: str = ""
    code: str | None = None
    tool: str = ""
    count: int = 0
    place: str = ""


@dataclass(slots=True)
class SessionTally:
    """How one session fared; the numbers are those of its runs. ``first`` is the finding that came first.

    ``saved``: the characters of recorded results that the model would not have been given again, because their calls
    were blocked, or came after the guard had ended the turn and before a user wrote again.
    """

    session_key: str
    calls: int = 0
    notes: int = 0
    blocks: int = 0
    ends: int = 0
    further: int = 0
    saved: int = 0
    first: Finding | None = None

    @property
    def badness(self) -> tuple[int, int, int, int]:
        """For sorting, the worst the largest: ends before blocks before notes, then what was saved."""
        return self.ends, self.blocks, self.notes, self.saved


@dataclass(slots=True)
class Sum:
    """What one detector did about one tool, over all sessions."""

    detector: str
    tool: str
    notes: int = 0
    blocks: int = 0
    ends: int = 0
    highest: int = 0
    first: str = ""
    sessions: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Tally:
    """Everything that a report needs, added up row by row."""

    events: int = 0
    runs: dict[RunKey, RunTally] = field(default_factory=dict)
    sessions: dict[str, SessionTally] = field(default_factory=dict)
    findings: dict[tuple[RunKey, Action, str, str], Finding] = field(default_factory=dict)
    _turn_ends: TurnEnds = field(default_factory=TurnEnds)

    def add(self, row: Row, event: Event, file: str, line: int) -> None:
        """Count one answered event, with the place where it stands."""
        self.events += 1
        key = (row.session_key.strip(), (row.run_id or "").strip() or None)
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = RunTally()
        session = self.sessions.get(key[0])
        if session is None:
            session = self.sessions[key[0]] = SessionTally(key[0])
        action = row.action
        further = self._turn_ends.further(event)
        if row.event == "tool_call_started":
            run.calls += 1
            session.calls += 1
            run.further += further
            session.further += further
        elif isinstance(event, ToolCallSettled) and (action is Action.IGNORED or self._turn_ends.over(event)):
            session.saved += characters(event.result if event.error is None else event.error)
        if action in FIRED and (action is not Action.END_TURN or self._turn_ends.ends(event)):
            self._fired(key, run, session, row, f"{file}:{line}")

    def _fired(self, key: RunKey, run: RunTally, session: SessionTally, row: Row, place: str) -> None:
        match row.action:
            case Action.NOTE:
                run.notes += 1
                session.notes += 1
            case Action.BLOCK:
                run.blocks += 1
                session.blocks += 1
            case Action.END_TURN:
                run.ends += 1
                session.ends += 1
        detector, tool = row.detector or "", row.tool or ""
        if run.strongest is None or FIRED.index(row.action) > FIRED.index(run.strongest):
            run.strongest, run.detector, run.code = row.action, detector, row.code
            run.tool, run.count, run.place = tool, row.count, place
        finding = self.findings.get((key, row.action, detector, tool))
        if finding is None:
            finding = Finding(*key, row.action, detector, tool, place, row.count, row.count)
            self.findings[key, row.action, detector, tool] = finding
        else:
            finding.times += 1
            finding.last_count = row.count
        session.first = session.first or finding

    def total(self, action: Action) -> int:
        """How often this action was taken, over all runs; of ends, how many turns were ended."""
        return sum(finding.times for finding in self.findings.values() if finding.action is action)

    @property
    def further(self) -> int:
        """Calls that came after the end of their turn, over all runs."""
        return sum(run.further for run in self.runs.values())

    @property
    def strongest(self) -> Action | None:
        """The strongest thing that fired anywhere."""
        fired = {finding.action for finding in self.findings.values()}
        return next((action for action in reversed(FIRED) if action in fired), None)

    def worst(self) -> list[SessionTally]:
        """The sessions in which something fired, the worst first."""
        found = [session for session in self.sessions.values() if session.first is not None]
        return sorted(found, key=lambda session: session.badness, reverse=True)

    def verdicts(self) -> Iterator[tuple[RunKey, RunTally]]:
        """The runs that called a tool, the worst first, otherwise in the order in which they began."""
        called = [(key, run) for key, run in self.runs.items() if run.calls or run.strongest is not None]
        called.sort(key=lambda one: -1 if one[1].strongest is None else FIRED.index(one[1].strongest), reverse=True)
        yield from called

    def by_detector(self) -> list[Sum]:
        """What each detector did about each tool, the strongest first."""
        sums: dict[tuple[str, str], Sum] = {}
        for finding in self.findings.values():
            key = (finding.detector, finding.tool)
            one = sums.get(key)
            if one is None:
                one = sums[key] = Sum(*key, first=finding.place)
            one.notes += finding.times if finding.action is Action.NOTE else 0
            one.blocks += finding.times if finding.action is Action.BLOCK else 0
            one.ends += finding.times if finding.action is Action.END_TURN else 0
            one.highest = max(one.highest, finding.first_count, finding.last_count)
            one.sessions.add(finding.session_key)
        return sorted(sums.values(), key=lambda one: (one.ends, one.blocks, one.notes), reverse=True)


def characters(value: object) -> int:
    """How much text a result is: the characters of a string, of anything else those of its JSON."""
    if isinstance(value, str):
        return len(value)
    try:
        return 0 if value is None else len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return 0
