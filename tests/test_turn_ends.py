"""A turn counts as one end, however often it is ended while its host goes on: statistics, reports and summaries."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from helpers import compaction, message, settings_of, settle, start, turns
from sessions import Session, write

from loopguard_plugin import LoopGuard, TurnEndingError
from loopguard_plugin.answers import Answer, RunEnded
from loopguard_plugin.cli import main
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.events import Event
from loopguard_plugin.report.rows import row
from loopguard_plugin.report.tally import Tally
from loopguard_plugin.report.text import summary, verdicts
from loopguard_plugin.turn_ends import TurnEnds

ON: dict[str, object] = {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}


def played(guard: LoopGuard, events: Iterable[Event]) -> int:
    """Feed these events; answers how many of them raised the error that ends a turn."""
    raised = 0
    for event in events:
        try:
            guard.feed(event)
        except TurnEndingError:
            raised += 1
    return raised


def tallied(events: Iterable[Event], keys: dict[str, object] = ON) -> Tally:
    """What a report adds these events up to."""
    tally, guard = Tally(), LoopGuard(settings_of(keys))
    for event in events:
        answer: Answer | TurnEndingError
        try:
            answer = guard.feed(event)
        except TurnEndingError as ending:
            answer = ending
        tally.add(row(tally.events, event, answer), event, "s.jsonl", tally.events + 1)
    return tally


def test_a_host_that_goes_on_has_ended_one_turn() -> None:
    """Twenty equal calls of which sixteen end the turn again are one end, and fifteen more calls after it."""
    guard = LoopGuard(settings_of(ON))
    assert played(guard, turns(20)) == 16
    stats = guard.stats()
    assert (stats.notes, stats.blocks, stats.ends) == (1, 17, 1)
    tally = tallied(turns(20))
    (told,) = verdicts(tally)
    assert told.startswith("s r: turn ended, 20 calls: tool_loop_persisted (read, generic_repeat, count 4, first at")
    assert told.endswith("), 15 more calls after the end")
    fired = "1 note, 1 blocked call, 1 end of turn, 15 more calls after the end"
    assert summary(tally, 1) == f"1 file, 1 run, 20 calls: {fired}"


def test_identical_failures_that_go_on_are_one_end() -> None:
    """The guard that is always on ends the turn at every further failure; so does another one: it is the same turn."""
    guard = LoopGuard(settings_of({}))
    assert played(guard, [*turns(5, error="boom"), *turns(4, "grep", prefix="g", error="no")]) == 5
    assert guard.stats().ends == 1
    (told,) = verdicts(tallied([*turns(3, error="boom"), *turns(1, "grep", prefix="g", result="fine")]))
    assert told.endswith(", 1 more call after the end")


@pytest.mark.parametrize("kind", ["message", "follow_up", "steering"])
def test_a_user_message_begins_a_new_turn(kind: str) -> None:
    """After a user message of any kind, in any run of the session, the next end is another one."""
    events = [*turns(5, error="boom"), message(kind, run="another"), *turns(4, prefix="d", error="boom")]
    guard = LoopGuard(settings_of({}))
    assert played(guard, events) == 5
    assert guard.stats().ends == 2
    tally = tallied(events, {})
    (told,) = verdicts(tally)
    assert told.startswith("s r: 2 turns ended, 9 calls: repeated_tool_error (read, count 3")
    assert tally.runs["s", "r"].ends == 2
    assert tally.further == 3


def test_what_begins_no_new_turn() -> None:
    """A compaction does not, nor a message of another session, nor a run that continues the one that ended."""
    events = [*turns(3, error="boom"), compaction(), message(session="other")]
    for at in range(2):
        events += [start(f"n{at}", run="q", continues="r"), settle(f"n{at}", run="q", error="boom")]
    guard = LoopGuard(settings_of({}))
    assert played(guard, events) == 3
    assert guard.stats().ends == 1
    assert tallied(events).further == 2


def test_a_new_run_is_a_new_turn() -> None:
    """Runs are counted apart, and a run of that name after the old one is over is another one."""
    guard = LoopGuard(settings_of({}))
    played(guard, turns(3, error="boom"))
    for _ in range(3):
        played(guard, [start("a", run="q"), settle("a", run="q", error="boom")])
    assert guard.stats().ends == 2
    guard.end_run("s", "r")
    played(guard, turns(3, prefix="x", error="boom"))
    assert guard.stats().ends == 3


def test_a_forgotten_run_leaves_nothing_behind() -> None:
    """Of turns that ended no more is kept than runs are: those pushed out by others go, and those that are ended."""
    guard = LoopGuard(settings_of({"plugins": {"entries": {"loopguard": {"config": {"maxRuns": 3}}}}}))
    for at in range(50):
        for call in range(3):
            played(guard, [start(f"{call}", session=f"s{at}"), settle(f"{call}", session=f"s{at}", error="boom")])
    assert guard.stats().ends == 50
    assert len(guard._ended_turns) == 3
    for at in (47, 48, 49):
        guard.end_run(f"s{at}", "r")
    assert not guard._ended_turns


def test_calls_of_the_response_that_ended_are_not_further_ones() -> None:
    """A batch that ends the turn at its first start: its other calls belong to the end, the next response does not."""
    batch = [("a", "read", {"p": 1}), ("b", "read", {"p": 1})]
    listed = [start(name, batch_id="z", index=at, batch=batch) for at, (name, _, _) in enumerate(batch)]
    events = [*turns(3), start("c"), settle("c", status="blocked"), *listed]
    tally = tallied([*events, *listed])
    assert (tally.runs["s", "r"].ends, tally.further) == (1, 0)
    assert tallied([*events, start("d")]).further == 1


def test_the_ending_event_published_twice_is_one_end() -> None:
    """A publisher that is not sure publishes again, and gets the error again; a report counts it once."""
    events = turns(3, error="boom")
    tally = tallied([*events, events[-1]])
    assert (tally.runs["s", "r"].ends, tally.further) == (1, 0)


def test_facts_of_a_turn_that_had_ended_before() -> None:
    """Whoever counts facts gets all of them but the further ends."""
    guard, once = Guard(settings_of({})), TurnEnds()
    facts = [fact for event in turns(6, error="boom") for fact in once.once(event, guard.feed(event, 0.0).facts)]
    assert [type(fact) for fact in facts] == [RunEnded]
    assert once.turns


def test_observe_mode_counts_what_would_have_been() -> None:
    """In observe mode nothing is done, and the statistics say what would have been: ends once a turn too."""
    config: dict[str, object] = {"tools": {"loopDetection": ON}}
    config["plugins"] = {"entries": {"loopguard": {"config": {"mode": "observe"}}}}
    guard = LoopGuard(settings_of(config))
    assert played(guard, turns(60)) == 0
    stats = guard.stats()
    assert stats.notes >= 1
    assert stats.blocks >= 1
    assert stats.ends == 1


def test_statistics_of_a_guard_that_saw_nothing() -> None:
    """They begin at zero, also after a restore: they tell what this guard has done."""
    old = LoopGuard(settings_of({}))
    played(old, turns(4, error="boom"))
    new = LoopGuard(settings_of({}))
    new.restore(old.snapshot())
    assert (new.stats().notes, new.stats().blocks, new.stats().ends) == (0, 0, 0)
    played(new, turns(1, prefix="x", error="boom"))
    assert new.stats().ends == 1


def test_json_lines_stay_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each event's line says what became of it, end after end; the sum on stderr counts the turn once."""
    session = Session("s").user()
    for _ in range(6):
        session.call("fetch", {"u": 1}, error="503")
    assert main(["replay", str(write(tmp_path / "s.jsonl", [session])), "--json"]) == 0
    captured = capsys.readouterr()
    assert [json.loads(line)["action"] for line in captured.out.splitlines()].count("end_turn") == 4
    assert captured.err.splitlines()[-1].endswith("1 end of turn, 3 more calls after the end")
