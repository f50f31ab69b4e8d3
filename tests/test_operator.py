"""What operators set under ``plugins.entries.loopguard.config``: each setting changes what the guard does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import anyio
import pytest
from helpers import message, play, settle, start, turns

from loopguard_plugin import EmbeddedBus, LoopGuard, TurnEndingError
from loopguard_plugin.answers import Blocked, Code, Deliver, Detector, Proceed, RunEnded
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.decisions import Action, LoopGuardDecision
from loopguard_plugin.events import Event
from loopguard_plugin.settings import parse_settings


def config(*, tools: object = None, loop: dict[str, Any] | None = None, **plugin: Any) -> dict[str, Any]:
    """A whole config file with small thresholds: note at 3, block at 5."""
    detection = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 5, **(loop or {})}
    own = {**plugin, **({"tools": tools} if tools is not None else {})}
    return {"tools": {"loopDetection": detection}, "plugins": {"entries": {"loopguard": {"config": own}}}}


def calls(count: int, tool: str = "read", args: object = 1, **settled: Any) -> list[Event]:
    """So many calls, one after another, ids apart."""
    return [
        event
        for at in range(count)
        for event in (start(f"{tool}{args}-{at}", tool, args), settle(f"{tool}{args}-{at}", tool, **settled))
    ]


def actions(settings: dict[str, Any], events: Iterable[Event]) -> list[str]:
    """What was done, event by event, with the detector where there is one."""
    return [f"{action}:{detector}" if detector else action for action, detector, _, _ in play(settings, events)]


def first(wanted: str, done: list[str]) -> int | None:
    """At which event something was done first."""
    return done.index(wanted) if wanted in done else None


NOTE, BLOCK = "note:generic_repeat", "block:generic_repeat"


def test_thresholds_of_one_tool() -> None:
    """A tool's own thresholds count for it, the usual ones for the others."""
    settings = config(tools={"search": {"warningThreshold": 2, "criticalThreshold": 3}})
    assert first(BLOCK, actions(settings, calls(6, "search"))) == 6
    assert first(BLOCK, actions(settings, calls(6, "read"))) == 10
    assert first(NOTE, actions(settings, calls(6, "search"))) == 5


def test_breaker_and_unknown_tool_thresholds_of_one_tool() -> None:
    """The breaker and the unknown-tool threshold may be set for one tool as well."""
    breaker = config(
        tools={"poke": {"globalCircuitBreakerThreshold": 6, "exempt": ["generic_repeat"]}},
    )
    assert first("block:global_circuit_breaker", actions(breaker, calls(8, "poke"))) == 12
    unknown = config(tools={"frob*": {"unknownToolThreshold": 2}})
    missing = [
        event
        for at in range(4)
        for event in (
            start(f"c{at}", "frobnicate", at),
            settle(f"c{at}", "frobnicate", status="unknown_tool", error="x"),
        )
    ]
    assert first("block:unknown_tool_repeat", actions(unknown, missing)) == 4


def test_exemption_by_glob() -> None:
    """An exempt detector passes the tool over; the breaker still holds, unless it is named too."""
    settings = config(tools={"browser_*": {"exempt": ["generic_repeat"]}}, loop={"globalCircuitBreakerThreshold": 8})
    done = actions(settings, calls(10, "browser_click"))
    assert NOTE not in done
    assert first("block:global_circuit_breaker", done) == 16
    free = config(
        tools={"browser_*": {"exempt": ["generic_repeat", "global_circuit_breaker"]}},
        loop={"globalCircuitBreakerThreshold": 8},
    )
    assert set(actions(free, calls(10, "browser_click"))) == {"proceed", "deliver"}


