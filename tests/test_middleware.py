"""LoopGuard on a bus and called directly: composition, the end of a turn, failing open, cancellation (SPEC 9, 13)."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest
from helpers import SAME, compaction, detection, message, settings_of, settle, start, turns
from loguru import logger

from loopguard_plugin import (
    Acknowledged,
    Blocked,
    CompactionRetry,
    Deliver,
    Detector,
    EmbeddedBus,
    EventError,
    LoopGuard,
    Proceed,
    Settings,
    SettingsError,
    ToolCallSettled,
    ToolCallStarted,
    TurnEndingError,
)
from loopguard_plugin.answers import Answer, Effect
from loopguard_plugin.bus import CallNext
from loopguard_plugin.decisions import LoopGuardDecision
from loopguard_plugin.events import Event
from loopguard_plugin.middleware import MOST_UNTOLD, QUIET_SECONDS, Seldom

pytestmark = pytest.mark.anyio

EAGER = detection(enabled=True, warningThreshold=1, criticalThreshold=3)
VETO = Blocked(reason="not allowed", detector=Detector.GENERIC_REPEAT, count=0)
FINAL = Blocked(reason="not allowed", detector=Detector.GENERIC_REPEAT, count=0, terminal=True)
OFF = {"plugins": {"entries": {"loopguard": {"enabled": False}}}}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every test here that awaits runs on both event loops."""
    return str(request.param)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What goes to the log, a text each."""
    written: list[str] = []
    sink = logger.add(written.append, level=0, format="{level}: {message}")
    yield written
    logger.remove(sink)


def guarded(guard: LoopGuard | None = None, **settings: object) -> tuple[LoopGuard, EmbeddedBus]:
    """A guard, and a bus that has only it."""
    guard = guard or LoopGuard(settings_of(settings or EAGER))
    bus = EmbeddedBus()
    bus.use(guard)
    return guard, bus


def answering(answer: object) -> Callable[[Event, CallNext], Awaitable[Answer]]:
    """Middleware that gives this answer to every event, whatever the others say."""

    async def middleware(event: Event, call_next: CallNext) -> Answer:
        await call_next(event)
        return answer  # type: ignore[return-value]  # some tests answer nonsense on purpose

    return middleware


def broken_clock() -> float:
    """A clock by which every event fails inside the guard."""
    raise RuntimeError("password=hunter2")


async def publish_all(bus: EmbeddedBus, events: list[Event]) -> None:
    for event in events:
        await bus.publish(event)


async def test_every_handler_sees_every_event() -> None:
    """Also events that are blocked, and the settlement that ends the turn, reach the handlers, unchanged."""
    _, bus = guarded()
    seen: list[object] = []

    async def audit(event: object) -> None:
        seen.append(event)

    bus.subscribe(object, audit)
    events: list[Event] = [*turns(3, error="boom"), start("c4"), compaction(), message()]
    for event in events:
        with contextlib.suppress(TurnEndingError):
            await bus.publish(event)
    assert seen == events


@pytest.mark.parametrize(
    ("theirs", "wanted"), [(VETO, VETO), (FINAL, FINAL), (Proceed(), Proceed()), (None, Proceed()), ("odd", "odd")]
)
async def test_stricter_answer_than_ours_wins(theirs: object, wanted: object) -> None:
    """Where the guard lets a call run, a later middleware may still refuse it, also in words of its own."""
    _, bus = guarded()
    bus.use(answering(theirs))
    assert await bus.publish(start("c1")) == wanted


@pytest.mark.parametrize("theirs", [VETO, Proceed(), None, "odd"])
async def test_our_block_wins(theirs: object) -> None:
    """A call that the guard blocks is not let through, nor explained, by a later middleware."""
    _, bus = guarded()
    await publish_all(bus, turns(3))
    bus.use(answering(theirs))
    answer = await bus.publish(start("c4"))
    assert isinstance(answer, Blocked)
    assert (answer.detector, answer.count, answer.terminal) == (Detector.GENERIC_REPEAT, 3, False)


async def test_their_terminal_block_beats_ours() -> None:
    """Terminal is stricter than blocked, whoever says it."""
    _, bus = guarded()
    await publish_all(bus, turns(3))
    bus.use(answering(FINAL))
    assert await bus.publish(start("c4")) == FINAL


async def test_note_goes_onto_the_result_of_the_next_handlers() -> None:
    """A result that a later middleware transformed keeps the change, gets our note, and is not changed in place."""
    _, bus = guarded()
    theirs = {"content": [{"type": "text", "text": "redacted"}]}
    bus.use(answering(Deliver(result=theirs)))
    await publish_all(bus, [start("c1")])
    await bus.publish(settle("c1", result="secret"))
    await bus.publish(start("c2"))
    answer = await bus.publish(settle("c2", result="secret"))
    assert answer.note is not None
    assert answer.result == {"content": [{"type": "text", "text": "redacted"}, {"type": "text", "text": answer.note}]}
    assert theirs == {"content": [{"type": "text", "text": "redacted"}]}
    assert (answer.detector, answer.count) == (Detector.GENERIC_REPEAT, 1)


async def test_notes_of_two_middlewares_are_both_delivered() -> None:
    """Another middleware's note is not lost to ours."""
    _, bus = guarded()
    bus.use(answering(Deliver(result="text", note="theirs")))
    await publish_all(bus, [*turns(1), start("c2")])
    answer = await bus.publish(settle("c2"))
    assert answer.note is not None
    assert answer.note.startswith("theirs\n\n")


