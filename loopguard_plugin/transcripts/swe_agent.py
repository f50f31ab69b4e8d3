"""SWE-agent ``.traj`` (one JSON document, read whole): one step is one call, of the command's first word.

The format has no ids, no parallel calls and no mark for a failure; only the text tells.
"""

from __future__ import annotations

from ..events import BatchCall, Status
from .items import Items, Placed, Unreadable
from .source import Source
from .talk import Talks
from .values import as_list, as_object, kind, text_of


def fits(value: object) -> bool:
    """Whether this is a trajectory."""
    return isinstance(as_object(value).get("trajectory"), list)


def read(source: Source, talks: Talks) -> Items:
    """The steps of one trajectory. ``line`` is the number of the step."""
    document, problem = source.document()
    steps = as_object(document).get("trajectory")
    if problem is not None or not isinstance(steps, list):
        yield Unreadable(0, f'expected an object with "trajectory": {problem or f"found {kind(document)}"}')
        return
    talk = talks.open(source.stem)
    history = [as_object(one) for one in as_list(as_object(document).get("history"))]
    if not history or any(one.get("role") == "user" for one in history):
        yield Placed(talk.said(), 1)
    for place, step in enumerate(map(as_object, steps), 1):
        action = text_of(step, "action").strip()
        if not action:
            continue
        call_id = f"step-{place}"
        call = BatchCall(call_id, action.split(maxsplit=1)[0], {"command": action})
        yield from (Placed(event, place) for event in talk.asked([call]))
        yield Placed(talk.settled(call_id, result=step.get("observation"), status=Status.OK), place)
