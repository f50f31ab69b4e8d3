"""Log lines: texts, levels, bound fields, no contents, and loguru's usual ways of silencing them (SPEC 12)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from helpers import SAME, compaction, detection, message, play, settings_of, settle, start, turns
from loguru import logger

from loopguard_plugin import EmbeddedBus, LoopGuard, TurnEndingError, logs
from loopguard_plugin.answers import BatchBlocked, Detector, NoteEmitted, WindowArmed
from loopguard_plugin.events import BatchCall, Event, ToolCallStarted

if TYPE_CHECKING:
    from loguru import Message, Record

SECRET = "hunter2"
PLACE = "session=s run=r"


class Sink(list["Record"]):
    """A sink that keeps the records."""

    def __call__(self, message: Message) -> None:
        self.append(message.record)

    def texts(self, level: str | None = None) -> list[str]:
        return [record["message"] for record in self if level in (None, record["level"].name)]


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A gateway's sink for everything."""
    kept = Sink()
    number = logger.add(kept, level=0)
    yield kept
    logger.remove(number)


def feed(guard: LoopGuard, events: list[Event]) -> None:
    """Feed all events; the turn may end on the way."""
    for event in events:
        try:
            guard.feed(event)
        except TurnEndingError:
            continue


@pytest.mark.parametrize(
    ("enabled", "rolling", "post_compaction"), [(None, "off", "on"), (True, "on", "on"), (False, "off", "off")]
)
def test_ready_line(enabled: bool | None, rolling: str, post_compaction: str, sink: Sink) -> None:
    """A guard says at its start which guards are on."""
    LoopGuard(settings_of(detection(enabled=enabled)))
    (record,) = sink
    assert record["level"].name == "INFO"
    guards = f"rolling detectors {rolling}, post-compaction guard {post_compaction}, repeated tool errors on"
    assert record["message"] == f"loopguard ready: {guards}"
    assert record["extra"]["event"] == "start"


def test_ready_line_names_agents_with_other_guards(sink: Sink) -> None:
    """An agent for whom other guards are on is named; one that only has other thresholds is not."""
    entries = {
        "safe-runner": {"tools": {"loopDetection": {"enabled": True}}},
        "patient": {"tools": {"loopDetection": {"warningThreshold": 12}}},
    }
    LoopGuard(settings_of({"agents": {"entries": entries}}))
    assert sink.texts() == [
        "loopguard ready: rolling detectors off, post-compaction guard on, repeated tool errors on "
        "(otherwise for: safe-runner)"
    ]


def test_line_of_a_guard_that_is_off(sink: Sink) -> None:
    """A plugin that is switched off says so, and does not say that anything is on."""
    LoopGuard(settings_of({"plugins": {"entries": {"loopguard": {"enabled": False}}}}))
    (text,) = sink.texts("INFO")
    assert "enabled: false" in text
    assert "ready" not in text


def test_adjustments_are_logged_once_with_both_values(sink: Sink) -> None:
    """A threshold that was raised is told with what was given and what is used, also where agents share it."""
    agents = {"entries": {name: {"tools": {"loopDetection": {"historySize": 40}}} for name in "ab"}}
    LoopGuard(settings_of({**detection(warningThreshold=10, criticalThreshold=5), "agents": agents}))
    told = [text for text in sink.texts("WARNING") if "criticalThreshold" in text.split(": ")[1]]
    (text,) = told
    assert text.startswith("loopguard setting adjusted: tools.loopDetection.criticalThreshold: 5 is used as 11, ")


def test_settings_that_nothing_reads_are_told_at_start(sink: Sink) -> None:
    """The guard starts, with what is right in the file; a warning names each key and what was probably meant."""
    tools = {"loopDetectoin": {"enabled": True}}
    agents = {"entries": {"cron": {"tools": {"loop_detection": {"enabled": True}}}}}
    entries = {"loopgaurd": {"enabled": False}, "loopguard": {"config": {"agents": {"crno": {"mode": "observe"}}}}}
    LoopGuard(settings_of({"tools": tools, "agents": agents, "plugins": {"entries": entries}}))
    assert sink.texts("WARNING") == [
        "loopguard setting not read: tools.loopDetectoin: loopguard does not read this key "
        "(did you mean loopDetection?)",
        "loopguard setting not read: agents.entries.cron.tools.loop_detection: loopguard does not read this key "
        "(did you mean loopDetection?)",
        "loopguard setting not read: plugins.entries.loopgaurd: loopguard does not read this key "
        "(did you mean loopguard?)",
        "loopguard settings of an unknown agent: plugins.entries.loopguard.config.agents.crno: neither agents.entries "
        "nor agents.list has an agent of this name (did you mean cron?)",
    ]
    assert sink[-1]["message"].startswith("loopguard ready: ")


