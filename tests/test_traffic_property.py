"""Long runs of mostly new calls, one after the other: where most events take the short way, the model agrees as well.

Worlds of :mod:`worlds` are short and repeat a dozen calls, so that everything is a repetition. Here most calls are
new, windows overflow, and what is not ordinary comes now and then: repetitions, failures, parallel calls, redelivered
and missing events, compactions, user messages, settings that are given anew and a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from cases import limits_of
from helpers import compaction, detection, line, message, settings_of, settle, start
from model import Model
from model_sight import PlainSight
from worlds import ANSWERS

from loopguard_plugin import LoopGuard, TurnEndingError
from loopguard_plugin.events import Event, ToolCallSettled, ToolCallStarted

SIZES = (1, 2, 3, 5, 8, 9, 15, 16, 17, 20, 30, 64, 70)
TOOLS = ("read", "grep", " Bash ", "exec", "write", "process", "wait", "frob", "memory_search")


EVERYTHING = ANSWERS | {("end_turn", "ping_pong")}


class Traffic:
    """The events of one session: calls come one after the other, seldom several at once."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.naming = random.choice(("batch_id", "batch_id", "list", "none"))
        self.again = random.choice((0.05, 0.2, 0.6))
        self.events: list[Event] = []
        self.made: list[tuple[str, object]] = []
        self.calls = 0
        self.parallel = random.choice((0.05, 0.1, 0.4))
        self.broken = random.random() < 0.4  # one tool fails nearly always

    def call(self) -> tuple[str, str, object]:
        """A new call, or one of the latest once more."""
        random = self.random
        self.calls += 1
        if self.made and random.random() < self.again:
            tool, args = random.choice(self.made[-random.choice((1, 2, 2, 3, 12)) :])
        else:
            tool = random.choice(TOOLS[:6] if random.random() < 0.8 else TOOLS)
            args = {"n": self.calls, "action": random.choice(("poll", "log", "list"))} if random.random() < 0.9 else {}
        self.made.append((tool, args))
        return f"c{self.calls}", tool, args

    def outcome(self, tool: str) -> dict[str, Any]:
        """What comes of a call."""
        random = self.random
        dice = random.random()
        if tool in ("read", "grep") and self.broken and random.random() < 0.7:
            return {"error": "disk full"}
        if dice < 0.08:
            volatile = f"busy at 0x{random.randint(16, 255):x}", {"code": 503, "took": random.random()}
            errors = ("boom", "bang", f"no such file {random.random()}", "unknown tool", *volatile)
            return {"error": random.choice(errors)}
        if dice < 0.1:
            return {"status": random.choice(("rejected", "denied", "error", "skipped", "aborted", "blocked", "ok"))}
        if dice < 0.3 and tool in ("write", "exec"):
            said = f"died at 12:00:{random.randint(10, 12)}"
            failed = {"status": "completed", "exitCode": 1, "aggregated": said}
            return {"result": {"changed": random.random() < 0.5} if tool == "write" else failed}
        return {"result": random.choice(("same", "same", f"text {random.random()}", "<b>", "é", {"rows": [1.0]}))}

    def turn(self) -> None:
        """One response: a call, or a few that settle in any order; some never do."""
        random, naming = self.random, self.naming
        calls = [self.call() for _ in range(random.randint(2, 6) if random.random() < self.parallel else 1)]
        batch_id = None if naming == "none" else f"b{self.calls}"
        whole = calls if naming == "list" or (len(calls) > 1 and random.random() < 0.5) else None
        settlements: list[Event] = []
        order = list(enumerate(calls))
        if random.random() < 0.5:
            random.shuffle(order)
        for index, (call_id, tool, args) in order:
            at = None if naming == "none" or random.random() < 0.1 else index
            begun = start(call_id, tool, args, batch_id=batch_id, index=at, batch=whole if batch_id else None)
            self.events.append(begun)
            settled = settle(call_id, tool, args=args, batch_id=batch_id, index=at, **self.outcome(tool))
            if random.random() < 0.97:
                settlements.append(settled)
        random.shuffle(settlements)
        self.events += settlements

    def mishap(self) -> None:
        """Something that is no ordinary call."""
        random, events = self.random, self.events
        what = random.choice(("start", "settlement", "open", "own", "late", "compaction", "message", "other"))
        latest = events[-random.choice((4, 4, 8, 40)) :]
        if what in ("start", "settlement") and events:
            kind = ToolCallStarted if what == "start" else ToolCallSettled
            events += random.sample([one for one in latest if isinstance(one, kind)][:1] or latest[:1], 1)
        elif what == "own":
            call_id, tool, args = self.call()
            events.append(settle(call_id, tool, args=args, **self.outcome(tool)))
        elif what in ("late", "open"):
            settled = {one.call_id for one in events if isinstance(one, ToolCallSettled)}
            open_ = [one for one in events if isinstance(one, ToolCallStarted) and one.call_id not in settled]
            for one in open_[-1:]:
                if what == "open":
                    events.append(one)
                    continue
                fields = {"batch_id": one.batch_id, "index": one.index, "args": one.args}
                events.append(settle(one.call_id, one.tool, **fields, **self.outcome(one.tool)))
        elif what == "compaction":
            events.append(compaction())
        elif what == "message":
            events.append(message(random.choice(("message", "steering"))))
        elif what == "other":  # another session, which has nothing to do with this one
            events.append(start(f"c{self.calls}", session="t"))
            if random.random() < 0.8:
                events.append(settle(f"c{self.calls}", session="t"))


