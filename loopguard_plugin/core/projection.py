"""What the next call of an open batch is judged against: the history, and its earlier siblings as vetoes (SPEC 8)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .history import History
from .record import VETO, Record
from .streaks.ping_pong import Alternation


class Projection:
    """Earlier siblings of an open batch, at least one, each taken as a veto: as if it had run in vain (SPEC 8).

    ``tool`` is the tool of them all, None once they are of several.
    """

    __slots__ = ("_alternation", "_later", "siblings", "tool")

    def __init__(self, history: History, key: int, tool: str) -> None:
        self.siblings = {key: 1}
        self.tool: str | None = tool
        self._alternation = history.tail()
        self._later = [key]  # calls that it has not taken in yet: few are ever asked for it

    def add(self, key: int, tool: str) -> None:
        """One more sibling that stands before the next call to be judged."""
        self.siblings[key] = self.siblings.get(key, 0) + 1
        if tool != self.tool:
            self.tool = None
        self._later.append(key)

    def alternation(self) -> Alternation:
        """How history and siblings end."""
        for key in self._later:
            self._alternation = self._alternation.then(key)
        self._later.clear()
        return self._alternation


def shadow(history: History, arrivals: Sequence[Record], foreign: Sequence[Record]) -> History:
    """The history as a sibling must see it when calls of their own arrived amid the batch.

    ``arrivals`` are the records of the open batch in order of arrival: those of ``foreign`` are taken as they are,
    the others are siblings and taken as vetoes. Rare, so it is simply built anew.
    """
    own = {id(record) for record in foreign}
    room = history.size - len(own)
    surplus = max(0, -room)
    mixed = History(sys.maxsize)  # trimmed here: siblings push nothing out, and no record is marked as gone
    if history.stagnation is not None:
        history.stagnation.index(history.records)  # then adding to another window does not concern it
        mixed.stagnation = history.stagnation
    mixed.cascades = history.cascades
    mixed.cascade = None if history.cascade is None else history.cascade.beside()
    for record in list(history.records)[-room:] if room > 0 else []:
        mixed.add(record)
    for record in arrivals:
        if id(record) not in own:
            mixed.add(Record(record.key, record.tool, marks=VETO))
        elif surplus:
            surplus -= 1
        else:
            mixed.add(record)
    mixed.note_stir()
    return mixed
