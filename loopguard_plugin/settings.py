"""The settings of a guard: what stands in the config file, and what that means for one agent (SPEC 11, 11.2).

:class:`Settings` mirrors the file; :meth:`Settings.resolve` lays its layers over each other, once for each agent that
the file names. The guard asks on every event, so that has to stay one look-up.

The layers, strongest first: the agent's ``agents.entries``, the agent's ``agents.list``, the agent's own under
``plugins.entries.loopguard.config.agents``, ``tools.loopDetection``, ``plugins.entries.loopguard.config``, the
defaults. Only ``argumentChurn`` may stand in the gateway's part and in the plugin's: where both are set for one agent,
or both for all, the gateway's wins, so that the weaker place never overrules what an operator wrote where gateways
document it; a difference between the two is reported as an adjustment.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from msgspec import structs

from .errors import Problem, SettingsError
from .settings_layers import Adjustment, Notice
from .settings_model import AgentEntry, Agents, ListedAgent, LoopDetection
from .settings_paths import at
from .settings_plugin import AgentSettings, ConfigFile, Mode, PluginConfig, Plugins, ToolKind
from .settings_policies import ToolPolicy
from .settings_resolved import (
    LOOP_DETECTION,
    PLUGIN_CONFIG,
    ResolvedSettings,
    alias_chain,
    given_aliases,
    resolve,
)

__all__ = [
    "Adjustment",
    "Mode",
    "Notice",
    "ResolvedSettings",
    "Settings",
    "ToolKind",
    "ToolPolicy",
    "parse_settings",
]

_MOST = 20  # unknown agents for which a near name is looked for: each is held against every known one


class Settings(ConfigFile, frozen=True, rename="camel", dict=True):
    """A config file's parts that are ours, checked. Without arguments: all defaults, ``enabled`` unset.

    Most people get one from :func:`parse_settings` or from a file. Built in Python, it is checked all the same:
    raises :class:`SettingsError`.

    ``unread`` lists the keys of the file that are one edit away from ours in an object of the gateway's: an entry of
    ``plugins.entries``, a key of ``tools`` or of an agent's ``tools``. The file is the gateway's and may hold them, so
    the guard starts, and says so in the log; ``loopguard check-config`` refuses them.
    """

    unread: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        if any(part is not None for part in (self.tools, self.agents, self.plugins)):
            _check(self)

    def resolve(self, agent_id: str | None = None) -> ResolvedSettings:
        """What holds for an agent; for None (or blank) the default agent, and without one the global settings."""
        agents = self._resolved
        found = agents.get(agent_id)
        if found is None:
            found = agents.get((agent_id or "").strip() or None) or self._resolved_globally
        return found

    @property
    def plugin_enabled(self) -> bool:
        """False: the middleware passes everything through, guards included."""
        plugin = self.plugins and self.plugins.entries and self.plugins.entries.loopguard
        return not (plugin and plugin.enabled is False)

    @property
    def max_runs(self) -> int:
        """How many runs are remembered at most."""
        return self._config.max_runs or 10_000

    @property
    def idle_minutes(self) -> float:
        """After how many minutes without an event a run is forgotten."""
        return self._config.idle_minutes or 30

    @property
    def default_agent(self) -> str | None:
        """The id of the agent that counts where an event names none."""
        marked = (agent_id for agent_id, _, entry in self._agents() if entry.default is True)
        return next(marked, None)

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """The agents that the file names, each once; the gateway's own first."""
        return tuple(name for name in self._resolved if name is not None)

    @property
    def adjustments(self) -> tuple[Adjustment, ...]:
        """The adjustments of all agents and of the global settings, each once."""
        return tuple(dict.fromkeys(each for resolved in self._every for each in resolved.adjustments))

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What an operator is to be reminded of at start, each once."""
        return tuple(dict.fromkeys(each for resolved in self._every for each in resolved.notices))

    @property
    def unknown_agents(self) -> tuple[Problem, ...]:
        """The agents under ``config.agents`` that neither ``agents.entries`` nor ``agents.list`` has.

        Empty where ``agents`` names no agent at all: then the gateway knows its agents from elsewhere, and no name can
        be called wrong. The settings of such an agent hold all the same for events that name it.
        """
        known = dict.fromkeys(name for name, _, _ in self._agents())
        given = {name.strip(): name for name, agent in (self._config.agents or {}).items() if agent is not None}
        unknown = [name for trimmed, name in given.items() if trimmed not in known] if known else []
        what = "neither agents.entries nor agents.list has an agent of this name"
        return tuple(
            Problem(at(f"{PLUGIN_CONFIG}.agents", name), what, nearest=_meant(name, known) if place < _MOST else None)
            for place, name in enumerate(unknown)
        )

    @functools.cached_property
    def own_agents(self) -> tuple[str, ...]:
        """The agents for whom something else holds than for those that the file does not name."""
        usual = _what_holds(self._resolved_globally)
        return tuple(name for name in self.agent_ids if _what_holds(self.resolve(name)) != usual)

    @property
    def _every(self) -> tuple[ResolvedSettings, ...]:
        return self._resolved_globally, *self._resolved.values()

    @functools.cached_property
    def _resolved(self) -> dict[str | None, ResolvedSettings]:
        """By agent id, None for events that name no agent. Bounded by what the file names."""
        layers: dict[str, list[tuple[str, LoopDetection]]] = {}
        own: dict[str, list[tuple[str, AgentSettings]]] = {}
        for agent_id, path, entry in self._agents():
            its = layers.setdefault(agent_id, [])
            if entry.tools and entry.tools.loop_detection:
                its.append((f"{path}.{LOOP_DETECTION}", entry.tools.loop_detection))
        for name, given in (self._config.agents or {}).items():
            if given is not None:
                layers.setdefault(name.strip(), [])
                own.setdefault(name.strip(), []).append((at(f"{PLUGIN_CONFIG}.agents", name), given))
        agents: dict[str | None, ResolvedSettings] = {
            name: self._over_global(its, own.get(name, [])) for name, its in layers.items()
        }
        agents[None] = agents.get(self.default_agent, self._resolved_globally)
        return agents

    @functools.cached_property
    def _resolved_globally(self) -> ResolvedSettings:
        return self._over_global([], [])

    def _over_global(
        self, layers: list[tuple[str, LoopDetection]], own: list[tuple[str, AgentSettings]]
    ) -> ResolvedSettings:
        shared = self.tools and self.tools.loop_detection
        return resolve([*layers, (LOOP_DETECTION, shared)] if shared else layers, self._config, own)

    @functools.cached_property
    def _config(self) -> PluginConfig:
        plugin = self.plugins and self.plugins.entries and self.plugins.entries.loopguard
        return (plugin and plugin.config) or PluginConfig()

    def _agents(self) -> list[tuple[str, str, AgentEntry | ListedAgent]]:
        """Every agent that has an id: (id, path, entry), those of ``entries`` first."""
        if self.agents is None:
            return []
        found: list[tuple[str, str, AgentEntry | ListedAgent]] = [
            (name.strip(), at("agents.entries", name), entry)
            for name, entry in (self.agents.entries or {}).items()
            if entry is not None and name.strip()
        ]
        for place, item in enumerate(self.agents.listed or ()):
            if item is not None and isinstance(item.id, str) and item.id.strip():
                found.append((item.id.strip(), f"agents.list[{place}]", item))
        return found


def _what_holds(resolved: ResolvedSettings) -> ResolvedSettings:
    """The settings without what is to be told about them."""
    return structs.replace(resolved, adjustments=(), notices=())


def _meant(name: str, known: Iterable[str]) -> str | None:
    from .settings_names import one_edit_apart  # for mistakes alone

    return next((one for one in known if one_edit_apart(name, one)), None)


def parse_settings(obj: object) -> Settings:
    """Settings from a decoded config file (JSON objects as mappings); all that is not ours in it is ignored.

    Raises :class:`SettingsError`, which lists everything that is wrong with its path, what was expected and found, and
    the nearest known key. Nothing else is raised, and nothing is half applied.
    """
    return Settings(**_check(obj))  # type: ignore[arg-type]  # checked field by field against the annotations


def _check(obj: object) -> dict[str, object]:
    from .settings_reader import Findings, read_fields  # 15 ms with all that it needs; the defaults do not need it

    found = Findings()
    fields = read_fields(ConfigFile, obj, found)
    if not found.problems:
        found.problems += _crossed(fields)
    if found.problems:
        raise SettingsError((*found.problems, *found.unread))
    if found.unread:
        fields["unread"] = tuple(found.unread)
    return fields


def _crossed(fields: dict[str, object]) -> list[Problem]:
    """What no single value shows to be wrong."""
    agents, plugins = fields.get("agents"), fields.get("plugins")
    problems: list[Problem] = []
    if isinstance(agents, Agents):
        for place, item in enumerate(agents.listed or ()):
            ours = item is not None and item.tools is not None and item.tools.loop_detection is not None
            if ours and not (item and isinstance(item.id, str) and item.id.strip()):
                problems.append(Problem(f"agents.list[{place}].id", "expected the id of the agent, a string"))
    if isinstance(plugins, Plugins) and plugins.entries and plugins.entries.loopguard:
        aliases = given_aliases(plugins.entries.loopguard.config or PluginConfig())
        for name in aliases:
            chain = alias_chain(name, aliases)
            if chain[-1] == name and len(chain) > 1:
                problems.append(
                    Problem(at(f"{PLUGIN_CONFIG}.toolAliases", name), f"leads back to itself: {' → '.join(chain)}")
                )
    return problems
