"""What the model reads: notes say what is true, and the docs have every text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from helpers import settle, start, turns

from loopguard_plugin import Detector, LoopGuard, parse_settings
from loopguard_plugin.answers import Code, Deliver
from loopguard_plugin.core import wording
from loopguard_plugin.core.precedence import Level, Loop
from loopguard_plugin.events import Event

DOCS = (Path(__file__).parent.parent / "docs" / "notes.md").read_text("utf-8")
SMALL = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 9}


def plain(loop: Loop, **what: bool) -> str:
    """A note with the places for names and counts left open, as the docs show it."""
    text = wording.note(loop, "x", again=what.get("again", True), failed=what.get("failed", False))
    return text.removeprefix("[loopguard] Possible loop: ").replace("`x`", "{tool}").replace("7", "{count}")


@pytest.mark.parametrize("detector", wording.NOTED)
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("failed", [True, False])
def test_docs_have_every_note(detector: Detector, same: bool, again: bool, failed: bool) -> None:
    """Each variant of each note stands in docs/notes.md."""
    loop = Loop(Level.WARNING, detector, 7, same=same, tools=("{tools}",), row=same)
    for sentence in plain(loop, again=again, failed=failed).replace("`{tools}`", "{tools}").split(". "):
        assert sentence.removesuffix(".") in DOCS


@pytest.mark.parametrize("detector", [one for one in Detector if one not in (*Code, Detector.ERROR_CASCADE)])
def test_docs_have_every_block(detector: Detector) -> None:
    """So does each reason of a block, in the words of its detector."""
    loop = Loop(Level.CRITICAL, detector, 7, tools=("{tools}",))
    for text in (wording.culprit(loop, "x"), wording.sibling(loop, "x"), wording.loop_persisted(loop, "x")):
        shown = text.replace("`{tools}`", "{tools}").replace("`x`", "{tool}").replace("7", "{count}")
        for part in re.split(r": |\. ", shown):
            assert part.removesuffix(".") in DOCS


def test_docs_have_every_end() -> None:
    """And each message that ends a turn."""
    for text in (
        wording.repeated_error("x", 7, "*the error*"),
        wording.compaction_persisted("x", 7),
        wording.limit_reached(7),
    ):
        for sentence in text.replace("`x`", "{tool}").replace("7", "{count}").split(". "):
            assert sentence.removesuffix(".") in DOCS


def noted(events: list[Event], **loop: Any) -> str:
    """The first note of these events."""
    guard = LoopGuard(parse_settings({"tools": {"loopDetection": {**SMALL, **loop}}}))
    answers = [guard.feed(event) for event in events]
    return next(one.note for one in answers if isinstance(one, Deliver) and one.note is not None)


def test_note_of_equal_results() -> None:
    """The result was the same each time: it can be used."""
    said = noted(turns(4, "read", {}, result="same"))
    assert "called 3 times before" in said
    assert "Use the result you have" in said


def test_note_of_results_that_differ() -> None:
    """Progress needs no change, waiting a longer wait; the model is never sent back to an older result."""
    events = [event for at in range(4) for event in turns(1, "pytest", {}, prefix=f"{at}-", result=f"{at} passed")]
    said = noted(events)
    assert "its result differed" in said
    assert "nothing needs to change" in said
    assert "wait longer" in said
    assert "result you have" not in said


def test_note_of_a_result_that_has_just_changed() -> None:
    """Equal up to this call: its own result is another one."""
    said = noted([*turns(3, "read", {}, result="old"), *turns(1, "read", {}, prefix="n", result="new")])
    assert "this result is another one" in said
    assert "result you have" not in said


def test_note_names_the_error() -> None:
    """A failure that comes back is named, shortened, in the note and only there."""
    tail = "y" * 400
    events = [e for at in range(4) for e in turns(1, "fetch", {}, prefix=f"{at}-", error=f"HTTP 503 0x{at} {tail}")]
    said = noted(events)
    assert "failed in the same way each time" in said
    assert "The error: HTTP 503 0x3 yyy" in said
    assert len(said) < 600


def test_note_of_an_error_that_comes_again_is_the_same() -> None:
    """A redelivered settlement gets the very same note."""
    guard = LoopGuard(parse_settings({"tools": {"loopDetection": SMALL}}))
    for event in [e for at in range(3) for e in turns(1, "fetch", {}, prefix=f"{at}-", error=f"down 0x{at}")]:
        guard.feed(event)
    guard.feed(start("last", "fetch", {}))
    answers = [guard.feed(settle("last", "fetch", error="down 0x9")) for _ in range(2)]
    assert answers[0] == answers[1]
    assert isinstance(answers[0], Deliver)
    assert "down 0x9" in (answers[0].note or "")


def test_note_keeps_no_error() -> None:
    """The error in a note is read from the settlement, not remembered: a success later nothing of it is left."""
    guard = LoopGuard(parse_settings({"tools": {"loopDetection": SMALL}}))
    for event in turns(2, "fetch", {}, prefix="a", error="secret 0x1"):
        guard.feed(event)
    batch: list[tuple[str, str, object]] = [("x", "fetch", {}), ("y", "read", {})]
    events: list[Event] = [
        *turns(1, "fetch", {}, prefix="b", error="other"),
        *turns(1, "fetch", {}, prefix="c", error="secret 0x2"),
        *(start(*call, batch_id="b", index=at, batch=batch) for at, call in enumerate(batch)),
        settle("x", "fetch", error="secret 0x3", batch_id="b"),
        settle("y", batch_id="b"),
    ]
    answers = [guard.feed(event) for event in events]
    assert any(isinstance(one, Deliver) and "secret" in (one.note or "") for one in answers)
    assert b"secret" not in guard.snapshot()


def test_note_of_stagnation_names_the_calls_that_go_round() -> None:
    """The tools of the round are named, that of the call as the model wrote it."""
    round_ = ("Read", "grep", "list")
    events = [e for at in range(7) for e in turns(1, round_[at % 3], {}, prefix=f"{at}-", result="same")]
    said = noted(events, detectors={"genericRepeat": False, "pingPong": False})
    assert "the last 3 responses brought nothing new" in said
    assert "`grep`, `list` and `Read`" in said or "`Read`, `grep` and `list`" in said
    assert "make a call that you have not made yet" in said


def test_note_of_a_cascade() -> None:
    """Failures of many calls: look for what they share; where this call worked, go on from it."""
    failing = [e for at in range(10) for e in turns(1, f"tool{at}", {}, prefix=f"{at}-", error=f"down {at}")]
    again = noted([*failing, *turns(1, "last", {}, error="down, too")])
    assert "the last 10 responses all failed" in again
    assert "The error: down, too" in again
    worked = noted([*failing, *turns(1, "last", {}, result="fine")])
    assert "This call worked: go on from it" in worked
    assert "The error" not in worked


def test_names_with_braces_are_shown_as_they_are() -> None:
    """A tool name is no part of the text that is filled in."""
    assert "`{count}`" in noted(turns(4, "{count}", {}, result="same"))
