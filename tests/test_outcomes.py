"""What counts as the same outcome: each row of SPEC 5 with cases for and against, derived statuses, unknown tools."""

from __future__ import annotations

import math
from typing import Any

import pytest
from helpers import settle
from hypothesis import given
from hypothesis import strategies as st

from loopguard_plugin.core.observe import Settlement, observe_call, observe_settlement
from loopguard_plugin.events import Status, ToolCallSettled
from loopguard_plugin.settings import ResolvedSettings, parse_settings

DEFAULTS = ResolvedSettings()
FAILURES = (Status.ERROR, Status.UNKNOWN_TOOL, Status.REJECTED, Status.DENIED)


def observe(
    tool: str,
    result: object = None,
    *,
    args: object = None,
    error: object = None,
    status: Status | None = None,
    identity: object = None,
    settings: ResolvedSettings = DEFAULTS,
    want: bool = True,
) -> Settlement:
    event = ToolCallSettled(
        session_key="s", call_id="c", tool=tool, result=result, error=error, status=status, outcome_identity=identity
    )
    return observe_settlement(event, observe_call(tool, args, settings), want_outcome=want)


def outcome(tool: str, result: object = None, **more: Any) -> int:
    found = observe(tool, result, **more).outcome
    assert found is not None
    return found


def wrapped(nonce: str) -> str:
    return f'<<<EXTERNAL_UNTRUSTED_CONTENT id="{nonce}">>>p<<<END_EXTERNAL_UNTRUSTED_CONTENT id="{nonce}">>>'


A, B = wrapped("0" * 16), wrapped("1" * 16)


def blocks(text: str, /, **details: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}], "details": details}


class Mapped(dict[str, object]):
    """What a framework may have for an object."""


words = st.sampled_from(["", " text ", "failed", "blocked", "completed", "running", "tool-loop", "same"])
leaves = st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, 0.5]) | words
names = ("ok", "success", "status", "error", "isError", "is_error", "changed", "deniedReason", "exitCode", "aggregated")
details = st.dictionaries(st.sampled_from((*names, "id", "results", "content", "text", "runId", "telemetry")), leaves)
block = st.fixed_dictionaries({"type": st.just("text"), "text": words}) | st.dictionaries(words, leaves) | leaves
objects = st.builds(
    lambda outer, inner, content: {**outer, **({} if inner is None else {"details": inner}), **content},
    details,
    st.none() | details | leaves,
    st.just({}) | st.fixed_dictionaries({"content": st.lists(block, max_size=2) | leaves}),
)
tools = st.sampled_from(
    [(name, None) for name in ("read", "exec", "write", "wait", "memory_search", "computer", "progress_card")]
    + [("process", "poll"), ("process", "log"), ("message", "send"), ("message", "read")]
)


@given(tools, objects)
def test_objects_in_one_go(tool: tuple[str, str | None], result: dict[str, object]) -> None:
    """An object comes to what an equal one of another class comes to, which is looked at part by part."""
    name, action = tool
    assert observe(name, result, args={"action": action}) == observe(name, Mapped(result), args={"action": action})


# Rows in order: (tool, arguments, one result, another)
Row = tuple[str, object, object, object]

CODE: dict[str, object] = {"status": "waiting", "runId": "1", "telemetry": {"ms": 1}}
OPERATION = {"id": "1", "method": "fetch", "args": {"u": 1}}
WINDOW = {"kind": "window", "observationId": "1", "base64": "px", "elements": [{"elementRef": "1", "label": "OK"}]}
HIT = {"path": "a", "score": 0.5}
SENT = {"id": "1", "text": "t", "senderId": "me"}
SEND = {"action": "send"}
POLL, LOG = {"action": "poll"}, {"action": "log"}

