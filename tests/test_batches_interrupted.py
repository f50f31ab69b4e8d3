"""Batches that end early, come back, or go on after an error: transcripts of what random worlds found (SPEC 2, 8)."""

from __future__ import annotations

import pytest
from cases import limits_of
from helpers import SAME, compaction, detection, play, settle, start, turns
from model import Answer, Model
from model_sight import PlainSight

from loopguard_plugin.events import Event

PROCEED, DELIVER, IGNORED = Answer("proceed"), Answer("deliver"), Answer("ignored")
REPEATED = Answer("end_turn", "repeated_tool_error", 3, "repeated_tool_error")
ON: dict[str, object] = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 4}

PARENT = [("agent", "agent", {"task": 1}), ("look", "read", {"p": 1})]
"""A response of two calls; the first one is a sub-agent whose calls come in the same run."""


def answers(loop_detection: dict[str, object], events: list[Event]) -> list[Answer]:
    """The answers of core and model, which must be the same."""
    config = detection(**loop_detection)
    model = Model(limits_of(config), PlainSight())
    wanted = [model.play(event) for event in events]
    assert play(config, events) == wanted
    return wanted


def parent(at: int) -> Event:
    """The start of one call of that response."""
    call_id, tool, args = PARENT[at]
    return start(call_id, tool, args, batch_id="b", index=at, batch=PARENT)


def test_start_comes_again_after_its_batch_raised() -> None:
    """SPEC 2: a start that was answered gets the same answer again, also after its batch has raised an error."""
    failed: list[Event] = [start("x", batch_id="b", index=0), settle("x", error="e", batch_id="b", index=0)]
    again = start("x", batch_id="b", index=0)
    assert answers({}, [*turns(2, error="e"), *failed, again])[-3:] == [PROCEED, REPEATED, PROCEED]


def test_start_after_its_own_settlement() -> None:
    """SPEC 9: a settlement without a start ended the turn; a later start of that id is a continuation."""
    strays: list[Event] = [settle(f"x{at}", args={"p": 1}, error="e", batch_id="b") for at in range(3)]
    assert answers({}, [*strays, start("x2", batch_id="b")])[-2:] == [REPEATED, PROCEED]


def test_place_that_was_refused_elsewhere_is_blocked_once_the_batch_has_an_error() -> None:
    """SPEC 8: every sibling that has not started counts as blocked, also one whose settlement came first."""
    whole = [("x0", "read", {"p": 1}), ("x1", "read", {"p": 2})]
    events = [
        *turns(2, error="e"),
        start("x0", batch_id="b", batch=whole),
        settle("x0", error="e", batch_id="b"),
        settle("x1", status="blocked", batch_id="b"),
        start("x1", args={"p": 2}, batch_id="b", batch=whole),
    ]
    assert answers({}, events)[-3:] == [REPEATED, IGNORED, Answer("block", "repeated_tool_error", 3)]


def test_call_that_runs_is_not_judged_again_when_its_batch_comes_back() -> None:
    """SPEC 8: a sub-agent inside its parent's run ends the parent's batch; the parent's next call begins it anew.

    The call that has started keeps its start: it is not judged again, and its settlement belongs to it.
    """
    inside = turns(4, "agent", {"task": 1}, prefix="sub")
    late = settle("agent", "agent", batch_id="b", index=0)
    assert answers(ON, [parent(0), *inside, parent(1), late])[-2:] == [PROCEED, DELIVER]


def test_call_that_ran_is_delivered_though_its_batch_was_blocked_later() -> None:
    """SPEC 8: only what has not started is blocked; the result of a call that ran is never ignored."""
    inside = turns(4, prefix="sub")
    late = settle("agent", "agent", batch_id="b", index=0)
    assert answers(ON, [parent(0), *inside, parent(1), late])[-2:] == [Answer("block", "generic_repeat", 4), DELIVER]


def test_settlement_of_a_blocked_call_comes_again_batches_later() -> None:
    """SPEC 2: blocked calls of ended batches are remembered, also once they are over."""
    blocked, over = start("x", batch_id="b"), settle("x", batch_id="b")
    events = [*turns(4), blocked, start("y", "list"), over, start("z", "list"), start("w", "grep"), over]
    got = answers(ON, events)
    assert [got[8], got[10], got[-1]] == [Answer("block", "generic_repeat", 4), IGNORED, IGNORED]


def test_batch_that_an_older_error_blocked_is_remembered() -> None:
    """SPEC 8: an error that its own batch could not raise blocks the next one whole, calls that never start too."""
    whole = [("x0", "read", {"p": 1}), ("x1", "read", {"p": 2})]
    owing = [start("a", "list", batch_id="a", index=0), start("b", batch_id="a", index=1)]
    blocked = start("x0", batch_id="x", index=0, batch=whole)
    events = [*turns(4), start("first"), *owing, blocked, start("y", "list"), start("z", "grep"), settle("x1")]
    got = answers({**ON, "globalCircuitBreakerThreshold": 30}, events)
    assert [one.action for one in got[8:]] == ["block", "proceed", "block", "end_turn", "proceed", "proceed", "ignored"]


