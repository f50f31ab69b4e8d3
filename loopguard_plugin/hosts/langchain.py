"""loopguard in LangChain agents (``create_agent``, langchain 1.4.10 to 1.5), sync and async, with checkpointers.

    >>> from langchain.agents import create_agent
    >>> from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    >>> from langchain_core.messages import AIMessage
    >>> from loopguard_plugin.hosts.langchain import Adapter
    >>>
    >>> def read_file(path: str) -> str:
    ...     "Read a file."
    ...     return "hello"
    >>> class Stuck(FakeMessagesListChatModel):  # stands for a model that gets a tool's name wrong, again and again
    ...     def bind_tools(self, tools, **kwargs):
    ...         return self
    >>> call = {"name": "read_fil", "args": {"path": "a.txt"}}
    >>> model = Stuck(responses=[AIMessage(content="", tool_calls=[{**call, "id": f"c{n}"}]) for n in range(9)])
    >>> agent = create_agent(model, [read_file], middleware=[Adapter()])  # Adapter("gateway.json5"): with settings
    >>>
    >>> last = agent.invoke({"messages": [("user", "Read a.txt")]})["messages"][-1]
    >>> print(last.text[:87])
    [loopguard] The turn was ended: `read_fil` failed 3 times in a row with the same argume
    >>> last.additional_kwargs["loopguard"]["code"]
    'repeated_tool_error'

A session is a thread (without a checkpointer: one ``invoke``), a run is what follows one user message; resuming an
interrupted run goes on with it. Both are kept in the agent's state, and where a run is taken up in another process (or
after it was idle), its counts are rebuilt from the messages that the checkpoint holds. An agent that a tool runs is a
session of its own. The turn ends with an ``AIMessage`` that says why, as the last message, marked with
``additional_kwargs["loopguard"]``; refused calls get a ``ToolMessage`` with the reason and are marked likewise.

Put the adapter first in the list of middleware (:func:`attach` does): it then reads results before another middleware
removes them, and judges calls as the others left them.

What this host cannot do:

- A tool that raises ends the whole ``invoke`` in LangChain, so no model ever sees that error and it is not counted.
  Errors that do reach the model count: ``ToolException`` with ``handle_tool_error``, retries that gave up
  (``ToolRetryMiddleware``), arguments that do not validate, unknown tools.
- LangChain compacts before the context overflows, not after it: each summary that ``SummarizationMiddleware`` puts in
  the place of the oldest messages arms the post-compaction guard. Other ways to shorten a history are not seen.
- A person's message that is put into the state in the middle of a run is not noticed until the next run.
- Tools that the model's provider runs itself never appear as calls and are not judged.
- Of the messages that a summary replaced, a rebuilt run knows nothing.
"""

from __future__ import annotations

import functools
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated, Any, Final, NotRequired, Required, TypedDict

from ..errors import TurnEndingError
from ..events import Status
from ._shared import Calls, Config, Started, fail_open, log_to
from ._versions import FAILING, Trial, require, trial_run

LOGGER: Final = "langchain.loopguard"
HOST: Final = require("langchain", tried=">=1.4.10,<1.6", below="2", extra="langchain")

with HOST.names():
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        PrivateStateAttr,
        hook_config,
    )
    from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
    from langgraph.config import get_config
    from langgraph.graph.message import add_messages
    from langgraph.runtime import Runtime

    from . import _langchain_messages as wire

__all__ = ["Adapter", "attach"]


class Where(TypedDict):
    """The run that the agent's state belongs to; plain strings, for checkpointers."""

    session: str
    run: str
    asked: str | None  # id of the user message that began the run
    summary: str | None  # id of the last summary seen
    agent: str | None  # whose settings apply


