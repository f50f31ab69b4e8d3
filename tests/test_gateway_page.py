"""docs/gateway.md says what is so: its code runs as it stands, its tables are complete."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from helpers import detection, settings_of
from msgspec import Struct
from pages import blocks, page, rows

from loopguard_plugin import EmbeddedBus, LoopGuard, Status, ToolCallSettled, TurnEndingError
from loopguard_plugin.answers import Acknowledged, Answer, Blocked, Deliver, Proceed
from loopguard_plugin.events import (
    EVENT_TYPES,
    Event,
    MessageKind,
    ToolCallStarted,
)

pytestmark = pytest.mark.anyio

GATEWAY = page("docs/gateway.md")
Outcome = dict[str, Any]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The loop runs on both event loops."""
    return str(request.param)


def code() -> dict[str, Any]:
    """Everything that the page defines, exactly as it stands there."""
    space: dict[str, Any] = {"__name__": "gateway_page"}
    exec("\n\n".join(blocks(GATEWAY, "python")), space)
    return space


CODE = code()


@dataclass
class Response:
    """What the scripted model says: calls, or a last text."""

    id: str
    calls: Sequence[tuple[str, str, object]] = ()
    text: str = ""


@dataclass
class World:
    """A scripted model, its tools, and a record of what was run and heard."""

    script: list[Response]
    tools: dict[str, Callable[[Any], Awaitable[Outcome]]]
    settings: dict[str, Any] = field(default_factory=dict)
    transcript: list[object] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    settled: list[ToolCallSettled] = field(default_factory=list)

    async def play(self) -> str:
        """One turn by the page's loop; the text that it ends with."""
        script = iter(self.script)

        async def ask_model(transcript: list[object]) -> Response:
            return next(script)

        return str(await CODE["run_turn"](self.bus(), "s", "r", ask_model, self.run_tool, self.transcript))

    def bus(self) -> EmbeddedBus:
        bus = EmbeddedBus()
        bus.use(LoopGuard(settings_of(self.settings)))
        bus.subscribe(ToolCallSettled, self.hear)
        return bus

    async def run_tool(self, tool: str, args: object) -> Outcome:
        self.ran.append(tool)
        return await self.tools[tool](args)

    async def hear(self, event: ToolCallSettled) -> None:
        await anyio.sleep(0)
        self.settled.append(event)


async def echo(args: Any) -> Outcome:
    """A tool that takes a while and gives its argument back."""
    await anyio.sleep(args / 1000)
    return {"result": f"echo {args}"}


async def refused(args: Any) -> Outcome:
    """A tool that always fails in the same way, after a while."""
    await anyio.sleep(0.002)
    return {"error": "connection refused"}


async def slow(args: Any) -> Outcome:
    """A tool whose result comes last, and must not be lost."""
    await anyio.sleep(0.01)
    return {"result": "precious"}


async def same(args: Any) -> Outcome:
    """A tool that always gives the same result."""
    return {"result": "same"}


def test_the_loop_is_short() -> None:
    """A gateway author can take it in at a glance: under 40 lines, no line too long for the page."""
    (loop,) = [block for block in blocks(GATEWAY, "python") if "async def run_calls(" in block]
    assert len(loop.splitlines()) < 40
    assert max(len(line) for block in blocks(GATEWAY, "python") for line in block.splitlines()) <= 100


async def test_calls_run_in_parallel_and_results_come_in_order() -> None:
    """The results stand in the order of the calls, whichever ends first."""
    world = World(
        [Response("b1", [("c1", "echo", 20), ("c2", "echo", 0), ("c3", "echo", 10)]), Response("b2", text="done")],
        {"echo": echo},
    )
    assert await world.play() == "done"
    assert world.transcript == ["echo 20", "echo 0", "echo 10"]
    assert [event.call_id for event in world.settled] == ["c2", "c3", "c1"]


async def test_equal_ids_in_one_response() -> None:
    """A provider that gives every call the same id loses no result."""
    world = World(
        [Response("b1", [("c", "echo", 1), ("c", "echo", 0)]), Response("b2", [("c", "echo", 2)]), Response("b3")],
        {"echo": echo},
    )
    await world.play()
    assert world.transcript == ["echo 1", "echo 0", "echo 2"]


async def test_note_reaches_the_model() -> None:
    """A repeated call's result carries the note."""
    script = [*(Response(f"b{at}", [("c", "same", None)]) for at in range(3)), Response("end")]
    world = World(script, {"same": same}, detection(enabled=True, warningThreshold=2))
    await world.play()
    assert world.transcript[:2] == ["same", "same"]
    assert str(world.transcript[2]).startswith("same\n\n[loopguard] ")


