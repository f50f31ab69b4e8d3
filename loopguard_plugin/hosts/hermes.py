"""hermes-agent 0.19: loopguard as a plugin of the agent and its gateway.

``pip install "loopguard-plugin[hermes]"`` into hermes' environment, then in ``$HERMES_HOME/config.yaml``::

    plugins:
      enabled: [loopguard]
      entries:
        loopguard:
          config: {tools: {ci_status: {kind: poll}}}     # optional, the plugin's own settings
    tools:
      loopDetection: {enabled: true}                     # optional, rolling detectors on
    tool_loop_guardrails: {warnings_enabled: false}      # optional, hermes' own warnings off: they overlap

``hermes plugins list`` shows it. From code, with settings from anywhere::

    >>> from hermes_cli.plugins import get_plugin_manager
    >>> from loopguard_plugin.hosts.hermes import attach
    >>> adapter = attach(get_plugin_manager(), {"tools": {"loopDetection": {"enabled": True}}})
    >>> adapter.calls.guard.stats().events
    0

A session is hermes' session, a run is one turn (``turn_id``): a user message always starts with fresh counts. The agent
that settings may speak of (``agents.entries``) is the profile. The whole response is judged before any tool of it runs;
calls that hermes itself drops (exact duplicates) are left out. The ended turn's last entry is the reason, as if the
model had said it, and the model is not asked.

What this host cannot do:

- Unknown tools and arguments that are no JSON object reach no hook: they are settled right before the next request, so
  their note is never delivered. Three responses with nothing but unknown tools end the turn in hermes itself, with its
  words. While streaming, hermes takes broken JSON for a cut answer, asks anew by itself and gives up after five.
- Exceptions in a hook are swallowed by hermes: the turn is ended at the next model request, not in the middle.
- A result larger than hermes' output budget is cut by hermes, the note with it.
- A delegation in the background answers at once, and its outcome comes back as a message: that a sub-agent's turn was
  ended is a failure of ``delegate_task`` only where hermes waits for it.
- Tools that a script of ``execute_code`` calls are not the model's calls; they are not judged.
- ``codex_app_server`` runs its own loop and has no hooks: nothing is judged there.
- Only a compaction after an overflow error counts; one that hermes makes ahead of time does not.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from ..answers import Deliver
from ..errors import SettingsError
from ..events import MessageKind, Status
from ..transcripts.hermes_results import STEERED, outcome
from ._shared import (
    Calls,
    Config,
    append_note,
    arguments,
    fail_open,
    log_to,
    report_failure,
    result_text,
)
from ._versions import UnsupportedHostError, require, within

__all__ = ["Adapter", "attach", "register"]

# Refused in register() and not here, where hermes would fail to import the module and nobody would be told.
HOST: Final = require("hermes-agent", tried=">=0.19,<0.20", below="1", extra="hermes", refuse_later=True)

LOGGER: Final = "hermes_plugins.loopguard"  # only hermes_plugins* of what is not hermes' own reaches gateway.log
HOOKS: Final = {  # and what is not seen without them
    "pre_llm_call": "user messages",
    "pre_api_request": "unknown tools, arguments that are no JSON object, steering messages",
    "post_api_request": "the calls of a response",
    "api_request_error": "compactions after an overflow",
    "pre_tool_call": "refused calls, which run all the same",
    "post_tool_call": "calls that another policy refused",
    "on_session_end": "that a turn is over",
}
MIDDLEWARE: Final = {
    "tool_execution": "results of tools",
    "llm_execution": "the end of a turn, which hermes ignores",
}
MOST_TURNS: Final = 4096
OVERFLOWS: Final = frozenset({"context_overflow", "payload_too_large", "long_context_tier"})


class Context(Protocol):
    """What a plugin is given: ``hermes_cli.plugins.PluginContext``."""

    def register_hook(self, hook_name: str, callback: Callable[..., object]) -> None: ...
    def register_middleware(self, kind: str, callback: Callable[..., object]) -> None: ...


def register(ctx: Context) -> None:
    """The entry point: hermes calls it when the plugin is enabled.

    Raises SettingsError for a wrong config.yaml, UnsupportedHostError for a hermes in which nothing would be seen. Then
    the plugin is off, whatever ``hermes plugins list`` reads in the configuration, and each session's first answer says
    so.
    """
    try:
        attach(ctx, _host_settings())
    except (SettingsError, UnsupportedHostError) as error:
        ctx.register_hook("transform_llm_output", _Off(str(error)).transform_llm_output)
        raise


class _Off:
    """Tells the user of each session, with its first answer, that nothing is guarded."""

    def __init__(self, why: str) -> None:
        self._why = why
        self._told: OrderedDict[str, None] = OrderedDict()

    @fail_open()
    def transform_llm_output(
        self, *, response_text: str = "", session_id: str = "", platform: str = "", **_: object
    ) -> str | None:
        """hermes is about to give an answer to the user."""
        if platform == "subagent" or session_id in self._told:
            return None
        self._told[session_id] = None
        while len(self._told) > MOST_TURNS:
            self._told.popitem(last=False)
        return f"[loopguard] loopguard is off: {self._why}\n\n{response_text}"


def attach(target: object, config: Config = None) -> Adapter:
    """Put loopguard into hermes. ``target``: a plugin's context, or the plugin manager itself."""
    ctx = cast("Context", target if hasattr(target, "register_hook") else _context(target))
    log_to(LOGGER)
    HOST.check(_look)
    adapter = Adapter(config, agent=_profile(ctx))
    adapter.register(ctx)
    return adapter


