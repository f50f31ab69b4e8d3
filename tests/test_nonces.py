"""Wrapper nonces: ids of untrusted-content wrappers do not count, everything else does (SPEC 5.3)."""

from __future__ import annotations

import json
import random
import re
import string
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopguard_plugin.core.fingerprint import canonical, text_bytes
from loopguard_plugin.core.nonces import may_wrap, may_wrap_bytes, split_at_ids
from loopguard_plugin.core.observe import observe_call
from loopguard_plugin.settings_resolved import DEFAULTS

A, B, C = "0123456789abcdef", "fedcba9876543210", "00000000deadbeef"


def opening(nonce: str) -> str:
    return f'<<<EXTERNAL_UNTRUSTED_CONTENT id="{nonce}">>>'


def closing(nonce: str) -> str:
    return f'<<<END_EXTERNAL_UNTRUSTED_CONTENT id="{nonce}">>>'


def wrapped(nonce: str, text: str = "page") -> str:
    return f"{opening(nonce)}\nSource: Web\n---\n{text}\n{closing(nonce)}"


def alike(one: str, other: str) -> bool:
    return text_bytes(one) == text_bytes(other)


markers = [make(nonce) for make in (opening, closing) for nonce in (A, B)]
broken = [opening(A)[:-1], closing(A)[1:], opening("0123"), opening(A).replace('"', '\\"'), "XTERNAL_UNTRUSTED_CONTENT"]
marked = st.lists(st.sampled_from([*markers, *broken, "\n", "page", "\u00e9", "\ud800"]), max_size=6)


@given(marked, st.booleans())
def test_one_wrapper_around_all_is_no_other_case(pieces: list[str], around: bool) -> None:
    """A text in one wrapper is written as any text with wrappers in it."""
    text = "".join([opening(A), *pieces, closing(A)] if around else pieces)
    cut = split_at_ids(text) or [text]
    assert text_bytes(text) == b"\xff".join(piece.encode("utf-8", "surrogatepass") for piece in cut)


@pytest.mark.parametrize("escapes", range(4))
def test_ids_do_not_count_at_any_depth_of_quotes(escapes: int) -> None:
    """JSON text inside JSON text, each time with its quotes escaped once more."""
    one, other = wrapped(A), wrapped(B)
    for _ in range(escapes):
        one, other = json.dumps({"text": one}), json.dumps({"text": other})
    assert one != other
    assert alike(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (wrapped(A, wrapped(B)), wrapped(B, wrapped(C))),
        (wrapped(A, wrapped(A)), wrapped(B, wrapped(B))),
        (wrapped(A) + wrapped(B), wrapped(B) + wrapped(A)),
        (wrapped(A, opening(C)), wrapped(B, opening(C))),
        (wrapped(A, closing(C)), wrapped(B, closing(C))),
        (wrapped(A, 'a "quoted" word'), wrapped(B, 'a "quoted" word')),
    ],
    ids=["nested", "nested with one id", "side by side", "lone opening inside", "lone closing inside", "quotes inside"],
)
def test_ids_of_wrappers_do_not_count(one: str, other: str) -> None:
    """However wrappers nest and whatever stands in them."""
    assert alike(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (wrapped(A, "page"), wrapped(A, "pages")),
        (wrapped(A), wrapped(A).replace("Web", "Browser")),
        (opening(A), opening(B)),
        (closing(A), closing(B)),
        (opening(A) + closing(B), opening(B) + closing(A)),
        (closing(A) + opening(A), closing(B) + opening(B)),
        (opening(A) + opening(B) + closing(A) + closing(B), opening(A) + opening(C) + closing(A) + closing(C)),
        (wrapped(A, opening(B)), wrapped(A, opening(C))),
        (wrapped(A.upper()), wrapped(B.upper())),
        (wrapped(A[:-1]), wrapped(B[:-1])),
        (wrapped(A + "0"), wrapped(B + "0")),
        (wrapped(A).replace('"', "'"), wrapped(B).replace('"', "'")),
        (wrapped(A).replace(" id", "  id"), wrapped(B).replace(" id", "  id")),
        (wrapped(A).replace('"', r"\\" + '"'), wrapped(B).replace('"', r"\\" + '"')),
        (wrapped(A).replace('">>>\n', '\\">>>\n', 1), wrapped(B).replace('">>>\n', '\\">>>\n', 1)),
        (opening(A) + closing(A).replace('"', '\\"'), opening(B) + closing(B).replace('"', '\\"')),
        (wrapped(A), wrapped("")),
        (wrapped(A), "page"),
    ],
    ids=[
        *("payload", "source line", "lone opening", "lone closing", "mismatch", "backwards", "crossing", "lone inside"),
        *("capitals", "short id", "long id", "other quotes", "two blanks", "two backslashes", "unequal quotes"),
        *("unequal ends", "no id", "no wrapper"),
    ],
)
def test_all_else_counts(one: str, other: str) -> None:
    """Payload, other spellings, lone and mismatched markers."""
    assert not alike(one, other)


