"""Which format a transcript has, by looking at its content."""

from __future__ import annotations

from .registry import FORMATS
from .source import Source


def detect(source: Source) -> str | None:
    """The name of the format, or None if nothing known is in sight. Takes nothing off the source.

    Looks at up to fifty lines, so that a broken or foreign first line does not hide what the rest is.
    """
    if not source.head():
        return "events"  # nothing to read, nothing wrong
    return tell(sight(source))


def sight(source: Source) -> list[object]:
    """What there is to tell the format by: the values of the first lines, or the one document."""
    if (archive := source.archive()) is not None:
        return [archive]
    if not source.by_lines():
        return [source.document()[0]]
    return [value for values, _ in source.seen() for value in values]


def tell(values: list[object], *, but: str = "") -> str | None:
    """The first format that fits any of these values, ``but`` one."""
    for name, form in FORMATS.items():
        if name != but and any(map(form.fits, values)):
            return name
    return None
