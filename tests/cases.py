"""The case files: event sequences with the answer to every event (the form is told in their README).

All of them lie beside a checkout in ``../shared/cases``; a small selection is kept in ``tests/data/cases``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from model import Answer
from model_streaks import Limits

HERE = Path(__file__).parent
SHARED = HERE.parent.parent / "shared" / "cases"
KEPT = HERE / "data" / "cases"

THRESHOLDS = {
    "enabled": "enabled",
    "historySize": "history",
    "warningThreshold": "warning",
    "criticalThreshold": "critical",
    "unknownToolThreshold": "unknown_tool",
    "globalCircuitBreakerThreshold": "breaker",
}
SWITCHES = {
    "genericRepeat": "generic_repeat",
    "knownPollNoProgress": "known_poll",
    "pingPong": "ping_pong",
    "argumentChurn": "churn",
    "stagnation": "stagnation",
    "errorCascade": "cascade",
}


@dataclass(frozen=True)
class Case:
    """One case. ``id`` carries the file and, for a report, its source."""

    id: str
    needs: str
    config: dict[str, Any]
    events: list[dict[str, Any]]
    expect: list[Answer]


def read_cases(*names: str) -> list[Case]:
    """The cases of these files, or of the kept selection where the whole collection is absent."""
    folder = SHARED if SHARED.is_dir() else KEPT
    return [case for name in names for case in read_file(folder / name)]


def read_file(path: Path) -> Iterator[Case]:
    """One case a line; nothing where there is no such file."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line:
            yield read_case(json.loads(line), path.stem)


def read_case(raw: Mapping[str, Any], file: str) -> Case:
    """A case from its JSON object."""
    source = raw.get("source")
    name = f"{file}:{raw['name']}" + (f"[{source}]" if source else "")
    expect = [Answer(one["action"], one["detector"], one["count"], one["code"]) for one in raw["expect"]]
    return Case(name, raw["needs"], raw["config"], raw["events"], expect)


def limits_of(config: Mapping[str, Any]) -> Callable[[str | None], Limits]:
    """The model's settings from a whole configuration, by a plain reading of SPEC 11."""
    agents = config.get("agents", {})
    listed = {one["id"]: one for one in agents.get("list", [])}
    entries = {**listed, **agents.get("entries", {})}
    ordered = {**agents.get("entries", {}), **listed}
    default = next((name for name in ordered if entries[name].get("default") is True), None)

    def limits(agent_id: str | None) -> Limits:
        agent = entries.get(agent_id or default or "", {})
        layers = [
            {"detectors": own_config(config).get("detectors")},
            loop_detection(config),
            loop_detection(listed.get(agent_id or default or "", {})),
            loop_detection(agent),
            {"detectors": own_config(config).get("agents", {}).get(agent_id or default or "", {}).get("detectors")},
        ]
        similar = own_config(config).get("repeatedErrors") == "similar"
        return replace(resolve(layers), exempt=exemptions(config), similar=similar)

    return limits


def loop_detection(place: Mapping[str, Any]) -> Mapping[str, Any]:
    return place.get("tools", {}).get("loopDetection") or {}


def own_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The plugin's own settings (SPEC 11.2)."""
    return config.get("plugins", {}).get("entries", {}).get("loopguard", {}).get("config") or {}


def resolve(layers: list[Mapping[str, Any]]) -> Limits:
    """Later layers lie over earlier ones, field by field; null is unset."""
    found: dict[str, Any] = {}
    for layer in layers:
        detectors, guard = layer.get("detectors") or {}, layer.get("postCompactionGuard") or {}
        named = [(THRESHOLDS[key], layer.get(key)) for key in THRESHOLDS]
        named += [(SWITCHES[key], detectors.get(key)) for key in SWITCHES]
        named.append(("window", guard.get("windowSize")))
        found.update({key: value for key, value in named if value is not None})
    limits = Limits(**found)
    critical = max(limits.critical, limits.warning + 1)
    breaker = max(limits.breaker, critical + 1)
    return Limits(**{**found, "critical": critical, "breaker": breaker})


def exemptions(config: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Tools and the detectors that leave them alone, by their exact names."""
    tools = own_config(config).get("tools", {})
    return frozenset((name, detector) for name, one in tools.items() for detector in one.get("exempt", []))


def tool_kinds(config: Mapping[str, Any]) -> dict[str, str]:
    """Tools that are declared ``poll`` or ``send``, by their exact names."""
    return {name: one["kind"] for name, one in own_config(config).get("tools", {}).items() if "kind" in one}