def _look() -> list[str]:
    """What the guard will not see in this hermes, by the names that it lacks. Without a model there is no trial run."""
    with HOST.names():
        from hermes_cli.middleware import VALID_MIDDLEWARE
        from hermes_cli.plugins import VALID_HOOKS
    for needed, there in (("post_api_request", VALID_HOOKS), ("tool_execution", VALID_MIDDLEWARE)):
        if needed not in there:
            raise HOST.refusal(f"it has no {needed}, through which calls and their results are seen")
    missing = [what for name, what in HOOKS.items() if name not in VALID_HOOKS]
    missing += [what for name, what in MIDDLEWARE.items() if name not in VALID_MIDDLEWARE]
    try:
        from agent.prompt_builder import STEER_MARKER_OPEN  # noqa: F401  # there or not
    except (ImportError, AttributeError):
        missing.append("steering messages in a result")
    if within(HOST.version, "<0.19"):  # as its tests show, which no name does
        missing.append("unknown tools beside other calls, arguments that are JSON but no object")
    return missing


def _profile(ctx: object) -> str | None:
    """What settings know the agent by: its profile, where that has a name."""
    name = getattr(ctx, "profile_name", None)
    return name if isinstance(name, str) and name != "default" else None


def _context(manager: object) -> object:
    from hermes_cli.plugins import PluginContext, PluginManifest

    return PluginContext(PluginManifest(name="loopguard"), manager)


def _host_settings() -> dict[str, object]:
    """Our parts of config.yaml; whatever else hermes keeps beside them is its own business."""
    from hermes_cli.config import load_config

    found = load_config()
    ours: dict[str, object] = {}
    if (loop := _inner(found, "tools").get("loopDetection")) is not None:
        ours["tools"] = {"loopDetection": loop}
    plugin = _inner(found, "plugins", "entries", "loopguard")
    if entry := {key: plugin[key] for key in ("enabled", "config") if key in plugin}:
        ours["plugins"] = {"entries": {"loopguard": entry}}
    return ours


def _inner(mapping: object, *keys: str) -> Mapping[str, object]:
    for key in keys:
        mapping = mapping.get(key) if isinstance(mapping, Mapping) else None
    return mapping if isinstance(mapping, Mapping) else {}


