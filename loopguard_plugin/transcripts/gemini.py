"""Gemini CLI session: one JSON document, or JSON lines since 0.40. Results lie beside their calls.

In JSON lines a message is appended again whenever it grew, under the same id: the last one counts. ``$set`` changes
the session, ``$rewindTo`` takes messages back: their calls did run, so what follows is a run of its own. The shape is
that of ``chatRecordingTypes.ts`` in google-gemini/gemini-cli.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items, Placed, Unreadable
from .reading import RUNNING, answered, entries, name_of
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, text_of

# The shell tool's report ends with process ids, which change with every call.
_PIDS = re.compile(r"\n(?:Background PIDs|Process Group PGID): [^\n]*")

_ENDED = ("success", "error", "cancelled")


def fits(value: object) -> bool:
    """Whether this is a session, or a line of one."""
    fields = as_object(value)
    if isinstance(fields.get("messages"), list) and "sessionId" in fields:
        return any(one.get("type") in ("user", "gemini", "info", "error") for one in inner(value, "messages")[1:])
    return {"sessionId", "projectHash"} <= fields.keys() or (fields.get("type") == "gemini" and "content" in fields)


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one session file."""
    session: _Session | None = None
    for item in entries(source, "messages"):
        if isinstance(item, Unreadable):
            yield item
            continue
        holder, line, fields = item
        if session is None:
            session = _Session(talks.open(name_of(holder, fields) or source.stem))
        yield from session.entry(fields, line)
    if session is not None:
        yield from session.done()


class _Session:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._held: Object = {}  # the newest message, which may be told again
        self._line = 0  # where it was told last
        self._known: set[str] = set()  # ids of user messages and of calls

    def entry(self, fields: Object, line: int) -> Items:
        """The events of one message, once the next one shows that it is complete."""
        if "$rewindTo" in fields:
            yield from self.done()
            self.talk.branched()
        history = as_list(as_object(fields.get("$set")).get("messages"))  # a new history: most of it is known
        if history:
            yield from self.done()
        for message in [fields, *map(as_object, history)]:
            if message.get("type") in ("user", "gemini"):
                if text_of(message, "id") != text_of(self._held, "id") or not text_of(message, "id"):
                    yield from self.done()
                self._held, self._line = message, line

    def done(self) -> Items:
        """The message that was held back is complete."""
        yield from (Placed(event, self._line) for event in self._events())

    def _events(self) -> Iterator[Event]:
        message, self._held = self._held, {}
        if message.get("type") == "user" and self._is_new(text_of(message, "id")):
            yield self.talk.said()
        calls = [
            call
            for call in map(as_object, as_list(message.get("toolCalls")))
            if self._is_new(text_of(call, "id")) and text_of(call, "name")
        ]
        if calls:
            yield from answered(self.talk, [(_call(call), *_outcome(call)) for call in calls])

    def _is_new(self, name: str) -> bool:
        if name in self._known:
            return False
        if name:
            self._known.add(name)
        return True


def _call(call: Object) -> BatchCall:
    return BatchCall(text_of(call, "id"), text_of(call, "name"), call.get("args"))


def _outcome(call: Object) -> tuple[Status | None, object]:
    results = [
        as_object(as_object(as_object(part).get("functionResponse")).get("response"))
        for part in as_list(call.get("result"))
    ]
    response = results[0] if results else {}
    output = response.get("output")
    if isinstance(output, str):
        response = {**response, "output": _PIDS.sub("", output)}
    result: object = response if len(results) <= 1 else [response, *results[1:]]
    if not results and text_of(call, "status") not in ("", *_ENDED):
        return None, RUNNING
    if call.get("status") == "cancelled":
        return Status.ABORTED, result
    failed = call.get("status") == "error" or response.get("error")
    return (Status.ERROR if failed else Status.OK), result