def test_exemption_from_each_detector() -> None:
    """Ping-pong, churn, pollers and missing tools: each detector's row can be passed over for a tool."""
    both = {"genericRepeat": False}
    turns = [event for at in range(6) for event in (*calls_at("read", 1, at), *calls_at("list", 2, at))]
    assert first("block:ping_pong", actions(config(loop={"detectors": both}), turns)) is not None
    exempt = config(
        tools={"read": {"exempt": ["ping_pong"]}, "list": {"exempt": ["ping_pong"]}}, loop={"detectors": both}
    )
    assert first("block:ping_pong", actions(exempt, turns)) is None
    polls = calls(7, "process", {"action": "poll"})
    assert first("block:known_poll_no_progress", actions(config(), polls)) == 10
    assert (
        first(
            "block:known_poll_no_progress",
            actions(config(tools={"process": {"exempt": ["known_poll_no_progress"]}}), polls),
        )
        is None
    )


def calls_at(tool: str, args: object, at: int, **settled: Any) -> Iterator[Event]:
    """One call of a longer sequence."""
    call_id = f"{tool}-{args}-{at}"
    yield start(call_id, tool, args)
    yield settle(call_id, tool, **settled)


def test_declared_poller() -> None:
    """A tool declared ``poll`` is judged as a poller; ``plain`` takes that away."""
    assert (
        first(
            "block:known_poll_no_progress",
            actions(config(tools={"ci_status": {"kind": "poll"}}), calls(7, "ci_status")),
        )
        == 10
    )
    assert first(BLOCK, actions(config(tools={"command_status": {"kind": "plain"}}), calls(7, "command_status"))) == 10


def test_arguments_that_identify_a_call() -> None:
    """Only the named arguments count: a request id that changes every time hides no repetition."""
    events = [e for at in range(7) for e in calls_at("fetch", {"url": "u", "meta": {"request": at}}, at)]
    assert first(BLOCK, actions(config(), events)) is None
    assert first(BLOCK, actions(config(tools={"fetch": {"identity": ["url"]}}), events)) == 10
    assert first(BLOCK, actions(config(tools={"fetch": {"identity": []}}), events)) == 10
    deep = config(tools={"fetch": {"identity": ["url", "meta.request"]}})
    assert first(BLOCK, actions(deep, events)) is None


def report(at: int, shape: str) -> object:
    """The same report with a time and an id in it, in the shapes in which tools give one."""
    body = {"generatedAt": at, "meta": {"requestId": f"r{at}", "rows": 2}, "rows": [{"n": 1, "seen": at}]}
    text = json.dumps(body)
    shapes = {
        "object": body,
        "text": text,
        "content": {"content": text},
        "blocks": {"content": [{"type": "text", "text": text}], "details": body},
        "list": [body],
    }
    return shapes[shape]


@pytest.mark.parametrize("shape", ["object", "text", "content", "blocks", "list"])
def test_volatile_parts_of_a_result(shape: str) -> None:
    """Paths that change every time without being progress are left out, and nothing else is."""
    events = [e for at in range(7) for e in calls_at("report", 1, at, result=report(at, shape))]
    paths = ["generatedAt", "meta.requestId", "rows.seen"]
    if shape == "blocks":
        paths += [f"details.{path}" for path in paths]
    assert first(BLOCK, actions(config(), events)) is None
    assert first(BLOCK, actions(config(tools={"report": {"ignoreResult": paths}}), events)) == 10
    assert first(BLOCK, actions(config(tools={"report": {"ignoreResult": paths[:1]}}), events)) is None


def test_ignored_parts_are_still_delivered() -> None:
    """What is not compared reaches the model all the same."""
    settings = config(tools={"report": {"ignoreResult": ["generatedAt"]}})
    guard = Guard(parse_settings(settings))
    guard.feed(start("c", "report"), 0.0)
    result = {"generatedAt": 5, "rows": 1}
    answer = guard.feed(settle("c", "report", result), 0.0).answer
    assert isinstance(answer, Deliver)
    assert answer.result is result
    assert result == {"generatedAt": 5, "rows": 1}


@pytest.mark.parametrize(("retries", "ends_at"), [(0, 1), (1, 3), (2, 5), (4, 9)])
def test_error_retries_of_one_tool(retries: int, ends_at: int) -> None:
    """A tool that is to be retried may fail so often more; nothing exempts it for good."""
    settings = config(tools={"flaky": {"errorRetries": retries}}, loop={"enabled": None})
    done = actions(settings, calls(6, "flaky", error="503, try again"))
    assert first("end_turn:repeated_tool_error", done) == ends_at


