"""Claude Code's hook events as the guard's events, and its answers as hook output; shared by hook and SDK.

Light on purpose: the hook is a process of its own for every event. Payloads are JSON objects as Claude Code writes
them on standard input, answers are those that it reads; an empty one says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from xxhash import xxh3_128_hexdigest

from ..answers import Answer, Blocked, Deliver
from ..errors import TurnEndingError
from ..events import BatchCall, CompactionRetry, Event, Status, ToolCallSettled, ToolCallStarted, UserMessageCommitted

Feed: TypeAlias = Callable[[Event], tuple[Answer | None, TurnEndingError | None]]
Output: TypeAlias = dict[str, object]

MOST_BOOKS: Final = 64  # runs of one session: prompts and sub-agents
MOST_CALLS: Final = 256  # open calls of a run
LONGEST_NAME: Final = 512
EVENTS: Final = (
    "PreToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "UserPromptSubmit",
    "PostCompact",
    "SessionEnd",
)
_DELEGATES: Final = frozenset({"Agent", "Task"})
# Not compiled here: few events need them.
_AGENT: Final = r"(?m)^agentId: (\w+)"  # Claude Code indents what the agent itself reports
_TASK: Final = r"<task-id>(\w+)</task-id>"
_EXIT_CODE: Final = r"Exit code (\d+)(?:\n|\Z)"
_DENIED: Final = (
    r"(?:Permission to use .{0,200} denied|Claude requested permissions? to |This command requires approval"
    r"|The user doesn't want to (?:proceed|take)|.{1,400} needs approval\.)"
)


class Book(Struct):
    """One run's open batch. ``started``: batch ids by call id; ``failed``: whether a failure was an interruption.

    Once ``MOST_CALLS`` have started and none of them has settled, the next call begins another batch.
    ``ended``: why the turn was ended, for the agent that delegated to this one.
    """

    batches: int = 0
    started: dict[str, str] = field(default_factory=dict)
    blocked: list[str] = field(default_factory=list)
    failed: dict[str, bool] = field(default_factory=dict)
    ended: str | None = None


class Asked(Struct, frozen=True):
    """The response that a call belongs to, as far as it is written: its id and its calls in model order."""

    id: str
    calls: tuple[BatchCall, ...]


def respond(
    payload: Mapping[str, Any],
    feed: Feed,
    books: dict[str, Book],
    asked: Asked | None = None,
    failed: Set[str] = frozenset(),
) -> Output:
    """What Claude Code is answered. ``books`` are the session's, by run; they are kept up to date here.

    The newest ``MOST_BOOKS`` runs stay among them; of one that has gone, nothing more needs to be remembered.
    ``asked``: the response of a call that is about to start; ``failed``: the calls of a batch whose results are errors.
    """
    session = _text(payload, "session_id") or "claude-code"
    run = _text(payload, "agent_id") or _text(payload, "prompt_id")
    agent = _text(payload, "agent_type")
    event = payload.get("hook_event_name")
    book = _book(books, run or "")
    if event == "UserPromptSubmit":
        prompt = str(payload.get("prompt") or "")
        if prompt.startswith("<task-notification>"):  # a background task, not the user
            return _context(event, [f"The agent did not finish: {why}" for why in _ends(_TASK, prompt, books)])
        feed(UserMessageCommitted(session_key=session, run_id=run, message_id=_text(payload, "prompt_id")))
        return {}
    if event == "PostCompact":
        if payload.get("trigger") == "auto":
            feed(CompactionRetry(session_key=session, run_id=run, agent_id=agent))
        return {}
    if event == "PreToolUse":
        return _start(payload, session, run, agent, feed, book, asked)
    if event == "PostToolUseFailure":
        if len(book.failed) < MOST_CALLS:
            book.failed[_text(payload, "tool_use_id") or ""] = payload.get("is_interrupt") is True
        return {}
    if event == "PostToolBatch":
        return _settle(payload, session, run, agent, feed, book, failed, books)
    return {}


def _start(
    payload: Mapping[str, Any],
    session: str,
    run: str | None,
    agent: str | None,
    feed: Feed,
    book: Book,
    asked: Asked | None,
) -> Output:
    call_id = _text(payload, "tool_use_id") or ""
    calls = (
        tuple(BatchCall(call.call_id, call.tool, _args(call.tool, call.args)) for call in asked.calls) if asked else ()
    )
    index = next((at for at, call in enumerate(calls) if call.call_id == call_id), None)
    if len(book.started) >= MOST_CALLS:
        _close(book)
    batch_id = asked.id if asked is not None else f"batch {book.batches}"
    tool = _text(payload, "tool_name") or ""
    book.started[call_id] = batch_id
    book.ended = None
    answer, error = feed(
        ToolCallStarted(
            session_key=session,
            run_id=run,
            agent_id=agent,
            call_id=call_id,
            tool=tool,
            args=_args(tool, payload.get("tool_input")),
            batch_id=batch_id,
            index=index,
            batch=calls if index is not None else None,
        )
    )
    if not isinstance(answer, Blocked):
        return {}
    book.blocked.append(call_id)
    if error is not None:
        book.ended = _valid(error.message)
    denied: Output = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": answer.reason,
        }
    }
    return denied | _ended(error)


def _settle(
    payload: Mapping[str, Any],
    session: str,
    run: str | None,
    agent: str | None,
    feed: Feed,
    book: Book,
    failed: Set[str],
    books: Mapping[str, Book],
) -> Output:
    notes: list[str] = []
    ended: TurnEndingError | None = None
    fallback = next(reversed(book.started.values()), f"batch {book.batches}")
    for call in payload.get("tool_calls") or ():
        call_id = _text(call, "tool_use_id") or ""
        tool = _text(call, "tool_name") or ""
        outcome = _outcome(call_id, tool, call.get("tool_response"), book, failed)
        if tool in _DELEGATES and (why := _ends(_AGENT, _said(call.get("tool_response")), books)):
            outcome = {"status": Status.ERROR, "error": why[0]}
            notes.append(f"{tool} ({call_id}): the agent did not finish: {why[0]}")
        answer, error = feed(
            ToolCallSettled(
                session_key=session,
                run_id=run,
                agent_id=agent,
                call_id=call_id,
                tool=tool,
                args=_args(tool, call.get("tool_input")),
                batch_id=book.started.get(call_id, fallback),
                **outcome,
            )
        )
        ended = ended or error
        if isinstance(answer, Deliver) and answer.note is not None:
            notes.append(f"{tool} ({call_id}): {answer.note}")
    _close(book)
    if ended is not None:
        book.ended = _valid(ended.message)
        return _ended(ended)
    return _context("PostToolBatch", notes)


def _ends(pattern: str, text: str, books: Mapping[str, Book]) -> list[str]:
    """Why the turns of the agents that a text names were ended, as far as they were."""
    found = (books.get(agent) for agent in re.findall(pattern, text))
    return [book.ended for book in found if book is not None and book.ended is not None]


def _said(response: object) -> str:
    """The text of a tool's response: a string, or text blocks."""
    if isinstance(response, list):
        return "\n".join(str(block.get("text")) for block in response if isinstance(block, dict))
    return response if isinstance(response, str) else ""


