"""Live settings, with real files and the real watchfiles (SPEC 11.2)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from helpers import settings_of, settle, start
from loguru import logger

from loopguard_plugin import Deliver, EmbeddedBus, LoopGuard, ToolCallSettled
from loopguard_plugin.config_file import load_settings
from loopguard_plugin.config_watch import watch_config

pytestmark = pytest.mark.anyio

ON = "{tools: {loopDetection: {enabled: true, warningThreshold: 5}}}"
OFF = "{tools: {loopDetection: {enabled: false}}}"
# So rarely that only notifications can have told of a change in time.
NEVER = 3600.0
PATIENCE = 20.0  # seconds


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops."""
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A config file with the rolling detectors on, alone in its directory."""
    path = tmp_path / "config" / "gateway.json5"
    path.parent.mkdir()
    path.write_text(ON)
    return path


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What is logged, as ``LEVEL text``."""
    found: list[str] = []
    sink = logger.add(lambda message: found.append(str(message).strip()), format="{level} {message}", level="INFO")
    yield found
    logger.remove(sink)


@asynccontextmanager
async def watched(file: Path, poll: float = 1.0) -> AsyncIterator[LoopGuard]:
    """A guard that follows this file; the watch ends with the block.

    A second change right after a first can come while the watch is made anew: the look every ``poll`` seconds is there
    for that. With ``NEVER``, notifications have to do.
    """
    guard = LoopGuard.from_config_file(file)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: watch_config(guard, file, quiet=0.1, poll=poll))
        await anyio.sleep(0.3)  # watchfiles is in place
        yield guard
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], Any]) -> None:
    """Wait until this holds."""
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.02)


async def rolls(guard: LoopGuard, on: bool) -> None:
    """Wait until the rolling detectors are on, or off."""
    await until(lambda: guard.settings.resolve().rolling is on)


async def test_a_changed_file_is_picked_up(file: Path, lines: list[str]) -> None:
    """The next event meets the new settings, and one line says which guards are on and what changed."""
    async with watched(file, poll=NEVER) as guard:
        assert guard.settings.resolve().rolling
        file.write_text(OFF)
        await rolls(guard, False)
    assert lines[1:] == [
        "INFO loopguard settings changed: rolling detectors off, post-compaction guard off, repeated tool errors on; "
        "changed: enabled, warningThreshold"
    ]


async def test_open_runs_keep_their_counts(file: Path) -> None:
    """Three repeats before the change and two after it are the five that the new threshold asks for."""
    async with watched(file) as guard:
        for n in range(3):
            guard.feed(start(f"c{n}"))
            guard.feed(settle(f"c{n}"))
        file.write_text(ON.replace("5", "4"))
        await until(lambda: guard.settings.resolve().warning == 4)
        guard.feed(start("c3"))
        assert guard.feed(settle("c3")).note is None
        guard.feed(start("c4"))
        answer = guard.feed(settle("c4"))
        assert (answer.detector, answer.count) == ("generic_repeat", 4)


async def test_a_file_changed_before_the_watch_began_counts(file: Path) -> None:
    """What was edited between building the guard and watching is not missed."""
    guard = LoopGuard.from_config_file(file)
    file.write_text(OFF)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: watch_config(guard, file, quiet=0.05, poll=NEVER))
        await rolls(guard, False)
        tasks.cancel_scope.cancel()


