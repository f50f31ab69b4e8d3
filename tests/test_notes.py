"""Where a note goes in a delivered result, and how often notes come (SPEC 2, 7)."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from loopguard_plugin.core.notes import KEYS, Buckets, append_note

TEXT = {"type": "text", "text": "found"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
NOTE = {"type": "text", "text": "note"}


@pytest.mark.parametrize(
    ("value", "noted"),
    [
        ("out", "out\n\nnote"),
        ("", "note"),
        ([TEXT, IMAGE], [TEXT, IMAGE, NOTE]),
        ({"content": [IMAGE], "details": {"n": 1}}, {"content": [IMAGE, NOTE], "details": {"n": 1}}),
        ({"content": [], "isError": True}, {"content": [NOTE], "isError": True}),
        ({"content": "out", "x": 1}, {"content": "out\n\nnote", "x": 1}),
        ({"rows": [1, 2]}, {"rows": [1, 2], "loopguard_note": "note"}),
        ({"content": [1, 2]}, {"content": [1, 2], "loopguard_note": "note"}),
        ({"content": None}, {"content": None, "loopguard_note": "note"}),
        ({}, {"loopguard_note": "note"}),
    ],
)
def test_note_has_its_place(value: object, noted: object) -> None:
    """Strings, block lists, objects around either, and other objects each get the note where SPEC 2 says."""
    assert append_note(value, "note") == noted


@pytest.mark.parametrize(
    "value", [7, 2.5, True, None, [1, 2], ["a"], (TEXT,), b"bytes", ValueError("x"), MappingProxyType({"a": 1})]
)
def test_anything_else_is_untouched(value: object) -> None:
    """Numbers, lists of other things, framework objects and exceptions are delivered as the very same object."""
    assert append_note(value, "note") is value


def test_nothing_is_changed_in_place() -> None:
    """The gateway's own object never changes, and what surrounds the note is the very same objects."""
    blocks = [TEXT]
    result = {"content": blocks, "details": {"n": 1}}
    noted = append_note(result, "note")
    assert result == {"content": [TEXT], "details": {"n": 1}}
    assert blocks == [TEXT]
    assert isinstance(noted, dict)
    assert noted["details"] is result["details"]
    assert noted["content"][0] is TEXT


def test_bucket_is_spent_once_in_ten() -> None:
    """A warning is emitted at its first count, then only when the count has reached the next ten."""
    buckets = Buckets()
    assert [count for count in range(3, 35) if buckets.spend("r", "key", count)] == [3, 10, 20, 30]


def test_keys_are_kept_apart_by_run_and_bounded() -> None:
    """Each run and each key has buckets of its own; the oldest of more than 256 is forgotten first."""
    buckets = Buckets()
    assert buckets.spend("r", 0, 10)
    assert buckets.spend("other", 0, 10)
    for key in range(1, KEYS - 1):
        assert buckets.spend("r", key, 10)
    assert not buckets.spend("r", 0, 10)
    assert buckets.spend("r", "one more", 10)
    assert buckets.spend("r", 0, 10)
    assert not buckets.spend("r", "one more", 10)


def test_run_that_ended_leaves_no_buckets() -> None:
    """Another run of the same name is warned afresh; the other runs of the session are not."""
    buckets = Buckets()
    assert buckets.spend("r", 0, 10)
    assert buckets.spend("other", 0, 10)
    buckets.forget("r")
    assert buckets.spend("r", 0, 10)
    assert not buckets.spend("other", 0, 10)
