"""Recorded sessions under many settings at once: each file is read once, and every event goes to one guard a setting.

Files are spread over processes. What comes back says for each setting, session and tool how far the guard went.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from msgspec import Struct

from ..answers import BatchBlocked, NoteEmitted, RunEnded
from ..core.guard import Guard
from ..core.observe import normalise_tool
from ..events import ToolCallStarted
from ..settings import Settings, parse_settings
from ..transcripts import Placed, Source, SourceError, Talks, detect, read
from .tuning_hints import Hints, Looking

NOTED, BLOCKED, ENDED = 1, 2, 3
_TOGETHER: Final = 4_000_000  # bytes of small files that make one errand


class Fired(Struct, frozen=True, gc=False):
    """How far the guard went about one tool in one session under one setting.

    ``setting``: its place in the list that was played. ``level``: NOTED, BLOCKED or ENDED. ``count``: the highest that
    ``detector`` reported. ``noted``, ``stopped``: the first call, from 1, that was noted, and that was blocked or with
    which the turn ended; 0: none.
    """

    setting: int
    tool: str
    detector: str
    level: int
    count: int
    noted: int = 0
    stopped: int = 0


class Played(Struct, frozen=True):
    """One session. ``file`` is where it was read from; ``hints`` are there where they were asked for."""

    file: str
    session_key: str
    calls: int
    fired: tuple[Fired, ...]
    hints: Hints | None = None


class Errand(Struct, frozen=True):
    """What one process does at a time."""

    files: tuple[tuple[str, bool], ...]  # a path, and whether it was named itself (in a directory there may be others)
    settings: tuple[object, ...]  # as a config file holds them
    form: str
    agent: str | None
    hints: bool = False


class Done(Struct, frozen=True):
    """What an errand found, and what could not be read: ``(file, line, why)``."""

    sessions: tuple[Played, ...]
    problems: tuple[tuple[str, int, str], ...]
    size: int


def play_all(
    files: Sequence[tuple[str, bool]],
    settings: Sequence[object],
    form: str,
    agent: str | None,
    jobs: int,
    told: Callable[[Done], None],
    *,
    hints: bool = False,
) -> Iterator[Done]:
    """Every file under every setting (as decoded config files), in the order of the files, in ``jobs`` processes.

    ``hints``: what the sessions are like is told too, calls being compared as under the last setting.
    """
    errands = [Errand(tuple(part), tuple(settings), form, agent, hints) for part in _parts(files)]
    if jobs <= 1 or len(errands) <= 1:
        for errand in errands:
            done = run(errand)
            told(done)
            yield done
        return
    with ProcessPoolExecutor(min(jobs, len(errands)), mp_context=get_context("spawn")) as pool:
        for done in pool.map(run, errands):
            told(done)
            yield done


def _parts(files: Sequence[tuple[str, bool]]) -> Iterator[list[tuple[str, bool]]]:
    """The files in handfuls of some size."""
    part: list[tuple[str, bool]] = []
    size = 0
    for file in files:
        part.append(file)
        size += size_of(file[0])
        if size >= _TOGETHER:
            yield part
            part, size = [], 0
    if part:
        yield part


def size_of(file: str) -> int:
    """Bytes of a file; 0 where that cannot be told."""
    try:
        return os.path.getsize(file)
    except OSError:
        return 0


def run(errand: Errand) -> Done:
    """Play some files; what a process of its own does."""
    settings = [parse_settings(one) for one in errand.settings]
    sessions: list[Played] = []
    problems: list[tuple[str, int, str]] = []
    for file, chosen in errand.files:
        sessions += _play(file, chosen, settings, errand, problems)
    return Done(tuple(sessions), tuple(problems), sum(size_of(file) for file, _ in errand.files))


def _play(
    file: str, chosen: bool, settings: list[Settings], errand: Errand, problems: list[tuple[str, int, str]]
) -> Iterator[Played]:
    """The sessions of one file, with guards of its own: every file starts from nothing."""
    guards = [Guard(one) for one in settings]
    sessions: dict[str, _Session] = {}
    try:
        with Source.open(file) as source:
            if not chosen and errand.form == "auto" and detect(source) is None:
                return
            for item in read(source, Talks(errand.agent), errand.form):
                if not isinstance(item, Placed):
                    if item.no_call and not chosen:
                        continue
                    problems.append((file, item.line, item.text))
                    continue
                key = item.event.session_key.strip()
                session = sessions.get(key)
                if session is None:
                    session = sessions[key] = _Session(Looking(settings[-1]) if errand.hints else None)
                session.feed(item, guards, settings)
    except SourceError as error:
        problems.append((file, 0, str(error)))
    for key, session in sessions.items():
        hints = session.looking.hints() if session.looking is not None else None
        yield Played(file, key, session.calls, tuple(session.fired.values()), hints)


class _Session:
    def __init__(self, looking: Looking | None) -> None:
        self.calls = 0
        self.fired: dict[tuple[int, str, str], Fired] = {}
        self.looking = looking
        self._number: dict[str, int] = {}  # of the newest call of each id

    def feed(self, item: Placed, guards: list[Guard], settings: list[Settings]) -> None:
        """One event to every guard."""
        if isinstance(item.event, ToolCallStarted):
            self.calls += 1
            self._number[item.event.call_id.strip()] = self.calls
        if self.looking is not None:
            self.looking.take(item.event)
        for place, guard in enumerate(guards):
            for fact in guard.feed(item.event, 0.0).facts:
                level = _LEVELS.get(type(fact))
                if level is not None and isinstance(fact, (NoteEmitted, BatchBlocked, RunEnded)):
                    tool = normalise_tool(fact.tool, settings[place].resolve(fact.agent_id))
                    call = self._number.get(fact.call_id, self.calls)
                    self._note(place, level, tool, fact.detector, fact.count, call)

    def _note(self, place: int, level: int, tool: str, detector: str, count: int, call: int) -> None:
        key = (place, tool, detector)
        noted, stopped = (call, 0) if level == NOTED else (0, call)
        old = self.fired.get(key)
        if old is not None:
            level, count = max(level, old.level), max(count, old.count)
            noted, stopped = old.noted or noted, old.stopped or stopped
        self.fired[key] = Fired(place, tool, str(detector), level, count, noted, stopped)


_LEVELS: Final = {NoteEmitted: NOTED, BatchBlocked: BLOCKED, RunEnded: ENDED}
