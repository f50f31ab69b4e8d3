"""Recorded sessions as events: one reader a format, all streaming unless the file is one JSON document.

:data:`.registry.FORMATS` is the whole registry.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..events import ToolCallSettled, ToolCallStarted
from .detect import detect, sight
from .items import Item, Items, Placed, Unreadable
from .refusal import nothing_found, suspicious, unknown
from .registry import FORMATS, Format
from .source import Source, SourceError
from .talk import Talk, Talks

__all__ = [
    "FORMATS",
    "Format",
    "Item",
    "Items",
    "Placed",
    "Source",
    "SourceError",
    "Talk",
    "Talks",
    "Unreadable",
    "detect",
    "files_of",
    "read",
]

_ENDINGS = (".jsonl", ".json", ".traj", ".eval", ".jsonl.gz", ".json.gz", ".traj.gz")


def read(source: Source, talks: Talks, name: str = "auto") -> Items:
    """The events of one transcript. ``name`` is a key of :data:`FORMATS`, or ``auto`` to look at the content.

    The last item of a file that has content and no call is an :class:`Unreadable` that says what it looks like; only a
    file of loopguard's own events, where each line is checked by itself, may have none.
    """
    try:
        found = detect(source) if name == "auto" else name
        if found is None:
            yield Unreadable(0, unknown(source))
        elif found == "events" or not source.head():
            yield from FORMATS[found].read(source, talks)
        else:
            yield from _read(source, talks, found, chosen=name != "auto")
    except SourceError as error:
        yield Unreadable(0, f"cannot be read to its end: {error}")


def _read(source: Source, talks: Talks, name: str, *, chosen: bool) -> Items:
    values = sight(source)
    calls = problems = 0
    for item in FORMATS[name].read(source, talks):
        if isinstance(item, Unreadable):
            problems += 1
        elif isinstance(item.event, (ToolCallStarted, ToolCallSettled)):
            calls += 1
        yield item
    if not calls:
        quiet = not chosen and not problems and not suspicious(name, values)
        yield Unreadable(0, nothing_found(name, values, lines=source.taken, chosen=chosen), no_call=quiet)


def files_of(path: str) -> Iterator[str]:
    """The transcripts under a directory, by their endings and in order of their names; any other path as it is."""
    if path == "-" or not Path(path).is_dir():
        yield path
        return
    for file in sorted(Path(path).rglob("*")):
        if file.name.endswith(_ENDINGS) and file.is_file():
            yield str(file)