def test_settings_that_nothing_reads_are_told_when_they_are_new(sink: Sink) -> None:
    """Of other settings only what was not told before, and a long list is cut short."""
    guard = LoopGuard(settings_of({"plugins": {"entries": {"loopgaurd": {}}}}))
    sink.clear()
    guard.use(settings_of({"plugins": {"entries": {"loopgaurd": {}, "loopguards": {}}}}))
    (text,) = sink.texts("WARNING")
    assert text.startswith("loopguard setting not read: plugins.entries.loopguards: ")
    sink.clear()
    guard.use(settings_of({"plugins": {"entries": {f"loopguard{letter}": {} for letter in "abcdefghijkl"}}}))
    told = sink.texts("WARNING")
    assert len(told) == 11
    assert told[-1] == "loopguard setting not read: 2 more like it in the file"


def per_agent(*agents: str, **others: object) -> dict[str, object]:
    """A configuration with rolling detectors on for these agents alone."""
    entries: dict[str, object] = {agent: {"tools": {"loopDetection": {"enabled": True}}} for agent in agents}
    return {"agents": {"entries": entries | others}}


def test_per_agent_settings_are_told_where_no_event_names_an_agent(sink: Sink) -> None:
    """Once a guard: the settings look right and apply to nobody. Said at a settlement, when a whole call named none."""
    guard = LoopGuard(settings_of(per_agent("coder", "cron", "mail", "web")))
    sink.clear()
    feed(guard, [message(), start("c1")])
    assert sink.texts() == []
    feed(guard, [settle("c1"), *turns(5, prefix="d"), start("c", run="other"), settle("c", run="other")])
    (record,) = sink
    assert record["message"] == (
        "loopguard per-agent settings not in use: no event so far has an agent_id, so the settings for all agents "
        f"apply, not those of coder, cron, mail and 1 more ({PLACE})"
    )
    assert (record["level"].name, record["extra"]["event"]) == ("WARNING", "tool_call_settled")
    guard.use(settings_of(per_agent("coder", "cron")))
    sink.clear()
    feed(guard, turns(2, prefix="e"))
    assert sink.texts() == []


@pytest.mark.parametrize(
    "events",
    [
        [start("c1", agent="coder"), settle("c1")],
        [start("c1"), settle("c1", agent="coder")],
        [start("c1"), start("c2", agent="other", run="q"), settle("c1")],
    ],
    ids=["on the start", "on the settlement", "in another run"],
)
def test_a_gateway_that_names_agents_is_not_warned(events: list[Event], sink: Sink) -> None:
    """An agent may be left out where the run's last one counts, and some runs may have none (SPEC 2)."""
    guard = LoopGuard(settings_of(per_agent("coder")))
    sink.clear()
    feed(guard, [*events, *turns(2, prefix="d"), start("c", run="r3"), settle("c", run="r3")])
    assert sink.texts() == []


@pytest.mark.parametrize(
    "settings",
    [{}, per_agent(), per_agent("coder", main={"default": True}), {"agents": {"entries": {"coder": {}}}}],
    ids=["no agents", "no entries", "a default agent", "nothing of its own"],
)
def test_events_without_an_agent_are_right_where_no_agent_has_settings(settings: dict[str, object], sink: Sink) -> None:
    """Nor is anything said where a default agent is marked: the file says who such events are."""
    guard = LoopGuard(settings_of(settings))
    sink.clear()
    feed(guard, turns(3))
    assert sink.texts() == []


def test_the_search_for_an_agent_changes_no_answer() -> None:
    """Calls, batches and loops are judged as by a guard whose settings are for all."""
    keys = {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}
    agents = {"entries": {"coder": {"tools": {"loopDetection": {"historySize": 50}}}}}
    batch = [("b1", "read", SAME), ("b2", "read", SAME)]
    events: list[Event] = [
        *(start(call_id, batch_id="b", index=at, batch=batch) for at, (call_id, *_) in enumerate(batch)),
        *(settle(call_id, batch_id="b", index=at) for at, (call_id, *_) in enumerate(batch)),
        *turns(5),
    ]
    assert play({**detection(**keys), "agents": agents}, events) == play(detection(**keys), events)