class _Call:
    """One call of the response that is being worked on."""

    __slots__ = ("bad_arguments", "id", "index", "markers", "reason", "running", "settled", "tool")

    def __init__(self, index: int, call_id: str, tool: str, bad_arguments: bool, reason: str | None) -> None:
        self.index = index
        self.id = call_id
        self.tool = tool
        self.bad_arguments = bad_arguments
        self.reason = reason  # why it is blocked
        self.running = self.settled = False
        self.markers = 0  # steering markers that the tool itself wrote


class _Turn:
    """One execution of hermes' loop. ``session`` stays what it was at first: a compaction may rename hermes' own."""

    __slots__ = ("batch_id", "calls", "chars", "overflown", "run", "session", "steered")

    def __init__(self, session: str, run: str) -> None:
        self.session = session
        self.run = run
        self.batch_id = ""
        self.calls: list[_Call] = []
        self.overflown = False
        self.chars = 0
        self.steered: dict[str, int] = {}  # steering markers seen, by call id


class Adapter:
    """The hooks and middleware, all of them called by keyword and from any thread."""

    def __init__(self, config: Config = None, *, agent: str | None = None) -> None:
        self.calls = Calls(config)
        self._agent = agent
        self._turns: dict[str, _Turn] = {}
        self._lock = threading.RLock()

    def register(self, ctx: Context) -> None:
        """Hook everything up."""
        for name in HOOKS:
            ctx.register_hook(name, getattr(self, name))
        for name in MIDDLEWARE:
            ctx.register_middleware(name, getattr(self, name))

    @fail_open()
    def pre_llm_call(self, *, session_id: str = "", turn_id: str = "", **_: object) -> None:
        """A turn begins, and with it a user message is in the transcript."""
        turn = self._turn(session_id, turn_id)
        self.calls.user_message(turn.session, run=turn.run, agent=self._agent, message_id=turn.run)

    @fail_open()
    def post_api_request(
        self,
        *,
        session_id: str = "",
        turn_id: str = "",
        api_request_id: str = "",
        assistant_message: Any = None,
        **_: object,
    ) -> None:
        """The model answered: the whole batch, in model call order."""
        written = _unique(getattr(assistant_message, "tool_calls", None) or [])
        if not written:
            return
        turn = self._turn(session_id, turn_id)
        self._settle_rest(turn, ())
        decoded = [arguments(call.function.arguments or "{}") for call in written]
        named = [
            (str(call.id or ""), str(call.function.name or ""), args)
            for call, args in zip(written, decoded, strict=True)
        ]
        started = self.calls.starts(turn.session, named, batch_id=api_request_id, run=turn.run, agent=self._agent)
        with self._lock:
            turn.batch_id = api_request_id
            turn.calls = [
                _Call(index, call_id, tool, not isinstance(args, dict), getattr(answer, "reason", None))
                for index, ((call_id, tool, args), answer) in enumerate(zip(named, started.answers, strict=True))
            ]

    @fail_open()
    def pre_tool_call(self, *, turn_id: str = "", tool_call_id: str = "", **_: object) -> dict[str, str] | None:
        """A tool is about to run."""
        with self._lock:
            turn = self._turns.get(turn_id)
            call = _open(turn, tool_call_id)
        if turn is None or call is None or call.reason is None:
            return None
        self._settle(turn, call, status=Status.BLOCKED)
        return {"action": "block", "message": call.reason}

    def tool_execution(
        self, *, next_call: Callable[[], object], turn_id: str = "", tool_call_id: str = "", **_: object
    ) -> object:
        """A tool runs. hermes nests two of these around one parallel call: the outer one counts."""
        turn, call = self._claim(turn_id, tool_call_id)
        if turn is None or call is None:
            return next_call()
        try:
            result = next_call()
        except Exception as error:
            self._raised(turn, call, getattr(error, "original", error))
            raise
        try:
            return self._delivered(turn, call, result)
        except Exception as error:
            report_failure(error, "tool_execution")
            return result

    @fail_open()
    def post_tool_call(
        self, *, turn_id: str = "", tool_call_id: str = "", status: str | None = None, **_: object
    ) -> None:
        """A call was refused by another policy, or given up."""
        said = {"blocked": Status.DENIED, "cancelled": Status.ABORTED}.get(status or "")
        with self._lock:
            turn = self._turns.get(turn_id)
            call = _open(turn, tool_call_id)
        if turn is not None and call is not None and said is not None and not call.running:
            self._settle(turn, call, status=said, error=None if said is Status.ABORTED else "denied")

    @fail_open()
    def api_request_error(self, *, turn_id: str = "", reason: str = "", **_: object) -> None:
        """A request failed; of an overflow only the retry tells whether hermes could compact."""
        turn = self._turns.get(turn_id)
        if turn is not None and reason in OVERFLOWS:
            turn.overflown = True

    @fail_open()
    def pre_api_request(
        self, *, turn_id: str = "", conversation_history: Any = (), request_char_count: int = 0, **_: object
    ) -> None:
        """The model is about to be asked: all results of the batch before are in the history."""
        turn = self._turns.get(turn_id)
        if turn is None:
            return
        answers = _answers(conversation_history)
        self._settle_rest(turn, answers)
        if self._steered(turn, answers):
            self.calls.user_message(turn.session, run=turn.run, agent=self._agent, kind=MessageKind.STEERING)
        if turn.overflown:  # the same reason is given for an output limit, which hermes lowers without compacting
            if request_char_count < turn.chars:
                self.calls.compacted(turn.session, run=turn.run, agent=self._agent)
            turn.overflown = False
        turn.chars = request_char_count

    def llm_execution(
        self, *, next_call: Callable[[], object], turn_id: str = "", api_mode: str = "", model: str = "", **_: object
    ) -> object:
        """The model is asked, unless the turn has ended: then the reason takes the place of its answer."""
        response = self._last_word(turn_id, api_mode, model)
        return next_call() if response is None else response

    @fail_open()
    def _last_word(self, turn_id: str, api_mode: str, model: str) -> SimpleNamespace | None:
        turn = self._turns.get(turn_id)
        ended = self.calls.ended(turn.session, turn.run) if turn is not None else None
        return None if ended is None else _said(ended.message, api_mode, model)

    @fail_open()
    def on_session_end(self, *, turn_id: str = "", **_: object) -> None:
        """The turn is over."""
        turn = self._turns.pop(turn_id, None)
        if turn is not None:
            self.calls.end_run(turn.session, turn.run)

    def _turn(self, session_id: str, turn_id: str) -> _Turn:
        with self._lock:
            turn = self._turns.get(turn_id)
            if turn is None:
                while len(self._turns) >= MOST_TURNS:
                    del self._turns[next(iter(self._turns))]
                turn = self._turns[turn_id] = _Turn(session_id or "hermes", turn_id)
            return turn

    def _claim(self, turn_id: str, call_id: str) -> tuple[_Turn | None, _Call | None]:
        """A call that starts to run here; none if it is not the model's, or runs already."""
        with self._lock:
            turn = self._turns.get(turn_id)
            call = _open(turn, call_id)
            if call is None or call.running:
                return None, None
            call.running = True
            return turn, call

    @fail_open()
    def _raised(self, turn: _Turn, call: _Call, error: object) -> None:
        self._settle(turn, call, error=error)

    def _delivered(self, turn: _Turn, call: _Call, result: object) -> object:
        status, compared = outcome(call.tool, result)
        deliver = self._settle(turn, call, result=compared, status=status)
        if deliver is not None and deliver.note is not None:
            result = _noted(result, deliver.note)
        if isinstance(result, str):
            call.markers = result.count(_marker())
        return result

    def _settle(
        self, turn: _Turn, call: _Call, *, result: object = None, error: object = None, status: Status | None = None
    ) -> Deliver | None:
        with self._lock:
            if call.settled:
                return None
            call.settled = True
        return self.calls.settle(
            turn.session,
            call.id,
            call.tool,
            batch_id=turn.batch_id,
            run=turn.run,
            agent=self._agent,
            index=call.index,
            result=result,
            error=error,
            status=status,
        ).answer

    def _settle_rest(self, turn: _Turn, answers: tuple[tuple[str, str], ...]) -> None:
        """Settle what reached no hook, from the messages that hermes wrote in its place."""
        texts = dict(answers)
        for call in turn.calls:
            if not call.settled:
                status, error, result = _fate(call, texts.get(call.id, "").split(_marker())[0].rstrip())
                self._settle(turn, call, status=status, error=error, result=result)

    def _steered(self, turn: _Turn, answers: tuple[tuple[str, str], ...]) -> bool:
        """Whether the user wrote something into a tool result since the last request."""
        own = {call.id: call.markers for call in turn.calls}
        seen = {call_id: text.count(_marker()) - own.get(call_id, 0) for call_id, text in answers}
        new = any(count > turn.steered.get(call_id, 0) for call_id, count in seen.items())
        turn.steered = seen
        return new