ALIKE: dict[str, Row] = {
    "3 telemetry and run id": ("wait", {}, CODE, {**CODE, "runId": "2", "telemetry": {}}),
    "3 in details": ("exec", {}, blocks("a", **CODE), blocks("b", **{**CODE, "runId": "2"})),
    "3 operation ids": (
        *("wait", {}),
        {**CODE, "pendingToolCalls": [OPERATION]},
        {**CODE, "pendingToolCalls": [{**OPERATION, "id": "2", "since": 5}]},
    ),
    "3 retained value": (
        *("wait", {}),
        {**CODE, "value": {"ref": "1", "identity": "h"}},
        {**CODE, "value": {"ref": "2", "identity": "h"}},
    ),
    "3 failed": ("exec", {}, {**CODE, "status": "failed"}, {**CODE, "status": "failed", "runId": "2"}),
    "4 running": ("exec", {}, {"status": "running", "tail": "t", "pid": 1}, {"status": "running", "tail": "t"}),
    "4 no tail": ("exec", {}, {"status": "running"}, {"status": "running", "tail": 5}),
    "5 volatile fields": (
        *("exec", {}),
        {"status": "completed", "exitCode": 0, "output": "o", "durationMs": 1},
        {"status": "completed", "exitCode": 0, "output": " o\n", "pid": 2},
    ),
    "5 whole float": ("exec", {}, {"status": "failed", "exitCode": 1}, {"status": "failed", "exitCode": 1.0}),
    "5 odd exit codes": ("exec", {}, {"status": "failed", "exitCode": True}, {"status": "failed", "exitCode": "1"}),
    "5 first that is not blank": (
        *("exec", {}),
        {"status": "completed", "aggregated": " ", "output": "o"},
        {"status": "completed", "aggregated": None, "output": "x", "content": "y"} | {"output": "o"},
    ),
    "6 approval": (
        *("exec", {}),
        {"status": "approval-pending", "command": "c", "approvalId": "1"},
        {"status": "approval-pending", "command": "c", "host": None},
    ),
    "8 unchanged": ("write", {}, blocks("a", changed=False), {"changed": False, "text": "b"}),
    "9 absent is null": ("process", POLL, {"status": "r"}, {"status": "r", "exitCode": None, "aggregated": None}),
    "9 others": ("process", POLL, blocks("t", status="r", idleMs=1), blocks("t ", status="r", idleMs=2)),
    "9 text": ("process", POLL, "t", " t"),
    "10 absent is null": ("process", LOG, {}, {"status": None, "truncated": None}),
    "10 others": ("process", LOG, blocks("t", total=1), blocks("t", total=2)),
    "11 ids at any depth": (
        *("message", SEND),
        {"ok": True, "parts": [{"receipt": {"ts": 1}, "to": "a"}]},
        {"ok": True, "parts": [{"receipt": 2, "fileId": "x", "to": "a"}]},
    ),
    "11 delivered message": ("sessions_send", {}, {"message": SENT}, {"message": {**SENT, "id": "2"}}),
    "11 text": ("conversations_send", {}, blocks("sent 1", ok=True), blocks("sent 2", ok=True)),
    "12 scores": (
        *("memory_search", {}),
        {"results": [HIT], "debug": 1, "timings": {}},
        {"results": [{**HIT, "score": 0.4}], "timing": 2},
    ),
    "13 references": (
        *("computer", {}),
        {"observation": WINDOW, "content": "1"},
        {"observation": {**WINDOW, "observationId": "2", "elements": [{"elementRef": "2", "label": "OK"}]}},
    ),
    "13 in details": (
        *("computer", {}),
        blocks("1", result={"observation": WINDOW}),
        blocks("2", result={"observation": {**WINDOW, "observationId": "2"}}),
    ),
    "14 equal": ("progress_card", {}, blocks("rev 1", revision=1), blocks("rev 1", revision=1)),
    "15 joined": ("read", {}, {"content": [{"text": "a"}, {"text": "b"}]}, {"content": "a\nb "}),
    "15 text beside details": ("read", {}, {"details": {"a": 1}, "text": "t"}, {"details": {"a": 1.0}, "text": " t "}),
    "15 nonces": ("web_fetch", {}, blocks(A, text=A), blocks(B, text=B)),
    "16 nonces": ("web_fetch", {}, A, B),
    "16 keys": ("job", {}, {"a": 1, "b": [1.0]}, {"b": [1], "a": 1}),
}