def test_edits_between_make_tests_new_attempts() -> None:
    """Edit, test, edit, test: with the edit declared, the same failing test is a new attempt each time."""
    failed = {"status": "completed", "exitCode": 1, "aggregated": "1 failed"}
    turns = [
        event
        for at in range(8)
        for event in (*calls_at("edit", at, at), *calls_at("exec", {"command": "pytest"}, at, result=failed))
    ]
    assert first(BLOCK, actions(config(), turns)) == 4 * 5 + 2
    assert set(actions(config(tools={"edit": {"mutates": True}}), turns)) == {"proceed", "deliver"}


def test_edits_do_not_soften_the_error_guard_nor_a_block() -> None:
    """A declared edit renews warnings and exec failures alone: errors end the turn, equal successes are blocked."""
    settings = config(tools={"edit": {"mutates": True}})
    reads = [event for at in range(8) for event in (*calls_at("edit", at, at), *calls_at("read", 1, at))]
    done = actions(settings, reads)
    assert NOTE not in done
    assert first(BLOCK, done) == 4 * 5 + 2
    assert first("end_turn:repeated_tool_error", actions(settings, calls(3, "read", error="boom"))) == 5


def test_failed_edits_renew_nothing() -> None:
    """Only an edit that worked makes the next test a new attempt."""
    failed = {"status": "completed", "exitCode": 1, "aggregated": "1 failed"}
    turns = [
        event
        for at in range(8)
        for event in (
            *calls_at("edit", at, at, error=f"no match {at}"),
            *calls_at("exec", {"command": "pytest"}, at, result=failed),
        )
    ]
    assert first(BLOCK, actions(config(tools={"edit": {"mutates": True}}), turns)) == 4 * 5 + 2


def rounds(length: int, count: int, *, beside: bool = False, parallel: bool = False) -> Iterator[Event]:
    """``count`` steps of a round of ``length`` calls; ``beside`` gives each step a sibling that always differs."""
    for at in range(count):
        place = at % length
        batch = [(f"c{at}", f"tool{place}", {"at": place})]
        if beside:
            batch.append((f"x{at}", "search", {"q": at}))
        if parallel:
            batch.append((f"y{at}", f"tool{place}", {"also": place}))
        for index, (call_id, tool, args) in enumerate(batch):
            yield start(call_id, tool, args, batch_id=f"b{at}", index=index, batch=batch)
        for call_id, tool, _ in batch:
            yield settle(call_id, tool, f"hit {at}" if call_id[0] == "x" else "same", batch_id=f"b{at}")


SMALL = {"loop": {"warningThreshold": 10, "criticalThreshold": 20, "historySize": 5}}
OFF = {"detectors": {"stagnation": False, "errorCascade": False}}


@pytest.mark.parametrize("length", [3, 4, 8, 20, 30])
@pytest.mark.parametrize("parallel", [False, True])
def test_rounds_are_noted_and_blocked_whatever_the_history(length: int, parallel: bool) -> None:
    """Rounds of any length, one by one or in batches: noted, then blocked at twenty stale responses."""
    done = play(config(**SMALL), rounds(length, 2 * length + 24, parallel=parallel))
    assert next(one for one in done if one[0] == "block")[1:3] == ("stagnation", 20)
    assert next(one for one in done if one[0] == "note")[1:3] == ("stagnation", 10)
    off = play(config(**SMALL, **OFF), rounds(length, 2 * length + 24, parallel=parallel))
    assert not {one[1] for one in off} & {"stagnation", "error_cascade"}


def test_varying_sibling_is_news() -> None:
    """A response that brings something new beside a call that repeats is not stale."""
    done = play(config(**SMALL), rounds(4, 40, beside=True, parallel=True))
    assert all(one[1] != "stagnation" for one in done)


