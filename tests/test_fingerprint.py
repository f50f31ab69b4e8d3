"""Call identity, and canonical bytes of whatever arguments and results may be (SPEC 3)."""

from __future__ import annotations

import array
import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopguard_plugin.core.exact import exact
from loopguard_plugin.core.fingerprint import canonical
from loopguard_plugin.core.observe import CallKind, observe_call
from loopguard_plugin.settings import ResolvedSettings, parse_settings

DEFAULTS = ResolvedSettings()


def key(tool: str, args: object, settings: ResolvedSettings = DEFAULTS) -> int:
    return observe_call(tool, args, settings).key


# Calls


@pytest.mark.parametrize("name", ["read", " Read", "READ\n", "\u2003rEaD "])
def test_tool_names_are_trimmed_and_case_folded(name: str) -> None:
    """One tool, however it is spelled; messages show it as it was written."""
    call = observe_call(name, {"p": 1}, DEFAULTS)
    assert (call.tool, call.shown) == ("read", name.strip())
    assert call.key == key("read", {"p": 1})


@pytest.mark.parametrize(("name", "tool"), [("Bash", "exec"), ("apply-patch", "apply_patch"), ("  ", "tool")])
def test_aliases_and_blank_names(name: str, tool: str) -> None:
    """The built-in aliases, and a name for what has none."""
    assert observe_call(name, {}, DEFAULTS).tool == tool
    assert key(name, {"x": 1}) == key(tool, {"x": 1})


def test_own_aliases_and_kinds() -> None:
    """``toolAliases`` and ``tools`` of the plugin's settings (SPEC 11.2)."""
    plugin = {
        "toolAliases": {"run": "exec"},
        "tools": {"ci_*": {"kind": "poll"}, "process": {"kind": "plain"}, "wait": {"kind": "poll"}},
    }
    given = parse_settings({"plugins": {"entries": {"loopguard": {"config": plugin}}}}).resolve()
    assert key("Run", {"title": "a"}, given) == key("exec", {}, given)
    assert observe_call("CI_status", {}, given).kind is CallKind.POLL
    assert observe_call("process", {"action": "poll"}, given).kind is CallKind.PLAIN
    assert observe_call("wait", {}, given).kind is CallKind.WAIT


@pytest.mark.parametrize(
    ("tool", "args", "kind"),
    [
        ("command_status", {}, CallKind.POLL),
        ("process", {"action": "poll"}, CallKind.POLL),
        ("process", {"action": "log"}, CallKind.POLL),
        ("process", {"action": "list"}, CallKind.PLAIN),
        ("process", {"action": ["poll"]}, CallKind.PLAIN),
        ("process", "poll", CallKind.PLAIN),
        ("process", None, CallKind.PLAIN),
        ("Wait", {"runId": "x"}, CallKind.WAIT),
        ("message", {"action": "poll"}, CallKind.PLAIN),
        ("read", {"action": "poll"}, CallKind.PLAIN),
    ],
)
def test_known_pollers(tool: str, args: object, kind: CallKind) -> None:
    """SPEC 6."""
    assert observe_call(tool, args, DEFAULTS).kind is kind


def test_the_tool_is_part_of_the_identity() -> None:
    """Equal arguments of two tools are two calls."""
    assert key("read", {"p": 1}) != key("list", {"p": 1})


def test_exec_titles_and_programs() -> None:
    """A top-level title of ``exec`` does not count, and a program may be ``code`` or ``command``."""
    assert key("exec", {"command": "x", "title": "a"}) == key("bash", {"command": "x"})
    assert key("exec", {"code": "x", "title": "a"}) == key("exec", {"command": "x"})
    assert key("exec", {"code": "x", "command": "y"}) != key("exec", {"code": "z", "command": "y"})
    assert key("exec", {"env": {"title": "a"}}) != key("exec", {"env": {"title": "b"}})
    assert key("exec", {"env": {"code": "a"}}) != key("exec", {"env": {"command": "a"}})
    assert key("read", {"title": "a"}) != key("read", {"title": "b"})
    assert key("exec", "x") != key("exec", "y")


