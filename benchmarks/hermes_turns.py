"""Turns of the real hermes-agent with a scripted model, for :mod:`benchmarks.host_overhead`.

The model answers in the place of hermes' request to a provider: no connection and no thread, so that what is timed
is hermes' own work around a call. Its home is a temporary directory, removed at exit.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from loopguard_plugin.settings import Settings

from .measure import Timed

_CONFIG = {
    "model": {"context_length": 128_000},
    "plugins": {"entries": {"bench": {"allow_tool_override": True}}},  # the tool is registered anew for every round
    "tool_loop_guardrails": {"warnings_enabled": False},
}
Setup = Callable[[Any], None]
"""Puts plugins into hermes' plugin manager, which has none."""


def home() -> None:
    """A home of hermes for this process: it is read when hermes is imported."""
    path = tempfile.mkdtemp(prefix="hermes-bench-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    with open(os.path.join(path, "config.yaml"), "w") as file:
        json.dump(_CONFIG, file)
    os.environ["HERMES_HOME"] = path


def nothing(manager: Any) -> None:
    """No plugin at all."""


def empty(manager: Any) -> None:
    """The hooks and the middleware that loopguard has, doing nothing."""
    from loopguard_plugin.hosts.hermes import HOOKS, MIDDLEWARE

    context = _context(manager)
    for name in HOOKS:
        context.register_hook(name, lambda **_: None)
    for name in MIDDLEWARE:
        context.register_middleware(name, lambda *, next_call, **_: next_call())


def guarded(settings: Settings) -> Setup:
    """loopguard with these settings."""

    def setup(manager: Any) -> None:
        from loopguard_plugin.hosts.hermes import attach

        attach(manager, settings)

    return setup


def prepared(setup: Setup, *, calls: int, runs: int) -> Callable[[], Timed]:
    """Prepares ``runs`` conversations of ``calls`` tool calls each, every one with an agent and session of its own."""

    def prepare() -> Timed:
        from hermes_cli.plugins import get_plugin_manager

        manager = get_plugin_manager()
        manager._hooks.clear()
        manager._middleware.clear()
        manager._discovered = True
        _context(manager).register_tool("look", "bench", _SCHEMA, _look, override=True)
        setup(manager)
        agents = [_agent(f"s{run}", calls) for run in range(runs)]

        def timed() -> None:
            for agent in agents:
                said = agent.run_conversation("go")
                assert said["final_response"] == "done"
                assert sum(message["role"] == "tool" for message in said["messages"]) == calls

        return timed

    return prepare


_SCHEMA = {
    "name": "look",
    "description": "Look.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


def _look(args: dict[str, Any], **_: Any) -> str:
    return f"{args['path']} is empty"


def _context(manager: Any) -> Any:
    from hermes_cli.plugins import PluginContext, PluginManifest

    return PluginContext(PluginManifest(name="bench"), manager)


def _agent(session: str, calls: int) -> Any:
    from run_agent import AIAgent

    logging.disable(logging.INFO)  # hermes' own lines; a warning would still be seen
    agent = AIAgent(
        base_url="http://127.0.0.1:1/v1",
        api_key="none",
        provider="custom",
        model="scripted",
        enabled_toolsets=["bench"],
        quiet_mode=True,
        skip_context_files=True,
        skip_memory=True,
        session_id=session,
        tool_delay=0,
    )
    said = iter([*(_reply(f"c{number}") for number in range(calls)), _reply(None)])

    def answer(*_: Any, **__: Any) -> SimpleNamespace:
        return next(said)

    agent._interruptible_api_call = agent._interruptible_streaming_api_call = answer
    return agent


def _reply(path: str | None) -> SimpleNamespace:
    """A call of ``look``, or the end of the turn."""
    asked = None
    if path is not None:
        function = SimpleNamespace(name="look", arguments=json.dumps({"path": path}))
        asked = [SimpleNamespace(id=path, type="function", function=function, extra_content=None)]
    message = SimpleNamespace(
        role="assistant",
        content="done" if path is None else None,
        tool_calls=asked,
        reasoning=None,
        reasoning_content=None,
    )
    choice = SimpleNamespace(index=0, message=message, finish_reason="stop" if path is None else "tool_calls")
    return SimpleNamespace(id="answer", model="scripted", usage=None, choices=[choice])
