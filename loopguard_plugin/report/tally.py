"""What a replay adds up to: what fired, where first and how often, and how each run fared. Holds no contents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

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
    """How one run fared. ``place`` is where its strongest finding fired first."""

    calls: int = 0
    notes: int = 0
    blocks: int = 0
    ends: int = 0
    strongest: Action | None = None
    detector: str = ""
    code: str | None = None
    tool: str = ""
    count: int = 0
    place: str = ""


@dataclass(slots=True)
class Tally:
    """Everything that a report needs, added up row by row."""

    events: int = 0
    runs: dict[RunKey, RunTally] = field(default_factory=dict)
    findings: dict[tuple[RunKey, Action, str, str], Finding] = field(default_factory=dict)

    def add(self, row: Row, place: str) -> None:
        """Count one answered event. ``place`` says where it stands: file and line."""
        self.events += 1
        key = (row.session_key.strip(), (row.run_id or "").strip() or None)
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = RunTally()
        if row.event == "tool_call_started":
            run.calls += 1
        if row.action in FIRED:
            self._fired(key, run, row, place)

    def _fired(self, key: RunKey, run: RunTally, row: Row, place: str) -> None:
        match row.action:
            case Action.NOTE:
                run.notes += 1
            case Action.BLOCK:
                run.blocks += 1
            case Action.END_TURN:
                run.ends += 1
        detector, tool = row.detector or "", row.tool or ""
        if run.strongest is None or FIRED.index(row.action) > FIRED.index(run.strongest):
            run.strongest, run.detector, run.code = row.action, detector, row.code
            run.tool, run.count, run.place = tool, row.count, place
        finding = self.findings.get((key, row.action, detector, tool))
        if finding is None:
            self.findings[key, row.action, detector, tool] = Finding(
                *key, row.action, detector, tool, place, row.count, row.count
            )
        else:
            finding.times += 1
            finding.last_count = row.count

    def total(self, action: Action) -> int:
        """How often this action was taken, over all runs."""
        return sum(finding.times for finding in self.findings.values() if finding.action is action)

    @property
    def strongest(self) -> Action | None:
        """The strongest thing that fired anywhere."""
        fired = {finding.action for finding in self.findings.values()}
        return next((action for action in reversed(FIRED) if action in fired), None)