async def test_note_on_a_failed_call() -> None:
    """The note goes onto the error, where it is text; an exception is delivered as it is, the note beside it."""
    _, bus = guarded()
    await publish_all(bus, [*turns(1), start("c2")])
    told = await bus.publish(settle("c2", error="boom"))
    assert told.error == f"boom\n\n{told.note}"
    failure = ValueError("boom")
    await publish_all(bus, [start("c3", args={"p": 2}), settle("c3"), start("c4", args={"p": 2})])
    raised = await bus.publish(settle("c4", error=failure))
    assert raised.error is failure
    assert raised.note


async def test_result_without_note_is_the_very_object() -> None:
    """Where there is nothing to say, the result passes as it is."""
    _, bus = guarded()
    result = object()
    await bus.publish(start("c1"))
    assert (await bus.publish(settle("c1", result=result))).result is result


async def test_turn_ends_once_the_handlers_have_run() -> None:
    """The error reaches the publisher with the tool's result in it, as the next handlers left it."""
    guard, bus = guarded()
    await publish_all(bus, turns(2, error="boom"))
    await bus.publish(start("c3"))
    bus.use(answering(Deliver(error="redacted")))
    with pytest.raises(TurnEndingError) as raised:
        await bus.publish(settle("c3", error="boom"))
    error = raised.value
    assert (error.code, error.count, error.session_key, error.run_id) == ("repeated_tool_error", 3, "s", "r")
    assert isinstance(error.answer, Deliver)
    assert str(error.answer.error).startswith("redacted")
    again = guard.ended("s", "r")
    assert again is not None
    assert (again.code, again.message) == (error.code, error.message)


@pytest.mark.parametrize("failure", [LookupError("theirs"), ExceptionGroup("theirs", [LookupError()])])
async def test_turn_ends_although_a_later_middleware_fails(failure: Exception) -> None:
    """The end of the turn is not lost to somebody else's failure, which is kept as its cause."""
    _, bus = guarded()
    await publish_all(bus, [*turns(2, error="boom"), start("c3")])

    async def fails(event: Event, call_next: CallNext) -> Answer:
        raise failure

    bus.use(fails)
    with pytest.raises(TurnEndingError) as raised:
        await bus.publish(settle("c3", error="boom"))
    assert raised.value.__cause__ is failure
    with pytest.raises(type(failure)):
        await bus.publish(start("c4"))


