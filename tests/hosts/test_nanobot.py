"""loopguard in nanobot-ai 0.3.5: the real agent loop with a scripted provider, called directly and through the gateway.

Run in an environment of its own: ``pip install "loopguard-plugin[nanobot]" pytest hypothesis``.
"""

from __future__ import annotations

import asyncio
import doctest
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("nanobot", reason="nanobot-ai is not installed", exc_type=ImportError)

from loguru import logger
from nanobot.agent.loop import AgentLoop
from nanobot.agent.tools.base import Tool, ToolResult
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.shell import ExecTool
from nanobot.bus import runtime_events
from nanobot.bus.events import InboundMessage
from nanobot.bus.queue import MessageBus
from nanobot.providers.base import LLMProvider, LLMResponse, ToolCallRequest
from offline import no_network
from openai_server import Script, calls, served
from releases import Releases
from scenarios import FAIL, LOOK, ON, UNSET, Bench, Call, Played, Reply, Scenarios, ToolFailure, threaded

from loopguard_plugin import LoopGuard, ToolCallSettled, TurnEndingError
from loopguard_plugin.hosts import nanobot as host
from loopguard_plugin.hosts._shared import Config
from loopguard_plugin.hosts.nanobot import Adapter, attach
from loopguard_plugin.transcripts import FORMATS, Placed, Source, Talks

pytestmark = pytest.mark.filterwarnings("ignore")  # the host's own


MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class ScriptedProvider(LLMProvider):
    """Answers from a list, and keeps what it was asked."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        super().__init__(api_key="none", api_base=None, provider_name="scripted")
        self.replies = list(replies)
        self.requests: list[list[dict[str, Any]]] = []

    def get_default_model(self) -> str:
        return "scripted"

    async def chat(self, messages: list[dict[str, Any]], **_: Any) -> LLMResponse:
        self.requests.append([dict(message) for message in messages])
        number = len(self.requests)
        reply = self.replies[number - 1]
        if isinstance(reply, str):
            return LLMResponse(content=reply, finish_reason="stop")
        calls = [ToolCallRequest(f"c{number}-{at}", name, args) for at, (name, args) in enumerate(reply)]
        return LLMResponse(content=None, tool_calls=calls, finish_reason="tool_calls")

    async def chat_stream(self, messages: list[dict[str, Any]], **_: Any) -> LLMResponse:
        return await self.chat(messages)


class BenchTool(Tool):
    """One of the tools that every host has."""

    def __init__(self, bench: Bench, name: str, required: dict[str, str]) -> None:
        self._bench = bench
        self._name = name
        self._required = required

    @property
    def name(self) -> str:
        return self._name

    @property
    def description(self) -> str:
        return self._name

    @property
    def parameters(self) -> dict[str, Any]:
        properties = {name: {"type": kind} for name, kind in self._required.items()}
        return {"type": "object", "properties": properties, "required": list(self._required)}

    @property
    def read_only(self) -> bool:
        return True

    async def execute(self, **given: Any) -> Any:
        try:
            if self._name == "wait":
                await asyncio.sleep(given["seconds"])
                return self._bench.wait_or_fail(given["fail"])
            if self._name == "long":
                return f"{given['n']} " + "long " * 4000
            return getattr(self._bench, self._name)(**given)
        except ToolFailure as error:
            return ToolResult.error(f"Error: {error}")


def registry(bench: Bench) -> ToolRegistry:
    tools = ToolRegistry()
    for name, required in {
        "look": {"path": "string"},
        "tick": {},
        "fail": {"path": "string"},
        "meet": {},
        "wait": {"seconds": "number", "fail": "boolean"},
        "long": {"n": "integer"},
    }.items():
        tools.register(BenchTool(bench, name, required))
    return tools


def agent_loop(provider: ScriptedProvider, bench: Bench, **more: Any) -> AgentLoop:
    return AgentLoop(
        bus=MessageBus(),
        provider=provider,
        workspace=Path(tempfile.mkdtemp(dir=MEMORY)),
        model="scripted",
        tool_registry=registry(bench),
        max_iterations=60,
        **more,
    )


def tool_texts(messages: list[dict[str, Any]]) -> list[str]:
    return [str(message["content"]) for message in messages if message.get("role") == "tool"]


def code(adapter: Any, session: str) -> str | None:
    """Why the session's last turn was ended."""
    if adapter is None or adapter.calls is None or session not in adapter._last:
        return None
    ended = adapter.calls.ended(session, adapter._last[session][0])
    return None if ended is None else str(ended.code)


