"""State across restarts: a guard that was written down and read again goes on as one that was never stopped."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from helpers import compaction, line, message, settings_of, settle, start, turns
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import Step, events_of, seeded, small_settings, steps
from xxhash import xxh3_128_digest

from loopguard_plugin import LoopGuard, LoopGuardError, SnapshotError, TurnEndingError
from loopguard_plugin.answers import AgentsUnnamed, Blocked, Deliver, Proceed, RunEvicted
from loopguard_plugin.core.batch import Batch, Slot
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.core.history import History
from loopguard_plugin.core.notes import Buckets
from loopguard_plugin.core.observe import Call, Settlement
from loopguard_plugin.core.post_compaction import CompactionWindow
from loopguard_plugin.core.precedence import Loop
from loopguard_plugin.core.record import Record
from loopguard_plugin.core.repeated_errors import RepeatedErrors
from loopguard_plugin.core.run import Leftovers, Run
from loopguard_plugin.core.sessions import Session, Sessions
from loopguard_plugin.core.snapshot import MARK, VERSION
from loopguard_plugin.core.streaks.error_cascade import ErrorCascade
from loopguard_plugin.core.streaks.since import Since
from loopguard_plugin.core.streaks.stagnation import Stagnation
from loopguard_plugin.events import Event
from loopguard_plugin.settings import Settings

HEADER = len(MARK) + 1 + 16
APART = 7.0  # seconds between events
LATER = 1_000_000.0  # what the next process's clock is ahead

POLICIES: list[dict[str, object]] = [
    {"mutates": True},
    {"exempt": ["generic_repeat"]},
    {"warningThreshold": 2, "criticalThreshold": 3},
    {"errorRetries": 4},
    {"kind": "poll"},
    {"ignoreResult": ["changed", "aggregated", "a.b"], "identity": ["p", "path"]},
]
OWN: dict[str, st.SearchStrategy[object]] = {
    "mode": st.sampled_from(["enforce", "enforce", "observe"]),
    "detectors": st.fixed_dictionaries({"stagnation": st.booleans(), "errorCascade": st.booleans()}),
    "tools": st.dictionaries(st.sampled_from(["read", "exec", "write", "fr*"]), st.sampled_from(POLICIES), max_size=3),
    "limits": st.sampled_from([{}, {}, {"callsPerTurn": 6}, {"callsPerRun": 25}]),
    "agents": st.just({"cron": {"mode": "observe", "tools": {"list": {"kind": "poll"}}}}),
    "maxRuns": st.sampled_from([2, 3, 50, 50]),
    "idleMinutes": st.sampled_from([1, 3, 30, 30]),
}
everything = st.fixed_dictionaries({"loopDetection": small_settings, "own": st.fixed_dictionaries(OWN)})


def whole(loop: dict[str, object], own: dict[str, object] | None = None) -> Settings:
    """Settings from ``tools.loopDetection`` and the plugin's own."""
    plugin = {"entries": {"loopguard": {"config": own or {}}}}
    return settings_of({"tools": {"loopDetection": loop}, "plugins": plugin})


def small(**own: object) -> Settings:
    """Note at 3, block at 5."""
    return whole({"enabled": True, "warningThreshold": 3, "criticalThreshold": 5}, own)


def told(guard: Guard, event: Event, now: float) -> tuple[object, ...]:
    """All that a step says: the answer, or the error with all its fields, the facts, and how the run stands."""
    step = guard.feed(event, now)
    ended = guard.ended(event.session_key, event.run_id)
    error = step.error and vars(step.error)
    facts = tuple(fact for fact in step.facts if not isinstance(fact, AgentsUnnamed))  # once a guard, of no run
    return step.answer, error, facts, ended and vars(ended), guard.runs


def fed(chosen: Settings, events: Sequence[Event]) -> Guard:
    """A guard after these events, one at each second from 0."""
    guard = Guard(chosen)
    for at, event in enumerate(events):
        guard.feed(event, float(at))
    return guard


def again(guard: Guard, chosen: Settings, *, now: float = 0.0, then: float = 0.0) -> Guard:
    """The guard of the next process."""
    restored = Guard(chosen)
    restored.restore(guard.snapshot(now), then)
    return restored


def with_agents(events: Sequence[Event]) -> list[Event]:
    """Some events name an agent, as a run may that goes over to another one."""
    return [
        msgspec.structs.replace(event, agent_id="cron") if at % 11 == 5 else event for at, event in enumerate(events)
    ]


