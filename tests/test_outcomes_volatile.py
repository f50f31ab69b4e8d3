"""Failure identity: volatile spans of a failure's text (SPEC 5.1, 5.1b), and that the fast way is the plain way."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from enum import StrEnum
from itertools import pairwise
from typing import Any

import pytest
from cases import SHARED
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopguard_plugin.core.outcomes import ids, times
from loopguard_plugin.core.outcomes.volatile import value_without_volatile, without_spans, without_volatile

# Written down anew from the contract, with the mark that stands for each span.
CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
PLAIN_SPANS = (
    (rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:T| ){CLOCK}(?:Z|(?:\+|-)[0-9]{{2}}:[0-9]{{2}})?", "\x01"),
    (r"[0-9][0-9]?:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?", "\x02"),
    (r"\b(?:attempt|retry)\b(?:\s|#|:|=)*[0-9]+", "\x03"),
    (r"(?<!\w)[0-9]+(?:\.[0-9]+)?\s?(?:ns|us|ms|s|second|seconds|minute|minutes|hour|hours)\b", "\x04"),
    (r"\b(?:pid|ppid)\b(?:\s|#|:|=)*[0-9]+", "\x05"),
)
ALONE = (r"(?<![a-zA-Z0-9_])", r"(?![a-zA-Z0-9_])")  # not inside a longer word
HEX = "[0-9a-fA-F]"
BOTH = "(?=[0-9]*[a-zA-Z])(?=[a-zA-Z]*[0-9])"  # a letter and a digit
NAMES = "(?:x-)?(?:request|trace|correlation|span)[ _-]?id"
PLAIN_IDS = (
    (f"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}".join(ALONE), "\x06"),
    (f"0[xX]{HEX}+".join(ALONE), "\x07"),
    (f"{BOTH}(?:[0-9a-zA-Z]{{16,}}|{HEX}{{12,}})".join(ALONE), "\x08"),
    (rf"({ALONE[0]}(?<![a-zA-Z0-9_]-)(?ai:{NAMES}){ALONE[1]}[\s\"'`:=#]*)[a-zA-Z0-9_.-]+", "\\1\x0e"),
)


def plainly_without_spans(text: str) -> str:
    """The five substitutions of SPEC 5.1, one after another."""
    for pattern, mark in PLAIN_SPANS:
        text = re.sub(pattern, mark, text, flags=re.IGNORECASE)
    return text


def plainly_without_volatile(text: str) -> str:
    """The same, and then the four of SPEC 5.1b."""
    text = plainly_without_spans(text)
    for pattern, mark in PLAIN_IDS:
        text = re.sub(pattern, mark, text)
    return text


# --- Spans of 5.1 ---


@pytest.mark.parametrize(
    "text",
    [
        *("2026-08-30T10:20:10Z", "2026-08-30 10:20:10.123456+02:00", "2026-08-30t10:20:10z", "9:59:59", "12:00:00.5"),
        *("attempt 1", "Retry: 2", "RETRY=3", "attempt # 4", "attempt\n5", "pid 1", "PPID=2", "pid:3"),
        *("5s", "5 ms", "1.25s", "1 second", "7 Seconds", "30 minutes", "2 hours", "3us", "4ns", "5seconds-ish"),
        *("attempt" + " " * 500 + "1", "pid" + "#:= " * 40 + "1", "5\u2009ms", "retry\u3000#1"),
    ],
)
def test_volatile(text: str) -> None:
    """One character stands for the whole span, at the ends of a text and in the middle of it."""
    for before, after in (("", ""), ("failed: ", " again"), ("(", ")"), ("\U0001f600", "\U0001f600")):
        settled = without_spans(f"{before}{text}{after}")
        assert not re.search("[0-9]", settled)
        assert len(settled) < len(f"{before}{text}{after}")


@pytest.mark.parametrize(
    "text",
    [
        *("2026-08-30", "10:20", "attempts 1", "attempt (1)", "attempt1", "xattempt 1", "pid[1]", "spid 1"),
        *("5  ms", "5 min", "5h", "5 days", "a5s", "_5s", "5sx", "5%", "errno 111", "line 10", "0x1f"),
        *("no digits", "", "HTTP 500", "port 8080", "\u0665s", "\u00e95s", "\u65f65s", "5s\u65f6"),
    ],
)
def test_not_volatile(text: str) -> None:
    """All other text and numbers count."""
    assert without_spans(text) == text
    assert without_spans(f"it was {text}.") == f"it was {text}."


def test_kinds_of_spans_differ() -> None:
    """A duration where a process id stood is another failure."""
    settled = {without_spans(text) for text in ("2026-08-30 10:20:10", "10:20:10", "attempt 1", "5s", "pid 1")}
    assert len(settled) == 5


def test_every_white_space_is_known() -> None:
    """White space between a word and its number is what regular expressions take for it."""
    for space in filter(str.isspace, map(chr, range(0x110000))):
        text = f"attempt{space}1 or pid{space * 30}22 or request id{space}:{space}q1"
        assert without_spans(text) == plainly_without_spans(text) != text
        assert without_volatile(text) == plainly_without_volatile(text) != without_spans(text)


# --- Spans of 5.1b ---

UUID, OTHER_UUID = "123e4567-e89b-42d3-a456-426614174000", "99999999-AAAA-4BBB-8CCC-DDDDDDDDDDDD"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *((UUID, OTHER_UUID), (UUID, "abcdefab-abcd-abcd-abcd-abcdefabcdef"), ("0x1f", "0XDEADBEEF"), ("0x0", "0xa")),
        *(
            ("abcdefgh12345678", "ZYXWVUT987654321"),
            ("1a2b3c4d5e6f", "A1B2C3D4E5F60"),
            ("a" * 15 + "1", "1" * 99 + "b"),
        ),
        *(("request id 1", "request id 2"), ("Request-ID: abc", "Request-ID: x.y_z-9"), ("traceId='1'", "traceId='2'")),
        *(('x-request-id="a"', 'x-request-id="b"'), ("X-Span_Id=#1", "X-Span_Id=#2"), ("SPANID 1", "SPANID lost")),
        *(("--trace-id=a1", "--trace-id=b2"), ("correlation id:\u00a0a", "correlation id:\u00a0b")),
        *(("(at 10:00:01 after 5s)", "(at 11:00:02 after 7s)"), ("{'request_id': 'r1'}", "{'request_id': 'r2'}")),
    ],
)
def test_ids_are_volatile(one: str, other: str) -> None:
    """Two errors are equal that differ in an id, an address or a time; :func:`without_spans` leaves ids alone."""
    for before, after in (("", ""), ("lost ", " again"), ("<", ">"), ("\u00e9", "\u00e9"), ("\u6642", "\u6642")):
        assert without_volatile(f"{before}{one}{after}") == without_volatile(f"{before}{other}{after}")
        assert without_volatile(f"{before}{one}{after}!") != without_volatile(f"{before}{other}{after}?")
    assert ":00" in one or without_spans(one) == one


@pytest.mark.parametrize(
    "text",
    [
        *(
            "HTTP 500",
            "#00ff00",
            "1a2b3c4d5e6",
            "order 100000000000000001",
            "a" * 40,
            "abcdefabcdefabc",
            "abcdefgh1234567",
        ),
        *(f"job_{UUID}", f"{UUID}_", f"{UUID}0", UUID[1:], "0x", "0xfg", "10x1", "x0x1", "0x1_", "job_1a2b3c4d5e6f"),
        *("my_request_id=1", "request id", "request ids 1", "requests id 1", "request  id 1", "request\tid 1", "pid"),
        *("my-request-id=1", "a-x-trace-id 1", "xrequest-id 1", "backtrace id 1", "span-id \u00e9", "request/id 1"),
    ],
)
def test_other_words_count(text: str) -> None:
    """Codes, plain numbers, short hex, words inside longer words and other ids are part of the cause."""
    assert without_volatile(text) == text
    assert without_volatile(f"({text})") == f"({text})"


def test_the_words_of_an_id_stay() -> None:
    """A lost request is another failure than a lost trace; what follows an id counts."""
    assert without_volatile("X-Request-Id: q0z, busy") == "X-Request-Id: \x0e, busy"
    assert without_volatile('rejected (trace id="1.a-b_c")') == 'rejected (trace id="\x0e")'
    assert without_volatile("request id: trace-id=1") == "request id: \x0e=1"


def test_marks_are_no_part_of_a_word() -> None:
    """What stands for a span is no letter, digit, white space or sign, and each kind has its own."""
    texts = ("2026-08-30 10:20:10", "10:20:10", "retry 1", "5s", "pid 1", UUID, "0x1f", "1a2b3c4d5e6f", "traceid 1")
    marks = [without_volatile(text)[-1] for text in texts]
    assert len(set(marks)) == len(marks)
    assert not any(mark.isalnum() or mark.isspace() or mark.isprintable() for mark in marks)


# --- Values ---


def test_values() -> None:
    """All strings of a value lose their spans; numbers and keys stay as they are."""
    value = {"code": 500, "0x1f": ["0x1f", ("5s", {"a": None, "b": True, 7: "pid 7"})], "message": f"lost {UUID}"}
    settled = {"code": 500, "0x1f": ["\x07", ["\x04", {"a": None, "b": True, 7: "\x05"}]], "message": "lost \x06"}
    assert value_without_volatile(value) == settled
    assert value_without_volatile("5s") == "\x04"
    assert value_without_volatile(500) == 500


@pytest.mark.parametrize(
    "key",
    [
        *("request_id", "requestId", "X-Request-ID", "x-trace id", "traceId", "spanid", "CORRELATION-ID"),
        *("timestamp", "ts", "time", "date", "duration", "elapsed", "durationMs", "took", "Timestamp", "DURATIONMS"),
    ],
)
def test_volatile_keys(key: str) -> None:
    """Values under volatile keys are left out at any depth, whatever they are."""
    assert value_without_volatile({"a": [{key: [1], "b": {key: {"c": 1}}}]}) == {"a": [{"b": {}}]}


@pytest.mark.parametrize(
    "key", ["id", "request", "times", "my_request_id", "duration_ms", "uptime", "too\u043a", "\u017fpan_id", ""]
)
def test_other_keys_count(key: str) -> None:
    """Values under any other key count."""
    assert value_without_volatile({key: 1}) == {key: 1}


def test_nothing_but_json_is_touched() -> None:
    """Objects of a framework stay the very same; the value given is not changed; strings of a subclass are strings."""

    class Word(StrEnum):
        SPAN = "5s"

    thing = object()
    given_value = {"thing": thing, "word": Word.SPAN, "bytes": b"5s", "set": {"5s"}}
    settled = value_without_volatile(given_value)
    assert settled == {"thing": thing, "word": "\x04", "bytes": b"5s", "set": {"5s"}}
    assert given_value == {"thing": thing, "word": Word.SPAN, "bytes": b"5s", "set": {"5s"}}


def test_deep_and_cyclic_values() -> None:
    """A value may be as deep as it likes, and a value inside itself is so in the copy."""
    deep: list[object] = ["5s"]
    for _ in range(100_000):
        deep = [deep]
    inner: Any = value_without_volatile(deep)
    for _ in range(100_000):
        (inner,) = inner
    assert inner == ["\x04"]
    cyclic: dict[str, object] = {"a": "5s", "ts": 1}
    cyclic["self"] = cyclic
    copy: Any = value_without_volatile(cyclic)
    assert copy["self"] is copy is not cyclic
    assert copy.keys() == {"a", "self"}


def errors_of_cases() -> list[tuple[str, list[object]]]:
    """Each case of the wider collection that is about failures, with the errors (or whole failed results) in it."""
    path = SHARED / "wider.jsonl"
    cases = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()
    return [
        (case["name"], [event[kind] for event in case["events"] if kind in event][:40])
        for case in cases
        if case["name"].startswith(("volatile/", "counts/", "similar/"))
        for kind in ["result" if case["name"] == "volatile/result-object" else "error"]
    ]


@pytest.mark.skipif(not (SHARED / "wider.jsonl").exists(), reason="the wider collection is absent")
def test_errors_of_the_wider_cases() -> None:
    """Errors of a ``volatile`` case are equal but for their volatile parts, those of a ``counts`` case are not."""
    seen = 0
    for name, errors in errors_of_cases():
        settled = [value_without_volatile(error) for error in errors]
        counts = name.startswith("counts/") or name == "similar/status-code-counts"
        for one, other in pairwise(settled):
            assert (one != other) is counts, name
            seen += 1
    assert seen > 100


# --- The fast way is the plain way ---

PIECES = [
    *("attempt", "retry", "pid", "ppid", "PID", "Attempt", " ", "  ", "\t", "\n", "\u2003", "\x1c", "#", ":", "=", "-"),
    *(".", "+", "T", "Z", "x", "_", "?", "\u00e9", "\u0663", "\U0001f600", "\x01", "\x0e", " " * 13, " " * 70),
    *("\u017f", "\u0130", "\u0131", "\u212a", "\u00b5", "\u00b2", "\u65f6", "\u0436", "\xa0", "\u3000", "\ud800"),
    *("1", "12", "123", "1234567", "00:00:01", "2026-01-02", "+02:00", "2026-01-02T00:00:01", ".5", "a" * 9, "0:00:0"),
    *("s", "ms", "ns", "us", "second", "seconds", "minute", "minutes", "hours", "h", "S", "M\u017f", "m\u0131nute"),
    *(UUID, OTHER_UUID, UUID[:19], UUID[18:], "0x", "0X1f", "dead", "beef01", "a1b2c3d4e5f6", "abcdefgh", "ABCDEF12"),
    *("request", "id", "ID", "request id", "X-Request-Id", "trace_id", "spanId", "correlation-id", "x-", '"', "'", "`"),
    *('": "', "!", "/", "," * 3, "0" * 17, "f" * 30, "\u00e0", "p", "0"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)
"""Spans, parts of spans and what stands beside them, in any order."""
STAMPS = st.sampled_from(
    ["2026-01-02T03:04:05", "2026-01-02 03:04:05.123456Z", "2026-01-02t03:04:05-07:00", "1:02:03.4"]
)
SPANS = st.one_of(
    STAMPS,
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["attempt", "RETRY", "pid", "PPid"]),
        st.text(" \t#:=\u2003\xa0"),
        st.integers(0),
    ),
    st.builds(
        "{}{}{}".format,
        st.floats(0, 1e9).map(abs),
        st.sampled_from(["", " ", "\u3000"]),
        st.sampled_from(["s", "MS", "hours"]),
    ),
    st.uuids().map(str),
    st.integers(0).map(hex),
    st.text("0123456789abcdefABCDEF", min_size=11, max_size=20),
    st.text("019afgzAZ", min_size=15, max_size=20),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["request id", "x-trace_id", "SpanId"]),
        st.text(" \t\"'`:=#"),
        st.text("aZ09_.-"),
    ),
)
near_texts = st.lists(
    st.tuples(SPANS, st.sampled_from(["", "", " ", "_", "-", ".", ":", "a", "\u00e9", "\u65f6", "?", "\n"])).map(
        "".join
    ),
    max_size=8,
).map("".join)
"""Whole spans that touch each other or stand a character apart."""

MANY_DIGITS = "11 " * 60


@settings(max_examples=3000, deadline=None)
@given(texts | near_texts)
@example("12:00:01pid 5")
@example("attempt 12:00:01")
@example("5s.5secondsTms")
@example("h.1234567ns00:00:01")
@example("1 attempt" + " " * 100 + "2")
@example("attempt 5retry 6")
@example("12:34:56:07:08:09")
@example("2026-01-02T00:00:00.123456-01-01T00:00:00")
@example("2026-01-02T00:00:00+02:00:00:00")
@example("\u65f612.5ms")
@example("my_request_id=x-request-id=5")
@example("request_id=x-request-id=5")
@example(f"{UUID}-{UUID}")
def test_the_fast_way_is_the_plain_way(text: str) -> None:
    """Looking for the rare part of each span first changes nothing, in texts with few digits and with many."""
    for lead in ("", MANY_DIGITS):
        assert without_spans(lead + text) == plainly_without_spans(lead + text)
        assert without_volatile(lead + text) == plainly_without_volatile(lead + text)


@settings(max_examples=500, deadline=None)
@given(texts | near_texts)
@example("1:00:002:00:00")
def test_spans_are_in_order_and_do_not_overlap(text: str) -> None:
    """What the searches answer can be cut out piece by piece."""
    for folded, kinds in ((times.folded(text), times.TIMES), (ids.folded(text), ids.IDS)):
        assert len(folded) == len(text)
        for find, _ in kinds:
            ends = [place for span in find(folded) for place in span]
            assert ends == sorted(ends)
            assert all(start < end for start, end in find(folded))


@settings(max_examples=1000, deadline=None)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    """Of any script, with whatever white space."""
    assert without_spans(text) == plainly_without_spans(text)
    assert without_volatile(text) == plainly_without_volatile(text)


def test_long_runs() -> None:
    """A few thousand pieces at a time, most of them the same one."""
    rng = random.Random(11)
    for _ in range(40):
        often = rng.sample(PIECES, 3)
        text = "".join(rng.choices([*PIECES, *often * 60], k=2000))
        assert without_spans(text) == plainly_without_spans(text)
        assert without_volatile(text) == plainly_without_volatile(text)


# --- Time ---

HOSTILE = [
    *(
        "1",
        "1 ",
        "1.",
        "attempt ",
        "attempt  1",
        "pid   #",
        " " * 50 + "1",
        "00:00:0",
        "12 second",
        ":",
        "-",
        "0:",
        "\u65f61",
    ),
    *(
        "a",
        "a1",
        "_",
        "a" * 15 + "_",
        "0x",
        "0x1",
        "abcdef12-",
        "abcdef12-1234-",
        "id",
        "request id",
        "request id ",
        "w\u65f6",
    ),
    *(
        "my_request_id.",
        "x-request-id",
        "request-id=a.",
        "2026-01-02T",
        "-01-02",
        "attempt 1 2s",
        "1.1s",
        "?",
        "trace id:" + " " * 30,
    ),
]


@pytest.mark.parametrize("lead", ["", "1", "_", "pid", "my_request_id=", "\u65f6"])
def test_hostile_output_takes_linear_time(lead: str) -> None:
    """Eight times the text takes about eight times as long; the limit is wide, the square would be 64."""
    for piece in HOSTILE:
        small, large = lead + piece * (12_000 // len(piece)), lead + piece * (96_000 // len(piece))
        assert best(without_volatile, small) * 40 > best(without_volatile, large), piece


def best(work: Callable[[str], object], text: str) -> float:
    """Seconds of processor time, of the best of some; none so short that the clock decides."""
    taken = []
    for _ in range(5):
        began = time.process_time()
        work(text)
        taken.append(time.process_time() - began)
    return max(min(taken), 1e-4)
