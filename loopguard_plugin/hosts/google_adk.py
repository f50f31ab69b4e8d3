"""loopguard in Google's Agent Development Kit (google-adk 2.10 to 2.13), as a plugin of the runner.

    >>> import asyncio
    >>> from google.adk.agents import LlmAgent
    >>> from google.adk.models import BaseLlm, LlmResponse
    >>> from google.adk.runners import InMemoryRunner
    >>> from google.genai import types
    >>> from loopguard_plugin.hosts.google_adk import Adapter
    >>>
    >>> class Stuck(BaseLlm):  # stands for a model that gets a tool's name wrong, again and again
    ...     async def generate_content_async(self, llm_request, stream=False):
    ...         part = types.Part.from_function_call(name="read_fil", args={"path": "a.txt"})
    ...         yield LlmResponse(content=types.Content(role="model", parts=[part]))
    >>> agent = LlmAgent(name="reader", model=Stuck(model="stuck"))
    >>> runner = InMemoryRunner(agent, app_name="app", plugins=[Adapter()])  # Adapter("gateway.json5"): with settings
    >>>
    >>> async def main():
    ...     await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")
    ...     question = types.Content(role="user", parts=[types.Part(text="Read a.txt")])
    ...     async for event in runner.run_async(user_id="u", session_id="s", new_message=question):
    ...         last = event
    ...     print(last.content.parts[0].text[:87])
    ...     print(last.error_code)
    >>> asyncio.run(main())
    [loopguard] The turn was ended: `read_fil` failed 3 times in a row with the same argume
    repeated_tool_error

A session is app, user and session id; a run is what follows one user message, in one branch: agents that run in
parallel are judged apart. The turn ends with an event that says why in its text, with ``error_code`` and
``error_message``; nobody asks the model again in that invocation, an enclosing ``LoopAgent`` neither.

Put the plugin first in the list (:func:`attach` does): a plugin that answers before it hides moments from it.

What this host cannot do:

- A tool that raises ends the invocation, unless a plugin answers for it (``ReflectAndRetryToolPlugin`` does): the
  model never sees such an error, and it is not counted. Errors in results are: ``{"error": …}``, unknown tools, missing
  arguments.
- Only compaction in the middle of an invocation (the token threshold) arms the post-compaction guard; a summary that
  is made between two user messages is no retry.
- A long-running tool counts with its first result. The final one comes with a later message and is not noted.
- Counts live in this process: an invocation that is resumed in another one starts counting anew.
- Live (audio and video) sessions pass none of these callbacks.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from ..answers import Blocked
from ..errors import TurnEndingError
from ..events import Status
from ._shared import Calls, Config, Started, append_note, fail_open, log_to, result_text
from ._versions import FAILING, Trial, require, trial_run

LOGGER: Final = "google_adk.loopguard"
HOST: Final = require("google-adk", tried=">=2.10,<2.14", below="3", extra="google-adk")

with HOST.names():
    from google.adk.apps import App
    from google.adk.events import Event
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.runners import Runner
    from google.genai import types

__all__ = ["Adapter", "attach"]


class Batch(NamedTuple):
    """A response whose results are still to come."""

    batch_id: str
    calls: Sequence[types.FunctionCall]
    started: Started


class Run:
    """What follows one user message in one branch. ``events``: how many of the session's events were looked at."""

    __slots__ = ("batch", "ended", "events", "run_id", "session")

    def __init__(self, session: str, run_id: str) -> None:
        self.session = session
        self.run_id = run_id
        self.batch: Batch | None = None
        self.ended: TurnEndingError | None = None
        self.events: int | None = None


class Turn:
    """What follows one user message. A message of function responses goes on with the turn before."""

    __slots__ = ("run_id", "runs")

    def __init__(self) -> None:
        self.run_id = uuid.uuid4().hex
        self.runs: dict[str | None, Run] = {}


