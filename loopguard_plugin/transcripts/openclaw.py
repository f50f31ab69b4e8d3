"""OpenClaw session JSONL (v3) and pi session JSONL (v1 to v3): one code base, one parser.

An assistant entry holds all calls of a response; each result follows as an entry of its own, in any order. Results are
passed on with their ``details``, so that the guard itself sees what failed (OpenClaw writes ``isError: false`` even
for failed tools).

Entries form a tree. Which path of it is the live one is known only at the end of the file, so a stream cannot follow
it; and the calls of a branch that was given up did run, with nobody to stop them. So branches are played in the order
of the file, each as a run of its own: with the user message that begins it, or else from the entry that jumps.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event
from .items import Items, Placed, Unreadable
from .jsonl import objects
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, text_of


def fits(value: object) -> bool:
    """Whether this line is a header or a message of a session."""
    fields = as_object(value)
    tag = fields.get("type")
    return tag == "session" or (tag == "message" and "role" in as_object(fields.get("message")))


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one session file."""
    talk: Talk | None = None
    cut = False  # the last response was cut off (stopReason aborted or error)
    newest = ""  # the id of the last entry
    for entry in objects(source):
        if isinstance(entry, Unreadable):
            yield entry
            continue
        line, fields = entry
        if talk is None:
            header = fields if fields.get("type") == "session" else {}
            talk = talks.open(text_of(header, "id") or source.stem, _agent_of(source))
        message = as_object(fields.get("message")) if fields.get("type") == "message" else {}
        role = message.get("role")
        if cut and role in ("user", "assistant"):
            yield from (Placed(event, line) for event in talk.cut())
        if role in ("user", "assistant"):
            cut = message.get("stopReason") in ("aborted", "error")
        if role == "assistant" and newest and text_of(fields, "parentId") not in ("", newest):
            talk.branched()
        newest = text_of(fields, "id") or newest
        for event in _events(talk, fields, message):
            yield Placed(event, line)
    if talk is not None and cut:
        yield from (Placed(event, line) for event in talk.cut())


def _events(talk: Talk, fields: Object, message: Object) -> Iterator[Event]:
    if fields.get("type") == "compaction":
        yield talk.compacted()
    match message.get("role"):
        case "user":
            yield talk.said()
        case "assistant":
            blocks = [as_object(block) for block in as_list(message.get("content"))]
            calls = [
                BatchCall(text_of(block, "id"), text_of(block, "name"), block.get("arguments"))
                for block in blocks
                if block.get("type") == "toolCall"
            ]
            if calls:
                yield from talk.asked(calls)
        case "toolResult":
            result = {name: message[name] for name in ("content", "details") if message.get(name) is not None}
            if message.get("isError") is True:
                result["isError"] = True
            yield talk.settled(text_of(message, "toolCallId"), result=result, tool=text_of(message, "toolName"))


def _agent_of(source: Source) -> str | None:
    """The agent by the place of the file: ``…/agents/<agentId>/sessions/<sessionId>.jsonl``."""
    parts = source.path.absolute().parts if source.path is not None else ()
    return parts[-3] if len(parts) >= 4 and parts[-2] == "sessions" and parts[-4] == "agents" else None
