"""``loopguard tune``: your own history under a grid of settings, and the block of settings that fits it best."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..printable import printable
from .commands import Commands
from .exits import Exit
from .given import settings_of
from .replay import AGENTS, FORMATS

if TYPE_CHECKING:
    from .tuning_advice import Config, Results, Score
    from .tuning_plays import Done, Played


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "tune",
        help="find the settings that fit your own history",
        description="Play recorded sessions under a grid of thresholds and per-tool policies, and recommend the "
        "settings that stop the stuck ones and leave the healthy ones alone.",
        epilog="Sessions of FILEs that are not marked count too: as stuck where the settings in force would have "
        "ended them for looping, else as healthy. With --fine and --stuck both given they are only counted.",
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="a file, also gzipped, or a directory")
    parser.add_argument("--from", dest="agents", choices=AGENTS, action="append", default=[], help="as for replay")
    parser.add_argument("--fine", metavar="FILE", nargs="+", action="extend", default=[], help="healthy sessions")
    parser.add_argument("--stuck", metavar="FILE", nargs="+", action="extend", default=[], help="sessions with a loop")
    parser.add_argument("--format", choices=FORMATS, default="auto", help="what the files are")
    parser.add_argument("--config", metavar="FILE", help="the config file that the settings are to go into")
    parser.add_argument("--agent", metavar="ID", help="tune for this agent alone")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="processes (default: CPUs)")
    parser.set_defaults(run=run, usage=parser.format_usage)


def run(arguments: argparse.Namespace) -> int:
    """Play, compare, recommend."""
    import msgspec


    settings = settings_of(arguments.config)
    if settings is None:
        return Exit.BAD_USAGE
    files, marks = _files(arguments)
    if not files:
        print(f"{arguments.usage()}loopguard tune: error: name a FILE, --fine or --stuck", file=sys.stderr)
        return Exit.BAD_USAGE
    base = msgspec.to_builtins(settings)
    agent = (arguments.agent or "").strip() or None
    tuning = Tuning(files, marks, base, arguments.format, agent, max(1, arguments.jobs))
    for line in tuning.report():
        print(printable(line))
    for file, place, text in tuning.problems:
        print(printable(f"{file}:{place}: {text}"), file=sys.stderr)
    return Exit.BAD_INPUT if tuning.problems else Exit.OK


def _files(arguments: argparse.Namespace) -> tuple[list[tuple[str, bool]], dict[str, str]]:
    """Every file once, whether it was named itself, and the marks of those that have one."""
    from ..transcripts import files_of
    from .places import sessions

    found: dict[str, bool] = {}
    marks: dict[str, str] = {}
    named = [("", path) for path in [*arguments.files, *(file for name in arguments.agents for file in sessions(name))]]
    named += [("fine", path) for path in arguments.fine] + [("stuck", path) for path in arguments.stuck]
    for mark, path in named:
        for file in files_of(path):
            found[file] = found.get(file, False) or file == path
            if mark:
                marks[file] = mark
    return list(found.items()), marks


class Tuning:
    """One tuning: three rounds of play, each over all files. ``problems``: what could not be read."""

    def __init__(
        self,
        files: Sequence[tuple[str, bool]],
        marks: Mapping[str, str],
        base: Config,
        form: str,
        agent: str | None,
        jobs: int,
    ) -> None:
        self.problems: list[tuple[str, int, str]] = []
        self._files, self._marks, self._base = files, marks, base
        self._form, self._agent, self._jobs = form, agent, jobs
        self._certain = {"fine", "stuck"} <= set(marks.values())

    def report(self) -> Iterator[str]:
        """The comparison and the recommendation, line by line."""
        from . import tuning_advice as advice
        from .tuning_block import block

        grid: list[dict[str, int]] = [advice.thresholds(*pair) for pair in advice.GRID]
        played = self._round([*grid, {}], [{}] * (len(grid) + 1))  # the last: what is in force, but for the switch
        labels = advice.labelled(played, self._marks, len(grid), certain=self._certain)
        results = advice.Results(played, labels)
        if not played:
            yield "no sessions in these files"
            return
        yield from self._sessions(played, results)
        yield from _table(results, advice.GRID)
        shared = advice.best_shared(results, len(advice.GRID))
        common = advice.thresholds(*advice.GRID[shared])
        tried = advice.candidates(results, shared, advice.GRID)
        breakers = [value for one in tried for given in one.values() if isinstance(value := given.get(_BREAKER), int)]
        common["historySize"] = max(common["historySize"], *breakers, 0)
        found = advice.Results(self._round([common] * len(tried), tried), labels)
        chosen = advice.better_of(found, tried)
        reached = [value for given in chosen.values() if isinstance(value := given.get(_BREAKER), int)]
        common["historySize"] = max(common[_BREAKER], *reached, 0)
        final = advice.Results(self._round([common, common], [{}, chosen]), labels)
        if final.score(1).rank >= final.score(0).rank:  # policies that do not help together are left out
            chosen = {}
        yield from _recommended(final, chosen)
        yield ""
        yield from block(common, chosen, self._agent)

    def _round(
        self, shared: Sequence[Mapping[str, object]], tools: Sequence[Mapping[str, Mapping[str, object]]]
    ) -> list[Played]:
        """Every file under settings that lie over the base, each with its tools."""
        from . import tuning_advice as advice
        from .progress import Progress
        from .tuning_plays import play_all, size_of

        configs = [
            advice.overlaid(self._base, dict(one), policies, self._agent)
            for one, policies in zip(shared, tools, strict=True)
        ]
        played: list[Played] = []
        problems: list[tuple[str, int, str]] = []
        with Progress(sum(size_of(file) for file, _ in self._files)) as progress:

            def told(done: Done) -> None:
                progress.add(done.size, "tuning")

            for done in play_all(self._files, configs, self._form, self._agent, self._jobs, told):
                played += done.sessions
                problems += done.problems
        self.problems = problems
        return played

    def _sessions(self, played: list[Played], results: Results) -> Iterator[str]:
        fine, stuck = results.labels.fine, results.labels.stuck
        others = len(played) - len(fine) - len(stuck)
        counted = f", {others:,} not marked" if others else ""
        yield f"{len(played):,} sessions: {len(fine):,} healthy, {len(stuck):,} stuck{counted}"
        assumed = sorted(session for session in stuck if session[0] not in self._marks)
        if assumed:
            yield "taken as stuck, since the settings in force would have ended them (mark them with --fine if not):"
            yield from (f"  {key}  {file}" for file, key in assumed[:20])
            if len(assumed) > 20:
                yield f"  … and {len(assumed) - 20:,} more"
        yield ""


_BREAKER = "globalCircuitBreakerThreshold"


def _table(results: Results, pairs: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Catches against interruptions, for each pair of thresholds."""
    stuck, fine = len(results.labels.stuck), len(results.labels.fine)
    yield f"                    of {stuck:,} stuck   of {fine:,} healthy         of all sessions"
    yield "warning  critical     caught   interrupted  noted     noted  blocked  ended"
    for place, (warning, critical) in sorted(enumerate(pairs), key=lambda one: one[1]):
        score = results.score(place)
        noted, blocked, ended = results.totals(place)
        yield (
            f"{warning:>7}  {critical:>8}  {score.caught:>9,}  {score.interrupted:>12,}  {score.noted:>5,}"
            f"  {noted:>8,}  {blocked:>7,}  {ended:>5,}"
        )
    least = min(results.score(place).interrupted for place in range(len(pairs)))
    if least:
        yield f"{least:,} healthy ones are interrupted under every pair: by guards that have no threshold of this table"
    yield ""


def _recommended(final: Results, tools: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """What the recommendation comes to, and what each tool's own settings change."""
    score = final.score(1 if tools else 0)
    yield f"Recommended: {_told(score, final)}."
    for tool, given in tools.items():
        keys = ", ".join(f"{key} {json.dumps(value)}" for key, value in given.items() if key != _BREAKER)
        yield f"  {tool}: {keys}; {_change(final.score(0, tool), final.score(1, tool))}"


def _told(score: Score, results: Results) -> str:
    fine, stuck = len(results.labels.fine), len(results.labels.stuck)
    return (
        f"catches {score.caught:,} of {stuck:,} stuck sessions, interrupts {score.interrupted:,} and notes "
        f"{score.noted:,} of {fine:,} healthy ones"
    )


def _change(before: Score, after: Score) -> str:
    parts = [
        f"{word} {old:,} → {new:,}"
        for word, old, new in (
            ("caught", before.caught, after.caught),
            ("interrupted", before.interrupted, after.interrupted),
            ("noted", before.noted, after.noted),
        )
        if old != new
    ]
    return ", ".join(parts) or "no change by itself"