def test_round_with_progress_at_one_place_is_none() -> None:
    """Build, test, look: as long as one place gives something new, nothing is blocked."""
    events = [
        event
        for at in range(30)
        for event in calls_at(f"tool{at % 3}", 1, at, result=f"log {at}" if at % 3 == 1 else "same")
    ]
    assert all(one[1] != "stagnation" for one in play(config(**SMALL), events))


def test_error_cascade_is_noted_and_never_blocked() -> None:
    """Ten failures in a row, by two tools or with three arguments, are noted; any success ends the row."""
    settings = config(loop={"warningThreshold": 10, "criticalThreshold": 20})
    failing = [e for at in range(30) for e in calls_at(("fetch", "search")[at % 2], at, at, error=f"down {at}")]
    done = play(settings, failing)
    assert [(one[0], one[2]) for one in done if one[1] == "error_cascade"] == [("note", 10), ("note", 20)]
    one_tool = [e for at in range(12) for e in calls_at("fetch", at % 3, at, error=f"down {at}")]
    assert [one[2] for one in play(settings, one_tool) if one[1]] == [10]
    one_call = [e for at in range(12) for e in calls_at("fetch", at % 2, at, error=f"down {at}")]
    assert "error_cascade" not in {one[1] for one in play(settings, one_call)}
    helped = [*failing[:18], *calls_at("read", 0, 0), *failing[18:34]]
    assert not [one for one in play(settings, helped) if one[1]]


def test_error_cascade_counts_one_failure_whatever_came_between() -> None:
    """Ten equal failures of one tool among the latest calls are noted at the next call of it, of no other tool."""
    settings = config(loop={"historySize": 20})
    events: list[Event] = []
    for at in range(11):
        events += calls_at("fetch", at, 2 * at, error=f"down after {at} ms")
        events += calls_at("read", at, 2 * at + 1)
    done = play(settings, events)
    assert [(at, *one[:3]) for at, one in enumerate(done) if one[1]] == [(41, "note", "error_cascade", 10)]
    assert not [one for one in play(config(loop={"historySize": 18}), events) if one[1]]


def test_error_cascade_counts_a_batch_once() -> None:
    """Four failures of one response are one step."""
    settings = config(detectors={"errorCascade": True}, loop={"warningThreshold": 10, "criticalThreshold": 20})
    events: list[Event] = []
    for at in range(11):
        batch = [(f"c{at}-{n}", ("fetch", "search")[n % 2], (at, n)) for n in range(4)]
        events += [start(*call, batch_id=f"b{at}", index=n, batch=batch) for n, call in enumerate(batch)]
        events += [settle(call[0], call[1], error=f"down {call[2]}", batch_id=f"b{at}") for call in batch]
    done = play(settings, events)
    assert [one[2] for one in done if one[1] == "error_cascade"] == [10]
    assert next(at for at, one in enumerate(done) if one[1]) >= 80


@pytest.mark.parametrize("limits", [{"callsPerRun": 3}, {"callsPerTurn": 3}])
def test_hard_ceiling_of_calls(limits: dict[str, int]) -> None:
    """The call above the ceiling is not run and the turn ends, with rolling detectors off as well."""
    settings = config(limits=limits, loop={"enabled": None})
    events = [e for at in range(5) for e in calls_at("read", at, at)]
    done = play(settings, events[:7])
    assert done[6] == ("end_turn", "call_limit", 3, "call_limit_reached")


def test_listed_call_that_only_settles_counts_for_the_ceiling() -> None:
    """A call of the list that was made without being announced is one of the calls that were made."""
    listed: list[tuple[str, str, object]] = [("a", "read", 1), ("b", "read", 2)]
    events: list[Event] = [
        start(*listed[0], batch_id="x", index=0, batch=listed),
        settle("a", batch_id="x"),
        settle("b", batch_id="x"),
        start("c", args=3),
    ]
    done = actions(config(limits={"callsPerRun": 2}), events)
    assert done == ["proceed", "deliver", "deliver", "end_turn:call_limit"]


