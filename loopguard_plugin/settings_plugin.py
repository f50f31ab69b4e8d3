"""The plugin's own settings, under ``plugins.entries.loopguard``, key for key (SPEC 11.2).

The rules of ``settings_model`` hold here too: every field may be absent, ``null`` is absent, and a new setting needs a
field here, one of ``ResolvedSettings`` or ``ToolPolicy``, and a line where that one is resolved.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from .settings_model import (
    Agents,
    Around,
    Count,
    Detectors,
    Dotted,
    LoopDetection,
    Minutes,
    Name,
    Ours,
    Tools,
    Whole,
)


class Mode(StrEnum):
    """Whether verdicts take effect. ``observe``: logged and counted, but nothing is noted, blocked or ended."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class RepeatedErrors(StrEnum):
    """What the two guards that are always on compare failures by (SPEC 4, 10).

    ``exact``: the error in full. ``similar``: the failure identity of SPEC 5.1 and 5.1b, without times, durations and
    ids.
    """

    EXACT = "exact"
    SIMILAR = "similar"


class ToolKind(StrEnum):
    """What a tool is to the detectors (SPEC 11.2).

    ``poll``: a status poller (SPEC 6). ``send``: an outbound send, compared without delivery ids (SPEC 5 row 11).
    ``plain``: neither, whatever its name says.
    """

    POLL = "poll"
    SEND = "send"
    PLAIN = "plain"


class Exemption(StrEnum):
    """The detectors that a tool may be exempted from: all but the guards of SPEC 4 and 10."""

    GENERIC_REPEAT = "generic_repeat"
    KNOWN_POLL_NO_PROGRESS = "known_poll_no_progress"
    PING_PONG = "ping_pong"
    ARGUMENT_CHURN = "argument_churn"
    UNKNOWN_TOOL_REPEAT = "unknown_tool_repeat"
    GLOBAL_CIRCUIT_BREAKER = "global_circuit_breaker"
    STAGNATION = "stagnation"
    ERROR_CASCADE = "error_cascade"


class PluginDetectors(Ours, frozen=True):
    """Detectors that are loopguard's own, for gateways whose ``tools.loopDetection`` is strict."""

    argument_churn: Annotated[
        bool | None,
        Meta(
            title="Argument churn",
            description="As tools.loopDetection.detectors.argumentChurn, which wins where both are set.",
            extra_json_schema={"default": True},
        ),
    ] = None
    stagnation: Annotated[
        bool | None,
        Meta(
            title="Stagnation",
            description="Response after response asks only for calls that were made before, and each comes back as it "
            "did the last time.",
            extra_json_schema={"default": True},
        ),
    ] = None
    error_cascade: Annotated[
        bool | None,
        Meta(
            title="Error cascade",
            description="Response after response fails, or one tool fails the same way again and again. It only warns.",
            extra_json_schema={"default": True},
        ),
    ] = None


class ToolSettings(Ours, frozen=True):
    """What is said about the tools of one name or glob. What is left out is as for every other tool."""

    kind: Annotated[
        ToolKind | None,
        Meta(
            title="Kind",
            description="poll: a status poller. send: an outbound send, whose delivery ids do not count as progress. "
            "plain: neither, whatever its name says.",
        ),
    ] = None
    exempt: Annotated[
        tuple[Exemption, ...] | None,
        Meta(
            title="Exempt",
            description="Detectors that leave this tool alone. Repeated tool errors have no exemption, see "
            "errorRetries. Naming the circuit breaker or unknown tools is logged at start.",
        ),
    ] = None
    warning_threshold: Annotated[
        Whole | None,
        Meta(title="Warning threshold", description="As in tools.loopDetection, for this tool alone."),
    ] = None
    critical_threshold: Annotated[
        Whole | None,
        Meta(
            title="Critical threshold",
            description="As in tools.loopDetection, for this tool alone. "
            "Raised to warningThreshold + 1 where it is not larger.",
        ),
    ] = None
    unknown_tool_threshold: Annotated[
        Whole | None,
        Meta(title="Unknown tool threshold", description="As in tools.loopDetection, for this tool alone."),
    ] = None
    global_circuit_breaker_threshold: Annotated[
        Whole | None,
        Meta(
            title="Global circuit breaker threshold",
            description="As in tools.loopDetection, for this tool alone. "
            "Raised to criticalThreshold + 1 where it is not larger.",
        ),
    ] = None
    identity: Annotated[
        tuple[Dotted, ...] | None,
        Meta(
            title="Identity",
            description="The arguments that identify a call, by name or dotted path; all others do not count. "
            "An empty list: none count, the tool alone does. Unset: all count.",
        ),
    ] = None
    ignore_result: Annotated[
        tuple[Dotted, ...] | None,
        Meta(
            title="Ignored parts of the result",
            description="Dotted paths of what differs each time without being progress: a time, a request id. "
            "They count inside an error that is an object too.",
        ),
    ] = None
    similar: Annotated[
        bool | None,
        Meta(
            title="Similar results",
            description="true: results of this tool, successes too, are compared without times, durations, attempts, "
            "ids and addresses: for a status that shows how long it has run.",
            extra_json_schema={"default": False},
        ),
    ] = None
    mutates: Annotated[
        bool | None,
        Meta(
            title="Mutates",
            description="true: a success of this tool makes other calls new attempts (edit, test, edit, test). "
            "Stagnation counts on: the same edit with the same outcome is nothing new.",
            extra_json_schema={"default": False},
        ),
    ] = None
    error_retries: Annotated[
        Count | None,
        Meta(
            title="Error retries",
            description="So many identical failures in a row are let pass; the next one ends the turn.",
            extra_json_schema={"default": 2},
        ),
    ] = None


