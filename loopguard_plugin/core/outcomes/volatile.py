"""A failure without its volatile spans: times, durations, attempts, process ids (SPEC 5.1), ids, addresses (5.1b).

Each kind of span is a substitution over the whole text, one kind after another; ``tests/test_outcomes_volatile.py`` has
them as plain ``re.sub`` passes, which these functions equal. Five such passes over 64 KiB cost more than all else the
guard does for a hundred calls; :mod:`.folding` tells what makes these cheap. What stands for a span is one character,
another one for each kind, that is no letter, digit, white space or sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import AnyStr, Final

from . import ids, times
from .folding import LETTER, WIDE, Find, Kinds, Spans, has_many_digits
from .without import without

_KEY: Final = re.compile(
    rf"(?:x-)?(?:{'|'.join(ids.NAMES)})[ _-]?id|timestamp|ts|time|date|duration|elapsed|durationms|took",
    re.IGNORECASE | re.ASCII,
)

_MARKS: Final = {ord(mark): "…" for _, mark in (*times.TIMES, *ids.IDS)}


def readable(text: str) -> str:
    """A text with its spans replaced, for a person to read: each is an ellipsis."""
    return text.translate(_MARKS)


def without_spans(text: str) -> str:
    """The text with the spans of SPEC 5.1 (a) to (e) replaced; equal for two texts that differ in nothing else."""
    folded = times.folded(text)
    return _replaced(text, folded, times.folded, times.TIMES) if b"0" in folded else text


def without_volatile(text: str) -> str:
    """The same, and then the spans of SPEC 5.1b (f) to (i) replaced.

    Of (i) the words, and the white space and signs after them, stay. Backticks are quotes too.
    """
    text = without_spans(text)
    return _replaced(text, ids.folded(text), ids.folded, ids.IDS)


def value_without_volatile(value: object) -> object:
    """A copy of a JSON value with the spans of all its strings replaced, and without volatile keys at any depth.

    Keys keep their text; a number counts unless its key is volatile. What is no JSON stays the very same object.
    """
    return without(value, _volatile_keys, without_volatile)


def _volatile_keys(fields: dict[str, object]) -> list[str]:
    return [key for key in fields if isinstance(key, str) and _KEY.fullmatch(key)]


def _replaced(text: str, folded: bytes, fold: Callable[[str], bytes], kinds: Kinds) -> str:
    """The text with one kind of span after another replaced."""
    if text.isascii() and has_many_digits(folded):
        return _many_replaced(text, folded, fold, kinds)
    for find, mark in kinds:
        spans = list(find(folded))
        if spans:
            if WIDE in folded:
                spans = _known(spans, find, folded, text)
            text = _cut(text, spans, mark)
            folded = _cut(folded, spans, b"!")
    return text


def _many_replaced(text: str, folded: bytes, fold: Callable[[str], bytes], kinds: Kinds) -> str:
    """The same where spans may be dense: then folding the text anew costs less than cutting them out of it twice."""
    shorter = text
    for find, mark in kinds:
        if shorter is not text:
            text = shorter
            folded = fold(text)
        shorter = _cut(text, find(folded), mark)
    return shorter


def _cut(text: AnyStr, spans: Spans, mark: AnyStr) -> AnyStr:
    """The text with a mark for each span; the very same if there are none."""
    pieces: list[AnyStr] = []
    done = 0
    for start, end in spans:
        pieces.append(text[done:start])
        done = end
    if not pieces:
        return text
    pieces.append(text[done:])
    return mark.join(pieces)


def _known(spans: list[tuple[int, int]], find: Find, folded: bytes, text: str) -> list[tuple[int, int]]:
    """The spans that are still found once it is known which wide characters beside them are letters or digits."""
    while True:
        letters = [
            at
            for start, end in spans
            for at in (start - 1, end)
            if 0 <= at < len(text) and folded[at] == WIDE and text[at].isalnum()
        ]
        if not letters:
            return spans
        known = bytearray(folded)
        for at in letters:
            known[at] = LETTER
        folded = bytes(known)
        spans = list(find(folded))
