"""Sessions and runs by key, bounded and forgotten when idle (SPEC 13). State never crosses ``session_key``."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

from ..answers import CallsUnsettled, EvictionReason, Fact, RunEvicted
from .notes import Buckets
from .run import Run

MESSAGES: Final = 256  # message ids remembered a session (SPEC 2)
PARKED_SECONDS: Final = 24 * 3600.0  # how long an idle run with open calls is kept


class Session:
    """One conversation: its runs, what warnings it has emitted, and the user messages it has seen."""

    __slots__ = ("_messages", "buckets", "runs")

    def __init__(self) -> None:
        self.runs: dict[str | None, Run] = {}
        self.buckets = Buckets()
        self._messages: dict[str, None] | None = None

    def is_new(self, message_id: str) -> bool:
        """Whether a user message was not seen before; it is from now on."""
        messages = self._messages
        if messages is None:
            messages = self._messages = {}
        if message_id in messages:
            return False
        if len(messages) >= MESSAGES:
            del messages[next(iter(messages))]
        messages[message_id] = None
        return True


class Sessions:
    """All open runs, the least recently used first.

    ``latest`` is the run that was used last, ``due`` when to look for idle ones. ``limit`` is ``maxRuns``, ``idle``
    ``idleMinutes`` in seconds. Idle runs with open calls are parked: they are kept for a day.
    """

    __slots__ = ("_by_key", "_parked", "_runs", "due", "idle", "latest", "limit")

    def __init__(self, limit: int, idle: float) -> None:
        self.limit = limit
        self.idle = idle
        self._by_key: dict[str, Session] = {}
        self._runs: OrderedDict[Run, None] = OrderedDict()
        self._parked: OrderedDict[Run, None] = OrderedDict()
        self.latest: Run | None = None
        self.due = math.inf

    def __len__(self) -> int:
        return len(self._runs) + len(self._parked)

    def bound(self, limit: int, idle: float) -> None:
        """Other bounds: runs that are idle by now are looked for at the next event."""
        self.limit = limit
        self.idle = idle
        self.due = -math.inf

    def session(self, session_key: str) -> Session | None:
        """A session that has a run."""
        return self._by_key.get(session_key)

    def find(self, session_key: str, run_id: str | None) -> Run | None:
        """A run, left where it stands."""
        session = self._by_key.get(session_key)
        return session.runs.get(run_id) if session is not None else None

    def touch(self, session_key: str, run_id: str | None, now: float, facts: list[Fact]) -> Run:
        """The run of these names, made if need be, as the most recently used; idle ones are dropped first."""
        if now >= self.due:
            self._sweep(now, facts)
        session = self._by_key.get(session_key)
        run = session.runs.get(run_id) if session is not None else None
        if run is None:
            return self._make(session_key, run_id, now, facts)
        if run is not self.latest:
            self.latest = run
            if run.parked:
                run.parked = False
                del self._parked[run]
                self._runs[run] = None
            else:
                self._runs.move_to_end(run)
        return run

    def _make(self, session_key: str, run_id: str | None, now: float, facts: list[Fact]) -> Run:
        while len(self) >= self.limit:
            oldest = next(iter(self._parked or self._runs))
            self._evict(oldest, EvictionReason.CAPACITY, facts)
        session = self._by_key.get(session_key)
        if session is None:
            session = self._by_key[session_key] = Session()
        run = session.runs[run_id] = Run(session_key, run_id, session.buckets)
        run.last_seen = now
        self._runs[run] = None
        self.latest = run
        self.due = min(self.due, now + self.idle)
        return run

    def drop(self, run: Run, facts: list[Fact]) -> None:
        """Forget a run, and its session with the last one."""
        running = run.in_full().running
        if running:
            facts.append(CallsUnsettled(**run.place(), calls=running, first=not run.told))
        summary = run.summary()
        if summary is not None:
            facts.append(summary)
        self._runs.pop(run, None)
        self._parked.pop(run, None)
        if self.latest is run:
            self.latest = None
        session = self._by_key[run.session_key]
        del session.runs[run.run_id]
        if session.runs:
            session.buckets.forget(run.run_id)
        else:
            del self._by_key[run.session_key]

    def _evict(self, run: Run, reason: EvictionReason, facts: list[Fact]) -> None:
        facts.append(
            RunEvicted(
                session_key=run.session_key,
                run_id=run.run_id,
                agent_id=run.agent_id,
                reason=reason,
                open_calls=run.open_calls(),
            )
        )
        run.told = run.told or run.open_calls() > 0
        self.drop(run, facts)

    def _sweep(self, now: float, facts: list[Fact]) -> None:
        """Drop what has been idle for too long. The due time is a lower bound, so most sweeps find something."""
        while self._runs:
            run = next(iter(self._runs))
            if now < run.last_seen + self.idle:
                break
            if run.open_calls() and now < run.last_seen + PARKED_SECONDS:
                del self._runs[run]
                self._parked[run] = None
                run.parked = True
                if self.latest is run:
                    self.latest = None
            else:
                self._evict(run, EvictionReason.IDLE, facts)
        while self._parked:
            run = next(iter(self._parked))
            if now < run.last_seen + PARKED_SECONDS:
                break
            self._evict(run, EvictionReason.IDLE, facts)
        runs, parked = next(iter(self._runs), None), next(iter(self._parked), None)
        self.due = min(
            runs.last_seen + self.idle if runs is not None else math.inf,
            parked.last_seen + PARKED_SECONDS if parked is not None else math.inf,
        )
