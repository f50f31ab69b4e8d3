"""RecordEvents: what is published is in the file, plays to the same verdicts, and never disturbs the gateway."""

from __future__ import annotations

import json
import os
import random
import stat
import threading
import time
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from helpers import compaction, message, settle, start
from loguru import logger

from loopguard_plugin import EmbeddedBus, LoopGuard, RecordEvents, TurnEndingError, parse_settings
from loopguard_plugin import recording as module
from loopguard_plugin.answers import Answer
from loopguard_plugin.cli import main
from loopguard_plugin.events import Event
from loopguard_plugin.recorded_files import RecordedFiles
from loopguard_plugin.report.rows import row

ON = {"tools": {"loopDetection": {"enabled": True}}}
SECRET = "hunter2"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@dataclass
class Thing:
    """A result of a framework."""

    text: str


class Colour(Enum):
    RED = "red"


def circle() -> list[object]:
    ring: list[object] = ["x"]
    ring.append(ring)
    return ring


RESULTS: list[dict[str, Any]] = [
    {"result": "same"},
    {"result": f"{SECRET} and more"},
    {"result": {"details": {"status": "completed", "exitCode": 1, "aggregated": "FAIL in 0.31s"}}},
    {"result": {"details": {"status": "completed", "exitCode": 1, "aggregated": "FAIL in 0.42s"}}},
    {"result": {"details": {"changed": False}, "content": "x"}},
    {"result": {"ok": False, "error": "no"}},
    {"error": ValueError(SECRET)},
    {"error": "unknown tool frob"},
    {"error": "no answer within 12 ms"},
    {"error": "no answer within 15 ms"},
    {"error": "denied", "status": "denied"},
    {"status": "aborted"},
    {"result": Thing("x")},
    {"result": [b"bytes", Colour.RED, float("nan"), 10**400, "\ud83d", (1, 2)]},
    {"result": circle()},
    {"result": {(1, 2): "no JSON key"}},
]
ARGUMENTS: list[object] = [{"p": 1}, {"command": SECRET}, {"action": "poll", "id": 1}, Thing("y"), circle()]


def traffic(seed: int, length: int) -> list[Event]:
    """Calls with few tools, arguments and results, often the same again, so that every detector has something."""
    chance = random.Random(seed)
    events: list[Event] = []
    stuck = (chance.choice(ARGUMENTS), chance.choice(RESULTS), "exec")
    for number in range(length):
        if chance.random() < 0.05:
            stuck = (
                chance.choice(ARGUMENTS),
                chance.choice(RESULTS),
                chance.choice(["exec", "process", "write", "read"]),
            )
            events.append(message() if chance.random() < 0.5 else compaction())
        fresh = (chance.choice(ARGUMENTS), chance.choice(RESULTS), chance.choice(["exec", "read"]))
        calls = [stuck if chance.random() < 0.8 else fresh for _ in range(chance.choice([1, 1, 1, 2]))]
        batch = [(f"c{number}.{index}", tool, args) for index, (args, _, tool) in enumerate(calls)]
        for index, (name, tool, args) in enumerate(batch):
            events.append(start(name, tool, args, batch_id=f"b{number}", index=index, batch=batch))
        for index, (_, outcome, tool) in enumerate(calls):
            events.append(settle(batch[index][0], tool, **outcome, batch_id=f"b{number}", index=index))
    return events


