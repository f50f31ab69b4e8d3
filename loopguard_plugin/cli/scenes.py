"""The scenes of ``loopguard demo``. Each has a gateway of its own: a bus, the middleware, an agent that is stuck."""

from __future__ import annotations

import json
import textwrap
from itertools import count
from typing import Final

from ..answers import Blocked, Deliver
from ..bus import EmbeddedBus
from ..errors import TurnEndingError
from ..events import CompactionRetry, Status, ToolCallSettled, UserMessageCommitted, batch_started
from ..middleware import LoopGuard
from ..settings import Settings, parse_settings

_SESSION: Final = "demo"
_RUN: Final = "turn-1"
_ON: Final = {"tools": {"loopDetection": {"enabled": True}}}


async def play_all() -> None:
    """All scenes, one after the other."""
    await _stuck_call()
    await _repeated_error()
    await _loop_after_compaction()


async def _stuck_call() -> None:
    gateway = _Gateway("The same call, the same result (tools.loopDetection.enabled: true)", parse_settings(_ON))
    await gateway.user("Tell me when the build is done.")
    same = ("read", {"path": "build/status.txt"})
    while await gateway.call(*same, result="status: building"):
        pass
    gateway.say("the model reads the reason and answers once more, with another tool:")
    await gateway.call("list_files", {"path": "build"}, result="status.txt")
    gateway.say("and then falls back into the loop:")
    await gateway.call(*same, result="status: building")


async def _repeated_error() -> None:
    gateway = _Gateway("The same error three times (always on, no settings needed)", Settings())
    await gateway.user("What does the shop page say?")
    while await gateway.call("web_fetch", {"url": "https://shop.example/"}, error="getaddrinfo ENOTFOUND shop.example"):
        pass


async def _loop_after_compaction() -> None:
    gateway = _Gateway("A loop that goes on after a compaction (on by default)", Settings())
    await gateway.user("Find the function that parses dates.")
    same = ("search", {"query": "parse_date"})
    await gateway.call(*same, result="no matches")
    await gateway.compaction()
    while await gateway.call(*same, result="no matches"):
        pass


class _Gateway:
    """What a gateway does around a tool call: publish its start, run it, publish how it settled."""

    def __init__(self, title: str, settings: Settings) -> None:
        self.guard = LoopGuard(settings)
        self.bus = EmbeddedBus()
        self.bus.use(self.guard)
        self._numbers = count(1)
        print(f"\n== {title}")

    async def user(self, text: str) -> None:
        print(f"   user: {text}")
        await self.bus.publish(UserMessageCommitted(session_key=_SESSION, run_id=_RUN))

    async def compaction(self) -> None:
        self.say("the context overflowed: the gateway compacts it and asks the model again")
        await self.bus.publish(CompactionRetry(session_key=_SESSION, run_id=_RUN))

    async def call(self, tool: str, args: object, *, result: object = None, error: object = None) -> bool:
        """One response of the model with one call. False once the call was blocked or the turn ended."""
        number = next(self._numbers)
        shown = f"call {number:>2}  {tool} {json.dumps(args)}"
        call_id = f"call-{number}"
        try:
            (start,) = batch_started(_SESSION, [(call_id, tool, args)], batch_id=f"response-{number}", run_id=_RUN)
            answer = await self.bus.publish(start)
            if isinstance(answer, Blocked):
                self._event(f"{shown}  → BLOCKED ({answer.detector}, count {answer.count})", answer.reason)
                await self._settle(number, tool, Deliver(error=answer.reason), blocked=True)
                return False
            delivered = await self._settle(number, tool, Deliver(result=result, error=error), blocked=False)
        except TurnEndingError as ending:
            self._event(f"{shown}  → END OF TURN ({ending.code}, count {ending.count})", ending.message)
            return False
        if delivered.note is not None:
            self._event(f"{shown}  → NOTE ({delivered.detector}, count {delivered.count})", delivered.note)
        else:
            print(f"   {shown}  → {json.dumps(result) if error is None else f'error: {error}'}", flush=True)
        return True

    async def _settle(self, number: int, tool: str, what: Deliver, *, blocked: bool) -> Deliver:
        return await self.bus.publish(
            ToolCallSettled(
                session_key=_SESSION,
                run_id=_RUN,
                call_id=f"call-{number}",
                tool=tool,
                batch_id=f"response-{number}",
                index=0,
                result=what.result,
                error=what.error,
                status=Status.BLOCKED if blocked else None,
            )
        )

    def say(self, text: str) -> None:
        print(f"   {text}", flush=True)

    def _event(self, headline: str, text: str) -> None:
        print(f"   {headline}")
        for line in textwrap.wrap(text, 100):
            print(f"      {line}", flush=True)
