"""The helper file does what the other tests take for granted."""

from __future__ import annotations

import pytest
from helpers import compaction, detection, line, message, play, settings_of, settle, start, turns
from model import Answer

from loopguard_plugin import SettingsError
from loopguard_plugin.answers import Blocked, Code, Deliver, Detector, Proceed
from loopguard_plugin.errors import TurnEndingError
from loopguard_plugin.events import MessageKind, Status


def test_events_carry_what_was_written() -> None:
    """What is given lands in the field of that name; a settlement without anything says "same"."""
    whole = [("c0", "read", {}), ("c1", "edit", 1)]
    started = start("c1", "edit", {"a": 1}, run=None, batch_id="b", index=1, batch=whole)
    assert (started.call_id, started.tool, started.args, started.run_id) == ("c1", "edit", {"a": 1}, None)
    assert started.batch is not None
    assert [call.call_id for call in started.batch] == ["c0", "c1"]
    assert settle("c1").result == "same"
    assert settle("c1", error="boom").result is None
    assert settle("c1", status="skipped").status is Status.SKIPPED
    assert message("steering").kind is MessageKind.STEERING
    assert compaction(run="r2").run_id == "r2"


def test_turns_are_calls_one_after_another() -> None:
    """Two events a call, each settled before the next one starts."""
    assert turns(2, result="x") == [start("c1"), settle("c1", result="x"), start("c2"), settle("c2", result="x")]


def test_settings_may_be_short() -> None:
    """Keys of ``tools.loopDetection`` alone and a whole configuration mean the same; wrong keys raise."""
    assert settings_of({"warningThreshold": 3}).resolve().warning == 3
    assert settings_of(detection(warningThreshold=3)).resolve().warning == 3
    assert settings_of({}).resolve().enabled is None
    with pytest.raises(SettingsError):
        settings_of({"warnThreshold": 3})


def test_lines_tell_answers_apart() -> None:
    """Every kind of answer has its own action, and only what fired has a detector."""
    error = TurnEndingError(
        code=Code.TOOL_LOOP_PERSISTED,
        message="m",
        session_key="s",
        run_id=None,
        tool="read",
        count=5,
        detector=Detector.PING_PONG,
        answer=None,
    )
    assert line(error) == ("end_turn", "ping_pong", 5, "tool_loop_persisted")
    assert line(Proceed()) == ("proceed", None, 0, None)
    assert line(Blocked("why", Detector.GENERIC_REPEAT, 4)) == ("block", "generic_repeat", 4, None)
    noted = Deliver("x", note="n", detector=Detector.GENERIC_REPEAT, count=3)
    assert line(noted) == ("note", "generic_repeat", 3, None)
    assert line(Deliver("x", ignored=True)) == ("ignored", None, 0, None)
    assert line(Deliver("x")) == ("deliver", None, 0, None)


def test_play_goes_through_a_real_bus() -> None:
    """Events and their JSON objects are both played, in order, by one fresh guard."""
    third = {"type": "tool_call_settled", "session_key": "s", "run_id": "r", "call_id": "c3", "tool": "read"}
    third["error"] = "e"
    events = [*turns(2, error="e"), start("c3"), third, message(), compaction()]
    assert play({}, events)[4:] == [
        Answer("proceed"),
        Answer("end_turn", "repeated_tool_error", 3, "repeated_tool_error"),
        Answer("reset"),
        Answer("armed"),
    ]
