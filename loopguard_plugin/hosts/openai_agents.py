"""loopguard in the OpenAI Agents SDK (openai-agents 0.24), as run hooks and tool guardrails.

    >>> import asyncio
    >>> from agents import Agent, Runner, function_tool
    >>> from agents.testing import ScriptedModel, function_call
    >>> from loopguard_plugin.hosts.openai_agents import Adapter, TurnEnded
    >>>
    >>> @function_tool
    ... def read_file(path: str) -> str:
    ...     raise OSError("no such file")
    >>> stuck = ScriptedModel([[function_call("read_file", {"path": "a.txt"}, call_id=f"c{n}")] for n in range(9)])
    >>> agent = Agent(name="reader", model=stuck, tools=[read_file])
    >>>
    >>> async def main():
    ...     try:
    ...         await Runner.run(agent, "Read a.txt", hooks=Adapter())  # Adapter("gateway.json5"): with settings
    ...     except TurnEnded as ended:
    ...         print(str(ended)[:88])
    ...         print(ended.code)
    >>> asyncio.run(main())
    [loopguard] The turn was ended: `read_file` failed 3 times in a row with the same argume
    repeated_tool_error

One adapter serves any number of runs. Where ``hooks`` is taken already, :func:`attach` puts one into an agent, and
into all agents that it may hand off to. The turn ends with :class:`TurnEnded`, an ``AgentsException`` like
``MaxTurnsExceeded``: its ``run_data`` has what came before. A run is one ``Runner.run`` and its own session; resuming
it with a ``RunState`` in the same process goes on with its counts.

What this host cannot do:

- Guardrails exist on function tools alone. Calls of MCP servers, of hosted, shell, computer, patch and custom tools,
  and handoffs are counted, but get no note, and a refused batch does not keep them from running; going on ends the run
  all the same, before any tool of that batch runs.
- An unknown tool ends the run in this SDK, unless ``RunConfig(tool_not_found_behavior="return_error_to_model")``.
- Failures of function tools are compared and shown as the exception says them, whatever the model is told. Of unknown
  tools and refused approvals only the SDK's own words are known; with a ``tool_error_formatter`` of your own for these,
  run with ``adapter.run_config(yours)``.
- Notes are appended to results that are text, or that the SDK would make text of; images and files stay as they are.
- Only compaction by the model's provider is seen (an output item of that type), not what a session does.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ..answers import Blocked, Code, Detector
from ..errors import TurnEndingError
from ..events import Status
from ._shared import Calls, Config, Started, append_note, fail_open, log_to, result_text
from ._versions import FAILING, Trial, require, trial_run

LOGGER: Final = "openai.agents.loopguard"
HOST: Final = require("openai-agents", tried=">=0.24,<0.25", below="1", extra="openai-agents")

with HOST.names():
    from agents import (
        Agent,
        AgentHooks,
        FunctionTool,
        RunConfig,
        RunContextWrapper,
        RunHooks,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
        ToolOutputGuardrail,
        ToolOutputGuardrailData,
    )
    from agents.exceptions import AgentsException
    from agents.tool import set_function_tool_failure_error_function

    from ._openai_runs import RUNS, Failed, Run, calls_of, failure, field, is_output, textual

__all__ = ["Adapter", "TurnEnded", "attach"]


class TurnEnded(AgentsException):
    """loopguard ended the run; the message says why. ``error`` is the guard's own."""

    def __init__(self, error: TurnEndingError) -> None:
        super().__init__(error.message)
        self.message = error.message
        self.error = error
        self.code: Code = error.code
        self.detector: Detector = error.detector
        self.tool = error.tool
        self.count = error.count


