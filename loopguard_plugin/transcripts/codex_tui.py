"""The session log of Codex's terminal program: ``{ts, dir, kind: "codex_event", payload: {id, msg}}`` a line."""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .codex_items import Working, mcp_name
from .items import Items, Placed, Unreadable
from .jsonl import objects
from .shell import finished
from .source import Source
from .talk import Talks
from .values import Object, as_object, text_of


def fits(value: object) -> bool:
    """Whether this is a line of the session log."""
    return {"kind", "dir", "ts"} <= as_object(value).keys()


def read(source: Source, talks: Talks) -> Items:
    """The events of one log. Every task that starts is a run: the prompts themselves are told in several ways."""
    working: Working | None = None
    for entry in objects(source):
        if isinstance(entry, Unreadable):
            yield entry
            continue
        line, fields = entry
        message = as_object(as_object(fields.get("payload")).get("msg"))
        if fields.get("kind") != "codex_event" or not message:
            continue
        if working is None:
            working = Working(talks.open(text_of(message, "session_id") or source.stem))
        yield from (Placed(event, line) for event in _told(working, message))
    if working is not None:
        yield from (Placed(event, 0) for event in working.flush())


def _told(working: Working, message: Object) -> Iterator[Event]:
    call_id = text_of(message, "call_id")
    match message.get("type"):
        case "task_started" | "turn_started":
            yield from working.user()
        case "turn_aborted":
            yield from working.stopped()
        case "context_compacted":
            yield from working.compacted()
        case "exec_command_begin":
            args = {name: message[name] for name in ("command", "cwd") if message.get(name) is not None}
            yield from working.begin(BatchCall(call_id, "shell", args))
        case "patch_apply_begin":
            yield from working.begin(BatchCall(call_id, "apply_patch", {"changes": message.get("changes")}))
        case "mcp_tool_call_begin":
            invocation = as_object(message.get("invocation"))
            yield from working.begin(BatchCall(call_id, mcp_name(invocation), invocation.get("arguments")))
        case "exec_command_end":
            yield from working.end(call_id, *_command(message))
        case "patch_apply_end":
            failed = message.get("success") is False
            output = {name: message.get(name) for name in ("stdout", "stderr")}
            yield from working.end(call_id, Status.ERROR if failed else Status.OK, output)
        case "mcp_tool_call_end":
            result = as_object(message.get("result"))
            status = Status.ERROR if "Err" in result else Status.OK
            yield from working.end(call_id, status, result.get("Err", result.get("Ok", message.get("result"))))


def _command(message: Object) -> tuple[Status, object]:
    code = message.get("exit_code")
    code = code if isinstance(code, int) else None
    output = text_of(message, "aggregated_output")
    if not output:
        output = "\n".join(part for name in ("stdout", "stderr") if (part := text_of(message, name)))
    return (Status.OK if code in (0, None) else Status.ERROR), finished(code, output)
