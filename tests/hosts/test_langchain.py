"""loopguard in langchain 1.5, with the real package and a scripted model: sync, async, summaries, checkpoints."""

from __future__ import annotations

import asyncio
import doctest
import time
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("langchain", reason="langchain is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain.agents.middleware import types as middleware_types
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import tool_node
from langgraph.types import Command
from releases import Releases
from scenarios import FAIL, LOOK, ON, UNSET, Bench, Call, Played, Reply, Scenarios, ToolFailure

from loopguard_plugin.hosts import langchain as host
from loopguard_plugin.hosts._shared import Config
from loopguard_plugin.hosts.langchain import Adapter, attach


class ScriptedModel(BaseChatModel):
    """Answers from a list, and keeps what it was asked."""

    replies: list[Any]
    requests: list[list[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: object, **kwargs: object) -> ScriptedModel:
        return self

    def _generate(self, messages: list[BaseMessage], *args: object, **kwargs: object) -> ChatResult:
        self.requests.append(messages)
        reply: Reply | AIMessage = self.replies[len(self.requests) - 1]
        if isinstance(reply, AIMessage):
            message = reply
        elif isinstance(reply, str):
            message = AIMessage(content=reply)
        else:
            turn = len(self.requests)
            message = AIMessage(content="", tool_calls=[_call(one, at, turn) for at, one in enumerate(reply)])
        return ChatResult(generations=[ChatGeneration(message=message)])


def _call(call: Call, at: int, turn: int) -> Any:
    return {"name": call[0], "args": call[1], "id": f"c{turn}-{at}", "type": "tool_call"}


def scripted(*replies: Reply | AIMessage) -> ScriptedModel:
    return ScriptedModel(replies=list(replies), requests=[])


def tools(bench: Bench) -> list[StructuredTool]:
    def wait(seconds: float, fail: bool) -> str:
        time.sleep(seconds)
        return shown(bench.wait_or_fail, fail)

    async def later(seconds: float, fail: bool) -> str:
        await asyncio.sleep(seconds)
        return shown(bench.wait_or_fail, fail)

    def fail(path: str) -> str:
        return shown(bench.fail, path)

    functions = {"look": bench.look, "tick": bench.tick, "fail": fail, "meet": bench.meet}
    made = [
        StructuredTool.from_function(function, name=name, description=name, handle_tool_error=True)
        for name, function in functions.items()
    ]
    return [
        *made,
        StructuredTool.from_function(wait, later, name="wait", description="wait", handle_tool_error=True),
    ]


def shown(function: Any, *args: object) -> str:
    """LangChain shows the model only errors of this class, and only where the tool says so."""
    try:
        return str(function(*args))
    except ToolFailure as error:
        raise ToolException(str(error)) from error


def tool_texts(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def code_of(message: BaseMessage) -> str | None:
    mark = message.additional_kwargs.get("loopguard", {})
    return str(mark["code"]) if "code" in mark else None


class TestSync(Scenarios):
    logger = host.LOGGER
    asynchronous = False

    def new_adapter(self, config: Config) -> Adapter:
        return Adapter(config)

    def play(self, adapter: Any, *turns: Sequence[Reply], session: str = "s", bench: Bench | None = None) -> Played:
        bench = bench or Bench()
        model = scripted()
        agent = create_agent(
            model,
            tools(bench),
            middleware=[adapter] if adapter is not None else [],
            checkpointer=InMemorySaver(),
            name="scripted",
        )
        config: Any = {"configurable": {"thread_id": session}}
        for number, turn in enumerate(turns):
            model.replies = [*model.replies[: len(model.requests)], *turn]
            question = {"messages": [("user", f"question {number}")]}
            if self.asynchronous:
                messages = asyncio.run(agent.ainvoke(question, config))["messages"]
            else:
                messages = agent.invoke(question, config)["messages"]
        last = messages[-1]
        return Played(bench, [tool_texts(request) for request in model.requests], last.text, code_of(last))


class TestAsync(TestSync):
    asynchronous = True


def run(model: ScriptedModel, middleware: list[Any], bench: Bench, **more: Any) -> Any:
    agent = create_agent(model, tools(bench), middleware=middleware, **more)
    return agent.invoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "s"}})


def test_example() -> None:
    """The example in the module's docstring runs as it is written."""
    assert doctest.testmod(host, optionflags=doctest.ELLIPSIS, raise_on_error=True).attempted > 0


