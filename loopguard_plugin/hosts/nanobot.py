"""nanobot-ai 0.3: loopguard in its agent loop, for the gateway and for programs.

``pip install "loopguard-plugin[nanobot]"``. nanobot has no entry point for hooks, so the gateway is started through
loopguard, with nanobot's own command line; settings come from ``loopguard.json5`` beside nanobot's ``config.json``,
or from the file that ``LOOPGUARD_CONFIG`` names::

    python -m loopguard_plugin.hosts.nanobot gateway

In a program, with settings from anywhere::

    >>> from loopguard_plugin.hosts.nanobot import Adapter, attach
    >>> adapter = Adapter({"tools": {"loopDetection": {"enabled": True}}})
    >>> adapter.calls.guard.settings.resolve(None).rolling
    True
    >>> # bot = Nanobot.from_config()
    >>> # attach(bot, adapter)            or attach(bot), attach(bot, "gateway.json5"), attach(agent_loop)

A session is nanobot's session, a run is one turn of its runner; a turn that goes on without a user message (a sustained
goal) continues the one before. The whole response is judged before any tool of it runs, all results settle in model
order before the next request. When the turn ends, the reason is the model's last answer: it is stored, shown and sent
like any other, and the model is not asked. Sub-agents are judged too, as runs of their parent's session.

What this host cannot do:

- The terminal UI may talk to a gateway of its own process: it is guarded if that gateway was started as above.
- Calls without a tool name are dropped by nanobot before anybody sees them.
- nanobot's own refusals (a repeated external look-up) count as denied calls; they come before loopguard's.
- Tools of the model's provider ("hosted") are not judged.
- Turns marked ephemeral run without hooks in nanobot, but pass through the runner: they are judged like others.
- A compaction is seen where nanobot reports that it succeeded; one by the provider within a response arms the guard
  after that response's calls were judged.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Final

from ..answers import Blocked
from ..events import Status
from ..transcripts.nanobot_results import outcome
from ._shared import Calls, Config, append_note, fail_open
from ._versions import FAILING, Trial, require, trial_run

HOST: Final = require("nanobot-ai", tried=">=0.3.5,<0.4", below="1", extra="nanobot")

with HOST.names():
    from nanobot.agent.hook import AgentHook, CompositeHook
    from nanobot.agent.tools.base import ToolResult
    from nanobot.bus.runtime_events import UserInputAccepted
    from nanobot.events import ContextCompactionEvent, EventSink
    from nanobot.providers.base import LLMResponse, LLMUsage

__all__ = ["Adapter", "attach", "main"]

MOST_SESSIONS: Final = 4096
DENIED: Final = "repeated external lookup blocked"
REJECTED: Final = ("Error: Invalid parameters for tool", "parameters must be a JSON object")

_current: ContextVar[_Turn | None] = ContextVar("loopguard_turn", default=None)


def attach(target: Any, config: Config | Adapter = None) -> Adapter:
    """Put loopguard into an ``AgentLoop`` or a ``Nanobot``. Raises SettingsError for settings that cannot be used."""
    adapter = config if isinstance(config, Adapter) else Adapter(config)
    adapter.wrap(getattr(target, "_loop", target))
    return adapter


class Adapter:
    """Wraps a loop's runners, its registry of tools, and the two ways in which user messages come."""

    def __init__(self, config: Config = None) -> None:
        self.calls = Calls(config)
        self._last: dict[str, tuple[str, bool]] = {}  # by session: the newest run, and whether a user wrote since

    def wrap(self, loop: Any) -> None:
        """Raises UnsupportedHostError where the loop lacks what loopguard holds on to."""
        with HOST.names():
            runners = [(loop.runner, True), (loop.subagents.runner, False)]
            for runner, _ in runners:
                runner._request_model  # noqa: B018  # must be there
            loop.process_direct, loop.bus.subscribe, loop.tools.prepare_call  # noqa: B018
        HOST.check(_look)
        for runner, main in runners:
            runner.run = functools.partial(self._run, runner.run, main)
            runner._request_model = functools.partial(_request_model, runner._request_model)
        loop.process_direct = functools.partial(self._process_direct, loop.process_direct)
        loop.bus.subscribe(self._accepted, UserInputAccepted)

    async def _process_direct(
        self, process: Callable[..., Awaitable[Any]], content: str, *args: Any, **kwargs: Any
    ) -> Any:
        """A program hands in a user message."""
        self._user_message(args[0] if args else kwargs.get("session_key", "cli:direct"))
        return await process(content, *args, **kwargs)

    def _accepted(self, event: Any) -> None:
        """The gateway took a user message, for a new turn or into the running one."""
        self._user_message(getattr(getattr(event, "context", None), "session_key", None))

    @fail_open()
    def _user_message(self, session: str | None) -> None:
        session = session or "nanobot"
        run, wrote = self._last.get(session, (None, True))
        self.calls.user_message(session, run=run)
        if run is not None and not wrote:
            self._last[session] = (run, True)

    async def _run(self, run: Callable[[Any], Awaitable[Any]], main: bool, spec: Any) -> Any:
        """One execution of the runner, with our hook as the last one."""
        turn = self._turn(spec, main)
        if turn is None:
            return await run(spec)
        hooks = [spec.hook, turn.hook] if spec.hook is not None else [turn.hook]
        token = _current.set(turn)
        try:
            return await run(replace(spec, hook=CompositeHook(hooks)))
        finally:
            _current.reset(token)

    @fail_open()
    def _turn(self, spec: Any, main: bool) -> _Turn | None:
        session = spec.session_key or "nanobot"
        turn = _Turn(self.calls, spec.tools, session, uuid.uuid4().hex)
        if main:
            last, wrote = self._last.pop(session, (None, True))
            if last is not None and wrote:
                self.calls.end_run(session, last)
            turn.continues = last if not wrote else None
            while len(self._last) >= MOST_SESSIONS:
                del self._last[next(iter(self._last))]
            self._last[session] = (turn.run, False)
        _guard_registry(spec.tools)
        return turn


