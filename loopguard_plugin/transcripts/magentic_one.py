"""Magentic-One's log (one JSON document): a list of ``{role, content}`` in which an orchestrator instructs agents.

Each instruction is taken as a call of the agent that it goes to; what that agent says next is the result. There are
no ids, and no mark for a failure. Plans and ledgers (``Orchestrator (thought)``) are no calls.
"""

from __future__ import annotations

import re

from ..events import BatchCall, Status
from .items import Items, Placed, Unreadable
from .source import Source
from .talk import Talks
from .values import as_list, as_object, kind, text_of

_TO = re.compile(r"Orchestrator \(-> ([^)]+)\)")


def fits(value: object) -> bool:
    """Whether this is a log: only a list can be one."""
    first = as_object(value[0]) if isinstance(value, list) and value else {}
    return first.get("role") == "human" or text_of(first, "role").startswith("Orchestrator (")


def read(source: Source, talks: Talks) -> Items:
    """The conversation of one log. ``line`` is the place of the message in the list."""
    document, problem = source.document()
    if problem is not None or not isinstance(document, list):
        yield Unreadable(0, f"expected a list of messages: {problem or f'found {kind(document)}'}")
        return
    talk = talks.open(source.stem)
    for place, message in enumerate(map(as_object, as_list(document)), 1):
        role = text_of(message, "role").strip()
        content = message.get("content")
        if role in ("human", "user"):
            yield Placed(talk.said(), place)
        elif to := _TO.fullmatch(role):
            call = BatchCall(to.group(1), to.group(1), {"instruction": content})
            yield from (Placed(event, place) for event in talk.asked([call]))
        elif talk.tool(role):
            yield Placed(talk.settled(role, result=content, status=Status.OK), place)
