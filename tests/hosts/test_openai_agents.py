"""loopguard in openai-agents 0.24, with the real package and its scripted model."""

from __future__ import annotations

import asyncio
import doctest
import gc
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

import agents
from agents import Agent, FunctionTool, RunConfig, Runner, function_tool, handoff
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCompactionItem
from releases import Releases
from scenarios import FAIL, LOOK, ON, UNSET, Bench, Call, Played, Reply, Scenarios

from loopguard_plugin.hosts import openai_agents as host
from loopguard_plugin.hosts._openai_runs import RUNS
from loopguard_plugin.hosts._shared import Config
from loopguard_plugin.hosts.openai_agents import Adapter, TurnEnded, attach

BROKEN: list[Call] = [("broken", {})]
AGAIN: list[Call] = [("transfer_to_me", {})]
RUN = RunConfig(tracing_disabled=True, tool_not_found_behavior="return_error_to_model")


IDS = itertools.count()  # the SDK refuses a call id that was used before


def items(reply: Reply) -> list[Any]:
    if isinstance(reply, str):
        return [assistant_message(reply)]
    return [function_call(name, args, call_id=f"c{next(IDS)}") for name, args in reply]


def scripted(*replies: Reply) -> ScriptedModel:
    return ScriptedModel([items(reply) for reply in replies])


def outputs(call: Any) -> list[str]:
    given = [] if isinstance(call.input, str) else call.input
    return [str(item["output"]) for item in given if item.get("type") == "function_call_output"]


def tools(bench: Bench) -> list[FunctionTool]:
    async def wait(seconds: float, fail: bool) -> str:
        await asyncio.sleep(seconds)
        return bench.wait_or_fail(fail)

    async def meet() -> str:
        return await asyncio.to_thread(bench.meet)

    functions: dict[str, Any] = {
        "look": bench.look,
        "tick": bench.tick,
        "fail": bench.fail,
        "meet": meet,
        "wait": wait,
    }
    return [
        function_tool(
            function, name_override=name, use_docstring_info=False, failure_error_function=lambda _, error: str(error)
        )
        for name, function in functions.items()
    ]


class TestRunHooks(Scenarios):
    logger = host.LOGGER
    streamed = False

    def new_adapter(self, config: Config) -> Adapter:
        return Adapter(config)

    def agent(self, adapter: Adapter | None, bench: Bench) -> tuple[Agent[Any], Adapter | None]:
        return Agent(name="scripted", tools=list(tools(bench))), adapter

    def play(self, adapter: Any, *turns: Sequence[Reply], session: str = "s", bench: Bench | None = None) -> Played:
        bench = bench or Bench()
        agent, hooks = self.agent(adapter, bench)

        async def ask(given: Any) -> Any:
            if not self.streamed:
                return await Runner.run(agent, given, hooks=hooks, run_config=RUN, max_turns=99)
            result = Runner.run_streamed(agent, given, hooks=hooks, run_config=RUN, max_turns=99)
            async for _ in result.stream_events():
                pass
            return result

        given: list[Any] = []
        requests: list[list[str]] = []
        for number, turn in enumerate(turns):
            given.append({"role": "user", "content": f"question {number}"})
            code: str | None = None
            agent.model = model = scripted(*turn)
            try:
                result = asyncio.run(ask(given))
                given, final = result.to_input_list(), str(result.final_output)
            except TurnEnded as ended:
                given, final, code = [*model.calls[-1].input], str(ended), str(ended.code)
            requests.extend(outputs(call) for call in model.calls)
        return Played(bench, requests, final, code)


class TestRunHooksStreamed(TestRunHooks):
    streamed = True


class TestAttached(TestRunHooks):
    """The adapter in the agent's own hooks."""

    def agent(self, adapter: Adapter | None, bench: Bench) -> tuple[Agent[Any], Adapter | None]:
        agent: Agent[Any] = Agent(name="scripted", tools=list(tools(bench)))
        if adapter is not None:
            host._attach(agent, adapter)
        return agent, None


def run(agent: Agent[Any], **more: Any) -> Any:
    more.setdefault("run_config", RUN)
    return asyncio.run(Runner.run(agent, "go", max_turns=99, **more))


def test_example() -> None:
    """The example in the module's docstring runs as it is written."""
    assert doctest.testmod(host, raise_on_error=True).attempted > 0


def test_attach_covers_handoffs() -> None:
    """One line guards an agent and whoever it hands off to; the count goes on from one to the other."""
    bench = Bench()
    second: Agent[Any] = Agent(name="second", model=scripted(*[FAIL] * 3, "never said"), tools=list(tools(bench)))
    first: Agent[Any] = Agent(
        name="first",
        model=scripted(FAIL, [("transfer_to_second", {})]),
        tools=list(tools(bench)),
        handoffs=[handoff(second)],
    )
    attach(first, UNSET)
    with pytest.raises(TurnEnded, match="failed 3 times"):
        run(first)
    assert len(bench.ran) == 1 + 3, "the handoff between them succeeded"


def test_loop_after_compaction_ends() -> None:
    """Three identical calls after the provider compacted end the run, with default settings."""
    script = [items(LOOK) for _ in range(11)]
    script[2].insert(0, ResponseCompactionItem(id="cmp", encrypted_content="x", type="compaction"))

    def agent(bench: Bench) -> Agent[Any]:
        return Agent(name="a", model=ScriptedModel([*script, items("done")]), tools=list(tools(bench)))

    bench = Bench()
    with pytest.raises(TurnEnded) as ended:
        run(agent(bench), hooks=Adapter(UNSET))
    assert ended.value.code == "compaction_loop_persisted"
    assert len(bench.ran) == 2 + 3
    assert run(agent(Bench())).final_output == "done"


