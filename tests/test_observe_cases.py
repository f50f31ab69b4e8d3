"""Observe mode and the wider patterns over everything that is recorded: nothing is done, and nothing new is stopped."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import Case, read_cases

from loopguard_plugin.answers import BatchBlocked, Deliver, NoteEmitted, Proceed, RunEnded, Step
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.errors import EventError
from loopguard_plugin.events import ToolCallSettled, ToolCallStarted, decode_event
from loopguard_plugin.settings import parse_settings
from loopguard_plugin.transcripts import Placed, Source, Talks, read

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"

Decision = tuple[str, str, int]


def observing(config: dict[str, Any]) -> dict[str, Any]:
    """The same configuration in observe mode."""
    changed = copy.deepcopy(config)
    plugin = changed.setdefault("plugins", {}).setdefault("entries", {}).setdefault("loopguard", {})
    plugin.setdefault("config", {})["mode"] = "observe"
    return changed


def decided(step: Step) -> list[Decision]:
    """What is decided at an event, done or not."""
    return [
        (type(fact).__name__, str(fact.detector), fact.count)
        for fact in step.facts
        if isinstance(fact, (NoteEmitted, BatchBlocked, RunEnded))
    ]


@pytest.mark.parametrize("case", read_cases("vectors.jsonl", "reports.jsonl", "pairs.jsonl"), ids=lambda case: case.id)
def test_observe_mode_decides_alike_up_to_the_first_block(case: Case) -> None:
    """Every case: the same notes, then the same first block or end; no call is stopped and no result changed."""
    enforce = Guard(parse_settings(case.config))
    observe = Guard(parse_settings(observing(case.config)))
    done: list[Decision] = []
    would: list[Decision] = []
    for raw in case.events:
        try:
            event = decode_event(raw)
        except EventError:
            continue
        done += decided(enforce.feed(event, 0.0))
        step = observe.feed(event, 0.0)
        would += decided(step)
        assert step.error is None
        if isinstance(event, ToolCallStarted):
            assert isinstance(step.answer, Proceed)
        elif isinstance(event, ToolCallSettled):
            assert isinstance(step.answer, Deliver)
            assert step.answer.result is event.result
            assert step.answer.error is event.error
            assert step.answer.note is None
    first = next((at for at, one in enumerate(done) if one[0] != "NoteEmitted"), len(done))
    assert would[: first + 1] == done[: first + 1]


def recorded() -> Iterator[Path]:
    """The recorded sessions, where they are."""
    return (path for path in sorted(TRACES.rglob("*")) if path.is_file() and path.suffix in (".json", ".jsonl"))


@pytest.mark.skipif(not TRACES.exists(), reason="the recorded sessions are not here")
def test_stagnation_and_cascades_say_nothing_new_in_recorded_sessions() -> None:
    """With stagnation and cascades, no recorded session is noted, blocked or ended that is not without them."""
    wide = {"tools": {"loopDetection": {"enabled": True}}}
    own = {"config": {"detectors": {"stagnation": False, "errorCascade": False}}}
    loop = {**wide, "plugins": {"entries": {"loopguard": own}}}
    for path in recorded():
        with Source.open(str(path)) as source:
            events = [item.event for item in read(source, Talks()) if isinstance(item, Placed)]
        stopped = []
        for config in (loop, wide):
            guard = Guard(parse_settings(config))
            stopped.append(
                {
                    (kind, event.call_id)
                    for event in events
                    for kind, _, _ in decided(guard.feed(event, 0.0))
                    if isinstance(event, (ToolCallStarted, ToolCallSettled))
                }
            )
        assert stopped[1] <= stopped[0], path.name
