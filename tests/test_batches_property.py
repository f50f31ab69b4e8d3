"""Parallel batches: what is decided depends on model call order alone, whatever the order of settling (SPEC 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import pytest
from cases import limits_of
from helpers import compaction, detection, play, settle, start, turns
from hypothesis import given, settings
from hypothesis import strategies as st
from model import Answer, Model
from model_sight import PlainSight
from worlds import small_settings

from loopguard_plugin.events import Event

CALLS: list[tuple[str, object]] = [("read", {"p": 1}), ("read", {"p": 2}), ("edit", {"p": 1}), ("list", {})]
OUTCOMES: list[dict[str, object]] = [
    {"result": "same"},
    {"result": "other"},
    {"error": "boom"},
    {"error": "boom"},
    {"error": "bang"},
    {"status": "skipped"},
    {"status": "aborted"},
    {"status": "blocked"},
]


@dataclass(frozen=True)
class Response:
    """One response of the model and what came before it. ``calls``: (call, outcome), in model call order.

    ``dropped``: calls whose settlement is lost. ``listed``: the starts bring the whole list.
    """

    before: list[tuple[int, int]]
    calls: list[tuple[int, int]]
    dropped: frozenset[int]
    listed: bool
    indexed: bool
    compacted: bool

    def starts(self) -> list[Event]:
        """Its calls begin, in model call order."""
        whole = [(f"x{at}", *CALLS[call]) for at, (call, _) in enumerate(self.calls)]
        return [
            start(
                call_id,
                tool,
                args,
                batch_id="b",
                index=at if self.indexed else None,
                batch=whole if self.listed else None,
            )
            for at, (call_id, tool, args) in enumerate(whole)
        ]

    def settlement(self, at: int) -> Event:
        """One of its calls ends."""
        call, outcome = self.calls[at]
        index = at if self.indexed else None
        return settle(f"x{at}", CALLS[call][0], batch_id="b", index=index, **OUTCOMES[outcome])  # type: ignore[arg-type]  # settle's own keywords

    def settlements(self, order: Sequence[int]) -> list[Event]:
        """They end in this order."""
        return [self.settlement(at) for at in order if at not in self.dropped]

    def prologue(self) -> list[Event]:
        """What the run did before."""
        events: list[Event] = []
        for at, (call, outcome) in enumerate(self.before):
            tool, args = CALLS[call]
            events += turns(1, tool, args, prefix=f"before{at}-", **OUTCOMES[outcome])
        return [*events, compaction()] if self.compacted else events


picks = st.tuples(st.integers(0, len(CALLS) - 1), st.integers(0, len(OUTCOMES) - 1))
alike = st.tuples(st.sampled_from([0, 0, 2]), st.sampled_from([0, 2, 2, 2]))
responses = st.builds(
    Response,
    before=st.lists(alike, max_size=4),
    calls=st.lists(picks | alike, min_size=1, max_size=12),
    dropped=st.frozensets(st.integers(0, 11), max_size=2) | st.just(frozenset()),
    listed=st.booleans(),
    indexed=st.booleans(),
    compacted=st.booleans(),
)


def epilogue() -> list[Event]:
    """What shows the state that is left: every call again, its failures too."""
    events: list[Event] = []
    for at, (tool, args) in enumerate(CALLS):
        events += turns(3, tool, args, prefix=f"after{at}-", result="same")
        events += turns(3, tool, args, prefix=f"failed{at}-", error="boom")
    return events


def expected(config: dict[str, object], events: Sequence[Event]) -> list[Answer]:
    """The slow model's answers."""
    model = Model(limits_of(config), PlainSight())
    return [model.play(event) for event in events]


@settings(max_examples=200)
@given(small_settings, responses, st.data())
def test_decisions_depend_on_model_call_order_only(
    loop_detection: dict[str, object], response: Response, data: st.DataObject
) -> None:
    """Two settlement orders of one batch: the same calls run, the same error is raised, the same state is left."""
    config = detection(**loop_detection)
    order = data.draw(st.permutations(range(len(response.calls))))
    first = response.prologue() + response.starts()
    outcome = []
    for settlements in (response.settlements(range(len(response.calls))), response.settlements(order)):
        events = first + settlements + epilogue()
        answers = play(config, events)
        assert answers == expected(config, events)
        begun, last = len(first), len(first) + len(settlements)
        raised = [answer for answer in answers[begun:last] if answer[0] == "end_turn"]
        outcome.append((answers[:begun], raised, answers[last:]))
    assert outcome[0] == outcome[1]


@settings(max_examples=200)
@given(small_settings, responses, st.data())
def test_interleaved_duplicated_and_dropped(
    loop_detection: dict[str, object], response: Response, data: st.DataObject
) -> None:
    """Settlements between starts, events that come twice and others that never come: the model's answers."""
    config, events = detection(**loop_detection), response.prologue()
    unstarted = response.starts()
    running: list[int] = []
    sent: list[Event] = []
    while unstarted or running:
        what = data.draw(st.integers(0, 4))
        if what == 4 and sent:
            events.append(sent[data.draw(st.integers(0, len(sent) - 1))])
            continue
        if unstarted and (what < 2 or not running):
            running.append(len(response.calls) - len(unstarted))
            sent.append(unstarted.pop(0))
        else:
            at = running.pop(data.draw(st.integers(0, len(running) - 1)))
            if at in response.dropped:
                continue
            sent.append(response.settlement(at))
        events.append(sent[-1])
    events += epilogue()
    assert play(config, events) == expected(config, events)


@settings(max_examples=300)
@given(small_settings, responses, st.data())
def test_settled_before_the_list_is_there(
    loop_detection: dict[str, object], response: Response, data: st.DataObject
) -> None:
    """Some calls settle before any start of their listed batch, and again later: the model's answers."""
    config, events = detection(**loop_detection), response.prologue()
    whole = Response(response.before, response.calls, response.dropped, True, response.indexed, response.compacted)
    calls = list(range(len(whole.calls)))
    early = [at for at in calls if data.draw(st.integers(0, 2)) == 0]
    events += [whole.settlement(at) for at in early]
    starts = whole.starts()
    for at in data.draw(st.permutations(calls)):
        events.append(starts[at])
        if data.draw(st.integers(0, 3)) == 0 and early:
            events.append(whole.settlement(data.draw(st.sampled_from(early))))
    events += whole.settlements(data.draw(st.permutations(calls)))
    events += epilogue()
    assert play(config, events) == expected(config, events)


@pytest.mark.parametrize("listed", [True, False], ids=["list", "no-list"])
@pytest.mark.parametrize(
    "outcomes", [(2, 2, 2, 0), (2, 2, 0, 2), (2, 0, 2, 2), (2, 2, 2, 2), (5, 2, 2, 2), (0, 1, 0, 1)], ids=str
)
def test_every_order_of_four(outcomes: tuple[int, ...], listed: bool) -> None:
    """All 24 orders of settling four equal calls raise the same error and leave the same state."""
    response = Response([(2, 2)], [(2, outcome) for outcome in outcomes], frozenset(), listed, True, False)
    config = detection(enabled=True, warningThreshold=3, criticalThreshold=7)
    results = []
    for order in permutations(range(4)):
        events = response.prologue() + response.starts() + response.settlements(order) + epilogue()
        answers = play(config, events)
        assert answers == expected(config, events)
        raised = [answer for answer in answers[2 + 4 : 2 + 8] if answer[0] == "end_turn"]
        results.append((raised, answers[2 + 8 :]))
    assert all(result == results[0] for result in results)