class Limits(Ours, frozen=True):
    """Hard ceilings. Unset: none."""

    calls_per_run: Annotated[
        Whole | None,
        Meta(title="Calls per run", description="So many calls of a run may start; a batch beyond them ends it."),
    ] = None
    calls_per_turn: Annotated[
        Whole | None,
        Meta(title="Calls per turn", description="The same, counted anew from every user message on."),
    ] = None


class AgentSettings(Ours, frozen=True):
    """One agent's own settings, over the ones for all."""

    mode: Annotated[
        Mode | None, Meta(title="Mode", description="enforce or observe, whatever holds for the others.")
    ] = None
    tools: Annotated[
        dict[Name, ToolSettings | None] | None,
        Meta(title="Tools", description="By tool name or glob; these are tried before the ones for all agents."),
    ] = None
    detectors: Annotated[PluginDetectors | None, Meta(title="Detectors")] = None
    limits: Annotated[Limits | None, Meta(title="Limits")] = None


class PluginConfig(Ours, frozen=True):
    """loopguard's own settings."""

    mode: Annotated[
        Mode | None,
        Meta(
            title="Mode",
            description="observe: decide, log and count, but never note, block or end anything.",
            extra_json_schema={"default": str(Mode.ENFORCE)},
        ),
    ] = None
    repeated_errors: Annotated[
        RepeatedErrors | None,
        Meta(
            title="Repeated errors",
            description="What repeated tool errors and the post-compaction guard compare failures by. exact: the whole "
            "error. similar: without times, durations, attempts, ids and addresses. The rolling detectors always "
            "compare failures as similar does.",
            extra_json_schema={"default": str(RepeatedErrors.EXACT)},
        ),
    ] = None
    detectors: Annotated[PluginDetectors | None, Meta(title="Detectors")] = None
    tool_aliases: Annotated[
        dict[Name, Name | None] | None,
        Meta(
            title="Tool aliases",
            description="Other names of a tool, merged over the built-in ones (bash is exec, apply-patch is "
            "apply_patch). Upper and lower case are the same.",
            extra_json_schema={"default": {}},
        ),
    ] = None
    tools: Annotated[
        dict[Name, ToolSettings | None] | None,
        Meta(
            title="Tools",
            description="By tool name or glob (* ? [abc]); the first match wins.",
            extra_json_schema={"default": {}},
        ),
    ] = None
    limits: Annotated[Limits | None, Meta(title="Limits")] = None
    agents: Annotated[
        dict[Name, AgentSettings | None] | None,
        Meta(
            title="Agents",
            description="By agent id: settings of one agent over the ones here.",
            extra_json_schema={"default": {}},
        ),
    ] = None
    max_runs: Annotated[
        Whole | None,
        Meta(
            title="Most runs",
            description="So many runs are remembered; beyond, the session with the most runs loses its oldest one.",
            extra_json_schema={"default": 10_000},
        ),
    ] = None
    idle_minutes: Annotated[
        Minutes | None,
        Meta(
            title="Idle minutes",
            description="A run without events for so long is forgotten; one with open calls after 24 hours.",
            extra_json_schema={"default": 30},
        ),
    ] = None


class Plugin(Ours, frozen=True):
    """The entry of loopguard among the gateway's plugins."""

    enabled: Annotated[
        bool | None,
        Meta(
            title="Enabled",
            description="false: everything passes through, all guards included.",
            extra_json_schema={"default": True},
        ),
    ] = None
    config: Annotated[PluginConfig | None, Meta(title="Config")] = None


class PluginEntries(Around, frozen=True):
    """The gateway's plugins, of which ours is one."""

    loopguard: Annotated[Plugin | None, Meta(title="loopguard")] = None


class Plugins(Around, frozen=True):
    """The gateway's ``plugins``."""

    entries: PluginEntries | None = None


class ConfigFile(Struct, frozen=True, rename="camel", dict=True):
    """A gateway's config file, of which three parts hold settings of ours."""

    tools: Tools | None = None
    agents: Agents | None = None
    plugins: Plugins | None = None


# Keys of the first form of tools.loopDetection that gateways documented, former keys of this plugin, and what takes
# their place (None: nothing).
# Repeated failures have a guard of their own, which no key switches (SPEC 4).
FORMER_KEYS: Mapping[type, Mapping[str, str | None]] = {
    LoopDetection: {"repeatThreshold": "warningThreshold", "detectorCooldownMs": None},
    Detectors: {
        "repeatedFailure": None,
        "knownPollLoop": "knownPollNoProgress",
        "repeatingNoProgress": "genericRepeat",
        "cycle": "plugins.entries.loopguard.config.detectors.stagnation",
    },
    PluginDetectors: {"cycle": "stagnation"},
}

# The same for the words of a closed set.
FORMER_WORDS: Mapping[type, Mapping[str, str]] = {Exemption: {"cycle": "stagnation"}}