DIFFERENT: dict[str, Row] = {
    "3 deeper names": (
        *("wait", {}),
        {**CODE, "value": {"runId": "1"}},
        {**CODE, "value": {"runId": "2"}},
    ),
    "3 method": (
        *("wait", {}),
        {**CODE, "pendingToolCalls": [OPERATION]},
        {**CODE, "pendingToolCalls": [{**OPERATION, "method": "post"}]},
    ),
    "3 identity": (
        *("wait", {}),
        {**CODE, "value": {"ref": "1", "identity": "h"}},
        {**CODE, "value": {"ref": "1", "identity": "i"}},
    ),
    "3 other tools": ("read", {}, CODE, {**CODE, "runId": "2"}),
    "3 without telemetry": ("wait", {}, {"status": "waiting", "runId": "1"}, {"status": "waiting", "runId": "2"}),
    "4 tail": ("exec", {}, {"status": "running", "tail": "t"}, {"status": "running", "tail": "t "}),
    "5 exit code": ("exec", {}, {"status": "completed", "exitCode": 0}, {"status": "completed"}),
    "5 timed out": ("exec", {}, {"status": "completed", "timedOut": True}, {"status": "completed", "timedOut": 1}),
    "5 output": ("exec", {}, {"status": "completed", "output": "a"}, {"status": "completed", "output": "b"}),
    "5 status": ("exec", {}, {"status": "completed"}, {"status": "failed"}),
    "5 other tools": ("shell", {}, {"status": "completed", "pid": 1}, {"status": "completed", "pid": 2}),
    "6 command": (
        *("exec", {}),
        {"status": "approval-unavailable", "command": "c"},
        {"status": "approval-unavailable", "command": "d"},
    ),
    "exec of another status": ("exec", {}, {"status": "queued", "at": 1}, {"status": "queued", "at": 2}),
    "8 changed": ("write", {}, {"changed": False, "text": "a"}, {"changed": 0, "text": "a"}),
    "8 other tools": ("edit", {}, {"changed": False, "text": "a"}, {"changed": False, "text": "b"}),
    "9 status null": ("process", POLL, {}, {"status": None}),
    "9 text": ("process", POLL, "t", "u"),
    "9 exit signal": ("process", POLL, {"exitSignal": 9}, {"exitSignal": "9"}),
    "9 odd result": ("process", POLL, [1], [2]),
    "10 lines": ("process", LOG, {"totalLines": 1}, {"totalLines": 2}),
    "10 odd result": ("process", LOG, 1, 2),
    "process list": ("process", {"action": "list"}, {"status": "r", "at": 1}, {"status": "r", "at": 2}),
    "11 bare id": ("message", SEND, {"route": {"id": "1"}}, {"route": {"id": "2"}}),
    "11 text of a message": ("message", SEND, {"message": SENT}, {"message": {**SENT, "text": "u"}}),
    "11 no object": ("message", SEND, "messageId 1", "messageId 2"),
    "11 other actions": ("message", {"action": "react"}, {"messageId": "1"}, {"messageId": "2"}),
    "11 padded action": ("message", {"action": " send"}, {"messageId": "1"}, {"messageId": "2"}),
    "11 other tools": ("post", {}, {"messageId": "1"}, {"messageId": "2"}),
    "12 path": ("memory_search", {}, {"results": [HIT]}, {"results": [{**HIT, "path": "b"}]}),
    "12 order": ("memory_search", {}, {"results": [HIT, {"path": "b"}]}, {"results": [{"path": "b"}, HIT]}),
    "12 no list": ("memory_search", {}, {"results": {}, "debug": 1}, {"results": {}, "debug": 2}),
    "13 pixels": ("computer", {}, {"observation": WINDOW}, {"observation": {**WINDOW, "base64": "py"}}),
    "13 label": (
        *("computer", {}),
        {"observation": WINDOW},
        {"observation": {**WINDOW, "elements": [{"elementRef": "1", "label": "No"}]}},
    ),
    "13 screen": (
        *("computer", {}),
        {"observation": {"kind": "screen", "observationId": "1"}},
        {"observation": {"kind": "screen", "observationId": "2"}},
    ),
    "14 revision": ("progress_card", {}, blocks("rev 1", revision=1), blocks("rev 1", revision=2)),
    "15 details": ("read", {}, blocks("t", a=1), blocks("t", a=2)),
    "15 text": ("read", {}, blocks("t"), blocks("u")),
    "15 media": ("shot", {}, {"content": [{"data": "a"}]}, {"content": [{"data": "b"}]}),
    "15 odd content": ("read", {}, {"content": {"rows": 1}}, {"content": {"rows": 2}}),
    "15 other keys": ("read", {}, {"content": "t", "n": 1}, {"content": "t", "n": 2}),
    "15 null": ("read", {}, blocks("t", a=None), blocks("t")),
    "16 text is not trimmed": ("read", {}, "t", "t "),
    "16 text and object": ("read", {}, "{}", {}),
    "16 lists": ("read", {}, [1, 2], [2, 1]),
    "16 null": ("read", {}, None, "null"),
    "16 volatile names": ("job", {}, {"durationMs": 1}, {"durationMs": 2}),
    "16 odd values": ("job", {}, {"x": math.nan}, {"x": None}),
}