def events_of(seed: int) -> tuple[dict[str, object], list[Event]]:
    """Settings and events of one session by its number."""
    random = Random(seed)
    warning = random.randint(1, 7)
    loop_detection: dict[str, object] = {
        "enabled": random.choice([True] * 6 + [None, False]),
        "historySize": random.choice(SIZES),
        "warningThreshold": warning,
        "criticalThreshold": warning + random.randint(1, 4),
        "unknownToolThreshold": random.randint(1, 5),
        "globalCircuitBreakerThreshold": random.choice([7, 12, 30, 30]),
        "postCompactionGuard": {"windowSize": random.randint(1, 4)},
    }
    traffic = Traffic(random)
    for _ in range(random.randint(20, 120)):
        traffic.turn()
        if random.random() < 0.15:
            traffic.mishap()
    return loop_detection, traffic.events


def disturbed(guard: LoopGuard, config: dict[str, Any], random: Random) -> LoopGuard:
    """What must change nothing: the same settings given anew, or a restart."""
    dice = random.random()
    if dice < 0.01:
        guard.use(settings_of(config))
    elif dice < 0.02:
        data = guard.snapshot()
        guard = LoopGuard(settings_of(config))
        guard.restore(data)
    return guard


def play_both(config: dict[str, Any], events: Sequence[Event], seed: int) -> Counter[tuple[str, str | None]]:
    """The answers, which core and model must give alike."""
    random = Random(seed)
    guard, model = LoopGuard(settings_of(config)), Model(limits_of(config), PlainSight())
    played: Counter[tuple[str, str | None]] = Counter()
    for at, event in enumerate(events):
        expected = model.play(event)
        try:
            answer = line(guard.feed(msgspec.structs.replace(event)))
        except TurnEndingError as error:
            answer = line(error)
        assert answer == expected, f"session {seed}, event {at}: {event}"
        played[answer[:2]] += 1
        guard = disturbed(guard, config, random)
    assert guard.stats().errors == 0, "the guard failed open"
    return played


@pytest.mark.parametrize("tens", [*range(30), 1001])
def test_core_and_model_agree_on_traffic(tens: int) -> None:
    """Ten sessions each, of about 200 events; in one of the last ten, calls that had left the window alternated."""
    played: Counter[tuple[str, str | None]] = Counter()
    for seed in range(10 * tens, 10 * tens + 10):
        loop_detection, events = events_of(seed)
        played += play_both(detection(**loop_detection), events, seed)
    assert played.total() > 800
    assert played["proceed", None] > 300


def test_traffic_has_everything() -> None:
    """What the sessions above come to, after the model: notes, blocks and ends of all that new calls can lead to."""
    played: Counter[tuple[str, str | None]] = Counter()
    for seed in range(300):
        loop_detection, events = events_of(seed)
        model = Model(limits_of(detection(**loop_detection)), PlainSight())
        played.update(model.play(event)[:2] for event in events)
    assert set(played) >= EVERYTHING
