"""What holds for one agent, and how it comes out of the layers (SPEC 11).

:class:`ResolvedSettings` is what the guard reads; its field defaults are the defaults of the contract.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias, TypeVar

from msgspec import Struct, field

from .settings_model import Detectors, LoopDetection, PluginConfig, ToolKind, ToolSettings

LOOP_DETECTION = "tools.loopDetection"
PLUGIN_CONFIG = "plugins.entries.loopguard.config"

BUILT_IN_ALIASES: Mapping[str, str] = {"bash": "exec", "apply-patch": "apply_patch"}

_MOST_POLICIES = 1024

V = TypeVar("V")
Layers: TypeAlias = Sequence[tuple[str, Struct]]


class Adjustment(Struct, frozen=True):
    """A value that is not used as given, or that does not do what it seems to (then ``used`` equals ``given``).

    ``path`` is where it was given; for a default that another setting pushed up, where it could be.
    """

    path: str
    given: int | bool
    used: int | bool
    why: str


class ToolPolicy(Struct, frozen=True):
    """What the settings say about one tool. ``kind`` None: nothing, its name decides."""

    kind: ToolKind | None = None


NO_POLICY = ToolPolicy()


class ResolvedSettings(Struct, frozen=True, kw_only=True, dict=True):
    """What holds for one agent: every layer merged, every clamp applied. Without arguments: the defaults.

    ``policies`` are the patterns of ``config.tools`` in order, ``aliases`` other names of tools; both trimmed and
    case-folded, as the tool names that they are held against.
    """

    enabled: bool | None = None
    history_size: int = 30
    warning: int = 10
    critical: int = 20
    unknown_tool: int = 10
    breaker: int = 30
    window_size: int = 3
    generic_repeat: bool = True
    known_poll_no_progress: bool = True
    ping_pong: bool = True
    argument_churn: bool = True
    aliases: Mapping[str, str] = field(default_factory=lambda: dict(BUILT_IN_ALIASES))
    policies: tuple[tuple[str, ToolPolicy], ...] = ()
    adjustments: tuple[Adjustment, ...] = ()

    @functools.cached_property
    def rolling(self) -> bool:
        """Whether the rolling detectors run (SPEC 6): only where asked for."""
        return self.enabled is True

    @functools.cached_property
    def post_compaction(self) -> bool:
        """Whether the guard after a compaction runs (SPEC 10): unless refused."""
        return self.enabled is not False

    def policy(self, tool: str) -> ToolPolicy:
        """What the settings say about a tool, by its normalised name."""
        if not self.policies:
            return NO_POLICY
        return self._met.get(tool) or self._first_match(tool)

    @functools.cached_property
    def _met(self) -> dict[str, ToolPolicy]:
        return {}

    def _first_match(self, tool: str) -> ToolPolicy:
        found = next((policy for pattern, policy in self.policies if fnmatchcase(tool, pattern)), NO_POLICY)
        if len(self._met) >= _MOST_POLICIES:  # models invent tool names
            self._met.clear()
        self._met[tool] = found
        return found


DEFAULTS = ResolvedSettings()


def resolve(layers: Sequence[tuple[str, LoopDetection]], config: PluginConfig) -> ResolvedSettings:
    """The layers, strongest first and each with its path, made one; ``config`` lies below them."""
    plain: Layers = layers
    detectors = [(f"{path}.detectors", layer.detectors) for path, layer in layers if layer.detectors]
    window: Layers = [
        (f"{path}.postCompactionGuard", layer.post_compaction_guard)
        for path, layer in layers
        if layer.post_compaction_guard
    ]
    notes: list[Adjustment] = []
    warning, _ = _strongest(plain, "warning_threshold", DEFAULTS.warning)
    critical = _raised(plain, "critical_threshold", DEFAULTS.critical, warning, "warningThreshold", notes)
    breaker = _raised(plain, "global_circuit_breaker_threshold", DEFAULTS.breaker, critical, "criticalThreshold", notes)
    history_size, history_path = _strongest(plain, "history_size", DEFAULTS.history_size)
    if history_size < breaker:
        why = f"too small for a globalCircuitBreakerThreshold of {breaker} ever to be reached"
        notes.append(Adjustment(history_path, history_size, history_size, why))
    window_size, window_path = _strongest(window, "window_size", DEFAULTS.window_size, "postCompactionGuard")
    if window_size < 2:
        notes.append(Adjustment(window_path, window_size, 2, "one call alone repeats nothing"))
        window_size = 2
    aliases = given_aliases(config)
    aliases = {name: alias_chain(name, aliases)[-1] for name in aliases}
    return ResolvedSettings(
        enabled=_strongest(plain, "enabled", DEFAULTS.enabled)[0],
        history_size=history_size,
        warning=warning,
        critical=critical,
        unknown_tool=_strongest(plain, "unknown_tool_threshold", DEFAULTS.unknown_tool)[0],
        breaker=breaker,
        window_size=window_size,
        generic_repeat=_strongest(detectors, "generic_repeat", DEFAULTS.generic_repeat)[0],
        known_poll_no_progress=_strongest(detectors, "known_poll_no_progress", DEFAULTS.known_poll_no_progress)[0],
        ping_pong=_strongest(detectors, "ping_pong", DEFAULTS.ping_pong)[0],
        argument_churn=_argument_churn(detectors, config, notes),
        aliases=aliases,
        policies=_policies(config, aliases),
        adjustments=tuple(notes),
    )


def _strongest(layers: Layers, name: str, default: V, inside: str = "") -> tuple[V, str]:
    """The first value set for a field, and its path; without any, the default and where it could be set globally."""
    for path, layer in layers:
        value: V | None = getattr(layer, name)
        if value is not None:
            return value, f"{path}.{_camel(name)}"
    return default, ".".join(filter(None, (LOOP_DETECTION, inside, _camel(name))))


def _raised(layers: Layers, name: str, default: int, floor: int, floor_name: str, notes: list[Adjustment]) -> int:
    """A threshold, raised to one above ``floor`` where it is not larger; the loop would be blocked unannounced else."""
    value, path = _strongest(layers, name, default)
    if value > floor:
        return value
    notes.append(Adjustment(path, value, floor + 1, f"has to be larger than {floor_name}, which is {floor}"))
    return floor + 1


def _argument_churn(detectors: Sequence[tuple[str, Detectors]], config: PluginConfig, notes: list[Adjustment]) -> bool:
    """``config.detectors`` lies below all of ``tools.loopDetection``; two global values that differ are reported."""
    own = config.detectors.argument_churn if config.detectors else None
    default = DEFAULTS.argument_churn if own is None else own
    value, _ = _strongest(detectors, "argument_churn", default)
    for path, layer in detectors:
        given = layer.argument_churn
        if path.startswith(LOOP_DETECTION) and own is not None and given is not None and given is not own:
            why = f"{path}.argumentChurn is set too, and wins"
            notes.append(Adjustment(f"{PLUGIN_CONFIG}.detectors.argumentChurn", own, given, why))
    return value


def _policies(config: PluginConfig, aliases: Mapping[str, str]) -> tuple[tuple[str, ToolPolicy], ...]:
    """The patterns in order; a name that is an alias speaks of the tool it stands for, as calls of it do."""
    folded = ((_fold(pattern), given) for pattern, given in (config.tools or {}).items() if given is not None)
    return tuple((aliases.get(pattern, pattern), _policy(given)) for pattern, given in folded)


def _policy(given: ToolSettings) -> ToolPolicy:
    return ToolPolicy(kind=given.kind)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def given_aliases(config: PluginConfig) -> dict[str, str]:
    """The built-in aliases with the file's over them, by folded name, as given: an alias may lead to another."""
    given = {_fold(name): _fold(target) for name, target in (config.tool_aliases or {}).items() if target}
    return {**BUILT_IN_ALIASES, **given}


def alias_chain(name: str, aliases: Mapping[str, str]) -> list[str]:
    """From a name to what it finally stands for; ends where it comes back to a name it has met."""
    chain, met = [name], {name}
    while (target := aliases.get(chain[-1])) is not None and target != chain[-1]:
        chain.append(target)
        if target in met:
            break
        met.add(target)
    return chain


def _fold(tool: str) -> str:
    return tool.strip().casefold()