@settings(max_examples=150)
@given(everything, steps, st.integers(0, 10_000))
def test_a_restart_changes_nothing(config: dict[str, Any], plan: list[Step], cut: int) -> None:
    """Stopped and restored anywhere, every further answer, error and fact equals that of an uninterrupted guard."""
    chosen = whole(config["loopDetection"], config["own"])
    events = with_agents(events_of(plan))
    cut %= len(events) + 1
    guard = Guard(chosen)
    for at, event in enumerate(events[:cut]):
        guard.feed(event, at * APART)
    now = cut * APART
    restored = again(guard, chosen, now=now, then=now + LATER)
    assert restored.snapshot(now + LATER) == guard.snapshot(now)
    for at, event in enumerate(events[cut:], cut):
        expected = told(guard, event, at * APART)
        assert told(restored, event, at * APART + LATER) == expected, f"event {at}, restarted before {cut}: {event}"
    now = len(events) * APART
    assert restored.snapshot(now + LATER) == guard.snapshot(now)


@pytest.mark.parametrize("seed", range(40))
def test_a_restart_before_every_event_changes_nothing(seed: int) -> None:
    """Not even a gateway that is restarted before every single event answers otherwise."""
    loop, events = seeded(seed)
    draw = random.Random(seed)
    own: dict[str, object] = {
        "mode": draw.choice(["enforce", "enforce", "observe"]),
        "detectors": {"stagnation": draw.random() < 0.5, "errorCascade": draw.random() < 0.5},
        "tools": {tool: draw.choice(POLICIES) for tool in draw.sample(["read", "exec", "write"], 2)},
        "agents": {"cron": {"mode": "observe"}},
    }
    chosen = whole(loop, own)
    guard, restarted = Guard(chosen), Guard(chosen)
    for at, event in enumerate(with_agents(events)):
        now = at * APART
        restarted = again(restarted, chosen, now=now + (at - 1) * LATER, then=now + at * LATER)
        assert restarted.snapshot(now + at * LATER) == guard.snapshot(now), f"before event {at}: {event}"
        assert told(restarted, event, now + at * LATER) == told(guard, event, now), f"event {at}: {event}"


def test_ten_thousand_runs_go_on() -> None:
    """10,000 runs are written and read in seconds, and the next verdict of each equals that without a restart."""
    chosen = small(maxRuns=10_000, idleMinutes=10_000)
    guard = Guard(chosen)
    runs = [(f"s{at % 3000}", f"r{at}") for at in range(10_000)]
    for at, (session, run) in enumerate(runs):
        for call in range(at % 6 + 1):
            tool = ("read", "exec", "frob")[at % 3]
            error = "unknown tool" if at % 5 == 4 else None
            guard.feed(start(f"c{call}", tool, session=session, run=run), 1.0)
            if call or at % 7:
                guard.feed(settle(f"c{call}", tool, error=error, session=session, run=run), 1.0)
    began = time.process_time()
    restored = again(guard, chosen, now=2.0, then=2.0)
    assert time.process_time() - began < 20
    assert restored.runs == guard.runs == 10_000
    seen = set()
    for at, (session, run) in enumerate(runs):
        event = start("next", ("read", "exec", "frob")[at % 3], session=session, run=run)
        expected = told(guard, event, 3.0)
        assert told(restored, event, 3.0) == expected
        seen.add(type(expected[0]))
    assert seen == {Proceed, Blocked, type(None)}  # the last is an error in place of an answer


def busy() -> Guard:
    """A guard with something of everything: a batch amid settling, notes, blocks, errors, a window, a parked run."""
    own = {"tools": {"write": {"mutates": True}}, "idleMinutes": 5}
    listed = [("x0", "read", {"p": 1}), ("x1", "exec", {"command": "a"}), ("x2", "list", {})]
    events: list[Event] = [
        start("p", run="waits"),
        message(message_id="m1", run=None),
        *turns(4, "read", {"p": 1}),
        start("w", "write", {"path": "a"}, agent="cron"),
        settle("w", "write"),
        *turns(6, "wait", {}, prefix="d"),
        compaction(),
        start("x0", "read", {"p": 1}, batch_id="b", index=0, batch=listed),
        start("x1", "exec", {"command": "a"}, batch_id="b", index=1, batch=listed),
        settle("x1", "exec", error="no such file", batch_id="b", index=1),
        settle("orphan", "list", error="boom"),
        *(msgspec.structs.replace(one, run_id="errs") for one in turns(3, error="boom")),
    ]
    guard = Guard(small(**own))
    for at, event in enumerate(events):
        guard.feed(event, 0.0 if at == 0 else 400.0)
    return guard


