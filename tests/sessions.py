"""Generated sessions for reports and tuning: healthy ones, and ones with a loop planted in them. Seeded, no clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from loopguard_plugin.events import (
    CompactionRetry,
    Event,
    ToolCallSettled,
    ToolCallStarted,
    UserMessageCommitted,
)

_TOOLS = ("read", "grep", "edit", "exec", "web_fetch", "list_files")


class Session:
    """Writes the events of one session, call by call."""

    def __init__(self, key: str, run: str = "turn-1") -> None:
        self.key = key
        self.run = run
        self.events: list[Event] = []
        self._calls = 0

    def user(self) -> Session:
        self.events.append(UserMessageCommitted(session_key=self.key, run_id=self.run))
        return self

    def compaction(self) -> Session:
        self.events.append(CompactionRetry(session_key=self.key, run_id=self.run))
        return self

    def call(self, tool: str, args: object, result: object = None, *, error: object = None) -> Session:
        self._calls += 1
        call_id, batch = f"c{self._calls}", f"b{self._calls}"
        start = ToolCallStarted(
            session_key=self.key, run_id=self.run, call_id=call_id, tool=tool, args=args, batch_id=batch
        )
        end = ToolCallSettled(
            session_key=self.key,
            run_id=self.run,
            call_id=call_id,
            tool=tool,
            batch_id=batch,
            result=result if error is None else None,
            error=error,
        )
        self.events += [start, end]
        return self


def healthy(key: str, calls: int, seed: int) -> Session:
    """An agent at work: mostly new calls, now and then one again with another result."""
    chance = random.Random(seed)
    session = Session(key).user()
    for number in range(calls):
        tool = chance.choice(_TOOLS)
        if chance.random() < 0.2:
            session.call("exec", {"command": "pytest -q"}, f"{number} failed")
        elif chance.random() < 0.1:
            session.call(tool, {"path": f"src/{number}.py"}, error=f"no such file: {number}")
        else:
            session.call(tool, {"path": f"src/{number}.py"}, f"line {number}")
        if number % 25 == 24:
            session.user()
    return session


def polling(key: str, tool: str, calls: int) -> Session:
    """A healthy wait: one status, asked for so many times with the same answer, and then the answer comes."""
    session = Session(key).user().call("read", {"path": "job.txt"}, "job 7")
    for _ in range(calls):
        session.call(tool, {"job": 7}, "running")
    return session.call(tool, {"job": 7}, "done")


def stuck(key: str, tool: str, calls: int, before: int = 5) -> Session:
    """A loop: the same call with the same result, to the end of the recording."""
    session = healthy(key, before, seed=before)
    for _ in range(calls):
        session.call(tool, {"q": "same"}, "nothing found")
    return session


def write(path: Path, sessions: Iterator[Session] | list[Session]) -> Path:
    """The sessions as a file of the ``events`` format."""
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for session in sessions:
            for event in session.events:
                file.write(encoder.encode(event) + b"\n")
    return path


def waiting(key: str, tool: str, calls: int, result: Callable[[int], object]) -> Session:
    """One call made again and again, whose result shows how long it has gone on."""
    session = healthy(key, 3, seed=3)
    for number in range(calls):
        session.call(tool, {"job": 7}, result(number))
    return session


def mending(key: str, rounds: int, tool: str = "edit") -> Session:
    """A healthy session: the same test after each edit, until it passes."""
    session = Session(key).user()
    for number in range(rounds):
        session.call(tool, {"path": "a.py", "line": number}, f"edited line {number}")
        session.call("run_tests", {"all": True}, f"{rounds - number} failed")
    return session
