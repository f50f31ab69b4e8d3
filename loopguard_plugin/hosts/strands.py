"""loopguard in Strands agents (strands-agents 1.62), as a hook provider.

    >>> import strands
    >>> from strands.models import Model
    >>> from loopguard_plugin.hosts.strands import attach
    >>>
    >>> class Stuck(Model):  # stands for a model that gets a tool's name wrong, again and again
    ...     def get_config(self): return {}
    ...     def update_config(self, **config): pass
    ...     def structured_output(self, *args, **kwargs): raise NotImplementedError
    ...     async def stream(self, *args, **kwargs):
    ...         yield {"messageStart": {"role": "assistant"}}
    ...         yield {"contentBlockStart": {"start": {"toolUse": {"name": "read_fil", "toolUseId": "1"}}}}
    ...         yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"path": "a.txt"}'}}}}
    ...         yield {"contentBlockStop": {}}
    ...         yield {"messageStop": {"stopReason": "tool_use"}}
    >>> agent = strands.Agent(Stuck(), callback_handler=None)
    >>> adapter = attach(agent)  # attach(agent, "gateway.json5"): with settings; or Agent(hooks=[Adapter()])
    >>>
    >>> result = agent("Read a.txt")
    >>> print(str(result)[:87])
    [loopguard] The turn was ended: `read_fil` failed 3 times in a row with the same argume
    >>> result.state["loopguard"]["code"]
    'repeated_tool_error'

A session is an agent object, or with a session manager its session and agent id; a run is what follows one prompt,
interrupts and hooks that resume the agent included. The turn ends with the reason as the agent's answer (stop reason
``end_turn``), which streams as an answer of the model does, and with ``result.state["loopguard"]`` for programs. An
agent that is a tool of another and was ended is a failure of that tool.

What this host cannot do:

- Calls that a person makes (``agent.tool.name(...)``) and agents that speak (``BidiAgent``) pass no batch hook: they
  are not judged. Of a tool in the background, the acknowledgement is what is compared.
- Only a compaction after an overflow is seen; a conversation manager that trims before one is not.
- Counts live in this process: an interrupted run that is resumed in another one starts counting anew.
- The events that stream to the caller show each tool result as it was before a note or a sibling's own reason is put
  in; the model and the history get both.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from ..answers import Blocked
from ..errors import TurnEndingError
from ..events import Status
from ._shared import Calls, Config, Started, fail_open, log_to, result_text
from ._versions import FAILING, Trial, require, trial_run

LOGGER: Final = "strands.loopguard"
HOST: Final = require("strands-agents", tried=">=1.62,<1.63", below="2", extra="strands")

with HOST.names():
    from strands import Agent
    from strands.hooks import HookProvider, HookRegistry
    from strands.hooks.events import (
        AfterInvocationEvent,
        AfterModelCallEvent,
        AfterToolsEvent,
        BeforeInvocationEvent,
        BeforeToolsEvent,
    )
    from strands.hooks.registry import HookOrder
    from strands.types.content import Message
    from strands.types.exceptions import ContextWindowOverflowException
    from strands.types.tools import ToolResult, ToolUse

__all__ = ["Adapter", "attach"]


class Batch(NamedTuple):
    """A response whose tools are about to run."""

    batch_id: str
    uses: Sequence[ToolUse]
    started: Started


class Session:
    """What is to be known of an agent between hooks. ``goes_on``: a hook resumed the agent, no user wrote.

    ``reason``: why the turn was ended, until whoever streams has been told.
    """

    __slots__ = ("batch", "goes_on", "key", "reason", "run")

    def __init__(self, key: str) -> None:
        self.key = key
        self.run = ""
        self.goes_on = False
        self.batch: Batch | None = None
        self.reason: str | None = None


class Adapter(HookProvider):
    """A hook provider for ``Agent(hooks=[Adapter()])``. May serve many agents at once.

    ``config``: path of a JSON5 file, a mapping, ``Settings``, or a ``LoopGuard``. ``agent``: whose settings apply; by
    default each agent's ``agent_id``. Log lines go to ``logging``, as ``LOGGER``.
    Raises SettingsError for settings that cannot be used.
    """

    def __init__(self, config: Config = None, *, agent: str | None = None) -> None:
        log_to(LOGGER)
        HOST.check(_look)
        self.calls = Calls(config)
        self._agent = agent
        self._most = self.calls.guard.settings.max_runs
        self._lock = threading.Lock()
        self._managed: OrderedDict[str, Session] = OrderedDict()
        self._own: WeakKeyDictionary[Agent, Session] = WeakKeyDictionary()
        self._streaming: WeakSet[Agent] = WeakSet()

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Called by the agent. Our order lets other hooks change a batch first and results last."""
        registry.add_callback(BeforeInvocationEvent, self.before_invocation, order=HookOrder.SDK_LAST)
        registry.add_callback(AfterInvocationEvent, self.after_invocation, order=HookOrder.SDK_LAST)
        registry.add_callback(AfterModelCallEvent, self.after_model_call, order=HookOrder.SDK_LAST)
        registry.add_callback(BeforeToolsEvent, self.before_tools, order=HookOrder.SDK_LAST)
        registry.add_callback(AfterToolsEvent, self.after_tools, order=HookOrder.SDK_LAST)

    @fail_open()
    def before_invocation(self, event: BeforeInvocationEvent) -> None:
        """A prompt begins a run; answers to interrupts and hooks that resume the agent go on with the last one."""
        self._tell_streams_of(event.agent)
        session = self._session(event.agent)
        goes_on, session.goes_on, session.reason = session.goes_on, False, None
        if session.run and (goes_on or not any(map(_is_prompt, event.messages or ()))):
            return
        session.run = uuid.uuid4().hex
        self.calls.user_message(session.key, run=session.run, agent=self._of(event.agent))

    @fail_open()
    def after_invocation(self, event: AfterInvocationEvent) -> None:
        self._session(event.agent).goes_on = event.resume is not None

    @fail_open()
    def after_model_call(self, event: AfterModelCallEvent) -> None:
        """An overflow: the conversation manager reduces the context, and the model is asked again."""
        if isinstance(event.exception, ContextWindowOverflowException) and not event.retry:
            session = self._session(event.agent)
            self.calls.compacted(session.key, run=session.run, agent=self._of(event.agent))

    @fail_open()
    def before_tools(self, event: BeforeToolsEvent) -> None:
        """Admit all calls of the response, or refuse all of them. Fires again when an interrupted batch goes on."""
        session = self._session(event.agent)
        uses = [block["toolUse"] for block in event.message["content"] if "toolUse" in block]
        batch_id = event.message.get("tracking_id") or uuid.uuid4().hex
        calls = [(use["toolUseId"], use["name"], use["input"]) for use in uses]
        agent = self._of(event.agent)
        started = self.calls.starts(session.key, calls, batch_id=batch_id, run=session.run, agent=agent)
        session.batch = Batch(batch_id, uses, started)
        if started.blocked is not None:
            event.cancel = started.blocked.reason

    @fail_open()
    def after_tools(self, event: AfterToolsEvent) -> None:
        """All results of the batch, or those that an interrupt lets through: settle them in model order."""
        session = self._session(event.agent)
        batch, session.batch = session.batch, None
        if batch is None:
            return
        results = [block["toolResult"] for block in event.message["content"] if "toolResult" in block]
        ended = batch.started.error
        for place, use in enumerate(batch.uses):
            result = next((one for one in results if one["toolUseId"] == use["toolUseId"]), None)
            if result is not None:
                results.remove(result)  # a provider may use one id for several calls
                ended = self._settle(session, event.agent, batch, place, result) or ended
        if ended is not None:
            event.end_turn = session.reason = ended.message
            facts = {"code": str(ended.code), "detector": str(ended.detector), "tool": ended.tool, "count": ended.count}
            event.invocation_state.setdefault("request_state", {})["loopguard"] = facts

    def _tell_streams_of(self, agent: Agent) -> None:
        """Whoever streams reads the reason of an ended turn, where this release allows it."""
        with self._lock:
            if agent in self._streaming:
                return
            self._streaming.add(agent)
        with contextlib.suppress(ImportError, AttributeError):
            from ._strands_stream import tell

            tell(agent, functools.partial(self._take_reason, weakref.ref(agent)))

    @fail_open()
    def _take_reason(self, agent: weakref.ref[Agent]) -> str | None:
        known = agent()
        if known is None:
            return None
        session = self._session(known)
        reason, session.reason = session.reason, None
        return reason

    def _settle(
        self, session: Session, agent: Agent, batch: Batch, place: int, result: ToolResult
    ) -> TurnEndingError | None:
        """Settle one call; its result gets the note, or the reason for its refusal."""
        use, verdict = batch.uses[place], batch.started.answers[place]
        status, told = _outcome(use, result)
        if isinstance(verdict, Blocked):
            result["content"] = [{"text": verdict.reason}]
            status = Status.BLOCKED
        failed = status in (Status.ERROR, Status.UNKNOWN_TOOL, Status.REJECTED)
        answer, ended = self.calls.settle(
            session.key,
            use["toolUseId"],
            use["name"],
            batch_id=batch.batch_id,
            run=session.run,
            agent=self._of(agent),
            index=place,
            result=None if failed else told,
            error=told if failed else None,
            status=status,
            args=use["input"],
        )
        if answer.note is not None and {"text": answer.note} not in result["content"]:
            result["content"] = [*result["content"], {"text": answer.note}]
        return ended

    def _session(self, agent: Agent) -> Session:
        manager = getattr(agent, "_session_manager", None)
        name = getattr(manager, "session_id", None)
        with self._lock:
            if not name:
                if agent not in self._own:
                    self._own[agent] = Session(uuid.uuid4().hex)
                return self._own[agent]
            key = f"{name}/{agent.agent_id}"
            session = self._managed.pop(key, None) or Session(key)
            self._managed[key] = session
            if len(self._managed) > self._most:
                self._managed.popitem(last=False)
            return session

    def _of(self, agent: Agent) -> str | None:
        """Whose settings apply: ``default`` is what Strands calls an agent without a name."""
        if self._agent is not None or agent.agent_id == "default":
            return self._agent
        return agent.agent_id


