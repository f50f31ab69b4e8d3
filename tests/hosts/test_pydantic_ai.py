"""loopguard in pydantic-ai-slim 2.68, with the real package and a scripted model."""

from __future__ import annotations

import asyncio
import doctest
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, Tool, exceptions
from pydantic_ai.capabilities import AbstractCapability, CombinedCapability
from pydantic_ai.exceptions import ModelContextWindowExceededError, RetryModelRequest, ToolFailed
from pydantic_ai.messages import CompactionPart, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from releases import Releases, no_later
from scenarios import FAIL, LOOK, ON, UNSET, Bench, Played, Reply, Scenarios, ToolFailure

from loopguard_plugin.hosts import pydantic_ai as host
from loopguard_plugin.hosts._shared import Config
from loopguard_plugin.hosts.pydantic_ai import Adapter, TurnEnded, attach

# ``run_sync`` leaves its event loop open; whenever it is collected, Python says so.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

Scripted = Reply | Exception | list[Any]


class Script:
    """Answers from a list, and keeps the tool results that it was shown."""

    def __init__(self, *replies: Scripted) -> None:
        self.replies: list[Scripted] = list(replies)
        self.requests: list[list[str]] = []
        self.messages: list[Any] = []

    def __call__(self, messages: list[Any], info: Any) -> ModelResponse:
        self.messages = messages
        reply = self.replies[len(self.requests)]
        self.requests.append(returns(messages))
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            return ModelResponse(parts=[TextPart(reply)])
        turn = len(self.requests)
        return ModelResponse(
            parts=[
                ToolCallPart(one[0], one[1], tool_call_id=f"c{turn}-{at}") if isinstance(one, tuple) else one
                for at, one in enumerate(reply)
            ]
        )


def returns(messages: Sequence[Any]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]


def failing(function: Callable[..., str], *args: object) -> str:
    """Pydantic AI shows the model only failures of this class; it prefixes nothing."""
    try:
        return function(*args)
    except ToolFailure as error:
        raise ToolFailed(str(error)) from error


def tools(bench: Bench) -> list[Tool[None]]:
    async def wait(seconds: float, fail: bool) -> str:
        await asyncio.sleep(seconds)
        return failing(bench.wait_or_fail, fail)

    def fail(path: str) -> str:
        return failing(bench.fail, path)

    functions = {"look": bench.look, "tick": bench.tick, "fail": fail, "meet": bench.meet, "wait": wait}
    return [Tool(function, name=name) for name, function in functions.items()]


def agent_with(script: Script, bench: Bench, *capabilities: Any, **more: Any) -> Agent[None, Any]:
    make: Any = Agent  # overloads decide its type parameters
    agent: Agent[None, Any] = make(
        FunctionModel(script), tools=tools(bench), capabilities=list(capabilities), retries=50, **more
    )
    return agent


class TestPydanticAI(Scenarios):
    logger = host.LOGGER

    def new_adapter(self, config: Config) -> Adapter:
        return Adapter(config)

    def play(self, adapter: Any, *turns: Sequence[Reply], session: str = "s", bench: Bench | None = None) -> Played:
        bench, script = bench or Bench(), Script()
        history: list[Any] = []
        agent = agent_with(script, bench, *([adapter] if adapter is not None else []), name="scripted")
        for number, turn in enumerate(turns):
            script.replies[len(script.requests) :] = turn
            code: str | None = None
            try:
                running = agent.run(f"question {number}", message_history=history, conversation_id=session)
                result = asyncio.run(running)  # run_sync leaves its event loop open in a thread
                history, final = result.all_messages(), str(result.output)
            except TurnEnded as ended:
                history, final, code = script.messages, str(ended), str(ended.code)
        return Played(bench, script.requests, final, code)


def test_example() -> None:
    """The example in the module's docstring runs as it is written."""
    assert doctest.testmod(host, raise_on_error=True).attempted > 0


def test_attach_puts_the_adapter_last() -> None:
    """So that it sees what happens before other capabilities change it."""
    capabilities: list[Any] = [Trim()]
    adapter = attach(capabilities, UNSET)
    assert capabilities[-1] is adapter
    with pytest.raises(TurnEnded, match="failed 3 times"):
        agent_with(Script(*[FAIL] * 3), Bench(), *capabilities).run_sync("go")


@pytest.mark.parametrize("shared", [False, True])
def test_a_parent_that_delegates_to_an_ended_agent_ends_too(shared: bool) -> None:
    """The end of an agent that a tool runs is a failure of that tool: the parent reads it, and the third one ends."""
    bench, adapter = Bench(), Adapter(UNSET)
    inner = agent_with(Script(*[FAIL] * 40), bench, adapter if shared else Adapter(UNSET), name="inner")

    async def ask(question: str) -> str:
        return str((await inner.run(question)).output)

    script = Script(*[[("ask", {"question": "why?"})]] * 6, "never said")
    make: Any = Agent
    outer = make(FunctionModel(script), tools=[Tool(ask)], capabilities=[adapter], name="outer")
    with pytest.raises(TurnEnded, match="`ask` failed 3 times") as ended:
        asyncio.run(outer.run("go"))
    assert (len(script.requests), len(bench.ran)) == (3, 9)
    assert "cannot open a" in script.requests[-1][0], "the parent's model reads why"
    assert ended.value.tool == "ask"


class Trim(AbstractCapability[Any]):
    """Recovers from an overflow by asking again."""

    async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> ModelResponse:
        if isinstance(error, ModelContextWindowExceededError):
            raise RetryModelRequest()
        raise error


OVERFLOW = ModelContextWindowExceededError("scripted", "too long")


