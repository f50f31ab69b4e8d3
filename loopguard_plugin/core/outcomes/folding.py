"""Texts as the searches for volatile spans see them: one byte a character, letters in lower case, digits alike.

An expression that ignores case, or that begins with a digit or a word boundary, is tried at every character of a text.
In a folded text each kind of span has a literal that is rare (``0:00:00``, ``attempt``, ``0x``), and an expression that
begins with a literal is tried only where that literal stands. What has to stand before it, a lookbehind checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

Spans: TypeAlias = Iterable[tuple[int, int]]
"""Where spans begin and end, in order; they do not overlap."""
Find: TypeAlias = Callable[[bytes], Spans]
"""Finds all spans of one kind in a folded text."""
Kinds: TypeAlias = tuple[tuple[Find, str], ...]
"""Kinds of spans in the order in which they are replaced, each with the mark that takes its place."""

# What some characters are folded to.
LETTER: Final = 0xE0  # a letter or digit outside ASCII
WIDE: Final = ord("?")  # a character above U+00FF that is no white space: a letter, a digit or neither
OTHER: Final = ord("!")  # no part of a word and of no span

_WIDE_SPACES: Final = re.compile(
    "[" + "".join(map(chr, (0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000))) + "]"
)


def fold(char: str) -> int:
    """What a character up to U+00FF is folded to. White space other than the blank is folded to a tab."""
    if char in "0123456789":
        return ord("0")
    if char == "_" or (char.isascii() and char.isalpha()):
        return ord(char.lower())
    if char.isalnum():
        return LETTER
    if char.isspace() and char != " ":
        return ord("\t")
    return ord(char) if char in " :.+-#=" else OTHER


def narrowed(text: str) -> bytes:
    """One byte a character; a wide one becomes a tab if it is white space, else ``WIDE``."""
    return _WIDE_SPACES.sub("\t", text).encode("latin-1", "replace")


def find_all(pattern: re.Pattern[bytes], folded: bytes) -> Spans:
    """Where the expression matches."""
    return map(re.Match.span, pattern.finditer(folded))


def has_many_digits(folded: bytes) -> bool:
    """About one character in sixteen is a digit, or more."""
    return folded[::16].count(b"0") > 4 + (len(folded) >> 8)
