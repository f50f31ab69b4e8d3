"""loopguard in google-adk 2.13, with the real package and a scripted model."""

from __future__ import annotations

import asyncio
import doctest
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.plugin_manager import PluginManager
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from releases import Releases, no_later
from scenarios import FAIL, LOOK, ON, UNSET, Bench, Call, Played, Reply, Scenarios, ToolFailure

from loopguard_plugin.hosts import google_adk as host
from loopguard_plugin.hosts._shared import Config
from loopguard_plugin.hosts.google_adk import Adapter, attach

pytestmark = pytest.mark.filterwarnings("ignore")  # experimental features of ADK say so


class ScriptedModel(BaseLlm):
    """Answers from a list, and keeps the tool results that it was shown."""

    model: str = "scripted"
    replies: list[Any]
    requests: list[Any]
    tokens: int | None = None

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[LlmResponse]:
        reply: Reply = self.replies[len(self.requests)]
        self.requests.append(responses(llm_request.contents))
        if isinstance(reply, str):
            parts = [types.Part(text=reply)]
        else:
            parts = [types.Part.from_function_call(name=name, args=args) for name, args in reply]
        content = types.Content(role="model", parts=parts)
        if stream:
            yield LlmResponse(content=content, partial=True)
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=self.tokens) if self.tokens else None
        yield LlmResponse(content=content, usage_metadata=usage)


def scripted(*replies: Reply, tokens: int | None = None) -> ScriptedModel:
    return ScriptedModel(replies=list(replies), requests=[], tokens=tokens)


def responses(contents: Sequence[types.Content]) -> list[str]:
    """What the model reads of each result: its values, without their keys."""
    parts = [part for content in contents for part in content.parts or []]
    return ["\n".join(map(str, (p.function_response.response or {}).values())) for p in parts if p.function_response]


def shown(function: Callable[..., str], *args: object) -> Any:
    """The usual way of ADK tools to fail: a result with an error."""
    try:
        return function(*args)
    except ToolFailure as error:
        return {"error": str(error)}


def tools(bench: Bench) -> list[Any]:
    def look(path: str) -> str:
        return bench.look(path)

    def tick() -> str:
        return bench.tick()

    def fail(path: str) -> Any:
        return shown(bench.fail, path)

    async def meet() -> str:
        return await asyncio.to_thread(bench.meet)

    async def wait(seconds: float, fail: bool) -> Any:
        await asyncio.sleep(seconds)
        return shown(bench.wait_or_fail, fail)

    return [look, tick, fail, meet, wait]


def agent_with(model: ScriptedModel, bench: Bench, name: str = "scripted", **more: Any) -> LlmAgent:
    return LlmAgent(name=name, model=model, tools=[*tools(bench), *more.pop("tools", [])], **more)


async def ask(runner: Any, text: str, session: str = "s", streamed: bool = False) -> list[Any]:
    """All whole events of one turn; the session is made on first use."""
    service, where = runner.session_service, {"app_name": runner.app_name, "user_id": "u", "session_id": session}
    if await service.get_session(**where) is None:
        await service.create_session(**where)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    config = RunConfig(streaming_mode=StreamingMode.SSE if streamed else StreamingMode.NONE)
    found = runner.run_async(user_id="u", session_id=session, new_message=message, run_config=config)
    return [event async for event in found if not event.partial]


def play_once(agent: Any, *plugins: Any) -> list[Any]:
    return asyncio.run(ask(InMemoryRunner(agent, app_name="app", plugins=list(plugins)), "go"))


def text_of(event: Any) -> str:
    return "".join(part.text or "" for part in event.content.parts)


class TestADK(Scenarios):
    logger = host.LOGGER
    streamed = False

    def new_adapter(self, config: Config) -> Adapter:
        return Adapter(config)

    def play(self, adapter: Any, *turns: Sequence[Reply], session: str = "s", bench: Bench | None = None) -> Played:
        bench, model = bench or Bench(), scripted()
        plugins = [adapter] if adapter is not None else []
        runner = InMemoryRunner(agent_with(model, bench), app_name="app", plugins=plugins)

        async def play() -> Any:
            for number, turn in enumerate(turns):
                model.replies[len(model.requests) :] = turn
                events = await ask(runner, f"question {number}", session, self.streamed)
            return events[-1]

        last = asyncio.run(play())
        return Played(bench, model.requests, text_of(last), last.error_code)


class TestADKStreamed(TestADK):
    streamed = True


def test_example() -> None:
    """The example in the module's docstring runs as it is written."""
    assert doctest.testmod(host, raise_on_error=True).attempted > 0


@pytest.mark.parametrize("kind", ["runner", "app"])
def test_attach(kind: str) -> None:
    """One line puts the guard in front of the plugins of a runner or an app, once."""
    agent = agent_with(scripted(*[FAIL] * 3), Bench())
    if kind == "app":
        app = App(name="app", root_agent=agent)
        attach(app, UNSET)
        runner = InMemoryRunner(app=app)
    else:
        runner = InMemoryRunner(agent, app_name="app")
        attach(runner, UNSET)
        with pytest.raises(ValueError, match="already"):
            attach(runner)
    assert asyncio.run(ask(runner, "go"))[-1].error_code == "repeated_tool_error"