BUSY = busy().snapshot(500.0)


def refused(data: bytes) -> str:
    """What is said about such bytes; the guard that they were offered to must be as it was."""
    guard = fed(small(), turns(2))
    before = guard.snapshot(9.0)
    with pytest.raises(SnapshotError) as caught:
        guard.restore(data, 9.0)
    assert guard.snapshot(9.0) == before
    return str(caught.value)


def test_every_flipped_byte_is_found() -> None:
    """Damage to any one byte is told, and changes nothing."""
    for at in range(len(BUSY)):
        for bit in (0x01, 0x80, 0xFF):
            refused(BUSY[:at] + bytes((BUSY[at] ^ bit,)) + BUSY[at + 1 :])


def test_every_truncation_is_found() -> None:
    """A snapshot that was cut anywhere, lost one byte or has one too many is told, and changes nothing."""
    for at in range(len(BUSY)):
        refused(BUSY[:at])
        refused(BUSY[:at] + BUSY[at + 1 :])
    refused(BUSY + b"\0")


def test_another_version() -> None:
    """A snapshot of a version that is not known names both versions."""
    newer = MARK + bytes((VERSION + 1,)) + BUSY[len(MARK) + 1 :]
    assert refused(newer) == f"the snapshot is of version {VERSION + 1}, this loopguard reads version {VERSION}"


@pytest.mark.parametrize("data", [None, "loopguard", 7, b"", b"{}", b"loopguar", MARK])
def test_no_snapshot_at_all(data: Any) -> None:
    """Anything that is no snapshot is refused as such."""
    assert "snapshot" in refused(data)


def sealed(body: object) -> bytes:
    """A snapshot that is undamaged, whatever stands in it."""
    packed = msgspec.msgpack.encode(body)
    return MARK + bytes((VERSION,)) + xxh3_128_digest(packed) + packed


WRONG: list[Any] = ["x", -7, 1 << 40, None, [], 2.5, b"\xff", float("nan")]


def altered(tree: Any) -> Iterator[Any]:
    """The tree once for every part of it and every wrong value in its place."""
    yield from WRONG
    if isinstance(tree, list):
        for at, part in enumerate(tree):
            yield tree[:at] + tree[at + 1 :]
            for other in altered(part):
                yield [*tree[:at], other, *tree[at + 1 :]]


def test_wrong_types_and_places_are_found() -> None:
    """What is undamaged but cannot be read is refused with the same error; nothing else is ever raised."""
    guard = fed(small(), [start("c", batch_id="b"), start("e", run="q"), settle("e", error="boom", run="q")])
    body = msgspec.msgpack.decode(guard.snapshot(3.0)[HEADER:])
    taken = Guard(small())
    wrong = 0
    for tree in altered(body):
        before = taken.snapshot(3.0)
        try:
            taken.restore(sealed(tree), 3.0)
        except SnapshotError:
            wrong += 1
            assert taken.snapshot(3.0) == before
        else:
            taken = Guard(small())  # another count or another text: it is not for us to know better
    assert wrong > 500
    assert refused(sealed([])).startswith("the snapshot does not fit together: ")


def test_restored_sealed_bytes() -> None:
    """The seal of these tests is that of the snapshot: the body as it is can be restored."""
    assert sealed(msgspec.msgpack.decode(BUSY[HEADER:])) == BUSY


def test_error_tree() -> None:
    """One except clause catches it with the package's other errors, or as a ValueError."""
    assert issubclass(SnapshotError, LoopGuardError)
    assert issubclass(SnapshotError, ValueError)


def test_no_contents() -> None:
    """Neither arguments nor results are found in the bytes, wherever they came in."""
    secret = "hunter2"
    args = {"token": secret, secret: 1}
    events = [
        start("a", "read", args, batch_id="b", batch=[("a", "read", args), ("z", "list", [secret])]),
        settle("a", "read", {"content": [{"type": "text", "text": secret}], "details": {"x": secret}}, batch_id="b"),
        start("b", "exec", {"command": f"echo {secret}"}),
        settle("b", "exec", {"status": "completed", "exitCode": 1, "aggregated": f"{secret} is wrong"}),
        settle("c", "list", secret, args=secret),
        start("d", "progress_card", secret),
        settle("d", "progress_card", identity=secret),
        *turns(8, "read", secret, prefix="r", result=secret),
        *turns(2, "edit", args, prefix="f", error=secret),
        *turns(1, "read", {}, prefix="ok"),
    ]
    for mode in ("enforce", "observe"):
        assert secret.encode() not in fed(small(mode=mode), events).snapshot(99.0)


