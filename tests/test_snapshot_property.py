"""Every snapshot that a guard writes is one that it reads, and a restart anywhere changes nothing.

All policies are switched on and settings change while runs are open. A few thousand events by default; 200,000 with
``LOOPGUARD_SLOW=1 pytest tests/test_snapshot_property.py``.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import msgspec
import pytest
from helpers import compaction, message, settings_of, settle, start
from test_stagnation_property import Rounds
from test_traffic_property import Traffic
from worlds import seeded

from loopguard_plugin.answers import AgentsUnnamed
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.events import Event
from loopguard_plugin.settings import Settings

EVENTS = 200_000 if os.environ.get("LOOPGUARD_SLOW") else 6_000
PARTS = 8  # tests that share them
TOOLS = ("read", "exec", "write", "grep", "list", "process", "po*", "f*")
DETECTORS = ("generic_repeat", "ping_pong", "argument_churn", "stagnation", "error_cascade", "global_circuit_breaker")


def policy(random: Random) -> dict[str, Any]:
    """What may be said of a tool: any of it, or all."""
    every: dict[str, Any] = {
        "mutates": True,
        "similar": True,
        "exempt": random.sample(DETECTORS, random.randint(1, 3)),
        "identity": random.choice(([], ["n"], ["p", "path", "action"])),
        "ignoreResult": ["changed", "aggregated", "rows", "took", "a.b"],
        "kind": random.choice(("poll", "send", "plain")),
        "errorRetries": random.randint(0, 4),
        "warningThreshold": 2,
        "criticalThreshold": random.randint(3, 6),
    }
    return {name: value for name, value in every.items() if random.random() < 0.4}


def settings(random: Random) -> Settings:
    """Everything that can be set, at random."""
    warning = random.randint(1, 5)
    loop = {
        "enabled": random.choice([True] * 6 + [None, False]),
        "historySize": random.choice((1, 2, 3, 5, 8, 17, 30, 64, 70)),
        "warningThreshold": warning,
        "criticalThreshold": warning + random.randint(1, 6),
        "unknownToolThreshold": random.randint(1, 5),
        "globalCircuitBreakerThreshold": random.choice((7, 12, 60)),
        "postCompactionGuard": {"windowSize": random.choice((1, 2, 4, 2**53 - 1))},
    }
    own = {
        "mode": random.choice(("enforce", "enforce", "observe")),
        "repeatedErrors": random.choice(("exact", "similar")),
        "detectors": {name: random.random() < 0.8 for name in ("argumentChurn", "stagnation", "errorCascade")},
        "tools": {tool: policy(random) for tool in random.sample(TOOLS, random.randint(0, 5))},
        "limits": random.choice(({}, {}, {"callsPerTurn": 40}, {"callsPerRun": 150, "callsPerTurn": 60})),
        "agents": {
            "cron": {"mode": "observe", "tools": {"list": policy(random)}, "limits": {"callsPerTurn": 30}},
            "ops": {"detectors": {"stagnation": random.random() < 0.5}, "tools": {"read": policy(random)}},
        },
        "maxRuns": random.choice((2, 3, 50, 10_000)),
        "idleMinutes": random.choice((1, 5, 30)),
    }
    agents: dict[str, Any] = {
        "entries": {
            "ops": {"tools": {"loopDetection": {"historySize": random.randint(1, 40)}}},
            "cron": {"default": True},
        }
    }
    return settings_of(
        {"tools": {"loopDetection": loop}, "agents": agents, "plugins": {"entries": {"loopguard": {"config": own}}}}
    )


def shared_ids(random: Random) -> list[Event]:
    """Batches whose calls share one id, with and without list and index, and settlements before the list is there."""
    events: list[Event] = []
    for at in range(random.randint(3, 8)):
        batch = [
            ("same", random.choice(("read", "exec")), {"n": random.randrange(3)}) for _ in range(random.randint(1, 5))
        ]
        whole, index = batch if random.random() < 0.6 else None, random.random() < 0.6
        starts: list[Event] = []
        ends: list[Event] = []
        for place, (name, tool, args) in enumerate(batch):
            names: dict[str, Any] = {"batch_id": f"S{at}", "index": place if index else None}
            starts.append(start(name, tool, args, batch=whole, **names))
            ends.append(settle(name, tool, **names, **random.choice(({}, {"error": "boom"}, {"result": 1}))))
        early = ends[:1] if random.random() < 0.3 else []
        rest = [*starts[1:], *ends]
        if random.random() < 0.6:
            random.shuffle(rest)
        events += [*early, starts[0], *rest, *random.choices([*starts, *ends], k=2)]
    return events


def events_of(random: Random) -> list[Event]:
    """A few hundred events of one of the generators, some in the name of an agent."""
    kind = random.randrange(4)
    if kind == 0:
        events = seeded(random.randrange(100_000))[1]
    elif kind == 1:
        traffic = Traffic(random)
        for _ in range(random.randint(20, 60)):
            traffic.turn()
            if random.random() < 0.3:
                traffic.mishap()
        events = traffic.events
    elif kind == 2:
        rounds = Rounds(random)
        for _ in range(random.randint(20, 60)):
            rounds.turn()
            if random.random() < 0.2:
                rounds.mishap()
        events = rounds.events
    else:
        events = shared_ids(random)
    for at in range(len(events)):
        if random.random() < 0.03:
            events[at] = msgspec.structs.replace(events[at], agent_id=random.choice(("cron", "ops", "nobody")))
        elif random.random() < 0.02:
            events[at] = random.choice((message(message_id=f"m{at}"), compaction(), message("steering", run=None)))
    return events


def told(guard: Guard, event: Event, now: float) -> tuple[object, ...]:
    """All that a step says, and how the run stands."""
    step = guard.feed(event, now)
    ended = guard.ended(event.session_key, event.run_id)
    facts = tuple(fact for fact in step.facts if not isinstance(fact, AgentsUnnamed))  # once a guard, of no run
    return step.answer, step.error and vars(step.error), facts, ended and vars(ended), guard.runs


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_written_is_read_and_changes_nothing(part: int) -> None:
    """With every policy, at random points: nothing is refused, and each further answer and fact is the same."""
    random = Random(part)
    left = EVENTS // PARTS
    while left > 0:
        chosen = settings(random)
        guard, restarted, now, offset = Guard(chosen), Guard(chosen), 0.0, 0.0
        for event in (one for _ in range(random.randint(1, 4)) for one in events_of(random)):
            dice = random.random()
            if dice < 0.08:
                data, later = restarted.snapshot(now + offset), offset + random.choice((0.0, 1e6, -1e6))
                assert data == guard.snapshot(now)
                restarted = Guard(chosen)
                assert restarted.restore(data, now + later) == ()
                offset = later
                assert restarted.snapshot(now + offset) == data
            elif dice < 0.09:
                chosen = settings(random)
                guard.use(chosen)
                restarted.use(chosen)
            now += random.choice((0.0, 0.0, 1.0, 7.0)) if random.random() < 0.99 else random.choice((61.0, 2e3, 9e4))
            assert told(restarted, event, now + offset) == told(guard, event, now), f"part {part}, {left} left: {event}"
            left -= 1