def test_history_that_was_switched_off_is_gone_amid_a_batch_too() -> None:
    """Siblings that start later are judged against the history of the moment."""
    loop: dict[str, Any] = {"warningThreshold": 4, "criticalThreshold": 50}
    guard = Guard(parse_settings(config(loop=loop)))
    one, other = {"p": 1}, {"p": 2}
    for at in range(6):
        guard.feed(start(f"c{at}", args=(one, other)[at % 2]), 0.0)
        guard.feed(settle(f"c{at}", deliverable=False), 0.0)  # so that no note has been given yet
    guard.feed(start("s0", args=one, batch_id="b"), 0.0)
    guard.feed(start("s1", args=other, batch_id="b"), 0.0)
    for enabled in (False, True):
        guard.use(parse_settings(config(loop={**loop, "enabled": enabled})))
        guard.feed(start("s1", args=other, batch_id="b"), 0.0)
    guard.feed(start("s2", args=one, batch_id="b"), 0.0)
    answer = guard.feed(settle("s2", batch_id="b"), 0.0).answer
    assert isinstance(answer, Deliver)
    assert answer.note is None


def test_ceiling_of_a_turn_is_renewed_by_the_user_and_that_of_a_run_is_not() -> None:
    """A user message begins another turn, not another run."""
    events = [e for at in range(3) for e in calls_at("read", at, at)]
    more = [message(), *calls_at("read", 3, 3)]
    assert [one[0] for one in play(config(limits={"callsPerTurn": 3}), [*events, *more])][-2:] == ["proceed", "deliver"]
    assert [one[0] for one in play(config(limits={"callsPerRun": 3}), [*events, *more[:2]])][-1] == "end_turn"


def test_batch_that_would_pass_the_ceiling_is_blocked_whole() -> None:
    """Of a batch of three where two more calls are allowed, none runs."""
    batch = [(f"c{at}", "read", at) for at in range(3)]
    events = [start(*call, batch_id="b", index=at, batch=batch) for at, call in enumerate(batch)]
    done = play(config(limits={"callsPerTurn": 2}), events)
    assert [one[0] for one in done] == ["end_turn", "block", "block"]


