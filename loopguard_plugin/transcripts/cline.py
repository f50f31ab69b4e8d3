"""Cline and Roo, where the model writes its calls as XML: ``api_conversation_history.json``.

A response holds one element, named after the tool, with an element for each argument; the next user message begins
with ``[tool for 'x'] Result:``. What the program says itself, ``[ERROR] …`` for one, is no user. (Where the model calls
tools by the API, these files are plain Anthropic messages.) Shape: ``core/prompts/responses.ts`` and
``core/assistant-message`` in cline/cline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, said_text, text_of

_RESULT = re.compile(r"\s*\[(\w+)(?: for '.*?')?(?:\. [^\]]*)?\] Result:\s*", re.DOTALL)
_ARGUMENT = re.compile(r"<(\w+)>\n?(.*?)\n?</\1>", re.DOTALL)
_DETAILS = re.compile(r"\s*<environment_details>.*?</environment_details>\s*\Z", re.DOTALL)
_FAILED = ("The tool execution failed", "Error:", "The tool encountered an error")
_DENIED = "The user denied this operation"
_BY_PROGRAM = ("[ERROR]", "<environment_details>", "[TASK RESUMPTION]")


def fits(value: object) -> bool:
    """Whether a message in sight holds the result of a call that was written as XML."""
    return any(one.get("role") == "user" and _RESULT.match(_text(one)) is not None for one in inner(value, "messages"))


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one task."""
    return conversations(source, talks, _Task, "messages")


class _Task:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._response = ""

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one message. What a response called is known with certainty by its result alone."""
        text = _text(fields)
        if fields.get("role") == "assistant":
            self._response = text
        elif fields.get("role") == "user":
            found = _RESULT.match(text)
            if found is None:
                if not text.lstrip().startswith(_BY_PROGRAM):
                    yield self.talk.said()
                return
            tool = found.group(1)
            yield from self.talk.asked([BatchCall(tool, tool, _arguments(self._response, tool))])
            result = _DETAILS.sub("", text[found.end() :])
            yield self.talk.settled(tool, result=result, status=_status(result))

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()


def _text(message: Object) -> str:
    """The text of a message; that of its text blocks alone."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return said_text([one for one in map(as_object, as_list(content)) if text_of(one, "type") == "text"])


def _arguments(response: str, tool: str) -> object:
    start, end = response.rfind(f"<{tool}>"), response.rfind(f"</{tool}>")
    if start < 0 or end < start:
        return None
    inside = response[start + len(tool) + 2 : end]
    return dict(_ARGUMENT.findall(inside)) or inside.strip() or None


def _status(result: str) -> Status:
    if result.startswith(_DENIED):
        return Status.DENIED
    return Status.ERROR if result.startswith(_FAILED) else Status.OK
