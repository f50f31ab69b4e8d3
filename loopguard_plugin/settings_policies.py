"""What the settings say about single tools: patterns to policies (SPEC 11.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct, structs

from .settings_layers import Adjustment, Notice, raised, strongest
from .settings_paths import at
from .settings_plugin import Exemption, ToolKind, ToolSettings

# The tools of one place in the file, with its path.
Patterns: TypeAlias = tuple[str, Mapping[str, ToolSettings | None]]

_WEIGHTY = {
    Exemption.GLOBAL_CIRCUIT_BREAKER: "never stopped by the circuit breaker, however often they repeat",
    Exemption.UNKNOWN_TOOL_REPEAT: "never stopped for naming a tool that does not exist",
}


class ToolPolicy(Struct, frozen=True):
    """What holds for one tool, complete by itself: what its pattern leaves out is as for the agent's other tools.

    ``kind`` None: the tool's name decides. ``exempt``: names of detectors. ``identity``: paths of the arguments that
    count (None: all), ``ignore_result``: paths in the result that do not; a path is a tuple of keys. ``similar``: its
    results, successes too, are compared without volatile spans. ``mutates``: a success makes other calls new attempts.
    ``error_retries``: identical failures in a row that are let pass.
    """

    kind: ToolKind | None = None
    warning: int = 10
    critical: int = 20
    unknown_tool: int = 10
    breaker: int = 30
    exempt: frozenset[str] = frozenset()
    identity: tuple[tuple[str, ...], ...] | None = None
    ignore_result: tuple[tuple[str, ...], ...] = ()
    similar: bool = False
    mutates: bool = False
    error_retries: int = 2


def policies(
    sources: Iterable[Patterns],
    usual: ToolPolicy,
    history_size: int,
    aliases: Mapping[str, str],
    notes: list[Adjustment],
    notices: list[Notice],
) -> tuple[tuple[str, ToolPolicy], ...]:
    """The patterns in order, folded as tool names are; what is to be reported is added to ``notes`` and ``notices``.

    ``usual`` holds the thresholds of a tool without a policy. A name that is an alias speaks of the tool it stands
    for, as calls of it do. ``null`` says nothing about a tool and is passed over.
    """
    found: list[tuple[str, ToolPolicy]] = []
    for where, tools in sources:
        for pattern, given in tools.items():
            if given is not None:
                folded = pattern.strip().casefold()
                path = at(where, pattern)
                found.append((aliases.get(folded, folded), _policy(path, given, usual, history_size, notes)))
                notices += _notices(path, given)
    return tuple(found)


def _policy(
    path: str, given: ToolSettings, usual: ToolPolicy, history_size: int, notes: list[Adjustment]
) -> ToolPolicy:
    own = [(path, given)]
    warning, _ = strongest(own, "warning_threshold", usual.warning, path)
    critical = raised(own, "critical_threshold", usual.critical, path, floor=("warningThreshold", warning), notes=notes)
    breaker = raised(
        own,
        "global_circuit_breaker_threshold",
        usual.breaker,
        path,
        floor=("criticalThreshold", critical),
        notes=notes,
    )
    if breaker > history_size and breaker != usual.breaker:  # the usual one is reported where it stands
        why = f"a historySize of {history_size} is too small for it ever to be reached"
        notes.append(Adjustment(f"{path}.globalCircuitBreakerThreshold", breaker, breaker, why))
    return structs.replace(
        usual,
        kind=given.kind,
        warning=warning,
        critical=critical,
        unknown_tool=strongest(own, "unknown_tool_threshold", usual.unknown_tool, path)[0],
        breaker=breaker,
        exempt=frozenset(map(str, given.exempt or ())),
        identity=None if given.identity is None else _paths(given.identity),
        ignore_result=_paths(given.ignore_result or ()),
        similar=given.similar is True,
        mutates=given.mutates is True,
        error_retries=strongest(own, "error_retries", usual.error_retries, path)[0],
    )


def _paths(given: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(tuple(path.split(".")) for path in given))


def _notices(path: str, given: ToolSettings) -> Iterator[Notice]:
    for detector, what in _WEIGHTY.items():
        if detector in (given.exempt or ()):
            yield Notice(f"{path}.exempt", f"calls of this tool are {what} ({detector})")