async def test_error_raised_twice_is_two_errors() -> None:
    """A redelivered settlement raises an error of its own, with the result that it brings."""
    _, bus = guarded()
    await publish_all(bus, [*turns(2, error="boom"), start("c3")])
    errors: list[TurnEndingError] = []
    for _ in range(2):
        with pytest.raises(TurnEndingError) as raised:
            await bus.publish(settle("c3", error="boom"))
        errors.append(raised.value)
    assert errors[0] is not errors[1]
    assert errors[0].message == errors[1].message
    assert errors[0].answer == errors[1].answer


class Gate:
    """A subscriber that lets nobody pass while it is shut."""

    def __init__(self) -> None:
        self.open = anyio.Event()
        self.open.set()

    async def __call__(self, event: object) -> None:
        await self.open.wait()

    async def cancelled(self, bus: EmbeddedBus, event: Event) -> None:
        """Publish and be cancelled while a handler is busy."""
        self.open = anyio.Event()
        with anyio.move_on_after(0.01) as scope:
            await bus.publish(event)
        assert scope.cancelled_caught
        self.open.set()


def deciding() -> tuple[EmbeddedBus, list[tuple[str, str]], Gate]:
    """A bus with a guard, the decisions that are heard on it (action, call id), and a gate for starts."""
    bus, gate = EmbeddedBus(), Gate()
    heard: list[tuple[str, str]] = []
    bus.use(LoopGuard(settings_of(EAGER), bus=bus))

    async def hear(event: LoopGuardDecision) -> None:
        heard.append((str(event.action), event.call_id))

    bus.subscribe(LoopGuardDecision, hear)
    bus.subscribe(ToolCallStarted, gate)
    return bus, heard, gate


@pytest.mark.parametrize("times", [1, 3])
async def test_decision_of_a_cancelled_publisher_comes_with_its_event(times: int) -> None:
    """Published again, however often that is cancelled too, the event brings its decision along: once."""
    bus, heard, gate = deciding()
    await publish_all(bus, turns(3))
    heard.clear()
    for _ in range(times):
        await gate.cancelled(bus, start("c4"))
    assert heard == []
    for _ in range(2):
        assert isinstance(await bus.publish(start("c4")), Blocked)
    assert heard == [("block", "c4")]
    await gate.cancelled(bus, start("c5"))
    with pytest.raises(TurnEndingError):
        await bus.publish(start("c5"))
    assert heard == [("block", "c4"), ("block", "c5"), ("end_turn", "c5")]


async def test_decision_of_a_publisher_that_never_comes_back() -> None:
    """Whatever event comes next, of whichever session, brings it, before that event's own decisions; nothing twice."""
    bus, heard, gate = deciding()
    await publish_all(bus, turns(3))
    heard.clear()
    await gate.cancelled(bus, start("c4"))
    await bus.publish(message(session="other"))
    assert heard == [("block", "c4")]
    await bus.publish(start("d1", "ls"))
    await bus.publish(settle("d1", "ls"))
    await gate.cancelled(bus, start("c5"))
    await bus.publish(start("e1", "ls", session="other"))
    assert heard == [("block", "c4"), ("block", "c5"), ("end_turn", "c5")]


async def test_decision_that_is_being_published_is_published() -> None:
    """Cancelled while the handlers of the decision run, the publisher waits for them, as for a settlement."""
    bus, heard, _ = deciding()
    last: list[str] = []

    async def slowly(event: object) -> None:
        await anyio.sleep(0.05)

    async def hear_last(event: LoopGuardDecision) -> None:
        last.append(event.call_id)

    bus.subscribe(LoopGuardDecision, slowly)
    bus.subscribe(LoopGuardDecision, hear_last)
    await publish_all(bus, turns(3))
    heard.clear()
    last.clear()
    with anyio.move_on_after(0.01):
        await bus.publish(start("c4"))
    await bus.publish(start("c4"))
    assert heard == [("block", "c4")]
    assert last == ["c4"]


async def test_decisions_that_nobody_comes_for_are_bounded() -> None:
    """Of decisions left behind by publishers that were cancelled, the newest are kept."""
    bus, heard, _ = deciding()
    guard = LoopGuard(settings_of(EAGER), bus=bus)

    async def call_next(event: object) -> None:
        await anyio.sleep(1)

    for n in range(MOST_UNTOLD + 20):
        run = f"r{n}"
        for event in (start("a", run=run), settle("a", run=run), start("b", run=run)):
            guard.feed(event)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await guard(settle("b", run=run), call_next)
    await guard(message(), bus.publish)
    assert len(heard) == MOST_UNTOLD