def verdicts(lines: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """What the contract says of an event, but for the words."""
    return [tuple(line[name] for name in ("event", "call_id", "action", "detector", "count", "code")) for line in lines]


async def recorded(path: Path, events: list[Event], **how: Any) -> list[dict[str, Any]]:
    """Publish events on a bus with recorder and guard; what was answered, as replay would write it."""
    bus = EmbeddedBus()
    recorder = RecordEvents(path, **how)
    bus.use(recorder)
    bus.use(LoopGuard(parse_settings(ON)))
    lines = []
    for i, event in enumerate(events):
        answer: Answer | TurnEndingError
        try:
            answer = cast(Answer, await bus.publish(event))
        except TurnEndingError as ended:
            answer = ended
        written = row(i, event, answer)
        lines.append({name: getattr(written, name) for name in written.__struct_fields__})
    assert await anyio.to_thread.run_sync(recorder.close)
    assert (recorder.recorded, recorder.dropped) == (len(events), 0)
    return lines


def replayed(path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    config = path.parent / "on.json5"
    config.write_text(json.dumps(ON))
    capsys.readouterr()
    assert main(["replay", str(path), "--json", "--config", str(config)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("contents", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_recording_plays_to_the_same_verdicts(
    seed: int, contents: bool, backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever arguments and results are, with their contents or with digests in their place."""
    path = tmp_path / "events.jsonl"
    how: dict[str, Any] = {"contents": contents, "settings": parse_settings(ON)}
    live = anyio.run(partial(recorded, **how), path, traffic(seed, 150), backend=backend)
    assert verdicts(replayed(path, capsys)) == verdicts(live)
    assert {line["action"] for line in live} >= {"deliver", "note", "block"}
    assert (SECRET in path.read_text()) is contents


def test_digests_of_two_recordings_cannot_be_compared(tmp_path: Path) -> None:
    """Without contents equal arguments are equal within a recording, and nowhere else."""
    found = []
    for name in ("a.jsonl", "b.jsonl"):
        with RecordEvents(tmp_path / name, contents=False) as recorder:
            recorder.record(start("c1"))
            recorder.record(start("c2"))
        found.append([json.loads(line)["args"]["digest"] for line in (tmp_path / name).read_text().splitlines()])
    assert found[0][0] == found[0][1] != found[1][0] == found[1][1]


def test_batch_list_is_written_once(tmp_path: Path) -> None:
    """A wide batch takes lines of linear size: its list stands in the first of its starts."""
    path = tmp_path / "events.jsonl"
    batch = [(f"c{number}", "read", {"p": number}) for number in range(3)]
    with RecordEvents(path) as recorder:
        for name, tool, args in batch:
            recorder.record(start(name, tool, args, batch_id="b", batch=batch))
    assert ["batch" in json.loads(line) for line in path.read_text().splitlines()] == [True, False, False]


def test_files_are_renamed_by_size_and_replay_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No line is cut, the newest files stay, and the directory plays from the oldest to the newest."""
    path = tmp_path / "rec" / "events.jsonl"
    with RecordEvents(path, max_bytes=400, keep=3) as recorder:
        for number in range(20):
            recorder.record(start(f"c{number}"))
    names = sorted(file.name for file in path.parent.iterdir())
    assert len(names) == 4
    assert names[-1] == "events.jsonl"
    assert all(file.stat().st_size <= 400 for file in path.parent.iterdir())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["replay", str(path.parent), "--json"]) == 0
    calls = [json.loads(line)["call_id"] for line in capsys.readouterr().out.splitlines()]
    assert calls == [f"c{number}" for number in range(20 - len(calls), 20)]


def test_file_without_an_ending_is_renamed_too(tmp_path: Path) -> None:
    """The number stands behind the name, also where the path has no suffix; the newest old file stays."""
    with RecordEvents(tmp_path / "events", max_bytes=100, keep=1) as recorder:
        for number in range(5):
            recorder.record(start(f"c{number}"))
    assert recorder.dropped == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["events", "events.000004"]


def test_cut_line_is_ended_before_the_next_one(tmp_path: Path) -> None:
    """A recording that a killed process left goes on in a line of its own."""
    path = tmp_path / "events.jsonl"
    path.write_text('{"type": "tool_call_st')
    with RecordEvents(path) as recorder:
        recorder.record(start("c1"))
    first, second = path.read_text().splitlines()
    assert first == '{"type": "tool_call_st'
    assert json.loads(second)["call_id"] == "c1"


def test_flush_leaves_everything_in_the_file(tmp_path: Path) -> None:
    """After a flush the file holds what was recorded, while recording goes on; after closing nothing is added."""
    path = tmp_path / "events.jsonl"
    recorder = RecordEvents(path)
    recorder.record(start("c1"))
    assert recorder.flush()
    assert len(path.read_text().splitlines()) == 1
    recorder.record(settle("c1"))
    assert recorder.close()
    recorder.record(start("c2"))
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.anyio
async def test_disk_that_fails_does_not_reach_the_gateway(tmp_path: Path) -> None:
    """Where the file cannot be written every event passes on, and the log says so once, without contents."""
    (tmp_path / "file").touch()
    recorder = RecordEvents(tmp_path / "file" / "events.jsonl")
    bus = EmbeddedBus()
    bus.use(recorder)
    told: list[str] = []
    sink = logger.add(lambda line: told.append(str(line)), format="{level} {message}", level="INFO")
    try:
        for number in range(50):
            await bus.publish(start(f"c{number}", args={"password": SECRET}))
        assert await anyio.to_thread.run_sync(recorder.close)
    finally:
        logger.remove(sink)
    assert (recorder.recorded, recorder.dropped) == (0, 50)
    assert len(told) == 1
    assert told[0].startswith("WARNING loopguard could not record an event in ")
    assert SECRET not in told[0]


def test_disk_that_hangs_does_not_hold_the_gateway_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines wait up to a limit, those being written too; what comes beyond is dropped and counted, and nobody waits."""
    gone_on = threading.Event()
    written: list[bytes] = []
    monkeypatch.setattr(module, "MOST_WAITING", 2000)

    def slow(files: object, line: bytes) -> None:
        gone_on.wait(20)
        written.append(line)

    monkeypatch.setattr(RecordedFiles, "write", slow)
    recorder = RecordEvents(tmp_path / "events.jsonl")
    for number in range(100):
        recorder.record(start(f"c{number}"))
        time.sleep(0.0005)  # so that the thread takes the first ones
    assert not recorder.flush(timeout=0.05)
    gone_on.set()
    assert recorder.close()
    assert sum(map(len, written)) <= 2000
    assert recorder.recorded == len(written) > 10
    assert recorder.recorded + recorder.dropped == 100


def test_batch_whose_first_line_was_lost_is_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of a batch is not lost with the line that it stood in."""
    path = tmp_path / "events.jsonl"
    batch = [(f"c{number}", "read", {"p": number}) for number in range(2)]
    with RecordEvents(path) as recorder:
        monkeypatch.setattr(module, "MOST_WAITING", 0)
        recorder.record(start("c0", args=batch[0][2], batch_id="b", batch=batch))
        monkeypatch.undo()
        recorder.record(start("c1", args=batch[1][2], batch_id="b", batch=batch))
    (line,) = map(json.loads, path.read_text().splitlines())
    assert [call["call_id"] for call in line["batch"]] == ["c0", "c1"]


def test_nonsense_is_dropped_and_everything_else_passes(tmp_path: Path) -> None:
    """An event with fields of a wrong type does not raise; what is no event of ours is not recorded."""
    path = tmp_path / "events.jsonl"
    with RecordEvents(path) as recorder:
        recorder.record(start(call_id=object()))  # type: ignore[arg-type]  # as a gateway may do
        recorder.record("no event")  # type: ignore[arg-type]  # as above
        recorder.record(start("c1"))
    assert json.loads(path.read_text().splitlines()[-1])["call_id"] == "c1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_child_process_records_too(tmp_path: Path) -> None:
    """After a fork the child writes with a thread of its own, to a path of its own."""
    recorder = RecordEvents(tmp_path / "events.jsonl")
    recorder.record(start("c1"))
    assert recorder.flush()
    child = os.fork()
    if child == 0:
        recorder.record(start("c2"))
        os._exit(0 if recorder.close() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert recorder.close()
    calls = [json.loads(line)["call_id"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert calls == ["c1", "c2"]


@pytest.mark.parametrize("wrong", [{"max_bytes": 0}, {"keep": 0}])
def test_limits_below_one_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    """A recorder that could keep nothing is a mistake of the caller."""
    with pytest.raises(ValueError, match="at least 1"):
        RecordEvents(tmp_path / "events.jsonl", **wrong)
