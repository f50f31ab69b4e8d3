"""Random worlds: a list of small steps becomes the events of gateways that interleave runs, batches and mishaps.

A step is ``(what, which, x, y)``; the numbers pick among what is there at that moment, so that a shorter list is still
a world and Hypothesis can shrink it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from helpers import compaction, message, settle, start
from hypothesis import strategies as st

from loopguard_plugin.events import Event, ToolCallSettled, ToolCallStarted

Step: TypeAlias = tuple[str, int, int, int]

RUNS: list[tuple[str, str | None]] = [("s", None), ("s", "a"), ("s", "b"), ("t", "a")]

CALLS: list[tuple[str, object]] = [
    ("read", {"p": 1}),
    ("read", {"p": 2}),
    ("list", {"p": 1}),
    ("exec", {"command": "x"}),
    (" Bash ", {"command": "y", "title": "once more"}),
    ("exec", {"command": "z"}),
    ("write", {"path": "a"}),
    ("write", {"path": "b"}),
    ("process", {"action": "poll", "id": 1}),
    ("wait", {}),
    ("frob", {"q": 1}),
    ("frob", {"q": 2}),
]

ANY_TOOL: list[dict[str, object]] = [
    {"result": "same"},
    {"result": "same"},
    {"result": "same"},
    {"result": "other"},
    {"error": "boom"},
    {"error": "boom"},
    {"error": "bang"},
    {"error": "busy, request id: q1"},
    {"error": "busy, request id: q2"},
    {"error": {"code": 503, "took": 1}},
    {"error": {"code": 503, "took": 2}},
    {"error": '{"code":503,"took":1}'},
    {"status": "rejected", "error": "boom"},
    {"status": "denied", "error": "boom"},
    {"result": {"ok": False, "why": "no"}},
    {"result": "same", "deliverable": False},
    {"status": "skipped"},
    {"status": "aborted"},
    {"status": "blocked"},
]
OF_TOOL: dict[str, list[dict[str, object]]] = {
    "exec": [
        {"result": {"status": "completed", "exitCode": 1, "aggregated": "died at 12:00:01"}},
        {"result": {"status": "completed", "exitCode": 1, "aggregated": "died at 12:00:02"}},
        {"result": {"status": "completed", "exitCode": 1, "aggregated": "no such file"}},
        {"result": {"status": "completed", "exitCode": 0, "aggregated": "fine"}},
        {"status": "rejected", "error": "no such option"},
    ],
    "write": [{"result": {"changed": False}}, {"result": {"changed": False}}, {"result": {"changed": True}}],
    "frob": [{"error": "unknown tool frob"}, {"status": "unknown_tool", "error": "what?"}],
}

# What core and model answer in every kind of world: action and detector.
ANSWERS: set[tuple[str, str | None]] = {
    ("proceed", None),
    ("deliver", None),
    ("ignored", None),
    ("armed", None),
    ("reset", None),
    ("note", "generic_repeat"),
    ("note", "known_poll_no_progress"),
    ("note", "ping_pong"),
    ("block", "generic_repeat"),
    ("block", "known_poll_no_progress"),
    ("block", "ping_pong"),
    ("end_turn", "generic_repeat"),
    ("end_turn", "repeated_tool_error"),
    ("end_turn", "compaction_loop_persisted"),
}

# What may happen, and how often. Hypothesis prefers short lists, so they are long, and "nothing" lets them shrink.
OFTEN = {
    "nothing": 1,
    "turn": 4,
    "again": 4,
    "batch": 4,
    "next": 6,
    "settle": 8,
    "lone": 2,
    "alternate": 1,
    "rounds": 2,
    "one by one": 1,
    "new run": 2,
    "old start": 1,
    "old settlement": 1,
    "own": 1,
    "reuse": 1,
    "message": 1,
    "compaction": 1,
    "continue": 1,
}
WHAT = [what for what, times in OFTEN.items() for _ in range(times)]

steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(WHAT), st.integers(0, 7), st.integers(0, 63), st.integers(0, 63)),
    min_size=30,
    max_size=60,
)

small_settings = st.fixed_dictionaries(
    {
        "enabled": st.sampled_from([True, True, True, True, True, True, None, False]),
        "historySize": st.integers(3, 14) | st.just(30),
        "warningThreshold": st.integers(1, 4),
        "criticalThreshold": st.integers(2, 9),
        "unknownToolThreshold": st.integers(1, 5),
        "globalCircuitBreakerThreshold": st.sampled_from([3, 5, 7, 9, 30, 30, 30, 30]),
        "detectors": st.fixed_dictionaries(
            {
                name: st.sampled_from([True, True, True, False])
                for name in ("genericRepeat", "knownPollNoProgress", "pingPong", "argumentChurn")
            }
        ),
        "postCompactionGuard": st.fixed_dictionaries({"windowSize": st.integers(1, 4)}),
    }
)


@dataclass(eq=False)
class Gateway:
    """What the gateway of one run knows: its calls, and the batch whose calls it is starting."""

    session: str
    run: str | None
    open: list[ToolCallStarted] = field(default_factory=list)
    unstarted: list[ToolCallStarted] = field(default_factory=list)
    starts: list[ToolCallStarted] = field(default_factory=list)
    settlements: list[ToolCallSettled] = field(default_factory=list)


class World:
    """Makes events out of steps."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.gateways = [Gateway(session, run) for session, run in RUNS]
        self.calls = 0

    def take(self, step: Step) -> None:
        """What happens in this step; nothing where there is nothing to pick from."""
        what, which, x, y = step
        gateway = self.gateways[(0, 1, 1, 1, 1, 2, 2, 3)[which]]
        call = CALLS[x % len(CALLS)]
        if what == "turn":
            self.turn(gateway, call, y)
        elif what == "again":
            for _ in range(2 + x % 11):
                self.turn(gateway, CALLS[y % len(CALLS)], y // 2)
        elif what == "alternate":
            other = CALLS[y % len(CALLS)]
            for at in range(2 + x % 7):
                self.turn(gateway, call if at % 2 else other, 0)
        elif what == "rounds":
            for at in (0, 1, 0, 0, 1, 1, 0, 1, 1)[: 6 + x % 4]:
                self.turn(gateway, CALLS[6 + at] if y % 2 else CALLS[at], 0 if y % 2 else 4)
        elif what == "new run":
            self.gateways[self.gateways.index(gateway)] = Gateway(gateway.session, f"r{len(self.events)}")
        elif what == "batch":
            self.plan_batch(gateway, x, y)
        elif what == "one by one":
            self.plan_batch(gateway, x, 4)
            while gateway.unstarted:
                self.finish(gateway, gateway.open.pop(), y)
                self.begin(gateway, gateway.unstarted.pop(0))
        elif what == "next" and gateway.unstarted:
            self.begin(gateway, gateway.unstarted.pop(x % len(gateway.unstarted) if y % 4 == 0 else 0))
        elif what == "settle" and gateway.open:
            self.finish(gateway, gateway.open.pop(x % len(gateway.open)), y)
        elif what == "lone":
            self.begin(gateway, self.new_start(gateway, call))
        elif what == "reuse" and gateway.starts:
            old = gateway.starts[x % len(gateway.starts)]
            self.begin(gateway, self.new_start(gateway, CALLS[y % len(CALLS)], call_id=old.call_id))
        elif what == "old start" and gateway.starts:
            self.events.append(gateway.starts[-1 - x % min(len(gateway.starts), 8)])
        elif what == "old settlement" and gateway.settlements:
            self.events.append(gateway.settlements[-1 - x % min(len(gateway.settlements), 8)])
        elif what == "own":
            self.own(gateway, call, y)
        elif what == "message":
            kind = ("message", "follow_up", "steering")[x % 3]
            mark = f"m{y % 3}" if y % 2 else None
            self.events.append(message(kind, message_id=mark, run=gateway.run, session=gateway.session))
        elif what == "compaction":
            self.events.append(compaction(run=gateway.run, session=gateway.session))
        elif what == "continue":
            self.begin(gateway, self.new_start(gateway, call, continues=("a", "b", None)[y % 3]))

    def new_id(self) -> str:
        self.calls += 1
        return f"c{self.calls}"

    def new_start(
        self, gateway: Gateway, call: tuple[str, object], *, call_id: str | None = None, continues: str | None = None
    ) -> ToolCallStarted:
        tool, args = call
        call_id = call_id or self.new_id()
        return start(call_id, tool, args, run=gateway.run, session=gateway.session, continues=continues)

    def begin(self, gateway: Gateway, event: ToolCallStarted) -> None:
        self.events.append(event)
        gateway.starts.append(event)
        gateway.open.append(event)

    def finish(self, gateway: Gateway, started: ToolCallStarted, y: int) -> None:
        """The settlement of a start; some gateways leave out the batch id and the index."""
        name = "exec" if started.tool == " Bash " else started.tool
        outcomes = OF_TOOL.get(name, []) * 3 + ANY_TOOL
        bare = y % 5 == 0 and not started.call_id.startswith("same")
        event = settle(
            started.call_id,
            started.tool,
            run=gateway.run,
            session=gateway.session,
            batch_id=None if bare else started.batch_id,
            index=None if bare else started.index,
            **outcomes[y % len(outcomes)],  # type: ignore[arg-type]  # each is a set of settle's own keywords
        )
        self.events.append(event)
        gateway.settlements.append(event)

    def turn(self, gateway: Gateway, call: tuple[str, object], y: int) -> None:
        started = self.new_start(gateway, call)
        self.begin(gateway, started)
        gateway.open.remove(started)
        self.finish(gateway, started, y)

    def own(self, gateway: Gateway, call: tuple[str, object], y: int) -> None:
        """A settlement without a start; some name the batch that is open."""
        tool, args = call
        batch_id = gateway.starts[-1].batch_id if gateway.starts and y % 3 == 0 else None
        outcome = ANY_TOOL[y % len(ANY_TOOL)]
        event = settle(
            self.new_id(),
            tool,
            args=args,
            run=gateway.run,
            session=gateway.session,
            batch_id=batch_id,
            **outcome,  # type: ignore[arg-type]  # each is a set of settle's own keywords
        )
        self.events.append(event)
        gateway.settlements.append(event)

    def plan_batch(self, gateway: Gateway, x: int, y: int) -> None:
        """A new response: its calls, with or without the list, with or without indexes; the first one starts."""
        batch_id = f"b{len(self.events)}"
        calls = [CALLS[(x + (at * (y % 4))) % len(CALLS)] for at in range(1 + y % 6)]
        listed, indexed = x % 2 == 0, x % 4 < 3
        same = f"same{len(self.events)}" if indexed and y % 7 == 3 else None
        ids = [same or self.new_id() for _ in calls]
        whole = [(call_id, tool, args) for call_id, (tool, args) in zip(ids, calls, strict=True)]
        gateway.unstarted = [
            start(
                call_id,
                tool,
                args,
                run=gateway.run,
                session=gateway.session,
                batch_id=batch_id,
                index=at if indexed else None,
                batch=whole if listed else None,
            )
            for at, (call_id, tool, args) in enumerate(whole)
        ]
        self.begin(gateway, gateway.unstarted.pop(0))


def events_of(plan: list[Step]) -> list[Event]:
    """The events of a whole world."""
    world = World()
    for step in plan:
        world.take(step)
    return world.events


def seeded(seed: int) -> tuple[dict[str, object], list[Event]]:
    """Settings and events of one world by its number; drawn evenly, which Hypothesis does not."""
    random = Random(seed)
    loop_detection: dict[str, object] = {
        "enabled": random.choice([True] * 6 + [None, False]),
        "historySize": random.choice([3, 4, 5, 6, 7, 8, 10, 12, 14, 30, 30]),
        "warningThreshold": random.randint(1, 4),
        "criticalThreshold": random.randint(2, 9),
        "unknownToolThreshold": random.randint(1, 5),
        "globalCircuitBreakerThreshold": random.choice([3, 5, 7, 9, 30, 30, 30, 30]),
        "detectors": {
            name: random.random() < 0.75
            for name in ("genericRepeat", "knownPollNoProgress", "pingPong", "argumentChurn")
        },
        "postCompactionGuard": {"windowSize": random.randint(1, 4)},
    }
    plan = [
        (random.choice(WHAT), random.randint(0, 7), random.randint(0, 63), random.randint(0, 63))
        for _ in range(random.randint(5, 60))
    ]
    return loop_detection, events_of(plan)