class TestDirect(Scenarios):
    """A program calls ``process_direct``."""

    def new_adapter(self, config: Config) -> Adapter:
        return Adapter(config)

    def play(self, adapter: Any, *turns: Sequence[Reply], session: str = "s", bench: Bench | None = None) -> Played:
        bench = bench or Bench()
        provider = ScriptedProvider([reply for turn in turns for reply in turn])

        async def talk() -> str:
            loop = agent_loop(provider, bench)
            if adapter is not None:
                attach(loop, adapter)
            said: Any = None
            for number, turn in enumerate(turns):
                before = len(provider.requests)
                said = await loop.process_direct(f"message {number}", session_key=session)
                provider.replies[len(provider.requests) : before + len(turn)] = []  # the rest is never said
            return str(said.content)

        final = threaded(lambda: asyncio.run(talk()))  # type: ignore[arg-type,return-value]  # any value will do
        requests = [tool_texts(messages) for messages in provider.requests]
        return Played(bench, requests, str(final), code(adapter, session))

    def test_an_agent_has_settings_of_its_own(self) -> None:
        """nanobot has one agent and no name for it: its settings are the global ones, or those of the default agent."""
        entry = {"default": True, "tools": {"loopDetection": {"enabled": True, "warningThreshold": 2}}}
        adapter = self.new_adapter({"agents": {"entries": {"main": entry}}})
        assert "[loopguard]" in self.play(adapter, [*[LOOK] * 3, "done"]).results[2]

    def test_lines_reach_the_log_of_the_host(self, caplog: pytest.LogCaptureFixture) -> None:
        """nanobot logs through loguru: whatever sinks it has get our lines, without arguments and results."""
        lines: list[str] = []
        sink = logger.add(lambda message: lines.append(f"{message.record['name']} {message.record['message']}"))
        try:
            self.play(self.new_adapter(UNSET), [*[FAIL] * 3, "never said"])
        finally:
            logger.remove(sink)
        ours = [line for line in lines if line.startswith("loopguard_plugin")]
        assert "loopguard ready" in ours[0]
        assert sum("action=end_turn" in line for line in ours) == 1
        assert "cannot open" not in "".join(ours)


class TestGateway(TestDirect):
    """Messages come over the bus, and answers leave on it."""

    def play(self, adapter: Any, *turns: Sequence[Reply], session: str = "s", bench: Bench | None = None) -> Played:
        bench = bench or Bench()
        provider = ScriptedProvider([reply for turn in turns for reply in turn])

        async def talk() -> str:
            loop = agent_loop(provider, bench)
            if adapter is not None:
                attach(loop, adapter)
            running = asyncio.create_task(loop.run())
            said = ""
            for number, turn in enumerate(turns):
                before = len(provider.requests)
                await loop.bus.publish_inbound(InboundMessage("test", "user", session, f"message {number}"))
                while True:
                    out = await asyncio.wait_for(loop.bus.consume_outbound(), 30)
                    if out.event is None and out.content:
                        said = out.content
                        break
                provider.replies[len(provider.requests) : before + len(turn)] = []
            loop.stop()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return said

        final = threaded(lambda: asyncio.run(talk()))  # type: ignore[arg-type,return-value]
        requests = [tool_texts(messages) for messages in provider.requests]
        return Played(bench, requests, str(final), code(adapter, f"test:{session}"))