def test_loop_after_compaction_ends() -> None:
    """Three identical calls after a compaction end the turn, with default settings; without loopguard they go on."""

    def play(*plugins: Any) -> tuple[Any, Bench]:
        bench = Bench()
        model = scripted(LOOK, LOOK, *[LOOK] * 9, "done")

        class Full(ScriptedModel):
            """Says once that the context is nearly full."""

            async def generate_content_async(
                self, llm_request: Any, stream: bool = False
            ) -> AsyncIterator[LlmResponse]:
                self.tokens = 5000 if len(self.requests) == 1 else 1
                async for response in super().generate_content_async(llm_request, stream):
                    yield response

        model = Full(replies=model.replies, requests=[])
        config = EventsCompactionConfig(
            summarizer=LlmEventSummarizer(llm=scripted(*["so far: nothing"] * 9)),
            compaction_interval=1000,
            overlap_size=0,
            token_threshold=1000,
            event_retention_size=2,
        )
        app = App(
            name="app", root_agent=agent_with(model, bench), plugins=list(plugins), events_compaction_config=config
        )
        runner = InMemoryRunner(app=app)
        events = asyncio.run(ask(runner, "go"))
        session = asyncio.run(runner.session_service.get_session(app_name="app", user_id="u", session_id="s"))
        assert sum(bool(event.actions.compaction) for event in session.events) == 1
        return events[-1], bench

    last, bench = play(Adapter(UNSET))
    assert last.error_code == "compaction_loop_persisted"
    assert len(bench.ran) == 2 + 3
    last, bench = play()
    assert (text_of(last), len(bench.ran)) == ("done", 11)


def test_an_enclosing_loop_agent_stops_asking_too() -> None:
    """After the end of the turn a ``LoopAgent`` goes round without a single request to the model."""
    model = scripted(*[FAIL] * 3, *["never said"] * 5)
    events = play_once(
        LoopAgent(name="loop", sub_agents=[agent_with(model, Bench())], max_iterations=4), Adapter(UNSET)
    )
    assert len(model.requests) == 3
    assert events[-1].error_code == "repeated_tool_error"


def test_parallel_agents_are_judged_apart() -> None:
    """Two agents in two branches of one invocation, with two failures each: no third."""
    bench = Bench()
    meet: list[Call] = [("meet", {})]
    agents = [agent_with(scripted(meet, FAIL, FAIL, "done"), bench, name) for name in ("one", "two")]
    events = play_once(ParallelAgent(name="both", sub_agents=agents), Adapter(UNSET))
    assert [text_of(event) for event in events if event.is_final_response()] == ["done", "done"]
    assert bench.ran == FAIL * 4


def test_an_agent_inside_a_tool_is_a_session_of_its_own() -> None:
    """The outer agent's two failures and the inner one's first are not three."""
    bench = Bench()
    inner = agent_with(scripted(FAIL, "inner done"), bench, "inner")
    ask_inner: list[Call] = [("inner", {"request": "look"})]
    outer = agent_with(scripted(FAIL, FAIL, ask_inner, "done"), bench, "outer", tools=[AgentTool(inner)])
    events = play_once(outer, Adapter(UNSET))
    assert text_of(events[-1]) == "done"
    assert bench.ran == FAIL * 3


def test_a_parent_that_delegates_to_an_ended_agent_ends_too() -> None:
    """An ``AgentTool`` whose agent was ended has failed; the third identical delegation ends the parent's turn."""
    bench = Bench()
    inner = agent_with(scripted(*[FAIL] * 40), bench, "inner")
    ask_inner: list[Call] = [("inner", {"request": "do it"})]
    model = scripted(*[ask_inner] * 6, "never said")
    outer = LlmAgent(name="outer", model=model, tools=[AgentTool(inner)])
    events = play_once(outer, Adapter(UNSET))
    assert events[-1].error_code == "repeated_tool_error"
    assert "`inner` failed 3 times" in text_of(events[-1])
    assert (len(model.requests), len(bench.ran)) == (3, 9)


def test_objects_get_the_note_as_a_key() -> None:
    """A tool that returns an object keeps its keys."""

    def status() -> dict[str, int]:
        return {"files": 0}

    again: list[Call] = [("status", {})]
    model = scripted(*[again] * 11, "done")
    events = play_once(LlmAgent(name="a", model=model, tools=[status]), Adapter(ON))
    found = [one for event in events for one in event.get_function_responses()]
    assert found[-2].response == {"files": 0}
    assert set(found[-1].response) == {"files", "loopguard_note"}


class TestReleases(Releases):
    host = host
    package, older, newer, later_major = "google-adk", "2.1.0", "2.99.0", "3.0.0"
    lacking = "user messages"

    def take_away(self, patch: pytest.MonkeyPatch) -> None:
        """Plugins are not told any more that a user wrote."""
        patch.setattr(PluginManager, "run_on_user_message_callback", no_later)

    def ruin(self, patch: pytest.MonkeyPatch) -> None:
        """Plugins are there, but nobody calls them."""
        patch.setattr(PluginManager, "_run_callbacks", no_later)