class _Turn:
    """One run: its verdicts for the batch that is being worked on. ``continues`` names the run before, if any."""

    def __init__(self, calls: Calls, tools: Any, session: str, run: str) -> None:
        self.calls = calls
        self.tools = tools
        self.session = session
        self.run = run
        self.continues: str | None = None
        self.hook = _Hook(self)
        self._batch = ""
        self._answers: list[
            tuple[Any, str | None]
        ] = []  # arguments as nanobot passes them on, and why they are refused

    @fail_open()
    def start(self, iteration: int, calls: list[Any]) -> None:
        """The model answered."""
        self._answers = []
        self._batch = str(iteration)
        named = [(str(call.id or f"call_{at}"), str(call.name), call.arguments) for at, call in enumerate(calls)]
        started = self.calls.starts(self.session, named, batch_id=self._batch, run=self.run, continues=self.continues)
        reasons = [answer.reason if isinstance(answer, Blocked) else None for answer in started.answers]
        self._answers = [(call.arguments, reason) for call, reason in zip(calls, reasons, strict=True)]

    @fail_open()
    def refused(self, params: object) -> str | None:
        """Why a call must not run; calls are known by the very arguments that the model's answer holds."""
        refused = [reason for given, reason in self._answers if reason is not None and given is params]
        return refused[0] if refused else next((reason for _, reason in self._answers if reason is not None), None)

    @fail_open()
    def settle(self, context: Any) -> None:
        """All tools of the response have run; notes go into the messages."""
        written = _tool_messages(context.messages)
        for at, call in enumerate(context.tool_calls):
            result, event = context.tool_results[at], context.tool_events[at]
            refused = self._answers[at][1] if at < len(self._answers) else None
            status, error, told = (Status.BLOCKED, None, None) if refused else self._fate(call, result, event)
            deliver = self.calls.settle(
                self.session,
                str(call.id or f"call_{at}"),
                str(call.name),
                batch_id=self._batch,
                run=self.run,
                index=at,
                status=status,
                error=error,
                result=told,
                args=call.arguments,
            ).answer
            if deliver.note is not None and at < len(written):
                written[at]["content"] = append_note(_plain(written[at]["content"]), deliver.note)
        self._answers = []

    @fail_open()
    def reason(self) -> str | None:
        """Why the model must not be asked again."""
        ended = self.calls.ended(self.session, self.run)
        return None if ended is None else ended.message

    def _fate(self, call: Any, result: object, event: dict[str, str]) -> tuple[Status | None, object, object]:
        """How a call ended, and the error or the result that is compared."""
        if isinstance(result, str) and (ended := outcome(call.name, result)) is not None:
            return ended[0], None, ended[1]
        if event.get("status") != "error":
            return None, None, _plain(result)
        text = str(result)
        if event.get("detail") == DENIED:
            return Status.DENIED, text, None
        if not self.tools.has(call.name):
            return Status.UNKNOWN_TOOL, text, None
        rejected = text.startswith(REJECTED[0]) or REJECTED[1] in text[:200]
        return (Status.REJECTED if rejected else Status.ERROR), text, None


