"""Values that no JSON has, or none should: a normal answer, never a crash, and no other run is touched (SPEC 3)."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import pytest
from helpers import detection, settings_of, settle, start

from loopguard_plugin import LoopGuard
from loopguard_plugin.answers import Blocked, Deliver, Proceed


def deep(levels: int = 300) -> object:
    """Lists in lists."""
    value: object = "end"
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> object:
    """An object that holds itself."""
    value: dict[str, object] = {"name": "ring"}
    value["self"] = [value]
    return value


class Raising:
    """An object that raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    __hash__ = None  # type: ignore[assignment]  # not hashable either

    def __repr__(self) -> str:
        raise RuntimeError("repr")


VALUES: dict[str, Callable[[], object]] = {
    "300 deep": deep,
    "100,000 deep": lambda: deep(100_000),
    "cyclic": cyclic,
    "lone surrogate": lambda: {"text": "a\ud800b", "\udfff": 1},
    "NaN": lambda: [math.nan, math.inf, -math.inf],
    "wide integer": lambda: {"n": 2**70},
    "bytes": lambda: {"data": b"\x00\xff"},
    "set": lambda: {"tags": {"b", "a"}},
    "datetime": lambda: dt.datetime(2026, 1, 2, 3, 4),
    "keys that are no text": lambda: {1: "a", None: "b", (1, 2): "c"},
    "raising object": Raising,
    "10 MB of text": lambda: "line of a log\n" * 750_000,
    "10 MB of text that looks wrapped": lambda: "<<<EXTERNAL_UNTRUSTED_CONTENT id=" * 310_000,
    "10 MB of rows": lambda: {"rows": [{"n": n, "name": f"row {n}"} for n in range(330_000)]},
}


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES.keys())
def test_any_value_is_judged_like_any_other(make: Callable[[], object]) -> None:
    """As argument, result and error: three equal calls are blocked, another run's are not, and nothing fails open."""
    guard = LoopGuard(settings_of(detection(enabled=True, warningThreshold=2, criticalThreshold=3)))
    guard.feed(start("quiet", run="quiet"))
    for at in range(3):
        assert isinstance(guard.feed(start(f"a{at}", args=make())), Proceed)
        answer = guard.feed(settle(f"a{at}", result=make()))
        assert isinstance(answer, Deliver)
        assert (answer.note is not None) is (at == 2)
    assert isinstance(guard.feed(start("a3", args=make())), Blocked)
    guard.feed(start("e", run="errors"))
    assert isinstance(guard.feed(settle("e", error=make(), run="errors")), Deliver)
    assert isinstance(guard.feed(settle("quiet", run="quiet")), Deliver)
    assert isinstance(guard.feed(start("again", run="quiet")), Proceed)
    assert guard.stats().errors == 0
