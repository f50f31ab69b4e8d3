"""Malformed events built in Python: the field is named, and nothing has moved because of them (SPEC 2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers import settings_of, settle, start

from loopguard_plugin import BatchCall, EventError, batch_started, decode_event
from loopguard_plugin.answers import RunEvicted
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.events import Event, ToolCallSettled, ToolCallStarted

LISTED = BatchCall("c", "read")


def of_batch(batch: object, **fields: Any) -> ToolCallStarted:
    """A start with something in the place of its batch list."""
    return ToolCallStarted(session_key="s", call_id="c", tool="read", batch=batch, **fields)  # type: ignore[arg-type]  # that is the point


def refused(guard: Guard, event: Event) -> str:
    """The field that an event is refused for; the guard remembers what it did before."""
    before, runs = guard.snapshot(0.0), guard.runs
    with pytest.raises(EventError) as caught:
        guard.feed(event, 0.0)
    assert (guard.snapshot(0.0), guard.runs) == (before, runs)
    return caught.value.field


@pytest.mark.parametrize("run", ["r", "new"])
@pytest.mark.parametrize("batch_id", ["b", "open", None])
@pytest.mark.parametrize("batch", [5, True, 0, "", "text", b"x", {}, {"call_id": "c"}, object()])
def test_batch_that_is_no_list(batch: object, batch_id: str | None, run: str) -> None:
    """Whatever stands in the place of the list, and whether or not the list would be needed."""
    guard = Guard(settings_of({}))
    guard.feed(start("c1", batch_id="open"), 0.0)
    assert refused(guard, of_batch(batch, batch_id=batch_id, run_id=run)) == "batch"


@pytest.mark.parametrize("continues", [None, "old"])
@pytest.mark.parametrize(
    ("batch", "field"),
    [
        ((5,), "batch[0]"),
        ((LISTED, {"call_id": "d", "tool": "read"}), "batch[1]"),
        ((LISTED, BatchCall(5, "read")), "batch[1].call_id"),  # type: ignore[arg-type]  # that is the point
        ((BatchCall("c", b"read"),), "batch[0].tool"),  # type: ignore[arg-type]  # that is the point
    ],
)
def test_list_with_a_wrong_call_moves_no_run(batch: object, field: str, continues: str | None) -> None:
    """Neither is a streak taken over nor a run pushed out for a start that is refused."""
    guard = Guard(settings_of({"plugins": {"entries": {"loopguard": {"config": {"maxRuns": 2}}}}}))
    guard.feed(start("c1", run="r"), 0.0)
    guard.feed(settle("c2", run="old", error="boom"), 0.0)
    assert refused(guard, of_batch(batch, batch_id="b", run_id="new", continues=continues)) == field
    guard.feed(start("c3", run="r"), 0.0)
    assert refused(guard, of_batch(batch, batch_id="b", run_id="r", continues=continues)) == field


@pytest.mark.parametrize(
    ("field", "value"), [("index", True), ("index", 1.0), ("index", -1), ("deliverable", 1), ("tool", None)]
)
def test_settlement_with_a_value_that_only_equals_the_right_one(field: str, value: object) -> None:
    """``True`` is no place in a batch and ``1`` no word on delivery, also where they would fit."""
    guard = Guard(settings_of({}))
    guard.feed(start("c", batch_id="b", index=1), 0.0)
    fields: dict[str, Any] = {"session_key": "s", "run_id": "r", "call_id": "c", "tool": "read", field: value}
    assert refused(guard, ToolCallSettled(**fields)) == field


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("timeout", '"timeout"'),
        ("OK", '"OK"'),
        ("", '""'),
        ("a\n\x1b", '"a\\n\\x1b"'),
        ("x" * 100_000, f'"{"x" * 40}"'),
        (7, "int 7"),
        ({"secret": 1}, "dict"),
    ],
)
def test_wrong_status_is_told_with_its_value(status: Any, said: str) -> None:
    """What a gateway must look for in its own code, shortened, beside the words that there are; on every way in."""
    told = f"status: expected one of ok, error, unknown_tool, rejected, denied, blocked, skipped, aborted, got {said}"
    with pytest.raises(EventError) as caught:
        Guard(settings_of({})).feed(ToolCallSettled(session_key="s", call_id="c", tool="t", status=status), 0.0)
    assert str(caught.value) == told
    event = {"type": "tool_call_settled", "session_key": "s", "call_id": "c", "tool": "t", "status": status}
    for data in (event, json.dumps(event)):
        with pytest.raises(EventError) as caught:
            decode_event(data)
        assert str(caught.value) == told or not isinstance(status, str)
        assert caught.value.field == "status"


def test_wrong_kind_is_told_with_its_value() -> None:
    """The kind of a user message likewise."""
    with pytest.raises(EventError, match=r'kind: expected one of message, follow_up, steering, got "steer"'):
        decode_event({"type": "user_message_committed", "session_key": "s", "kind": "steer"})


class Call:
    """A call as an SDK has it."""

    call_id, tool, args = "c", "read", None


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([{"id": "c", "name": "r", "args": {}}], "calls[0]: expected a BatchCall or (call_id, tool, args), got dict"),
        ([LISTED, Call()], "calls[1]: expected a BatchCall or (call_id, tool, args), got Call;"),
        (["abc"], "calls[0]: expected a BatchCall or (call_id, tool, args), got str;"),
        ([("c",)], "calls[0]: expected a BatchCall or (call_id, tool, args), got tuple of 1;"),
        ([("c", "read", {}, 0)], "calls[0]: expected a BatchCall or (call_id, tool, args), got tuple of 4;"),
        ([(None, "read", {})], "calls[0].call_id: expected a string, got NoneType"),
        ([("c", 7, {})], "calls[0].tool: expected a string, got int 7"),
        ([BatchCall("c", {})], "calls[0].tool: expected a string, got dict"),  # type: ignore[arg-type]  # the mistake
        ({"c": "read"}, "batch_started takes a list of calls, got dict"),
        ("abc", "batch_started takes a list of calls, got str"),
        (LISTED, "batch_started takes a list of calls, got BatchCall"),
        (None, "batch_started takes a list of calls, got NoneType"),
    ],
)
def test_calls_of_another_shape_are_refused(calls: Any, told: str) -> None:
    """A mapping would be unpacked by its keys, and all calls would look the same: a TypeError names what was given."""
    with pytest.raises(TypeError) as caught:
        batch_started("s", calls, batch_id="b")
    assert str(caught.value).startswith(told)


def test_calls_of_the_right_shapes_are_taken() -> None:
    """Structs, tuples and lists, from any iterable."""
    starts = batch_started("s", iter([LISTED, ("d", "read", 1), ["e", "read"]]), batch_id="b")  # type: ignore[arg-type]  # lists come from JSON
    assert [(one.call_id, one.args, one.index) for one in starts] == [("c", None, 0), ("d", 1, 1), ("e", None, 2)]


def test_run_that_is_idle_is_not_lost_to_a_malformed_event() -> None:
    """What is due at that moment is done, and told, at the next event that can be judged."""
    guard = Guard(settings_of({}))
    guard.feed(start("c", run="idle"), 0.0)
    guard.feed(settle("c", run="idle"), 0.0)
    for odd in (start("d", session=" "), of_batch((5,), batch_id="b")):
        with pytest.raises(EventError):
            guard.feed(odd, 3600.0)
    facts = guard.feed(start("e"), 3600.0).facts
    assert [fact.run_id for fact in facts if isinstance(fact, RunEvicted)] == ["idle"]


def test_number_too_long_to_be_shown() -> None:
    """A number that Python itself refuses to print is named by its type."""
    with pytest.raises(EventError, match="index: expected a whole number from 0, got int"):
        Guard(settings_of({})).feed(start("c", index=-(10**5000)), 0.0)
