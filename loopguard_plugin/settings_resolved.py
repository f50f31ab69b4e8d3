"""What holds for one agent, and how it comes out of the layers (SPEC 11).

:class:`ResolvedSettings` is what the guard reads; its field defaults are the defaults of the contract.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, field

from .settings_layers import Adjustment, Layers, Notice, raised, strongest
from .settings_model import Detectors, LoopDetection
from .settings_plugin import AgentSettings, Mode, PluginConfig, PluginDetectors, RepeatedErrors
from .settings_policies import Patterns, ToolPolicy, policies

LOOP_DETECTION = "tools.loopDetection"
PLUGIN_CONFIG = "plugins.entries.loopguard.config"

BUILT_IN_ALIASES: Mapping[str, str] = {"bash": "exec", "apply-patch": "apply_patch"}

_MOST_POLICIES = 1024


class ResolvedSettings(Struct, frozen=True, kw_only=True, dict=True):
    """What holds for one agent: every layer merged, every clamp applied. Without arguments: the defaults.

    ``policies`` are the patterns of ``config.tools`` in order, an agent's own before those for all, ``aliases`` other
    names of tools; both trimmed and case-folded, as the tool names that they are held against. Empty ``policies`` cost
    nothing. ``calls_per_run``, ``calls_per_turn``: None for no ceiling. ``similar_errors``: the two guards that are
    always on compare failure identities (SPEC 5.1, 5.1b).
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
    stagnation: bool = True
    error_cascade: bool = True
    similar_errors: bool = False
    observe: bool = False
    calls_per_run: int | None = None
    calls_per_turn: int | None = None
    aliases: Mapping[str, str] = field(default_factory=lambda: dict(BUILT_IN_ALIASES))
    policies: tuple[tuple[str, ToolPolicy], ...] = ()
    adjustments: tuple[Adjustment, ...] = ()
    notices: tuple[Notice, ...] = ()

    @functools.cached_property
    def rolling(self) -> bool:
        """Whether the rolling detectors run (SPEC 6): only where asked for."""
        return self.enabled is True

    @functools.cached_property
    def post_compaction(self) -> bool:
        """Whether the guard after a compaction runs (SPEC 10): unless refused."""
        return self.enabled is not False

    @functools.cached_property
    def kept(self) -> dict[str, object]:
        """What is worked out from these settings once and kept with them, by whom."""
        return {}

    def policy(self, tool: str) -> ToolPolicy | None:
        """What the settings say about a tool, by its normalised name; None where nothing matches."""
        if not self.policies:
            return None
        met = self._met
        return met[tool] if tool in met else self._first_match(tool)

    @functools.cached_property
    def _met(self) -> dict[str, ToolPolicy | None]:
        return {}

    def _first_match(self, tool: str) -> ToolPolicy | None:
        found = next((policy for pattern, policy in self.policies if fnmatchcase(tool, pattern)), None)
        if len(self._met) >= _MOST_POLICIES:  # models invent tool names
            self._met.clear()
        self._met[tool] = found
        return found


DEFAULTS = ResolvedSettings()