@pytest.mark.parametrize(("tool", "args", "one", "other"), ALIKE.values(), ids=ALIKE)
def test_alike(tool: str, args: object, one: object, other: object) -> None:
    """What differs here does not count."""
    assert outcome(tool, one, args=args) == outcome(tool, other, args=args)


@pytest.mark.parametrize(("tool", "args", "one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_different(tool: str, args: object, one: object, other: object) -> None:
    """What differs here counts."""
    assert outcome(tool, one, args=args) != outcome(tool, other, args=args)


def test_own_identity() -> None:
    """Row 1: that alone, unless the call failed; equal to no other outcome."""
    assert outcome("job", 1, identity={"a": 1, "b": A}) == outcome("job", "x", identity={"b": B, "a": 1.0})
    assert outcome("job", 1, identity="a") != outcome("job", 1, identity="b")
    assert outcome("job", 1, identity="a") != outcome("job", "a")
    assert outcome("exec", {"status": "completed"}, identity="a") == outcome(
        "exec", {"status": "running"}, identity="a"
    )
    assert outcome("job", {"ok": False, "n": 1}, identity="a") != outcome("job", {"ok": False, "n": 2}, identity="a")
    assert outcome("job", error="x", identity="a") != outcome("job", error="y", identity="a")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (5, "5"),
        (True, "true"),
        (ValueError("boom"), "boom"),
        (ValueError("boom"), RuntimeError("boom")),
        (ValueError(), "ValueError"),
        ({"code": 1.0}, '{"code":1}'),
        (A, B),
        (ValueError(A), ValueError(B)),
    ],
)
def test_errors_alike(one: object, other: object) -> None:
    """Row 2: an error is its text."""
    assert outcome("read", error=one) == outcome("read", error=other)


def test_errors_differ() -> None:
    """A changed number is a changed error; an error is no result of the same text, nor a failure that came as one."""
    assert outcome("read", error="line 1") != outcome("read", error="line 2")
    assert outcome("read", error="boom") != outcome("read", "boom")
    assert outcome("read", error="boom") != outcome("read", "boom", status=Status.ERROR)
    assert outcome("read", error="boom") != outcome("read", error="boom ")


def test_errors_that_are_bytes_differ_by_each_byte() -> None:
    """Also by bytes that are no text; what the model is shown can be printed."""
    one, other = (observe("read", error=error) for error in (b"\x80 gone", b"\x81 gone"))
    assert one.outcome != other.outcome
    assert (one.error_text or "").isprintable()


def test_error_null_is_no_error() -> None:
    """SPEC 2."""
    assert observe("read", "a", error=None).status is Status.OK


RESULTS: list[tuple[str, object, object]] = [
    ("exec", {}, {"status": "completed", "exitCode": 1, "output": "o"}),
    ("exec", {}, {"status": "running", "tail": "t"}),
    ("wait", {}, CODE),
    ("write", {}, {"changed": False}),
    ("process", POLL, {"status": "r"}),
    ("message", SEND, {"to": "a"}),
    ("memory_search", {}, {"results": []}),
    ("computer", {}, {"observation": WINDOW}),
    ("read", {}, blocks("t")),
    ("read", {}, "t"),
    ("read", {}, None),
]


