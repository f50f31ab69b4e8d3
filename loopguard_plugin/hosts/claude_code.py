"""Claude Code 2.1: loopguard as command hooks, and as callbacks for claude-agent-sdk 0.2.

**Claude Code itself.** ``pip install loopguard-plugin``, then ``loopguard install claude-code`` writes the hooks into
``~/.claude/settings.json`` (``--print`` shows them, ``--undo`` takes them out). ``/hooks`` in Claude Code lists them.

**claude-agent-sdk.** ``pip install "loopguard-plugin[claude-code]"``, then::

    >>> from claude_agent_sdk import ClaudeAgentOptions
    >>> from loopguard_plugin.hosts.claude_code import attach
    >>> options = ClaudeAgentOptions()
    >>> adapter = attach(options, {"tools": {"loopDetection": {"enabled": True}}})
    >>> sorted(options.hooks)
    ['PostCompact', 'PostToolBatch', 'PostToolUseFailure', 'PreToolUse', 'SessionEnd', 'UserPromptSubmit']

A session is Claude Code's session, a run is what it does for one prompt, and a sub-agent is a run of its own with its
type as the agent id. The siblings of a call are read off the transcript, so that a whole response is judged before any
tool of it runs; all results settle in model order when the response's last tool is done. A failed command counts as an
error of the exec kind, so that times and process ids in its output do not matter. The ``description`` that the model
gives a command is left out of comparisons.

The state between the hook's processes is one small file a session (digests and counts, no arguments or results) in
``$XDG_STATE_HOME/loopguard/claude-code`` or ``$LOOPGUARD_STATE_DIR``; it goes with the session, or after a week.

What this host cannot do:

- Where the transcript is behind (a call that starts while the response is still being written), calls are judged one by
  one: those that were allowed before the first refusal run on, and parallel ones count in the order of starting.
- The note comes beside the results of its response, naming the call; Claude Code lets no hook write into a result of
  another shape. Unknown tools and invalid arguments are known only then, too.
- The end of a turn is shown as the hook's message. ``claude -p`` with text output shows nothing of it and exits 0;
  ``--output-format stream-json`` has it as a system message, and ``terminal_reason`` is ``hook_stopped``
  (docs/hosts/claude-code.md).
- An agent that delegated to one whose turn was ended reads why beside the result. That is a failure of its call where
  it waited; a background agent's call has long settled when the notification brings the reason.
- Denials by permission rules reach no hook: they are told by the transcript's mark of an error, else by their wording.
- Lines of the log go to Claude Code's debug log (``claude --debug``).
"""

from __future__ import annotations

import asyncio
import mmap
import time
from pathlib import Path
from typing import Any, Final

from ._claude import EVENTS, Book, Output, respond
from ._claude_transcript import PATIENCE, PAUSE, look
from ._shared import Calls, Config, fail_open
from ._versions import require

__all__ = ["Adapter", "attach"]

HOST: Final = require("claude-agent-sdk", tried=">=0.2.100,<0.3", below="1", extra="claude-code")

with HOST.names():
    import claude_agent_sdk
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher

MOST_SESSIONS: Final = 4096
SEEN_BY: Final = {
    "PreToolUse": "the calls of a response",
    "PostToolUseFailure": "failures of tools",
    "PostToolBatch": "results of tools",
    "UserPromptSubmit": "user messages",
    "PostCompact": "compactions",
    "SessionEnd": "that a session is over",
}


def attach(target: ClaudeAgentOptions, config: Config | Adapter = None) -> Adapter:
    """Put loopguard's hooks beside those that the options have. Raises SettingsError for settings that cannot be used.

    One adapter may serve any number of options and sessions.
    """
    adapter = config if isinstance(config, Adapter) else Adapter(config)
    hooks: dict[Any, list[HookMatcher]] = dict(target.hooks or {})
    for event, matchers in adapter.hooks.items():
        hooks[event] = [*hooks.get(event, ()), *matchers]
    target.hooks = hooks
    return adapter


class Adapter:
    """The callbacks, all one: what happened stands in their input."""

    def __init__(self, config: Config = None) -> None:
        HOST.check(_look)
        self.calls = Calls(config)
        self._books: dict[str, dict[str, Book]] = {}

    @property
    def hooks(self) -> dict[str, list[HookMatcher]]:
        """For ``ClaudeAgentOptions(hooks=…)``."""
        return {event: [HookMatcher(hooks=[self.callback])] for event in EVENTS}

    async def callback(self, payload: Any, tool_use_id: str | None, context: Any) -> Output:
        """One hook event."""
        return await self._respond(payload) or {}

    @fail_open()
    async def _respond(self, payload: Any) -> Output | None:
        session = str(payload.get("session_id") or "claude-code")
        if payload.get("hook_event_name") == "SessionEnd":
            self._books.pop(session, None)
            return None
        books = self._books.pop(session, {})
        while len(self._books) >= MOST_SESSIONS:
            del self._books[next(iter(self._books))]
        self._books[session] = books
        seen, end = look(payload, session), time.monotonic() + PATIENCE
        while not seen.complete and time.monotonic() < end:
            await asyncio.sleep(PAUSE)
            seen = look(payload, session)
        return respond(payload, self.calls.feed, books, seen.asked, seen.failed)


def _look() -> list[str]:
    """What the guard will not see, by the names of events in the Claude Code that this SDK brings."""
    program = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [what for event, what in SEEN_BY.items() if content.find(event.encode()) < 0]
