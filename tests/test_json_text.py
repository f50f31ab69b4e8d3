"""JSON from outside: whatever is JSON is read, the same on every way in (events, transcripts, hooks)."""

from __future__ import annotations

import json
import math
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopguard_plugin import EventError, decode_event
from loopguard_plugin.json_text import MAX_DEPTH, JSONError, may_be_deep, read_json, read_line, read_next
from loopguard_plugin.transcripts.values import json_text, json_values

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)), inner),
)
START = '{"type": "tool_call_started", "session_key": "s", "call_id": "c", "tool": "t", "args": %s}'


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_reads_what_the_standard_library_reads(value: object, indent: int | None, ascii_only: bool) -> None:
    """Any value that Python writes as JSON comes back the same, whichever of the two readers has it."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read_json(text) == read_next(text, 0)[0] == value


@given(st.text("[]{},:\"\\ 019.eE+-ntfalseru", max_size=12))
def test_refuses_what_the_standard_library_refuses(text: str) -> None:
    """Of broken JSON, no reader makes a value; both say where."""
    try:
        value = json.loads(text)
    except ValueError:
        with pytest.raises(JSONError, match="column"):
            read_json(text)
    else:
        assert read_json(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"\\ud83d"', "\ud83d"),
        ('{"\\ude00": ["\\ud83d x"]}', {"\ude00": ["\ud83d x"]}),
        ("1e309", math.inf),
        ("-1e400", -math.inf),
        ("Infinity", math.inf),
        ("1e-400", 0.0),
        ("7" * 30, int("7" * 30)),
        ("7" * 5000, Decimal("7" * 5000)),
        ("-" + "7" * 100_000, Decimal("-" + "7" * 100_000)),
        ("\ufeff[1]", [1]),
    ],
    ids=lambda value: str(type(value).__name__) if not isinstance(value, str) else ascii(value[:12]),
)
def test_json_that_readers_differ_about(text: str, value: object) -> None:
    """Lone surrogates, huge numbers and a byte order mark: read as text, as bytes, as a line, and inside an event."""
    assert read_json(text) == value
    assert read_line(text) == ([value], None)
    if "\\u" in text or text.isascii():
        assert read_json(text.encode()) == value
        assert json_values(text.encode()) == ([value], None)
        event: Any = decode_event(START % text)
        assert event.args == value
        assert decode_event((START % text).encode()) == event


def test_nan_is_read() -> None:
    """``NaN``, which Python writes, is no reason to lose an event."""
    event: Any = decode_event(START % "[NaN]")
    assert math.isnan(event.args[0])


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    """A text in another encoding is read as far as it goes, by the bus as in replay."""
    event: Any = decode_event((START % '"a?b"').encode().replace(b"?", b"\xe9"))
    assert event.args == "a\ufffdb"


@pytest.mark.parametrize("frames", [0, 600])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_has_one_limit_everywhere(opening: str, frames: int) -> None:
    """``MAX_DEPTH`` levels are read, one more is refused with that number, however deep the caller itself is."""
    closing = "]" if opening == "[" else "}"

    def nested(levels: int) -> str:
        return opening * levels + ("1" if opening != "[" else "") + closing * levels

    def run(left: int) -> None:
        if left:
            run(left - 1)
            return
        event: Any = decode_event(START % nested(MAX_DEPTH - 1))
        assert read_line(nested(MAX_DEPTH))[1] is None
        with pytest.raises(EventError, match=rf"^\(event\): column \d+: nested more than {MAX_DEPTH} levels deep$"):
            decode_event(START % nested(MAX_DEPTH))
        values, problem = read_line(nested(MAX_DEPTH + 1))
        assert values == []
        assert problem is not None
        assert f"nested more than {MAX_DEPTH} levels" in problem
        assert event.args is not None

    run(frames)


def test_a_field_that_nobody_reads_counts_for_depth() -> None:
    """Whether an event is read does not depend on the field that is nested too deeply."""
    with pytest.raises(EventError, match="nested more than"):
        decode_event((START % "1")[:-1] + f', "more": {deep(2000)}}}')


def test_many_brackets_are_not_depth() -> None:
    """A flat list of thousands of lists, or a text full of brackets, is read."""
    flat = json.dumps([[]] * 5000 + ["[" * 5000])
    assert may_be_deep(flat)
    assert may_be_deep(flat.encode())
    event: Any = decode_event(START % flat)
    assert len(event.args) == 5001


def test_a_limit_of_the_gateway_on_integers_is_no_error() -> None:
    """Where the interpreter takes fewer digits, the rest are decimals earlier."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(700)
    try:
        event: Any = decode_event(START % ("7" * 800))
    finally:
        sys.set_int_max_str_digits(limit)
    assert event.args == Decimal("7" * 800)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "column 1: not JSON: expecting value"),
        ("[1 2]", "column 4: not JSON: expected a comma or the end of the list"),
        ('{"a" 1}', "column 6: not JSON: expected a colon"),
        ("{a: 1}", "column 2: not JSON: expected a key in double quotes"),
        ('{"a": 1,}', "column 9: not JSON: expected a key in double quotes"),
        ("[1]]", "column 4: not JSON: more after the value"),
        ('[\n1,\n"x]', "line 3, column 1: not JSON: unterminated string starting at"),
    ],
)
def test_broken_json_is_told_with_its_place(text: str, told: str) -> None:
    """Line and column, from 1, and what was expected there."""
    with pytest.raises(JSONError) as caught:
        read_json(text)
    assert str(caught.value) == told


def test_texts_inside_texts_keep_their_surrogates() -> None:
    """Call arguments that are JSON text in a transcript are read as the line around them."""
    assert json_text('{"a": "\ud83d"}') == {"a": "\ud83d"}
    assert json_text("no \ud83d JSON") == "no \ud83d JSON"


def test_nul_bytes_are_no_blank_line() -> None:
    """A line of NUL bytes is told; beside a value they are what a crash left, and the value counts."""
    assert json_values(b"\0\0\0\n") == ([], "3 NUL bytes and nothing else")
    assert json_values(b"\0\0[1]\0\n") == ([[1]], None)