def test_attach_puts_the_adapter_first() -> None:
    """So that it reads results before a summary takes them away."""
    bench = Bench()
    middleware: list[Any] = [SummarizationMiddleware(scripted(), trigger=("messages", 1000))]
    adapter = attach(middleware, UNSET)
    assert middleware[0] is adapter
    assert code_of(run(scripted(*[FAIL] * 3), middleware, bench)["messages"][-1]) == "repeated_tool_error"


@pytest.mark.parametrize("first", [True, False], ids=["adapter-first", "summary-first"])
def test_loop_after_compaction_ends(first: bool) -> None:
    """Three identical calls after a summary end the turn, with default settings; without loopguard they go on."""

    def play(guards: list[Any]) -> tuple[list[BaseMessage], Bench]:
        bench = Bench()
        writer = scripted(*["so far: nothing"] * 9)
        summary = SummarizationMiddleware(writer, trigger=("messages", 12), keep=("messages", 2))
        middleware = [*guards, summary] if first else [summary, *guards]
        model = scripted(*[LOOK] * 12, "done")
        return run(model, middleware, bench)["messages"], bench

    messages, bench = play([Adapter(UNSET)])
    assert any(message.additional_kwargs.get("lc_source") == "summarization" for message in messages)
    assert code_of(messages[-1]) == "compaction_loop_persisted"
    assert len(bench.ran) == 6 + 3
    messages, bench = play([])
    assert (messages[-1].text, len(bench.ran)) == ("done", 12)


def test_a_resumed_run_keeps_its_counts_in_another_process() -> None:
    """Resumed with a new adapter after a person's approval, the run still knows its two failures before that."""
    saver, bench = InMemorySaver(), Bench()
    config: Any = {"configurable": {"thread_id": "s"}}

    def agent(*replies: Reply) -> Any:
        asks = HumanInTheLoopMiddleware(interrupt_on={"look": True})
        return create_agent(scripted(*replies), tools(bench), middleware=[Adapter(UNSET), asks], checkpointer=saver)

    stopped = agent(FAIL, FAIL, [*FAIL, *LOOK]).invoke({"messages": [("user", "go")]}, config)
    assert stopped["__interrupt__"]
    approve: Any = Command(resume={"decisions": [{"type": "approve"}]})
    messages = agent("never said").invoke(approve, config)["messages"]
    assert code_of(messages[-1]) == "repeated_tool_error"
    assert bench.ran[-2:] == [*FAIL, *LOOK] or bench.ran[-2:] == [*LOOK, *FAIL]


@pytest.mark.parametrize("known", [True, False], ids=["same-adapter", "new-adapter"])
def test_a_rebuilt_run_counts_as_before(known: bool) -> None:
    """Twelve identical calls with an interrupt in the middle: the note comes at the 11th, once, as without it."""
    saver, bench = InMemorySaver(), Bench()
    config: Any = {"configurable": {"thread_id": "s"}}
    adapter = Adapter(ON)
    model = scripted(*[LOOK] * 23, "never said")

    def agent(**more: Any) -> Any:
        return create_agent(model, tools(bench), middleware=[adapter], checkpointer=saver, **more)

    agent(interrupt_after=["tools"]).invoke({"messages": [("user", "go")]}, config)
    for _ in range(10):
        adapter = adapter if known else Adapter(ON)
        agent(interrupt_after=["tools"]).invoke(None, config)
    adapter = adapter if known else Adapter(ON)
    messages = agent().invoke(None, config)["messages"]
    notes = [at for at, text in enumerate(tool_texts(messages)) if "Possible loop" in text]
    assert notes == [10]
    assert code_of(messages[-1]) == "tool_loop_persisted"
    assert len(bench.ran) == 20


def test_streamed_updates_show_the_end() -> None:
    """Whoever follows the stream of updates sees loopguard's node end the turn."""
    agent = create_agent(scripted(*[FAIL] * 3), tools(Bench()), middleware=[Adapter(UNSET)])
    updates: list[Any] = list(agent.stream({"messages": [("user", "go")]}, stream_mode="updates"))
    (last,) = updates[-1]["loopguard.before_model"]["messages"]
    assert code_of(last) == "repeated_tool_error"