def test_arguments_are_not_changed() -> None:
    """What the gateway handed in stays as it was."""
    args = {"code": "x", "title": "a", "n": 1.0}
    key("exec", args)
    assert args == {"code": "x", "title": "a", "n": 1.0}


# JSON


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}),
        (1, 1.0),
        (0, -0.0),
        ([-0.0, 0.5], [0, 0.5]),
        ({"a": {"b": 2.0, "c": "1.0,"}}, {"a": {"b": 2, "c": "1.0,"}}),
        (10**16, 1e16),
        (123456789012345680, 123456789012345680.0),
        (10**22, 1e22),
        (2**64, 2.0**64),
        ([2**63, None], [2.0**63, None]),
        ("\u00e9", "é"),
        ((1, 2), [1, 2]),
        (collections.OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        ([True, None], [True, None]),
    ],
)
def test_same(one: object, other: object) -> None:
    """Key order, spelling of numbers and of text, tuples: all one JSON value."""
    assert canonical(one) == canonical(other)
    assert exact(one, False) == exact(other, False) == canonical(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": None}, {}),
        ([1, 2], [2, 1]),
        (1, "1"),
        (True, 1),
        (1.5, 1.25),
        (None, "null"),
        ({"a": "1.0,"}, {"a": "1,"}),
        ([1.0, "a.0,"], [1.0, "a,"]),
        ([1.0, "e+1"], [1.0, "e+2"]),
        (math.nan, None),
        ([math.inf], [-math.inf]),
        ([math.nan], ["nan"]),
        (2**70, 2**70 + 1),
        (2**70, hex(2**70)),
        ({1: "a"}, {"1": "a"}),
        ({None: 1}, {"null": 1}),
        (b"a", "a"),
        (b"a", b"b"),
        ({"a"}, ["a"]),
        ("\ud800", "\ud801"),
        ("\ud800", "\\ud800"),
        ("", None),
        ({}, []),
        ([[]], [[[]]]),
    ],
)
def test_differ(one: object, other: object) -> None:
    """What is different stays so, odd values and their look-alikes too."""
    assert canonical(one) != canonical(other)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer() or abs(x) < 2**63)
    | st.sampled_from([0.0, -0.0, 1.0, 1e16, 1e18, 2.0**53, -3.0])
    | st.text()
    | st.sampled_from(["1.0,", "-0", "1e+16", "\x00", "\u2028", "<"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def whole(value: Any) -> Any:
    """The obvious way: every whole float an integer."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list) else value


@given(json_values)
def test_json_is_written_as_json(value: object) -> None:
    """Canonical bytes are sorted JSON with whole numbers written whole; the slow way writes the same."""
    obvious = orjson.dumps(whole(value), option=orjson.OPT_SORT_KEYS)
    assert canonical(value) == obvious
    assert exact(value, False) == obvious
    assert canonical(value, ignore_nonces=True) == obvious


odd_keys = st.text(alphabet='ab":.0,}\\ \u00e9', max_size=4)
odd_values = (
    st.none()
    | st.floats()
    | st.sampled_from([0.0, -0.0, 1.0, -7.0, 0.5, 2.0**36 + 1, 2.0**37 + 0.5, 2.0**44, 2.0**53, 1e16, 1e300])
    | st.sampled_from([math.nan, math.inf, -math.inf])
    | st.sampled_from([":1.0,", 'a":1.0}', "null", "1.0]", "x.0", "1e+16", "\u02ff\x00\x00", "\u02c0" + 7 * "\x00"])
    | st.integers(-300, 300)
    | st.lists(st.floats(), max_size=3)
)


@given(
    st.lists(st.dictionaries(odd_keys, odd_values, max_size=4), max_size=6),
    st.lists(st.tuples(st.integers(0, 70), odd_values), max_size=3),
    odd_values,
)
def test_many_small_rows(shapes: list[dict[str, object]], odd: list[tuple[int, object]], last: object) -> None:
    """Large JSON of many small values is written as the slow way writes it, whatever its few odd numbers are."""
    rows: list[dict[str, object]] = [{"id": at, "ok": True, "score": at + 0.25, "tags": ["a", "b"]} for at in range(71)]
    for at, value in odd:
        rows[at]["score"] = value
    value = {"next": last, "rows": rows + shapes}
    assert canonical(value) == exact(value, False)
    assert canonical([rows, shapes]) == exact([rows, shapes], False)
    assert canonical(rows, ignore_nonces=True) == exact(rows, True)


@pytest.mark.parametrize("power", range(64))
@pytest.mark.parametrize("sign", [1, -1])
def test_whole_floats_of_every_size(power: int, sign: int) -> None:
    """Powers of two and their neighbours, as far as these are whole or halves, are written as integers are."""
    for number in (2.0**power, 2.0**power + 1, 2.0**power - 1, 2.0**power - 0.5, 2.0 ** (power - 1) * 1.999999):
        value = {"text": "x", "number": sign * number}
        assert canonical(value) == exact(value, False)


@pytest.mark.parametrize("score", [0.5, 1.0, -2.0, -0.0, 2.0**40, 1e16, math.nan, math.inf, None])
@pytest.mark.parametrize("rows", [1, 40, 400])
def test_rows_with_one_and_the_same_number(rows: int, score: float | None) -> None:
    """A number that is whole, or none at all, in every row."""
    value = {"next": None, "rows": [{"id": at, "name": "a row", "score": score, "tags": ["a"]} for at in range(rows)]}
    assert canonical(value) == exact(value, False)
    assert canonical({**value, "next": math.nan}) == exact({**value, "next": math.nan}, False) != canonical(value)


# Everything else


class Color(enum.Enum):
    RED = 1


class Word(enum.StrEnum):
    A = "a"


@dataclasses.dataclass
class Point:
    x: int
    y: object = None


@dataclasses.dataclass
class Vector:
    x: int
    y: object = None


@dataclasses.dataclass(slots=True)
class Slotted:
    x: object


@attrs.define
class Drawn:
    x: object


class Record(msgspec.Struct):
    x: object


class Model:
    """As pydantic makes them."""

    __pydantic_fields__: dict[str, object] = {}  # noqa: RUF012  # as pydantic has it

    def __init__(self, x: object, extra: dict[str, object] | None = None) -> None:
        self.x = x
        self.__pydantic_extra__ = extra


class Plain:
    def __init__(self, x: object) -> None:
        self.x = x

    @functools.cached_property
    def double(self) -> object:
        return [self.x, self.x]


class Base:
    __slots__ = ("__hidden", "a")

    def __init__(self, a: object, hidden: object) -> None:
        self.a = a
        self.__hidden = hidden


class Derived(Base):
    __slots__ = ("b",)


class Empty:
    pass


class Hostile:
    """Raises in everything that it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        raise RuntimeError("bool")


@dataclasses.dataclass
class Thorny:
    x: int

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            raise RuntimeError(name)
        return super().__getattribute__(name)


class WithProperty:
    __slots__ = ("_x",)

    @property
    def x(self) -> int:
        raise ValueError("x")


class OddDict(dict[str, object]):
    def items(self) -> Any:
        raise RuntimeError("items")

    def get(self, *args: object) -> Any:
        raise RuntimeError("get")

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("getitem")


class OddList(list[object]):
    def __iter__(self) -> Any:
        raise RuntimeError("iter")


class OddText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("str")

    def encode(self, *args: object) -> Any:
        raise RuntimeError("encode")


def generator() -> Iterator[int]:
    yield 1


def deep_list(depth: int, inner: object = 0) -> object:
    value = inner
    for _ in range(depth):
        value = [value]
    return value


def deep_dict(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def deep_object(depth: int, inner: object = 0) -> object:
    value = inner
    for _ in range(depth):
        value = Plain(value)
    return value


def cyclic_list() -> object:
    value: list[object] = [1]
    value.append(value)
    return value


def cyclic_dict() -> object:
    value: dict[str, object] = {"a": 1}
    value["self"] = {"inner": [value]}
    return value


def cyclic_object() -> object:
    value = Plain(None)
    value.x = {"me": value}
    return value


ODD: dict[str, Callable[[], object]] = {
    "bytes": lambda: b"\x00\xff",
    "bytearray": lambda: bytearray(b"a"),
    "memoryview": lambda: memoryview(b"abc"),
    "array": lambda: array.array("d", [1.0, 2.5]),
    "datetime": lambda: datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "date": lambda: datetime.date(2026, 1, 2),
    "time": lambda: datetime.time(1, 2),
    "timedelta": lambda: datetime.timedelta(seconds=5),
    "decimal": lambda: decimal.Decimal("1.10"),
    "complex": lambda: 1 + 2j,
    "range": lambda: range(5),
    "path": lambda: pathlib.PurePosixPath("/a/b"),
    "pattern": lambda: re.compile("a+", re.I),
    "uuid": lambda: uuid.UUID(int=5),
    "set": lambda: {"b", "a", "c", 1, None},
    "set of sets": lambda: {frozenset({"x", "y"}), frozenset({"z"})},
    "enum": lambda: Color.RED,
    "str enum": lambda: Word.A,
    "keys": lambda: {1: "a", "1": "b", None: "c", (1, 2): "d", Color.RED: "e", Word.A: "f"},
    "dataclass": lambda: Point(1, {"k": {2, 3}}),
    "slotted dataclass": lambda: Slotted([1.0]),
    "attrs": lambda: Drawn("a"),
    "struct": lambda: Record("a"),
    "pydantic": lambda: Model(1, {"more": 2}),
    "plain": lambda: Plain({"a", "b"}),
    "slots": lambda: Base(1, 2),
    "derived slots": lambda: Derived(1, 2),
    "namespace": lambda: types.SimpleNamespace(a=1),
    "mapping proxy": lambda: types.MappingProxyType({"a": 1}),
    "deque": lambda: collections.deque([1, 2]),
    "default dict": lambda: collections.defaultdict(list, a=[1]),
    "empty": Empty,
    "object": object,
    "exception": lambda: ValueError("a", 1),
    "class": lambda: Plain,
    "function": lambda: generator,
    "lambda": lambda: lambda: None,
    "method": lambda: Plain(1).__init__,  # type: ignore[misc]  # a bound method, of whatever
    "generator": generator,
    "iterator": lambda: iter([1]),
    "module": lambda: json,
    "lock": asyncio.Lock,
    "huge int": lambda: 10**5000,
    "nan": lambda: {"a": [math.nan, math.inf, -math.inf, None, 1.0]},
    "surrogates": lambda: {"\ud800": "a\udfffb"},
    "deep list": lambda: deep_list(300),
    "deep dict": lambda: deep_dict(300),
    "very deep list": lambda: deep_list(20_000),
    "very deep dict": lambda: deep_dict(10_000),
    "very deep objects": lambda: deep_object(2_000),
    "deep among odd": lambda: {1: deep_list(2_000, {b"a"})},
    "cyclic list": cyclic_list,
    "cyclic dict": cyclic_dict,
    "cyclic object": cyclic_object,
    "hostile": Hostile,
    "hostile inside": lambda: {"a": [Hostile(), 1], "b": {Hostile()}},
    "hostile key": lambda: {Hostile(): 1, "x": 2},
    "thorny": lambda: Thorny(1),
    "property": WithProperty,
    "odd dict": lambda: OddDict(a=1, b={2}),
    "odd list": lambda: OddList([1, {2}]),
    "odd text": lambda: [OddText("a"), {2}],
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_anything_has_a_digest(make: Callable[[], object]) -> None:
    """Never raises, says the same about an equal value made afresh, and no address gets in."""
    one, other = make(), make()
    assert canonical(one) == canonical(other)
    assert canonical({"a": [one]}, ignore_nonces=True) == canonical({"a": [other]}, ignore_nonces=True)
    for tool in ("read", "exec", "process", "wait"):
        assert observe_call(tool, one, DEFAULTS) == observe_call(tool, other, DEFAULTS)
    assert hex(id(one))[2:].encode() not in canonical(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Point(1), Point(2)),
        (Point(1), Vector(1)),
        (Point(1), {"x": 1, "y": None}),
        (Slotted(1), Slotted(2)),
        (Drawn(1), Drawn(2)),
        (Record(1), Record(2)),
        (Model(1), Model(2)),
        (Model(1, {"a": 1}), Model(1, {"a": 2})),
        (Plain(1), Plain(2)),
        (Base(1, 2), Base(1, 3)),
        (Base(1, 2), Base(2, 2)),
        (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
        (ValueError("a"), ValueError("b")),
        (ValueError("a"), TypeError("a")),
        (datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)),
        (datetime.date(2026, 1, 1), "2026-01-01"),
        (decimal.Decimal("1"), decimal.Decimal("2")),
        (pathlib.PurePosixPath("/a"), pathlib.PurePosixPath("/b")),
        (array.array("i", [1]), array.array("i", [2])),
        (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})),
        (collections.deque([1]), collections.deque([2])),
        ({1, 2}, {1, 3}),
        ({1, 2}, frozenset({1, 2})),
        (Plain, Base),
        (deep_list(300, 1), deep_list(300, 2)),
        (deep_list(300), deep_list(301)),
        (deep_object(500, 1), deep_object(500, 2)),
        (cyclic_list(), [1, [1]]),
        ({"a": [Plain(1), 1]}, {"a": [Plain(1), 2]}),
    ],
)
def test_fields_and_contents_count(one: object, other: object) -> None:
    """An object that changed, or of another type, is another value."""
    assert canonical(one) != canonical(other)


