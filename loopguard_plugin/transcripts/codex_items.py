"""What Codex tells while it works: ``codex exec --json``, and the notifications of its app-server (JSON-RPC).

Both speak of items that start and complete, with the same fields in two spellings (``aggregated_output``,
``aggregatedOutput``). Calls that start with no completion between them are one batch. The prompt of ``exec --json`` is
not in the stream: every ``turn.started`` opens a run. The app-server repeats itself as ``codex/event/*``, which is left
out; it may carry several threads, each a conversation of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items, Placed, Unreadable
from .jsonl import objects
from .shell import finished
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_object, text_of

_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")


_EXEC = ("thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.completed")
_SERVER = ("item/", "turn/", "thread/", "codex/event/")


def fits_exec(value: object) -> bool:
    """Whether this is a line of ``codex exec --json``."""
    fields = as_object(value)
    return fields.get("type") in _EXEC and ("item" in fields or "thread_id" in fields or len(fields) <= 2)


def fits_app_server(value: object) -> bool:
    """Whether this is a notification of the app-server."""
    fields = _notification(as_object(value))
    return text_of(fields, "method").startswith(_SERVER) and "params" in fields


def _notification(fields: Object) -> Object:
    """The notification of a line: the line itself, or what stands in the envelope that a client wrote it in."""
    if "method" in fields:
        return fields
    found = (as_object(fields.get(name)) for name in ("message", "notification", "payload", "data", "event", "msg"))
    return next((one for one in found if "method" in one), fields)


def read_exec(source: Source, talks: Talks) -> Items:
    """The stream of ``codex exec --json``."""
    working: Working | None = None
    for entry in objects(source):
        if isinstance(entry, Unreadable):
            yield entry
            continue
        line, fields = entry
        if working is None:
            working = Working(talks.open(text_of(fields, "thread_id") or source.stem))
        match fields.get("type"):
            case "turn.started":
                events = working.user()
            case "turn.failed":
                events = working.stopped()
            case "item.started" | "item.completed" as what:
                events = working.item(as_object(fields.get("item")), done=what == "item.completed")
            case _:
                continue
        for event in events:
            yield Placed(event, line)
    yield from _rest(working)


def read_app_server(source: Source, talks: Talks) -> Items:
    """A log of app-server notifications, one JSON-RPC message a line, also in an envelope and behind comment lines."""
    threads: dict[str, Working] = {}
    users: set[str] = set()
    for entry in objects(source):
        if isinstance(entry, Unreadable):
            yield entry
            continue
        line, fields = entry
        fields = _notification(fields)
        params = as_object(fields.get("params"))
        method = text_of(fields, "method")
        if not method.startswith(("item/", "turn/", "thread/")) or not params:
            continue
        name = text_of(params, "threadId") or text_of(as_object(params.get("thread")), "id") or source.stem
        if name not in threads:
            threads[name] = Working(talks.open(name))
        for event in _notified(threads[name], method, params, users):
            yield Placed(event, line)
    for working in threads.values():
        yield from _rest(working)


def _notified(working: Working, method: str, params: Object, users: set[str]) -> Iterator[Event]:
    item = snake(as_object(params.get("item")))
    match method:
        case "item/started" | "item/completed" if item.get("type") == "user_message":
            name = text_of(item, "id")
            if method == "item/completed" and name in users:
                users.discard(name)
                return
            if method == "item/started":
                users.add(name)
            yield from working.user()
        case "item/completed" if item.get("type") == "context_compaction":
            yield from working.compacted()
        case "item/started" | "item/completed":
            yield from working.item(item, done=method == "item/completed")
        case "turn/completed" if as_object(params.get("turn")).get("status") in ("interrupted", "failed"):
            yield from working.stopped()


class Working:
    """A conversation in which calls start and complete, each told as it happens."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._starting: list[BatchCall] = []
        self._known: set[str] = set()

    def item(self, item: Object, *, done: bool) -> Iterator[Event]:
        """An item started or completed; items that are no calls give nothing."""
        call = call_of(item)
        if call is None:
            return
        yield from self.begin(call)
        if done:
            status, result = outcome_of(item)
            yield from self.end(call.call_id, status, result)

    def begin(self, call: BatchCall) -> Iterator[Event]:
        """A call starts, unless it is known; some are told only once they are done."""
        if call.call_id not in self._known:
            self._known.add(call.call_id)
            self._starting.append(call)
        yield from ()

    def end(self, call_id: str, status: Status, result: object) -> Iterator[Event]:
        """A call is done. With the first one of a batch, the batch is known to be complete."""
        yield from self.flush()
        self._known.discard(call_id)
        yield self.talk.settled(call_id, result=result, status=status)

    def flush(self) -> Iterator[Event]:
        """The calls that have started since the last completion are one batch."""
        calls, self._starting = self._starting, []
        if calls:
            yield from self.talk.asked(calls)

    def user(self) -> Iterator[Event]:
        """A user message: the next turn."""
        yield from self.flush()
        yield self.talk.said()

    def stopped(self) -> Iterator[Event]:
        """The turn was cut short: what still ran was aborted."""
        yield from self.flush()
        self._known.clear()
        yield from self.talk.cut()

    def compacted(self) -> Iterator[Event]:
        """The context was compacted."""
        yield from self.flush()
        yield self.talk.compacted()


def _rest(working: Working | None) -> Items:
    if working is not None:
        yield from (Placed(event, 0) for event in working.flush())


def snake(item: Object) -> Object:
    """An item of the app-server in the spelling of ``exec --json``, one level deep."""
    renamed = {_CAPITAL.sub(lambda found: f"_{found.group().lower()}", key): value for key, value in item.items()}
    renamed["type"] = _CAPITAL.sub(lambda found: f"_{found.group().lower()}", text_of(item, "type"))
    return renamed


def call_of(item: Object) -> BatchCall | None:
    """The call that an item stands for; None for messages, reasoning and plans."""
    call_id = text_of(item, "id")
    match item.get("type"):
        case "command_execution":
            args = {name: item[name] for name in ("command", "cwd") if item.get(name) is not None}
            return BatchCall(call_id, "shell", args)
        case "file_change":
            return BatchCall(call_id, "apply_patch", {"changes": item.get("changes")})
        case "mcp_tool_call":
            return BatchCall(call_id, mcp_name(item), item.get("arguments"))
        case "dynamic_tool_call":
            return BatchCall(call_id, text_of(item, "tool"), item.get("arguments"))
        case "web_search":
            return BatchCall(call_id, "web_search", {"query": item.get("query")})
    return None


def mcp_name(call: Object) -> str:
    """The name of an MCP tool, as Claude Code and others write it."""
    return f"mcp__{text_of(call, 'server')}__{text_of(call, 'tool')}"


def outcome_of(item: Object) -> tuple[Status, object]:
    """How a completed item ended, and what of it to compare."""
    status = item.get("status")
    if item.get("type") == "command_execution":
        code = item.get("exit_code")
        code = code if isinstance(code, int) else None
        if status == "declined":
            return Status.DENIED, "declined"
        failed = code not in (0, None) or status == "failed"
        return (Status.ERROR if failed else Status.OK), finished(code, text_of(item, "aggregated_output"))
    error = item.get("error")
    if error is not None or status in ("failed", "declined") or item.get("success") is False:
        result = error if error is not None else item.get("result", item.get("content_items", status))
        return (Status.DENIED if status == "declined" else Status.ERROR), result
    return Status.OK, item.get("result", item.get("content_items", status))
