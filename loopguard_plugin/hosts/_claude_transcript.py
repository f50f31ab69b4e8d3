"""What hooks are not told, read off the end of Claude Code's transcript.

A hook is told of one call; the transcript (JSON lines, one content block each, blocks of a response share its message
id) has its siblings as far as they are written. With them a batch is judged as one, and in model order. Results stand
there with the mark of an error, which the hook of a whole batch leaves out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, NamedTuple

from ..events import BatchCall
from ..json_text import JSONError, read_json
from ._claude import Asked, name_of

CHUNK: Final = 1 << 18
PATIENCE: Final = 0.25
PAUSE: Final = 0.005
MOST: Final = 1 << 24  # a response of more than 16 MB is judged call by call

NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)


class Seen(NamedTuple):
    """What the transcript has about an event: the response of a call that starts, the failed calls of a batch.

    ``complete`` is False where it is likely to have more in a moment.
    """

    asked: Asked | None = None
    failed: Set[str] = frozenset()
    complete: bool = True


def look(payload: Mapping[str, Any], session: str) -> Seen:
    """What :func:`._claude.respond` wants to know about an event beyond its payload.

    Claude Code writes its transcript ten times a second: what is missing may come within ``PATIENCE`` seconds.
    """
    file = _file(payload.get("transcript_path"), session, payload.get("agent_id"))
    event = payload.get("hook_event_name")
    if file is None or not os.path.isfile(file):
        return Seen()
    if event == "PreToolUse":
        asked = find(file, str(payload.get("tool_use_id") or ""))
        return Seen(asked, complete=asked is not None)
    if event == "PostToolBatch":
        results = found_results(file, [str(call.get("tool_use_id") or "") for call in payload.get("tool_calls") or ()])
        failed = {name_of(call_id) for call_id, is_error in results.items() if is_error}
        return Seen(None, failed, all(is_error is not None for is_error in results.values()))
    return Seen()


def find(file: str, call_id: str) -> Asked | None:
    """The response with this call; None where the transcript does not have it (yet), or cannot be read."""
    size = CHUNK
    while call_id and size <= MOST:
        lines, whole = _tail(file, size)
        asked = _response(lines, _bytes(call_id))
        if whole or (asked is not None and asked[1] > 0):  # lines before it were seen: nothing of it is missing
            return asked[0] if asked is not None else None
        size *= 4
    return None


def found_results(file: str, call_ids: Iterable[str]) -> dict[str, bool | None]:
    """For each of the newest calls whether its result is marked as an error; None where there is no result yet.

    Denied calls are marked, too, which no hook is told of.
    """
    found: dict[str, bool | None] = {call_id: None for call_id in call_ids if call_id}
    wanted = {call_id: _bytes(call_id) for call_id in found}
    size = CHUNK
    while wanted and size <= MOST:
        lines, whole = _tail(file, size)
        for line in reversed(lines):
            if b"tool_result" in line and any(mark in line for mark in wanted.values()):
                found.update((at, error) for at, error in _results(line) if wanted.pop(at, None) is not None)
        if whole or len(wanted) < len(found):  # the results of a response stand together
            break
        size *= 4
    return found


def _bytes(text: str) -> bytes:
    """An id as it stands in the file; one that is no text does not."""
    return text.encode("utf-8", "replace")


def _file(path: object, session: str, agent: object) -> str | None:
    """The transcript; a sub-agent has one of its own beside it. None for what is no path, or would lead elsewhere."""
    if not isinstance(path, str) or not path:
        return None
    if agent and (any(os.path.basename(name) != name for name in (f"agent-{agent}", session)) or session == ".."):
        return None
    return os.path.join(os.path.dirname(path), session, "subagents", f"agent-{agent}.jsonl") if agent else path


def _tail(file: str, size: int) -> tuple[list[bytes], bool]:
    """The last lines of a file, whole ones, and whether these are all."""
    try:
        # Without waiting for whoever should write into a pipe that has been put there since.
        with open(file, "rb", opener=lambda path, flags: os.open(path, flags | NONBLOCK)) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return [], True
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - size))
            data = stream.read(size)
    except (OSError, ValueError):
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
        message = _message(line) if _bytes(message_id) in line else None
        if message is not None and message.get("id") == message_id:
            first = min(first, at)
            calls += map(_asked, _calls(message))
    return (Asked(name_of(message_id), tuple(calls)), first) if message_id else None


def _message(line: bytes, kind: str = "assistant") -> dict[str, Any] | None:
    """The message of that kind on a line of the transcript."""
    try:
        row = read_json(line)
    except JSONError:
        return None
    message = row.get("message") if isinstance(row, dict) and row.get("type") == kind else None
    return message if isinstance(message, dict) else None


def _asked(block: dict[str, Any]) -> BatchCall:
    call_id, tool = (name_of(str(block.get(key) or "")) for key in ("id", "name"))
    return BatchCall(call_id, tool, block.get("input"))


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