class Adapter(RunHooks[Any]):
    """Run hooks for ``Runner.run(…, hooks=Adapter())``. May serve many agents and runs at once.

    ``config``: path of a JSON5 file, a mapping, ``Settings``, or a ``LoopGuard``. ``agent``: whose settings apply; by
    default each agent's ``name``. Log lines go to ``logging``, as ``LOGGER``.
    Raises SettingsError for settings that cannot be used.
    """

    def __init__(self, config: Config = None, *, agent: str | None = None) -> None:
        log_to(LOGGER)
        HOST.check(functools.partial(trial_run, HOST, _drive))
        self.calls = Calls(config)
        self._agent = agent

    def run_config(self, base: RunConfig | None = None) -> RunConfig:
        """``base`` with a ``tool_error_formatter`` around its own, through which failures are known for certain."""
        config = base if base is not None else RunConfig()
        return dataclasses.replace(config, tool_error_formatter=_telling(config.tool_error_formatter))

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self._agent_start(context, agent)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self._handoff(context)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: str | None, input_items: Any) -> None:
        """The model is about to be asked. Raises :class:`TurnEnded` instead, where the turn ends."""
        ended = self._settle_rest(context, agent, input_items)
        if ended is not None:
            raise TurnEnded(ended)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """The model has answered: admit all its calls, or refuse all of them. Raises :class:`TurnEnded`."""
        ended = self._start(context, agent, response)
        if ended is not None:
            raise TurnEnded(ended)

    @fail_open()
    def _agent_start(self, context: RunContextWrapper[Any], agent: Agent[Any]) -> None:
        """A run begins with a user's message; one agent that takes over from another has none."""
        _protect(agent)
        run = RUNS.find(context)
        if run is None or not run.handed_off:
            run = run if run is not None and run.adapter is self else RUNS.begin(context, self)
            self.calls.user_message(run.session, agent=self._of(agent))
        run.handed_off = False

    @fail_open()
    def _handoff(self, context: RunContextWrapper[Any]) -> None:
        self._run(context).handed_off = True

    @fail_open()
    def _start(self, context: RunContextWrapper[Any], agent: Agent[Any], response: Any) -> TurnEndingError | None:
        run = self._run(context)
        if any(field(item, "type") == "compaction" for item in response.output):
            self.calls.compacted(run.session, agent=self._of(agent))
        calls, batch_id, started = tuple(calls_of(response.output)), uuid.uuid4().hex, Started(())
        if calls:
            started = self.calls.starts(run.session, calls, batch_id=batch_id, agent=self._of(agent))
        RUNS.open_batch(run, calls if started.error is None else (), started, batch_id)
        return started.error

    @fail_open()
    def _settle_rest(
        self, context: RunContextWrapper[Any], agent: Agent[Any], items: Sequence[object] | str
    ) -> TurnEndingError | None:
        """Settle what no guardrail has seen: unknown tools, other kinds of tools, failures that passed them by."""
        results = [] if isinstance(items, str) else [one for one in items if is_output(one)]
        run = RUNS.find(context, (field(one, "call_id") for one in results)) or self._run(context)
        for result in results if run.waiting else ():
            place = run.place(field(result, "call_id"))
            if place is not None:
                self.settle(run, place, field(result, "output"), agent, deliverable=False)
        ended, run.ended = run.ended, None
        return ended

    def settle(
        self, run: Run, place: int, output: object, agent: Agent[Any], *, deliverable: bool = True
    ) -> str | None:
        """Settle one call; returns the note, where there is one."""
        call = run.calls[place]
        failed = run.failures.get(call.call_id)
        status = failed.status if failed is not None else failure(call.tool, output)
        run.waiting.discard(place)
        RUNS.settled(call.call_id)
        told = result_text(output) if isinstance(output, str) and status is None else output
        if failed is not None and failed.error is not None:
            told = failed.error  # what happened, not the words for the model, which may always be the same
        answer, ended = self.calls.settle(
            run.session,
            call.call_id,
            call.tool,
            batch_id=run.batch_id,
            agent=self._of(agent),
            index=place,
            result=None if status is not None else told,
            error=told if status is not None else None,
            status=status,
            args=call.args,
            deliverable=deliverable,
        )
        run.ended = run.ended or ended
        return answer.note

    def _run(self, context: RunContextWrapper[Any]) -> Run:
        return RUNS.find(context) or RUNS.begin(context, self)

    def _of(self, agent: Agent[Any]) -> str | None:
        return self._agent if self._agent is not None else agent.name


class AgentSide(AgentHooks[Any]):
    """One agent's hooks: the adapter, then the hooks that the agent had."""

    def __init__(self, adapter: Adapter, inner: AgentHooks[Any] | None) -> None:
        self.adapter = adapter
        self.inner: AgentHooks[Any] = inner if inner is not None else AgentHooks()

    async def on_start(self, context: Any, agent: Any) -> None:
        await self.adapter.on_agent_start(context, agent)
        await self.inner.on_start(context, agent)

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        await self.inner.on_end(context, agent, output)

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        await self.adapter.on_handoff(context, source, agent)
        await self.inner.on_handoff(context, agent, source)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        await self.inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        await self.inner.on_tool_end(context, agent, tool, result)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: str | None, input_items: Any) -> None:
        await self.adapter.on_llm_start(context, agent, system_prompt, input_items)
        await self.inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        await self.inner.on_llm_end(context, agent, response)
        await self.adapter.on_llm_end(context, agent, response)


ALLOW: Final = ToolGuardrailFunctionOutput.allow