def direct(loop: AgentLoop, message: str = "go", session: str = "s") -> str:
    said: Any = asyncio.run(loop.process_direct(message, session_key=session))
    return str(said.content)


def test_the_reason_is_stored_in_the_session() -> None:
    """The reason is the session's last entry, as the model's own answer would be."""
    provider = ScriptedProvider([*[FAIL] * 3, "never said"])
    loop = agent_loop(provider, Bench())
    attach(loop)
    final = direct(loop)
    stored = loop.sessions.get_or_create("s").messages
    assert stored[-1]["role"] == "assistant"
    assert stored[-1]["content"] == final
    assert "cannot open a" in final


@pytest.fixture(autouse=True, scope="module")
def home() -> Iterator[None]:
    """nanobot keeps its sessions in the user's home: give it one of its own, in memory, for it waits for the disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as path, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", path)
        no_network(patch)  # its token counter would ask for a table
        yield


@pytest.mark.parametrize("guarded", [True, False])
def test_loop_after_compaction_ends(guarded: bool) -> None:
    """After nanobot compacted its history, three identical calls end the turn; without loopguard all eight run."""
    provider = ScriptedProvider(["read it", "read that too", *[LOOK] * 8, "done"])
    bench = Bench()
    loop = agent_loop(provider, bench, context_window_tokens=45_000)
    if guarded:
        attach(loop)

    async def talk() -> str:
        for text in ("one", "two", "three"):
            said: Any = await loop.process_direct(f"{text} " + "word " * 800, session_key="s")
        return str(said.content)

    final = asyncio.run(talk())
    assert len(provider.requests[2]) < len(provider.requests[1]), "the history was compacted"
    looked = sum(name == "look" for name, _ in bench.ran)
    assert looked == (3 if guarded else 8)
    assert ("compact" in final) == guarded


def test_without_compaction_the_same_calls_pass() -> None:
    """For contrast: with default settings and room enough, eight identical calls all run."""
    bench = Bench()
    loop = agent_loop(ScriptedProvider([*[LOOK] * 8, "done"]), bench)
    attach(loop)
    assert direct(loop) == "done"
    assert len(bench.ran) == 8


def test_a_note_stays_within_a_long_result() -> None:
    """nanobot cuts long results; the note comes after that and is whole."""
    provider = ScriptedProvider([*[[("long", {"n": 1})]] * 11, "done"])
    loop = agent_loop(provider, Bench(), max_tool_result_chars=2000)
    attach(loop, ON)
    direct(loop)
    last = tool_texts(provider.requests[-1])[-1]
    assert len(last) < 4000
    assert "[loopguard]" in last


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("echo broken >&2; exit 3", ["deliver", "deliver", "repeated_tool_error"], id="fails"),
        pytest.param("echo fine", ["deliver"] * 5, id="succeeds"),
        pytest.param("echo Exit code: 1", ["deliver"] * 5, id="speaks of failure"),
    ],
)
@pytest.mark.parametrize("more", [{}, {"yield_time_ms": 5000}], ids=["plain", "session"])
def test_a_failing_command_counts_live_and_in_a_replay(
    command: str, expected: list[str], more: dict[str, Any], tmp_path: Path
) -> None:
    """``exec`` tells a failure in its last line alone: the third one ends the turn, and a replay says the same."""
    loop = agent_loop(ScriptedProvider([*[[("exec", {"command": command, **more})]] * 5, "done"]), Bench())
    loop.tools.register(ExecTool(working_dir=str(tmp_path)))
    attach(loop)
    final = direct(loop)
    loop.sessions.save(loop.sessions.get_or_create("s"))
    assert final == "done" if len(expected) == 5 else "`exec` failed 3 times" in final
    guard = LoopGuard()
    actions: list[str] = []
    (stored,) = (path for path in Path(os.environ["HOME"]).rglob("*.jsonl") if f'"{command}' in unquoted(path))
    with Source.open(str(stored)) as source:
        for item in FORMATS["openai-chat"].read(source, Talks()):
            assert isinstance(item, Placed), item
            try:
                guard.feed(item.event)
                action = "deliver"
            except TurnEndingError as ended:
                action = str(ended.code)
            if isinstance(item.event, ToolCallSettled):
                actions.append(action)
    stored.unlink()
    assert actions == expected


def unquoted(path: Path) -> str:
    """The file without the quoting of JSON inside JSON."""
    return path.read_text().replace("\\", "")


def test_a_message_slipped_in_resets() -> None:
    """A user message that arrives while the agent works starts a fresh count of errors."""
    provider = ScriptedProvider([*[FAIL] * 5, "never said"])
    bench = Bench()

    async def talk() -> str:
        loop = agent_loop(provider, bench)
        attach(loop)
        fail = bench.fail

        def slipped(path: str) -> str:
            if len(bench.ran) == 1:
                loop.bus.inbound.put_nowait(InboundMessage("test", "user", "s", "try something else"))
            return fail(path)

        bench.fail = slipped  # type: ignore[method-assign]  # the user writes while the tool runs
        running = asyncio.create_task(loop.run())
        await loop.bus.publish_inbound(InboundMessage("test", "user", "s", "go"))
        while True:
            out = await asyncio.wait_for(loop.bus.consume_outbound(), 30)
            if out.event is None and out.content:
                break
        loop.stop()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return str(out.content)

    assert "cannot open a" in asyncio.run(talk())
    assert 4 <= len(bench.ran) <= 5


def test_a_continued_turn_keeps_its_errors() -> None:
    """A run that starts without a user message goes on counting where the one before stopped."""
    bench = Bench()
    provider = ScriptedProvider([FAIL, FAIL, "pause", FAIL, "never said"])

    async def talk() -> str:
        loop = agent_loop(provider, bench)
        attach(loop)
        await loop.process_direct("go", session_key="test:s")
        await loop._process_message(InboundMessage("system", "goal", "test:s", "go on"))
        return "".join(tool_texts(provider.requests[-1]))

    asyncio.run(talk())
    assert len(bench.ran) == 3
    assert len(provider.requests) == 4


def test_calls_of_a_program_pass() -> None:
    """A tool that a program runs through the registry is none of loopguard's business."""
    bench = Bench()
    loop = agent_loop(ScriptedProvider([LOOK, "done"]), bench)
    attach(loop)
    direct(loop)
    _, params, refused = loop.tools.prepare_call("look", {"path": "a"})
    assert (params, refused) == ({"path": "a"}, None)