async def test_fails_open(lines: list[str]) -> None:
    """An exception inside the guard is logged once with its traceback and without contents; every event passes."""
    guard, bus = guarded(LoopGuard(clock=broken_clock))
    assert await bus.publish(start("c1", args={"token": "hunter2"})) == Proceed()
    for at in range(5):
        assert await bus.publish(settle(f"c{at}", result="text")) == Deliver(result="text")
    assert await bus.publish(compaction()) == Acknowledged(Effect.IGNORED)
    assert guard.stats().errors == 7
    (told,) = [line for line in lines if line.startswith("ERROR")]
    assert "RuntimeError\nTraceback (most recent call last):" in told
    assert "broken_clock" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "place",
    [
        *("core.guard.check_types", "core.guard.identify", "core.guard.observe_settlement", "core.guard.begin"),
        *("core.steps.append_note", "core.decide.judge", "core.settle.end_turn", "middleware.compose"),
        *("middleware.decision", "logs.fact", "logs.malformed", "core.guard.begin logs.guard_failed"),
    ],
)
async def test_fails_open_wherever_it_fails(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever part of the guard raises, telling of it included: every handler sees every event, nothing else leaks."""

    def broken(*_: object, **__: object) -> object:
        raise RuntimeError("broken")

    bus = EmbeddedBus()
    bus.use(LoopGuard(settings_of({"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}), bus=bus))
    seen: list[object] = []

    async def see(event: object) -> None:
        seen.append(event)

    bus.subscribe(ToolCallStarted, see)
    bus.subscribe(ToolCallSettled, see)
    bus.subscribe(CompactionRetry, see)
    failing = turns(4, prefix="d", error="boom")
    events: list[Event] = [*turns(4), compaction(), *failing, start("odd", index=-1), start("last")]
    for name in place.split():
        monkeypatch.setattr(f"loopguard_plugin.{name}", broken)
    for event in events:
        with contextlib.suppress(TurnEndingError):
            await bus.publish(event)
    assert seen == events


async def test_answer_that_cannot_be_composed_fails_open(lines: list[str]) -> None:
    """Where the note cannot be put onto what the next handlers returned, theirs is delivered."""

    class Hostile(Deliver, frozen=True):
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError("no")

    hostile = Hostile()
    guard, bus = guarded()
    await publish_all(bus, [*turns(1), start("c2")])
    bus.use(answering(hostile))
    assert await bus.publish(settle("c2")) is hostile
    assert guard.stats().errors == 1
    assert any("failed inside" in line for line in lines)


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (ToolCallStarted(session_key=" ", call_id="c", tool="t"), "session_key"),
        (ToolCallStarted(session_key="s", call_id=None, tool="t"), "call_id"),  # type: ignore[arg-type]  # the mistake
        (ToolCallSettled(session_key="s", call_id="c", tool="t", status="odd"), "status"),  # type: ignore[arg-type]  # it too
    ],
)
async def test_malformed_event_is_passed_on(event: Event, field: str, lines: list[str]) -> None:
    """A malformed event is logged by its field, counted, and seen by the handlers; no run is touched."""
    guard, bus = guarded()
    seen: list[object] = []

    async def audit(event: object) -> None:
        seen.append(event)

    bus.subscribe(object, audit)
    for _ in range(3):
        await bus.publish(event)
    assert seen == [event] * 3
    assert guard.stats().malformed == 3
    assert guard.stats().runs == 0
    (told,) = [line for line in lines if line.startswith("WARNING")]
    assert f"{field}: " in told
    with pytest.raises(EventError, match=field):
        guard.feed(event)


async def test_other_events_pass_untouched(lines: list[str]) -> None:
    """What is none of the four goes to the next handler and back, without a word."""
    guard = LoopGuard()
    written = len(lines)
    for event in ({"type": "tool_call_started"}, None, object(), ToolCallStarted):

        async def call_next(given: object, event: object = event) -> tuple[str, object]:
            assert given is event
            return ("theirs", given)

        assert await guard(event, call_next) == ("theirs", event)
    assert len(lines) == written
    assert guard.stats().events == 0


async def test_switched_off_passes_everything() -> None:
    """``plugins.entries.loopguard.enabled: false`` turns off every guard, repeated tool errors too."""
    guard, bus = guarded(LoopGuard(settings_of(OFF)))
    await publish_all(bus, turns(40, error="boom"))
    assert guard.feed(start("c")) == Proceed()
    assert guard.stats().runs == 0
    with pytest.raises(EventError):
        guard.feed({"type": "tool_call_started"})  # type: ignore[call-overload]  # the mistake under test


async def test_cancelled_publisher_may_publish_again() -> None:
    """A settlement that was cancelled on its way has counted once, and the same one again gets the same answer."""
    guard, bus = guarded()
    gate = anyio.Event()

    async def slow(event: Event, call_next: CallNext) -> Answer:
        await gate.wait()
        return await call_next(event)

    await publish_all(bus, [*turns(2, error="boom"), start("c3")])
    bus.use(slow)
    with anyio.move_on_after(0.01) as scope:
        await bus.publish(settle("c3", error="boom"))
    assert scope.cancelled_caught
    assert guard.ended("s", "r") is not None
    gate.set()
    with pytest.raises(TurnEndingError) as raised:
        await bus.publish(settle("c3", error="boom"))
    assert raised.value.count == 3


async def test_settlement_under_way_survives_the_end_of_the_turn() -> None:
    """A sibling whose settlement is being handled when the turn ends is answered all the same: no result is lost."""
    _, bus = guarded()
    begun = anyio.Event()

    async def recorder(event: ToolCallSettled) -> None:
        if event.call_id == "b":
            begun.set()
            await anyio.sleep(0.02)

    await publish_all(bus, turns(2, error="boom"))
    batch = [("a", "read", SAME), ("b", "other", None)]
    for at, (call_id, tool, args) in enumerate(batch):
        await bus.publish(start(call_id, tool, args, batch_id="x", index=at, batch=batch))
    bus.subscribe(ToolCallSettled, recorder)
    answers: list[Deliver] = []

    async def settle_b() -> None:
        answers.append(await bus.publish(settle("b", "other", "precious", batch_id="x", index=1)))

    async def settle_a() -> None:
        await begun.wait()
        await bus.publish(settle("a", error="boom", batch_id="x", index=0))

    with pytest.raises(ExceptionGroup) as raised:  # noqa: PT012  # the group itself is what raises
        async with anyio.create_task_group() as group:
            group.start_soon(settle_b)
            group.start_soon(settle_a)
    assert raised.group_contains(TurnEndingError)
    assert answers == [Deliver(result="precious")]


async def test_ordinary_event_takes_no_checkpoint(lines: list[str]) -> None:
    """An ordinary event is answered without giving way to other tasks once, and without a log line."""
    _, bus = guarded()
    written = len(lines)
    for event in (start("c1"), settle("c1"), message()):
        with pytest.raises(StopIteration):
            bus.publish(event).send(None)
    assert len(lines) == written


def test_feed_answers_directly() -> None:
    """Hosts without an event loop get the same answers, and the end of the turn as an error."""
    guard = LoopGuard()
    assert guard.feed(start("c0")) == Proceed()
    assert guard.feed(settle("c0", result="text")) == Deliver(result="text")
    assert guard.feed(compaction()) == Acknowledged(Effect.ARMED)
    assert guard.feed(message()) == Acknowledged(Effect.RESET)
    for event in turns(2, error="boom"):
        guard.feed(event)
    guard.feed(start("c3"))
    with pytest.raises(TurnEndingError) as raised:
        guard.feed(settle("c3", error="boom"))
    assert isinstance(raised.value.answer, Deliver)
    assert raised.value.answer.error == "boom"


@pytest.mark.parametrize("event", [{"type": "compaction_retry", "session_key": "s"}, None, "x", object()])
def test_feed_refuses_what_is_no_event(event: object) -> None:
    """Without a bus nobody else waits for the event, so a foreign object is the caller's mistake."""
    with pytest.raises(EventError, match="four events"):
        LoopGuard().feed(event)  # type: ignore[call-overload]  # the mistake under test


def test_feed_fails_open() -> None:
    """A failure inside is no reason for a host to stop."""
    guard = LoopGuard(clock=broken_clock)
    assert guard.feed(start("c1")) == Proceed()
    assert guard.feed(settle("c1", result="text")) == Deliver(result="text")
    assert guard.stats().errors == 2


def test_ended_run_is_forgotten() -> None:
    """``end_run`` drops what is known of a run; ids are compared after trimming."""
    guard = LoopGuard()
    for event in turns(2, error="boom"):
        guard.feed(event)
    assert guard.ended("s", "r") is None
    assert guard.stats().runs == 1
    guard.end_run(" s", "r ")
    guard.end_run("never", "seen")
    assert guard.stats().runs == 0
    for event in turns(2, error="boom", prefix="d"):
        guard.feed(event)


def test_guards_share_nothing() -> None:
    """Two guards in one process know nothing of each other's runs."""
    one, other = LoopGuard(), LoopGuard()
    for event in turns(2, error="boom"):
        one.feed(event)
    for event in turns(2, error="boom"):
        other.feed(event)
    assert one.ended("s", "r") is None
    assert other.ended("s", "r") is None


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("gateway.json5", r"LoopGuard\.from_config_file\(path\)"),
        (Path("gateway.json5"), r"LoopGuard\.from_config_file\(path\)"),
        ({"tools": {}}, r"parse_settings\(mapping\)"),
        (Settings, r"LoopGuard\(Settings\(\)\)"),
        (True, r"LoopGuard\(\)"),
    ],
)
def test_wrong_settings_are_refused_with_the_right_call(given: object, hint: str) -> None:
    """A gateway must not start in the belief that it is guarded; the error names the call that was meant."""
    with pytest.raises(TypeError, match=hint):
        LoopGuard(given)  # type: ignore[arg-type]  # the mistake under test