def test_streamed_messages_show_the_reason() -> None:
    """Whoever streams messages reads the reason as one."""
    agent = create_agent(scripted(*[FAIL] * 3), tools(Bench()), middleware=[Adapter(UNSET)])
    streamed: list[Any] = list(agent.stream({"messages": [("user", "go")]}, stream_mode="messages"))
    assert [code_of(message) for message, _ in streamed][-1] == "repeated_tool_error"
    assert sum("cannot open a" in message.text and isinstance(message, AIMessage) for message, _ in streamed) == 1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_parent_that_delegates_to_an_ended_agent_ends_too(asynchronous: bool) -> None:
    """A tool that gives an ended agent's last message has failed; the third identical delegation ends the parent."""
    bench, adapter = Bench(), Adapter(UNSET)
    inner = create_agent(scripted(*[FAIL] * 40), tools(bench), middleware=[adapter])

    def ask() -> str:
        return str(inner.invoke({"messages": [("user", "inner question")]})["messages"][-1].text)

    outer = StructuredTool.from_function(ask, name="ask", description="ask")
    model = scripted(*[[("ask", {})]] * 6, "never said")
    agent = create_agent(model, [outer], middleware=[adapter], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "s"}}
    question: Any = {"messages": [("user", "outer question")]}
    ended = asyncio.run(agent.ainvoke(question, config)) if asynchronous else agent.invoke(question, config)
    assert code_of(ended["messages"][-1]) == "repeated_tool_error"
    assert "`ask` failed 3 times" in ended["messages"][-1].text
    assert (len(model.requests), len(bench.ran)) == (3, 9)


def test_malformed_arguments_count() -> None:
    """Arguments that are no JSON never reach a tool; beside a good call they count in every response."""

    def reply(number: int) -> AIMessage:
        bad: Any = {"name": "look", "args": '{"path": ', "id": f"bad{number}", "type": "invalid_tool_call"}
        return AIMessage(content="", tool_calls=[_call(("tick", {}), 0, number)], invalid_tool_calls=[bad])

    model = scripted(*[reply(number) for number in range(25)], "done")
    bench = Bench()
    config: dict[str, Any] = {"tools": {"loopDetection": {"enabled": True, "historySize": 60}}}
    messages = run(model, [Adapter(config)], bench)["messages"]
    assert code_of(messages[-1]) == "tool_loop_persisted"
    assert len(bench.ran) == 20
    assert len(run(scripted(*[reply(number) for number in range(25)], "done"), [], bench)["messages"]) == 1 + 25 * 3 + 1


def test_an_agent_inside_a_tool_is_a_session_of_its_own() -> None:
    """The inner agent's user message does not reset the outer one's failures, though both share a thread."""
    bench = Bench()
    adapter = Adapter(UNSET)

    def ask() -> str:
        inner = create_agent(scripted(FAIL, FAIL, "inner done"), tools(bench), middleware=[adapter])
        inner.invoke({"messages": [("user", "inner question")]})
        raise ToolException("nothing found")

    outer = StructuredTool.from_function(ask, name="ask", description="ask", handle_tool_error=True)
    model = scripted(*[[("ask", {})]] * 5, "never said")
    agent = create_agent(model, [outer], middleware=[adapter], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "s"}}
    messages = agent.invoke({"messages": [("user", "outer question")]}, config)["messages"]
    assert code_of(messages[-1]) == "repeated_tool_error"
    assert bench.ran == [("fail", {"path": "a"})] * 6


def test_content_blocks_get_the_note_as_one_more_block() -> None:
    """A result that is a list of blocks keeps them all."""

    def picture() -> list[dict[str, str]]:
        return [{"type": "text", "text": "a picture"}]

    tool = StructuredTool.from_function(picture, name="picture", description="picture")
    model = scripted(*[[("picture", {})]] * 11, "done")
    messages = create_agent(model, [tool], middleware=[Adapter(ON)]).invoke({"messages": [("user", "go")]})["messages"]
    last = [message for message in messages if isinstance(message, ToolMessage)][-1]
    assert last.content[0] == {"type": "text", "text": "a picture"}
    assert "[loopguard]" in last.content[1]["text"]


class TestReleases(Releases):
    host = host
    package, older, newer, later_major = "langchain", "1.3.0", "1.99.0", "2.0.0"
    lacking = "unknown tools"

    def take_away(self, patch: pytest.MonkeyPatch) -> None:
        """The words for an unknown tool have changed."""
        patch.setattr(tool_node, "INVALID_TOOL_NAME_ERROR_TEMPLATE", "No {requested_tool} among {available_tools}.")

    def ruin(self, patch: pytest.MonkeyPatch) -> None:
        """A middleware cannot jump to the end any more."""
        patch.delattr(middleware_types, "hook_config")