def test_streaming_shows_the_reason() -> None:
    """Where the user watches the answer grow, the reason grows there too, once."""
    shown: list[str] = []

    async def on_stream(delta: str) -> None:
        shown.append(delta)

    async def on_stream_end(**_: Any) -> None:
        return

    loop = agent_loop(ScriptedProvider([*[FAIL] * 3, "never said"]), Bench())
    attach(loop)
    said: Any = asyncio.run(
        loop.process_direct("go", session_key="s", on_stream=on_stream, on_stream_end=on_stream_end)
    )
    assert "".join(shown) == said.content
    assert "cannot open a" in said.content


def test_a_sub_agent_is_judged() -> None:
    """A sub-agent that fails three times in the same way ends, and tells its parent why."""
    bench = Bench()
    provider = ScriptedProvider([*[FAIL] * 6, "never said"])

    async def talk() -> Any:
        from nanobot.agent.runner import AgentRunSpec
        from nanobot.utils.llm_runtime import LLMRuntime

        loop = agent_loop(provider, bench)
        attach(loop)
        return await loop.subagents.runner.run(
            AgentRunSpec(
                initial_messages=[{"role": "user", "content": "task"}],
                tools=registry(bench),
                runtime=LLMRuntime.capture(provider, "scripted", context_window_tokens=100_000),
                max_iterations=20,
                max_tool_result_chars=2000,
                session_key="s",
            )
        )

    result = asyncio.run(talk())
    assert len(bench.ran) == 3
    assert "cannot open a" in result.final_content