@pytest.mark.parametrize(("tool", "args", "result"), RESULTS)
def test_failures_never_equal_successes(tool: str, args: object, result: object) -> None:
    """The same result, said to be a failure; which failure it is does not matter."""
    failed = {outcome(tool, result, args=args, status=status) for status in FAILURES}
    assert len(failed) == 1
    assert outcome(tool, result, args=args) not in failed


def test_failures_in_full() -> None:
    """Row 7: a failure that came as a result counts in full, but for nonces; Code Mode and exec by their rows."""
    for tool, args, name in (("message", SEND, "messageId"), ("memory_search", {}, "debug"), ("read", {}, "n")):
        assert outcome(tool, {"ok": False, name: 1}, args=args) != outcome(tool, {"ok": False, name: 2}, args=args)
    assert outcome("read", {"ok": False, "text": A}) == outcome("read", {"ok": False, "text": B})
    assert outcome("exec", {"status": "failed", "pid": 1}) == outcome("exec", {"status": "failed", "pid": 2})
    assert outcome("exec", {"status": "killed", "pid": 1}) != outcome("exec", {"status": "killed", "pid": 2})


# Failure identity


def drift(output: str, **more: object) -> Settlement:
    return observe("exec", {"status": "completed", "exitCode": 1, "aggregated": output, **more})


def test_failure_identity() -> None:
    """SPEC 5.1: another outcome, the same failure; other causes and exit codes are other failures."""
    one, other = drift("boom at 10:00:01"), drift("boom at 10:00:02")
    assert one.status is other.status is Status.OK
    assert one.outcome != other.outcome
    assert one.failure == other.failure is not None
    assert drift("crash at 10:00:01").failure != one.failure
    assert drift("boom at 10:00:01", exitCode=2).failure not in (None, one.failure)
    assert drift("boom at 10:00:01 " + A).failure == drift("boom at 10:00:02 " + B).failure
    failed = observe("exec", {"status": "failed", "exitCode": 1, "output": "boom at 10:00:01"})
    assert failed.status is Status.ERROR
    assert failed.failure not in (None, one.failure)


@pytest.mark.parametrize(
    "result",
    [
        {"status": "completed", "exitCode": 0, "output": "o"},
        {"status": "completed", "exitCode": None, "output": "o"},
        {"status": "completed", "exitCode": "1", "output": "o"},
        {"status": "completed", "exitCode": True, "output": "o"},
        {"status": "completed", "exitCode": 1, "timedOut": True, "output": "o"},
        {"status": "completed", "exitCode": 1},
        {"status": "completed", "exitCode": 1, "output": "(no output)"},
        {"status": "completed", "exitCode": 1, "output": "(no output)\n\n(Command exited with code 1)"},
        {"status": "failed", "exitCode": -9, "output": " (Command exited with code -9) "},
        {"status": "running", "exitCode": 1, "tail": "o"},
        "failed at 10:00:01",
    ],
)
def test_no_exec_failure(result: object) -> None:
    """Successes, timeouts and commands that said nothing are none; a failure has an identity of 5.1b instead."""
    settlement = observe("exec", result)
    assert not settlement.exec_failure
    assert (settlement.failure is not None) is (settlement.status is Status.ERROR)


def test_only_exec_has_exec_failures() -> None:
    """The same result of another tool."""
    settlement = observe("shell", {"status": "completed", "exitCode": 1, "aggregated": "boom"})
    assert (settlement.failure, settlement.exec_failure) == (None, False)