class GuardedState(TypedDict):
    """What we read of the agent's state, and a private channel of ours."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    loopguard: NotRequired[Annotated[Where, PrivateStateAttr]]


Update = dict[str, Any]


class Adapter(AgentMiddleware[Any, Any, Any]):
    """Middleware for ``create_agent(…, middleware=[Adapter()])``. May serve many agents and threads at once.

    ``config``: path of a JSON5 file, a mapping, ``Settings``, or a ``LoopGuard``. ``agent``: whose settings apply.
    Log lines go to ``logging``, as ``LOGGER``.
    Raises SettingsError for settings that cannot be used.
    """

    state_schema = GuardedState
    tools = ()

    def __init__(self, config: Config = None, *, agent: str | None = None) -> None:
        super().__init__()
        log_to(LOGGER)
        HOST.check(functools.partial(trial_run, HOST, _drive))
        self.calls = Calls(config)
        self._agent = agent
        self._known = KnownRuns(self.calls.guard.settings.max_runs, self.calls.guard.settings.idle_minutes * 60)

    @property
    def name(self) -> str:
        return "loopguard"

    @fail_open()
    def before_agent(self, state: GuardedState, runtime: Runtime[Any]) -> Update | None:
        """The user message that began this invocation, if one did."""
        before, asked = state.get("loopguard"), wire.question(state["messages"])
        if before is not None and asked in (None, before["asked"]):
            return None
        seen = before["summary"] if before is not None else wire.summary(state["messages"])
        where = self._new(runtime, uuid.uuid4().hex, asked, seen)
        self._known.touch(where["run"])
        self.calls.user_message(where["session"], run=where["run"], agent=where["agent"], message_id=asked)
        return {"loopguard": where}

    @hook_config(can_jump_to=["end"])
    @fail_open()
    def before_model(self, state: GuardedState, runtime: Runtime[Any]) -> Update | None:
        """All results of the last response are in: settle them in model order, and note what is to be noted."""
        where, messages = self._where(state, runtime), state["messages"]
        changed: list[AnyMessage] = []
        ended: TurnEndingError | None = None
        if (response := wire.last_response(messages)) is not None:
            for one in wire.answered(response, messages):
                message, error = self._settle(where, response, one)
                ended = ended or error
                if message is not None:
                    changed.append(message)
        if ended is not None:
            return {"messages": [*changed, wire.last_words(ended)], "jump_to": "end"}
        return _update(changed, self._armed(where, messages))  # last: what settled before a summary does not count

    @hook_config(can_jump_to=["end"])
    @fail_open()
    def after_model(self, state: GuardedState, runtime: Runtime[Any]) -> Update | None:
        """The model has answered: admit all its calls, or refuse all of them before any tool runs."""
        where, messages = self._where(state, runtime), state["messages"]
        armed = self._armed(where, messages)
        response = wire.last_response(messages)
        calls = wire.calls_of(response) if response is not None else []
        if response is None or not calls:
            return _update([], armed)
        started = self._starts(where, response, calls)
        refused: list[AnyMessage] = [*wire.refusals(calls, started.answers, response, messages)]
        if started.error is not None:
            return {"messages": [*refused, wire.last_words(started.error)], "jump_to": "end"}
        return _update(refused, armed)

    async def abefore_agent(self, state: GuardedState, runtime: Runtime[Any]) -> Update | None:
        return self.before_agent(state, runtime)

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: GuardedState, runtime: Runtime[Any]) -> Update | None:
        return self.before_model(state, runtime)

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: GuardedState, runtime: Runtime[Any]) -> Update | None:
        return self.after_model(state, runtime)

    def _new(self, runtime: Runtime[Any], run: str, asked: str | None, summary: str | None) -> Where:
        agent = self._agent if self._agent is not None else _agent_name()
        return Where(session=_session(runtime), run=run, asked=asked, summary=summary, agent=agent)

    def _where(self, state: GuardedState, runtime: Runtime[Any]) -> Where:
        """The run of this state, rebuilt from its messages where this process does not know it (any more)."""
        where = state.get("loopguard")
        if where is None:  # a checkpoint from before the adapter was added, entered past its start
            where = self._new(runtime, "", None, None)
        if not self._known.touch(where["run"]):
            self.calls.end_run(where["session"], where["run"])
            self._rebuild(where, state["messages"])
        return where

    def _rebuild(self, where: Where, messages: Sequence[AnyMessage]) -> None:
        """Feed the run's batches again, all but the results of the last one, which are still to be settled.

        Whatever the earlier ones led to has been done already.
        """
        begin = next((at for at, one in enumerate(messages) if one.id == where["asked"]), 0)
        last = wire.last_response(messages)
        for response in messages[begin:]:
            if isinstance(response, AIMessage):
                self._starts(where, response, wire.calls_of(response))
                for one in wire.answered(response, messages) if response is not last else ():
                    self._settle(where, response, one)

    def _starts(self, where: Where, response: AIMessage, calls: Sequence[wire.Call]) -> Started:
        batch = [(call.call_id, call.tool, call.args) for call in calls]
        return self.calls.starts(
            where["session"], batch, batch_id=response.id or "", run=where["run"], agent=where["agent"]
        )

    def _settle(
        self, where: Where, response: AIMessage, one: wire.Answered
    ) -> tuple[ToolMessage | None, TurnEndingError | None]:
        """Settle one call; returns its message anew where it is to have a note."""
        status, told = wire.outcome(one.call, one.message)
        failed = status in (Status.ERROR, Status.UNKNOWN_TOOL, Status.REJECTED)
        answer, ended = self.calls.settle(
            where["session"],
            one.call.call_id,
            one.call.tool,
            batch_id=response.id,
            run=where["run"],
            agent=where["agent"],
            index=one.place,
            result=None if failed else told,
            error=told if failed else None,
            status=status,
            args=one.call.args,
            deliverable=one.message is not None,
        )
        if one.message is None or answer.note is None or wire.MARK in one.message.additional_kwargs:
            return None, ended
        return wire.noted(one.message, answer.note), ended

    def _armed(self, where: Where, messages: Sequence[AnyMessage]) -> Update:
        """Arm the post-compaction guard where there is a summary that was not there before."""
        newest = wire.summary(messages)
        if newest in (None, where["summary"]):
            return {}
        self.calls.compacted(where["session"], run=where["run"], agent=where["agent"])
        return {"loopguard": {**where, "summary": newest}}


class KnownRuns:
    """The runs that this process has counted lately; the guard forgets the others."""

    def __init__(self, most: int, idle_seconds: float) -> None:
        self._most = most
        self._idle = idle_seconds
        self._lock = threading.Lock()
        self._heard: OrderedDict[str, float] = OrderedDict()

    def touch(self, run: str) -> bool:
        """Whether the run was known; from now on it is."""
        now = time.monotonic()
        with self._lock:
            heard = self._heard.pop(run, None)
            self._heard[run] = now
            if len(self._heard) > self._most:
                self._heard.popitem(last=False)
        return heard is not None and now - heard < self._idle


def _session(runtime: Runtime[Any]) -> str:
    """The thread; without one, something that is nobody else's. An agent inside a tool is apart from its caller."""
    info = runtime.execution_info
    if info is None or not info.thread_id:
        return uuid.uuid4().hex
    inside = info.checkpoint_ns.rpartition("|")[0]
    return f"{info.thread_id}|{inside}" if inside else info.thread_id