class _Hook(AgentHook):
    """The two moments of a batch."""

    def __init__(self, turn: _Turn) -> None:
        super().__init__()
        self._turn = turn

    async def before_execute_tools(self, context: Any) -> None:
        self._turn.start(context.iteration, context.tool_calls)

    async def after_iteration(self, context: Any) -> None:
        if context.tool_results:
            self._turn.settle(context)


async def _request_model(
    request: Callable[..., Awaitable[Any]],
    spec: Any,
    messages: list[dict[str, Any]],
    hook: Any,
    context: Any,
    *,
    request_state: Any,
    **rest: Any,
) -> Any:
    """The model is asked, unless the turn has ended: then the reason takes the place of its answer."""
    turn = _current.get()
    if turn is None:
        return await request(spec, messages, hook, context, request_state=request_state, **rest)
    reason = turn.reason()
    if reason is None:
        _watch(request_state, turn)
        return await request(spec, messages, hook, context, request_state=request_state, **rest)
    if request_state.messages is None:
        request_state.messages = list(messages)
    if hook.wants_streaming():
        await hook.on_stream(context, reason)
        context.streamed_content = True
    return LLMResponse(content=reason, finish_reason="stop"), LLMUsage.empty_request()


@fail_open()
def _watch(request_state: Any, turn: _Turn) -> None:
    """See the compactions of this run, on whatever channel nanobot reports them, or on none."""
    events = request_state.events
    if getattr(events.publish, "loopguard", False):
        return

    async def publish(event: Any) -> None:
        if isinstance(event, ContextCompactionEvent) and event.phase == "succeeded":
            turn.calls.compacted(turn.session, run=turn.run)
        if events.publish is not None:
            await events.publish(event)

    publish.loopguard = True  # type: ignore[attr-defined]  # a mark of our own
    request_state.events = EventSink(publish, events.accepts)


def _guard_registry(tools: Any) -> None:
    """Let a registry refuse the calls that the current turn blocks; nanobot asks it before it runs anything."""
    prepare = tools.prepare_call
    if getattr(prepare, "loopguard", False):
        return

    @functools.wraps(prepare)
    def guarded(name: str, params: Any) -> Any:
        turn = _current.get()
        reason = turn.refused(params) if turn is not None else None
        return (None, params, ToolResult.error(reason)) if reason else prepare(name, params)

    guarded.loopguard = True  # type: ignore[attr-defined]  # a mark of our own
    tools.prepare_call = guarded


