"""Volatile spans of failures as plain substitutions (SPEC 5.1, 5.1b): the slow model's own reading."""

from __future__ import annotations

import re

ALONE, ENDS = r"(?<![A-Za-z0-9_])", r"(?![A-Za-z0-9_])"
NAMES = r"(?:request|trace|correlation|span)[_\- ]?id"
TIMES = [
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})?",
    r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?",
    r"\b(attempt|retry)\b[\s#:=]*[0-9]+",
    r"(?<![A-Za-z0-9_])[0-9]+(\.[0-9]+)?\s?(ns|us|ms|s|seconds?|minutes?|hours?)\b",
    r"\b(pid|ppid)\b[\s#:=]*[0-9]+",
]
IDS = [
    ALONE + r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}" + ENDS,
    ALONE + r"0x[0-9a-f]+" + ENDS,
    ALONE + r"(?=[0-9]*[a-z])(?=[a-z]*[0-9])([a-z0-9]{16,}|[0-9a-f]{12,})" + ENDS,
]
NAMED = re.compile(rf"((?<![A-Za-z0-9_])(?:x-)?{NAMES}{ENDS}[\s\"':=#]*)[A-Za-z0-9_.\-]+", re.IGNORECASE | re.ASCII)
KEYS = re.compile(
    rf"(x-)?{NAMES}|timestamp|ts|time|date|duration|elapsed|durationMs|took", re.IGNORECASE | re.ASCII
)


def without_times(text: str) -> str:
    """The text without the spans of 5.1."""
    for at, pattern in enumerate(TIMES):
        text = re.sub(pattern, chr(at + 1), text, flags=re.IGNORECASE | re.ASCII)
    return text


def without_volatile(text: str) -> str:
    """The text without the spans of 5.1 and 5.1b."""
    text = without_times(text)
    for at, pattern in enumerate(IDS):
        text = re.sub(pattern, chr(at + 6), text, flags=re.IGNORECASE | re.ASCII)
    return NAMED.sub("\\1\x0e", text)


def similar_value(value: object) -> object:
    """A JSON value without these spans and without volatile keys."""
    if isinstance(value, str):
        return without_volatile(value)
    if isinstance(value, list):
        return [similar_value(one) for one in value]
    if isinstance(value, dict):
        return {key: similar_value(one) for key, one in value.items() if not KEYS.fullmatch(key)}
    return value