@fail_open(ALLOW())
def _before_tool(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    """Keep a call of a refused batch from running."""
    call_id = data.context.tool_call_id
    run = RUNS.find(data.context, (call_id,))
    place = run.place(call_id) if run is not None else None
    if run is None or place is None or place >= len(run.started.answers):
        return ALLOW()
    answer = run.started.answers[place]
    if not isinstance(answer, Blocked):
        return ALLOW()
    run.failures[call_id] = Failed(Status.BLOCKED)
    run.adapter.settle(run, place, answer.reason, data.agent)
    return ToolGuardrailFunctionOutput.reject_content(answer.reason)


@fail_open(ALLOW())
def _after_tool(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    """Settle a call, and append the note where there is one."""
    run = RUNS.find(data.context)
    place = run.place(data.context.tool_call_id) if run is not None else None
    if run is None or place is None:
        return ALLOW()
    as_text = textual(data.output)
    note = run.adapter.settle(run, place, data.output, data.agent, deliverable=as_text)
    if note is None:
        return ALLOW()
    return ToolGuardrailFunctionOutput.reject_content(str(append_note(str(data.output), note)))


BEFORE: Final[ToolInputGuardrail[Any]] = ToolInputGuardrail(_before_tool, name="loopguard")
AFTER: Final[ToolOutputGuardrail[Any]] = ToolOutputGuardrail(_after_tool, name="loopguard")


def _protect(agent: Agent[Any]) -> None:
    """Put our guardrails on an agent's function tools, once each. They do nothing in runs without an adapter."""
    for tool in agent.tools:
        if isinstance(tool, FunctionTool) and BEFORE not in (tool.tool_input_guardrails or ()):
            tool.tool_input_guardrails = [BEFORE, *(tool.tool_input_guardrails or ())]
            tool.tool_output_guardrails = [*(tool.tool_output_guardrails or ()), AFTER]
            own = getattr(tool, "_failure_error_function", None)
            if own is not None:
                set_function_tool_failure_error_function(tool, _flagging(own))
            inner = getattr(tool.on_invoke_tool, "_invoke_tool_impl", None)
            if inner is not None:
                tool.on_invoke_tool._invoke_tool_impl = _hearing(inner)


def _hearing(inner: Callable[[Any, str], Awaitable[Any]]) -> Callable[[Any, str], Awaitable[Any]]:
    """A tool's function, before the SDK makes one fixed sentence of whatever it raises."""

    @functools.wraps(inner)
    async def hearing(context: Any, given: str) -> Any:
        try:
            return await inner(context, given)
        except Exception as error:
            _flag(context, getattr(context, "tool_call_id", None), Status.ERROR, error)
            raise

    return hearing


def _flagging(own: Callable[[Any, Exception], Any]) -> Callable[[Any, Exception], Any]:
    """A tool's own ``failure_error_function``, through which a failure is known."""

    @functools.wraps(own)
    def flagging(context: Any, error: Exception) -> Any:
        _flag(context, getattr(context, "tool_call_id", None), Status.ERROR, error)
        return own(context, error)

    return flagging


def _telling(own: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """A ``tool_error_formatter`` around a user's own."""
    kinds = {"tool_not_found": Status.UNKNOWN_TOOL, "approval_rejected": Status.DENIED}

    def telling(args: Any) -> Any:
        _flag(args.run_context, args.call_id, kinds.get(args.kind, Status.ERROR), getattr(args, "error", None))
        return own(args) if own is not None else None

    return telling


@fail_open()
def _flag(
    context: RunContextWrapper[Any], call_id: str | None, status: Status, error: BaseException | None = None
) -> None:
    run = RUNS.find(context)
    if run is not None and call_id is not None:
        run.failures[call_id] = Failed(status, None if error is None else str(error) or type(error).__name__)


def _drive(trial: Trial) -> None:
    from agents import Model, ModelResponse, Runner, Usage, function_tool
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Scripted(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            called, item_id = trial.answer(), uuid.uuid4().hex
            said: Any = ResponseOutputMessage(
                id=item_id,
                content=[ResponseOutputText(annotations=[], text="done", type="output_text")],
                role="assistant",
                status="completed",
                type="message",
            )
            if called is not None:
                said = ResponseFunctionToolCall(arguments="{}", call_id=item_id, name=called, type="function_call")
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    @function_tool(name_override=FAILING)
    def fail() -> str:
        raise RuntimeError("a trial of loopguard")

    options: dict[str, Any] = {"tracing_disabled": True}
    if any(one.name == "tool_not_found_behavior" for one in dataclasses.fields(RunConfig)):
        options["tool_not_found_behavior"] = "return_error_to_model"
    else:
        trial.skip_unknown()
    agent: Agent[Any] = Agent(name="loopguard-trial", model=Scripted(), tools=[fail])
    asyncio.run(Runner.run(agent, "trial", hooks=Adapter(trial.guard), run_config=RunConfig(**options)))


def attach(target: Agent[Any], config: Config = None, *, agent: str | None = None) -> Adapter:
    """Put an adapter into an agent's own hooks, and into those of all agents that it may hand off to; returns it."""
    adapter = Adapter(config, agent=agent)
    _attach(target, adapter)
    return adapter


def _attach(target: Agent[Any], adapter: Adapter) -> None:
    todo, done = [target], set()
    while todo:
        one = todo.pop()
        if id(one) not in done:
            done.add(id(one))
            one.hooks = AgentSide(adapter, one.hooks)
            for handoff in one.handoffs:
                to = handoff if isinstance(handoff, Agent) else handoff._agent_ref and handoff._agent_ref()
                if isinstance(to, Agent):
                    todo.append(to)