def test_warning_block_and_end(sink: Sink) -> None:
    """The ladder in the log: each line begins as the contract says and carries every bound field."""
    guard = LoopGuard(settings_of(detection(enabled=True, warningThreshold=2, criticalThreshold=3)))
    sink.clear()
    feed(guard, [*turns(3), start("c4"), start("c5")])
    wanted = [
        ("WARNING", f"tool loop: tool=read {PLACE} level=warning action=warn detector=generic_repeat count=2"),
        ("ERROR", f"tool loop: tool=read {PLACE} level=critical action=block detector=generic_repeat count=3"),
        ("ERROR", f"tool loop: tool=read {PLACE} level=critical action=end_turn code=tool_loop_persisted count="),
    ]
    told = [record for record in sink if not record["message"].endswith("the turn ends)")]
    assert len(told) == len(wanted)
    for record, (level, begins) in zip(told, wanted, strict=True):
        assert record["level"].name == level
        assert record["message"].startswith(begins)
    fields = [{name: record["extra"][name] for name in logs.FIELDS} for record in told]
    place = {"session_key": "s", "run_id": "r", "agent_id": None, "tool": "read", "detector": "generic_repeat"}
    place["code"] = None
    assert fields[0] == {
        **place, "event": "tool_call_settled", "level": "warning", "action": "warn", "count": 2, "call_id": "c3",
    }  # fmt: skip
    assert fields[1] == {
        **place, "event": "tool_call_started", "level": "critical", "action": "block", "count": 3, "call_id": "c4",
    }  # fmt: skip
    assert (fields[2]["action"], fields[2]["call_id"], fields[2]["level"]) == ("end_turn", "c5", "critical")


def test_observe_mode_speaks_at_warning_level(sink: Sink) -> None:
    """Nobody is woken for a block that was not made: every ``would_…`` is a warning, whatever it would have been."""
    entry = {"config": {"mode": "observe"}}
    guard = LoopGuard(
        settings_of(
            {
                **detection(enabled=True, warningThreshold=2, criticalThreshold=3),
                "plugins": {"entries": {"loopguard": entry}},
            }
        )
    )
    feed(guard, [*turns(5), *turns(3, "fetch", prefix="d", error="boom")])
    told = {(record["extra"]["action"], record["level"].name) for record in sink if record["extra"]["action"]}
    assert told == {("would_warn", "WARNING"), ("would_block", "WARNING"), ("would_end_turn", "WARNING")}


def test_code_is_bound_on_every_line(sink: Sink) -> None:
    """A sink may format ``{extra[code]}``: the code of a turn that was ended, as plain text, None elsewhere."""
    guard = LoopGuard()
    feed(guard, [*turns(3, error="boom"), compaction(), *turns(3, prefix="d")])
    assert all("code" in record["extra"] for record in sink)
    codes = [record["extra"]["code"] for record in sink if record["extra"]["action"] == "end_turn"]
    assert codes == ["repeated_tool_error", "compaction_loop_persisted"]
    assert {type(code) for code in codes} == {str}
    assert sink[0]["extra"]["code"] is None


def test_lines_outside_of_events_have_a_name(sink: Sink) -> None:
    """What is told when a run is ended says so, and what fails in an adapter names the moment; no type of nothing."""
    guard = LoopGuard()
    feed(guard, [start("a", batch_id="b")])
    guard.end_run("s", "r")
    logs.guard_failed("tool_execution", ValueError(), 0)
    logs.guard_failed(None, ValueError(), 0)
    assert [record["extra"]["event"] for record in sink] == [
        "start", "end_run", "tool_execution", "tool_execution", "end_run", "end_run",
    ]  # fmt: skip


async def _raises(event: object) -> None:
    raise ValueError


