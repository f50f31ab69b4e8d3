"""loopguard in Pydantic AI (pydantic-ai-slim 2.64 to 2.68), as a capability.

    >>> from pydantic_ai import Agent
    >>> from pydantic_ai.messages import ModelResponse, ToolCallPart
    >>> from pydantic_ai.models.function import FunctionModel
    >>> from loopguard_plugin.hosts.pydantic_ai import Adapter, TurnEnded
    >>>
    >>> def stuck(messages, info):  # stands for a model that gets a tool's name wrong, again and again
    ...     return ModelResponse(parts=[ToolCallPart("read_fil", {"path": "a.txt"})])
    >>> agent = Agent(FunctionModel(stuck), retries=9, capabilities=[Adapter()])  # Adapter("gateway.json5"): settings
    >>>
    >>> try:
    ...     agent.run_sync("Read a.txt")
    ... except TurnEnded as ended:
    ...     print(str(ended)[:87])
    ...     print(ended.code)
    [loopguard] The turn was ended: `read_fil` failed 3 times in a row with the same argume
    repeated_tool_error

A session is a conversation (``conversation_id``), a run is one ``agent.run`` with a prompt; one without a prompt goes
on with the run that its history comes from, also with its counts where this process has them. The turn ends with
:class:`TurnEnded`, an ``AgentRunError`` like the framework's own limits; ``capture_run_messages`` has the history,
with the result of every call. Refused calls fail as ``ToolFailed`` does: they use up no retries. So does a tool that
runs an agent whose turn is ended: the caller's model reads why, and the third identical delegation ends the caller.

Put the adapter last in the list of capabilities (:func:`attach` does): it then sees an overflow before a capability
that recovers from it does, and calls as the model wrote them.

What this host cannot do:

- The framework ends a run by itself when a tool's ``retries`` are used up (by default at the second failure), before
  the third identical one. loopguard counts where more retries are allowed, and ``ToolFailed``, which uses up none.
- A tool's own exception ends the run, so no model ever sees it and it is not counted.
- Calls with unknown tools or invalid arguments beside a refused call keep the framework's own answer; they never run.
- Output tools are the framework's business and are not judged. Nor are realtime sessions, tools that the provider
  runs, and calls of an external or deferred tool until their results come back.
- Overflows count as compaction where a capability of the same agent may recover from them; trimming by a history
  processor leaves no trace. Messages that are enqueued in the middle of a run do not reset counts.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ..answers import Blocked, Code, Detector
from ..errors import TurnEndingError
from ..events import Status
from ._shared import Calls, Config, Started, append_note, arguments, fail_open, log_to, result_text
from ._versions import FAILING, Trial, require, trial_run

LOGGER: Final = "pydantic_ai.loopguard"
HOST: Final = require("pydantic-ai-slim", tried=">=2.64,<2.69", below="3", extra="pydantic-ai")

with HOST.names():
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import (
        AgentRunError,
        ModelContextWindowExceededError,
        ToolFailed,
    )
    from pydantic_ai.messages import (
        CompactionPart,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

__all__ = ["Adapter", "TurnEnded", "attach"]


class TurnEnded(AgentRunError):
    """loopguard ended the run; the message says why. ``error`` is the guard's own."""

    def __init__(self, error: TurnEndingError) -> None:
        super().__init__(error.message)
        self.error = error
        self.code: Code = error.code
        self.detector: Detector = error.detector
        self.tool = error.tool
        self.count = error.count


class Batch(NamedTuple):
    """The calls of a response whose results are still to come."""

    batch_id: str
    calls: Sequence[ToolCallPart]
    started: Started


