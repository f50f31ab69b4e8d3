"""Random interleavings of runs, batches and mishaps: the core answers as the slow model does, event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from cases import limits_of
from helpers import detection, line, settings_of
from hypothesis import given, settings
from model import Answer, Model
from model_sight import PlainSight
from worlds import ANSWERS, Step, events_of, seeded, small_settings, steps

from loopguard_plugin import LoopGuard, TurnEndingError
from loopguard_plugin.events import Event

EVERYTHING = ANSWERS | {
    ("note", "argument_churn"),
    ("note", "stagnation"),
    ("block", "stagnation"),
    ("block", "unknown_tool_repeat"),
    ("block", "global_circuit_breaker"),
    ("block", "repeated_tool_error"),
    ("end_turn", "unknown_tool_repeat"),
}


def published(guard: LoopGuard, event: Event) -> Answer:
    """The core's answer, through the synchronous public face."""
    try:
        return line(guard.feed(event))
    except TurnEndingError as error:
        return line(error)


def play_both(config: dict[str, Any], events: Sequence[Event]) -> list[Answer]:
    """The answers, which core and model must give alike; ``ended`` must say the same after every event, too."""
    guard, model = LoopGuard(settings_of(config)), Model(limits_of(config), PlainSight())
    answers = []
    for at, event in enumerate(events):
        answers.append(model.play(event))
        assert published(guard, event) == answers[-1], f"event {at}: {event}"
        ended = guard.ended(event.session_key, event.run_id)
        assert (ended and line(ended)) == model.ended(event.session_key, event.run_id), f"after event {at}: {event}"
    assert guard.stats().errors == 0, "the guard failed open"
    return answers


def test_core_and_model_agree() -> None:
    """Over at least 20,000 events: all detectors, counts, buckets, the allowance and both guards."""
    played: Counter[tuple[str, str | None]] = Counter()

    @settings(max_examples=260)
    @given(small_settings, steps)
    def agree(loop_detection: dict[str, object], plan: list[Step]) -> None:
        played.update(answer[:2] for answer in play_both(detection(**loop_detection), events_of(plan)))

    agree()
    assert set(played) >= EVERYTHING
    assert played.total() >= 20_000


@pytest.mark.parametrize("tens", range(60))
def test_core_and_model_agree_in_numbered_worlds(tens: int) -> None:
    """Ten worlds each, drawn evenly, where rare mishaps meet more often."""
    for seed in range(10 * tens, 10 * tens + 10):
        loop_detection, events = seeded(seed)
        play_both(detection(**loop_detection), events)
