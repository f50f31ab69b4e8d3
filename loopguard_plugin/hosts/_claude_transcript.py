"""What hooks are not told, read off the end of Claude Code's transcript.

A hook is told of one call; the transcript (JSON lines, one content block each, blocks of a response share its message
id) has its siblings as far as they are written. With them a batch is judged as one, and in model order. Results stand
there with the mark of an error, which the hook of a whole batch leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final

import msgspec

from ..events import BatchCall
from ._claude import Asked

CHUNK: Final = 1 << 18
MOST: Final = 1 << 24  # a response of more than 16 MB is judged call by call

_decode = msgspec.json.Decoder().decode


def look(payload: Mapping[str, Any], session: str) -> tuple[Asked | None, Set[str]]:
    """What :func:`respond` wants to know about an event beyond its payload."""
    path, agent = payload.get("transcript_path"), payload.get("agent_id")
    event = payload.get("hook_event_name")
    if event == "PreToolUse":
        return find(path, session, agent, payload.get("tool_use_id") or ""), frozenset()
    if event == "PostToolBatch":
        ids = [str(call.get("tool_use_id") or "") for call in payload.get("tool_calls") or ()]
        return None, failed(path, session, agent, ids)
    return None, frozenset()


def find(path: str | None, session: str, agent: str | None, call_id: str) -> Asked | None:
    """The response with this call; None where the transcript does not have it (yet), or cannot be read."""
    file = _file(path, session, agent)
    if file is None or not call_id:
        return None
    size = CHUNK
    while size <= MOST:
        lines, whole = _tail(file, size)
        asked = _response(lines, call_id.encode())
        if whole or (asked is not None and asked[1] > 0):  # lines before it were seen: nothing of it is missing
            return asked[0] if asked is not None else None
        size *= 4
    return None


def failed(path: str | None, session: str, agent: str | None, call_ids: Iterable[str]) -> set[str]:
    """Those of the newest calls whose result is marked as an error: denied ones too, which no hook is told of."""
    wanted = {call_id: call_id.encode() for call_id in call_ids if call_id}
    file = _file(path, session, agent)
    errors: set[str] = set()
    size = CHUNK
    while file is not None and wanted and size <= MOST:
        lines, whole = _tail(file, size)
        for line in reversed(lines):
            if b"tool_result" not in line or not any(mark in line for mark in wanted.values()):
                continue
            for call_id, is_error in _results(line):
                if wanted.pop(call_id, None) is not None and is_error:
                    errors.add(call_id)
        if whole:
            break
        size *= 4
    return errors


def _file(path: str | None, session: str, agent: str | None) -> str | None:
    """The transcript; a sub-agent has one of its own beside it."""
    if not path:
        return None
    return os.path.join(os.path.dirname(path), session, "subagents", f"agent-{agent}.jsonl") if agent else path


def _tail(file: str, size: int) -> tuple[list[bytes], bool]:
    """The last lines of a file, whole ones, and whether these are all."""
    try:
        with open(file, "rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - size))
            data = stream.read(size)
    except OSError:
        return [], True
    lines = data.split(b"\n")
    return (lines, True) if end <= size else (lines[1:], False)


def _response(lines: list[bytes], call_id: bytes) -> tuple[Asked, int] | None:
    """The response, and the place of its first line."""
    for line in reversed(lines):
        if call_id in line and (found := _message(line)) is not None and _has(found, call_id.decode()):
            message_id = str(found.get("id") or "")
            break
    else:
        return None
    calls: list[BatchCall] = []
    first = len(lines)
    for at, line in enumerate(lines):
        message = _message(line) if message_id.encode() in line else None
        if message is not None and message.get("id") == message_id:
            first = min(first, at)
            calls += [
                BatchCall(str(block.get("id") or ""), str(block.get("name") or ""), block.get("input"))
                for block in _calls(message)
            ]
    return (Asked(message_id, tuple(calls)), first) if message_id else None


def _message(line: bytes, kind: str = "assistant") -> dict[str, Any] | None:
    """The message of that kind on a line of the transcript."""
    try:
        row = _decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    message = row.get("message") if isinstance(row, dict) and row.get("type") == kind else None
    return message if isinstance(message, dict) else None


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return _of_type(message, "tool_use")


def _of_type(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == kind]


def _results(line: bytes) -> list[tuple[str, bool]]:
    """Ids of the calls that a line has results of, and whether each is an error."""
    message = _message(line, "user")
    blocks = _of_type(message, "tool_result") if message is not None else []
    return [(str(block.get("tool_use_id")), block.get("is_error") is True) for block in blocks]


def _has(message: dict[str, Any], call_id: str) -> bool:
    return any(block.get("id") == call_id for block in _calls(message))
