"""The lines of a transcript as JSON objects."""

from __future__ import annotations

from collections.abc import Iterator

from .items import Unreadable
from .source import Source
from .values import Object, json_values, kind

_COMMENTS = (b"#", b"//")


def objects(source: Source) -> Iterator[tuple[int, Object] | Unreadable]:
    """``(line, object)`` for every object, and what could not be read, in order. Comment lines are passed over."""
    for line, text in source.lines():
        if text.lstrip().startswith(_COMMENTS):
            continue
        values, problem = json_values(text)
        for value in values:
            if isinstance(value, dict):
                yield line, value
            else:
                yield Unreadable(line, f"expected a JSON object, found {kind(value)}")
        if problem is not None:
            yield Unreadable(line, f"expected a JSON object: {problem}")
