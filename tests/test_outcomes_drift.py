"""Failure identity: volatile spans of a failing command's output (SPEC 5.1), and that the fast way is the plain way."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loopguard_plugin.core.outcomes.drift import replace_all, settle_drift

# Written down anew from the contract.
OBVIOUS = (
    (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T| )[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|(?:\+|-)[0-9]{2}:[0-9]{2})?",
        "\x01",
    ),
    (r"[0-9][0-9]?:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?", "\x02"),
    (r"\b(?:attempt|retry)\b(?:\s|#|:|=)*[0-9]+", "\x03"),
    (
        r"(?<![^\W])[0-9]+(?:\.[0-9]+)?\s?(?:ns|us|ms|s|second|seconds|minute|minutes|hour|hours)\b",
        "\x04",
    ),
    (r"\b(?:pid|ppid)\b(?:\s|#|:|=)*[0-9]+", "\x05"),
)


def obviously(text: str) -> str:
    for pattern, mark in OBVIOUS:
        text = re.sub(pattern, mark, text, flags=re.IGNORECASE)
    return text


@pytest.mark.parametrize(
    "text",
    [
        *("2026-08-30T10:20:10Z", "2026-08-30 10:20:10.123456+02:00", "2026-08-30t10:20:10z", "9:59:59", "12:00:00.5"),
        *("attempt 1", "Retry: 2", "RETRY=3", "attempt # 4", "attempt\n5", "pid 1", "PPID=2", "pid:3"),
        *("5s", "5 ms", "1.25s", "1 second", "7 Seconds", "30 minutes", "2 hours", "3us", "4ns", "5seconds-ish"),
        *("attempt" + " " * 500 + "1", "pid" + "#:= " * 40 + "1"),
    ],
)
def test_volatile(text: str) -> None:
    """One character stands for the whole span, at the ends of a text and in the middle of it."""
    for before, after in (("", ""), ("failed: ", " again"), ("(", ")")):
        settled = settle_drift(f"{before}{text}{after}")
        assert not re.search("[0-9]", settled)
        assert len(settled) < len(f"{before}{text}{after}")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2026-08-30",
            "10:20",
            "attempts 1",
            "attempt (1)",
            "attempt1",
            "xattempt 1",
            "pid[1]",
            "spid 1",
            "port 8080",
        ),
        *("5  ms", "5 min", "5h", "5 days", "a5s", "_5s", "5sx", "5%", "errno 111", "line 10", "0x1f"),
        *("no digits", "", "HTTP 500", "port 8080", "\u0665s"),
    ],
)
def test_not_volatile(text: str) -> None:
    """All other text and numbers count."""
    assert settle_drift(text) == text
    assert settle_drift(f"it was {text}.") == f"it was {text}."


def test_kinds_of_spans_differ() -> None:
    """A duration where a process id stood is another failure."""
    settled = {settle_drift(text) for text in ("2026-08-30 10:20:10", "10:20:10", "attempt 1", "5s", "pid 1")}
    assert len(settled) == 5


PIECES = [
    *("attempt", "retry", "pid", "ppid", "PID", "Attempt", " ", "  ", "\t", "\n", "\u2003", "\x1c", "#", ":", "=", "-"),
    *(".", "+", "T", "Z", "x", "_", "\u00e9", "\u017f", "\u0663", "\U0001f600", "\x06", "\x01", " " * 13, " " * 70),
    *("1", "12", "123", "1234567", "00:00:01", "2026-01-02", "+02:00", "2026-01-02T00:00:01", ".5", "a" * 9),
    *("s", "ms", "ns", "us", "second", "seconds", "minute", "minutes", "hours", "h", "S"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
@example("12:00:01pid 5")
@example("attempt 12:00:01")
@example("5s.5secondsTms")
@example("h.1234567ns00:00:01")
@example("1 attempt" + " " * 100 + "2")
def test_the_fast_way_is_the_plain_way(text: str) -> None:
    """Cutting out the surroundings of digits changes nothing."""
    assert settle_drift(text) == replace_all(text) == obviously(text)


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    """Of any script, with whatever white space."""
    assert settle_drift(text) == obviously(text)


def test_every_white_space_is_known() -> None:
    """White space between a word and its number is what regular expressions take for it."""
    for space in filter(str.isspace, map(chr, range(0x110000))):
        text = f"attempt{space}1 or pid{space * 30}22"
        assert settle_drift(text) == replace_all(text) != text


def test_hostile_output_takes_linear_time() -> None:
    """Eight times the text takes about eight times as long; the limit is wide, the square would be 64."""
    for piece in ("1", "1 ", "1.", "attempt ", "attempt  1", "pid   #", " " * 50 + "1", "00:00:0", "12 second"):
        assert best(piece * 2000) * 40 > best(piece * 16000), piece


def best(text: str) -> float:
    """Seconds of processor time, of the best of some; none so short that the clock decides."""
    taken = []
    for _ in range(7):
        began = time.process_time()
        settle_drift(text)
        taken.append(time.process_time() - began)
    return max(min(taken), 1e-4)
