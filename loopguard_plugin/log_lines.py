"""The text of each fact's log line (SPEC 12), to be read aloud and to be searched for. Pure.

No arguments, results or error texts are in a fact, so none can get into a line. Names do come from outside, tool names
even from the model: they are kept on one line and cut short.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from .answers import (
    AgentsUnnamed,
    BatchBlocked,
    CallsUnsettled,
    Code,
    EvictionReason,
    Fact,
    FailureInside,
    NoteEmitted,
    RunEnded,
    RunEvicted,
    RunSummary,
    WindowArmed,
    WindowClosed,
)
from .printable import printable

if TYPE_CHECKING:
    from .settings import ResolvedSettings, Settings

_LONGEST_NAME: Final = 80
_MOST_NAMES: Final = 3
_ON: Final = {True: "on", False: "off"}
_OFF: Final = "is off (plugins.entries.loopguard.enabled: false): every event passes"
# The fields of ResolvedSettings, by the names that an operator knows them under.
_SETTINGS: Final = {
    "enabled": "enabled",
    "history_size": "historySize",
    "warning": "warningThreshold",
    "critical": "criticalThreshold",
    "unknown_tool": "unknownToolThreshold",
    "breaker": "globalCircuitBreakerThreshold",
    "window_size": "windowSize",
    "generic_repeat": "genericRepeat",
    "known_poll_no_progress": "knownPollNoProgress",
    "ping_pong": "pingPong",
    "argument_churn": "argumentChurn",
    "stagnation": "stagnation",
    "error_cascade": "errorCascade",
    "similar_errors": "repeatedErrors",
    "observe": "mode",
    "calls_per_run": "callsPerRun",
    "calls_per_turn": "callsPerTurn",
    "aliases": "toolAliases",
    "policies": "tools",
}
_OBSERVING: Final = ", observe mode: nothing is noted, blocked or ended"


class Line(NamedTuple):
    """One line: the name of its loguru level, its text, and the bound fields ``level`` and ``action``."""

    severity: str
    text: str
    level: str | None = None
    action: str | None = None


def plain(text: str, longest: int = _LONGEST_NAME) -> str:
    """Text from outside, on one line and at most so many of its characters long."""
    return printable(text if len(text) <= longest else text[:longest] + "…")


class Guards(NamedTuple):
    """Which guards are on, and whether their verdicts take effect."""

    rolling: bool
    post_compaction: bool
    observe: bool

    @classmethod
    def of(cls, settings: ResolvedSettings) -> Self:
        """Those of one agent."""
        return cls(settings.rolling, settings.post_compaction, settings.observe)

    def __str__(self) -> str:
        return (
            f"rolling detectors {_ON[self.rolling]}, post-compaction guard {_ON[self.post_compaction]}, "
            f"repeated tool errors on{_OBSERVING if self.observe else ''}"
        )


def ready(settings: Settings) -> str:
    """The line at start."""
    return f"loopguard ready: {_guards(settings)}" if settings.plugin_enabled else f"loopguard {_OFF}"


def changed(before: Settings, after: Settings) -> str:
    """The line when other settings hold: the guards, and the names of the settings that differ, without values."""
    whole = (
        ("plugins.entries.loopguard.enabled", "plugin_enabled"),
        ("maxRuns", "max_runs"),
        ("idleMinutes", "idle_minutes"),
    )
    names = [name for name, field in whole if getattr(before, field) != getattr(after, field)]
    was, now = before.resolve(), after.resolve()
    names += [name for field, name in _SETTINGS.items() if getattr(was, field) != getattr(now, field)]
    agents = dict.fromkeys((*before.agent_ids, *after.agent_ids))
    names += [f"agent {plain(agent)}" for agent in agents if _differs(before.resolve(agent), after.resolve(agent))]
    state = _guards(after) if after.plugin_enabled else _OFF
    return f"loopguard settings changed: {state}; changed: {', '.join(names) or 'nothing that holds'}"


def _differs(before: ResolvedSettings, after: ResolvedSettings) -> bool:
    return any(getattr(before, field) != getattr(after, field) for field in _SETTINGS)


def _guards(settings: Settings) -> str:
    """Which guards are on where no agent is named, and the agents for whom others are."""
    usual = Guards.of(settings.resolve())
    others = [plain(agent) for agent in settings.agent_ids if Guards.of(settings.resolve(agent)) != usual]
    return f"{usual} (otherwise for: {', '.join(others)})" if others else str(usual)


@singledispatch
def line(fact: Fact) -> Line:
    """The log line of one fact."""
    return Line("DEBUG", f"{type(fact).__name__}: {_where(fact)}")


@line.register
def _(fact: NoteEmitted) -> Line:
    action = _action("warn", fact.observed)
    said = f"level=warning action={action} detector={fact.detector} count={fact.count}"
    return Line("WARNING", f"tool loop: tool={plain(fact.tool)} {_where(fact)} {said}", "warning", action)


@line.register
def _(fact: BatchBlocked) -> Line:
    action = _action("block", fact.observed)
    said = f"level=critical action={action} detector={fact.detector} count={fact.count}"
    then = "the turn ends" if fact.terminal else "the model may answer once more"
    done = "nothing is blocked in observe mode" if fact.observed else f"{_calls(fact.calls)} not run, {then}"
    text = f"tool loop: tool={plain(fact.tool)} {_where(fact)} {said} ({done})"
    return Line("WARNING" if fact.observed else "ERROR", text, "critical", action)


@line.register
def _(fact: RunEnded) -> Line:
    action = _action("end_turn", fact.observed)
    said = f"action={action} code={fact.code} count={fact.count}"
    tool = f"tool={plain(fact.tool)}"
    if fact.code is Code.COMPACTION_LOOP_PERSISTED:
        times = f"repeated {fact.count} times with the same result"
        text = f"post-compaction loop persisted: {tool} {times}, {_where(fact)} {said}"
    else:
        text = f"tool loop: {tool} {_where(fact)} level=critical {said}"
    return Line("WARNING" if fact.observed else "ERROR", text, "critical", action)


@line.register
def _(fact: WindowArmed) -> Line:
    return Line("INFO", f"post-compaction guard armed for {fact.attempts} attempts ({_where(fact)})")


@line.register
def _(fact: WindowClosed) -> Line:
    said = f"toolCalls={fact.tool_calls} preCompactionRepeats={fact.pre_compaction_repeats}"
    return Line("INFO", f"post-compaction window closed: {said} ({_where(fact)})")


@line.register
def _(fact: CallsUnsettled) -> Line:
    if not fact.first:
        return Line("DEBUG", f"{_calls(fact.calls)} more never settled ({_where(fact)})")
    text = (
        f"{_calls(fact.calls)} had not settled when the batch or the run was over, counted as aborted; a sub-agent "
        f"inside its parent's run looks like this and needs a run_id of its own ({_where(fact)})"
    )
    return Line("WARNING", text)


@line.register
def _(fact: RunSummary) -> Line:
    said = f"notes={fact.notes} blocks={fact.blocks} ends={fact.ends}"
    return Line("INFO", f"run over, observe mode would have given: {said} ({_where(fact)})")


@line.register
def _(fact: AgentsUnnamed) -> Line:
    shown, more = map(plain, fact.agents[:_MOST_NAMES]), len(fact.agents) - _MOST_NAMES
    agents = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    text = (
        f"loopguard per-agent settings not in use: no event so far has an agent_id, so the settings for all agents "
        f"apply, not those of {agents} ({_where(fact)})"
    )
    return Line("WARNING", text)


@line.register
def _(fact: FailureInside) -> Line:
    """No message of the exception: it can hold contents."""
    tool = f"tool={plain(fact.tool)} " if fact.tool is not None else ""
    text = f"loopguard failed inside and went on with less: {fact.kind} at {fact.place} ({tool}{_where(fact)})"
    return Line("ERROR", text)


@line.register
def _(fact: RunEvicted) -> Line:
    """A run that was only idle is everyday; one forgotten for lack of room, or with calls still open, is not."""
    idle = fact.reason is EvictionReason.IDLE
    why = "it was idle" if idle else "maxRuns is reached, and its session, which has the most runs, loses the oldest"
    text = f"run forgotten: {why}, {_calls(fact.open_calls)} of it still open ({_where(fact)})"
    return Line("DEBUG" if idle and not fact.open_calls else "WARNING", text)


def _action(action: str, observed: bool) -> str:
    return f"would_{action}" if observed else action


def _where(fact: Fact) -> str:
    """Whose line it is; a session's unnamed run needs no word."""
    run = f" run={plain(fact.run_id)}" if fact.run_id is not None else ""
    agent = f" agent={plain(fact.agent_id)}" if fact.agent_id is not None else ""
    return f"session={plain(fact.session_key)}{run}{agent}"


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"
