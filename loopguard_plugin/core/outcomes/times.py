"""Where the spans of SPEC 5.1 stand: times, durations, attempts, process ids. Words are of all letters and digits."""

from __future__ import annotations

import re
from typing import Final

from .folding import WIDE, Kinds, Spans, find_all, fold, has_many_digits, narrowed

_FOLD: Final = bytes(map(fold, map(chr, range(256))))
_FOLD_WIDE: Final = _FOLD[:WIDE] + bytes((WIDE,)) + _FOLD[WIDE + 1 :]
_SAME: Final = (("\u017f", "s"), ("\u0130", "i"), ("\u0131", "i"))  # to an expression that ignores case

_IN_DATES: Final = re.compile(rb"-00-00")
_DATE: Final = re.compile(rb"0000-00-00[t ]00:00:00(?:\.0{1,6})?(?:z|[+-]00:00)?")
_IN_CLOCKS: Final = re.compile(rb":00:00")
_CLOCK: Final = re.compile(rb"0:00:00(?:\.0{1,6})?")  # and the digit before
_ATTEMPT: Final = re.compile(rb"attempt(?<![a-z0_\xe0]attempt)[\t #:=]++0++")
_RETRY: Final = re.compile(rb"retry(?<![a-z0_\xe0]retry)[\t #:=]++0++")
_PID: Final = re.compile(rb"pid(?:(?<![a-z0_\xe0]pid)|(?<=ppid)(?<![a-z0_\xe0]ppid))[\t #:=]++0++")

_DURATION: Final = re.compile(
    rb"0(?<![a-z0_\xe0]0)0*+(?:\.0++)?[\t ]?(?:[num]?s|seconds?|minutes?|hours?)(?![a-z0_\xe0])"
)
# The same for a text that is read backwards: it begins with the end of the unit.
_BACKWARDS: Final = rb"%b(?<![a-z0_\xe0]%b)%b[\t ]?0++(?:\.0++(?![a-z0_\xe0])|(?![a-z0_\xe0]))"
_NOITARUD: Final = re.compile(_BACKWARDS % (b"s", b"s", b"(?:[num]|dnoces|etunim|ruoh)?"))
_SINGULAR: Final = tuple(
    (unit, re.compile(_BACKWARDS % (unit[::-1], unit[::-1], b""))) for unit in (b"second", b"minute", b"hour")
)


def folded(text: str) -> bytes:
    """The text as the functions below search it; as long as the text."""
    try:
        return text.encode("latin-1").translate(_FOLD)
    except UnicodeEncodeError:
        for letter, same in _SAME:
            text = text.replace(letter, same)
        return narrowed(text).translate(_FOLD_WIDE)


def _dates(folded: bytes) -> Spans:
    return find_all(_DATE, folded) if _IN_DATES.search(folded) else ()


def _clocks(folded: bytes) -> Spans:
    if not _IN_CLOCKS.search(folded):
        return ()
    spans = []
    done = 0
    for start, end in find_all(_CLOCK, folded):
        spans.append((start - 1 if start > done and folded[start - 1] == ord("0") else start, end))
        done = end
    return spans


def _attempts(folded: bytes) -> Spans:
    if b"attempt" not in folded:
        return find_all(_RETRY, folded) if b"retry" in folded else ()
    if not _RETRY.search(folded):
        return find_all(_ATTEMPT, folded)
    return sorted([*find_all(_ATTEMPT, folded), *find_all(_RETRY, folded)])


def _durations(folded: bytes) -> Spans:
    if not has_many_digits(folded):
        return find_all(_DURATION, folded)
    # Words that end like a unit are rarer than digits.
    backwards = folded[::-1]
    spans = [*find_all(_NOITARUD, backwards)]
    for unit, pattern in _SINGULAR:
        if unit in folded:
            spans += find_all(pattern, backwards)
            spans.sort()
    size = len(folded)
    return [(size - end, size - start) for start, end in reversed(spans)]


def _pids(folded: bytes) -> Spans:
    if b"pid" not in folded:
        return ()
    spans = find_all(_PID, folded)
    if b"ppid" in folded:
        return [(start - (folded[start - 1 : start] == b"p"), end) for start, end in spans]
    return spans


TIMES: Final[Kinds] = (
    (_dates, "\x01"),
    (_clocks, "\x02"),
    (_attempts, "\x03"),
    (_durations, "\x04"),
    (_pids, "\x05"),
)
"""The kinds (a) to (e) of SPEC 5.1, in their order."""
