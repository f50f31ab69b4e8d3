"""Contents of the Gemini API (``{role, parts}``): a list of them, and Qwen Code's sessions, which hold one a line.

A part ``functionCall`` is a call, ``functionResponse`` its result; without ids they are paired by name. Qwen Code
(``~/.qwen/projects/…/chats/*.jsonl``) wraps each content in ``{uuid, parentUuid, sessionId, type, message}``; a
compression that follows ``/compress`` was asked for. Shapes: the Gemini API reference; ``chatRecordingService.ts`` in
QwenLM/qwen-code.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, text_of

_LISTS = ("contents", "history", "messages")


def fits(value: object) -> bool:
    """Whether a content in sight calls a function or answers one."""
    return any(
        one.get("role") in ("user", "model", "function") and any(map(_of_function, _parts(one)))
        for one in inner(value, *_LISTS)
    )


def fits_qwen(value: object) -> bool:
    """Whether this is a line of a Qwen Code session."""
    fields = as_object(value)
    return "uuid" in fields and "parts" in as_object(fields.get("message"))


def read(source: Source, talks: Talks) -> Items:
    """Every conversation of a file of contents."""
    return conversations(source, talks, _Contents, *_LISTS)


def read_qwen(source: Source, talks: Talks) -> Items:
    """The conversation of a Qwen Code session."""
    return conversations(source, talks, _Qwen)


class _Contents:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one content."""
        parts = _parts(fields)
        calls = [as_object(part.get("functionCall")) for part in parts if "functionCall" in part]
        if calls:
            yield from self.talk.asked([BatchCall(_id(one), text_of(one, "name"), one.get("args")) for one in calls])
        answers = [as_object(part.get("functionResponse")) for part in parts if "functionResponse" in part]
        for answer in answers:
            yield self.settled(answer, None)
        if fields.get("role") == "user" and not answers:
            yield self.talk.said()

    def settled(self, answer: Object, status: Status | None) -> Event:
        """One function's answer; ``status`` where something else than the answer tells it."""
        response = as_object(answer.get("response"))
        told = status or (Status.ERROR if response.get("error") else Status.OK)
        return self.talk.settled(_id(answer), result=answer.get("response"), status=told, tool=text_of(answer, "name"))

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()


_STATUS = {"success": Status.OK, "error": Status.ERROR, "cancelled": Status.ABORTED}


class _Qwen:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._contents = _Contents(talk)
        self._by_hand = False

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one line."""
        payload = as_object(fields.get("systemPayload"))
        match fields.get("type"), fields.get("subtype"):
            case "tool_result", _:
                status = _STATUS.get(text_of(as_object(fields.get("toolCallResult")), "status"))
                for part in _parts(as_object(fields.get("message"))):
                    if "functionResponse" in part:
                        yield self._contents.settled(as_object(part["functionResponse"]), status)
            case "user", "mid_turn_user_message":
                yield self.talk.steered()
            case ("user" | "assistant"), _:
                yield from self._contents.entry(as_object(fields.get("message")))
            case "system", "slash_command":
                self._by_hand = text_of(payload, "rawCommand").startswith(("/compress", "/compact"))
            case "system", "chat_compression":
                if not self._by_hand:
                    yield self.talk.compacted()
                self._by_hand = False

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()


def _parts(content: Object) -> list[Object]:
    return [as_object(part) for part in as_list(content.get("parts"))]


def _of_function(part: Object) -> bool:
    return "functionCall" in part or "functionResponse" in part


def _id(function: Object) -> str:
    return text_of(function, "id", "name")
