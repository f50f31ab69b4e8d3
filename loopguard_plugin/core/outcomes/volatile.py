"""Volatile spans of a failure's text: times, durations, attempts, process ids (SPEC 5.1), ids and addresses (5.1b).

Each kind of span is a substitution over the whole text, one after another; ``tests/test_outcomes_volatile.py`` has them
as plain ``re.sub`` passes, which these functions equal. Nine passes over 64 KiB would cost more than all else the guard
does for a hundred calls, because regular expressions that ignore case, or that begin with a digit or a word boundary,
are tried at every character. So the text is *folded* first: one byte a character, letters in lower case, digits alike.
In the folded text each kind of span contains a literal that is rare (a colon, ``attempt``, ``0x``), and a pattern that
begins with a literal is tried only where that literal stands. What a pattern needs before its literal, a lookbehind
checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from .without import without

Spans: TypeAlias = list[tuple[int, int]]
"""Where spans begin and end; they do not overlap."""
Finder: TypeAlias = Callable[[bytes], Spans]
"""Finds the spans of one kind in a folded text."""

_DIGIT: Final = ord("0")
_LETTER: Final = 0xE0  # any letter or digit outside ASCII
_OTHER: Final = ord("!")  # no part of any span, and no part of a word
_WIDE: Final = ord("?")  # a character above U+00FF, which the Latin-1 codec replaces


def _fold(code: int, digits: bytes, kept: bytes) -> int:
    """What a Latin-1 character is folded to: punctuation of ``kept`` stays, ``digits`` has a digit for each of ten."""
    char = chr(code)
    if char in "0123456789":
        return digits[int(char)]
    if char.isspace():
        return code if char == " " else ord("\t")
    if char == "_" or (char.isascii() and char.isalpha()):
        return ord(char.lower())
    if char.isalnum():
        return _LETTER
    return code if code in kept else _OTHER


_TABLE: Final = bytes(_fold(code, b"0" * 10, b":.-+#=") for code in range(256))
_WIDE_TABLE: Final = bytes(_WIDE if code == _WIDE else folded for code, folded in enumerate(_TABLE))
_ID_TABLE: Final = bytes(
    ord('"') if chr(code) in "\"'`" else _fold(code, b"0" + b"1" * 9, b":.-#=") for code in range(256)
)
_WIDE_SPACE: Final = re.compile(
    "[" + "".join(map(chr, (0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000))) + "]"
)
_SAME_LETTER: Final = (("\u017f", "s"), ("\u0130", "i"), ("\u0131", "i"))  # where case is ignored
_BESIDE_WORD: Final = re.compile(rb"\?(?=[a-z0_])|(?<=[a-z0_])\?")


def _folded(text: str) -> bytes:
    """The text as the patterns of 5.1 see it; as long as the text. Words are made of any letters and digits."""
    try:
        return text.encode("latin-1").translate(_TABLE)
    except UnicodeEncodeError:
        pass
    alike = _WIDE_SPACE.sub("\t", text)
    for letter, same in _SAME_LETTER:
        alike = alike.replace(letter, same)
    folded = bytearray(alike.encode("latin-1", "replace").translate(_WIDE_TABLE))
    for beside in _BESIDE_WORD.finditer(bytes(folded)):
        if text[beside.start()].isalnum():
            folded[beside.start()] = _LETTER
    return bytes(folded)


def _folded_ids(text: str) -> bytes:
    """The text as the patterns of 5.1b see it: words are made of ASCII letters and digits, ``0`` is told from ``1``."""
    try:
        return text.encode("latin-1").translate(_ID_TABLE)
    except UnicodeEncodeError:
        return _WIDE_SPACE.sub("\t", text).encode("latin-1", "replace").translate(_ID_TABLE)


_DATE: Final = re.compile(rb"-00-00(?<=0000-00-00)[t ]00:00:00(?:\.0{1,6})?(?:z|[+-]00:00)?")
_CLOCK: Final = re.compile(rb":(?<=0:)(?=(00:00(?:\.0{1,6})?))")
_ATTEMPT: Final = re.compile(rb"attempt(?<![a-z0_\xe0]attempt)[\t #:=]++0++")
_RETRY: Final = re.compile(rb"retry(?<![a-z0_\xe0]retry)[\t #:=]++0++")
_DURATION: Final = re.compile(
    rb"0(?<![a-z0_\xe0]0)0*+(?:\.0++)?[\t ]?(?:[num]?s|seconds?|minutes?|hours?)(?![a-z0_\xe0])"
)
_PID: Final = re.compile(rb"pid(?:(?<![a-z0_\xe0]pid)|(?<=ppid)(?<![a-z0_\xe0]ppid))[\t #:=]++0++")


def _dates(folded: bytes) -> Spans:
    spans: Spans = []
    done = 0
    for match in _DATE.finditer(folded):
        if match.start() - 4 >= done:  # else its year belongs to the date before
            done = match.end()
            spans.append((match.start() - 4, done))
    return spans


def _clocks(folded: bytes) -> Spans:
    spans: Spans = []
    done = 0
    for match in _CLOCK.finditer(folded):
        start = match.start() - 1
        if start >= done:  # else its hour belongs to the time before
            if start > done and folded[start - 1] == _DIGIT:
                start -= 1
            done = match.end(1)
            spans.append((start, done))
    return spans


def _attempts(folded: bytes) -> Spans:
    return [match.span() for pattern in (_ATTEMPT, _RETRY) for match in pattern.finditer(folded)]


def _durations(folded: bytes) -> Spans:
    return [match.span() for match in _DURATION.finditer(folded)]


def _pids(folded: bytes) -> Spans:
    return [
        (match.start() - (folded[match.start() - 1 : match.start()] == b"p"), match.end())
        for match in _PID.finditer(folded)
    ]


_UUID: Final = re.compile(
    rb"-(?<=[01a-f]{8}-)(?<![a-z01_][01a-f]{8}-)[01a-f]{4}-[01a-f]{4}-[01a-f]{4}-[01a-f]{12}(?![a-z01_])"
)
_ADDRESS: Final = re.compile(rb"0x(?<![a-z01_]0x)[01a-f]++(?![a-z01_])")
_IN_WORD: Final = bytes(ord("w") if chr(code) in "01abcdefghijklmnopqrstuvwxyz" else code for code in range(256))
_LONG: Final = re.compile(b"w" * 12 + rb"(?<![w_]w{12})w*+(?!_)")
_LONG_ENOUGH: Final = 16  # for a word that is not hexadecimal

_NAMES: Final = ("request", "trace", "correlation", "span")
_ID: Final = re.compile(
    (
        "id(?![a-z01_])(?:"
        + "|".join(f"(?<=({name}){between}id)" for name in _NAMES for between in ("[ _-]", ""))
        + ")"
    ).encode()
)
_BEGIN: Final = re.compile(rb"(?<![a-z01_])(?<![a-z01_]-)")
_VALUE: Final = re.compile(rb"[\t \":=#]*+([a-z01_.-]++)")
_KEY: Final = re.compile(
    rf"(?:x-)?(?:{'|'.join(_NAMES)})[ _-]?id|timestamp|ts|time|date|duration|elapsed|durationms|took",
    re.IGNORECASE | re.ASCII,
)


def _uuids(folded: bytes) -> Spans:
    return [(match.start() - 8, match.end()) for match in _UUID.finditer(folded)]


def _addresses(folded: bytes) -> Spans:
    return [match.span() for match in _ADDRESS.finditer(folded)]


def _long_words(folded: bytes) -> Spans:
    words = [match.span() for match in _LONG.finditer(folded.translate(_IN_WORD))]
    return [(start, end) for start, end in words if _is_id(folded[start:end])]


def _is_id(word: bytes) -> bool:
    if word.isalpha() or word.isdigit():
        return False
    return len(word) >= _LONG_ENOUGH or not word.strip(b"01abcdef")


def _named_ids(folded: bytes) -> Spans:
    spans: Spans = []
    done = 0
    for match in _ID.finditer(folded):
        start = match.start(match.lastindex or 0)
        if start < done:
            continue  # part of the id before
        if folded[max(0, start - 2) : start] == b"x-":
            start -= 2
        if start >= done and _BEGIN.match(folded, start):
            value = _VALUE.match(folded, match.end())
            if value:
                done = value.end()
                spans.append(value.span(1))
    return spans


# What stands for a span is one character, another one for each kind: no letter, digit, white space or sign.
_SPANS: Final[tuple[tuple[Finder, str], ...]] = (
    (_dates, "\x01"),
    (_clocks, "\x02"),
    (_attempts, "\x03"),
    (_durations, "\x04"),
    (_pids, "\x05"),
)
_IDS: Final[tuple[tuple[Finder, str], ...]] = (
    (_uuids, "\x06"),
    (_addresses, "\x07"),
    (_long_words, "\x08"),
    (_named_ids, "\x0e"),
)


_MARKS: Final = {ord(mark): "…" for _, mark in (*_SPANS, *_IDS)}


def readable(text: str) -> str:
    """A text with its spans replaced, for a person to read: each is an ellipsis."""
    return text.translate(_MARKS)


def without_spans(text: str) -> str:
    """The text with the spans of SPEC 5.1 (a) to (e) replaced; equal for two texts that differ in nothing else."""
    folded = _folded(text)
    if _DIGIT not in folded:
        return text
    return _replaced(text, folded, _SPANS)


def without_volatile(text: str) -> str:
    """The same, and then the spans of SPEC 5.1b (f) to (i) replaced."""
    text = without_spans(text)
    return _replaced(text, _folded_ids(text), _IDS)


def _replaced(text: str, folded: bytes, kinds: tuple[tuple[Finder, str], ...]) -> str:
    """The text with one kind of span after another replaced."""
    found: list[tuple[int, int, str]] = []
    for find, mark in kinds:
        spans = find(folded)
        if spans:
            found += [(start, end, mark) for start, end in spans]
            rest = bytearray(folded)
            for start, end in spans:
                rest[start:end] = b"!" * (end - start)
            folded = bytes(rest)
    if not found:
        return text
    found.sort()
    pieces: list[str] = []
    done = 0
    for start, end, mark in found:
        pieces += (text[done:start], mark)
        done = end
    pieces.append(text[done:])
    return "".join(pieces)


def value_without_volatile(value: object) -> object:
    """A copy of a JSON value with the spans of all its strings replaced, and without volatile keys at any depth.

    Keys keep their text; a number counts unless its key is volatile. What is no JSON stays the very same object.
    """
    return without(value, _volatile_keys, without_volatile)


def _volatile_keys(fields: dict[str, object]) -> list[str]:
    return [key for key in fields if isinstance(key, str) and _KEY.fullmatch(key)]
