"""LangChain messages read as calls and results, and written: notes, refusals, last words.

Everything that loopguard writes is marked in ``additional_kwargs["loopguard"]``, so that a run can be rebuilt from its
messages: there a note is no part of the result that it was appended to.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.prebuilt.tool_node import (
    INVALID_TOOL_NAME_ERROR_TEMPLATE,
    TOOL_CALL_ERROR_TEMPLATE,
    TOOL_INVOCATION_ERROR_TEMPLATE,
)

from ..answers import Blocked, Proceed
from ..errors import TurnEndingError
from ..events import Status
from ._shared import result_text

MARK: Final = "loopguard"
_MALFORMED: Final = "the arguments were malformed or truncated"
_RETRY_HEAD, _, _RETRY_TAIL = TOOL_CALL_ERROR_TEMPLATE.partition("{error}")


class Call(NamedTuple):
    """One call of a response. Not ``readable``: its arguments are no JSON, so it never runs and LangChain says so."""

    call_id: str
    tool: str
    args: object
    readable: bool = True


class Answered(NamedTuple):
    """A call and the message that answers it; None where LangChain has not written one yet (unreadable arguments)."""

    place: int  # in model call order, from 0
    call: Call
    message: ToolMessage | None


def calls_of(response: AIMessage) -> list[Call]:
    """All calls of a response. Those with unreadable arguments are a list of their own there, so they come last."""
    calls = [Call(one["id"] or f"#{at}", one["name"], one["args"]) for at, one in enumerate(response.tool_calls)]
    for at, bad in enumerate(response.invalid_tool_calls, len(calls)):
        calls.append(Call(bad.get("id") or f"#{at}", bad.get("name") or "", bad.get("args"), readable=False))
    return calls


def last_response(messages: Sequence[AnyMessage]) -> AIMessage | None:
    return next((one for one in reversed(messages) if isinstance(one, AIMessage)), None)


def answered(response: AIMessage, messages: Sequence[AnyMessage]) -> Iterator[Answered]:
    """The settled calls of a response, in model call order. Equal call ids are answered in the order of messages."""
    at = next(at for at in range(len(messages) - 1, -1, -1) if messages[at] is response)
    results: defaultdict[str, deque[ToolMessage]] = defaultdict(deque)
    for message in messages[at + 1 :]:
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            results[message.tool_call_id].append(message)
    for index, call in enumerate(calls_of(response)):
        found = results[call.call_id]
        if found or not call.readable:
            yield Answered(index, call, found.popleft() if found else None)


def outcome(call: Call, message: ToolMessage | None) -> tuple[Status | None, object]:
    """How a call ended, and what the model was told; status None leaves it to the result."""
    if message is None or not call.readable:
        return Status.REJECTED, _MALFORMED
    mark = message.additional_kwargs.get(MARK)
    mark = mark if isinstance(mark, Mapping) else {}
    if "blocked" in mark:
        return Status.BLOCKED, message.text
    told = _without(message.content, mark.get("note"))
    text = told if isinstance(told, str) else ""
    if message.status == "error":
        return _kind_of_error(call.tool, text), told
    if text.startswith(_RETRY_HEAD) and text.endswith(_RETRY_TAIL):  # structured output that did not validate
        return Status.REJECTED, told
    return None, result_text(told) if isinstance(told, str) else {"content": told}


def _kind_of_error(tool: str, text: str) -> Status:
    if text.startswith(INVALID_TOOL_NAME_ERROR_TEMPLATE.partition(",")[0].format(requested_tool=tool)):
        return Status.UNKNOWN_TOOL
    if text.startswith(TOOL_INVOCATION_ERROR_TEMPLATE.partition("{tool_kwargs}")[0].format(tool_name=tool)):
        return Status.REJECTED
    return Status.ERROR


def noted(message: ToolMessage, note: str) -> ToolMessage:
    """The message with a note; with its id, so that it takes the other's place."""
    content = message.content
    if isinstance(content, str):
        content = f"{content}\n\n{note}" if content else note
    else:
        content = [*content, {"type": "text", "text": note}]
    mark = {**message.additional_kwargs, MARK: {"note": note}}
    return message.model_copy(update={"content": content, "additional_kwargs": mark})


def _without(content: str | list[str | dict[str, object]], note: object) -> str | list[str | dict[str, object]]:
    if not isinstance(note, str):
        return content
    if isinstance(content, str):
        return content.removesuffix(note).removesuffix("\n\n")
    return content[:-1]


def refusals(
    calls: Sequence[Call], answers: Sequence[Proceed | Blocked], response: AIMessage, messages: Sequence[AnyMessage]
) -> list[ToolMessage]:
    """The refused calls' results. What another middleware answered before (a rejection by a person) stays."""
    done = {index for index, _, message in answered(response, messages) if message is not None}
    return [
        ToolMessage(
            content=answer.reason,
            tool_call_id=call.call_id,
            name=call.tool,
            status="error",
            additional_kwargs={MARK: {"blocked": str(answer.detector), "count": answer.count}},
        )
        for index, (call, answer) in enumerate(zip(calls, answers, strict=True))
        if isinstance(answer, Blocked) and index not in done
    ]


def last_words(error: TurnEndingError) -> AIMessage:
    """The turn's last entry, for the user."""
    ended = {"code": str(error.code), "detector": str(error.detector), "tool": error.tool, "count": error.count}
    return AIMessage(content=error.message, additional_kwargs={MARK: ended})


def question(messages: Sequence[AnyMessage]) -> str | None:
    """The id of the newest message that a user wrote; summaries are written in a user's name too."""
    return next((one.id for one in reversed(messages) if isinstance(one, HumanMessage) and not _is_summary(one)), None)


def summary(messages: Sequence[AnyMessage]) -> str | None:
    """The id of a summary: it takes the place of the oldest messages, so nobody has to look through all others."""
    return next((one.id for one in messages[:2] if _is_summary(one)), None)


def _is_summary(message: AnyMessage) -> bool:
    return message.additional_kwargs.get("lc_source") == "summarization"
