"""Plays transcripts: read, publish on an embedded bus with the real middleware, write down what came of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import BinaryIO, TypeAlias, cast

import anyio
import anyio.lowlevel

from .. import logs
from ..answers import Answer
from ..bus import EmbeddedBus
from ..errors import TurnEndingError
from ..events import Event, ToolCallSettled, ToolCallStarted
from ..middleware import LoopGuard
from ..printable import printable
from ..report.rows import Row, json_line, row
from ..report.tally import Tally
from ..settings import Settings
from ..transcripts import Items, Source, SourceError, Talks, Unreadable, detect, files_of, read
from .progress import Progress

Watcher: TypeAlias = Callable[[Row, Event, str, int], None]  # what came of an event, with its file and line

_MOST_TOLD = 1000  # problems of one file that are told one by one
_BETWEEN_CHECKPOINTS = 1024  # events; each is a moment where Ctrl-C is heard


@dataclass(slots=True)
class Played:
    """What came of it. ``problems``: lines and files that could not be read. ``guard_failures``: its own exceptions."""

    tally: Tally = field(default_factory=Tally)
    files: int = 0
    problems: int = 0
    guard_failures: int = 0


def play(
    paths: Sequence[str],
    settings: Settings,
    form: str,
    agent: str | None,
    *,
    as_json: bool,
    watchers: Sequence[Watcher] = (),
    found: Collection[str] = (),
) -> Played:
    """Play every file in order, as one stream of events. Problems go to stderr as they are met.

    ``found``: those of the paths that nobody named; there, as in a directory, a talk without a call is no problem.
    """
    # The report says what the log lines say, and better; with --json they go to stderr, as a gateway's would.
    with nullcontext() if as_json else logs.silenced():
        guard = LoopGuard(settings, clock=lambda: 0.0)  # recorded time is not wall time: nothing grows old here
        bus = EmbeddedBus()
        bus.use(guard)
        played = Played()
        player = _Player(bus, played, watchers, _bytes_out() if as_json else None)
        anyio.run(_play_all, player, paths, form, agent, frozenset(found))
        played.guard_failures = guard.stats().errors
    return played


def size_of(files: Sequence[str]) -> int:
    """The bytes of all files together; 0 if one of them is standard input."""
    total = 0
    for file in files:
        if file == "-":
            return 0
        try:
            total += os.path.getsize(file)
        except OSError:
            continue  # told when it is its turn
    return total


async def _play_all(
    player: _Player, paths: Sequence[str], form: str, agent: str | None, found: frozenset[str]
) -> None:
    talks = Talks((agent or "").strip() or None)
    files = {path: list(files_of(path)) for path in paths}
    with Progress(size_of([file for found in files.values() for file in found])) as progress:
        for path in paths:
            before = player.calls, player.played.problems
            for file in files[path]:
                await _play_file(player, file, form, talks, progress, chosen=file == path and path not in found)
            nothing = before == (player.calls, player.played.problems)
            if nothing and files[path] != [path]:
                player.problem(path, 0, "no transcript with a call in this directory")


async def _play_file(
    player: _Player, file: str, form: str, talks: Talks, progress: Progress, *, chosen: bool
) -> None:
    """One file. In a directory there may be others (indexes, notes): only what was named itself must be known."""
    try:
        with Source.open(file) as source:
            if not chosen and form == "auto" and detect(source) is None:
                print(f"{printable(file)}: skipped, no transcript of a known format", file=sys.stderr)
                return
            player.played.files += 1
            await player.play(source.name, progress.watch(source, read(source, talks, form)), chosen=chosen)
    except SourceError as error:
        player.problem(file, 0, str(error))


class _Player:
    """Publishes items and writes down the answers."""

    def __init__(self, bus: EmbeddedBus, played: Played, watchers: Sequence[Watcher], out: BinaryIO | None) -> None:
        self.played = played
        self.calls = 0
        self._bus = bus
        self._watchers = watchers
        self._out = out

    async def play(self, name: str, items: Items, *, chosen: bool) -> None:
        """Every event of one file, in order."""
        publish, tally = self._bus.publish, self.played.tally
        untold = 0
        before = self.played.problems
        for item in items:
            if isinstance(item, Unreadable):
                if item.no_call and not chosen:
                    print(printable(f"{name}: skipped, {item.text}"), file=sys.stderr)
                elif self.played.problems - before < _MOST_TOLD:
                    self.problem(name, item.line, item.text)
                else:
                    self.played.problems += 1
                    untold += 1
                continue
            answer: Answer | TurnEndingError
            try:
                answer = cast(Answer, await publish(item.event))
            except TurnEndingError as ending:
                answer = ending
            line = row(tally.events, item.event, answer)
            tally.add(line, item.event, name, item.line)
            self.calls += isinstance(item.event, (ToolCallStarted, ToolCallSettled))
            for watch in self._watchers:
                watch(line, item.event, name, item.line)
            if self._out is not None:
                self._out.write(json_line(line))
            if tally.events % _BETWEEN_CHECKPOINTS == 0:
                await anyio.lowlevel.checkpoint()
        if untold:
            print(f"{printable(name)}: {untold} more lines like that", file=sys.stderr)
        if self._out is not None:
            self._out.flush()

    def problem(self, name: str, line: int, text: str) -> None:
        """Something that could not be read: said at once, and counted."""
        self.played.problems += 1
        print(printable(f"{name}:{line}: {text}" if line else f"{name}: {text}"), file=sys.stderr)


def _bytes_out() -> BinaryIO:
    sys.stdout.flush()
    return sys.stdout.buffer