def _unique(calls: list[Any]) -> list[Any]:
    """Without the exact duplicates that hermes drops after the hook."""
    seen = {(call.function.name, call.function.arguments): call for call in reversed(calls)}
    return [call for call in calls if seen[call.function.name, call.function.arguments] is call]


def _open(turn: _Turn | None, call_id: str) -> _Call | None:
    """The call of that id that has not settled; some providers give all calls the same one."""
    if turn is None or not call_id:
        return None
    return next((call for call in turn.calls if call.id == call_id and not call.settled), None)


def _answers(history: Any) -> tuple[tuple[str, str], ...]:
    """Call id and text of the tool messages after the last answer of the model."""
    found: list[tuple[str, str]] = []
    for message in reversed(history or ()):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "assistant":
            break
        if role == "tool" and isinstance(content := message.get("content"), str):
            found.append((str(message.get("tool_call_id") or ""), content))
    return tuple(reversed(found))


def _fate(call: _Call, text: str) -> tuple[Status | None, object, object]:
    """What became of a call that reached no hook: its status, and the error or the result that is compared."""
    if call.reason is not None:
        return Status.BLOCKED, None, None
    if call.bad_arguments:
        return Status.REJECTED, "the arguments are not a JSON object", None
    if text.startswith((f"Tool '{call.tool}' does not exist", "Tool call rejected: the tool name was empty")):
        return Status.UNKNOWN_TOOL, text.split(". ")[0], None  # the rest lists every tool that there is
    if not text or text.startswith(("Skipped: ", "[Tool execution cancelled", "[Tool execution skipped")):
        return Status.SKIPPED, None, None
    status, compared = outcome(call.tool, text)
    return status, None, compared