def test_records_show_who_had_something_to_tell(
    sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """``function`` and ``line`` are those of the layer above the log, in ``logging`` as in loguru."""
    number = logs.forward_to_stdlib("gateway.where")
    try:
        with caplog.at_level(logging.INFO, logger="gateway.where"):
            guard = LoopGuard(settings_of(detection(criticalThreshold=1)))
            feed(guard, turns(3, error="boom"))
            guard.use(settings_of(detection(criticalThreshold=2)))
            bus = EmbeddedBus()
            bus.use(guard)
            bus.subscribe(object, _raises)
            anyio.run(bus.publish, start("c", session=" "))
    finally:
        logger.remove(number)
    told = {(record["name"], record["function"]) for record in sink}
    assert told == {
        ("loopguard_plugin.middleware", "__init__"),
        ("loopguard_plugin.middleware", "_tell"),
        ("loopguard_plugin.middleware", "use"),
        ("loopguard_plugin.middleware", "_pass_on"),
        ("loopguard_plugin.bus", "_handle"),
    }
    assert {record.funcName for record in caplog.records} == {function for _, function in told}
    assert all(Path(record["file"].path).name in ("middleware.py", "bus.py") for record in sink)


def test_malformed_events_are_told_once_a_minute_for_a_field(sink: Sink) -> None:
    """A publisher that sends another bad value with each event gets one line, and its count later, not a flood."""

    async def publish() -> None:
        bus = EmbeddedBus()
        bus.use(LoopGuard())
        for n in range(50):
            await bus.publish(start("c", index=-n - 1))
            await bus.publish(settle("c", index=-n - 1))
            await bus.publish(
                ToolCallStarted(
                    session_key="s",
                    call_id="c",
                    tool="t",
                    batch_id="b",
                    batch=(*(BatchCall("c", "t"),) * n, 5),  # type: ignore[arg-type]  # that is the point
                )
            )

    anyio.run(publish)
    assert [text[:70] for text in sink.texts("WARNING")] == [
        "loopguard passed on a malformed tool_call_started unjudged: index: exp",
        "loopguard passed on a malformed tool_call_settled unjudged: index: exp",
        "loopguard passed on a malformed tool_call_started unjudged: batch[0]: ",
    ]


def test_repeated_error_line(sink: Sink) -> None:
    """The always-on guard's line names its code and count."""
    guard = LoopGuard()
    sink.clear()
    feed(guard, turns(3, "fetch", error=f"token {SECRET}"))
    (record,) = sink
    assert record["level"].name == "ERROR"
    assert record["message"] == (
        f"tool loop: tool=fetch {PLACE} level=critical action=end_turn code=repeated_tool_error count=3"
    )
    assert record["extra"]["detector"] == "repeated_tool_error"


def test_post_compaction_lines(sink: Sink) -> None:
    """Arming, closing and aborting are told in the words of the contract."""
    guard = LoopGuard()
    sink.clear()
    feed(guard, [*turns(2), compaction(), start("d1"), settle("d1")])
    feed(guard, [event for at in range(2) for event in (start(f"e{at}", "ls"), settle(f"e{at}", "ls"))])
    feed(guard, [compaction(), *turns(3, prefix="f")])
    assert [(record["level"].name, record["message"]) for record in sink] == [
        ("INFO", f"post-compaction guard armed for 3 attempts ({PLACE})"),
        ("INFO", f"post-compaction window closed: toolCalls=3 preCompactionRepeats=1 ({PLACE})"),
        ("INFO", f"post-compaction guard armed for 3 attempts ({PLACE})"),
        (
            "ERROR",
            f"post-compaction loop persisted: tool=read repeated 3 times with the same result, {PLACE} "
            "action=end_turn code=compaction_loop_persisted count=3",
        ),
    ]
    assert sink[0]["extra"]["event"] == "compaction_retry"


def test_unsettled_calls_are_told_once_a_run(sink: Sink) -> None:
    """Calls that never settle are visible, with the usual reason for them, and not at every batch."""
    guard = LoopGuard()
    sink.clear()
    feed(guard, [start(f"c{at}", args=at) for at in range(5)])
    (text,) = sink.texts("WARNING")
    assert text.startswith("1 call had not settled when the batch or the run was over")
    assert "run_id of its own" in text


def test_unsettled_calls_are_told_when_the_run_ends(sink: Sink) -> None:
    """A host that never publishes outcomes is seen also where each run has one response only."""
    guard = LoopGuard()
    sink.clear()
    feed(guard, [start("a", batch_id="b", index=0), start("b", batch_id="b", index=1)])
    guard.end_run("s", "r")
    (text,) = sink.texts("WARNING")
    assert text.startswith("2 calls had not settled")
    guard.end_run("s", "r")
    assert len(sink.texts("WARNING")) == 1


def test_evicted_runs_are_told(sink: Sink) -> None:
    """More runs than ``maxRuns`` is a warning, once a minute; a run that was only idle is not worth one."""
    seconds = [0.0]
    settings = {"plugins": {"entries": {"loopguard": {"config": {"maxRuns": 2, "idleMinutes": 1}}}}}
    guard = LoopGuard(settings_of(settings), clock=lambda: seconds[0])
    sink.clear()
    for run in ("a", "b", "c", "d"):
        feed(guard, [start("c", run=run), settle("c", run=run)])
    (text,) = sink.texts("WARNING")
    assert text == (
        "run forgotten: maxRuns is reached, and its session, which has the most runs, loses the oldest, "
        "0 calls of it still open (session=s run=a)"
    )
    seconds[0] = 1000.0
    feed(guard, [start("c", run="e")])
    assert sink.texts("WARNING") == [text]


def test_no_contents_at_info_and_above(sink: Sink) -> None:
    """Arguments, results and error bodies never reach a line, nor the bound fields."""
    guard = LoopGuard(settings_of(detection(enabled=True, warningThreshold=2, criticalThreshold=3)))
    args = {"password": SECRET}
    feed(guard, turns(5, "login", args, result={"token": SECRET}))
    feed(guard, turns(4, "curl", args, error=f"401 for {SECRET}", prefix="d"))
    feed(guard, [compaction(), *turns(4, "read", args, result=SECRET, prefix="e")])
    assert {record["level"].name for record in sink} == {"INFO", "WARNING", "ERROR"}
    for record in sink:
        assert SECRET not in record["message"]
        assert SECRET not in str(record["extra"])
        assert record["exception"] is None


def test_names_from_outside_stay_on_one_line(sink: Sink) -> None:
    """A tool name that the model made up cannot forge a line, fill the log, or be taken for a format."""
    name = "read\nERROR fake {count} <red>x</red> \x1b[31m" + "y" * 500
    fact = NoteEmitted(
        session_key="s\r\n", run_id=None, agent_id=None, tool=name, call_id="c", detector=Detector.PING_PONG, count=10
    )
    logs.fact(fact, start("c"))
    (text,) = sink.texts()
    assert text.isprintable()
    assert len(text) < 250
    assert "{count} <red>x</red>" in text
    assert sink[0]["extra"]["tool"] == name


def test_lines_read_well_in_singular_and_plural(sink: Sink) -> None:
    """One call is a call, two are calls."""
    for calls in (1, 2):
        fact = BatchBlocked(
            session_key="s", run_id=None, agent_id="main", tool="read", call_id="c",
            detector=Detector.GENERIC_REPEAT, count=20, terminal=False, calls=calls,
        )  # fmt: skip
        logs.fact(fact, start("c"))
    assert [text.partition("count=20 ")[2] for text in sink.texts()] == [
        "(1 call not run, the model may answer once more)",
        "(2 calls not run, the model may answer once more)",
    ]
    assert sink.texts()[0].startswith("tool loop: tool=read session=s agent=main level=critical")


def test_gateway_may_disable_the_lines(sink: Sink) -> None:
    """``logger.disable("loopguard_plugin")`` silences everything, ``enable`` brings it back."""
    logger.disable("loopguard_plugin")
    try:
        LoopGuard()
        assert not sink
    finally:
        logger.enable("loopguard_plugin")
    LoopGuard()
    assert len(sink) == 1


def test_gateway_may_filter_by_name() -> None:
    """A sink's filter by name, as a text or as a table of levels, works as for any package."""
    ours, errors_only, theirs = Sink(), Sink(), Sink()
    numbers = [
        logger.add(ours, level=0, filter="loopguard_plugin"),
        logger.add(errors_only, level=0, filter={"loopguard_plugin": "ERROR"}),
        logger.add(theirs, level=0, filter={"": True, "loopguard_plugin": False}),
    ]
    try:
        guard = LoopGuard()
        feed(guard, turns(3, error="boom"))
        logger.info("the gateway's own line")
    finally:
        for number in numbers:
            logger.remove(number)
    assert len(ours) == 2
    assert [record["level"].name for record in errors_only if record["extra"]] == ["ERROR"]
    assert theirs.texts() == ["the gateway's own line"]


def test_no_sink_of_our_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A gateway without sinks gets no output at all."""
    feed(LoopGuard(), turns(3, error="boom"))
    assert capsys.readouterr() == ("", "")


def test_forwarded_to_stdlib(caplog: pytest.LogCaptureFixture) -> None:
    """Lines reach the named logger with their levels and fields, once, and until the sink is removed."""
    logs.forward_to_stdlib("gateway.loopguard")
    number = logs.forward_to_stdlib("gateway.loopguard")
    try:
        with caplog.at_level(logging.INFO, logger="gateway.loopguard"):
            feed(LoopGuard(), turns(3, "fetch", error="boom"))
            logger.info("not ours")
        with caplog.at_level(logging.CRITICAL, logger="gateway.loopguard"):
            LoopGuard()
    finally:
        logger.remove(number)
    with caplog.at_level(logging.INFO, logger="gateway.loopguard"):
        LoopGuard()
    records = [record for record in caplog.records if record.name == "gateway.loopguard"]  # others may forward too
    assert [record.levelname for record in records] == ["INFO", "ERROR"]
    ended = records[1]
    assert ended.getMessage().startswith("tool loop: tool=fetch")
    assert (ended.__dict__["tool"], ended.__dict__["count"], ended.__dict__["run_id"]) == ("fetch", 3, "r")


def test_forwarding_again_after_the_gateway_removed_every_sink() -> None:
    """``logger.remove()`` takes our sink too, and forwarding anew works as the first time."""
    first = logs.forward_to_stdlib("gateway.again")
    logger.remove(first)
    second = logs.forward_to_stdlib("gateway.again")
    logger.remove(second)
    assert second != first


def test_stdlib_that_leads_back_into_loguru_does_not_go_round(sink: Sink) -> None:
    """A gateway that sends ``logging`` into loguru and forwards our lines to ``logging`` gets each line, no storm."""

    class IntoLoguru(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logger.patch(as_if_ours).log(record.levelno, record.getMessage())

    def as_if_ours(record: Record) -> None:
        record["name"] = "loopguard_plugin.logs"  # what an intercepting handler does that looks for the caller's frame

    back = IntoLoguru()
    target = logging.getLogger("gateway.round")
    target.setLevel(logging.INFO)
    target.addHandler(back)
    number = logs.forward_to_stdlib("gateway.round")
    try:
        LoopGuard()
    finally:
        logger.remove(number)
        target.removeHandler(back)
    assert 1 <= len(sink) <= 2


def test_sink_that_raises_takes_nothing_down() -> None:
    """A gateway's broken sink costs the line, not the answer."""

    def broken(message: Message) -> None:
        raise OSError("disk full")

    number = logger.add(broken, catch=False)
    try:
        guard = LoopGuard()
        guard.feed(compaction())
        assert guard.stats().errors == 0
    finally:
        logger.remove(number)


def test_error_whose_text_raises_is_told() -> None:
    """An exception that cannot be printed does not get in the way of its own report."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    async def broken(event: object) -> None:
        raise Mute

    kept = Sink()
    number = logger.add(kept, level=0)
    try:
        bus = EmbeddedBus()
        bus.subscribe(object, broken)
        anyio.run(bus.publish, start("c"))
    finally:
        logger.remove(number)
    assert len(kept) == 2
    assert "Mute" in kept[0]["message"]


def test_causes_are_told_in_order(sink: Sink) -> None:
    """The places of an error's causes come first, and a chain that bites its tail ends."""
    inner, outer = KeyError(SECRET), RuntimeError(SECRET)
    outer.__cause__ = inner
    inner.__cause__ = outer
    logs.guard_failed(start("c"), outer, 4)
    (text,) = sink.texts("ERROR")
    assert text.rindex("KeyError") < text.rindex("RuntimeError")
    assert "(4 more like it since the last such line)" in text
    assert SECRET not in text


def test_silenced(sink: Sink) -> None:
    """Commands that tell in their own words silence the lines for a while, also where they fail."""
    with pytest.raises(LookupError), logs.silenced():  # noqa: PT012  # the line before it is what must stay unheard
        LoopGuard()
        raise LookupError
    assert not sink
    LoopGuard()
    assert len(sink) == 1


def test_event_names() -> None:
    """The bound field ``event`` is the event's type tag, or the class of what is no event."""
    assert logs.event_name(start("c")) == "tool_call_started"
    assert logs.event_name(compaction()) == "compaction_retry"
    assert logs.event_name({}) == "dict"
    fact = WindowArmed(session_key="s", run_id=None, agent_id=None, attempts=3)
    assert logs.event_name(fact) == "WindowArmed"
