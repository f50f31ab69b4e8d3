"""This project's guard as a contender: the core alone, and through the embedded bus."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from enum import StrEnum
from itertools import chain, groupby
from typing import Any

from loopguard_plugin.core.guard import Guard
from loopguard_plugin.events import BatchCall, Event, ToolCallSettled, ToolCallStarted
from loopguard_plugin.settings import Settings, parse_settings

from .measure import Contender, Timed
from .peers import Runner
from .workload import Call

CORE = "loopguard core"
BUS = "loopguard through EmbeddedBus"


class Naming(StrEnum):
    """How a gateway names responses to the guard."""

    BATCH_ID = "batch_id"  # a batch_id and an index; the whole list where there are several calls
    LIST = "list"  # the whole batch as a list, for single calls too
    NONE = "none"  # neither: every call a batch of its own


Timeline = list[tuple[Event, float]]
"""Events and the seconds at which they come."""


def all_on(max_runs: int = 10_000, **loop_detection: Any) -> Settings:
    """All detectors on, everything else at its default but for what is given."""
    return parse_settings(
        {
            "tools": {"loopDetection": {"enabled": True, **loop_detection}},
            "plugins": {"entries": {"loopguard": {"config": {"maxRuns": max_runs}}}},
        }
    )


def timeline(
    calls: Sequence[Call],
    *,
    session_key: str = "agent:main:main",
    run_id: str | None = "run-1",
    naming: Naming = Naming.BATCH_ID,
    first: int = 0,
    seed: int = 7,
) -> Timeline:
    """The events of these calls, two seconds apart: starts in model call order, settlements in any."""
    rng = random.Random(seed)
    events: list[Event] = []
    at = first
    for response, together in groupby(calls, lambda call: call.response):
        batch = [(f"call_{at + offset}", call) for offset, call in enumerate(together)]
        at += len(batch)
        fields: dict[str, Any] = {"session_key": session_key, "run_id": run_id}
        if naming is not Naming.NONE:
            fields["batch_id"] = f"response_{first}_{response}"
        listed = None
        if naming is Naming.LIST or (naming is Naming.BATCH_ID and len(batch) > 1):
            listed = tuple(BatchCall(call_id, call.tool, call.args) for call_id, call in batch)
        settling: list[Event] = []
        for index, (call_id, call) in enumerate(batch):
            place = None if naming is Naming.NONE else index
            own = {**fields, "call_id": call_id, "tool": call.tool, "index": place}
            events.append(ToolCallStarted(**own, args=call.args, batch=listed))
            settling.append(
                ToolCallSettled(**own, result=call.result, error=call.error, outcome_identity=call.identity)
            )
        rng.shuffle(settling)
        events += settling
    return [(event, 2.0 * second) for second, event in enumerate(events)]


def timelines(runs: Sequence[Sequence[Call]], naming: Naming = Naming.BATCH_ID) -> Timeline:
    """The events of several runs of one session, one after the other."""
    together = [timeline(calls, run_id=f"run-{at}", naming=naming) for at, calls in enumerate(runs)]
    return [(event, 2.0 * second) for second, (event, _) in enumerate(chain.from_iterable(together))]


def core(
    events: Timeline, *, settings: Settings | None = None, name: str = CORE, warm: Timeline | None = None
) -> Contender:
    """``Guard.feed`` over these events, in a fresh guard; ``warm`` is fed to it before the clock starts."""
    chosen = settings or all_on()

    def prepare() -> Timed:
        feed = Guard(chosen).feed
        for event, now in warm or ():
            feed(event, now)

        def timed() -> None:
            for event, now in events:
                feed(event, now)

        return timed

    return Contender(name=name, per=cycles(events), prepare=prepare)


def bus(events: Timeline, *, settings: Settings | None = None, name: str = BUS) -> Contender:
    """``EmbeddedBus.publish`` over these events, with the middleware and no handler, in a running event loop."""
    from loguru import logger

    from loopguard_plugin import EmbeddedBus, LoopGuard

    logger.disable("loopguard_plugin")  # its one line at the start of every guard
    chosen = settings or all_on()

    def prepare() -> Timed:
        embedded = EmbeddedBus()
        embedded.use(LoopGuard(chosen))
        publish = embedded.publish
        loop = asyncio.new_event_loop()

        async def publish_all() -> None:
            for event, _ in events:
                await publish(event)

        def timed() -> None:
            loop.run_until_complete(publish_all())

        return timed

    return Contender(name=name, per=cycles(events), prepare=prepare)


def cycles(events: Timeline) -> int:
    """How many calls settle."""
    return sum(isinstance(event, ToolCallSettled) for event, _ in events)


def runner() -> Runner:
    """The core as the peers' adapters are, for the experiment of ``looks``: how many calls were flagged."""
    from loopguard_plugin.answers import Deliver, Proceed

    def shape(calls: Sequence[Call]) -> Any:
        events = timeline(calls)
        feed = Guard(all_on()).feed

        def timed() -> int:
            flagged = 0
            for event, now in events:
                answer = feed(event, now).answer
                flagged += not (isinstance(answer, Proceed) or (isinstance(answer, Deliver) and answer.note is None))
            return flagged

        return timed

    return shape
