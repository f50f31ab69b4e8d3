"""Stagnation and error cascades over random sessions: the core answers as the slow model does (SPEC 11.2).

A session goes round over a few calls in any order, alone and in batches, with and without lists; now and then a result
changes, a call is new, another layer refuses one, a settlement is late, lost or comes without a start, a user writes,
the context is compacted, the same settings are given anew, or the guard is restarted.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from cases import limits_of
from helpers import compaction, message, settle, start
from model import Model
from model_sight import PlainSight
from test_traffic_property import play_both

from loopguard_plugin.events import Event

TOOLS = ("read", "grep", "list", "exec", "poke")


class Rounds:
    """The events of one session with two runs."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.events: list[Event] = []
        self.calls = [(TOOLS[at % len(TOOLS)], {"n": at}) for at in range(random.choice((2, 3, 3, 4, 5, 9, 40, 70)))]
        self.moving = random.choice((0.0, 0.0, 0.02, 0.2))  # how often a result changes
        self.failing = random.choice((0.0, 0.0, 0.3, 1.0))  # how often a call fails
        self.parallel = random.choice((0.0, 0.0, 0.3, 1.0))
        self.shuffled = random.random() < 0.5
        self.listed = random.random() < 0.5
        self.named = random.random() < 0.8
        self.made = 0
        self.at = 0
        self.late: list[Event] = []

    def call(self) -> tuple[str, str, object]:
        """The next call of the round; seldom a new one."""
        self.made += 1
        if self.random.random() < 0.02:
            return f"c{self.made}", "read", {"new": self.made}
        place = self.random.randrange(len(self.calls)) if self.shuffled else self.at % len(self.calls)
        self.at += 1
        return f"c{self.made}", *self.calls[place]

    def outcome(self, tool: str, args: object) -> dict[str, Any]:
        """What comes of a call: mostly what came of it before."""
        random = self.random
        if random.random() < self.failing:
            moved = f" line {self.made}" if random.random() < self.moving else ""
            if tool == "exec":
                said = f"died after {self.made} ms{moved}"
                return {"result": {"status": random.choice(("failed", "completed")), "exitCode": 1, "output": said}}
            return {"error": f"busy at 0x{self.made:x}{moved}" if tool != "list" else {"took": self.made, "why": moved}}
        if random.random() < 0.03:
            return {"status": random.choice(("blocked", "blocked", "skipped", "aborted", "denied"))}
        return {"result": f"text {self.made}" if random.random() < self.moving else f"text of {args}"}

    def turn(self) -> None:
        """One response."""
        random = self.random
        calls = [self.call() for _ in range(random.randint(2, 5) if random.random() < self.parallel else 1)]
        run = "r" if random.random() < 0.97 else "q"
        batch_id = f"b{self.made}" if self.named or len(calls) > 1 else None
        whole = calls if self.listed and batch_id else None
        settlements: list[Event] = []
        for at, (call_id, tool, args) in enumerate(calls):
            index = at if batch_id else None
            begun = start(call_id, tool, args, run=run, batch_id=batch_id, index=index, batch=whole)
            ended = settle(
                call_id, tool, args=args, run=run, batch_id=batch_id, index=index, **self.outcome(tool, args)
            )
            self.events.append(begun)
            if random.random() < 0.05:
                self.events.append(begun)
            dice = random.random()
            if dice < 0.02:
                self.late.append(ended)
            elif dice < 0.98:
                settlements.append(ended)
        random.shuffle(settlements)
        for settled in settlements:
            self.events += [settled, settled] if random.random() < 0.05 else [settled]

    def mishap(self) -> None:
        """Something that is no response."""
        random = self.random
        what = random.choice(("late", "late", "own", "message", "compaction"))
        if what == "late" and self.late:
            self.events.append(self.late.pop(0))
        elif what == "own":
            call_id, tool, args = self.call()
            self.events.append(settle(call_id, tool, args=args, **self.outcome(tool, args)))
        elif what == "message" and random.random() < 0.3:
            run = random.choice(("r", "q"))
            self.events.append(message(random.choice(("message", "steering", "follow_up")), run=run))
        elif what == "compaction" and random.random() < 0.3:
            self.events.append(compaction())


def session(seed: int) -> tuple[dict[str, Any], list[Event]]:
    """Configuration and events of one session by its number."""
    random = Random(seed)
    warning = random.choice((1, 2, 3, 4, 5, 10))
    rounds = Rounds(random)
    for _ in range(random.randint(30, 110)):
        rounds.turn()
        if random.random() < 0.06:
            rounds.mishap()
    exempt = random.choice(({}, {}, {"read": ["stagnation"]}, {"exec": ["stagnation", "error_cascade"]}))
    own: dict[str, Any] = {
        "repeatedErrors": random.choice(("exact", "similar")),
        "detectors": {"stagnation": random.random() < 0.9, "errorCascade": random.random() < 0.9},
        "tools": {tool: {"exempt": detectors} for tool, detectors in exempt.items()},
    }
    loop = {
        "enabled": True,
        "historySize": random.choice((2, 5, 12, 30, 70)),
        "warningThreshold": warning,
        "criticalThreshold": warning + random.choice((1, 3, 10)),
        "globalCircuitBreakerThreshold": 60,
        "detectors": {
            name: random.random() < 0.3
            for name in ("genericRepeat", "knownPollNoProgress", "pingPong", "argumentChurn")
        },
        "postCompactionGuard": {"windowSize": random.randint(2, 4)},
    }
    return {"tools": {"loopDetection": loop}, "plugins": {"entries": {"loopguard": {"config": own}}}}, rounds.events


@pytest.mark.parametrize("tens", range(35))
def test_core_and_model_agree_on_rounds(tens: int) -> None:
    """Ten sessions each, of 60 to 600 events."""
    for seed in range(10 * tens, 10 * tens + 10):
        config, events = session(seed)
        play_both(config, events, seed)


def test_rounds_have_everything() -> None:
    """What these sessions come to, after the model, over at least 50,000 events."""
    played: Counter[tuple[str, str | None]] = Counter()
    for seed in range(350):
        config, events = session(seed)
        model = Model(limits_of(config), PlainSight())
        played.update(model.play(event)[:2] for event in events)
    assert played.total() >= 50_000
    assert set(played) >= {
        ("note", "stagnation"),
        ("block", "stagnation"),
        ("end_turn", "stagnation"),
        ("note", "error_cascade"),
        ("end_turn", "repeated_tool_error"),
        ("deliver", None),
        ("reset", None),
        ("armed", None),
    }
