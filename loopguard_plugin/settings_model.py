"""The parts of a gateway's config file that are ours, key for key (SPEC 11, 11.2).

Every field may be absent, and ``null`` is the same as absent: what is unset falls back to the layer below. The
defaults themselves stand in :class:`loopguard_plugin.settings.ResolvedSettings`; the ones written here feed messages
and the JSON Schema, and a test holds the two together.

Structs that forbid unknown keys are ours to the last key. The others are the gateway's, and we only walk through them.
A new setting needs a field here, a field of ``ResolvedSettings`` and a line where that one is resolved: the reader and
the schema follow the annotations.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, field

# The largest whole number that every JSON reader keeps exact; "never" is often written so.
MAX_WHOLE = 2**53 - 1

Whole: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_WHOLE)]
Name: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
Minutes: TypeAlias = Annotated[float, Meta(gt=0)]


class ToolKind(StrEnum):
    """What a tool is to the detectors (SPEC 11.2).

    ``poll``: a status poller (SPEC 6). ``send``: an outbound send, compared without delivery ids (SPEC 5 row 11).
    ``plain``: neither, whatever its name says.
    """

    POLL = "poll"
    SEND = "send"
    PLAIN = "plain"


class _Ours(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class _Around(Struct, frozen=True, rename="camel"):
    pass


class Detectors(_Ours, frozen=True):
    """Which rolling detectors may speak."""

    generic_repeat: Annotated[
        bool | None,
        Meta(
            title="Generic repeat",
            description="The same call with the same arguments, over and over.",
            extra_json_schema={"default": True},
        ),
    ] = None
    known_poll_no_progress: Annotated[
        bool | None,
        Meta(
            title="Known poll, no progress",
            description="A status poller whose answer does not move.",
            extra_json_schema={"default": True},
        ),
    ] = None
    ping_pong: Annotated[
        bool | None,
        Meta(
            title="Ping-pong",
            description="Two calls that alternate without either result changing.",
            extra_json_schema={"default": True},
        ),
    ] = None
    argument_churn: Annotated[
        bool | None,
        Meta(
            title="Argument churn",
            description="One tool that fails or changes nothing in the same way while its arguments go round. "
            "loopguard's own addition; gateways with a strict schema set it under "
            "plugins.entries.loopguard.config.detectors. Where both are set, this one wins.",
            extra_json_schema={"default": True},
        ),
    ] = None


class PostCompactionGuard(_Ours, frozen=True):
    """The guard after a compaction retry."""

    window_size: Annotated[
        Whole | None,
        Meta(
            title="Window size",
            description="How many calls after a compaction are watched; that many identical calls with identical "
            "results end the run. 1 is raised to 2.",
            extra_json_schema={"default": 3},
        ),
    ] = None


class LoopDetection(_Ours, frozen=True):
    """Tool-loop detection. Repeated tool errors end the turn whatever stands here."""

    enabled: Annotated[
        bool | None,
        Meta(
            title="Enabled",
            description="Unset: rolling detectors off, post-compaction guard on. true: both on. false: both off. "
            "In a settings page, reset removes the key; off writes false.",
        ),
    ] = None
    history_size: Annotated[
        Whole | None,
        Meta(
            title="History size",
            description="How many calls of a run are remembered.",
            extra_json_schema={"default": 30},
        ),
    ] = None
    warning_threshold: Annotated[
        Whole | None,
        Meta(
            title="Warning threshold",
            description="So many repeats, and the model is told so in a note.",
            extra_json_schema={"default": 10},
        ),
    ] = None
    critical_threshold: Annotated[
        Whole | None,
        Meta(
            title="Critical threshold",
            description="So many repeats without progress, and the calls are blocked. "
            "Raised to warningThreshold + 1 where it is not larger.",
            extra_json_schema={"default": 20},
        ),
    ] = None
    unknown_tool_threshold: Annotated[
        Whole | None,
        Meta(
            title="Unknown tool threshold",
            description="So many calls in a row to a tool that does not exist, and the next is blocked.",
            extra_json_schema={"default": 10},
        ),
    ] = None
    global_circuit_breaker_threshold: Annotated[
        Whole | None,
        Meta(
            title="Global circuit breaker threshold",
            description="So many calls without progress are blocked whatever the detectors say. "
            "Raised to criticalThreshold + 1 where it is not larger; needs a historySize of at least as many.",
            extra_json_schema={"default": 30},
        ),
    ] = None
    detectors: Annotated[Detectors | None, Meta(title="Detectors")] = None
    post_compaction_guard: Annotated[PostCompactionGuard | None, Meta(title="Post-compaction guard")] = None


class Tools(_Around, frozen=True):
    """The gateway's ``tools``, of which ``loopDetection`` is ours."""

    loop_detection: Annotated[LoopDetection | None, Meta(title="Loop detection")] = None


class AgentEntry(_Around, frozen=True):
    """One agent of ``agents.entries``. Only a ``default`` of exactly ``true`` marks the default agent."""

    default: Any = None
    tools: Tools | None = None


class ListedAgent(_Around, frozen=True):
    """One agent of ``agents.list``, the older form."""

    id: Any = None
    default: Any = None
    tools: Tools | None = None


class Agents(_Around, frozen=True):
    """The gateway's ``agents``. The settings of ``entries`` lie over those of ``list``."""

    entries: Annotated[dict[str, AgentEntry | None] | None, Meta(title="Agents by id")] = None
    listed: Annotated[tuple[ListedAgent | None, ...] | None, Meta(title="Agents, older form")] = field(
        default=None, name="list"
    )


class PluginDetectors(_Ours, frozen=True):
    """Detectors that are loopguard's own, for gateways whose ``tools.loopDetection`` is strict."""

    argument_churn: Annotated[
        bool | None,
        Meta(
            title="Argument churn",
            description="As tools.loopDetection.detectors.argumentChurn, which wins where both are set.",
            extra_json_schema={"default": True},
        ),
    ] = None


class ToolSettings(_Ours, frozen=True):
    """What is said about the tools of one name or glob."""

    kind: Annotated[
        ToolKind | None,
        Meta(
            title="Kind",
            description="poll: a status poller. send: an outbound send, whose delivery ids do not count as progress. "
            "plain: neither, whatever its name says.",
        ),
    ] = None


class PluginConfig(_Ours, frozen=True):
    """loopguard's own settings."""

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
    max_runs: Annotated[
        Whole | None,
        Meta(
            title="Most runs",
            description="So many runs are remembered; beyond, the least recently used is forgotten.",
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


class Plugin(_Ours, frozen=True):
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


class PluginEntries(_Around, frozen=True):
    """The gateway's plugins, of which ours is one."""

    loopguard: Annotated[Plugin | None, Meta(title="loopguard")] = None


class Plugins(_Around, frozen=True):
    """The gateway's ``plugins``."""

    entries: PluginEntries | None = None
