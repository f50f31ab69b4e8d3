"""Pairs of settlements, each told to have the same outcome or not, straight through the observing half."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopguard_plugin.core.observe import Call, Settlement, observe_call, observe_settlement
from loopguard_plugin.events import ToolCallSettled, ToolCallStarted, decode_event
from loopguard_plugin.settings import parse_settings

PAIRS = [
    json.loads(line) for line in (Path(__file__).parent / "data/pairs.jsonl").read_text("utf-8").splitlines()
]


def observed(case: dict[str, Any]) -> list[tuple[Call, Settlement]]:
    settings = parse_settings(case["config"]).resolve()
    seen = []
    for event in map(decode_event, case["events"]):
        if isinstance(event, ToolCallStarted):
            call = observe_call(event.tool, event.args, settings)
        elif isinstance(event, ToolCallSettled):
            seen.append((call, observe_settlement(event, call, want_outcome=True)))
    return seen


@pytest.mark.parametrize("case", PAIRS, ids=[case["name"] for case in PAIRS])
def test_pair(case: dict[str, Any]) -> None:
    """Two calls are the same with the same outcome (or failure identity) exactly where the case says so."""
    (call, first), (other, second) = observed(case)
    similar = first.exec_failure and second.exec_failure and first.failure == second.failure
    alike = first.outcome == second.outcome or similar
    assert (call.key == other.key and alike) is case["same"]
