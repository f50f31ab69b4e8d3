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


def text_of(result: object) -> str:
    """All text of a result, trimmed."""
    if isinstance(result, str):
        return result.strip()
    if not isinstance(result, dict):
        return ""
    content = result.get("content")
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, (list, tuple)):
        texts = [text for block in content if (text := _block_text(block)) is not None]
        if texts:
            return "\n".join(texts).strip()
    text = result.get("text")
    return text.strip() if isinstance(text, str) else ""


def media_of(result: dict[str, object]) -> list[object]:
    """The blocks of ``content`` that carry no text; a ``content`` that is neither text nor blocks, as it is."""
    content = result.get("content")
    if isinstance(content, (list, tuple)):
        return [block for block in content if _block_text(block) is None]
    return [] if content is None or isinstance(content, str) else [content]


def _block_text(block: object) -> str | None:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else None


def string(value: object) -> str:
    """A string as it is, anything else as the empty one."""
    return value if isinstance(value, str) else ""