def test_last_error_text_of_a_streak() -> None:
    """The one text from outside is the last error of a failure streak, 300 characters at most; a success drops it."""
    events = turns(2, "edit", error="why " + 300 * "x")
    guard = fed(small(), events)
    assert b"why " + 296 * b"x" in guard.snapshot(9.0)
    assert 297 * b"x" not in guard.snapshot(9.0)
    guard.feed(start("ok"), 9.0)
    guard.feed(settle("ok"), 9.0)
    assert b"why " not in guard.snapshot(9.0)


def test_late_result_reaches_the_window() -> None:
    """A call that was open at the restart has its record in the window still: its late result fills that."""
    events = [*turns(2), start("open", "read"), start("other", "list"), settle("other", "list")]
    guard = fed(small(), [*events, start("third", "edit")])
    restored = again(guard, small())
    for one in (guard, restored):
        one.feed(settle("open", "read"), 9.0)
        one.feed(start("note me"), 9.0)
        answer = one.feed(settle("note me"), 9.0).answer
        assert isinstance(answer, Deliver)
        assert answer.count == 3


def test_open_calls_that_died_with_the_process() -> None:
    """The first start after a restart ends the batch that was open: its calls count as aborted, which is told."""
    restored = again(fed(small(), [*turns(2), start("lost", "edit")]), small())
    step = restored.feed(start("c3"), 9.0)
    assert [type(fact).__name__ for fact in step.facts] == ["CallsUnsettled"]


def test_order_of_use_and_ages() -> None:
    """Runs are dropped in the order in which they would have been, counted in time that the guard was up."""
    chosen = small(maxRuns=3, idleMinutes=1)
    guard = Guard(chosen)
    for at, run in enumerate(("a", "b", "c", "a")):
        guard.feed(settle(f"c{at}", run=run), 10.0 * at)
    restored = again(guard, chosen, now=40.0, then=5.0)

    def dropped(event: Event, now: float) -> list[str | None]:
        return [fact.run_id for fact in restored.feed(event, now).facts if isinstance(fact, RunEvicted)]

    assert dropped(settle("d", run="d"), 6.0) == ["b"]
    assert dropped(settle("e", run="d"), 44.0) == []
    assert dropped(settle("f", run="d"), 45.0) == ["c"]


def test_parked_runs_stay_parked() -> None:
    """An idle run with an open call is kept for its day, also across a restart, and its call with it."""
    guard = Guard(small(idleMinutes=1, maxRuns=2))
    guard.feed(start("open", run="a"), 0.0)
    guard.feed(settle("c", run="b"), 100.0)
    restored = again(guard, small(idleMinutes=1, maxRuns=2), now=100.0, then=0.0)
    facts = restored.feed(settle("d", run="c"), 1.0).facts
    assert [(fact.run_id, fact.open_calls) for fact in facts if isinstance(fact, RunEvicted)] == [("a", 1)]


def test_settings_are_those_of_the_restoring_guard() -> None:
    """A restart is when settings change: counts stay, thresholds are the new ones."""
    first = LoopGuard(small())
    for event in turns(4):
        first.feed(event)
    second = LoopGuard(settings_of({"enabled": True, "warningThreshold": 2, "criticalThreshold": 4}))
    second.restore(first.snapshot())
    assert line(second.feed(start("c5")))[:3] == ("block", "generic_repeat", 4)


def test_restore_replaces() -> None:
    """What a guard knew before is replaced by what the snapshot knows, of a run of the same name too."""
    one, other = LoopGuard(small()), LoopGuard(small())
    for event in turns(5):
        one.feed(event)
    other.feed(start("c", run="elsewhere"))
    other.feed(start("c"))
    other.restore(one.snapshot())
    assert line(other.feed(start("c6")))[:3] == ("block", "generic_repeat", 5)
    assert other.stats().runs == 1
    assert other.ended("s", "elsewhere") is None
    assert b"elsewhere" not in other.snapshot()