def test_late_settlement_that_says_blocked_comes_again() -> None:
    """SPEC 5.2: a call that another layer refused after its batch had ended is over, whatever is said later."""
    refused = settle("x", status="blocked")
    events: list[Event] = [start("x"), start("y", "list"), refused, start("z", "grep"), settle("x")]
    assert answers({}, events)[2:] == [DELIVER, PROCEED, DELIVER]


def test_identical_sibling_leaves_a_veto_whenever_it_starts() -> None:
    """SPEC 8: the culprit and its identical siblings leave a veto each, before and after the batch raised an error."""
    batch = [start(f"x{at}", batch_id="b", index=at) for at in range(4)]
    ends = [settle(f"x{at}", error="e", batch_id="b", index=at) for at in range(2)]
    late = start("x4", batch_id="b", index=4)
    before = answers(ON, [*turns(2, error="e"), *batch[:3], late, *ends, start("after")])
    after = answers(ON, [*turns(2, error="e"), *batch[:3], *ends, late, start("after")])
    assert before[-1] == after[-1] == Answer("end_turn", "generic_repeat", 6, "tool_loop_persisted")


def test_call_of_its_own_leaves_the_window_and_pushes_others_out() -> None:
    """SPEC 6, 8: siblings are not counted while their batch is open, calls of their own are."""
    events: list[Event] = [
        start("old", "list", {}, batch_id="b"),
        *(start(f"c{at}") for at in range(2)),
        *(settle(f"own{at}", "write", args={}) for at in range(2)),
        settle("old", "list", error="e", batch_id="b"),
        start("new"),
        settle("new"),
    ]
    assert answers({"enabled": True, "historySize": 3, "warningThreshold": 1}, events)[-1] == DELIVER


def test_window_counts_what_arrives_after_the_compaction() -> None:
    """SPEC 10: an outcome that had arrived and waited before arming never counts; one that waits after it does."""
    starts = [start(f"x{at}", batch_id="b", index=at) for at in range(3)]
    ends = [settle(f"x{at}", batch_id="b", index=at) for at in range(3)]
    guard: dict[str, object] = {"postCompactionGuard": {"windowSize": 2}}
    assert answers(guard, [*starts, ends[2], compaction(), ends[1], ends[0]])[-1].code == "compaction_loop_persisted"
    assert answers(guard, [*starts, ends[2], ends[1], compaction(), ends[0]])[-1] == DELIVER


def test_batch_that_comes_back_with_nothing_new_in_its_list() -> None:
    """SPEC 8: all calls of the list started before; the one that is not in it is judged as it starts."""
    listed: list[tuple[str, str, object]] = [("x", "read", {}), ("y", "read", {"p": 2})]
    events: list[Event] = [
        *turns(3, "list", result="same"),
        *(start(*call, batch_id="b", index=at, batch=listed) for at, call in enumerate(listed)),
        *turns(2, "list", prefix="d", result="same"),
        start("z", "list", batch_id="b", index=2, batch=listed),
    ]
    assert answers({**ON, "warningThreshold": 5}, events)[-1] == PROCEED


@pytest.mark.parametrize("calls", [1, 2])
def test_settlement_before_its_list_is_applied_once(calls: int) -> None:
    """A settlement, the first start of its listed batch, the same settlement again: one failure, not two (SPEC 8)."""
    batch = [("a", "read", 1), ("b", "read", 2)][:calls]
    first = settle("z", args=1, batch_id="Z", error="boom")
    early = settle("a", args=1, batch_id="B", error="boom")
    started = start(*batch[-1], batch_id="B", batch=batch)
    answers = play({}, [first, early, early, started, start(*batch[0], batch_id="B", batch=batch), early])
    assert [answer[0] for answer in answers] == ["deliver", "deliver", "deliver", "proceed", "proceed", "deliver"]


def test_call_that_settled_before_its_list_is_not_judged_again() -> None:
    """What has run cannot be blocked, is no veto for its siblings, and counts once against a ceiling."""
    config = {
        "tools": {"loopDetection": {"enabled": True, "warningThreshold": 1, "criticalThreshold": 2}},
        "plugins": {"entries": {"loopguard": {"config": {"limits": {"callsPerRun": 2}}}}},
    }
    batch = [("a", "read", SAME), ("b", "read", SAME)]
    early = settle("a", args=SAME, batch_id="B", result="same")
    events: list[Event] = [early, *(start(name, batch_id="B", batch=batch) for name in "ba"), early]
    assert [answer[0] for answer in play(config, events)] == ["deliver", "proceed", "proceed", "deliver"]
