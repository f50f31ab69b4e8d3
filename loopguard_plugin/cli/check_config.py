"""``loopguard check-config``: what a config file comes to for an agent, and which guards are on and why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..printable import printable
from .commands import Commands
from .exits import Exit

if TYPE_CHECKING:
    from ..settings import ResolvedSettings, Settings, ToolPolicy


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "check-config",
        help="show what a config file comes to, or what is wrong with it",
        description="Show the settings that a config file comes to, which guards are on and why, and every value that "
        "had to be adjusted. Exit 2 with the errors if the file cannot be used.",
    )
    parser.add_argument("file", metavar="FILE", help="the gateway's JSON5 config file")
    parser.add_argument("--agent", metavar="ID", help="the agent to show (default: events that name no agent)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report, or the errors on stderr."""
    from ..config_file import load_settings
    from ..errors import SettingsError

    try:
        settings = load_settings(arguments.file)
        if settings.unread:
            raise SettingsError(settings.unread, arguments.file)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return Exit.BAD_USAGE
    print(f"{printable(arguments.file)}: ok")
    for line in _report(settings, (arguments.agent or "").strip() or None):
        print(printable(line))
    return Exit.OK


def _report(settings: Settings, agent: str | None) -> Iterator[str]:
    yield f"settings for {whom(settings, agent)}"
    yield ""
    yield from guards(settings, agent)
    yield ""
    yield from _values(settings.resolve(agent))
    yield f"  maxRuns                        {settings.max_runs}"
    yield f"  idleMinutes                    {settings.idle_minutes:g}"
    others = [name for name in settings.agent_ids if name != agent]
    if others:
        yield ""
        yield f"other agents in the file: {', '.join(others)} (--agent ID shows one)"
    told = list(concerns(settings))
    if told:
        yield ""
        yield from told


def concerns(settings: Settings) -> Iterator[str]:
    """What is not used as given, is weighty, or is said of an agent that the file does not have."""
    if settings.adjustments or settings.notices or settings.unknown_agents:
        yield "to be aware of:"
    for change in settings.adjustments:
        given, used = str(change.given).lower(), str(change.used).lower()
        changed = f"{given} is used as {used}" if given != used else f"{given} has no effect as it is"
        yield f"  {change.path}: {changed}, {change.why}"
    for notice in settings.notices:
        yield f"  {notice.path}: {notice.what}"
    for problem in settings.unknown_agents:
        yield f"  {problem}"


def whom(settings: Settings, agent: str | None) -> str:
    """Whose settings they are."""
    if agent is not None:
        return f"agent {agent}" if agent in settings.agent_ids else f"agent {agent} (not in the file: the global ones)"
    if settings.default_agent is not None:
        return f"events that name no agent: those of {settings.default_agent}, marked default"
    return "events that name no agent: the global ones"


def guards(settings: Settings, agent: str | None) -> Iterator[str]:
    """Each guard, whether it is on, and which key decides that."""
    if not settings.plugin_enabled:
        off = "plugins.entries.loopguard.enabled is false: every event passes"
        states = [(name, False, off) for name in ("repeated tool errors", "rolling detectors", "post-compaction guard")]
    else:
        resolved = settings.resolve(agent)
        why = _why(settings, agent)
        states = [
            ("repeated tool errors", True, "always, whatever tools.loopDetection says"),
            ("rolling detectors", resolved.rolling, f"{why} (on only if true)"),
            ("post-compaction guard", resolved.post_compaction, f"{why} (off only if false)"),
        ]
    for name, on, because in states:
        yield f"  {name:<23} {'on' if on else 'off':<4} {because}"
    if settings.plugin_enabled and settings.resolve(agent).observe:
        yield "  observe mode: verdicts are logged and counted, nothing is noted, blocked or ended"


def _why(settings: Settings, agent: str | None) -> str:
    """Where the resolved ``enabled`` was given."""
    agent = agent if agent is not None else settings.default_agent
    agents = settings.agents
    layers = [("tools.loopDetection", settings.tools)]
    if agents is not None and agent is not None:
        for place, item in reversed(list(enumerate(agents.listed or ()))):
            if item is not None and isinstance(item.id, str) and item.id.strip() == agent:
                layers.insert(0, (f"agents.list[{place}].tools.loopDetection", item.tools))
        for name, entry in reversed((agents.entries or {}).items()):
            if entry is not None and name.strip() == agent:
                layers.insert(0, (f"agents.entries.{name}.tools.loopDetection", entry.tools))
    for path, tools in layers:
        loop = tools.loop_detection if tools is not None else None
        if loop is not None and loop.enabled is not None:
            return f"{path}.enabled is {str(loop.enabled).lower()}"
    return "tools.loopDetection.enabled is unset"


def _values(resolved: ResolvedSettings) -> Iterator[str]:
    numbers = {
        "historySize": resolved.history_size,
        "warningThreshold": resolved.warning,
        "criticalThreshold": resolved.critical,
        "unknownToolThreshold": resolved.unknown_tool,
        "globalCircuitBreakerThreshold": resolved.breaker,
        "postCompactionGuard.windowSize": resolved.window_size,
    }
    switches = {
        "detectors.genericRepeat": resolved.generic_repeat,
        "detectors.knownPollNoProgress": resolved.known_poll_no_progress,
        "detectors.pingPong": resolved.ping_pong,
        "detectors.argumentChurn": resolved.argument_churn,
        "detectors.stagnation": resolved.stagnation,
        "detectors.errorCascade": resolved.error_cascade,
    }
    for name, value in numbers.items():
        yield f"  {name:<30} {value}"
    for name, on in switches.items():
        yield f"  {name:<30} {'on' if on else 'off'}"
    yield f"  {'repeatedErrors':<30} {'similar' if resolved.similar_errors else 'exact'}"
    yield f"  {'limits.callsPerRun':<30} {resolved.calls_per_run or 'none'}"
    yield f"  {'limits.callsPerTurn':<30} {resolved.calls_per_turn or 'none'}"
    for alias, tool in resolved.aliases.items():
        yield f"  {f'toolAliases.{alias}':<30} {tool}"
    for pattern, policy in resolved.policies:
        yield f"  {f'tools.{pattern}':<30} {_policy(policy, resolved)}"


def _policy(policy: ToolPolicy, resolved: ResolvedSettings) -> str:
    """What is particular about a tool, in the words of the config file."""
    said = [str(policy.kind)] if policy.kind else []
    thresholds = {
        "warningThreshold": (policy.warning, resolved.warning),
        "criticalThreshold": (policy.critical, resolved.critical),
        "unknownToolThreshold": (policy.unknown_tool, resolved.unknown_tool),
        "globalCircuitBreakerThreshold": (policy.breaker, resolved.breaker),
        "errorRetries": (policy.error_retries, 2),
    }
    said += [f"{name} {own}" for name, (own, usual) in thresholds.items() if own != usual]
    if policy.exempt:
        said.append(f"exempt from {' and '.join(sorted(policy.exempt))}")
    if policy.identity is not None:
        said.append(f"identified by {' and '.join(map('.'.join, policy.identity)) or 'its name alone'}")
    if policy.ignore_result:
        said.append(f"results compared without {' and '.join(map('.'.join, policy.ignore_result))}")
    if policy.similar:
        said.append("results compared without times, durations and ids")
    if policy.mutates:
        said.append("mutates")
    return ", ".join(said) or "as other tools"