async def test_a_key_that_nothing_reads_is_told_and_the_rest_holds(file: Path, lines: list[str]) -> None:
    """The file is the gateway's own: what is right in it is put in force, and the key is a warning, once."""
    unread = '{"plugins": {"entries": {"loopgaurd": {}}}, "tools": {"loopDetection": {"enabled": true}}}'
    async with watched(file) as guard:
        file.write_text(unread)
        await until(lambda: len(lines) > 2)
        assert guard.settings.resolve().warning == 10
        file.write_text(unread + "\n")
        await anyio.sleep(0.5)
    assert lines[1:] == [
        "INFO loopguard settings changed: rolling detectors on, post-compaction guard on, repeated tool errors on; "
        "changed: warningThreshold",
        "WARNING loopguard setting not read: plugins.entries.loopgaurd: loopguard does not read this key "
        "(did you mean loopguard?)",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{tools: {\n  loopDetection: }}", "line 2, column 18: not JSON5: expected a value, found `}`"),
        (
            "{tools: {loopDetection: {enabledd: true}}}",
            "tools.loopDetection.enabledd: unknown key, expected one of criticalThreshold, detectors, enabled, "
            "globalCircuitBreakerThreshold, historySize, postCompactionGuard, unknownToolThreshold, warningThreshold "
            "(did you mean enabled?)",
        ),
    ],
    ids=["syntax", "key"],
)
async def test_a_broken_file_keeps_the_last_good_settings(file: Path, lines: list[str], text: str, told: str) -> None:
    """The error is logged once, with file and line and column or path; the mended file is told as well."""
    async with watched(file) as guard:
        before = guard.settings
        file.write_text(text)
        await until(lambda: len(lines) > 1)
        assert guard.settings is before
        file.write_text(ON)
        await until(lambda: len(lines) > 2)
        assert guard.settings is before
    assert lines[1:] == [
        f"ERROR loopguard settings not changed, the last good ones stay: {file}: {told}",
        f"INFO loopguard settings file can be used again, no setting changed: {file}",
    ]


async def test_a_half_written_file_never_applies(file: Path, lines: list[str]) -> None:
    """A writer that truncates the file and writes it piece by piece is waited for; no error is told meanwhile."""
    seen: set[tuple[bool | None, int]] = set()
    text = "// settings\n{tools: {loopDetection: {enabled: true, warningThreshold: 7}},\n plugins: {}}\n"
    async with watched(file) as guard:
        for _ in range(2):
            with file.open("w") as out:
                for at in range(0, len(text), 8):
                    out.write(text[at : at + 8])
                    out.flush()
                    await anyio.sleep(0.04)
                    resolved = guard.settings.resolve()
                    seen.add((resolved.enabled, resolved.warning))
            await until(lambda: guard.settings.resolve().warning == 7)
            text = text.replace("7", "8")
        await until(lambda: guard.settings.resolve().warning == 8)
    assert seen == {(True, 5), (True, 7)}
    assert [line for line in lines if line.startswith("ERROR")] == []


async def test_a_file_overwritten_in_place_never_applies_as_a_mixture(file: Path) -> None:
    """New beginning and old end can be good JSON5 together; only what stays the same for a while counts."""
    file.write_text("{tools: {loopDetection: {warningThreshold: 11, historySize: 44}}}")
    async with watched(file) as guard:
        with file.open("r+") as out:
            out.write("{tools: {loopDetection: {warningThreshold: 12")
            out.flush()
            await anyio.sleep(0.05)
            out.write(", historySize: 55}}}")
        await until(lambda: guard.settings.resolve().warning != 11)
        assert guard.settings.resolve().history_size == 55


async def test_a_file_that_is_replaced_is_followed(file: Path) -> None:
    """Editors write another file and rename it over the old one, more than once."""
    async with watched(file) as guard:
        for text, rolling in ((OFF, False), (ON, True), (OFF, False)):
            other = file.with_name("gateway.json5~")
            other.write_text(text)
            other.replace(file)
            await rolls(guard, rolling)


async def test_a_file_that_is_deleted_and_made_anew_is_followed(file: Path, lines: list[str]) -> None:
    """Gone for a moment is nothing to speak of; gone for longer is an error; made anew, it counts."""
    async with watched(file) as guard:
        file.unlink()
        await anyio.sleep(0.05)
        file.write_text(OFF)
        await rolls(guard, False)
        assert len(lines) == 2
        file.unlink()
        await until(lambda: len(lines) == 3)
        assert lines[2].startswith("ERROR")
        assert lines[2].endswith(f"{file}: cannot be read: No such file or directory")
        file.write_text(ON)
        await rolls(guard, True)