def observed(*, loop: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    return config(loop=loop), config(loop=loop, mode="observe")


def decisions(settings: dict[str, Any], events: Iterable[Event]) -> list[LoopGuardDecision]:
    """What is published on the bus beside the events themselves."""
    heard: list[LoopGuardDecision] = []

    async def hear(decision: LoopGuardDecision) -> None:
        heard.append(decision)

    async def main() -> None:
        bus = EmbeddedBus()
        bus.use(LoopGuard(parse_settings(settings), bus=bus))
        bus.subscribe(LoopGuardDecision, hear)
        for event in events:
            try:
                await bus.publish(event)
            except TurnEndingError:
                continue

    anyio.run(main)
    return heard


def test_observe_mode_decides_the_same_and_does_nothing() -> None:
    """Note, block and end are decided at the very calls where they would have happened, and nothing is changed."""
    enforce, observe = observed()
    events = calls(8)
    assert {one[0] for one in play(observe, events)} == {"proceed", "deliver"}
    done = [(one.action, one.detector, one.count) for one in decisions(observe, events)]
    assert done == [
        (Action.WOULD_WARN, Detector.GENERIC_REPEAT, 3),
        (Action.WOULD_BLOCK, Detector.GENERIC_REPEAT, 5),
        (Action.WOULD_END_TURN, Detector.GENERIC_REPEAT, 6),
    ]
    assert [one.action for one in decisions(enforce, events[:12])] == [Action.WARN, Action.BLOCK]


def test_observe_mode_lets_errors_and_compaction_loops_pass() -> None:
    """The always-on guards observe as well: the end of the turn is told, not made."""
    settings = config(mode="observe", loop={"enabled": None})
    events = calls(4, error="boom")
    assert {one[0] for one in play(settings, events)} == {"proceed", "deliver"}
    assert [(one.action, one.code, one.count) for one in decisions(settings, events)] == [
        (Action.WOULD_END_TURN, "repeated_tool_error", 3)
    ]


def test_observe_mode_tells_an_end_again_once_the_user_wrote() -> None:
    """Each turn that would have ended is told and summed up, whichever guard would have done it."""
    guard = Guard(parse_settings(config(mode="observe", loop={"enabled": None}, limits={"callsPerTurn": 4})))
    told = []
    for turn in ("a", "b"):
        events: list[Event] = [message(), *turns(6, prefix=turn, error="boom")]
        told.append([fact for event in events for fact in guard.feed(event, 0.0).facts if isinstance(fact, RunEnded)])
    codes = [Code.REPEATED_TOOL_ERROR, Code.CALL_LIMIT_REACHED]
    assert [[fact.code for fact in each] for each in told] == [codes, codes]
    (summary,) = guard.end_run("s", "r")
    assert summary.ends == 4  # type: ignore[attr-defined]  # a RunSummary


def test_ceiling_is_told_as_often_as_notes_come_in_observe_mode() -> None:
    """Past a ceiling each call would end the turn, whatever it is: once in ten is enough."""
    settings = config(mode="observe", limits={"callsPerRun": 3})
    events = [event for at in range(24) for event in (start(f"c{at}", args={"at": at}), settle(f"c{at}", result=at))]
    assert [one.count for one in decisions(settings, events)] == [3, 10, 20]


def test_observed_block_spends_no_allowance() -> None:
    """A run that is guarded from now on has met no block yet: its first one is no end."""
    enforce, observe = observed()
    guard = Guard(parse_settings(observe))
    for event in calls(7):
        guard.feed(event, 0.0)
    restarted = Guard(parse_settings(enforce))
    restarted.restore(guard.snapshot(0.0), 0.0)
    answer = restarted.feed(start("next", args=1), 0.0).answer
    assert isinstance(answer, Blocked)
    assert not answer.terminal


def test_observe_mode_of_one_agent() -> None:
    """An agent may be observed while the others are guarded."""
    settings = config(agents={"cron": {"mode": "observe"}})
    cron = [start(f"c{at}", agent="cron") for at in range(1)]
    assert play(settings, cron)[0][0] == "proceed"
    guard = Guard(parse_settings(settings))
    for agent, blocked in (("cron", False), ("chat", True)):
        answers = []
        for at in range(6):
            answers.append(guard.feed(start(f"c{at}", agent=agent, run=agent), 0.0).answer)
            if at < 5:
                guard.feed(settle(f"c{at}", agent=agent, run=agent), 0.0)
        assert isinstance(answers[-1], Blocked if blocked else Proceed)


def test_observed_run_is_summed_up_when_it_ends() -> None:
    """One summary says how often the guard would have stepped in; a quiet run has none."""
    guard = Guard(parse_settings(config(mode="observe")))
    for event in calls(8):
        guard.feed(event, 0.0)
    (summary,) = guard.end_run("s", "r")
    assert (summary.notes, summary.blocks, summary.ends) == (1, 1, 1)  # type: ignore[attr-defined]  # a RunSummary
    for event in calls(1):
        guard.feed(event, 0.0)
    assert guard.end_run("s", "r") == ()


def test_decisions_carry_no_contents_and_come_once() -> None:
    """A decision names tool, call and counts; a redelivered event decides nothing anew."""
    events = calls(6, args="secret-argument", result="secret-result")
    heard = decisions(config(), [events[0], *events])
    assert [(one.action, one.call_id) for one in heard] == [
        (Action.WARN, "readsecret-argument-3"),
        (Action.BLOCK, "readsecret-argument-5"),
    ]
    assert "secret-result" not in repr(heard)


def test_delivered_value_is_untouched_in_observe_mode() -> None:
    """Observe mode delivers the very object that the tool gave."""
    guard = Guard(parse_settings(config(mode="observe")))
    result = {"content": [{"type": "text", "text": "same"}]}
    for at in range(8):
        guard.feed(start(f"c{at}"), 0.0)
        answer = guard.feed(settle(f"c{at}", result=result), 0.0).answer
        assert isinstance(answer, Deliver)
        assert answer.result is result
        assert answer.note is None