@pytest.mark.parametrize(
    ("tool", "first", "second"),
    [
        ("fetch", {"error": "down, request id: q-1"}, {"error": "down, request id: q-2"}),
        ("fetch", {"error": {"code": 503, "requestId": "q1"}}, {"error": {"code": 503, "requestId": "q2"}}),
        ("fetch", {"error": {"at": [{"took": 1}]}}, {"error": {"at": [{"took": 2}]}}),
        ("fetch", {"error": ValueError("at 0x7f00")}, {"error": ValueError("at 0x7f01")}),
        ("fetch", {"result": {"ok": False, "why": "5s"}}, {"result": {"ok": False, "why": "6s"}}),
        ("fetch", {"result": "after 5 ms", "status": "error"}, {"result": "after 6 ms", "status": "error"}),
        ("exec", {"error": "pid 1"}, {"error": "pid 2"}),
        (
            "exec",
            {"result": {"status": "failed", "exitCode": 1, "timedOut": True, "output": "at 10:00:01"}},
            {"result": {"status": "failed", "exitCode": 1, "timedOut": True, "output": "at 10:00:02"}},
        ),
        (
            "wait",
            {"result": {"status": "failed", "telemetry": {"ms": 1}, "error": "retry 1"}},
            {"result": {"status": "failed", "telemetry": {"ms": 2}, "error": "retry 2"}},
        ),
    ],
)
def test_failure_identity_of_any_tool(tool: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    """SPEC 5.1b: another outcome, the same failure; and no failure of the kind that only commands have."""
    call = observe_call(tool, {}, ResolvedSettings())
    one, other = (observe_settlement(settle("c", tool, **each), call, True) for each in (first, second))
    assert one.outcome != other.outcome
    assert one.failure == other.failure is not None
    assert not one.exec_failure


def test_equal_errors_have_equal_identities() -> None:
    """Row 2: an object equals its canonical JSON as a text; so do their failure identities, volatile keys or not."""
    error = {"code": 503, "took": 5, "trace_id": "abc"}
    as_object = observe("fetch", error=error)
    as_text = observe("fetch", error='{"code":503,"took":5,"trace_id":"abc"}')
    assert as_object.outcome == as_text.outcome
    assert as_object.failure == as_text.failure


def test_similar_results_are_compared_without_their_spans() -> None:
    """``similar`` (SPEC 11.2): a status that shows elapsed time stays the same, and what it says is shown readably."""
    tools = {"build": {"similar": True}}
    settings = parse_settings({"plugins": {"entries": {"loopguard": {"config": {"tools": tools}}}}}).resolve()
    build = observe_call("build", {}, settings)

    def seen(**outcome: Any) -> Settlement:
        event = ToolCallSettled(session_key="s", call_id="c", tool="build", **outcome)
        return observe_settlement(event, build, True)

    assert seen(result="running for 5s").outcome == seen(result="running for 6s").outcome
    assert seen(result={"state": "running", "took": 5}).outcome == seen(result={"state": "running", "took": 6}).outcome
    assert seen(result="running").outcome != seen(result="done").outcome
    assert seen(outcome_identity="5s").outcome != seen(outcome_identity="6s").outcome
    failed = seen(error=ValueError("gave up after 5s"))
    assert failed.outcome == seen(error="gave up after 6s").outcome
    assert failed.error_text == "gave up after …"


# Statuses


@pytest.mark.parametrize(
    "result",
    [
        {"ok": False},
        {"success": False},
        {"ok": True, "success": False},
        *({"status": word} for word in ("error", "failed", "failure", "timeout", "timed_out", "denied", "forbidden")),
        *({"status": word} for word in ("unavailable", "disabled", "aborted", "cancelled", "canceled", "killed")),
        {"status": "invalid", "ok": None},
        {"error": "x"},
        {"error": {"code": 1}},
        {"ok": True, "error": "x"},
        {"isError": True},
        {"is_error": True},
        {"isError": True, "details": {}},
        {"details": {"isError": True}},
        {"details": {"ok": False}, "ok": True},
        {"details": None, "ok": False},
    ],
)
def test_derived_failures(result: object) -> None:
    """SPEC 5.2."""
    assert observe("read", result).status is Status.ERROR


@pytest.mark.parametrize(
    "result",
    [
        {"ok": 0},
        {"ok": None},
        {"success": "false"},
        {"status": "failed", "ok": True},
        {"status": "timeout", "success": True},
        {"status": "Failed"},
        {"status": ["failed"]},
        {"status": 500},
        {"error": ""},
        {"error": None},
        {"error": 0},
        {"isError": 1},
        {"details": {}, "ok": False},
        {"details": {"ok": True}, "error": "x"},
        {"content": [{"isError": True}]},
        "error",
        [{"ok": False}],
        None,
    ],
)
def test_not_derived_failures(result: object) -> None:
    """Nothing but what SPEC 5.2 lists; the details count where there are any."""
    assert observe("read", result).status is Status.OK


def test_exec_failures() -> None:
    """A nonzero exit is no failure of the call; the status ``failed`` is."""
    assert observe("exec", {"status": "completed", "exitCode": 1}).status is Status.OK
    assert observe("exec", {"status": "failed", "exitCode": 1}).status is Status.ERROR


def test_a_given_status_is_not_derived() -> None:
    """What the gateway says holds."""
    assert observe("read", {"ok": False}, status=Status.OK).status is Status.OK
    assert observe("read", "fine", status=Status.DENIED).status is Status.DENIED
    assert observe("read", error="x", status=Status.REJECTED).status is Status.REJECTED
    veto = {"status": "blocked", "deniedReason": "tool-loop"}
    assert observe("read", veto, status=Status.OK).status is Status.OK


def test_a_status_may_be_a_plain_string() -> None:
    """A gateway that builds its events in Python need not know the enum."""
    for status in Status:
        plain: Any = status.value
        for result in ("x", {"ok": False}, {"content": "x"}):
            seen = observe("read", result, status=plain)
            assert seen == observe("read", result, status=status)
            assert type(seen.status) is Status


@pytest.mark.parametrize("result", [{"status": "blocked", "deniedReason": "tool-loop"}])
def test_own_vetoes(result: dict[str, object]) -> None:
    """A result that says it was this guard is status ``blocked``; other reasons are results like any other."""
    for form in (result, {"content": [], "details": result}):
        assert observe("read", form) == Settlement(Status.BLOCKED)
    assert observe("read", {**result, "deniedReason": "plugin"}).status is Status.OK


@pytest.mark.parametrize("status", [Status.BLOCKED, Status.SKIPPED, Status.ABORTED])
def test_calls_that_did_not_run_have_no_outcome(status: Status) -> None:
    """Whatever they bring."""
    assert observe("read", "x", status=status) == Settlement(status)
    assert observe("read", error="x", status=status) == Settlement(status)


def test_outcomes_that_nobody_wants_are_not_computed() -> None:
    """Failures are compared all the same: the guard of SPEC 4 is always on."""
    assert observe("read", "x", want=False) == Settlement(Status.OK)
    assert observe("write", {"changed": False}, want=False) == Settlement(Status.OK)
    failed = observe("exec", {"status": "failed", "exitCode": 1, "output": "boom 5s"}, want=False)
    assert failed.failure is None
    assert failed.outcome == observe("exec", {"status": "failed", "exitCode": 1, "output": "boom 5s"}).outcome
    assert observe("read", error="x", want=False).outcome == observe("read", error="x").outcome


def test_unchanged() -> None:
    """Only a ``write`` that worked and says so."""
    assert observe("write", {"changed": False}).unchanged
    assert observe("write", {"changed": False}, identity="x").unchanged
    assert not observe("write", {"changed": False, "ok": False}).unchanged
    assert not observe("write", {"changed": True}).unchanged
    assert not observe("edit", {"changed": False}).unchanged


# Errors


@pytest.mark.parametrize(
    "text",
    [
        "unknown tool frob",
        "Unknown tool: 'web.search'",
        'Unknown tool id: "x"',
        "Tool frob not found",
        "tool `a/b-c` not found",
        "Error: tool 'frob' is not available in this session",
    ],
)
def test_unknown_tools(text: str) -> None:
    """SPEC 6: a failure whose text says that no such tool exists."""
    assert observe("frob", error=text).unknown_tool
    assert observe("frob", {"status": "error", "error": text}).unknown_tool
    assert observe("frob", error=RuntimeError(text), status=Status.REJECTED).unknown_tool
    assert not observe("frob", text).unknown_tool


@pytest.mark.parametrize("text", ["file x not found", "unknown option", "tools are not available", "tool not found"])
def test_known_tools(text: str) -> None:
    """Texts about other things."""
    assert not observe("frob", error=text).unknown_tool


def test_unknown_by_status() -> None:
    """The status alone is enough, and what a command prints is not."""
    assert observe("frob", error="?", status=Status.UNKNOWN_TOOL).unknown_tool
    assert observe("frob", "?", status=Status.UNKNOWN_TOOL).unknown_tool
    assert not observe("exec", {"status": "failed", "output": "unknown tool x"}).unknown_tool


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"error": "boom"}, "boom"),
        ({"error": ValueError("boom")}, "boom"),
        ({"error": {"code": 1}}, '{"code":1}'),
        ({"error": "x" * 1000}, "x" * 300),
        ({"result": {"ok": False, "error": {"message": " gone "}}}, "gone"),
        ({"result": {"isError": True, "content": [{"type": "text", "text": "gone"}]}}, "gone"),
        ({"result": {"ok": False, "n": 1}}, '{"n":1,"ok":false}'),
        ({"result": "gone", "status": Status.DENIED}, "gone"),
        ({"result": {"status": "failed", "output": "y" * 500}, "tool": "exec"}, None),
    ],
)
def test_error_texts(given: dict[str, Any], text: str | None) -> None:
    """What a failure says, at most 300 characters of it; successes say nothing."""
    given.setdefault("tool", "read")
    said = observe(**given).error_text
    assert said is not None
    assert said == text or (text is None and len(said) == 300)
    assert observe("read", "fine").error_text is None