async def test_blocked_batch_is_not_run_and_the_second_block_ends_the_turn() -> None:
    """The model reads why, may answer once more, and the next loop ends the turn; every call has an entry."""
    calls = [("c1", "same", None), ("c2", "other", None)]
    script = [Response("b1", calls[:1]), Response("b2", calls[:1]), *(Response(f"x{at}", calls) for at in range(2))]
    settings = detection(enabled=True, warningThreshold=1, criticalThreshold=2)
    world = World(script, {"same": same, "other": same}, settings)
    text = await world.play()
    assert "[loopguard]" in text
    assert world.ran == ["same", "same"]
    assert len(world.transcript) == 6
    assert all("not run" in str(entry) for entry in world.transcript[2:])
    assert {event.status for event in world.settled[2:]} == {"blocked"}


async def test_third_identical_error_ends_the_turn_and_loses_no_result() -> None:
    """The turn ends by a group's exception, and the slow sibling's result is in the transcript all the same."""
    calls = [("c1", "fetch", "u")]
    script = [
        Response("b1", calls),
        Response("b2", calls),
        Response("b3", [("c1", "fetch", "u"), ("c2", "slow", None), ("c3", "echo", 0)]),
    ]
    world = World(script, {"fetch": refused, "slow": slow, "echo": echo})
    text = await world.play()
    assert "connection refused" in text
    assert world.transcript == ["connection refused"] * 3 + ["precious", "echo 0"]
    assert len(world.settled) == 5


async def test_the_end_comes_with_the_results() -> None:
    """Whoever calls ``run_calls`` gets the results and the error itself, with its code and text."""
    world = World([], {"fetch": refused})
    bus = world.bus()
    for at in range(3):
        given, end = await CODE["run_calls"](bus, "s", "r", Response(f"b{at}", [("c", "fetch", "u")]), world.run_tool)
        assert [one.error for one in given] == ["connection refused"]
    assert isinstance(end, TurnEndingError)
    assert (end.code, end.count) == ("repeated_tool_error", 3)


async def test_cancelled_calls_are_settled_as_aborted() -> None:
    """Each call that was running is published as aborted, though its task was cancelled; the others as they ended."""
    world = World([], {"echo": echo})
    bus = world.bus()
    calls = [("c1", "echo", 0), ("c2", "echo", 60_000), ("c3", "echo", 60_000)]
    with anyio.move_on_after(0.05) as scope:
        await CODE["run_calls"](bus, "s", "r", Response("b1", calls), world.run_tool)
    assert scope.cancelled_caught
    settled = {event.call_id: event.status for event in world.settled}
    assert settled == {"c1": None, "c2": Status.ABORTED, "c3": Status.ABORTED}


async def test_a_cancelled_call_neither_counts_nor_resets() -> None:
    """Two failures, a cancelled attempt, one more failure: the third identical failure ends the turn."""
    world = World([], {"fetch": refused, "echo": echo})
    bus = world.bus()

    async def attempt(at: int, tool: str, args: object) -> TurnEndingError | None:
        _, end = await CODE["run_calls"](bus, "s", "r", Response(f"b{at}", [("c", tool, args)]), world.run_tool)
        return end if isinstance(end, TurnEndingError) else None

    assert [await attempt(at, "fetch", "u") for at in range(2)] == [None, None]
    with anyio.move_on_after(0.05):
        await attempt(2, "echo", 60_000)
    end = await attempt(3, "fetch", "u")
    assert end is not None
    assert (end.code, end.count) == ("repeated_tool_error", 3)


async def test_the_other_two_events_of_the_page() -> None:
    """A user message starts the count of errors anew, a compaction arms the guard."""
    world = World([], {"fetch": refused, "same": same})
    bus = world.bus()
    run_calls = CODE["run_calls"]
    for at in range(4):
        if at == 2:
            await CODE["user_wrote"](bus, "s", "r", "m1")
        _, end = await run_calls(bus, "s", "r", Response(f"b{at}", [("c", "fetch", "u")]), world.run_tool)
        assert end is None
    await CODE["context_compacted"](bus, "s", "r")
    ends = [
        (await run_calls(bus, "s", "r", Response(f"x{at}", [("c", "same", None)]), world.run_tool))[1]
        for at in range(3)
    ]
    assert [None if end is None else str(end.code) for end in ends] == [None, None, "compaction_loop_persisted"]


def failing(at: int) -> list[Event]:
    """One call that fails as ever."""
    ids: dict[str, Any] = {"session_key": "s", "run_id": "r", "call_id": f"c{at}", "tool": "fetch"}
    return [ToolCallStarted(**ids, args="u"), ToolCallSettled(**ids, error="refused")]


async def test_a_bus_of_ones_own() -> None:
    """The page's own bus hands every event to its handlers and ends the turn as the embedded one does."""
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    bus = CODE["MyBus"](LoopGuard(), hear)
    events = [event for at in range(3) for event in failing(at)]
    assert [await bus.publish(event) for event in events[:5]][::2] == [Proceed()] * 3
    with pytest.raises(TurnEndingError):
        await bus.publish(events[5])
    assert heard == events