def test_sets_have_no_order() -> None:
    """Neither sets nor dictionaries with odd keys."""
    words = [f"word {i}" for i in range(50)]
    assert canonical(set(words)) == canonical(set(reversed(words)))
    assert canonical({1: "a", (2,): "b"}) == canonical({(2,): "b", 1: "a"})


def test_looking_changes_nothing() -> None:
    """Cached properties are no fields, generators are not used up, shared parts are as good as copies."""
    one, other = Plain(1), Plain(1)
    assert one.double == [1, 1]
    assert canonical(one) == canonical(other)
    numbers = generator()
    canonical([numbers])
    assert next(numbers) == 1
    assert canonical([one, one, {1}]) == canonical([Plain(1), Plain(1), {1}])


def test_shared_objects_are_read_once() -> None:
    """Forty levels of an object that holds the next one twice would be 2**40 objects."""
    value: object = 0
    for _ in range(40):
        value = Plain([value, value])
    assert canonical(value) == canonical(value)


def test_subclasses_are_what_they_extend() -> None:
    """Their methods are not asked."""
    assert canonical(OddDict(a=1, b=math.nan)) == canonical({"a": 1, "b": math.nan})
    assert canonical(OddList([1, math.nan])) == canonical([1, math.nan])
    assert canonical([OddText("a"), math.nan]) == canonical(["a", math.nan])
    assert canonical([Color.RED, Word.A]) == canonical([1, "a"]) == exact([Color.RED, Word.A], False)


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from test_fingerprint import ODD, DEFAULTS
from loopguard_plugin.core.observe import observe_call
print([observe_call("Bash", make(), DEFAULTS).key for make in [*ODD.values(), lambda: {{"b": 1.0, "a": None}}]])
"""


def test_every_process_sees_the_same() -> None:
    """Whatever the seed of its hashes and whatever addresses its objects have."""
    outputs = set()
    for seed in ("0", "1", "4242"):
        script = SCRIPT.format(tests=os.path.dirname(__file__))
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert str(observe_call("Bash", ODD["set"](), DEFAULTS).key) in outputs.pop()