async def test_a_directory_that_is_deleted_and_made_anew_is_followed(file: Path) -> None:
    """The new directory is another one to the system, and is found all the same."""
    async with watched(file, poll=0.2) as guard:
        shutil.rmtree(file.parent)
        await anyio.sleep(0.5)
        file.parent.mkdir()
        file.write_text(OFF)
        await rolls(guard, False)
        file.write_text(ON)
        await rolls(guard, True)


async def test_a_mounted_config_map_is_followed(tmp_path: Path) -> None:
    """Kubernetes turns the link ``..data`` to another directory; the file's own entry stays the same link."""

    def publish(version: str, text: str) -> None:
        (tmp_path / version).mkdir()
        (tmp_path / version / "gateway.json5").write_text(text)
        (tmp_path / "..data_tmp").symlink_to(version)
        os.replace(tmp_path / "..data_tmp", tmp_path / "..data")

    publish("..2026_1", ON)
    file = tmp_path / "gateway.json5"
    file.symlink_to("..data/gateway.json5")
    async with watched(file) as guard:
        publish("..2026_2", OFF)
        await rolls(guard, False)
        shutil.rmtree(tmp_path / "..2026_1")
        publish("..2026_3", ON)
        await rolls(guard, True)


async def test_a_link_to_a_file_elsewhere_is_followed(tmp_path: Path, file: Path) -> None:
    """Both count: the file that the link leads to, and the link itself."""
    link = tmp_path / "link.json5"
    link.symlink_to(file)
    async with watched(link, poll=0.2) as guard:
        file.write_text(OFF)
        await rolls(guard, False)
        (tmp_path / "other.json5").write_text(ON)
        (tmp_path / "new").symlink_to(tmp_path / "other.json5")
        (tmp_path / "new").replace(link)
        await rolls(guard, True)


async def test_edits_of_other_parts_swap_nothing(file: Path, lines: list[str]) -> None:
    """The gateway's own settings change often; ours stay the same object then, and nothing is told."""
    async with watched(file) as guard:
        before = guard.settings
        file.write_text(ON.replace("{tools", "{channels: [1, 2], tools"))
        await anyio.sleep(0.8)
        assert guard.settings is before
    assert len(lines) == 1


async def test_settings_of_one_agent_apply_to_its_next_event(file: Path, lines: list[str]) -> None:
    """A change for one agent leaves the others as they are, also the calls that are open."""
    async with watched(file) as guard:
        guard.feed(start("c1", agent="cron"))
        file.write_text(
            ON.replace(
                "{tools", "{plugins: {entries: {loopguard: {config: {agents: {cron: {mode: 'observe'}}}}}}, tools"
            )
        )
        await until(lambda: guard.settings.resolve("cron").observe)
        assert not guard.settings.resolve("main").observe
        guard.feed(settle("c1"))
    assert lines[1].endswith("(otherwise for: cron); changed: agent cron")


async def test_switching_while_events_flow_loses_none(file: Path) -> None:
    """``enabled`` goes on and off under load: every event reaches every handler, is judged, and has its answer."""
    rounds, seen, answers = 0, 0, 0
    states: set[bool | None] = set()

    async def handler(event: ToolCallSettled) -> None:
        nonlocal seen
        seen += 1

    async with watched(file) as guard, anyio.create_task_group() as tasks:
        bus = EmbeddedBus()
        bus.use(guard)
        bus.subscribe(ToolCallSettled, handler)
        done = anyio.Event()

        async def publisher(name: str) -> None:
            nonlocal answers, rounds
            while not done.is_set():
                rounds += 1
                await bus.publish(start(f"c{rounds}", args={"n": rounds}, run=name))
                answer = await bus.publish(settle(f"c{rounds}", run=name))
                assert isinstance(answer, Deliver)
                assert answer.result == "same"
                answers += 1
                states.add(guard.settings.resolve().enabled)
                await anyio.sleep(0.0005)

        for name in ("a", "b", "c"):
            tasks.start_soon(publisher, name)
        for text in (OFF, ON, OFF, ON):
            file.write_text(text)
            await rolls(guard, text == ON)
            await anyio.sleep(0.05)
        done.set()
    stats = guard.stats()
    assert rounds == seen == answers > 100
    assert (stats.events, stats.malformed, stats.errors) == (2 * rounds, 0, 0)
    assert states == {True, False}