def test_clean_start_after_an_error() -> None:
    """A guard that was offered damaged bytes works on as a fresh one, and its errors are not counted as its own."""
    guard = LoopGuard(small())
    with pytest.raises(SnapshotError, match="damaged"):
        guard.restore(BUSY[:-1])
    assert [line(guard.feed(event)).action for event in turns(1)] == ["proceed", "deliver"]
    assert guard.stats().errors == 0


def test_an_ended_turn_stays_ended() -> None:
    """``ended`` gives the error again after a restart, and the redelivered settlement raises it again."""
    guard = LoopGuard(small())
    *before, last = turns(3, error="boom")
    for event in before:
        guard.feed(event)
    with pytest.raises(TurnEndingError) as first:
        guard.feed(last)
    restored = LoopGuard(small())
    restored.restore(guard.snapshot())
    ended = restored.ended("s", "r")
    assert ended is not None
    assert ended.message == first.value.message
    with pytest.raises(TurnEndingError, match="3 times"):
        restored.feed(last)


def test_names_that_no_encoding_holds() -> None:
    """Lone surrogates in names and errors, and an index beyond 64 bits, are no reason to lose all state."""
    odd = "re\ud800ad"
    events: list[Event] = [
        start("c\udfff", odd, batch_id="\ud801", index=1 << 70, session="\ud802", run="\ud803"),
        settle("c\udfff", odd, error="\ud804", batch_id="\ud801", session="\ud802", run="\ud803"),
    ]
    guard = fed(small(), events)
    restored = again(guard, small())
    assert told(restored, events[1], 2.0) == told(guard, events[1], 2.0)
    assert told(restored, start("d", odd, session="\ud802", run="\ud803"), 2.0)[1:] == (None, (), None, 1)


# What the core keeps, and where it is: written, or made anew from what is written.
WRITTEN: dict[type, set[str]] = {
    Sessions: {"_by_key", "_parked", "_runs"},
    Session: {"_messages", "buckets", "runs"},
    Buckets: {"_last"},
    Run: {
        *("agent_id", "all_calls", "armings", "calls", "calls_before", "continued", "current", "ending", "errors"),
        *("history", "last_seen", "left", "loose", "parked", "before", "run_id", "session_key", "spent", "told"),
        *("lone", "made", "window"),  # of one call that stands for its batch: with that
    },
    Leftovers: {"orphans", "remembered", "would"},
    Batch: {
        *("admitted", "arrivals", "batch_id", "culprit", "foreign", "news", "owed", "raised", "refusal", "running"),
        "slots",
    },
    Slot: {
        *("armed_at", "call", "call_id", "ending", "ignored", "index", "note", "record", "refusal", "settlement"),
        *("state", "warning"),
    },
    Call: {"ignore", "key", "kind", "rule", "shown", "similar", "tool"},
    Settlement: {"error_text", "exec_failure", "failure", "outcome", "status", "unchanged", "unknown_tool"},
    Loop: {"count", "detector", "key", "level", "outcome", "row", "same", "tools"},
    Record: {"failure", "key", "marks", "outcome", "tool"},
    RepeatedErrors: {"count", "key", "outcome", "text"},
    CompactionWindow: {"_before", "_first", "_same", "repeats", "seen", "size"},
    History: {"_since", "cascade", "cascades", "records", "size", "stagnation"},
    Since: {"calls"},
    Stagnation: {"count", "remembered", "stale"},
    ErrorCascade: {"_calls", "_tools", "row"},
}
MADE_ANEW: dict[type, set[str]] = {
    Sessions: {"due", "idle", "latest", "limit"},
    Run: {"apart", "buckets", "capped", "careful", "limits", "patient", "settings", "tools"},
    Leftovers: {"batches"},
    Call: {"plain"},
    Batch: {"by_id", "places", "projection", "queue", "shadow"},
    Slot: {"order"},
    History: {"_tails", "brim", "busy", "calm", "lines", "newest", "stirred", "swing"},
    Since: {"by_key"},
    Stagnation: {"pending"},
    ErrorCascade: {"_equal", "_newest", "many"},
}


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.__name__)
def test_no_field_of_the_core_is_forgotten(kind: type) -> None:
    """A field that is new in the core is given a place in the snapshot (and a new version), or is made anew."""
    fields = set(getattr(kind, "__struct_fields__", ()) or kind.__dict__["__slots__"])
    assert fields == WRITTEN[kind] | MADE_ANEW.get(kind, set())
