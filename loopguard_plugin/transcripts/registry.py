"""Every format that is read: its reader, what tells it, and the words for both. A new format is one line here.

A reader takes an open :class:`.source.Source` and the :class:`.talk.Talks` of the replay and yields :class:`.Placed`
events and :class:`.Unreadable` lines, in order; it never raises for what stands in a file. ``fits`` is asked about
values from the head of a file: the objects of its first lines, or the whole of a document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from . import (
    atif,
    claude_code,
    claude_stream,
    codex,
    codex_items,
    codex_tui,
    events_format,
    gemini,
    hermes,
    magentic_one,
    openai_chat,
    openclaw,
    swe_agent,
)
from .items import Items
from .source import Source
from .talk import Talks

Reader: TypeAlias = Callable[[Source, Talks], Items]


class Format(Struct, frozen=True):
    """One format. ``called``: what a user calls it; ``sign``: what it is told by, as words for a message."""

    read: Reader
    fits: Callable[[object], bool]
    called: str
    sign: str


_APP_SERVER = ("Codex app-server notifications", 'methods as "item/started"')


def _never(value: object) -> bool:
    return False


# In this order they are asked: what has a sign of its own comes before what is told by fields that many have.
FORMATS: Final[Mapping[str, Format]] = {
    "events": Format(events_format.read, events_format.fits, "loopguard events", 'the "type" of an event'),
    "openclaw": Format(openclaw.read, openclaw.fits, "an OpenClaw or pi session", 'the "type" session or message'),
    "pi": Format(openclaw.read, _never, "a pi session", 'the "type" session or message'),
    "codex": Format(codex.read, codex.fits, "a Codex rollout", 'lines with "type" and "payload"'),
    "codex-exec": Format(codex_items.read_exec, codex_items.fits_exec, "`codex exec --json`", "thread and item events"),
    "codex-app-server": Format(codex_items.read_app_server, codex_items.fits_app_server, *_APP_SERVER),
    "codex-tui": Format(codex_tui.read, codex_tui.fits, "a Codex TUI log", 'lines with "ts", "dir" and "kind"'),
    "claude-code": Format(claude_code.read, claude_code.fits, "a Claude Code transcript", '"parentUuid", "sessionId"'),
    "claude-stream": Format(claude_stream.read, claude_stream.fits, "a Claude Agent SDK stream", "its types of lines"),
    "atif": Format(atif.read, atif.fits, "an ATIF trajectory", 'an ATIF "schema_version", or "steps" and "agent"'),
    "swe-agent": Format(swe_agent.read, swe_agent.fits, "an SWE-agent trajectory", 'a list "trajectory"'),
    "gemini": Format(gemini.read, gemini.fits, "a Gemini CLI session", '"sessionId" with messages'),
    "magentic-one": Format(magentic_one.read, magentic_one.fits, "a Magentic-One log", "the role of its orchestrator"),
    "hermes": Format(hermes.read, hermes.fits, "a Hermes database", 'its table "messages"'),
    "openai-chat": Format(openai_chat.read, openai_chat.fits, "OpenAI chat messages", '"role" and "content"'),
}