class Adapter(BasePlugin):
    """A plugin for ``Runner(…, plugins=[Adapter()])`` or ``App(plugins=…)``. May serve many sessions at once.

    ``config``: path of a JSON5 file, a mapping, ``Settings``, or a ``LoopGuard``. ``agent``: whose settings apply; by
    default each agent's ``name``. Log lines go to ``logging``, as ``LOGGER``.
    Raises SettingsError for settings that cannot be used.
    """

    def __init__(self, config: Config = None, *, agent: str | None = None) -> None:
        super().__init__(name="loopguard")
        log_to(LOGGER)
        HOST.check(functools.partial(trial_run, HOST, _drive))
        self.calls = Calls(config)
        self._agent = agent
        self._most = self.calls.guard.settings.max_runs
        self._lock = threading.Lock()
        self._turns: OrderedDict[str, Turn] = OrderedDict()

    @fail_open()
    async def on_user_message_callback(self, *, invocation_context: Any, user_message: types.Content) -> None:
        """A user wrote; results of long-running tools come as a message too, and go on with the turn."""
        parts = user_message.parts or []
        if any(part.function_response is not None for part in parts):
            return
        session, agent = _key(invocation_context.session), invocation_context.agent
        turn = self._turn(session, fresh=True)
        self.calls.user_message(session, run=turn.run_id, agent=self._agent or getattr(agent, "name", None))

    @fail_open()
    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> LlmResponse | None:
        """The model is about to be asked: not where the turn has ended."""
        run = self._run(callback_context.session, callback_context.branch)
        self._look_for_compaction(run, callback_context)
        if run.ended is None:
            return None
        return LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=run.ended.message)]),
            error_code=str(run.ended.code),
            error_message=run.ended.message,
        )

    @fail_open()
    async def after_model_callback(self, *, callback_context: Any, llm_response: LlmResponse) -> None:
        """The model has answered: admit all its calls, or refuse all of them before any tool runs."""
        parts = llm_response.content.parts if llm_response.content is not None else None
        calls = [part.function_call for part in parts or [] if part.function_call is not None]
        if llm_response.partial or not calls:
            return
        for call in calls:  # ADK would give ids of this form to calls without one, a moment later
            call.id = call.id or f"adk-{uuid.uuid4()}"
        run = self._run(callback_context.session, callback_context.branch)
        listed = [(call.id or "", call.name or "", dict(call.args or {})) for call in calls]
        batch_id = uuid.uuid4().hex
        started = self.calls.starts(
            run.session,
            listed,
            batch_id=batch_id,
            run=run.run_id,
            agent=self._agent or callback_context.agent_name,
        )
        run.batch = Batch(batch_id, calls, started)
        run.ended = started.error

    @fail_open()
    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> dict[str, Any] | None:
        """Keep a call of a refused batch from running."""
        batch = self._run(tool_context.session, tool_context.branch).batch
        for call, answer in zip(batch.calls, batch.started.answers, strict=True) if batch is not None else ():
            if call.id == tool_context.function_call_id and isinstance(answer, Blocked):
                return {"error": answer.reason}
        return None

    @fail_open()
    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> None:
        """The results of a response, before they enter the session: settle them in model order, and note."""
        responses = event.get_function_responses()
        if not responses:
            return
        run = self._run(invocation_context.session, event.branch)
        agent = self._agent or event.author
        batch = run.batch
        for place, call in enumerate(batch.calls) if batch is not None else ():
            response = next((one for one in responses if one.id == call.id), None)
            if response is not None and batch is not None:
                responses.remove(response)  # a provider may use one id for several calls
                error = self._settle(run, agent, batch, place, response)
                run.ended = run.ended or error

    def _settle(
        self, run: Run, agent: str, batch: Batch, place: int, response: types.FunctionResponse
    ) -> TurnEndingError | None:
        """Settle one call; its response gets the note. A second result of a long-running tool changes nothing."""
        call = batch.calls[place]
        status, told = _outcome(call.name or "", response.response or {})
        if isinstance(batch.started.answers[place], Blocked):
            status = Status.BLOCKED
        failed = status in (Status.ERROR, Status.UNKNOWN_TOOL, Status.REJECTED)
        answer, ended = self.calls.settle(
            run.session,
            call.id or "",
            call.name or "",
            batch_id=batch.batch_id,
            run=run.run_id,
            agent=agent,
            index=place,
            result=None if failed else told,
            error=told if failed else None,
            status=status,
            args=dict(call.args or {}),
        )
        if answer.note is not None:
            noted = append_note(dict(response.response or {}), answer.note)
            response.response = noted if isinstance(noted, dict) else response.response
        return ended

    def _look_for_compaction(self, run: Run, context: Any) -> None:
        """A summary that came since this run's last request. ADK puts it into the session past all callbacks."""
        events = context.session.events
        since, run.events = run.events, len(events)
        if since is not None and any(event.actions and event.actions.compaction for event in events[since:]):
            agent = self._agent or context.agent_name
            self.calls.compacted(run.session, run=run.run_id, agent=agent)

    def _run(self, session: Any, branch: str | None) -> Run:
        key = _key(session)
        turn = self._turn(key)
        if branch not in turn.runs:
            turn.runs[branch] = Run(key, f"{turn.run_id}/{branch}" if branch else turn.run_id)
        return turn.runs[branch]

    def _turn(self, key: str, *, fresh: bool = False) -> Turn:
        with self._lock:
            turn = self._turns.pop(key, None)
            if turn is None or fresh:
                turn = Turn()
            self._turns[key] = turn
            if len(self._turns) > self._most:
                self._turns.popitem(last=False)
            return turn


