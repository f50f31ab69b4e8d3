"""Cases of our own beside the collection: what gateways do that its files cannot say or leave out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from helpers import detection, message, play, settle, start, turns

from loopguard_plugin.answers import CallsUnsettled, Deliver
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.events import Event
from loopguard_plugin.settings import parse_settings

LOW = detection(enabled=True, warningThreshold=2, criticalThreshold=3)


@pytest.mark.parametrize("kind", ["message", "follow_up", "steering"])
def test_user_in_the_middle_of_a_batch_starts_a_fresh_count(kind: str) -> None:
    """Two failures, the user speaks while the third call runs, it fails: one failure since, not three."""
    batch = [("a", "edit", 1), ("b", "edit", 1)]
    events: list[Event] = [*turns(2, "edit", 1, error="boom")]
    events += [start(*call, batch_id="b", index=at, batch=batch) for at, call in enumerate(batch)]
    events += [message(kind), settle("a", "edit", error="boom", batch_id="b")]
    events += [
        settle("b", "edit", error="boom", batch_id="b"),
        start("c", "edit", 1),
        settle("c", "edit", error="boom"),
    ]
    done = [one[0] for one in play({}, events)]
    assert done[-1] == "end_turn"
    assert "end_turn" not in done[:-1]


def test_lists_are_compared_and_noted() -> None:
    """Equal lists are no progress; a list of blocks gets the note as one more block, any other list is untouched."""
    guard = Guard(parse_settings(LOW))
    blocks = [{"type": "text", "text": "found"}, {"type": "image", "data": "aGk="}]
    for result, noted in ((blocks, True), ([1, "two", {"n": 3}], False)):
        answers = []
        for at in range(3):
            guard.feed(start(f"c{at}", args=str(noted), run=str(noted)), 0.0)
            answers.append(guard.feed(settle(f"c{at}", result=result, run=str(noted)), 0.0).answer)
        last = answers[-1]
        assert isinstance(last, Deliver)
        assert last.note is not None
        assert (last.result == [*blocks, {"type": "text", "text": last.note}]) is noted
        assert (last.result is result) is not noted
        assert guard.feed(start("next", args=str(noted), run=str(noted)), 0.0).answer != answers[0]


@dataclass(frozen=True)
class Outcome:
    """A frozen object of a framework."""

    text: str
    rows: tuple[int, ...] = ()


class Handle:
    """An object without fields: all of its kind are alike."""

    __slots__ = ()


def test_framework_objects_are_compared_by_their_fields() -> None:
    """Equal fields are no progress, other fields are; the object itself is delivered, with the note beside it."""
    guard = Guard(parse_settings(LOW))

    def outcomes(results: list[object], run: str) -> tuple[list[bool], bool]:
        noted = []
        for at, result in enumerate(results):
            guard.feed(start(f"c{at}", run=run), 0.0)
            answer = guard.feed(settle(f"c{at}", result=result, run=run), 0.0).answer
            assert isinstance(answer, Deliver)
            assert answer.result is result
            noted.append(answer.note is not None)
        return noted, guard.feed(start("next", run=run), 0.0).answer is not None and not proceeds(guard, run)

    assert outcomes([Outcome("a", (1,)), Outcome("a", (1,)), Outcome("a", (1,))], "equal") == (
        [False, False, True],
        True,
    )
    assert outcomes([Outcome("a", (1,)), Outcome("a", (2,)), Outcome("a", (3,))], "other")[1] is False
    assert outcomes([Handle(), Handle(), Handle()], "handles")[1] is True


def proceeds(guard: Guard, run: str) -> bool:
    """Whether the start that was just published may run: the same answer again."""
    return type(guard.feed(start("next", run=run), 0.0).answer).__name__ == "Proceed"


def test_equal_ids_inside_a_batch_are_told_apart_by_index() -> None:
    """One id for all calls of a response: three identical failures, each with its own place, are three."""
    batch = [("call", "edit", 1)] * 3
    events: list[Event] = [start(*call, batch_id="b", index=at, batch=batch) for at, call in enumerate(batch)]
    events += [settle("call", "edit", error="boom", batch_id="b", index=at) for at in (2, 0, 1)]
    assert [one[0] for one in play({}, events)] == ["proceed"] * 3 + ["deliver", "deliver", "end_turn"]


def test_sub_agent_inside_its_parents_run_shows() -> None:
    """Its calls end the parent's batch: that is told once a run, and the parent's result still counts when it comes."""
    guard = Guard(parse_settings(detection(enabled=True)))
    told = []
    for turn in range(2):
        events: list[Event] = [start(f"task{turn}", "task", turn), start(f"sub{turn}", "read", turn)]
        events += [settle(f"sub{turn}", "read"), settle(f"task{turn}", "task", error="gave up")]
        for event in events:
            step = guard.feed(event, 0.0)
            told += [fact.first for fact in step.facts if isinstance(fact, CallsUnsettled)]
    assert told == [True, False]
    guard.feed(start("task2", "task", 1), 0.0)
    guard.feed(settle("task2", "task", error="gave up"), 0.0)
    guard.feed(start("task3", "task", 1), 0.0)
    assert guard.feed(settle("task3", "task", error="gave up"), 0.0).error is not None
