"""Readers are given JSON that uses the right names in the wrong places: they yield events or problems, and never raise.

The names are those that stand as strings in the readers themselves, so that a new reader is tried with its own.
"""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_transcripts_agents import GOOSE, OPENCODE, ROUNDS, TOLD
from test_transcripts_messages import ANTHROPIC, CLAUDE, RESPONSES, SAMPLE

from loopguard_plugin import transcripts
from loopguard_plugin.events import check
from loopguard_plugin.transcripts import FORMATS, Placed, Source, Talks, Unreadable, detect, read


def words(module: str) -> list[str]:
    """The short strings in a reader's source, and those that most formats share."""
    path = Path(transcripts.__file__).parent / f"{module}.py"
    found = {
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) < 40
    }
    return sorted(found | {"type", "role", "content", "id", "name", "message", "messages", "user", "assistant"})


def values_of(names: list[str]) -> st.SearchStrategy[object]:
    """JSON in which keys and texts are these names."""
    word = st.sampled_from(names)
    leaf = st.one_of(word, st.none(), st.booleans(), st.integers(-1, 3), st.floats(), st.just("{"), st.just(""))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(st.dictionaries(word, inner, max_size=6), st.lists(inner, max_size=4)),
        max_leaves=30,
    )


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_no_value_makes_a_reader_raise(form: str, data: st.DataObject) -> None:
    """Whatever stands under the names that a reader knows, by lines or in one document; every event is well formed."""
    module = FORMATS[form].read.__module__.rpartition(".")[2]
    values = data.draw(st.lists(values_of(words(module)), min_size=1, max_size=4))
    for text in ("\n".join(map(json.dumps, values)), json.dumps(values, indent=1)):
        for name in (form, "auto"):
            source = Source("s.json", io.BytesIO(text.encode()))
            detect(source)
            for item in read(source, Talks(), name):
                assert isinstance(item, (Placed, Unreadable))
                if isinstance(item, Placed):
                    check(item.event)


SAMPLES = Path(__file__).parent / "data" / "transcripts"
SEEDS: list[object] = [
    *(json.loads(path.read_text()) for path in sorted(SAMPLES.glob("*.json"))),
    [*OPENCODE, *GOOSE, *CLAUDE, *ANTHROPIC, *RESPONSES],
    {"requests": [{"message": {}, "response": [TOLD], "result": {"metadata": ROUNDS}}]},
    {"eval": {}, "samples": [SAMPLE]},
]
JUNK: list[object] = [None, True, 0, -1, 1.5, float("nan"), "", "{", [], {}, [None], ["x"], {"type": []}, 10**30]


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to every value inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, one in inner for found in ((*path, key), *places(one, (*path, key)))]


def changed(value: object, path: tuple[str | int, ...], new: object) -> object:
    """The value with another one at a place."""
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_change_of_a_transcript_makes_a_reader_raise(data: st.DataObject) -> None:
    """Real entries with a value of the wrong kind somewhere, under the name of any format."""
    value = data.draw(st.sampled_from(SEEDS))
    value = changed(value, data.draw(st.sampled_from(places(value))), data.draw(st.sampled_from(JUNK)))
    for name in ("auto", data.draw(st.sampled_from(list(FORMATS)))):
        for item in read(Source("s.json", io.BytesIO(json.dumps(value, indent=1).encode())), Talks(), name):
            assert isinstance(item, (Placed, Unreadable))
            if isinstance(item, Placed):
                check(item.event)