@pytest.mark.parametrize(
    "compacted",
    [
        pytest.param([OVERFLOW, LOOK], id="overflow"),
        pytest.param(
            [[CompactionPart("so far: nothing", provider_name="scripted"), ToolCallPart("look", {"path": "a"})]],
            id="provider-compacts",
        ),
    ],
)
def test_loop_after_compaction_ends(compacted: list[Scripted]) -> None:
    """Three identical calls after a compaction end the turn, with default settings; without loopguard they go on."""
    script: list[Scripted] = [LOOK, LOOK, *compacted, *[LOOK] * 8, "done"]
    bench = Bench()
    with pytest.raises(TurnEnded) as ended:
        agent_with(Script(*script), bench, Trim(), Adapter(UNSET)).run_sync("go")
    assert ended.value.code == "compaction_loop_persisted"
    assert len(bench.ran) == 2 + 3
    bench = Bench()
    assert agent_with(Script(*script), bench, Trim()).run_sync("go").output == "done"
    assert len(bench.ran) == 2 + 9


def test_a_run_without_a_prompt_goes_on() -> None:
    """A run that is taken up from its history, as after a crash, still has its two failures."""
    bench = Bench()
    script = Script(FAIL, FAIL, RuntimeError("the network is down"), FAIL, "never said")
    agent = agent_with(script, bench, Adapter(UNSET))
    with pytest.raises(RuntimeError, match="network"):
        agent.run_sync("go")
    with pytest.raises(TurnEnded, match="failed 3 times"):
        agent.run_sync(message_history=script.messages)
    assert len(bench.ran) == 3


def test_a_run_that_waited_for_approval_goes_on() -> None:
    """Calls that wait for a person stay open; the run that brings the answer settles them where they belong."""
    bench = Bench()

    def careful() -> str:
        return "done with care"

    script = Script(FAIL, FAIL, [*FAIL, ("careful", {})], "never said")
    agent = Agent(
        FunctionModel(script),
        tools=[*tools(bench), Tool(careful, requires_approval=True)],
        capabilities=[Adapter(UNSET)],
        output_type=[str, DeferredToolRequests],
    )
    waiting = agent.run_sync("go")
    requests = waiting.output
    assert isinstance(requests, DeferredToolRequests)
    answers = requests.build_results(approve_all=True)
    with pytest.raises(TurnEnded, match="failed 3 times"):
        agent.run_sync(message_history=waiting.all_messages(), deferred_tool_results=answers)
    assert len(bench.ran) == 3


def test_streamed_runs_are_guarded_too() -> None:
    """``run_stream`` ends in the same way."""

    async def stream(messages: list[Any], info: Any) -> Any:
        yield {0: DeltaToolCall(name="fail", json_args='{"path": "a"}', tool_call_id=f"c{len(messages)}")}

    agent = Agent(FunctionModel(stream_function=stream), tools=tools(Bench()), capabilities=[Adapter(UNSET)])

    async def run() -> None:
        async with agent.run_stream("go") as result:
            await result.get_output()

    with pytest.raises(TurnEnded, match="failed 3 times"):
        asyncio.run(run())


def test_an_ended_turn_has_a_whole_history() -> None:
    """Every call has its result in the history of an ended run, refused ones their reason."""
    from pydantic_ai import capture_run_messages

    with capture_run_messages() as messages, pytest.raises(TurnEnded):
        agent_with(Script(*[LOOK] * 22, "never said"), Bench(), Adapter(ON)).run_sync("go")
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    assert "was not run" in returns([last])[0]
    assert len(returns(messages)) == 22


@pytest.mark.parametrize(
    ("value", "noted"),
    [
        pytest.param({"files": 0}, lambda content, note: content == {"files": 0, "loopguard_note": note}, id="object"),
        pytest.param(7, lambda content, note: content == [7, note], id="number"),
        pytest.param(["a", "b"], lambda content, note: content == ["a", "b", note], id="list"),
    ],
)
def test_notes_fit_the_kind_of_result(value: Any, noted: Callable[[Any, str], bool]) -> None:
    """Whatever a tool returns, the model gets the note, and the result's own content stays."""
    script = Script(*[[("value", {})]] * 11, "done")
    Agent(FunctionModel(script), tools=[Tool(lambda: value, name="value")], capabilities=[Adapter(ON)]).run_sync("go")
    parts = [part for message in script.messages for part in message.parts if isinstance(part, ToolReturnPart)]
    content: Any = parts[-1].content
    note = content["loopguard_note"] if isinstance(content, dict) else content[-1]
    assert note.startswith("[loopguard]")
    assert noted(content, note)
    assert parts[-2].content == value


def test_model_retries_count() -> None:
    """A tool that asks the model to retry, with the same words three times, ends the turn."""

    def picky() -> str:
        raise ModelRetry("no such path")

    script = Script(*[[("picky", {})]] * 6, "never said")
    agent = Agent(FunctionModel(script), tools=[picky], retries=9, capabilities=[Adapter(UNSET)])
    with pytest.raises(TurnEnded, match="no such path"):
        agent.run_sync("go")


def test_structured_output_is_left_alone() -> None:
    """An agent that answers with an output tool does so with the guard on."""
    bench = Bench()
    script = Script(LOOK, [("final_result", {"response": 3})])
    assert agent_with(script, bench, Adapter(ON), output_type=int).run_sync("go").output == 3


class TestReleases(Releases):
    host = host
    package, older, newer, later_major = "pydantic-ai-slim", "2.1.0", "2.99.0", "3.0.0"
    lacking = "user messages"

    def take_away(self, patch: pytest.MonkeyPatch) -> None:
        """Capabilities are not told any more that a run begins."""
        patch.setattr(CombinedCapability, "before_run", no_later)

    def ruin(self, patch: pytest.MonkeyPatch) -> None:
        """A tool cannot fail without using up a retry."""
        patch.delattr(exceptions, "ToolFailed")
