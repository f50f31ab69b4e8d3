"""Volatile spans of a failing command's output: times, durations, attempts, process ids (SPEC 5.1).

Five substitutions over 64 KiB of output would cost more than all else the guard does for a hundred calls. But every
span holds digits, and few words do: so only the surroundings of digits are cut out and joined, the substitutions run
over those, and the pieces go back where they were.
"""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = r"\s?(?:[num]?s|seconds?|minutes?|hours?)"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"

# In this order, each over the whole text. What stands for a span is one character, another one for each kind, that is
# no part of a word and of no other span.
VOLATILE: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), mark)
    for pattern, mark in (
        (rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})?", "\x01"),
        (r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?", "\x02"),
        (r"\b(?:attempt|retry)\b[\s#:=]*+[0-9]++", "\x03"),
        (r"(?<!\w)[0-9]++(?:\.[0-9]++)?" + _UNITS + r"\b", "\x04"),
        (r"\bp?pid\b[\s#:=]*+[0-9]++", "\x05"),
    )
)
_BETWEEN: Final = "\x06"  # between pieces; like the marks

_DIGITS_ALIKE: Final = bytes(ord("0") if chr(code) in "0123456789" else 0 for code in range(256))
_GROUP: Final = re.compile(b"0(?:[^0]?0)*+")  # digits at most one character apart: no span reaches over more
_AFTER: Final = 9  # characters after the last digit that matter: white space, `minutes`, and one that ends the word
_WORD: Final = 8  # characters of `attempt`, and one before
_SPACES: Final = (*range(9, 14), *range(28, 33), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029)
_RUN: Final = "".join(map(chr, (*_SPACES, 0x202F, 0x205F, 0x3000))) + "#:="  # every white space, and three more
_ENDS: Final = frozenset("tTyYdD")  # of attempt, retry, pid
_SHORTEST_CLOCK: Final = len("0:00:00")
_UNIT: Final = re.compile(_UNITS + r"(?:\b|(?=[0-9]))", re.IGNORECASE)  # those digits may be a time, gone by then


def settle_drift(text: str) -> str:
    """The text with its volatile spans replaced; equal for two texts that differ in nothing else."""
    digits = text.encode("latin-1", "replace").translate(_DIGITS_ALIKE)
    if _BETWEEN in text:
        return replace_all(text)
    kept: list[str] = []
    pieces: list[str] = []
    done = first = last = 0
    for group in _GROUP.finditer(digits):
        start, end = group.span()
        begin = _begin(text, start) if start and text[start - 1] in _RUN else max(0, start - 1)
        if begin >= start - 1 and start >= last and not _may_drift(text, start, end):
            continue  # within the piece before, it has to stay whole
        if begin > last:
            if last:
                kept.append(text[done:first])
                pieces.append(text[first:last])
                done = last
            first = begin
        last = end + _AFTER
    if not last:
        return text
    kept.append(text[done:first])
    pieces.append(text[first:last])
    settled = replace_all(_BETWEEN.join(pieces)).split(_BETWEEN)
    return "".join(part for pair in zip(kept, settled, strict=True) for part in pair) + text[last:]


def replace_all(text: str) -> str:
    """The five substitutions, one after another: what :func:`settle_drift` must equal."""
    for pattern, mark in VOLATILE:
        text = pattern.sub(mark, text)
    return text


def _may_drift(text: str, start: int, end: int) -> bool:
    """Whether digits that no word leads to may be a time, or are followed by a unit."""
    return _UNIT.match(text, end) is not None or (end - start >= _SHORTEST_CLOCK and ":" in text[start:end])


def _begin(text: str, start: int) -> int:
    """Where what matters to a group of digits begins: one character before it, or before a word that leads to it."""
    reach = 8
    while True:
        before = text[max(0, start - reach) : start]
        word = before.rstrip(_RUN)
        if word:
            return max(0, start - len(before) + len(word) - _WORD) if word[-1] in _ENDS else start - 1
        if reach >= start:
            return start - 1
        reach *= 4
