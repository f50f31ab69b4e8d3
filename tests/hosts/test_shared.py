"""What every host adapter is built on: versions, configurations, batches as values, and nothing that gets out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from loguru import logger

from loopguard_plugin import LoopGuard, Settings, SettingsError, TurnEndingError, parse_settings
from loopguard_plugin.answers import Blocked, Code, Detector, Proceed
from loopguard_plugin.events import Status, UserMessageCommitted
from loopguard_plugin.hosts._shared import (
    Calls,
    arguments,
    build_guard,
    fail_open,
    report_failure,
)
from loopguard_plugin.hosts._versions import Host, Trial, UnsupportedHostError, require, trial_run, within

ON = {"tools": {"loopDetection": {"enabled": True}}}


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("0.19.0", True),
        ("0.19", True),
        ("0.19.7.post1", True),
        ("0.18.9", False),
        ("0.20", False),
        ("0.20.0rc1", False),
        ("1.0", False),
    ],
)
def test_version_ranges(version: str, fits: bool) -> None:
    """From the lower bound on, and below the upper one."""
    assert within(version, ">=0.19,<0.20") is fits


def test_an_absent_host_names_its_extra() -> None:
    """An ImportError that says what to install."""
    with pytest.raises(ImportError, match=r'pip install "loopguard-plugin\[hermes\]"'):
        require("no-such-host", tried=">=1,<2", below="2", extra="hermes")


def test_only_a_later_major_version_is_refused_by_its_number() -> None:
    """At once, or by the first check; any other is looked at first."""
    with pytest.raises(UnsupportedHostError, match=r"cannot work with msgspec \d.*versions below 0 \(tried: >=0,<99\)"):
        require("msgspec", tried=">=0,<99", below="0", extra="hermes")
    later = require("msgspec", tried=">=0,<99", below="0", extra="hermes", refuse_later=True)
    with pytest.raises(UnsupportedHostError, match="versions below 0"):
        later.check(list)
    assert require("msgspec", tried=">=98,<99", below="99", extra="hermes").version


def test_a_look_is_taken_once_and_never_stops_a_host() -> None:
    """A look that fails says so; one that finds the host useless refuses it, each time."""
    told: list[str] = []
    sink = logger.add(lambda message: told.append(message.record["message"]), level="WARNING")

    def fails() -> list[str]:
        raise TypeError("another signature")

    host = Host("some-host", "9.0", ">=1,<2")
    host.check(fails)
    host.check(fails)
    logger.remove(sink)
    assert told == [
        "loopguard has not been tried with some-host 9.0 (tried: >=1,<2); "
        "what the guard sees there could not be found out (TypeError: another signature)"
    ]
    host = Host("some-host", "9.0", ">=1,<2")
    for _ in range(2):
        with pytest.raises(UnsupportedHostError, match="told of no call at all"):
            host.check(lambda: trial_run(host, lambda trial: None))
    Host("some-host", "1.5", ">=1,<2").check(fails)


def test_a_trial_run_says_what_was_not_seen() -> None:
    """A host that tells of calls and of their results, but not how they ended, and goes on after the end."""

    def drive(trial: Trial) -> None:
        calls, number = Calls(trial.guard), 0
        while (tool := trial.answer()) is not None:
            number += 1
            calls.starts("s", [("c", tool, {})], batch_id=str(number))
            calls.settle("s", "c", tool, batch_id=str(number), result="failed, it says")

    assert trial_run(Host("some-host", "9.0", ">=1,<2"), drive) == [
        "user messages",
        "unknown tools",
        "failures of tools",
        "the end of a turn, which the host ignores",
    ]


def test_configurations(tmp_path: Path) -> None:
    """Nothing, settings, a mapping, a file or a guard: all of them make a guard, and a bad one raises at once."""
    file = tmp_path / "gateway.json5"
    file.write_text("{tools: {loopDetection: {enabled: true}}}")
    guard = LoopGuard()
    assert build_guard(guard) is guard
    assert build_guard().settings == build_guard(Settings()).settings
    assert all(build_guard(one).settings.resolve().rolling for one in (parse_settings(ON), ON, file, str(file)))
    with pytest.raises(SettingsError, match="histroySize"):
        build_guard({"tools": {"loopDetection": {"histroySize": 1}}})
    with pytest.raises(SettingsError):
        build_guard(tmp_path / "absent.json5")


def test_a_batch_comes_back_as_values() -> None:
    """An answer for each call; the second critical batch has the error beside its refusals."""
    calls = Calls({"tools": {"loopDetection": {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}}})
    batch = [("a", "read", {"p": 1}), ("b", "read", {"p": 1}), ("c", "read", {"p": 1}), ("d", "read", {"p": 1})]
    first = calls.starts("s", batch, batch_id="1", run="r")
    assert first.error is None
    assert all(isinstance(answer, Blocked) for answer in first.answers)
    second = calls.starts("s", batch, batch_id="2", run="r")
    assert second.error is not None
    assert second.error.code is Code.TOOL_LOOP_PERSISTED
    assert second.blocked is not None
    assert second.blocked.terminal
    ended = calls.ended("s", "r")
    assert ended is not None
    assert ended.message == second.error.message
    calls.end_run("s", "r")
    assert calls.ended("s", "r") is None


def test_a_settlement_comes_back_with_its_error() -> None:
    """The third identical failure has the error, and what it brought is not lost."""
    calls = Calls()
    for number in range(3):
        calls.starts("s", [("c", "read", {})], batch_id=str(number))
        settled = calls.settle("s", "c", "read", batch_id=str(number), error="boom", status=Status.ERROR)
    assert settled.answer.error == "boom"
    assert settled.error is not None
    assert settled.error.detector is Detector.REPEATED_TOOL_ERROR
    calls.user_message("s")
    assert calls.ended("s") is None


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(lambda text: text, id="text"),
        pytest.param(lambda text: {"content": text}, id="content"),
        pytest.param(lambda text: {"content": [{"type": "text", "text": text}]}, id="blocks"),
    ],
)
def test_the_last_word_of_an_ended_agent_is_a_failure(shape: Callable[[str], object]) -> None:
    """A call that delegates to an agent whose turn was ended has failed, whichever guard ended it."""
    messages: list[str] = []
    for settings in ({}, {"plugins": {"entries": {"loopguard": {"config": {"limits": {"callsPerRun": 2}}}}}}):
        below = Calls(settings)
        for number in range(3):
            started = below.starts("s", [("c", "read", {})], batch_id=str(number))
            error = started.error or below.settle("s", "c", "read", batch_id=str(number), error="boom").error
        assert error is not None
        messages.append(error.message)
    for message in messages:
        calls = Calls()
        ended = None
        for number in range(3):
            calls.starts("s", [("c", "ask", {})], batch_id=str(number))
            assert ended is None
            ended = calls.settle("s", "c", "ask", batch_id=str(number), result=shape(message)).error
        assert ended is not None
        assert ended.code is Code.REPEATED_TOOL_ERROR
    calls = Calls()
    for number in range(5):
        calls.starts("s", [("c", "read", {})], batch_id=str(number))
        assert calls.settle("s", "c", "read", batch_id=str(number), result=shape(f"It said: {message}")).error is None


def test_nothing_gets_out() -> None:
    """A guard that raises, and events that make no sense, are answered as if there were no guard."""

    def broken() -> float:
        raise RuntimeError("a bug")

    calls = Calls(LoopGuard(parse_settings(ON), clock=broken))
    started = calls.starts("", [("c", "read", {})], batch_id="1")
    assert started.answers == (Proceed(),)
    assert started.error is None
    assert calls.settle("s", "c", "read", batch_id="1", result={"x": 1}).answer.result == {"x": 1}
    calls.user_message("s")
    calls.compacted("s")
    calls.guard = None  # type: ignore[assignment]  # what an adapter's own bug may come to
    assert calls.ended("s") is None
    calls.end_run("s")
    assert calls.feed(UserMessageCommitted(session_key="s"))[1] is None


def test_threads_lose_nothing() -> None:
    """Calls that settle from eight threads at once are all counted."""
    calls = Calls(ON)
    batch = [(f"c{n}", "read", {"n": n}) for n in range(64)]
    calls.starts("s", batch, batch_id="1")

    def settle(part: list[tuple[str, str, dict[str, int]]]) -> None:
        for call_id, tool, _ in part:
            calls.settle("s", call_id, tool, batch_id="1", result="same")

    threads = [threading.Thread(target=settle, args=(batch[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = calls.guard.stats()
    assert (stats.events, stats.errors) == (128, 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": 1}', {"a": 1}), ("{broken", "{broken"), (b"[1]", [1]), ({"a": 1}, {"a": 1}), (None, None)],
)
def test_arguments(text: object, value: object) -> None:
    """JSON text is decoded, anything else stays what it is."""
    assert arguments(text) == value


def test_fail_open() -> None:
    """A failing callback answers what it was told to, sync and async; the end of a turn passes."""

    @fail_open("as if nothing")
    def bad() -> str:
        raise RuntimeError

    @fail_open()
    async def worse() -> None:
        raise RuntimeError

    ending = TurnEndingError(
        code=Code.REPEATED_TOOL_ERROR,
        message="over",
        session_key="s",
        run_id=None,
        tool="read",
        count=3,
        detector=Detector.REPEATED_TOOL_ERROR,
        answer=None,
    )

    @fail_open()
    def ended() -> None:
        raise ending

    assert bad() == "as if nothing"
    assert asyncio.run(worse()) is None
    with pytest.raises(TurnEndingError):
        ended()


def test_failures_are_told_seldom(caplog: pytest.LogCaptureFixture) -> None:
    """The same trouble at the same place is one line a minute, without the error's text."""
    from loopguard_plugin import logs

    number = logs.forward_to_stdlib("hosttest")
    try:
        for _ in range(3):
            try:
                raise KeyError("secret")
            except KeyError as error:
                report_failure(error, "somewhere")
    finally:
        logger.remove(number)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(lines) == 1
    assert "KeyError" in lines[0]
    assert "secret" not in lines[0]