def test_values_are_masked_in_strings_and_keys() -> None:
    """Strings and keys at any depth, one string at a time: a wrapper does not reach from one field into another."""

    def seen(value: object) -> bytes:
        return canonical(value, ignore_nonces=True)

    assert seen({"a": [{"b": wrapped(A)}]}) == seen({"a": [{"b": wrapped(B)}]})
    assert seen({wrapped(A): 1, "z": 2}) == seen({"z": 2, wrapped(B): 1})
    assert seen({wrapped(A, "1"): 1, wrapped(B, "2"): 2}) == seen({wrapped(B, "1"): 1, wrapped(A, "2"): 2})
    assert seen({wrapped(A): 1, wrapped(B): 2}) == seen({wrapped(B): 1, wrapped(C): 2})
    assert seen({wrapped(A): 1, wrapped(B): 2}) != seen({wrapped(A): 1, wrapped(B): 3})
    assert seen({"a": opening(A), "b": closing(A)}) != seen({"a": opening(B), "b": closing(B)})
    assert seen([wrapped(A), 1.0, {"k": None}]) == seen([wrapped(B), 1, {"k": None}])


def test_ids_count_in_arguments() -> None:
    """SPEC 3."""
    ours = [observe_call("grep", {"q": wrapped(one)}, DEFAULTS).key for one in (A, B)]
    assert ours[0] != ours[1]


def test_the_mark_of_an_id_is_no_text() -> None:
    """What stands for an id equals no text that a result could have."""
    marked = text_bytes(wrapped(A))
    with pytest.raises(UnicodeDecodeError):
        marked.decode()


MARKER = re.compile(r'<<<(END_)?EXTERNAL_UNTRUSTED_CONTENT id=(\\*)"([0-9a-f]{16})(\\*)">>>')


def obviously(text: str) -> set[int]:
    """Where the ids that do not count begin: close innermost pairs until none is left to close."""
    markers = [
        (found.group(1) is None, (found.group(2), found.group(3)), found.start(3))
        for found in MARKER.finditer(text)
        if found.group(2) == found.group(4) and len(found.group(2)) in (0, 1, 3, 7)
    ]
    spans: set[int] = set()
    at = 0
    while at < len(markers):
        opens, kind, place = markers[at]
        if not opens:
            fitting = [i for i in range(at) if markers[i][0] and markers[i][1] == kind]
            if fitting:
                spans |= {markers[fitting[-1]][2], place}
                del markers[fitting[-1] : at + 1]
                at = fitting[-1]
                continue
            del markers[at]
            continue
        at += 1
    return spans


PIECES = [
    opening(A),
    opening(B),
    closing(A),
    closing(B),
    opening(A).replace('"', '\\"'),
    closing(A).replace('"', '\\"'),
]


@given(st.lists(st.sampled_from([*PIECES, "x", '"', "\n", "<<<", opening(C)]), max_size=14))
def test_any_sequence_of_markers_pairs_as_the_obvious_way_does(pieces: list[str]) -> None:
    """Against a way that looks at all markers again for each closing one."""
    text = "".join(pieces)
    cut = split_at_ids(text) or [text]
    starts, at = set(), 0
    for piece, _ in pairwise([*cut, ""]):
        at += len(piece)
        starts.add(at)
        at += 16
    starts.discard(len(text))
    assert starts == obviously(text)


@given(st.text(alphabet=st.sampled_from("<X_E>N ab\u00e9"), max_size=60), st.integers(0, 3), st.booleans())
def test_the_test_beforehand_never_misses(around: str, size: int, rare: bool) -> None:
    """Whatever stands around a wrapper, and however long it is."""
    filler = (around + "." * 50) * (1 if size == 0 else 60 * size)
    text = filler + wrapped(A) + (filler if rare else "")
    assert may_wrap(text)
    assert may_wrap_bytes(text.encode())


def test_hostile_text_takes_linear_time() -> None:
    """Eight times the markers take about eight times as long, nested, broken, unbalanced or crossing.

    The limit is wide, for machines are busy; the square would be 64.
    """
    noise = random.Random(7)
    hostile: dict[str, Callable[[int], str]] = {
        "opening only": lambda n: opening(A) * n,
        "closing only": lambda n: closing(A) * n,
        "nested": lambda n: opening(A) * n + closing(A) * n,
        "all ids": lambda n: "".join(opening(f"{i:016x}") for i in range(n)) + closing(f"{0:016x}"),
        "crossing": lambda n: (
            "".join(opening(f"{i:016x}") for i in range(n)) + "".join(closing(f"{i:016x}") for i in range(n))
        ),
        "backslashes": lambda n: ("<<<EXTERNAL_UNTRUSTED_CONTENT id=" + "\\" * 30) * n,
        "broken": lambda n: (
            ('<<<END_EXTERNAL_UNTRUSTED_CONTENT id="' + "".join(noise.choices(string.hexdigits, k=9))) * n
        ),
    }
    for name, make in hostile.items():
        small, large = make(500), make(4000)
        assert best(small) * 40 > best(large), name


def best(text: str) -> float:
    """Seconds of processor time, of the best of some; none so short that the clock decides."""
    taken = []
    for _ in range(7):
        began = time.process_time()
        split_at_ids(text)
        taken.append(time.process_time() - began)
    return max(min(taken), 1e-4)