def _look() -> list[str]:
    """What the guard will not see in this nanobot: a trial run of its runner, and names that it takes no part in."""
    unseen = list(trial_run(HOST, _drive))
    if not hasattr(AgentHook, "wants_streaming"):
        unseen.append("whoever streams (the reason of an ended turn does not grow there)")
    if "phase" not in ContextCompactionEvent.__annotations__:
        unseen.append("compactions")
    return unseen


def _drive(trial: Trial) -> None:
    from nanobot.agent.runner import AgentRunner, AgentRunSpec
    from nanobot.agent.tools.base import Tool
    from nanobot.agent.tools.registry import ToolRegistry
    from nanobot.bus.queue import MessageBus
    from nanobot.providers.base import LLMProvider, ToolCallRequest
    from nanobot.utils.llm_runtime import LLMRuntime

    class Scripted(LLMProvider):
        def get_default_model(self) -> str:
            return "loopguard-trial"

        async def chat(self, *args: Any, **kwargs: Any) -> LLMResponse:
            called = trial.answer()
            if called is None:
                return LLMResponse(content="done", finish_reason="stop")
            call = ToolCallRequest(uuid.uuid4().hex, called, {})
            return LLMResponse(content=None, tool_calls=[call], finish_reason="tool_calls")

        async def chat_stream(self, *args: Any, **kwargs: Any) -> LLMResponse:
            return await self.chat()

    class Failing(Tool):
        name = FAILING
        description = "fails"
        parameters: ClassVar[dict[str, Any]] = {"type": "object", "properties": {}}

        async def execute(self, **given: Any) -> Any:
            raise RuntimeError("a trial of loopguard")

    tools = ToolRegistry()
    tools.register(Failing())
    provider = Scripted(api_key="none", api_base=None, provider_name="loopguard-trial")

    async def process_direct(content: str, session_key: str) -> None:
        await loop.runner.run(
            AgentRunSpec(
                initial_messages=[{"role": "user", "content": content}],
                tools=tools,
                runtime=LLMRuntime.capture(provider, "loopguard-trial", context_window_tokens=100_000),
                max_iterations=9,
                max_tool_result_chars=2000,
                session_key=session_key,
            )
        )

    loop = SimpleNamespace(
        runner=AgentRunner(),
        subagents=SimpleNamespace(runner=AgentRunner()),
        process_direct=process_direct,
        bus=MessageBus(),
        tools=tools,
    )
    Adapter(trial.guard).wrap(loop)
    asyncio.run(loop.process_direct("trial", "loopguard-trial"))


def _tool_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results that stand after the last answer of the model, in its order."""
    found: list[dict[str, Any]] = []
    for message in reversed(messages):
        if message.get("role") == "assistant":
            break
        if message.get("role") == "tool":
            found.append(message)
    return found[::-1]


def _plain(result: object) -> object:
    """nanobot's text results are a kind of ``str`` of their own."""
    return str(result) if isinstance(result, str) else result


def main() -> None:
    """nanobot's own command line, with loopguard in every agent loop that it builds."""
    from nanobot.agent.loop import AgentLoop
    from nanobot.cli.entry import main as nanobot_main

    shared = functools.cache(lambda: Adapter(_config_file()))  # once nanobot has set up its log
    build = AgentLoop.__init__

    @functools.wraps(build)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        attach(self, shared())

    AgentLoop.__init__ = guarded
    sys.argv[0] = "nanobot"
    nanobot_main()


def _config_file() -> Path | None:
    """The file that ``LOOPGUARD_CONFIG`` names, or the one beside nanobot's own if there is one."""
    if named := os.environ.get("LOOPGUARD_CONFIG"):
        return Path(named)
    from nanobot.config.loader import get_config_path

    beside = Path(get_config_path()).parent / "loopguard.json5"
    return beside if beside.exists() else None


if __name__ == "__main__":
    main()