def test_wrong_clock_is_refused() -> None:
    """A number in place of a clock is a mistake to be told at once."""
    with pytest.raises(TypeError, match="clock"):
        LoopGuard(clock=3.0)  # type: ignore[arg-type]  # the mistake under test


def test_from_config_file(tmp_path: Path) -> None:
    """The gateway's own file is read; a broken or missing one raises."""
    file = tmp_path / "gateway.json5"
    file.write_text("{ tools: { loopDetection: { enabled: true, warningThreshold: 8 } }, other: 1 }", encoding="utf-8")
    assert LoopGuard.from_config_file(file).settings.resolve(None).warning == 8
    file.write_text("{ tools: ", encoding="utf-8")
    with pytest.raises(SettingsError, match="line 1"):
        LoopGuard.from_config_file(str(file))
    with pytest.raises(SettingsError):
        LoopGuard.from_config_file(tmp_path / "absent.json5")


def test_entry_point_finds_the_class() -> None:
    """A gateway finds the middleware by its name in the group ``loopguard.middleware``."""
    from importlib.metadata import entry_points

    (found,) = entry_points(group="loopguard.middleware", name="loopguard")
    assert found.load() is LoopGuard


def test_same_trouble_is_reported_once_a_minute() -> None:
    """What was left out is counted and told the next time; other trouble is not held up, and nothing grows."""
    seldom = Seldom()
    assert seldom.passes("a", 0.0) == 0
    assert seldom.passes("b", 1.0) == 0
    assert [seldom.passes("a", at) for at in (1.0, 2.0, QUIET_SECONDS - 0.1)] == [None, None, None]
    assert seldom.passes("a", QUIET_SECONDS) == 3
    assert seldom.passes("a", QUIET_SECONDS + 1) is None
    for at in range(10 * Seldom.MOST_KINDS):
        seldom.passes(at, 100.0)
    assert len(seldom._last) == Seldom.MOST_KINDS