def test_declared_sends() -> None:
    """``kind: send`` makes a send of any tool, ``plain`` makes none of a known one (SPEC 11.2)."""
    config = {"tools": {"notify_*": {"kind": "send"}, "sessions_send": {"kind": "plain"}}}
    settings = parse_settings({"plugins": {"entries": {"loopguard": {"config": config}}}}).resolve()
    one, other = {"messageId": "1"}, {"messageId": "2"}
    assert outcome("Notify_team", one, settings=settings) == outcome("notify_team", other, settings=settings)
    assert outcome("sessions_send", one, settings=settings) != outcome("sessions_send", other, settings=settings)


class Sly:
    """Raises in everything that it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return 1


class SlyDict(dict[object, object]):
    def get(self, *args: object) -> Any:
        raise RuntimeError("get")


class SlyError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("str")


TOOLS = ("exec", "wait", "write", "memory_search", "computer", "progress_card", "sessions_send", "read")


@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_raises(tool: str) -> None:
    """Frameworks' objects, cyclic and deep values, in every place that is looked at."""
    cyclic: dict[str, object] = {"status": "completed", "results": [], "telemetry": 1}
    cyclic["observation"] = {"kind": "window", "elements": [cyclic]}
    cyclic["results"] = cyclic["details"] = cyclic
    deep: object = {"id": "1"}
    for _ in range(400):
        deep = {"a": [deep]}
    for odd in (Sly(), SlyDict(a=1), {Sly(): 1}, cyclic, deep, {"status": Sly()}, {"error": Sly()}, "\ud800", b"x"):
        for result in (odd, {"details": odd}, {"content": odd}, {"content": [odd]}, {"results": [odd], "changed": odd}):
            seen = observe(tool, result)
            assert seen == observe(tool, result)
            assert seen.outcome is not None
            assert observe(tool, result, status=Status.ERROR).error_text is not None
        assert observe(tool, error=odd).status is Status.ERROR
        assert observe(tool, 1, identity=odd).outcome is not None
    assert observe(tool, error=SlyError()).error_text == "SlyError"


def test_deep_sends_are_stripped() -> None:
    """Nesting hides no delivery id."""

    def sent(message: str) -> object:
        value: object = {"messageId": message}
        for _ in range(2000):
            value = {"a": [value]}
        return value

    assert outcome("sessions_send", sent("1")) == outcome("sessions_send", sent("2"))