async def test_where_nothing_notifies_the_file_is_looked_at(
    file: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system whose watches are used up raises; the settings are followed all the same, and that is told once."""

    def none_left(*_: object, **__: object) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.main.RustNotify", none_left)
    async with watched(file, poll=0.1) as guard:
        for text, rolling in ((OFF, False), (ON, True)):
            file.write_text(text)
            await rolls(guard, rolling)
    told = [line for line in lines if line.startswith("WARNING")]
    assert told == [
        f"WARNING loopguard is not notified of changes in {file.parent} (OSError), and looks at the settings file "
        "every 0.1 seconds"
    ]


async def test_cancelling_ends_it_at_once(file: Path) -> None:
    """A gateway that shuts down does not wait for the next look at the file."""
    began = anyio.current_time()
    async with watched(file):
        pass
    assert anyio.current_time() - began < 2


@pytest.mark.skipif(os.name == "nt", reason="no pipes by name there")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
async def test_a_file_that_becomes_something_else_is_not_waited_for(
    file: Path, lines: list[str], make: Callable[[Path], None]
) -> None:
    """A pipe, a directory or a device in the file's place is an error like any other; a file again is picked up."""
    began = anyio.current_time()
    async with watched(file, poll=0.2) as guard:
        file.unlink()
        make(file)
        await until(lambda: len(lines) == 2)
        assert lines[1].startswith("ERROR loopguard settings not changed, the last good ones stay")
        assert f"{file}: cannot be read: " in lines[1]
        file.rmdir() if file.is_dir() else file.unlink()
        file.write_text(OFF)
        await rolls(guard, False)
        file.unlink()
        make(file)
        await until(lambda: len(lines) == 4)
    assert anyio.current_time() - began < PATIENCE


@pytest.mark.skipif(os.name == "nt", reason="no pipes by name there")
async def test_a_gateway_with_a_pipe_for_a_file_shuts_down(file: Path) -> None:
    """Cancelling ends the watch at once, also while the file cannot be read, and leaves no thread that blocks."""
    async with watched(file):
        file.unlink()
        os.mkfifo(file)
        await anyio.sleep(1)
        began = anyio.current_time()
    assert anyio.current_time() - began < 2
    waiting = {thread for thread in sys._current_frames().values() if thread.f_code.co_name == "_read"}
    assert not waiting


def test_use_takes_settings_alone(file: Path) -> None:
    """Swapping by hand works as by file; anything but settings is refused, and the former ones stay."""
    guard = LoopGuard(settings_of({"enabled": True}))
    before = guard.settings
    with pytest.raises(TypeError, match=r"use takes Settings, got PosixPath; use use\(load_settings\(path\)\)"):
        guard.use(file)  # type: ignore[arg-type]  # the mistake under test
    assert guard.settings is before
    guard.use(load_settings(file))
    assert guard.settings.resolve().warning == 5


def test_the_plugin_can_be_switched_off_and_on(lines: list[str]) -> None:
    """Off, events pass unjudged; on again, they are judged, and each change is told."""
    guard = LoopGuard(settings_of({"enabled": True}))
    guard.use(settings_of({"plugins": {"entries": {"loopguard": {"enabled": False}}}}))
    guard.feed(start("c1"))
    assert guard.stats().events == 0
    guard.use(settings_of({"enabled": True, "criticalThreshold": 3}))
    guard.feed(start("c2"))
    assert guard.stats().events == 1
    assert lines[1].startswith("INFO loopguard settings changed: is off (plugins.entries.loopguard.enabled: false)")
    assert lines[2].startswith("INFO loopguard settings changed: rolling detectors on")
    assert lines[3].startswith("WARNING loopguard setting adjusted: tools.loopDetection.criticalThreshold: 3 is used")
