"""Recorded sessions as events: one reader a format, all streaming unless the file is one JSON document.

:data:`FORMATS` is the whole registry. A reader takes an open :class:`Source` and the :class:`Talks` of the replay and
yields :class:`Placed` events and :class:`Unreadable` lines, in order; it never raises for what stands in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from . import (
    atif,
    claude_code,
    claude_stream,
    codex,
    codex_items,
    codex_tui,
    events_format,
    gemini,
    hermes,
    magentic_one,
    openai_chat,
    openclaw,
    swe_agent,
)
from .detect import detect
from .items import Item, Items, Placed, Unreadable
from .source import Source, SourceError
from .talk import Talk, Talks

__all__ = [
    "FORMATS",
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

Reader: TypeAlias = Callable[[Source, Talks], Items]

FORMATS: Final[Mapping[str, Reader]] = {
    "events": events_format.read,
    "openclaw": openclaw.read,
    "pi": openclaw.read,
    "claude-stream": claude_stream.read,
    "claude-code": claude_code.read,
    "codex": codex.read,
    "codex-exec": codex_items.read_exec,
    "codex-app-server": codex_items.read_app_server,
    "codex-tui": codex_tui.read,
    "openai-chat": openai_chat.read,
    "gemini": gemini.read,
    "swe-agent": swe_agent.read,
    "atif": atif.read,
    "magentic-one": magentic_one.read,
    "hermes": hermes.read,
}

_ENDINGS = (".jsonl", ".json", ".traj", ".jsonl.gz", ".json.gz", ".traj.gz")


def read(source: Source, talks: Talks, name: str = "auto") -> Items:
    """The events of one transcript. ``name`` is a key of :data:`FORMATS`, or ``auto`` to look at the content."""
    try:
        found = detect(source) if name == "auto" else name
        if found is None:
            broken = None if source.by_lines() else source.document()[1]
            why = f"; as one JSON document: {broken}" if broken else ""
            yield Unreadable(0, f"cannot tell the format; name it with --format ({', '.join(FORMATS)}){why}")
        else:
            yield from FORMATS[found](source, talks)
    except SourceError as error:
        yield Unreadable(0, f"cannot be read to its end: {error}")


def files_of(path: str) -> Iterator[str]:
    """The transcripts under a directory, by their endings and in order of their names; any other path as it is."""
    if path == "-" or not Path(path).is_dir():
        yield path
        return
    for file in sorted(Path(path).rglob("*")):
        if file.name.endswith(_ENDINGS) and file.is_file():
            yield str(file)
