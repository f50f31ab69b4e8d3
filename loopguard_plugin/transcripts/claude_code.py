"""Claude Code transcript JSONL (``~/.claude/projects/…/<sessionId>.jsonl``), sub-agents inline or in their own files.

``progress`` lines repeat what the sub-agents' own lines say and are left out, like everything that is not part of the
conversation. A message that rides along with results, or comes while the agent is at work, steers the run; any other
message that a person typed opens a new one. Exports hold the same lines as one list, or as ``loglines``.
"""

from __future__ import annotations

from collections import OrderedDict

from .claude import Chain, by_hand, interrupted, results_of, typed
from .items import Items, Placed, Unreadable
from .reading import entries
from .source import Source
from .talk import Talks
from .values import Object, as_object, inner, text_of

_MOST_LINES = 20_000  # how many lines of inline sub-agents are remembered, to find the agent of the next one


_ONLY = ("file-history-snapshot", "queue-operation", "progress", "pr-link")
_TALK = ("system", "assistant", "user")


def fits(value: object) -> bool:
    """Whether this is a line of a transcript."""
    if isinstance(value, list) or "loglines" in as_object(value):
        lines = (one for one in inner(value, "loglines") if one.get("type") in _TALK)
        return any("role" in as_object(one.get("message")) for one in lines)
    fields = as_object(value)
    tag = fields.get("type")
    if tag in _ONLY or (tag == "summary" and "leafUuid" in fields) or "parentUuid" in fields:
        return True
    return tag in _TALK and "message" in fields and "sessionId" in fields


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one transcript file."""
    session: _Session | None = None
    for entry in entries(source, "loglines"):
        if isinstance(entry, Unreadable):
            yield entry
            continue
        _, line, fields = entry
        if fields.get("type") not in _TALK:
            continue
        if session is None:
            session = _Session(talks, text_of(fields, "sessionId") or source.stem)
        yield from session.line(fields, line)
    if session is not None:
        yield from session.flush()


class _Session:
    def __init__(self, talks: Talks, name: str) -> None:
        self.main = Chain(talks.open(name))
        self.sides: dict[str, Chain] = {}
        self._side_of_line: OrderedDict[str, str] = OrderedDict()
        self._roots = 0

    def line(self, fields: Object, line: int) -> Items:
        """The events of one line of the transcript."""
        chain = self._chain(fields)
        message = as_object(fields.get("message"))
        if fields.get("type") == "assistant":
            response = text_of(message, "id") or text_of(fields, "requestId", "uuid") or f"line {line}"
            yield from chain.assistant(message, response, line)
        elif fields.get("type") == "user":
            yield from self._user(chain, fields, message, line)
        elif fields.get("subtype") == "compact_boundary":
            yield from chain.flush()
            if not by_hand(fields, "compactMetadata"):
                yield Placed(chain.talk.compacted(), line)

    def _user(self, chain: Chain, fields: Object, message: Object, line: int) -> Items:
        results = list(results_of(message))
        for block in results:
            chain.result(block, line)
        if interrupted(message):
            yield from chain.flush()
            yield from (Placed(event, line) for event in chain.talk.cut())
            return
        program = any(fields.get(mark) for mark in ("isMeta", "isCompactSummary", "sourceToolUseID"))
        if chain is not self.main or program or not typed(message):
            return
        yield from self.flush()
        yield Placed(chain.talk.steered() if results else chain.talk.said(), line)

    def flush(self) -> Items:
        """Everything that is held back, of all agents: a user message concerns all runs of the session."""
        for chain in (self.main, *self.sides.values()):
            yield from chain.flush()

    def _chain(self, fields: Object) -> Chain:
        if fields.get("isSidechain") is not True:
            return self.main
        name = self._side(fields)
        if name not in self.sides:
            self.sides[name] = Chain(self.main.talk.sub_agent(name))
        return self.sides[name]

    def _side(self, fields: Object) -> str:
        """The sub-agent of a line: its own id, else that of the line before it in the tree, else a new one."""
        name = text_of(fields, "agentId")
        if name:
            return f"agent-{name}"
        name = self._side_of_line.get(text_of(fields, "parentUuid"), "")
        if not name:
            self._roots += 1
            name = f"sidechain-{self._roots}"
        self._side_of_line[text_of(fields, "uuid")] = name
        if len(self._side_of_line) > _MOST_LINES:
            self._side_of_line.popitem(last=False)
        return name