class Adapter(AbstractCapability[Any]):
    """A capability for ``Agent(capabilities=[Adapter()])``. May serve many agents and runs at once.

    ``config``: path of a JSON5 file, a mapping, ``Settings``, or a ``LoopGuard``. ``agent``: whose settings apply; by
    default each agent's ``name``. Log lines go to ``logging``, as ``LOGGER``.
    Raises SettingsError for settings that cannot be used.
    """

    def __init__(self, config: Config = None, *, agent: str | None = None) -> None:
        log_to(LOGGER)
        HOST.check(functools.partial(trial_run, HOST, _drive))
        self.calls = Calls(config)
        self._agent = agent
        self._batches = OpenBatches(self.calls.guard.settings.max_runs)
        self._session = self._run = ""
        self._summary: CompactionPart | None = None

    async def for_run(self, ctx: RunContext[Any]) -> Adapter:
        """A copy that knows its run; guard and open batches are shared."""
        return self._for_run(ctx) or self

    @fail_open()
    def _for_run(self, ctx: RunContext[Any]) -> Adapter:
        own = copy.copy(self)
        run = ctx.run_id or ""
        own._session = ctx.conversation_id or run or "run"
        own._run = run if _asks(ctx) else _earlier_run(ctx) or run
        own._summary = _newest_summary(ctx.messages)
        return own

    async def before_run(self, ctx: RunContext[Any]) -> None:
        self._before_run(ctx)

    @fail_open()
    def _before_run(self, ctx: RunContext[Any]) -> None:
        if _asks(ctx):
            self.calls.user_message(self._session, run=self._run, agent=self._of(ctx))

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: Any, response: ModelResponse
    ) -> ModelResponse:
        """The model has answered: admit all its calls, or refuse all of them before any tool runs."""
        self._start(ctx, request_context, response)
        return response

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """Run the tool, unless its batch was refused. That an agent which it runs was ended is its failure, no more."""
        refusal = self._refusal(call)
        if refusal is not None:
            raise ToolFailed(refusal)
        try:
            return await handler(args)
        except TurnEnded as ended:
            raise ToolFailed(str(ended)) from ended

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """All results are in: settle them in model order. Raises :class:`TurnEnded` where the turn ends."""
        ended = self._settle_batch(ctx, request_context)
        if ended is not None:
            raise TurnEnded(ended)
        return request_context

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: Any, error: Exception
    ) -> ModelResponse:
        if isinstance(error, ModelContextWindowExceededError):
            self._compacted(ctx)
        raise error

    @fail_open()
    def _compacted(self, ctx: RunContext[Any]) -> None:
        self.calls.compacted(self._session, run=self._run, agent=self._of(ctx))

    @fail_open()
    def _start(self, ctx: RunContext[Any], request_context: Any, response: ModelResponse) -> None:
        summary = _newest_summary([*ctx.messages, *request_context.messages, response])
        if summary is not None and summary != self._summary:
            self._summary = summary
            self._compacted(ctx)
        outputs = {tool.name for tool in request_context.model_request_parameters.output_tools}
        calls = [part for part in response.parts if isinstance(part, ToolCallPart) and part.tool_name not in outputs]
        if not calls:
            return
        batch_id = f"{ctx.run_id}:{ctx.run_step}:{request_context.attempt}"
        listed = [(call.tool_call_id, call.tool_name, arguments(call.args)) for call in calls]
        started = self.calls.starts(self._session, listed, batch_id=batch_id, run=self._run, agent=self._of(ctx))
        self._batches.put(self._run, Batch(batch_id, calls, started))

    @fail_open()
    def _refusal(self, call: ToolCallPart) -> str | None:
        batch = self._batches.get(self._run)
        for listed, answer in zip(batch.calls, batch.started.answers, strict=True) if batch is not None else ():
            if listed.tool_call_id == call.tool_call_id and isinstance(answer, Blocked):
                return answer.reason
        return None

    @fail_open()
    def _settle_batch(self, ctx: RunContext[Any], request_context: Any) -> TurnEndingError | None:
        """Settle what came back. A batch that waits for results from outside stays open until the next run."""
        batch = self._batches.pop(self._run)
        if batch is None:
            return None
        ended = batch.started.error
        returns = _returns(ctx.messages)
        for place, call in enumerate(batch.calls):
            part = next((one for one in returns if one.tool_call_id == call.tool_call_id), None)
            if part is None:
                continue
            returns.remove(part)
            status, told = _outcome(part)
            if isinstance(batch.started.answers[place], Blocked):
                status = Status.BLOCKED
            failed = status in (Status.ERROR, Status.UNKNOWN_TOOL, Status.REJECTED, Status.DENIED)
            answer, error = self.calls.settle(
                self._session,
                call.tool_call_id,
                call.tool_name,
                batch_id=batch.batch_id,
                run=self._run,
                agent=self._of(ctx),
                index=place,
                result=None if failed else told,
                error=told if failed else None,
                status=status,
                args=arguments(call.args),
            )
            ended = ended or error
            if answer.note is not None:
                for messages in (ctx.messages, request_context.messages):
                    _put_note(messages, call.tool_call_id, answer.note)
        return ended

    def _of(self, ctx: RunContext[Any]) -> str | None:
        return self._agent if self._agent is not None or ctx.agent is None else ctx.agent.name


