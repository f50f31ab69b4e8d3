"""loopguard in strands-agents 1.62, with the real package and a scripted model."""

from __future__ import annotations

import asyncio
import doctest
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="strands-agents is not installed")

import strands
from releases import Releases
from scenarios import FAIL, LOOK, ON, UNSET, Bench, Played, Reply, Scenarios
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import AfterInvocationEvent, BeforeToolCallEvent
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

from loopguard_plugin import hosts
from loopguard_plugin.hosts import strands as host
from loopguard_plugin.hosts._shared import Config
from loopguard_plugin.hosts.strands import Adapter, attach

OVERFLOW = "overflow"


class ScriptedModel(Model):
    """Answers from a list, and keeps the tool results that it was shown."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[list[str]] = []

    def get_config(self) -> dict[str, Any]:
        return {}

    def update_config(self, **config: Any) -> None:
        pass

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        reply = self.replies[len(self.requests)]
        self.requests.append(results(messages))
        if reply == OVERFLOW:
            raise ContextWindowOverflowException("too long")
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(reply, str):
            yield {"contentBlockDelta": {"delta": {"text": reply}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        for at, (name, given) in enumerate(reply):
            call = {"name": name, "toolUseId": f"c{len(self.requests)}-{at}"}
            yield {"contentBlockStart": {"start": {"toolUse": call}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


def results(messages: Any) -> list[str]:
    """The text of every tool result, in the order of calls: results come in the order of finishing."""
    found = {}
    for message in messages:
        for block in message["content"]:
            if "toolUse" in block:
                found[block["toolUse"]["toolUseId"]] = ""
            if "toolResult" in block:
                result = block["toolResult"]
                found[result["toolUseId"]] = "\n\n".join(part.get("text", "") for part in result["content"])
    return list(found.values())


def tools(bench: Bench) -> list[Any]:
    async def wait(seconds: float, fail: bool) -> str:
        await asyncio.sleep(seconds)
        return bench.wait_or_fail(fail)

    functions = {"look": bench.look, "tick": bench.tick, "fail": bench.fail, "meet": bench.meet, "wait": wait}
    return [strands.tool(function, name=name, description=name) for name, function in functions.items()]


def agent_with(model: ScriptedModel, bench: Bench, *hooks: Any, **more: Any) -> strands.Agent:
    more.setdefault("conversation_manager", SlidingWindowConversationManager(window_size=1000))
    return strands.Agent(model, tools=tools(bench), hooks=list(hooks), callback_handler=None, **more)


class TestStrands(Scenarios):
    logger = host.LOGGER

    def new_adapter(self, config: Config) -> Adapter:
        return Adapter(config)

    def play(self, adapter: Any, *turns: Sequence[Reply], session: str = "s", bench: Bench | None = None) -> Played:
        bench = bench or Bench()
        model = ScriptedModel()
        agent = agent_with(model, bench, *([adapter] if adapter is not None else []), agent_id="scripted")
        for number, turn in enumerate(turns):
            model.replies[len(model.requests) :] = turn
            result = agent(f"question {number}")
        code = result.state.get("loopguard", {}).get("code")
        return Played(bench, model.requests, str(result).strip(), code)


def yes(stopped: Any) -> Any:
    """A person's answer to the one interrupt of a result."""
    (asked,) = stopped.interrupts
    return [{"interruptResponse": {"interruptId": asked.id, "response": "yes"}}]


def test_example() -> None:
    """The example in the module's docstring runs as it is written."""
    assert doctest.testmod(host, raise_on_error=True).attempted > 0


def test_attach() -> None:
    """One line puts the guard into an agent that exists already."""
    agent = agent_with(ScriptedModel(*[FAIL] * 3), Bench())
    attach(agent, UNSET)
    assert agent("go").state["loopguard"]["code"] == "repeated_tool_error"


def test_a_tool_cannot_hide_its_failures() -> None:
    """A result that says it was cancelled is a failure like any other: the third one ends the turn."""

    def flaky() -> dict[str, Any]:
        return {"status": "error", "content": [{"text": "boom"}], "cancelled": True}

    again: Reply = [("flaky", {})]
    model = ScriptedModel(*[again] * 6, "done")
    agent = strands.Agent(model, tools=[strands.tool(flaky, name="flaky", description="flaky")], callback_handler=None)
    attach(agent, UNSET)
    assert agent("go").state["loopguard"]["code"] == "repeated_tool_error"
    assert len(model.requests) == 3


def test_streaming_shows_the_reason() -> None:
    """Whoever streams, by events or by a callback, reads the reason as text, once, before the result."""
    shown: list[str] = []
    agent = agent_with(ScriptedModel(*[FAIL] * 3, "again"), Bench(), Adapter(UNSET))
    agent.callback_handler = lambda **event: shown.append(event["data"]) if "data" in event else None

    async def stream(question: str) -> list[Any]:
        return [event async for event in agent.stream_async(question)]

    events = asyncio.run(stream("go"))
    reason = str(events[-1]["result"]).strip()
    assert "cannot open a" in reason
    assert [event["data"] for event in events if "data" in event] == shown == [reason]
    chunks = [event["event"] for event in events if "event" in event][-5:]
    assert [next(iter(chunk)) for chunk in chunks][::2] == ["messageStart", "contentBlockDelta", "messageStop"]
    assert [event["message"] for event in events if "message" in event][-1] == agent.messages[-1]
    asyncio.run(stream("and now?"))
    assert shown == [reason, "again"]