def test_default_failures_count() -> None:
    """A tool without a failure function of its own tells the model one fixed sentence; the user reads what happened."""

    @function_tool
    def broken() -> str:
        raise OSError("no such file")

    with pytest.raises(TurnEnded, match=r"failed 3 times.*no such file"):
        run(Agent(name="a", model=scripted(*[BROKEN] * 4), tools=[broken]), hooks=Adapter(UNSET))


@pytest.mark.parametrize("own", [{}, {"failure_error_function": lambda _, error: "Sorry!"}], ids=["default", "own"])
def test_different_exceptions_are_different_failures(own: dict[str, Any]) -> None:
    """Where the model reads the same sentence each time, three different exceptions are three failures."""
    errors = iter(["disk full", "no such file", "connection reset", "disk full", "disk full", "disk full"])

    @function_tool(**own)
    def broken() -> str:
        raise OSError(next(errors))

    model = scripted(*[BROKEN] * 6, "never said")
    with pytest.raises(TurnEnded, match=r"failed 3 times.*disk full"):
        run(Agent(name="a", model=model, tools=[broken]), hooks=Adapter(UNSET))
    assert len(model.calls) == 6
    assert len(set(outputs(model.calls[-1]))) == 1, "the model's own words are untouched"


def test_failures_with_a_formatter_of_ones_own_count_through_run_config() -> None:
    """``adapter.run_config`` keeps the user's words for the model, and the guard knows what they stand for."""

    @function_tool
    def broken() -> str:
        raise OSError("no such file")

    mine = RunConfig(tracing_disabled=True, tool_error_formatter=lambda args: "Sorry!")
    adapter = Adapter(UNSET)
    agent: Agent[Any] = Agent(name="a", model=scripted(*[BROKEN] * 4), tools=[broken])
    with pytest.raises(TurnEnded, match="Last error: no such file"):
        run(agent, hooks=adapter, run_config=adapter.run_config(mine))


def test_a_parent_that_delegates_to_an_ended_agent_ends_too() -> None:
    """An agent that is a tool of another: that its run was ended is a failure of that tool, the third one ends."""
    bench = Bench()
    inner: Agent[Any] = Agent(name="inner", model=scripted(*[FAIL] * 40), tools=list(tools(bench)))
    ask: list[Call] = [("ask", {"input": "do it"})]
    outer: Agent[Any] = Agent(
        name="outer", model=scripted(*[ask] * 6, "never said"), tools=[inner.as_tool("ask", "asks the other")]
    )
    attach(inner, UNSET)
    with pytest.raises(TurnEnded, match="`ask` failed 3 times"):
        run(outer, hooks=Adapter(UNSET))
    assert len(bench.ran) == 9


def test_tools_without_guardrails_still_end_the_run() -> None:
    """A handoff to oneself, again and again, cannot be refused; the second critical response ends the run."""
    me: Agent[Any] = Agent(name="me", model=scripted(*[AGAIN] * 30))
    me.handoffs = [handoff(me)]
    with pytest.raises(TurnEnded) as ended:
        run(me, hooks=Adapter(ON))
    assert ended.value.code == "tool_loop_persisted"
    assert ended.value.run_data is not None


def test_guardrails_are_put_on_once_and_do_nothing_alone() -> None:
    """A tool that was used in a guarded run has one pair of guardrails, and works in runs without an adapter."""
    bench = Bench()
    shared = tools(bench)
    for _ in range(2):
        agent: Agent[Any] = Agent(name="a", model=scripted(LOOK, "done"), tools=list(shared))
        run(agent, hooks=Adapter(ON))
    look = shared[0]
    assert (len(look.tool_input_guardrails or ()), len(look.tool_output_guardrails or ())) == (1, 1)
    assert run(Agent(name="a", model=scripted(*[LOOK] * 25, "done"), tools=list(shared))).final_output == "done"


def test_a_run_that_waited_for_approval_goes_on() -> None:
    """The answer of a person is no new user message: the third failure of the run ends it."""
    bench = Bench()

    @function_tool(needs_approval=True)
    def careful() -> str:
        return "done with care"

    script = scripted(FAIL, FAIL, [*FAIL, ("careful", {})], "never said")
    agent: Agent[Any] = Agent(name="a", model=script, tools=[*tools(bench), careful])
    adapter = Adapter(UNSET)
    waiting = run(agent, hooks=adapter)
    (item,) = waiting.interruptions
    state = waiting.to_state()
    state.approve(item)
    with pytest.raises(TurnEnded, match="failed 3 times"):
        asyncio.run(Runner.run(agent, state, hooks=adapter, run_config=RUN))
    assert len(bench.ran) == 3


def test_runs_are_forgotten() -> None:
    """Nothing is kept of a run that is over."""
    gc.collect()
    before = len(RUNS._runs)
    run(Agent(name="a", model=scripted(LOOK, "done"), tools=list(tools(Bench()))), hooks=Adapter(ON))
    gc.collect()
    assert len(RUNS._runs) == before


class TestReleases(Releases):
    host = host
    package, older, newer, later_major = "openai-agents", "0.22.3", "0.99.0", "1.0.0"
    lacking = "unknown tools"

    def take_away(self, patch: pytest.MonkeyPatch) -> None:
        """There is no setting that keeps a run going after an unknown tool."""
        patch.delitem(RunConfig.__dataclass_fields__, "tool_not_found_behavior")

    def ruin(self, patch: pytest.MonkeyPatch) -> None:
        """No guardrail can refuse a call."""
        patch.delattr(agents, "ToolInputGuardrail")
