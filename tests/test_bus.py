"""The embedded bus on asyncio and trio: order, answers, failing handlers, cancellation (SPEC 9, 13)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import anyio
import pytest
from loguru import logger

from loopguard_plugin.answers import Acknowledged, Answer, Blocked, Code, Deliver, Detector, Effect, Proceed
from loopguard_plugin.bus import Bus, CallNext, EmbeddedBus
from loopguard_plugin.errors import TurnEndingError
from loopguard_plugin.events import CompactionRetry, Event, ToolCallSettled, ToolCallStarted, UserMessageCommitted

pytestmark = pytest.mark.anyio

START = ToolCallStarted(session_key="s", call_id="c1", tool="read")
SETTLED = ToolCallSettled(session_key="s", call_id="c1", tool="read", result="text")
VETO = Blocked(reason="no", detector=Detector.GENERIC_REPEAT, count=20)
END = Blocked(reason="no more", detector=Detector.GENERIC_REPEAT, count=21, terminal=True)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every test here runs on both event loops."""
    return str(request.param)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What goes to the log, a text each."""
    written: list[str] = []
    sink = logger.add(written.append, level=0, format="{level}: {message}")
    yield written
    logger.remove(sink)


def turn_ended() -> TurnEndingError:
    return TurnEndingError(
        code=Code.REPEATED_TOOL_ERROR,
        message="over",
        session_key="s",
        run_id=None,
        tool="read",
        count=3,
        detector=Detector.REPEATED_TOOL_ERROR,
        answer=Deliver(result="text"),
    )


class Noting:
    """Middleware that writes down when it is entered and left."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen

    async def __call__(self, event: Event, call_next: CallNext) -> Answer:
        self.seen.append(f"{self.name} in")
        answer = await call_next(event)
        self.seen.append(f"{self.name} out")
        return answer


async def test_first_registered_is_outermost() -> None:
    """Middleware wraps in the order of registration, and handlers run after all of it, in order of subscription."""
    seen: list[str] = []
    bus: Bus = EmbeddedBus()
    assert isinstance(bus, EmbeddedBus)
    bus.use(Noting("a", seen))
    bus.use(Noting("b", seen))
    for name in ("first", "second"):

        async def handler(event: ToolCallStarted, name: str = name) -> None:
            seen.append(name)

        bus.subscribe(ToolCallStarted, handler)
    assert await bus.publish(START) == Proceed()
    assert seen == ["a in", "b in", "first", "second", "b out", "a out"]


async def test_answers_without_anybody_on_the_bus() -> None:
    """A bus that nobody listens on lets calls run, delivers results as they are, and acknowledges the rest."""
    bus = EmbeddedBus()
    result: list[int] = [1]
    assert await bus.publish(START) == Proceed()
    delivered = await bus.publish(ToolCallSettled(session_key="s", call_id="c", tool="t", result=result))
    assert delivered.result is result
    failure = ValueError("x")
    failed = await bus.publish(ToolCallSettled(session_key="s", call_id="c", tool="t", error=failure))
    assert failed.error is failure
    assert await bus.publish(CompactionRetry(session_key="s")) == Acknowledged(Effect.IGNORED)
    assert await bus.publish(UserMessageCommitted(session_key="s")) == Acknowledged(Effect.RESET)


async def test_events_of_the_gateway_itself() -> None:
    """An event that is none of the four goes through middleware to the handlers for it, and theirs is the answer."""
    seen: list[str] = []
    bus = EmbeddedBus()
    bus.use(Noting("a", seen))
    assert await bus.publish({"type": "heartbeat"}) is None
    everything: list[object] = []

    async def audit(event: object) -> None:
        everything.append(event)

    bus.subscribe(object, audit)
    await bus.publish("tick")
    await bus.publish(START)
    assert everything == ["tick", START]
    assert seen == ["a in", "a out"] * 3


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ([None, None], Proceed()),
        ([VETO, Proceed()], VETO),
        ([Proceed(), VETO], VETO),
        ([VETO, END], END),
        ([END, VETO], END),
        ([Deliver(), "yes"], Proceed()),
    ],
)
async def test_strictest_answer_of_handlers_wins(answers: list[Answer | None], wanted: Answer) -> None:
    """Terminal beats blocked beats proceed, in whatever order; answers that do not fit the event count as none."""
    bus = EmbeddedBus()
    for answer in answers:

        async def handler(event: ToolCallStarted, answer: Answer | None = answer) -> Answer | None:
            return answer

        bus.subscribe(ToolCallStarted, handler)
    assert await bus.publish(START) == wanted


async def test_last_deliver_wins() -> None:
    """A handler may replace what is delivered; one that answers nothing leaves it."""
    bus = EmbeddedBus()

    async def redact(event: ToolCallSettled) -> Deliver:
        return Deliver(result="redacted")

    async def silent(event: ToolCallSettled) -> None:
        return None

    bus.subscribe(ToolCallSettled, redact)
    bus.subscribe(ToolCallSettled, silent)
    assert await bus.publish(SETTLED) == Deliver(result="redacted")