def _context(event: str, texts: list[str]) -> Output:
    if not texts:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "\n\n".join(texts)}}


def _outcome(call_id: str, tool: str, response: object, book: Book, failed: Set[str]) -> dict[str, Any]:
    """The fields of a settlement that say how a call ended; the batch itself carries texts alone."""
    text = response if isinstance(response, str) else ""
    if call_id in book.blocked:
        return {"status": Status.BLOCKED}
    if book.failed.get(call_id):
        return {"status": Status.ABORTED}
    if text.startswith("<tool_use_error>"):
        return _refused(text, beside_failure=bool(book.failed) and call_id not in book.failed)
    if call_id not in book.failed:
        if call_id in failed or re.match(_DENIED, text):
            return {"status": Status.DENIED, "error": text}
        return {"status": Status.OK, "result": response}
    code = re.match(_EXIT_CODE, text) if tool == "Bash" else None
    if code is None:
        return {"status": Status.ERROR, "error": response if response else "failed"}
    details = {"status": "failed", "exitCode": int(code.group(1)), "aggregated": text[code.end() :], "message": text}
    return {"status": Status.ERROR, "result": details}


def _refused(text: str, *, beside_failure: bool) -> dict[str, Any]:
    """Errors that Claude Code itself answers in place of a tool.

    It cancels calls when another one of their response fails. Any tool can write that it was cancelled, so its word
    alone does not keep a call from being counted.
    """
    said = text.removeprefix("<tool_use_error>")
    if "No such tool available" in said[:80]:
        status = Status.UNKNOWN_TOOL
    elif said.startswith("InputValidationError"):
        status = Status.REJECTED
    elif said.startswith("Cancelled") and beside_failure:
        return {"status": Status.SKIPPED}
    else:
        status = Status.ERROR
    return {"status": status, "error": text}


def _ended(error: TurnEndingError | None) -> Output:
    return {} if error is None else {"continue": False, "stopReason": error.message, "systemMessage": error.message}


def _args(tool: str, args: object) -> object:
    """Without the label that the model gives a command: it says nothing about what runs."""
    if tool == "Bash" and isinstance(args, dict) and "description" in args:
        return {key: value for key, value in args.items() if key != "description"}
    return args


def _book(books: dict[str, Book], run: str) -> Book:
    book = books.pop(run, None) or Book()
    while len(books) >= MOST_BOOKS:
        del books[next(iter(books))]
    books[run] = book
    return book


def _close(book: Book) -> None:
    book.batches += 1
    book.started.clear()
    book.blocked.clear()
    book.failed.clear()


def _text(payload: Mapping[str, Any], key: str) -> str | None:
    value = payload.get(key)
    return name_of(value) if isinstance(value, str) and value.strip() else None


def _valid(text: str) -> str:
    """A text as it is kept: valid Unicode, for the state has no place for lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def name_of(text: str) -> str:
    """An id or a name as it is kept: valid Unicode, and of a long one the beginning and a digest of the whole."""
    if len(text) <= LONGEST_NAME and text.isascii():
        return text
    data = text.encode("utf-8", "backslashreplace")
    shown = data.decode()
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 33]}-{xxh3_128_hexdigest(data)}"