def _agent_name() -> str | None:
    """What ``create_agent(name=…)`` was given."""
    name = get_config().get("metadata", {}).get("lc_agent_name")
    return name if isinstance(name, str) else None


def _update(messages: list[AnyMessage], armed: Update) -> Update | None:
    return {**({"messages": messages} if messages else {}), **armed} or None


def _drive(trial: Trial) -> None:
    from langchain.agents import create_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import StructuredTool, ToolException

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "loopguard-trial"

        def bind_tools(self, tools: object, **kwargs: object) -> Scripted:
            return self

        def _generate(self, *args: object, **kwargs: object) -> ChatResult:
            called = trial.answer()
            calls: Any = [] if called is None else [{"name": called, "args": {}, "id": uuid.uuid4().hex}]
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content="", tool_calls=calls))])

    def fail() -> str:
        raise ToolException("a trial of loopguard")

    failing = StructuredTool.from_function(fail, name=FAILING, description="fails", handle_tool_error=True)
    agent: Any = create_agent(Scripted(), [failing], middleware=[Adapter(trial.guard)])
    agent.invoke({"messages": [("user", "trial")]})


def attach(target: list[AgentMiddleware[Any, Any, Any]], config: Config = None, *, agent: str | None = None) -> Adapter:
    """Put an adapter in front of the list of middleware that ``create_agent`` is about to get; returns it."""
    adapter = Adapter(config, agent=agent)
    target.insert(0, adapter)
    return adapter
