"""Which format a transcript has, by looking at its content."""

from __future__ import annotations

from .hermes import MAGIC
from .source import Source
from .values import Object, as_list, as_object, json_values, text_of

_EVENTS = ("tool_call_started", "tool_call_settled", "compaction_retry", "user_message_committed")
_CODEX = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_CLAUDE_ONLY = ("file-history-snapshot", "queue-operation", "progress", "pr-link")
_CODEX_EXEC = ("thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.completed")
_CODEX_SERVER = ("item/", "turn/", "thread/", "codex/event/")
_STREAM = ("system", "assistant", "user", "result", "stream_event")


def detect(source: Source) -> str | None:
    """The name of the format, or None if nothing known is in sight. Takes nothing off the source.

    Looks at up to fifty lines, so that a broken or foreign first line does not hide what the rest is.
    """
    head = source.head()
    if not head:
        return "events"  # nothing to read, nothing wrong
    if head[0].startswith(MAGIC):
        return "hermes"
    if not source.by_lines():
        return tell(source.document()[0])
    for line in head:
        for value in json_values(line)[0]:
            if name := tell(value):
                return name
    return None


def tell(value: object) -> str | None:
    """The format that this value (a line, or a whole document) belongs to."""
    if isinstance(value, list):
        first = as_object(value[0]) if value else {}
        if first.get("role") == "human" or text_of(first, "role").startswith("Orchestrator ("):
            return "magentic-one"
        return "openai-chat" if _chat(first) or _chat_holder(first) else None
    return _tell_object(value) if isinstance(value, dict) else None


def _tell_object(fields: Object) -> str | None:
    tag = fields.get("type")
    if tag in _EVENTS:
        return "events"
    if tag == "session" or (tag == "message" and "role" in as_object(fields.get("message"))):
        return "openclaw"
    if tag in _CODEX and "payload" in fields:
        return "codex"
    if tag in _CODEX_EXEC and ("item" in fields or "thread_id" in fields or len(fields) <= 2):
        return "codex-exec"
    if text_of(fields, "method").startswith(_CODEX_SERVER) and "params" in fields:
        return "codex-app-server"
    if "kind" in fields and "dir" in fields and "ts" in fields:
        return "codex-tui"
    if tag in _CLAUDE_ONLY or (tag == "summary" and "leafUuid" in fields) or "parentUuid" in fields:
        return "claude-code"
    if tag in _STREAM and ("message" in fields or "session_id" in fields):
        return "claude-code" if "sessionId" in fields else "claude-stream"
    if "__header__" in fields or "schema_version" in fields or ("steps" in fields and "agent" in fields):
        return "atif"
    if isinstance(fields.get("trajectory"), list):
        return "swe-agent"
    if isinstance(fields.get("messages"), list) and "sessionId" in fields:
        return "gemini"
    return "openai-chat" if _chat(fields) or _chat_holder(fields) else None


def _chat(fields: Object) -> bool:
    return isinstance(fields.get("role"), str) and ("content" in fields or "tool_calls" in fields)


def _chat_holder(fields: Object) -> bool:
    return any(_chat(as_object(next(iter(as_list(fields.get(key))), None))) for key in ("messages", "traj"))