class OpenBatches:
    """The open batch of each run, for copies of an adapter in any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._batches: OrderedDict[str, Batch] = OrderedDict()

    def put(self, run: str, batch: Batch) -> None:
        with self._lock:
            self._batches.pop(run, None)
            self._batches[run] = batch
            if len(self._batches) > self._most:
                self._batches.popitem(last=False)

    def get(self, run: str) -> Batch | None:
        return self._batches.get(run)

    def pop(self, run: str) -> Batch | None:
        with self._lock:
            return self._batches.pop(run, None)


def _asks(ctx: RunContext[Any]) -> bool:
    """Whether a user wrote something new: a prompt, or a history that ends with one."""
    if ctx.prompt is not None or not ctx.messages:
        return True
    last = ctx.messages[-1]
    parts = last.parts if isinstance(last, ModelRequest) else ()
    return any(isinstance(part, UserPromptPart) for part in parts) and not any(
        isinstance(part, ToolReturnPart) for part in parts
    )


def _earlier_run(ctx: RunContext[Any]) -> str | None:
    return next((one.run_id for one in reversed(ctx.messages) if one.run_id not in (None, ctx.run_id)), None)


def _newest_summary(messages: Iterable[ModelMessage]) -> CompactionPart | None:
    """The last compaction in a history, by the provider (in a response) or by a capability (in a request)."""
    newest = None
    for message in messages:
        for part in message.parts:
            if isinstance(part, CompactionPart):
                newest = part
    return newest


def _returns(messages: Sequence[ModelMessage]) -> list[ToolReturnPart]:
    """The results that came after the last response."""
    found: list[ToolReturnPart] = []
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            break
        found[:0] = [part for part in message.parts if isinstance(part, ToolReturnPart)]
    return found


def _put_note(messages: Sequence[ModelMessage], call_id: str, note: str) -> None:
    """Put a note into a result. Parts are replaced, never changed: that is what keeps traces of earlier requests."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            return
        message.parts = [_noted(part, note) if _is_return(part, call_id) else part for part in message.parts]


def _is_return(part: object, call_id: str) -> bool:
    return isinstance(part, ToolReturnPart) and part.tool_call_id == call_id


def _noted(part: Any, note: str) -> Any:
    """The part with the note; a list is what Pydantic AI takes for several pieces of content."""
    content = part.content
    if part.tool_kind is not None or note in str(content):
        return part
    if isinstance(content, (str, dict)):
        return replace(part, content=append_note(content, note))
    return replace(part, content=[*(content if isinstance(content, list) else [content]), note])


def _outcome(part: ToolReturnPart) -> tuple[Status | None, object]:
    """How a call ended, and what the model is told; status None leaves it to the result."""
    content: object = part.content
    if part.outcome == "success":
        return None, result_text(content) if isinstance(content, str) else content
    if part.outcome == "retried":
        if isinstance(content, str) and content.startswith(f"Unknown tool name: {part.tool_name!r}"):
            return Status.UNKNOWN_TOOL, content
        return (Status.ERROR if isinstance(content, str) else Status.REJECTED), content
    return {"denied": Status.DENIED, "interrupted": Status.ABORTED}.get(part.outcome, Status.ERROR), content


def _drive(trial: Trial) -> None:
    from pydantic_ai import Agent, Tool
    from pydantic_ai.messages import TextPart
    from pydantic_ai.models.function import FunctionModel

    def scripted(messages: Any, info: Any) -> ModelResponse:
        called = trial.answer()
        return ModelResponse(parts=[TextPart("done") if called is None else ToolCallPart(called, {})])

    def fail() -> str:
        raise ToolFailed("a trial of loopguard")

    tools, capabilities = [Tool(fail, name=FAILING)], [Adapter(trial.guard)]
    make: Any = Agent
    asyncio.run(make(FunctionModel(scripted), tools=tools, retries=9, capabilities=capabilities).run("trial"))


def attach(target: list[AbstractCapability[Any]], config: Config = None, *, agent: str | None = None) -> Adapter:
    """Put an adapter at the end of the list of capabilities that an ``Agent`` is about to get; returns it."""
    adapter = Adapter(config, agent=agent)
    target.append(adapter)
    return adapter
