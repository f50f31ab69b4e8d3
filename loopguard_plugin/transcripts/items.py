"""What a reader yields: events and problems, each with its place, in the order of the transcript."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from ..events import Event


class Placed(Struct, frozen=True, gc=False):
    """One event and the line (from 1) of the transcript that it was read from.

    In a file that is one JSON document, ``line`` is the place (from 1) of the message or step in its list.
    """

    event: Event
    line: int


class Unreadable(Struct, frozen=True, gc=False):
    """A line that could not be played, and why. ``line`` 0: the file as a whole.

    ``no_call``: the file was read to its end and understood; nobody called a tool in it.
    """

    line: int
    text: str
    no_call: bool = False


Item: TypeAlias = Placed | Unreadable
Items: TypeAlias = Iterator[Item]