def resolve(
    layers: Sequence[tuple[str, LoopDetection]], config: PluginConfig, agent: Sequence[tuple[str, AgentSettings]] = ()
) -> ResolvedSettings:
    """One agent's settings out of all layers, each sequence strongest first and each layer with its path.

    ``layers``: ``loopDetection`` of the agent and of all. ``agent``: the agent's own of ``config.agents``.
    """
    notes: list[Adjustment] = []
    notices: list[Notice] = []
    usual = _thresholds(layers, notes)
    history_size, history_path = strongest(layers, "history_size", DEFAULTS.history_size, LOOP_DETECTION)
    if history_size < usual.breaker:
        why = f"too small for a globalCircuitBreakerThreshold of {usual.breaker} ever to be reached"
        notes.append(Adjustment(history_path, history_size, history_size, why))
    window_size = _window_size(layers, notes)
    detectors = [(f"{path}.detectors", layer.detectors) for path, layer in layers if layer.detectors]
    plugin: list[tuple[str, AgentSettings | PluginConfig]] = [*agent, (PLUGIN_CONFIG, config)]
    own = [(f"{path}.detectors", layer.detectors) for path, layer in plugin if layer.detectors]
    limits: Layers = [(f"{path}.limits", layer.limits) for path, layer in plugin if layer.limits]
    patterns: list[Patterns] = [(f"{path}.tools", layer.tools) for path, layer in plugin if layer.tools]
    aliases = given_aliases(config)
    aliases = {name: alias_chain(name, aliases)[-1] for name in aliases}
    return ResolvedSettings(
        enabled=strongest(layers, "enabled", DEFAULTS.enabled, LOOP_DETECTION)[0],
        history_size=history_size,
        warning=usual.warning,
        critical=usual.critical,
        unknown_tool=usual.unknown_tool,
        breaker=usual.breaker,
        window_size=window_size,
        generic_repeat=_switch(detectors, "generic_repeat", DEFAULTS.generic_repeat),
        known_poll_no_progress=_switch(detectors, "known_poll_no_progress", DEFAULTS.known_poll_no_progress),
        ping_pong=_switch(detectors, "ping_pong", DEFAULTS.ping_pong),
        argument_churn=_argument_churn(detectors, own, notes),
        stagnation=_switch(own, "stagnation", DEFAULTS.stagnation),
        error_cascade=_switch(own, "error_cascade", DEFAULTS.error_cascade),
        similar_errors=config.repeated_errors is RepeatedErrors.SIMILAR,
        observe=strongest(plugin, "mode", Mode.ENFORCE, PLUGIN_CONFIG)[0] is Mode.OBSERVE,
        calls_per_run=strongest(limits, "calls_per_run", DEFAULTS.calls_per_run, PLUGIN_CONFIG)[0],
        calls_per_turn=strongest(limits, "calls_per_turn", DEFAULTS.calls_per_turn, PLUGIN_CONFIG)[0],
        aliases=aliases,
        policies=policies(patterns, usual, history_size, aliases, notes, notices),
        adjustments=tuple(notes),
        notices=tuple(notices),
    )


def _thresholds(layers: Layers, notes: list[Adjustment]) -> ToolPolicy:
    """What holds for a tool of which nothing is said."""
    where = LOOP_DETECTION
    warning, _ = strongest(layers, "warning_threshold", DEFAULTS.warning, where)
    critical = raised(
        layers, "critical_threshold", DEFAULTS.critical, where, floor=("warningThreshold", warning), notes=notes
    )
    breaker = raised(
        layers,
        "global_circuit_breaker_threshold",
        DEFAULTS.breaker,
        where,
        floor=("criticalThreshold", critical),
        notes=notes,
    )
    unknown_tool, _ = strongest(layers, "unknown_tool_threshold", DEFAULTS.unknown_tool, where)
    return ToolPolicy(warning=warning, critical=critical, unknown_tool=unknown_tool, breaker=breaker)


def _window_size(layers: Sequence[tuple[str, LoopDetection]], notes: list[Adjustment]) -> int:
    guards: Layers = [
        (f"{path}.postCompactionGuard", layer.post_compaction_guard)
        for path, layer in layers
        if layer.post_compaction_guard
    ]
    size, path = strongest(guards, "window_size", DEFAULTS.window_size, f"{LOOP_DETECTION}.postCompactionGuard")
    if size >= 2:
        return size
    notes.append(Adjustment(path, size, 2, "one call alone repeats nothing"))
    return 2


def _switch(layers: Layers, name: str, default: bool) -> bool:
    return strongest(layers, name, default, "")[0]


def _argument_churn(
    detectors: Sequence[tuple[str, Detectors]],
    own: Sequence[tuple[str, PluginDetectors]],
    notes: list[Adjustment],
) -> bool:
    """Of one agent and of all: ``tools.loopDetection`` lies over the plugin's own, and a difference is reported."""
    value: bool | None = None
    for agents in (True, False):
        stated = _churn([one for one in detectors if one[0].startswith(LOOP_DETECTION) is not agents])
        weaker = _churn([one for one in own if one[0].startswith(f"{PLUGIN_CONFIG}.agents") is agents])
        if stated and weaker and stated[1] is not weaker[1]:
            notes.append(Adjustment(weaker[0], weaker[1], stated[1], f"{stated[0]} is set too, and wins"))
        given = stated or weaker
        if value is None and given:
            value = given[1]
    return DEFAULTS.argument_churn if value is None else value


def _churn(layers: Layers) -> tuple[str, bool] | None:
    """The strongest value given for it, with its path."""
    value, path = strongest(layers, "argument_churn", None, "")
    return None if value is None else (path, value)


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
