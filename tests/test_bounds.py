"""What the guard keeps is bounded (SPEC 13): runs, idle ones, calls without a start, contents."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest
from helpers import SAME, compaction, detection, message, settle, start

from loopguard_plugin.answers import Blocked, CallsUnsettled, Deliver, EvictionReason, Fact, Proceed, RunEvicted
from loopguard_plugin.core.batch import MOST, WIDEST
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.core.sessions import PARKED_SECONDS, SWEPT
from loopguard_plugin.events import Event
from loopguard_plugin.settings import parse_settings

MINUTE = 60.0


def guard_of(*, max_runs: int = 10_000, idle: float = 30, **loop: object) -> Guard:
    """A guard with these bounds; rolling detectors on, note at 2, block at 3."""
    config = detection(**{"enabled": True, "warningThreshold": 2, "criticalThreshold": 3, **loop})
    own = {"config": {"maxRuns": max_runs, "idleMinutes": idle}}
    return Guard(parse_settings({**config, "plugins": {"entries": {"loopguard": own}}}))


def call(guard: Guard, call_id: str, *, run: str = "r", session: str = "s", now: float = 0.0) -> list[Fact]:
    """One whole call; gives the facts."""
    first = guard.feed(start(call_id, run=run, session=session), now)
    return [*first.facts, *guard.feed(settle(call_id, run=run, session=session), now).facts]


def blocked(guard: Guard, *, run: str = "r", session: str = "s", now: float = 0.0) -> bool:
    """Whether the next identical call would be refused."""
    return isinstance(guard.feed(start("next", run=run, session=session), now).answer, Blocked)


def test_least_recently_used_run_goes_first() -> None:
    """Above ``maxRuns`` the run that was used longest ago is forgotten, and said so."""
    guard = guard_of(max_runs=2)
    for at in range(3):
        call(guard, f"a{at}", run="a")
        call(guard, f"b{at}", run="b")
    call(guard, "a3", run="a")
    (evicted,) = call(guard, "c0", run="c")
    assert isinstance(evicted, RunEvicted)
    assert (evicted.run_id, evicted.reason, evicted.open_calls) == ("b", EvictionReason.CAPACITY, 0)
    assert guard.runs == 2
    assert not blocked(guard, run="c")


def test_one_session_cannot_push_out_the_counts_of_another() -> None:
    """However many runs a session opens, it loses its own oldest ones; a run of another session goes on."""
    guard = guard_of(max_runs=20)
    for at in range(2):
        call(guard, f"v{at}", session="victim")
    facts = [fact for at in range(100) for fact in call(guard, "x", run=f"r{at}", session="greedy")]
    evicted = [(fact.session_key, fact.run_id) for fact in facts if isinstance(fact, RunEvicted)]
    assert evicted == [("greedy", f"r{at}") for at in range(81)]
    assert guard.runs == 20
    call(guard, "v2", session="victim")
    assert blocked(guard, session="victim")


def test_among_sessions_of_one_run_each_the_least_recently_used_goes() -> None:
    """Where no session has more runs than another, what was used longest ago makes room, a parked run first."""
    guard = guard_of(max_runs=3)
    for name in ("a", "b", "c", "a"):
        call(guard, name, session=name)
    gone = [fact for name in "de" for fact in call(guard, name, session=name) if isinstance(fact, RunEvicted)]
    assert [fact.session_key for fact in gone] == ["b", "c"]


def test_largest_session_is_found_in_random_traffic() -> None:
    """Whatever runs are opened, used, ended and idle: the one that makes room is of a session with the most runs."""
    random = Random(7)
    guard, now, seen = guard_of(max_runs=12, idle=1), 0.0, 0
    for at in range(4000):
        now += random.choice((0.0, 0.1, 3.0))
        session, run = random.choice("abcdef"), f"r{random.randrange(6)}"
        sizes = Counter(one.session_key for one in (*guard._sessions._runs, *guard._sessions._parked))
        if random.random() < 0.1:
            guard.end_run(session, run)
        facts = guard.feed(start(f"c{at}", run=run, session=session), now).facts
        for fact in facts:
            if isinstance(fact, RunEvicted) and fact.reason is EvictionReason.CAPACITY:
                seen += 1
                assert sizes[fact.session_key] == max(sizes.values())
        if random.random() < 0.8:
            guard.feed(settle(f"c{at}", run=run, session=session), now)
        kept = guard._sessions
        assert len(kept) <= 12
        assert {key: len(one.runs) for key, one in kept._by_key.items()} == Counter(
            one.session_key for one in (*kept._runs, *kept._parked)
        )
        assert sum(size * len(same) for size, same in kept._sized.items()) == len(kept)
        assert kept._most == max(kept._sized)
    assert seen > 100


def test_idle_runs_are_dropped_a_few_at_a_time() -> None:
    """After a quiet night no event drops more than a few runs; each event goes on until all idle ones are gone."""
    guard = guard_of(idle=30)
    for at in range(1000):
        call(guard, "c", run=f"r{at}", session=f"s{at % 7}")
    dropped = []
    for at in range(40):
        facts = guard.feed(start(f"d{at}", run="new", args=at), 31 * MINUTE + at).facts
        dropped.append(sum(isinstance(fact, RunEvicted) for fact in facts))
    assert max(dropped) <= SWEPT
    assert sum(dropped) == 1000
    assert guard.runs == 1


def test_idle_run_that_waits_to_be_dropped_starts_afresh() -> None:
    """A run that was idle for too long does not go on, whether or not its turn to be dropped had come."""
    guard = guard_of(idle=30)
    for at in range(200):
        for count in range(3):
            call(guard, f"c{count}", run=f"r{at}")
    facts = guard.feed(start("next", run="r199"), 31 * MINUTE).facts
    assert "r199" in [fact.run_id for fact in facts if isinstance(fact, RunEvicted)]
    assert guard.runs > 100
    assert not blocked(guard, run="r198", now=31 * MINUTE)


def test_idle_run_that_waits_to_be_dropped_is_not_continued() -> None:
    """``continues`` takes no failures over from a run that was idle for too long."""
    guard = guard_of(idle=30)
    for at in range(100):
        for count in range(2):
            guard.feed(start(f"c{count}", run=f"r{at}"), 0.0)
            guard.feed(settle(f"c{count}", error="boom", run=f"r{at}"), 0.0)
    guard.feed(start("c3", run="new", continues="r99"), 31 * MINUTE)
    assert guard.feed(settle("c3", error="boom", run="new"), 31 * MINUTE).error is None


def test_idle_run_is_forgotten_and_a_busy_one_is_not() -> None:
    """After ``idleMinutes`` without an event a run starts afresh; events keep it."""
    guard = guard_of(idle=30)
    call(guard, "d", run="other")
    for at in range(3):
        call(guard, f"c{at}", now=at * 14 * MINUTE)
    facts = call(guard, "x", run="third", now=31 * MINUTE)
    assert [fact.run_id for fact in facts if isinstance(fact, RunEvicted)] == ["other"]
    assert blocked(guard, now=57 * MINUTE)
    assert not blocked(guard, session="new", now=57 * MINUTE)
    guard.feed(settle("next"), 57 * MINUTE)
    assert not blocked(guard, now=88 * MINUTE)


def test_shorter_idle_time_holds_from_the_next_event_on() -> None:
    """A setting that changes while runs are open is not put off until they would have been looked at anyway."""
    guard = guard_of(idle=30)
    call(guard, "c")
    guard.use(parse_settings({"plugins": {"entries": {"loopguard": {"config": {"idleMinutes": 1}}}}}))
    facts = call(guard, "d", run="other", now=2 * MINUTE)
    assert [fact.run_id for fact in facts if isinstance(fact, RunEvicted)] == ["r"]
    assert guard.runs == 1


def test_idle_run_with_an_open_call_is_kept_for_a_day() -> None:
    """A tool that runs for hours still counts when it settles; after 24 h the run is given up."""
    guard = guard_of(idle=30)
    for at in range(3):
        call(guard, f"c{at}")
    guard.feed(start("slow", args={"p": 2}), 0.0)
    call(guard, "x", run="other", now=20 * 3600.0)
    step = guard.feed(settle("slow"), 20 * 3600.0)
    assert isinstance(step.answer, Deliver)
    assert blocked(guard, now=20 * 3600.0)
    guard.feed(start("slow2", run="q"), 20 * 3600.0)
    facts = call(guard, "y", run="other", now=20 * 3600.0 + PARKED_SECONDS)
    assert ("q", 1) in [(fact.run_id, fact.open_calls) for fact in facts if isinstance(fact, RunEvicted)]


def test_run_that_was_parked_is_idle_again_in_time() -> None:
    """A run that goes on after hours with an open call is forgotten ``idleMinutes`` after its last event, not later."""
    guard = guard_of(idle=30)
    guard.feed(start("slow"), 0.0)
    guard.feed(message(session="other"), 60 * MINUTE)
    guard.end_run("other", "r")
    guard.feed(settle("slow"), 120 * MINUTE)
    facts = guard.feed(message(session="other"), 151 * MINUTE).facts
    assert [fact.session_key for fact in facts if isinstance(fact, RunEvicted)] == ["s"]


def test_parked_runs_are_evicted_before_busy_ones() -> None:
    """Runs that wait for a call have been idle longest, so they go first where room is short."""
    guard = guard_of(max_runs=2, idle=1)
    guard.feed(start("slow", run="waiting"), 0.0)
    call(guard, "a", run="busy", now=5 * MINUTE)
    facts = call(guard, "b", run="third", now=5 * MINUTE)
    assert [fact.run_id for fact in facts if isinstance(fact, RunEvicted)] == ["waiting"]


def test_ended_run_is_forgotten_at_once() -> None:
    """``end_run`` makes another run of the same name start afresh, notes included."""
    guard = guard_of()
    for at in range(3):
        call(guard, f"c{at}")
    call(guard, "elsewhere", run="other")
    guard.end_run(" s ", " r ")
    guard.end_run("s", "never seen")
    notes = [guard.feed(settle(f"d{at}"), 0.0).answer for at in range(3) if guard.feed(start(f"d{at}"), 0.0)]
    assert [isinstance(answer, Deliver) and answer.note is not None for answer in notes] == [False, False, True]


def test_message_ids_are_remembered_as_long_as_the_session_lives() -> None:
    """A redelivered message resets nothing, also among 255 newer ones."""
    guard = guard_of()
    guard.feed(message(message_id="m"), 0.0)
    for at in range(255):
        guard.feed(message(message_id=f"m{at}"), 0.0)
    for at in range(2):
        guard.feed(start(f"c{at}"), 0.0)
        guard.feed(settle(f"c{at}", error="boom"), 0.0)
    guard.feed(message(message_id="m"), 0.0)
    guard.feed(start("c2"), 0.0)
    assert guard.feed(settle("c2", error="boom"), 0.0).error is not None


def grown(guard: Guard, rounds: int, step: int) -> list[int]:
    """Bytes that the guard holds after each of some rounds of events."""
    held = []
    tracemalloc.start()
    try:
        for round_ in range(rounds):
            for at in range(step):
                feed_one(guard, f"{round_}-{at}")
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return held


def feed_one(guard: Guard, name: str) -> None:
    """A settlement without a start, a call that never settles, a blocked one, a message and a compaction."""
    guard.feed(settle(f"o{name}", "write", args={"path": name}, result=name), 0.0)
    guard.feed(start(f"s{name}", "list", {"d": name}), 0.0)
    guard.feed(settle(f"p{name}", "write", args={"path": name}, result=name), 0.0)
    guard.feed(start(f"b{name}", "read"), 0.0)
    guard.feed(message(message_id=name), 0.0)
    guard.feed(compaction(), 0.0)


def test_one_run_is_bounded_whatever_comes() -> None:
    """Thousands of orphans, open calls, vetoes and messages leave no more behind than the first thousand."""
    held = grown(guard_of(historySize=5), rounds=4, step=1000)
    assert max(held[1:]) < held[0] * 1.1


def test_only_settlements_are_bounded_as_well() -> None:
    """A gateway that never publishes starts does not make a run grow."""
    guard = guard_of(historySize=5)
    tracemalloc.start()
    try:
        sizes = []
        for round_ in range(4):
            for at in range(1000):
                guard.feed(settle(f"o{round_}-{at}", "write", args={"path": at}, result=f"{round_}"), 0.0)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(sizes[1:]) < sizes[0] * 1.1


def test_window_that_grows_takes_nothing_back() -> None:
    """Calls that had left a small window do not count once it is made larger."""
    guard = guard_of(historySize=3, warningThreshold=1, criticalThreshold=9)
    for at in (0, 1, 2, 3, 4, 5):
        guard.feed(start(f"a{at}", args=at), 0.0)
        guard.feed(settle(f"a{at}", args=at), 0.0)
    guard.use(parse_settings(detection(enabled=True, warningThreshold=1, criticalThreshold=9, historySize=30)))
    for at, noted in ((0, False), (5, True)):
        guard.feed(start(f"b{at}", args=at), 0.0)
        answer = guard.feed(settle(f"b{at}", args=at), 0.0).answer
        assert isinstance(answer, Deliver)
        assert (answer.note is not None) is noted


def test_window_that_makes_room_keeps_no_stale_alternation() -> None:
    """Two alternating calls, pushed out of a small window by calls without a start, leave nothing to trip over."""
    guard = guard_of(historySize=3)
    for at in range(3):
        guard.feed(start(f"a{at}", "list"), 0.0)
        guard.feed(settle(f"a{at}", "list"), 0.0)
        guard.feed(start(f"b{at}", "read"), 0.0)
        guard.feed(settle(f"b{at}", "read"), 0.0)
        for orphan in range(2):
            guard.feed(settle(f"o{at}{orphan}", "grep", args=orphan), 0.0)
    for at, tool in enumerate(("exec", "read", "exec", "read", "exec")):
        guard.feed(start(f"z{at}", tool, {"command": "x"}), 0.0)
        guard.feed(settle(f"z{at}", tool), 0.0)
    assert isinstance(guard.feed(start("last", "other"), 0.0).answer, Proceed)


def test_flood_in_one_run_leaves_the_others_alone() -> None:
    """Ten thousand calls in one run push nothing out of another."""
    guard = guard_of()
    for at in range(3):
        call(guard, f"c{at}", run="quiet")
    for at in range(10_000):
        guard.feed(start(f"f{at}", args={"at": at}, run="flood"), 0.0)
    assert blocked(guard, run="quiet")


def test_no_content_is_kept_after_its_digest() -> None:
    """Arguments and results are gone once they are judged; of a failure streak the last text stays, shortened."""

    class Content(str):
        """A string that can be looked for among the live objects."""

    guard = guard_of()
    for at in range(3):
        guard.feed(start(f"c{at}", args={"secret": Content("args")}), 0.0)
        guard.feed(settle(f"c{at}", result=Content("result")), 0.0)
    guard.feed(start("e", args={"p": Content("more")}), 0.0)
    guard.feed(settle("e", error=Content("x" * 5000)), 0.0)
    gc.collect()
    assert not [
        one for one in gc.get_objects() if isinstance(one, dict) and any(type(v) is Content for v in one.values())
    ]
    run = guard._sessions.find("s", "r")
    assert run is not None
    assert run.errors is not None
    assert len(run.errors.text) <= 300


def test_error_text_is_kept_no_longer_than_it_waits() -> None:
    """Of failures in a batch, late ones and ones without a start, only digests stay once they are applied."""
    guard = guard_of(enabled=None)
    guard.feed(start("late"), 0.0)
    for at in range(3):
        guard.feed(start(f"c{at}", args={"at": at}, batch_id="b", index=at), 0.0)
    run = guard._sessions.find("s", "r")
    assert run is not None
    for at in reversed(range(3)):
        guard.feed(settle(f"c{at}", batch_id="b", error=f"secret {at}"), 0.0)
        assert (f"secret {at}" in repr(run.in_full())) is (at > 0)
    guard.feed(settle("late", error="secret of late"), 0.0)
    guard.feed(settle("own", error="secret of own"), 0.0)
    guard.feed(settle("own", tool="other", result="fine", batch_id="c"), 0.0)
    assert run.left is not None
    assert "secret" not in repr((run.in_full(), run.previous, run.left.remembered, run.left.orphans))


LONG = 600 * "x"  # ids and names that only their end tells apart


def kept_by(events: Iterator[Event]) -> int:
    """Bytes that a guard keeps after these events, none of which anybody else holds."""
    guard = guard_of(historySize=30)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for event in events:
            guard.feed(event, 0.0)
        del event
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


HUGE = 1_000_000 * "x"
FLOODS: dict[str, Callable[[int], list[Event]]] = {
    "tool names": lambda at: [
        start("c", f"{at}{HUGE}", batch_id=f"b{at}"),
        settle("c", f"{at}{HUGE}", batch_id=f"b{at}", status="unknown_tool", error="x"),
    ],
    "call and batch ids": lambda at: [start(f"{at}{HUGE}", batch_id=f"{at}{HUGE}", args=at)],
    "settlements without a start": lambda at: [settle(f"{at}{HUGE}", f"{at}{HUGE}", batch_id=f"{at}{HUGE}", args=at)],
    "message ids": lambda at: [message(message_id=f"{at}{HUGE}")],
    "runs": lambda at: [start("c", run=f"{at}{HUGE}")],
    "sessions": lambda at: [start("c", session=f"{at}{HUGE}")],
    "agents": lambda at: [start("c", batch_id=f"b{at}", args=at, agent=f"{at}{HUGE}")],
    "a batch": lambda at: [start(f"{at}{HUGE}", f"{at}{HUGE}", at, batch_id=HUGE, index=at)],
    "lists": lambda at: [
        start("c", batch_id=f"b{at}", batch=[("c", "read", SAME), (f"{at}{HUGE}", f"{at}{HUGE}", at)])
    ],
}


@pytest.mark.parametrize("what", FLOODS)
def test_names_of_any_length_are_kept_short(what: str) -> None:
    """60 events with ids or names of a megabyte leave less than a megabyte behind, all together."""
    assert kept_by(event for at in range(60) for event in FLOODS[what](at)) < 1_000_000


def test_long_names_tell_apart() -> None:
    """Tools, calls, batches, runs, sessions and messages whose names differ in their last character only are others."""
    guard = guard_of()
    for at in range(3):
        guard.feed(start(f"c{at}", f"{LONG}a"), 0.0)
        guard.feed(settle(f"c{at}", f"{LONG}a"), 0.0)
    assert isinstance(guard.feed(start("d", f"{LONG}b"), 0.0).answer, Proceed)
    guard.feed(settle("d", f"{LONG}b"), 0.0)
    assert isinstance(guard.feed(start("e", f" {LONG}A "), 0.0).answer, Blocked)
    for run, session in ((f"{LONG}a", "s"), (f"{LONG}b", "s"), ("r", f"{LONG}a"), ("r", f"{LONG}b")):
        for at in range(2):
            call(guard, f"c{at}", run=run, session=session)
        assert not blocked(guard, run=run, session=session)
    assert guard.runs == 5
    guard.end_run(f"{LONG}a", "r")
    assert guard.runs == 4


def test_long_ids_find_their_calls() -> None:
    """A call with an id of any length settles, is recognised again, and its failures are counted once each."""
    guard = guard_of()
    for at in range(3):
        name = f"{LONG}{at}"
        for _ in range(2):
            guard.feed(start(name, batch_id=name, index=0), 0.0)
        guard.feed(start(f"{name}x", args=at, batch_id=name, index=1), 0.0)
        guard.feed(settle(f"{name}x", batch_id=name, index=1, status="skipped"), 0.0)
        steps = [guard.feed(settle(name, error="boom", batch_id=name, index=0), 0.0) for _ in range(2)]
        assert [step.error is not None for step in steps] == [at == 2] * 2
    ended = guard.ended("s", "r")
    assert ended is not None
    guard.feed(message(message_id=f"{LONG}a"), 0.0)
    assert guard.ended("s", "r") is None
    guard.feed(start("f1", args="other"), 0.0)
    guard.feed(settle("f1", error="boom"), 0.0)
    guard.feed(message(message_id=f"{LONG}a"), 0.0)
    run = guard._sessions.find("s", "r")
    assert run is not None
    assert run.errors is not None
    guard.feed(message(message_id=f"{LONG}b"), 0.0)
    assert run.errors is None


def test_batch_without_an_end_is_bounded() -> None:
    """A gateway that has one batch id for all calls does not make a run grow, and its loops are found."""
    guard = guard_of(enabled=True)
    sizes = []
    for at in range(3 * WIDEST):
        guard.feed(start(f"c{at}", args=at, batch_id="b"), 0.0)
        guard.feed(settle(f"c{at}", batch_id="b", result=f"{at}"), 0.0)
        if at % 1000 == 0:
            run = guard._sessions.find("s", "r")
            assert run is not None
            sizes.append(len(run.in_full().slots) + len(run.previous.slots))
    assert max(sizes) <= 2 * WIDEST
    guard.feed(start("again", args=3 * WIDEST - 1, batch_id="b"), 0.0)
    assert isinstance(guard.feed(settle(f"c{3 * WIDEST - 1}", batch_id="b"), 0.0).answer, Deliver)
    assert [blocked_in(guard, "b", at) for at in range(4)] == [False, False, False, True]


def blocked_in(guard: Guard, batch_id: str, at: int) -> bool:
    """Whether the next identical call of a batch is refused."""
    return isinstance(guard.feed(start(f"z{at}", args="z", batch_id=batch_id), 0.0).answer, Blocked)


def test_batch_without_an_end_whose_calls_never_settle_is_bounded() -> None:
    """One batch id for all calls, and no settlements: parallel calls by the ten thousand, but not without end."""
    guard = guard_of(enabled=None)
    facts = [fact for at in range(MOST + 10) for fact in guard.feed(start(f"c{at}", batch_id="b"), 0.0).facts]
    assert [fact.calls for fact in facts if isinstance(fact, CallsUnsettled)] == [MOST]
    run = guard._sessions.find("s", "r")
    assert run is not None
    assert len(run.in_full().slots) + len(run.previous.slots) == WIDEST + 10


def test_blocked_batch_without_an_end_is_bounded() -> None:
    """Starts of a blocked batch are refused however many there are, and only the newest are remembered."""
    guard = guard_of()
    for at in range(3):
        call(guard, f"c{at}")
    for at in range(WIDEST + 100):
        step = guard.feed(start(f"d{at}", args=SAME if at == 2 else at, batch_id="b"), 0.0)
        assert isinstance(step.answer, Blocked if at >= 2 else Proceed)
    run = guard._sessions.find("s", "r")
    assert run is not None
    assert len(run.in_full().slots) <= WIDEST


def test_wide_batch_that_is_over_is_cut() -> None:
    """Of a batch of any size the newest calls are kept once the next one begins; these are still recognised."""
    guard, calls = guard_of(), WIDEST + 50
    batch = [(f"w{at}", "read", {"at": at}) for at in range(calls)]
    for at, one in enumerate(batch):
        guard.feed(start(*one, batch_id="b", index=at, batch=batch if at == 0 else None), 0.0)
    for at in range(calls - 1):
        guard.feed(settle(f"w{at}", batch_id="b", result=f"r{at}"), 0.0)
    guard.feed(start("next", args="next", batch_id="c"), 0.0)
    run = guard._sessions.find("s", "r")
    assert run is not None
    assert len(run.previous.slots) == WIDEST
    before = run.all_calls
    guard.feed(settle(f"w{calls - 2}", batch_id="b", result="again"), 0.0)
    guard.feed(settle(f"w{calls - 1}", batch_id="b", result="late"), 0.0)
    assert run.all_calls == before


def test_wide_batch_is_judged_without_quadratic_work() -> None:
    """Ten thousand calls in one response, every start with the whole list: each is judged once."""
    guard = guard_of()
    batch = [(f"w{at}", "read", {"at": at}) for at in range(10_000)]
    events = [start(*one, batch_id="b", index=at) for at, one in enumerate(batch)]
    first = start(*batch[0], batch_id="b", index=0, batch=batch)
    assert isinstance(guard.feed(first, 0.0).answer, Proceed)
    for event in events[1:]:
        assert isinstance(guard.feed(event, 0.0).answer, Proceed)
    for at in reversed(range(10_000)):
        guard.feed(settle(f"w{at}", batch_id="b", result=f"r{at}"), 0.0)
    run = guard._sessions.find("s", "r")
    assert run is not None
    assert not run.in_full().running
    assert not run.in_full().queue


def test_calls_that_share_an_id_make_no_quadratic_work() -> None:
    """Twice as many calls of one id, told apart by index, take about twice as many steps."""

    def steps(calls: int) -> int:
        taken = 0

        def count(frame: object, what: str, _: object) -> None:
            nonlocal taken
            taken += what == "call"

        guard = guard_of()
        events = [start("same", args={"at": at}, batch_id="b", index=at) for at in range(calls)]
        settled = [settle("same", batch_id="b", index=at) for at in range(calls)]
        sys.setprofile(count)
        try:
            for begun in events:
                guard.feed(begun, 0.0)
            for ended in settled:
                guard.feed(ended, 0.0)
        finally:
            sys.setprofile(None)
        return taken

    assert steps(400) < 3 * steps(200)