def _key(session: Any) -> str:
    return f"{session.app_name}/{session.user_id}/{session.id}"


def _outcome(tool: str, response: dict[str, Any]) -> tuple[Status | None, object]:
    """How a call ended, and what the model is told; status None leaves it to the result.

    ADK wraps what is no object into ``{"result": …}``, and its own errors into ``{"error": …}``.
    """
    if set(response) == {"error"} and isinstance(response["error"], str) and response["error"]:
        text = response["error"]
        if text.startswith(f"Invoking `{tool}()` failed as no tool with that name is available"):
            return Status.UNKNOWN_TOOL, text
        if text.startswith(f"Invoking `{tool}()` failed as the following mandatory input parameters are not present"):
            return Status.REJECTED, text
        return Status.ERROR, text
    if set(response) == {"result"}:
        result = response["result"]
        return None, result_text(result) if isinstance(result, str) else result
    return None, response


def _drive(trial: Trial) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm
    from google.adk.runners import InMemoryRunner
    from google.adk.tools import FunctionTool

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[LlmResponse]:
            called = trial.answer()
            part = types.Part(text="done")
            if called is not None:
                part = types.Part.from_function_call(name=called, args={})
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    def fail() -> dict[str, str]:
        return {"error": "a trial of loopguard"}

    fail.__name__ = FAILING
    agent = LlmAgent(name="loopguard_trial", model=Scripted(model="trial"), tools=[FunctionTool(fail)])
    runner = InMemoryRunner(agent, app_name="loopguard_trial", plugins=[Adapter(trial.guard)])
    message = types.Content(role="user", parts=[types.Part(text="trial")])

    async def run() -> None:
        await runner.session_service.create_session(app_name="loopguard_trial", user_id="u", session_id="s")
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass

    asyncio.run(run())


def attach(target: Runner | App, config: Config = None, *, agent: str | None = None) -> Adapter:
    """Put an adapter in front of the plugins of a runner, or of an app that is about to get one; returns it."""
    adapter = Adapter(config, agent=agent)
    plugins = target.plugins if isinstance(target, App) else target.plugin_manager.plugins
    if any(plugin.name == adapter.name for plugin in plugins):
        raise ValueError("there is a plugin named loopguard already")
    plugins.insert(0, adapter)
    return adapter
