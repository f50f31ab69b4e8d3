"""Wrapper nonces: the ids of untrusted-content wrappers, which change with every fetch and mean nothing (SPEC 5.3).

A wrapper is ``<<<EXTERNAL_UNTRUSTED_CONTENT id="0123456789abcdef">>>`` up to the ``<<<END_EXTERNAL_…`` marker with the
same id and the same escaping of its quotes, in one string. Only for comparing: this authenticates nothing.

Wrappers nest; they do not cross. Of ``A B /A /B`` the pair A is a wrapper, and the two markers of B are lone ones,
which count. Everything here takes time linear in the length of the text, whatever stands in it.
"""

from __future__ import annotations

import re
from typing import Final

# Text that every closing marker holds. Searching is fastest for a long text without small letters or blanks.
_CLOSING: Final = "<<<END_EXTERNAL_UNTRUSTED_CONTENT"

_MARKER: Final = re.compile(
    r'<<<(END_)?EXTERNAL_UNTRUSTED_CONTENT id=(\\*)"([0-9a-f]{16})(\\*)">>>',
)


def may_wrap(text: str) -> bool:
    """Whether the text could hold a wrapper; cheap, and never False where one is."""
    return "<" in text and _CLOSING in text


def split_at_ids(text: str) -> list[str] | None:
    """The text cut at the ids of its wrappers, which are left out; None where there is no wrapper."""
    spans = _id_spans(text)
    if not spans:
        return None
    pieces = []
    at = 0
    for start, end in sorted(spans):
        pieces.append(text[at:start])
        at = end
    pieces.append(text[at:])
    return pieces


def _id_spans(text: str) -> list[tuple[int, int]]:
    """Where the ids of wrappers stand, both ends of each.

    Opening markers wait on a stack; a closing one takes the innermost that it fits and makes lone those inside it.
    """
    spans: list[tuple[int, int]] = []
    waiting: list[tuple[tuple[str, int], tuple[int, int]]] = []
    places: dict[tuple[str, int], list[int]] = {}  # where each kind of opening marker stands in `waiting`
    for marker in _MARKER.finditer(text):
        closing, before, nonce, after = marker.groups()
        depth = len(before)
        if depth != len(after) or depth & (depth + 1):  # quotes are escaped by 0, 1, 3, 7… backslashes
            continue
        kind = (nonce, depth)
        if not closing:
            places.setdefault(kind, []).append(len(waiting))
            waiting.append((kind, marker.span(3)))
        elif places.get(kind):
            keep = places[kind][-1]
            spans += (waiting[keep][1], marker.span(3))
            while len(waiting) > keep:
                places[waiting.pop()[0]].pop()
    return spans
