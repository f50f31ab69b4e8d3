"""Where the spans of SPEC 5.1b stand: ids and addresses. Words are of ASCII letters and digits."""

from __future__ import annotations

import re
from typing import Final

from .folding import Kinds, Spans, find_all, fold, narrowed

NAMES: Final = ("request", "trace", "correlation", "span")
"""``NAME id`` is what leads to an id of any form."""


def _fold(char: str) -> int:
    if char in "123456789":
        return ord("1")  # unlike the 0 of 0x
    return ord('"') if char in "\"'`" else fold(char)


_FOLD: Final = bytes(map(_fold, map(chr, range(256))))

_UUID: Final = re.compile(
    rb"-(?<=[01a-f]{8}-)(?<![a-z01_][01a-f]{8}-)[01a-f]{4}-[01a-f]{4}-[01a-f]{4}-[01a-f]{12}(?![a-z01_])"
)
_ADDRESS: Final = re.compile(rb"0x(?<![a-z01_]0x)[01a-f]++(?![a-z01_])")

_HEX: Final = b"01abcdef"
_WORDS: Final = bytes(ord("w") if code in b"01abcdefghijklmnopqrstuvwxyz" else code for code in range(256))
_LONG: Final = b"w" * 12
_LONG_WORD: Final = re.compile(rb"%b(?<![w_]%b)w*+(?!_)" % (_LONG, _LONG))

_LEAD: Final = re.compile(
    b"id(?![a-z01_])(?:%b)"
    % "|".join(f"(?<=({name}{between}id))" for name in NAMES for between in ("[ _-]", "")).encode()
)
_BEGIN: Final = re.compile(rb"(?<![a-z01_])(?<![a-z01_]-)")
_VALUE: Final = re.compile(rb"[\t \":=#]*+([a-z01_.-]++)")


def folded(text: str) -> bytes:
    """The text as the functions below search it; as long as the text."""
    try:
        return text.encode("latin-1").translate(_FOLD)
    except UnicodeEncodeError:
        return narrowed(text).translate(_FOLD)


def _uuids(folded: bytes) -> Spans:
    return [(start - 8, end) for start, end in find_all(_UUID, folded)]


def _addresses(folded: bytes) -> Spans:
    return find_all(_ADDRESS, folded) if b"0x" in folded else ()


def _long_words(folded: bytes) -> Spans:
    words = folded.translate(_WORDS)
    if _LONG not in words:
        return ()
    return [
        (start, end)
        for start, end in find_all(_LONG_WORD, words)
        if not ((word := folded[start:end]).isalpha() or word.isdigit()) and (len(word) >= 16 or not word.strip(_HEX))
    ]


def _named_ids(folded: bytes) -> Spans:
    spans = []
    done = 0
    for lead in _LEAD.finditer(folded):
        start = lead.start(lead.lastindex or 0)
        if folded[max(0, start - 2) : start] == b"x-":
            start -= 2
        if start >= done and _BEGIN.match(folded, start):  # else it is part of the id before, or of a longer word
            value = _VALUE.match(folded, lead.end())
            if value:
                spans.append(value.span(1))
                done = value.end()
    return spans


IDS: Final[Kinds] = (
    (_uuids, "\x06"),
    (_addresses, "\x07"),
    (_long_words, "\x08"),
    (_named_ids, "\x0e"),
)
"""The kinds (f) to (i) of SPEC 5.1b, in their order."""
