"""Codex rollout JSONL (``~/.codex/sessions/…/rollout-<time>-<uuid>.jsonl``).

Consecutive calls with no output between them are one batch; a call of a tool that the provider runs is one of its own.
Shell outputs carry durations and chunk numbers that change every time; they are reduced to exit code and output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .hosted import HOSTED, hosted
from .items import Items, Placed, Unreadable
from .jsonl import objects
from .shell import finished, running
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, json_text, said_text, text_of

_SHELL_HEAD = re.compile(r"(?:[A-Z][^\n]*\n)*?(?:Output|Total output lines): ?[^\n]*\n|(?:[A-Z][^\n]*\n)+\Z")
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.MULTILINE)
_WALL = re.compile(r"^Wall time", re.MULTILINE)
_STILL = re.compile(r"^Process running with session ID", re.MULTILINE)
_FAILED = ("failed", "execution error", "unsupported call")
_NOT_TYPED = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md instructions")


_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")


def fits(value: object) -> bool:
    """Whether this is a line of a rollout."""
    fields = as_object(value)
    return fields.get("type") in _LINES and "payload" in fields


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one rollout file."""
    session: _Session | None = None
    for entry in objects(source):
        if isinstance(entry, Unreadable):
            yield entry
            continue
        line, fields = entry
        payload = as_object(fields.get("payload"))
        if session is None:
            header = payload if fields.get("type") == "session_meta" else {}
            session = _Session(talks.open(text_of(header, "id") or source.stem))
        for event in session.line(text_of(fields, "type"), payload):
            yield Placed(event, line)
    if session is not None:
        for event in session.flush():
            yield Placed(event, line)


class _Session:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._calls: list[BatchCall] = []
        self._heard_as = ""  # how the newest user message came, until the agent does something

    def line(self, kind: str, payload: Object) -> Iterator[Event]:
        """The events of one line."""
        if kind == "compacted":
            yield from self.flush()
            yield self.talk.compacted()
        elif kind == "event_msg" and payload.get("type") == "user_message":
            yield from self._user("event")
        elif kind == "event_msg" and payload.get("type") == "turn_aborted":
            yield from self.flush()
            yield from self.talk.cut()
        elif kind == "response_item":
            yield from self._item(payload)

    def _item(self, item: Object) -> Iterator[Event]:
        call_id = text_of(item, "call_id", "id")
        match item.get("type"):
            case "function_call":
                self._call(call_id, text_of(item, "name"), json_text(text_of(item, "arguments")))
            case "custom_tool_call":
                self._call(call_id, text_of(item, "name"), {"input": item.get("input")})
            case "local_shell_call":
                self._call(call_id, "local_shell", item.get("action"))
            case "function_call_output" | "custom_tool_call_output":
                yield from self.flush()
                status, result = outcome(item.get("output"))
                yield self.talk.settled(call_id, result=result, status=status)
            case name if name in HOSTED:
                self._heard_as = ""
                yield from hosted(self.talk, item)
            case "message" if item.get("role") == "user":
                if as_list(item.get("content")) and not _by_program(item):
                    yield from self._user("item")
            case "message":
                self._heard_as = ""

    def _call(self, call_id: str, tool: str, args: object) -> None:
        self._heard_as = ""
        self._calls.append(BatchCall(call_id, tool, args))

    def _user(self, channel: str) -> Iterator[Event]:
        """A user message. Most rollouts write each twice, as an item and as an event: once counts."""
        if self._heard_as and self._heard_as != channel:
            self._heard_as = ""
            return
        yield from self.flush()
        self._heard_as = channel
        yield self.talk.said()

    def flush(self) -> Iterator[Event]:
        """The response is complete: its calls are one batch."""
        calls, self._calls = self._calls, []
        if calls:
            yield from self.talk.asked(calls)


def _by_program(message: Object) -> bool:
    """Whether Codex itself wrote this message in the user's name."""
    return said_text(message.get("content")).lstrip().startswith(_NOT_TYPED)


def outcome(output: object) -> tuple[Status, object]:
    """How a call ended, and the part of its output that does not change by itself."""
    if isinstance(output, dict):
        failed = output.get("success") is False
        return (Status.ERROR if failed else Status.OK), output.get("content", output)
    if not isinstance(output, str):
        return Status.OK, output
    inner = as_object(json_text(output)) if output.startswith("{") else {}
    metadata = as_object(inner.get("metadata"))
    if "output" in inner and "exit_code" in metadata:
        return _ended(metadata.get("exit_code"), text_of(inner, "output"))
    if head := _SHELL_HEAD.match(output):
        exit_line, body = _EXIT.search(head.group()), output[head.end() :]
        if exit_line:
            return _ended(int(exit_line.group(1)), body)
        if _STILL.search(head.group()):
            return Status.OK, running(body)
        if _WALL.search(head.group()):
            return Status.OK, body
    if output.startswith("unsupported call"):
        return Status.UNKNOWN_TOOL, output
    return (Status.ERROR if output.startswith(_FAILED) else Status.OK), output


def _ended(exit_code: object, output: str) -> tuple[Status, object]:
    code = exit_code if isinstance(exit_code, int) else None
    return (Status.OK if code in (0, None) else Status.ERROR), finished(code, output)
