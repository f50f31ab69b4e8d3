"""*details*, *text* and *media* of a result (SPEC 5)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

_NONE: Final[dict[str, object]] = {}


class Compared(Struct, frozen=True, gc=False):
    """What counts of a result. ``row``: the row of SPEC 5; rows never equal each other.

    ``value`` is a list or an object, ``text`` a text beside it. ``drifts``: a failure whose text may hold volatile
    spans, so that it has a failure identity too (SPEC 5.1).
    """

    row: int
    value: object
    text: str = ""
    drifts: bool = False


def details_of(result: object) -> dict[str, object]:
    """The object in which ``status``, ``ok`` and the like are looked up. No copy; its ``content`` is no part of it."""
    if isinstance(result, dict):
        details = result.get("details")
        return details if isinstance(details, dict) else result
    return _NONE


def only_details(result: object, details: dict[str, object]) -> dict[str, object]:
    """*details* in full: without the ``content`` where they are the result itself."""
    if details is result and "content" in details:
        return {key: item for key, item in details.items() if key != "content"}
    return details


def text_and_media(result: dict[str, object]) -> tuple[str, list[object]]:
    """All text of an object, trimmed, and the blocks of its ``content`` that carry none.

    A ``content`` that is neither text nor blocks counts as one of the latter, as it is.
    """
    content = result.get("content")
    if isinstance(content, str):
        return content.strip(), []
    media: list[object] = []
    if isinstance(content, (list, tuple)):
        found: str | None = None
        texts: list[str] = []
        for block in content:
            text = block.get("text") if isinstance(block, dict) else None
            if not isinstance(text, str):
                media.append(block)
            elif found is None:
                found = text
            else:
                texts.append(text)
        if found is not None:
            return ("\n".join((found, *texts)) if texts else found).strip(), media
    elif content is not None:
        media.append(content)
    text = result.get("text")
    return text.strip() if isinstance(text, str) else "", media


def text_of(result: object) -> str:
    """All text of a result, trimmed."""
    if isinstance(result, dict):
        return text_and_media(result)[0]
    return result.strip() if isinstance(result, str) else ""


def string(value: object) -> str:
    """A string as it is, anything else as the empty one."""
    return value if isinstance(value, str) else ""
