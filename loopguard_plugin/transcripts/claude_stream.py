"""The stream of the Claude Agent SDK (``claude -p --output-format stream-json``), also as OpenAgents wraps it.

The prompt that started a turn is not in the stream: after a ``result`` line, the next response begins a new run.
Lines of a sub-agent carry ``parent_tool_use_id``.
"""

from __future__ import annotations

from .claude import Chain, by_hand, interrupted, results_of, typed
from .items import Items, Placed, Unreadable
from .jsonl import objects
from .source import Source
from .talk import Talks
from .values import Object, as_object, text_of

_LINES = ("system", "assistant", "user", "result", "stream_event")


def fits(value: object) -> bool:
    """Whether this is a line of the stream."""
    fields = as_object(value)
    return fields.get("type") in _LINES and ("message" in fields or "session_id" in fields)


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one stream."""
    session: _Session | None = None
    for entry in objects(source):
        if isinstance(entry, Unreadable):
            yield entry
            continue
        line, fields = entry
        if session is None:
            name = text_of(fields, "session_id") or text_of(as_object(fields.get("message")), "session_id")
            session = _Session(talks, name or source.stem)
        yield from session.line(fields, line)
    if session is not None:
        yield from session.flush()


class _Session:
    def __init__(self, talks: Talks, name: str) -> None:
        self.main = Chain(talks.open(name))
        self.sides: dict[str, Chain] = {}
        self._ended = False

    def line(self, fields: Object, line: int) -> Items:
        """The events of one line of the stream."""
        message = as_object(fields.get("message"))
        parent = text_of(fields, "parent_tool_use_id") or text_of(message, "parent_tool_use_id")
        chain = self._chain(parent)
        match fields.get("type"):
            case "assistant":
                if self._ended and chain is self.main:
                    yield from self._next_turn(line)
                response = text_of(message, "id") or text_of(fields, "uuid") or f"line {line}"
                yield from chain.assistant(message, response, line)
            case "user":
                for block in results_of(message):
                    chain.result(block, line)
                if interrupted(message):
                    yield from chain.flush()
                    yield from (Placed(event, line) for event in chain.talk.cut())
                elif chain is self.main and typed(message) and fields.get("isSynthetic") is not True:
                    yield from self._next_turn(line)
            case "system":
                if "compact_boundary" in (fields.get("subtype"), message.get("subtype")):
                    yield from chain.flush()
                    if not (by_hand(fields, "compact_metadata") or by_hand(message, "compact_metadata")):
                        yield Placed(chain.talk.compacted(), line)
            case "result":
                self._ended = True

    def _next_turn(self, line: int) -> Items:
        self._ended = False
        yield from self.flush()
        yield Placed(self.main.talk.said(), line)

    def flush(self) -> Items:
        """Everything that is held back, of all agents."""
        for chain in (self.main, *self.sides.values()):
            yield from chain.flush()

    def _chain(self, parent: str) -> Chain:
        if not parent:
            return self.main
        if parent not in self.sides:
            self.sides[parent] = Chain(self.main.talk.sub_agent(f"agent-{parent}"))
        return self.sides[parent]
