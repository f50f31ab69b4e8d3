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
    amp,
    anthropic,
    atif,
    browser_use,
    claude_code,
    claude_stream,
    cline,
    codex,
    codex_items,
    codex_tui,
    contents,
    continue_dev,
    copilot_cli,
    copilot_vscode,
    cursor,
    droid,
    events_format,
    gemini,
    goose,
    hermes,
    inspect_log,
    kimi,
    langchain,
    magentic_one,
    openai_chat,
    openclaw,
    opencode,
    openhands,
    otel,
    pydantic_ai,
    responses,
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
    "droid": Format(droid.read, droid.fits, "a Factory Droid session", 'messages with "tool_use" blocks'),
    "openclaw": Format(openclaw.read, openclaw.fits, "an OpenClaw or pi session", 'the "type" session or message'),
    "pi": Format(openclaw.read, _never, "a pi session", 'the "type" session or message'),
    "codex": Format(codex.read, codex.fits, "a Codex rollout", 'lines with "type" and "payload"'),
    "codex-exec": Format(codex_items.read_exec, codex_items.fits_exec, "`codex exec --json`", "thread and item events"),
    "codex-app-server": Format(codex_items.read_app_server, codex_items.fits_app_server, *_APP_SERVER),
    "codex-tui": Format(codex_tui.read, codex_tui.fits, "a Codex TUI log", 'lines with "ts", "dir" and "kind"'),
    "qwen": Format(contents.read_qwen, contents.fits_qwen, "a Qwen Code session", '"uuid" and a message with "parts"'),
    "claude-code": Format(claude_code.read, claude_code.fits, "a Claude Code transcript", '"parentUuid", "sessionId"'),
    "claude-stream": Format(claude_stream.read, claude_stream.fits, "a Claude Agent SDK stream", "its types of lines"),
    "gemini": Format(gemini.read, gemini.fits, "a Gemini CLI session", '"sessionId" with messages'),
    "copilot-vscode": Format(copilot_vscode.read, copilot_vscode.fits, "a VS Code Copilot chat", 'its "requests"'),
    "copilot-cli": Format(copilot_cli.read, copilot_cli.fits, "a Copilot CLI session", '"type" and "data"'),
    "cursor": Format(cursor.read, cursor.fits, "a Cursor transcript", '"role" beside a "message"'),
    "cursor-db": Format(cursor.read_database, cursor.fits_database, "a Cursor database", 'its table "cursorDiskKV"'),
    "opencode": Format(opencode.read, opencode.fits, "an opencode session", '"info" and "parts", or "sessionID"'),
    "opencode-db": Format(opencode.read_database, opencode.fits_database, "an opencode database", 'its table "part"'),
    "amp": Format(amp.read, amp.fits, "an Amp thread", '"toolUseID"'),
    "goose": Format(goose.read, goose.fits, "a Goose session", 'blocks "toolRequest", "toolResponse"'),
    "goose-db": Format(goose.read_database, goose.fits_database, "a Goose database", 'its column "content_json"'),
    "kimi": Format(kimi.read, kimi.fits, "a Kimi CLI session", "the messages of its wire"),
    "continue": Format(continue_dev.read, continue_dev.fits, "a Continue session", 'its "history"'),
    "openhands": Format(openhands.read, openhands.fits, "an OpenHands session", 'events with a "source"'),
    "inspect": Format(inspect_log.read, inspect_log.fits, "an Inspect log", '"eval" and its samples'),
    "browser-use": Format(browser_use.read, browser_use.fits, "a browser-use history", '"model_output" and "result"'),
    "otel": Format(otel.read, otel.fits, "OpenTelemetry spans or a Langfuse export", "spans or observations"),
    "pydantic-ai": Format(pydantic_ai.read, pydantic_ai.fits, "Pydantic AI messages", '"kind" and "part_kind"'),
    "langchain": Format(langchain.read, langchain.fits, "LangChain messages", 'the "type" of messages'),
    "atif": Format(atif.read, atif.fits, "an ATIF trajectory", 'an ATIF "schema_version", or "steps" and "agent"'),
    "swe-agent": Format(swe_agent.read, swe_agent.fits, "an SWE-agent trajectory", 'a list "trajectory"'),
    "magentic-one": Format(magentic_one.read, magentic_one.fits, "a Magentic-One log", "the role of its orchestrator"),
    "hermes": Format(hermes.read, hermes.fits, "a Hermes database", 'its table "messages"'),
    "cline": Format(cline.read, cline.fits, "a Cline or Roo task", '"[tool] Result:" in messages'),
    "anthropic": Format(anthropic.read, anthropic.fits, "Anthropic messages", '"tool_use" or "tool_result" blocks'),
    "openai-responses": Format(responses.read, responses.fits, "OpenAI Responses items", "function_call and its kind"),
    "gemini-contents": Format(contents.read, contents.fits, "Gemini API contents", 'functions in "parts"'),
    "openai-chat": Format(openai_chat.read, openai_chat.fits, "OpenAI chat messages", '"role" and "content"'),
}
