"""Nothing is quadratic (SPEC 13): four times the calls take about four times the work, whatever the gateway sends.

Work is counted in steps, calls of functions and evaluated lines, so that a busy machine changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from random import Random
from types import FrameType
from typing import Any

import pytest
from helpers import detection, message, settings_of, settle, start

from loopguard_plugin.core.batch import FIRST, Slot
from loopguard_plugin.core.guard import Guard
from loopguard_plugin.core.history import History
from loopguard_plugin.core.observe import Call
from loopguard_plugin.core.order import Queue
from loopguard_plugin.core.projection import Shadow
from loopguard_plugin.core.record import EXEC_FAILURE, FAILED, UNCHANGED, UNKNOWN, VETO, Record
from loopguard_plugin.events import Event

FEW = 60
ON = settings_of(detection(enabled=True))


def work(events: Iterable[Event]) -> int:
    """The steps that a guard takes for these events: lines of its own Python that it runs."""
    taken = 0

    def line(frame: FrameType, what: str, _: object) -> Callable[..., Any] | None:
        nonlocal taken
        if what == "call" and "loopguard_plugin" not in frame.f_code.co_filename:
            return None
        taken += 1
        return line

    guard = Guard(ON)
    known = list(events)
    former = sys.gettrace()
    sys.settrace(line)
    try:
        for event in known:
            guard.feed(event, 0.0)
    finally:
        sys.settrace(former)
    return taken


def listed(
    calls: int, *, one_id: bool = False, index: bool = True, told: bool = True, back: bool = False
) -> list[Event]:
    """A batch with its whole list. ``told``: settlements say the index; ``back``: they come in reverse order."""
    batch = [("same" if one_id else f"c{at}", "read", {"at": at}) for at in range(calls)]
    starts: list[Event] = [
        start(*call, batch_id="b", index=at if index else None, batch=batch) for at, call in enumerate(batch)
    ]
    order = range(calls - 1, -1, -1) if back else range(calls)
    return starts + [settle(batch[at][0], batch_id="b", index=at if told else None, result=f"{at}") for at in order]


def unlisted(calls: int, *, one_id: bool = False, index: bool = False, back: bool = False) -> list[Event]:
    """A batch of which no start has the list. ``back``: the last of model call order starts and settles first."""
    order = range(calls - 1, -1, -1) if back else range(calls)
    names = ["same" if one_id else f"c{at}" for at in range(calls)]
    return [
        *(start(names[at], args=at, batch_id="b", index=at if index else None) for at in order),
        *(settle(names[at], batch_id="b", index=at if index else None, result=f"{at}") for at in order),
    ]


def own(at: int) -> Event:
    """A settlement without a start."""
    return settle(f"o{at}", "grep", args=at, batch_id=f"x{at}", result=f"{at}")


def starts_and_own(calls: int) -> list[Event]:
    """Starts of one batch, with a settlement without a start after each."""
    return [event for at in range(calls) for event in (start(f"c{at}", args=at, batch_id="b"), own(at))]


def wide_then_own(calls: int) -> list[Event]:
    """A wide batch, then as many settlements without a start while it is open."""
    return [*(start(f"c{at}", args=at, batch_id="b") for at in range(calls)), *map(own, range(calls))]


def late(calls: int) -> list[Event]:
    """A wide batch that settles only once the next one has begun."""
    events: list[Event] = [start(f"c{at}", args=at, batch_id="b") for at in range(calls)]
    for at in range(calls):
        events += [start(f"d{at}", args=at, batch_id="next"), settle(f"c{at}", batch_id="b", result=f"{at}")]
    return events


def refused(calls: int) -> list[Event]:
    """A blocked batch whose calls go on starting."""
    events: list[Event] = [one for at in range(20) for one in (start(f"a{at}"), settle(f"a{at}"))]
    events.append(start("x", batch_id="b"))
    return [*events, *(start(f"c{at}", args=at, batch_id="b") for at in range(calls))]


KINDS: dict[str, Callable[[int], Sequence[Event]]] = {
    "listed": listed,
    "listed, settled in reverse": lambda calls: listed(calls, back=True),
    "listed, without index": lambda calls: listed(calls, index=False, told=False),
    "one id": lambda calls: listed(calls, one_id=True),
    "one id, settled without index": lambda calls: listed(calls, one_id=True, told=False),
    "one id, settled in reverse without index": lambda calls: listed(calls, one_id=True, told=False, back=True),
    "one id, started without index": lambda calls: listed(calls, one_id=True, index=False),
    "one id, no index at all": lambda calls: listed(calls, one_id=True, index=False, told=False),
    "one id, no list and no index": lambda calls: unlisted(calls, one_id=True),
    "no list and no index, in reverse": lambda calls: unlisted(calls, back=True),
    "no list, started in reverse": lambda calls: unlisted(calls, index=True, back=True),
    "settlements without a start amid starts": starts_and_own,
    "settlements without a start after a wide batch": wide_then_own,
    "a wide batch settles late": late,
    "starts of a blocked batch": refused,
    "messages": lambda calls: [message(message_id=f"m{at}") for at in range(calls)],
    "runs": lambda calls: [start("c", args=at, run=f"r{at}") for at in range(calls)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_work_grows_as_the_calls_do(kind: str) -> None:
    """Four times the calls, and at most five and a half times the steps: some bounds are not reached at once."""
    few, many = work(KINDS[kind](8 * FEW)), work(KINDS[kind](32 * FEW))
    assert many < 5.5 * few, f"{few / 8 / FEW:.0f} steps a call, then {many / 32 / FEW:.0f}"


def call(key: int) -> Call:
    """Some call."""
    return Call(key, "read", "read")


def test_queue_hands_calls_on_in_model_call_order() -> None:
    """In whatever order calls are added, and taken off meanwhile: always the smallest that is left."""
    random = Random(3)
    for _ in range(200):
        places = [(random.randrange(40), at) for at in range(random.randrange(1, 300))]
        if random.random() < 0.3:
            places.sort()
        slots = [Slot("c", None, order, call(0)) for order in places]
        queue, left = Queue(slots[0]), [slots[0]]
        for slot in slots[1:]:
            queue.add(slot)
            left.append(slot)
            while left and random.random() < 0.45:
                smallest = min(left, key=lambda one: one.order)
                assert queue.first is smallest
                queue.pop()
                left.remove(smallest)
        while left:
            smallest = min(left, key=lambda one: one.order)
            assert queue.first is smallest
            queue.pop()
            left.remove(smallest)
        assert not queue
        assert queue.first is None
    assert FIRST == (0, 0)


def mixed(window: Sequence[Record], arrivals: Sequence[tuple[Record, bool]], size: int) -> History:
    """What a sibling must see, built the obvious way: the newest ``size`` calls that are no siblings, and siblings."""
    calls = [(record, False) for record in window] + list(arrivals)
    others = [record for record, sibling in calls if not sibling][-size:]
    kept = {id(record) for record in others}
    history = History(10**9)
    for record, sibling in calls:
        if sibling:
            history.add(Record(record.key, record.tool, marks=VETO))
        elif id(record) in kept:
            history.add(record)
    return history


def record(random: Random) -> Record:
    """A call of a few, with some outcome, a veto or none."""
    tool = random.choice(("exec", "exec", "read", "write"))
    key = random.randrange(4) * 10 + len(tool)
    outcome = random.choice((1, 1, 2))
    kind = random.randrange(6)
    if kind == 0:
        return Record(key, tool, marks=VETO)
    if kind == 1:
        return Record(key, tool, outcome, outcome + 10, FAILED | (EXEC_FAILURE if tool == "exec" else 0))
    if kind == 2:
        return Record(key, tool, outcome, outcome + 10, FAILED | UNKNOWN)
    if kind == 3:
        return Record(key, tool, outcome, marks=UNCHANGED)
    return Record(key, tool, outcome)


@pytest.mark.parametrize("seed", range(150))
def test_shadow_is_what_it_would_be_built_anew(seed: int) -> None:
    """Call by call, the window with siblings amid other calls counts as one that is built anew from all of them."""
    random = Random(seed)
    size = random.choice((1, 2, 3, 5, 8))
    history = History(size)
    window = [record(random) for _ in range(random.randrange(2 * size + 1))]
    for one in window:
        history.add(one)
    history.trim()
    arrivals: list[tuple[Record, bool]] = []
    shadow: Shadow | None = None
    siblings = random.choice((0.2, 0.5, 0.8))
    for _ in range(60):
        one, sibling = record(random), random.random() < siblings
        arrivals.append((one, sibling))
        if shadow is None:
            if random.random() < 0.3:
                others = [that for that, its in arrivals if not its]
                history.make_room(len(others))
                shadow = Shadow(history, [that for that, _ in arrivals], others)
        elif sibling:
            shadow.add_sibling(one)
        else:
            shadow.add_own(one)
        if shadow is None:
            continue
        wanted = mixed(window, arrivals, size)
        for tool in ("exec", "read", "write"):
            for number in range(4):
                key = number * 10 + len(tool)
                assert shadow.recent(key) == wanted.recent(key)
                assert shadow.no_progress(key) == wanted.no_progress(key)
                assert shadow.failing(key) == wanted.failing(key)
                assert shadow.exec_failures(key, None) == wanted.exec_failures(key, None)
                assert shadow.churn(tool, key, None) == wanted.churn(tool, key, None)
                assert shadow.ping_pong(key, None) == wanted.ping_pong(key, None)
                if wanted.recent(key) and key not in shadow.newest:
                    assert shadow.stirred
            assert shadow.unknown_tool(tool) == wanted.unknown_tool(tool)