def _is_prompt(message: Message) -> bool:
    """Whether a user wrote this; results of tools are sent in a user's name too."""
    return message["role"] == "user" and any("toolResult" not in block for block in message["content"])


def _outcome(use: ToolUse, result: ToolResult) -> tuple[Status | None, object]:
    """How a call ended, and what the model is told; status None leaves it to the result.

    The mark ``cancelled`` says nothing: any tool can set it, and an agent that really was cancelled stops by itself.
    """
    content = result["content"]
    told: object = {"content": content}
    if len(content) == 1 and "json" in content[0]:
        told = content[0]["json"]
    elif len(content) == 1 and "text" in content[0]:
        told = content[0]["text"]
    if result["status"] != "error":
        return None, result_text(told) if isinstance(told, str) else told
    if told == f"Unknown tool: {use['name']}":
        return Status.UNKNOWN_TOOL, told
    if isinstance(told, str) and told.startswith("Error: Validation failed for input parameters"):
        return Status.REJECTED, told
    return Status.ERROR, told


def _look() -> list[str]:
    """What the guard will not see or tell in this release of Strands."""
    unseen = list(trial_run(HOST, _drive))
    try:
        from . import _strands_stream  # noqa: F401  # there or not
    except (ImportError, AttributeError):
        unseen.append("whoever streams (the reason of an ended turn is in the last result alone)")
    return unseen


def _drive(trial: Trial) -> None:
    from strands import tool
    from strands.models import Model

    class Scripted(Model):
        def get_config(self) -> dict[str, Any]:
            return {}

        def update_config(self, **config: Any) -> None:
            return

        def structured_output(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            called = trial.answer()
            yield {"messageStart": {"role": "assistant"}}
            if called is None:
                yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            else:
                yield {"contentBlockStart": {"start": {"toolUse": {"name": called, "toolUseId": uuid.uuid4().hex}}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if called is None else "tool_use"}}

    def fail() -> str:
        raise RuntimeError("a trial of loopguard")

    failing: Any = tool(fail, name=FAILING, description="fails")
    Agent(Scripted(), tools=[failing], hooks=[Adapter(trial.guard)], callback_handler=None)("trial")


def attach(target: Agent, config: Config = None, *, agent: str | None = None) -> Adapter:
    """Put an adapter into an agent; returns it."""
    adapter = Adapter(config, agent=agent)
    target.hooks.add_hook(adapter)
    return adapter