def _noted(result: object, note: str) -> object:
    """The result with the note. One that is the text of a JSON object stays one: hermes tells errors by that."""
    decoded = result_text(result) if isinstance(result, str) else None
    if isinstance(decoded, dict):
        return json.dumps(append_note(decoded, note), ensure_ascii=False)
    return append_note(result, note)


def _marker() -> str:
    try:
        from agent.prompt_builder import STEER_MARKER_OPEN
    except (ImportError, AttributeError):
        return STEERED.strip()
    return str(STEER_MARKER_OPEN)


def _said(text: str, api_mode: str, model: str) -> SimpleNamespace:
    """A response of the model that says ``text``, in the shape of the provider's API."""
    shared = {"id": "loopguard", "model": model, "usage": None}
    if api_mode == "anthropic_messages":
        block = SimpleNamespace(type="text", text=text)
        return SimpleNamespace(**shared, role="assistant", content=[block], stop_reason="end_turn")
    if api_mode == "codex_responses":
        part = SimpleNamespace(type="output_text", text=text, annotations=[])
        item = SimpleNamespace(
            type="message", role="assistant", status="completed", content=[part], id=None, phase=None
        )
        return SimpleNamespace(**shared, status="completed", output=[item], output_text=text, incomplete_details=None)
    message = SimpleNamespace(role="assistant", content=text, tool_calls=None, reasoning=None, reasoning_content=None)
    return SimpleNamespace(**shared, choices=[SimpleNamespace(index=0, message=message, finish_reason="stop")])
