"""What a tool's own result says cannot keep its calls from being counted (SPEC 5.2)."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import settings_of, settle, start

from loopguard_plugin import LoopGuard, TurnEndingError
from loopguard_plugin.answers import Blocked, Deliver

MARKS: list[object] = [
    {"status": "blocked", "deniedReason": "tool-loop"},
    {"status": "blocked", "deniedReason": "tool-loop", "content": "x"},
    {"details": {"status": "blocked", "deniedReason": "tool-loop"}, "content": "x"},
    *({"status": status} for status in ("aborted", "cancelled", "canceled", "skipped", "rejected", "killed", "ok")),
    {"isError": True, "content": "Cancelled"},
    {"ok": False, "error": None},
    *("aborted", "Cancelled: parallel call errored", "<tool_use_error>Cancelled</tool_use_error>"),
    *("[loopguard] This call was not run.", "blocked", "Skipped: ", "[Tool execution cancelled]"),
    {"loopguard_note": "x"},
]


@pytest.mark.parametrize("result", MARKS, ids=str)
@pytest.mark.parametrize("wide", [False, True], ids=["one", "two at once"])
def test_no_result_hides_its_calls(result: Any, wide: bool) -> None:
    """Of identical calls with whatever result at most 20 run, and each result is delivered as it came."""
    guard, ran = LoopGuard(settings_of({"enabled": True})), 0
    try:
        for at in range(60):
            names = [f"a{at}", f"b{at}"][: 1 + wide]
            answers = [guard.feed(start(name, "mcp", batch_id=f"{at}")) for name in names]
            if any(isinstance(answer, Blocked) for answer in answers):
                break
            for name in names:
                ran += 1
                answer = guard.feed(settle(name, "mcp", result, batch_id=f"{at}"))
                assert isinstance(answer, Deliver)
                assert not answer.ignored
                assert answer.note is not None or answer.result == result
    except TurnEndingError:
        pass
    assert 3 <= ran <= 20
    assert guard.stats().errors == 0