def test_lines_reach_nanobots_log() -> None:
    """nanobot logs through loguru: its sinks get our lines, in its own format."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import nanobot.cli.commands\nfrom loopguard_plugin.hosts.nanobot import Adapter\nAdapter()",
        ],
        capture_output=True,
        text=True,
    )
    assert "| INFO  | - | loopguard ready" in told.stderr, told.stderr


def command_line(home: Path, url: str, **env: str) -> subprocess.CompletedProcess[str]:
    """One message to nanobot's own command line, started through loopguard."""
    config = {
        "agents": {"defaults": {"workspace": str(home / "workspace"), "provider": "custom", "model": "scripted"}},
        "providers": {"custom": {"apiKey": "none", "apiBase": url}},
    }
    (home / "config.json").write_text(json.dumps(config))
    return subprocess.run(
        [sys.executable, "-m", host.__name__, "agent", "-m", "go", "--config", str(home / "config.json")],
        env={**os.environ, "HOME": str(home), **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_line_is_guarded(tmp_path: Path) -> None:
    """Three identical errors end the turn with the reason, in nanobot's own provider and with its own tools."""
    missing = [calls(("read_file", {"path": "missing.txt"})) for _ in range(6)]
    script = Script([*missing, "never said"])
    with served(script) as (url,):
        told = command_line(tmp_path, url)
    assert told.returncode == 0, told.stderr
    assert len(script.requests) == 3
    assert "read_file" in told.stdout
    assert "3 times" in " ".join(told.stdout.split())


def test_wrong_settings_stop_the_command_line(tmp_path: Path) -> None:
    """nanobot must not start in the belief that it is guarded."""
    settings = tmp_path / "loop.json5"
    settings.write_text("{tools: {loopDetection: {histroySize: 3}}}")
    told = command_line(tmp_path, "http://127.0.0.1:9/v1", LOOPGUARD_CONFIG=str(settings))
    assert told.returncode != 0
    assert "histroySize" in told.stderr + told.stdout


def test_settings_beside_nanobots_config(tmp_path: Path) -> None:
    """``loopguard.json5`` beside ``config.json`` counts."""
    (tmp_path / "loopguard.json5").write_text("{tools: {loopDetection: {histroySize: 3}}}")
    told = command_line(tmp_path, "http://127.0.0.1:9/v1")
    assert "histroySize" in told.stderr + told.stdout


def test_example_runs() -> None:
    """The example in the module's docstring does what it says."""
    assert doctest.testmod(host) == (0, 3)


def test_default_settings_leave_working_turns_alone() -> None:
    """A turn without any repetition passes untouched."""
    script: list[list[Call]] = [LOOK, [("tick", {})], [("look", {"path": "b"})]]
    provider = ScriptedProvider([*script, "done"])
    loop = agent_loop(provider, Bench())
    attach(loop, UNSET)
    assert direct(loop) == "done"
    assert "[loopguard]" not in "".join(tool_texts(provider.requests[-1]))


class TestReleases(Releases):
    host = host
    package, older, newer, later_major = "nanobot-ai", "0.3.1", "0.99.0", "1.0.0"
    lacking = "unknown tools"

    def make(self, module: ModuleType) -> object:
        return module.attach(agent_loop(ScriptedProvider([]), Bench()))

    def take_away(self, patch: pytest.MonkeyPatch) -> None:
        """The registry has every tool that is asked for."""
        patch.setattr(ToolRegistry, "has", lambda self, name: True)

    def ruin(self, patch: pytest.MonkeyPatch) -> None:
        """As before 0.3.5: nobody tells of user messages."""
        patch.delattr(runtime_events, "UserInputAccepted")
