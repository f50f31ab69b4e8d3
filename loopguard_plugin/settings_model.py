"""The parts of a gateway's config file that are ours, key for key (SPEC 11); the plugin's own are in
``settings_plugin``.

Every field may be absent, and ``null`` is the same as absent: what is unset falls back to the layer below. The
defaults themselves stand in :class:`loopguard_plugin.settings.ResolvedSettings`; the ones written here feed messages
and the JSON Schema, and a test holds the two together.

Structs that forbid unknown keys are ours to the last key. The others are the gateway's, and we only walk through them.
A new setting needs a field here, a field of ``ResolvedSettings`` and a line where that one is resolved: the reader and
the schema follow the annotations. These are no texts (no ``from __future__ import annotations``), here and in
``settings_plugin``: msgspec would have to compile every one.
"""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, field

# The largest whole number that every JSON reader keeps exact; "never" is often written so.
MAX_WHOLE = 2**53 - 1

# A string that is not blank, and one that names a place inside an object: names with dots between them.
NOT_BLANK = r"\S"
DOTTED = r"^[^.]+(\.[^.]+)*$"

Whole: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_WHOLE)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_WHOLE)]
Name: TypeAlias = Annotated[str, Meta(pattern=NOT_BLANK)]
Dotted: TypeAlias = Annotated[str, Meta(pattern=DOTTED)]
Minutes: TypeAlias = Annotated[float, Meta(gt=0)]


class Ours(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An object that is ours to the last key."""


class Around(Struct, frozen=True, rename="camel"):
    """An object of the gateway's that we only walk through."""


class Detectors(Ours, frozen=True):
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


class PostCompactionGuard(Ours, frozen=True):
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


class LoopDetection(Ours, frozen=True):
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


class Tools(Around, frozen=True):
    """The gateway's ``tools``, of which ``loopDetection`` is ours."""

    loop_detection: Annotated[LoopDetection | None, Meta(title="Loop detection")] = None


class AgentEntry(Around, frozen=True):
    """One agent of ``agents.entries``. Only a ``default`` of exactly ``true`` marks the default agent."""

    default: Any = None
    tools: Tools | None = None


class ListedAgent(Around, frozen=True):
    """One agent of ``agents.list``, the older form."""

    id: Any = None
    default: Any = None
    tools: Tools | None = None


class Agents(Around, frozen=True):
    """The gateway's ``agents``. The settings of ``entries`` lie over those of ``list``."""

    entries: Annotated[dict[str, AgentEntry | None] | None, Meta(title="Agents by id")] = None
    listed: Annotated[tuple[ListedAgent | None, ...] | None, Meta(title="Agents, older form")] = field(
        default=None, name="list"
    )
