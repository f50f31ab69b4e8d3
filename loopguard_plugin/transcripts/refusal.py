"""What to say of a file from which no call could be read: what it looks like, and what to do.

A file that plays as nothing looks the same as a session in which nothing is wrong. So it is never passed over.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Final

from ..events import ToolCallStarted
from .archive import Members, Tables
from .detect import sight, tell
from .items import Placed
from .registry import FORMATS
from .source import Source
from .talk import Talks
from .values import Object, as_list, as_object, inner, kind

_MOST_KEYS = 6


def unknown(source: Source) -> str:
    """For a file of no known format."""
    values = sight(source)
    if values and isinstance(values[0], (Tables, Members)) and values[0].problem:
        return values[0].problem
    if foreign := foreign_of(values):
        return f"this is {foreign}, which is not read"
    text = source.archive() is None and not source.by_lines()
    broken = source.document()[1] if text else None
    told = "cannot tell the format; name it with --format, if it is one that is read (a wrong name lists them all)"
    if broken:
        return f"{told}; as one JSON document: {broken}"
    return f"{told}; {shape}" if (shape := _shape(values)) else told


def nothing_found(name: str, values: list[object], *, lines: int, chosen: bool) -> str:
    """For a file that was read as ``name`` and holds no call. ``chosen``: the caller named the format.

    ``lines``: how many lines were read; 0 for a document.
    """
    form = FORMATS[name]
    told = "as --format says" if chosen else f"told by {form.sign}"
    much = _amount(values) if len(values) == 1 and lines <= 1 else f"{lines} line{'s' * (lines != 1)}"
    text = f"read as {form.called} ({told}): {much}, no tool call"
    if foreign := foreign_of(values):
        return f"{text}; this looks like {foreign}, which is not read"
    if other := tell(values, but=name) if chosen else better(name, values):
        return f"{text}; this looks like {FORMATS[other].called}: --format {other}"
    return f"{text}; {_shape(values)}" if chosen else text


def suspicious(name: str, values: list[object]) -> bool:
    """Whether a file without calls may be one of another format, rather than a talk without tools."""
    return bool(foreign_of(values)) or better(name, values) is not None


def better(name: str, values: list[object]) -> str | None:
    """Another format that fits and finds a call in these values, where ``name`` found none."""
    if not values or isinstance(values[0], (Tables, Members)):
        return None
    text = b"".join(json.dumps(value, default=str).encode() + b"\n" for value in values)
    for other, form in FORMATS.items():
        if other != name and any(map(form.fits, values)):
            items = form.read(Source(name, io.BytesIO(text)), Talks())
            if any(isinstance(item, Placed) and isinstance(item.event, ToolCallStarted) for item in items):
                return other
    return None


def foreign_of(values: list[object]) -> str:
    """The product or format that these values are of, if it is one that is known and not read."""
    for value in values:
        if isinstance(value, (Tables, Members)):
            held = sorted(value.columns if isinstance(value, Tables) else value.names)
            what = "a SQLite database with the tables" if isinstance(value, Tables) else "a ZIP archive with"
            return f"{what} {_listed(held)}" if tell([value]) is None else ""
        for fields in (as_object(value), *inner(value, "messages")):
            for called, fits in _FOREIGN:
                if fits(fields):
                    return called
    return ""


_FOREIGN: Final[tuple[tuple[str, Callable[[Object], bool]], ...]] = (
    ("a ChatGPT data export", lambda one: "mapping" in one and ("current_node" in one or "title" in one)),
    ("a claude.ai data export", lambda one: "chat_messages" in one),
    ("a LangSmith run", lambda one: "run_type" in one and "inputs" in one),
    ("a HAR file of a browser", lambda one: "entries" in as_object(one.get("log"))),
    ("a Jaeger trace (export it as OTLP)", lambda one: any("traceID" in trace for trace in inner(one, "data")[1:])),
    ("an AutoGen message", lambda one: "models_usage" in one and "source" in one),
    (
        "a message of the Vercel AI SDK's user interface",
        lambda one: any(str(as_object(part).get("type")).startswith("tool-") for part in as_list(one.get("parts"))),
    ),
)


def _shape(values: list[object]) -> str:
    """What the first value is, in a few words: kinds and names of keys, no contents."""
    if not values:
        return "no line of it is JSON"
    first = values[0]
    if isinstance(first, list):
        return f"it is a list of {len(first)}, the first of them {_kind(first[0])}" if first else "it is an empty list"
    return f"its first value is {_kind(first)}"


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return f"an object with the keys {_listed(list(value))}" if value else "an empty object"
    return kind(value)


def _amount(values: list[object]) -> str:
    if isinstance(values[0], (Tables, Members)):
        return "a database" if isinstance(values[0], Tables) else f"{len(values[0].names)} files"
    listed = max((len(one) for one in (_list_in(value) for value in values)), default=0)
    return f"{listed} entr{'y' if listed == 1 else 'ies'}" if listed else "one document"


def _list_in(value: object) -> list[object]:
    """The longest list that a document is or holds."""
    return value if isinstance(value, list) else max(map(as_list, as_object(value).values()), key=len, default=[])


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_KEYS
    told = ", ".join(name[:40] for name in names[:_MOST_KEYS]) or "nothing in it"
    return f"{told} and {more} more" if more > 0 else told
