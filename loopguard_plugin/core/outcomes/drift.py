"""Volatile spans of a failing command's output: times, durations, attempts, process ids (SPEC 5.1)."""

from __future__ import annotations

import re
from typing import Final

_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"

# In this order, each over the whole text. What stands for a span is one character that is in no word and in no output
# worth comparing, another one for each kind.
VOLATILE: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), mark)
    for pattern, mark in (
        (rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})?", "\x01"),
        (r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?", "\x02"),
        (r"\b(?:attempt|retry)\b[\s#:=]*+[0-9]++", "\x03"),
        (r"(?<!\w)[0-9]++(?:\.[0-9]++)?\s?(?:[num]?s|seconds?|minutes?|hours?)\b", "\x04"),
        (r"\bp?pid\b[\s#:=]*+[0-9]++", "\x05"),
    )
)


def settle_drift(text: str) -> str:
    """The text with its volatile spans replaced."""
    for pattern, mark in VOLATILE:
        text = pattern.sub(mark, text)
    return text