async def test_failing_handler_does_not_silence_the_others(lines: list[str]) -> None:
    """The others run and answer, the failure is counted, and the log tells where but not what the error says."""
    bus = EmbeddedBus()
    seen: list[str] = []

    async def broken(event: ToolCallStarted) -> None:
        raise RuntimeError("password=hunter2")

    async def strict(event: ToolCallStarted) -> Blocked:
        seen.append(event.call_id)
        return VETO

    bus.subscribe(ToolCallStarted, broken)
    bus.subscribe(ToolCallStarted, strict)
    assert await bus.publish(START) == VETO
    assert seen == ["c1"]
    assert bus.handler_failures == 1
    (told,) = [line for line in lines if line.startswith("ERROR")]
    assert "broken" in told
    assert "RuntimeError" in told
    assert "hunter2" not in told


async def test_turn_ending_error_of_a_handler_reaches_the_publisher() -> None:
    """The end of a turn is no failure: it is raised to the publisher, after the remaining handlers have run."""
    bus = EmbeddedBus()
    seen: list[str] = []

    async def ends(event: ToolCallSettled) -> None:
        raise turn_ended()

    async def after(event: ToolCallSettled) -> None:
        seen.append("after")

    bus.subscribe(ToolCallSettled, ends)
    bus.subscribe(ToolCallSettled, after)
    with pytest.raises(TurnEndingError, match="over"):
        await bus.publish(SETTLED)
    assert seen == ["after"]
    assert bus.handler_failures == 0


async def test_middleware_errors_reach_the_publisher() -> None:
    """What a middleware raises is not swallowed by the bus."""

    async def broken(event: Event, call_next: CallNext) -> Answer:
        raise LookupError("mine")

    bus = EmbeddedBus()
    bus.use(broken)
    with pytest.raises(LookupError, match="mine"):
        await bus.publish(START)


async def test_settlement_that_has_begun_reaches_every_handler() -> None:
    """A publisher that is cancelled in the midst of a settlement loses neither a handler nor the answer."""
    bus = EmbeddedBus()
    seen: list[str] = []
    answers: list[Deliver] = []
    begun = anyio.Event()

    async def slow(event: ToolCallSettled) -> None:
        begun.set()
        await anyio.sleep(0.02)
        seen.append("slow")

    async def second(event: ToolCallSettled) -> None:
        await anyio.sleep(0)
        seen.append("second")

    bus.subscribe(ToolCallSettled, slow)
    bus.subscribe(ToolCallSettled, second)

    async def publisher() -> None:
        answers.append(await bus.publish(SETTLED))

    async with anyio.create_task_group() as group:
        group.start_soon(publisher)
        await begun.wait()
        group.cancel_scope.cancel()
    assert seen == ["slow", "second"]
    assert answers == [Deliver(result="text")]


async def test_start_can_be_cancelled() -> None:
    """A handler that waits before a call runs, say for a person's consent, does not outlive its publisher."""
    bus = EmbeddedBus()

    async def consent(event: ToolCallStarted) -> None:
        await anyio.sleep_forever()

    bus.subscribe(ToolCallStarted, consent)
    with anyio.move_on_after(0.01) as scope:
        await bus.publish(START)
    assert scope.cancelled_caught
    assert bus.handler_failures == 0


async def test_handler_that_hangs_over_a_settlement_is_cut_off(lines: list[str]) -> None:
    """After ``settle_deadline`` a hanging handler counts as failed, and the rest goes on."""
    bus = EmbeddedBus(settle_deadline=0.01)
    seen: list[str] = []

    async def hangs(event: ToolCallSettled) -> None:
        await anyio.sleep_forever()

    async def after(event: ToolCallSettled) -> None:
        seen.append("after")

    bus.subscribe(ToolCallSettled, hangs)
    bus.subscribe(ToolCallSettled, after)
    assert await bus.publish(SETTLED) == Deliver(result="text")
    assert seen == ["after"]
    assert bus.handler_failures == 1
    assert any("hangs: TimeoutError" in line for line in lines)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_native_asyncio_cancellation_is_not_swallowed() -> None:
    """``task.cancel()`` ends a publisher at once and counts as no failure of the handler."""
    bus = EmbeddedBus()

    async def hangs(event: ToolCallSettled) -> None:
        await anyio.sleep_forever()

    bus.subscribe(ToolCallSettled, hangs)
    task = asyncio.ensure_future(bus.publish(SETTLED))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bus.handler_failures == 0


async def test_handler_may_subscribe_while_an_event_is_under_way() -> None:
    """A handler that joins in the midst of an event is called from the next event on."""
    bus = EmbeddedBus()
    seen: list[str] = []

    async def late(event: ToolCallStarted) -> None:
        seen.append("late")

    async def early(event: ToolCallStarted) -> None:
        seen.append("early")
        if len(seen) == 1:
            bus.subscribe(ToolCallStarted, late)

    bus.subscribe(ToolCallStarted, early)
    await bus.publish(START)
    await bus.publish(START)
    assert seen == ["early", "early", "late"]


def test_mistakes_in_use_are_named() -> None:
    """A class in place of an instance, and a thing that cannot be called, are refused with what to do instead."""
    bus = EmbeddedBus()
    with pytest.raises(TypeError, match=r"use\(Noting\(\)\)"):
        bus.use(Noting)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(TypeError, match="call_next"):
        bus.use(object())  # type: ignore[arg-type]  # the mistake under test
