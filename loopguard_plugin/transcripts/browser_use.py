"""browser-use history (``AgentHistoryList``, one JSON document): a step holds actions and, in the same order, results.

The actions of a step are one batch; where the page changed under it the rest was not done, and then they are skipped.
What the page looked like (``state``) is no result: the text that a result holds is compared. Shape: ``agent/views.py``
in browser-use/browser-use.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items
from .reading import answered, conversations
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, text_of

_RESULT = ("error", "extracted_content", "long_term_memory", "success", "is_done")


def fits(value: object) -> bool:
    """Whether this is a history."""
    return any("model_output" in one and "result" in one for one in inner(value, "history"))


def read(source: Source, talks: Talks) -> Items:
    """The steps of one history. ``line`` is the number of the step."""
    return conversations(source, talks, _History, "history")


class _History:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._steps = 0

    def entry(self, fields: Object) -> Iterator[Event]:
        """The events of one step."""
        self._steps += 1
        actions = [as_object(action) for action in as_list(as_object(fields.get("model_output")).get("action"))]
        results = [as_object(result) for result in as_list(fields.get("result"))]
        calls = []
        for place, action in enumerate(actions):
            name = next((name for name, args in action.items() if args is not None), "")
            call = BatchCall(f"step-{self._steps}.{place + 1}", name or "action", action.get(name))
            calls.append((call, *_outcome(results[place] if place < len(results) else None)))
        if calls:
            yield from answered(self.talk, calls)

    def done(self) -> Iterator[Event]:
        """Nothing is held back."""
        yield from ()


def _outcome(result: Object | None) -> tuple[Status, object]:
    if result is None:
        return Status.SKIPPED, None
    told = {name: result[name] for name in _RESULT if result.get(name) is not None}
    return (Status.ERROR if text_of(result, "error") else Status.OK), told
