"""Sessions and runs by key, bounded and forgotten when idle (SPEC 13). State never crosses ``session_key``."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

from ..answers import CallsUnsettled, EvictionReason, Fact, FailureInside, RunEvicted
from .notes import Buckets
from .run import Run
from .troubles import place

MESSAGES: Final = 256  # message ids remembered a session (SPEC 2)
PARKED_SECONDS: Final = 24 * 3600.0  # how long an idle run with open calls is kept
SWEPT: Final = 32  # runs that one event forgets or parks at most: ten thousand at once would hold up the event loop


class Session:
    """One conversation: its runs, what warnings it has emitted, and the user messages it has seen.

    ``runs``: the least recently used first, as soon as there are several.
    """

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

    def add(self, run: Run) -> None:
        """One more run, the most recently used."""
        runs = self.runs
        if len(runs) == 1:  # most sessions never have a second one, and a plain dict is half the size
            runs = self.runs = OrderedDict(runs)
        runs[run.run_id] = run

    def use(self, run: Run) -> None:
        """A run is the most recently used."""
        if isinstance(self.runs, OrderedDict):
            self.runs.move_to_end(run.run_id)


class Sessions:
    """All open runs, the least recently used first.

    ``latest`` is the run that was used last, ``due`` when to look for idle ones. ``limit`` is ``maxRuns``, ``idle``
    ``idleMinutes`` in seconds. Idle runs with open calls are parked: they are kept for a day. Above ``limit`` the
    session with the most runs loses the least recently used of its own, so that none can push out another's counts; of
    several with as many, the one that was used, or lost a run, longest ago. ``_sized`` are the sessions by how many
    runs they have, in that order where these are several; ``_most`` is the largest number.
    """

    __slots__ = ("_by_key", "_most", "_parked", "_runs", "_sized", "due", "idle", "latest", "limit")

    def __init__(self, limit: int, idle: float) -> None:
        self.limit = limit
        self.idle = idle
        self._by_key: dict[str, Session] = {}
        self._runs: OrderedDict[Run, None] = OrderedDict()
        self._parked: OrderedDict[Run, None] = OrderedDict()
        self._sized: dict[int, OrderedDict[Session, None]] = {}
        self._most = 0
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

    def find_live(self, session_key: str, run_id: str | None, now: float) -> Run | None:
        """As :meth:`find`, but not a run that has been idle for too long and waits to be swept."""
        run = self.find(session_key, run_id)
        return None if run is None or (now >= run.last_seen + self.idle and self._is_over(run, now)) else run

    def touch(self, session_key: str, run_id: str | None, now: float, facts: list[Fact]) -> Run:
        """The run of these names, made if need be, as the most recently used; some idle ones are dropped first."""
        if now >= self.due:
            self._sweep(now, facts)
        session = self._by_key.get(session_key)
        run = session.runs.get(run_id) if session is not None else None
        waits = now >= self.due and run is not None and now >= run.last_seen + self.idle  # for its turn to be swept
        if waits and run is not None and self._drop_if_over(run, now, facts):
            run = None
        if run is None or session is None:
            return self._make(session_key, run_id, now, facts)
        if run is not self.latest:
            self.latest = run
            if run.parked:
                run.parked = False
                del self._parked[run]
                self._runs[run] = None
                self.due = min(self.due, now + self.idle)
            else:
                self._runs.move_to_end(run)
            if len(session.runs) > 1:
                session.use(run)
                self._sized[len(session.runs)].move_to_end(session)
        return run

    def _make(self, session_key: str, run_id: str | None, now: float, facts: list[Fact]) -> Run:
        for _ in range(SWEPT):  # one is enough, unless the limit was lowered
            if len(self) < self.limit:
                break
            if self._most == 1:
                oldest = next(iter(self._parked or self._runs))
            else:
                oldest = next(iter(next(iter(self._sized[self._most])).runs.values()))
            self._evict(oldest, EvictionReason.CAPACITY, facts)
        session = self._by_key.get(session_key)
        if session is None:
            session = self._by_key[session_key] = Session()
        run = Run(session_key, run_id, session.buckets)
        run.last_seen = now
        session.add(run)
        self._resize(session, len(session.runs) - 1)
        self._runs[run] = None
        self.latest = run
        self.due = min(self.due, now + self.idle)
        return run

    def adopt(self, session: Session) -> None:
        """A session with its runs, which are to line up."""
        self._by_key[next(iter(session.runs.values())).session_key] = session
        self._resize(session, 0)

    def line_up(self, run: Run, *, parked: bool) -> None:
        """A run of a session that was adopted, as the most recently used so far."""
        run.parked = parked
        (self._parked if parked else self._runs)[run] = None

    def expect(self) -> None:
        """When to look for idle runs: a lower bound."""
        runs, parked = next(iter(self._runs), None), next(iter(self._parked), None)
        self.due = min(
            runs.last_seen + self.idle if runs is not None else math.inf,
            parked.last_seen + PARKED_SECONDS if parked is not None else math.inf,
        )

    def _resize(self, session: Session, before: int) -> None:
        """A session has another number of runs than ``before``: one more, or one less."""
        size = len(session.runs)
        if before:
            same = self._sized[before]
            del same[session]
            if not same:
                del self._sized[before]
        if size:
            self._sized.setdefault(size, OrderedDict())[session] = None
        if size > self._most or self._most not in self._sized:
            self._most = size

    def renew(self, run: Run) -> None:
        """A run starts afresh under its names, for its state is not to be trusted."""
        session = self._by_key[run.session_key]
        fresh = Run(run.session_key, run.run_id, session.buckets)
        fresh.agent_id, fresh.last_seen = run.agent_id, run.last_seen
        session.runs[run.run_id] = fresh
        self._runs.pop(run, None)
        self._parked.pop(run, None)
        self._runs[fresh] = None
        self.latest = None
        self.due = min(self.due, fresh.last_seen + self.idle)
        session.buckets.forget(run.run_id)

    def drop(self, run: Run, facts: list[Fact]) -> None:
        """Forget a run, and its session with the last one."""
        self._remove(run)
        running = run.in_full().running
        if running:
            facts.append(CallsUnsettled(**run.place(), calls=running, first=not run.told))
        summary = run.summary()
        if summary is not None:
            facts.append(summary)

    def _remove(self, run: Run) -> None:
        self._runs.pop(run, None)
        self._parked.pop(run, None)
        self.latest = None  # its session may stand behind the one that was used last
        session = self._by_key[run.session_key]
        del session.runs[run.run_id]
        self._resize(session, len(session.runs) + 1)
        if session.runs:
            session.buckets.forget(run.run_id)
        else:
            del self._by_key[run.session_key]

    def _evict(self, run: Run, reason: EvictionReason, facts: list[Fact]) -> None:
        """Forget a run, whatever state it is in: no event of another run may fail for it."""
        self._remove(run)
        try:
            running, open_calls, summary = run.in_full().running, run.open_calls(), run.summary()
        except Exception as error:
            facts.append(FailureInside(**run.place(), kind=type(error).__name__, place=place(error)))
            return
        facts.append(RunEvicted(**run.place(), reason=reason, open_calls=open_calls))
        if running:
            facts.append(CallsUnsettled(**run.place(), calls=running, first=False))
        if summary is not None:
            facts.append(summary)

    def _is_over(self, run: Run, now: float) -> bool:
        """Whether a run that has been idle is to be forgotten: one with open calls is kept for a day."""
        if now >= run.last_seen + PARKED_SECONDS:
            return True
        return not run.open_calls()

    def _drop_if_over(self, run: Run, now: float, facts: list[Fact]) -> bool:
        """Forget a run that has been idle for too long; answers whether it is gone."""
        try:
            over = self._is_over(run, now)
        except Exception as error:  # as in _evict()
            self._remove(run)
            facts.append(FailureInside(**run.place(), kind=type(error).__name__, place=place(error)))
            return True
        if over:
            self._evict(run, EvictionReason.IDLE, facts)
        return over

    def _sweep(self, now: float, facts: list[Fact]) -> None:
        """Drop what has been idle for too long, ``SWEPT`` runs at most: the next events go on.

        The due time is a lower bound, so most sweeps find something.
        """
        left = SWEPT
        while self._parked and left:
            run = next(iter(self._parked))
            if now < run.last_seen + PARKED_SECONDS:
                break
            self._evict(run, EvictionReason.IDLE, facts)
            left -= 1
        while self._runs and left:
            run = next(iter(self._runs))
            if now < run.last_seen + self.idle:
                break
            if not self._drop_if_over(run, now, facts):
                del self._runs[run]
                self._parked[run] = None
                run.parked = True
                if self.latest is run:
                    self.latest = None
            left -= 1
        self.expect()