async def test_a_bus_of_ones_own_answers_where_the_guard_does_not() -> None:
    """With the plugin switched off a start proceeds and a result is delivered; with handlers that answer None, None."""
    off = settings_of({"plugins": {"entries": {"loopguard": {"enabled": False}}}})
    started, settled = failing(0)
    bus = CODE["MyBus"](LoopGuard(off))
    assert [await bus.publish(started), await bus.publish(settled)] == [Proceed(), Deliver(error="refused")]
    assert await last(None, {"plugins": {"entries": {"loopguard": {"enabled": False}}}}, repeats=1) is None


def test_a_gateway_without_an_event_loop() -> None:
    """``settle`` of the page gives the value for the model, and the text of the end where the turn ends."""
    guard, given = LoopGuard(), []
    for at in range(3):
        started, settled = failing(at)
        guard.feed(started)
        given.append(CODE["settle"](guard, settled))
    assert [(one.error, end is None) for one, end in given] == [("refused", True)] * 2 + [("refused", False)]


async def last(answer: object, settings: dict[str, Any], *, repeats: int) -> object:
    """What comes out for the last of some equal calls where the last handler answers its settlement like this."""
    guard = LoopGuard(settings_of(settings))

    async def nothing(event: Event) -> None:
        return None

    async def answers(event: Event) -> object:
        return answer

    for at in range(repeats):
        ids: dict[str, Any] = {"session_key": "s", "run_id": "r", "call_id": f"c{at}", "tool": "read"}
        await guard(ToolCallStarted(**ids), nothing)
        out = await guard(ToolCallSettled(**ids, result="same"), answers if at == repeats - 1 else nothing)
    return out


async def test_what_the_last_call_next_returns() -> None:
    """None leaves the guard's answer; a ``Deliver`` gets the note; anything else passes unless there is a note."""
    quiet, noted = detection(enabled=True), detection(enabled=True, warningThreshold=2)
    assert await last(None, quiet, repeats=3) == Deliver("same")
    assert await last(Deliver("theirs"), quiet, repeats=3) == Deliver("theirs")
    assert await last("else", quiet, repeats=3) == "else"
    with_note = await last(Deliver("theirs"), noted, repeats=3)
    assert isinstance(with_note, Deliver)
    assert str(with_note.result).startswith("theirs\n\n[loopguard] ")
    instead = await last("else", noted, repeats=3)
    assert isinstance(instead, Deliver)
    assert str(instead.result).startswith("same\n\n[loopguard] ")


def section(title: str) -> str:
    """The part of the page under a heading."""
    (text,) = re.findall(rf"^#+ {title}[^\n]*\n(.*?)(?=^#+ |\Z)", GATEWAY, re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.mark.parametrize("event", EVENT_TYPES, ids=lambda event: event.__name__)
def test_every_field_of_every_event_has_its_row(event: type[Struct]) -> None:
    """The tables have each field of the event, which of them are required, and no other."""
    table = rows(section(f"`{event.__name__}`"))
    named = {name: row for row in table for name in re.findall(r"`(\w+)`", row[0])}
    assert set(named) == set(event.__struct_fields__)
    required = {name for name, row in named.items() if row[2] == "yes"}
    assert required == set(event.__struct_fields__[: len(event.__struct_fields__) - len(event.__struct_defaults__)])
    assert str(event.__struct_config__.tag) in GATEWAY


def test_every_status_and_kind_is_told() -> None:
    """The table of statuses is complete, and so are the kinds of user messages."""
    assert {row[0].strip("`") for row in rows(section("Statuses"))} == set(Status)
    (kinds,) = [row[1] for row in rows(section("`UserMessageCommitted`")) if row[0] == "`kind`"]
    assert set(re.findall(r"`(\w+)`", kinds)) == set(MessageKind)


@pytest.mark.parametrize("answer", [Proceed, Blocked, Deliver, Acknowledged], ids=lambda answer: answer.__name__)
def test_every_field_of_every_answer_is_told(answer: type[Answer]) -> None:
    """The table of answers names each field."""
    (row,) = [row for row in rows(section("The answers")) if row[0] == f"`{answer.__name__}`"]
    assert set(answer.__struct_fields__) <= set(re.findall(r"`(\w+)`", row[2]))


def test_advice_beside_the_loop() -> None:
    """Four lines of advice stand beside the loop."""
    after = GATEWAY.split("return response.text\n```\n")[1].lstrip()
    advice = re.findall(r"^- (.*)$", after.split("\n\n")[0], re.MULTILINE)
    assert len(advice) == 4
    for word, line in zip(("run_id", "final", "shield", "blocked"), advice, strict=True):
        assert word in line
