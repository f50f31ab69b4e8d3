"""Where a note goes in a delivered result, and how often notes may come (SPEC 2, 7)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

KEYS: Final = 256  # warning keys remembered a session
BUCKET: Final = 10  # calls a bucket

NOTE_KEY: Final = "loopguard_note"
OBSERVED: Final = "observed"  # the first part of a key under which observe mode tells of a block or an end


class Buckets:
    """The last bucket emitted for each (run, warning key) of a session; the oldest inserted goes first."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[tuple[str | None, Hashable], int] | None = None

    def spend(self, run_id: str | None, key: Hashable, count: int) -> bool:
        """Whether a warning of this count may be emitted now; if so, it counts as emitted."""
        bucket = count // BUCKET
        if self._last is None:
            self._last = {}
        last = self._last.get((run_id, key))
        if last is not None and bucket <= last:
            return False
        if last is None and len(self._last) >= KEYS:
            del self._last[next(iter(self._last))]
        self._last[run_id, key] = bucket
        return True

    def forget(self, run_id: str | None) -> None:
        """A run ended: another one of the same name starts afresh."""
        if self._last is not None:
            self._last = {name: bucket for name, bucket in self._last.items() if name[0] != run_id}

    def tell_anew(self) -> None:
        """A user wrote: the next block or end that observe mode leaves undone is news again."""
        if self._last is not None:
            self._last = {name: bucket for name, bucket in self._last.items() if not _is_observed(name[1])}


def _is_observed(key: Hashable) -> bool:
    return isinstance(key, tuple) and key[:1] == (OBSERVED,)


def append_note(value: object, note: str) -> object:
    """The value with the note, as a new value; untouched where there is no place for one.

    A string gets it after a blank line; a list of content blocks (objects with a string ``type``), or an object
    whose ``content`` is such a list, gets one more text block; an object whose ``content`` is a string gets it there;
    any other JSON object gets the key ``loopguard_note``. An empty list is a list of content blocks.
    """
    if type(value) is str:
        return f"{value}\n\n{note}" if value else note
    if type(value) is list:
        return [*value, _block(note)] if _is_blocks(value) else value
    if type(value) is dict:
        content = value.get("content")
        if type(content) is str:
            return {**value, "content": f"{content}\n\n{note}" if content else note}
        if type(content) is list and _is_blocks(content):
            return {**value, "content": [*content, _block(note)]}
        return {**value, NOTE_KEY: note}
    return value


def _block(note: str) -> dict[str, str]:
    return {"type": "text", "text": note}


def _is_blocks(items: list[object]) -> bool:
    return all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in items)