def test_a_parent_that_delegates_to_an_ended_agent_ends_too() -> None:
    """An agent that is a tool of another: that its turn was ended is a failure of that tool, the third one ends."""
    bench, ask = Bench(), [("ask", {"input": "do it"})]
    inner = agent_with(ScriptedModel(*[FAIL] * 40), bench, Adapter(UNSET), name="ask")
    model = ScriptedModel(*[ask] * 6, "never said")
    outer = strands.Agent(model, tools=[inner.as_tool(name="ask")], hooks=[Adapter(UNSET)], callback_handler=None)
    assert outer("go").state["loopguard"]["tool"] == "ask"
    assert (len(model.requests), len(bench.ran)) == (3, 9)


def test_siblings_read_that_they_are_siblings() -> None:
    """Each refused call of a batch has its own reason in the history, and the streak is not fed by them."""
    model = ScriptedModel(*[LOOK] * 20, [("tick", {}), *LOOK], "done")
    agent_with(model, Bench(), Adapter(ON))("go")
    tick, look = model.requests[-1][-2:]
    assert "because another call of the same response repeats" in tick
    assert "Do not repeat this exact action" in look


def test_loop_after_compaction_ends() -> None:
    """Three identical calls after an overflow end the turn, with default settings; without loopguard they go on."""
    script: list[Reply] = [LOOK, LOOK, OVERFLOW, *[LOOK] * 9, "done"]

    def play(*hooks: Any) -> tuple[Any, Bench]:
        bench = Bench()
        agent = agent_with(ScriptedModel(*script), bench, *hooks)
        agent.messages.extend({"role": role, "content": [{"text": "old"}]} for role in ("user", "assistant") * 3)
        return agent("go"), bench

    result, bench = play(Adapter(UNSET))
    assert result.state["loopguard"]["code"] == "compaction_loop_persisted"
    assert len(bench.ran) == 2 + 3
    result, bench = play()
    assert (str(result).strip(), len(bench.ran)) == ("done", 11)


def test_an_interrupted_run_goes_on() -> None:
    """A person's answer to an interrupt is no new user message: the third failure of the run ends it."""
    bench = Bench()

    def ask(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "look":
            event.interrupt("sure", reason="look?")

    agent = agent_with(ScriptedModel(FAIL, FAIL, [*LOOK, *FAIL], "done"), bench, Adapter(UNSET))
    agent.hooks.add_callback(BeforeToolCallEvent, ask)
    stopped = agent("go")
    assert stopped.stop_reason == "interrupt"
    result = agent(yes(stopped))
    assert "loopguard" not in result.state, "look succeeded before the failure, in model order"
    assert bench.ran.count(FAIL[0]) == 3

    agent = agent_with(ScriptedModel(FAIL, FAIL, [*FAIL, *LOOK], "never said"), bench, Adapter(UNSET))
    agent.hooks.add_callback(BeforeToolCallEvent, ask)
    assert agent(yes(agent("go"))).state["loopguard"]["code"] == "repeated_tool_error"


def test_a_hook_that_resumes_the_agent_is_no_user() -> None:
    """An agent that prompts itself again and again is stopped at the third identical failure all the same."""
    bench = Bench()
    script: list[Reply] = [FAIL, "hm"] * 9
    agent = agent_with(ScriptedModel(*script), bench, Adapter(UNSET))

    def again(event: AfterInvocationEvent) -> None:
        if event.result is not None and "loopguard" not in event.result.state:
            event.resume = "try again"

    agent.hooks.add_callback(AfterInvocationEvent, again)
    assert agent("go").state["loopguard"]["code"] == "repeated_tool_error"
    assert bench.ran.count(FAIL[0]) == 3


def test_a_managed_session_goes_on_with_another_agent_object(tmp_path: Path) -> None:
    """A server that builds an agent a request: an interrupted run keeps its counts under its session id."""
    bench, adapter = Bench(), Adapter(UNSET)

    def ask(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "look":
            event.interrupt("sure", reason="look?")

    def agent(*replies: Reply) -> strands.Agent:
        manager = FileSessionManager(session_id="s", storage_dir=str(tmp_path))
        made = agent_with(ScriptedModel(*replies), bench, adapter, session_manager=manager)
        made.hooks.add_callback(BeforeToolCallEvent, ask)
        return made

    stopped = agent(FAIL, FAIL, [*FAIL, *LOOK])("go")
    assert agent("never said")(yes(stopped)).state["loopguard"]["code"] == "repeated_tool_error"


class TestReleases(Releases):
    host = host
    package, older, newer, later_major = "strands-agents", "1.61.0", "1.99.0", "2.0.0"
    lacking = "whoever streams (the reason of an ended turn is in the last result alone)"

    def take_away(self, patch: pytest.MonkeyPatch) -> None:
        """As before 1.62: no stage around the whole stream."""
        patch.delitem(sys.modules, "loopguard_plugin.hosts._strands_stream", raising=False)
        patch.delattr(hosts, "_strands_stream", raising=False)
        patch.setitem(sys.modules, "strands.middleware._agent_stream", None)

    def ruin(self, patch: pytest.MonkeyPatch) -> None:
        """The event before the tools of a response is gone."""
        patch.delattr(strands.hooks.events, "BeforeToolsEvent")
