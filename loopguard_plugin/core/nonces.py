"""Wrapper nonces: the ids of untrusted-content wrappers, which change with every fetch and mean nothing (SPEC 5.3).

A wrapper is ``<<<EXTERNAL_UNTRUSTED_CONTENT id="0123456789abcdef">>>`` up to the ``<<<END_EXTERNAL_…`` marker with the
same id and the same escaping of its quotes, in one string. Only for comparing: this authenticates nothing.

Wrappers nest; they do not cross. Of ``A B /A /B`` the pair A is a wrapper, and the two markers of B are lone ones,
which count. Everything here takes time linear in the length of the text, whatever stands in it.
"""

from __future__ import annotations

import re
from typing import Final

# Text that every closing marker holds, and its end from the first X on.
_CLOSING: Final = "<<<END_EXTERNAL_UNTRUSTED_CONTENT"
_FROM_X: Final = "XTERNAL_UNTRUSTED_CONTENT"
_SHORT: Final = 2048
_CLOSING_BYTES: Final = _CLOSING.encode()
OPEN_BRACKET: Final = ord("<")

# One wrapper around all of the text, which is how nearly every wrapped result looks.
_OPENING: Final = re.compile(rb'<<<EXTERNAL_UNTRUSTED_CONTENT id="([0-9a-f]{16})">>>')
_BEFORE_ID: Final = len('<<<EXTERNAL_UNTRUSTED_CONTENT id="')
_AFTER_ID: Final = _BEFORE_ID + 16
_CLOSING_END: Final = len('">>>')
_FROM_X_BYTES: Final = _FROM_X.encode()

_MARKER: Final = re.compile(
    r'<<<(END_)?EXTERNAL_UNTRUSTED_CONTENT id=(\\*)"([0-9a-f]{16})(\\*)">>>',
)


def may_wrap(text: str) -> bool:
    """Whether the text could hold a wrapper; cheap, and never False where one is.

    Looking for one character is ten times as fast as looking for a word, and X is rare; where it is not, the word.
    """
    if "<" not in text:
        return False
    if len(text) < _SHORT:
        return _CLOSING in text
    at = text.find("X")
    allowance = _SHORT
    while at >= 0:
        if text.startswith(_FROM_X, at):
            return _CLOSING in text
        if at < allowance:  # more than one X in 2048 characters: the word is the faster thing to look for
            return _CLOSING in text
        allowance += _SHORT
        at = text.find("X", at + 1)
    return False


def may_wrap_bytes(data: bytes) -> bool:
    """:func:`may_wrap` for text in UTF-8."""
    return OPEN_BRACKET in data and data.find(_CLOSING_BYTES) >= 0  # `in` for bytes in bytes takes four times as long


def without_outer_ids(data: bytes, mark: bytes) -> bytes | None:
    """Text in UTF-8 with ``mark`` for the ids of the wrapper that all of it is in; None unless that is the only one."""
    opening = _OPENING.match(data)
    if opening is None:
        return None
    closing = b'%s id="%s">>>' % (_CLOSING_BYTES, opening[1])
    end = len(data) - len(closing)
    if not data.endswith(closing) or data.find(_FROM_X_BYTES, _BEFORE_ID, end) >= 0:
        return None
    last_id = len(data) - _CLOSING_END - 16
    return mark.join((data[:_BEFORE_ID], data[_AFTER_ID:last_id], data[-_CLOSING_END:]))


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
