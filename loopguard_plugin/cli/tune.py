"""``loopguard tune``: your own history under many settings, and the block of settings that fits it best."""

from __future__ import annotations

import argparse
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
    from ..settings_layers import Adjustment
    from .tuning_advice import Config, Labels, Results, Score, Session
    from .tuning_moves import Choice
    from .tuning_plays import Done, Played


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "tune",
        help="find the settings that fit your own history",
        description="Play recorded sessions under a grid of thresholds, and with single changes of other settings, and "
        "recommend those that stop the stuck sessions and leave the healthy ones alone. Each recommended line names "
        "the sessions that it changes.",
        epilog="Sessions of FILEs that are not marked count too: as stuck where the settings in force would have "
        "ended them for looping, else as healthy. With --fine and --stuck both given they are only counted.",
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="a file, also gzipped, or a directory")
    parser.add_argument("--from", dest="agents", choices=AGENTS, action="append", default=[], help="as for replay")
    parser.add_argument("--fine", metavar="FILE", nargs="+", action="extend", default=[], help="healthy sessions")
    parser.add_argument("--stuck", metavar="FILE", nargs="+", action="extend", default=[], help="sessions with a loop")
    parser.add_argument("--format", metavar="NAME", choices=FORMATS, default="auto", help="what the files are")
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
    """One tuning. ``problems``: what could not be read.

    Each round plays all files once under some settings side by side: the pairs of thresholds first; then what
    :mod:`.tuning_search` asks for, from the usual pair and from the one that does best; then the recommendation less
    each of its lines. So there are at most ``5 + 2 * (ROUNDS + PRUNING)`` rounds of at most ``MOST + 8`` settings,
    however many tools and settings there are: single changes are tried on what is chosen so far, not all combinations.
    """

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
        self._labels: Labels | None = None
        self._enabled: bool | None = None  # whether the detectors are on now
        self._played: list[Played] = []

    def report(self) -> Iterator[str]:
        """The comparison and the recommendation, line by line."""
        from ..settings import parse_settings
        from . import tuning_advice as advice
        from .tuning_moves import Choice, moves
        from .tuning_search import search

        pairs: list[dict[str, object]] = [dict(advice.thresholds(*pair)) for pair in advice.GRID]
        # The last: what is in force, but for the switch.
        played = self._round([*(self._config(Choice(pair)) for pair in pairs), self._config(Choice({}))], hints=True)
        if not played:
            yield "no sessions in these files"
            return
        self._labels = labels = advice.labelled(played, self._marks, len(pairs), certain=self._certain)
        results = advice.Results(played, labels)
        yield from self._sessions(played, results)
        yield from _table(results, advice.GRID)
        hints = {(one.file, one.session_key): one.hints for one in played if one.hints is not None}
        limits = parse_settings(self._base).resolve(self._agent)
        self._enabled = limits.enabled
        best: tuple[Score, Choice] | None = None
        for start in dict.fromkeys((_USUAL, advice.best_shared(results, len(pairs)))):
            if best is None or any(best[0].rank):  # it could be better still
                tried = moves(results, start, advice.GRID, hints, limits, self._agent)
                choice = Choice(pairs[start], search(self._results, pairs[start], tried))
                score = self._results([choice]).score(0)
                best = (score, choice) if best is None or score.rank < best[0].rank else best
        if best is not None:
            yield from self._recommended(best[1])

    def _recommended(self, choice: Choice) -> Iterator[str]:
        """What it comes to, what gets through all the same, and the block with what each line is good for."""
        from .tuning_block import block
        from .tuning_moves import Choice

        final, told = self._explained(choice)
        idle = [place[1] for place, what in told.items() if not what and place[0] == "loopDetection"]
        less = Choice({key: value for key, value in choice.shared.items() if key not in idle}, choice.moves)
        if idle and self._adjusted(less) <= self._adjusted(choice):
            leaner, why = self._explained(less)
            if leaner.score(0).rank <= final.score(0).rank:
                choice, final, told = less, leaner, why
        yield f"Recommended: {_told(final.score(0), final)}."
        yield from _listed("stay uncaught:", sorted(final.uncaught(0)))
        yield ""
        comments = {place: what or _COMPANY.get(place[-1], "") for place, what in told.items()}
        shared = {key: value for key, value in choice.detection.items() if ("loopDetection", key) in told}
        yield from block(shared, choice.tools, self._agent, choice.own, comments)

    def _explained(self, choice: Choice) -> tuple[Results, dict[tuple[str, ...], str]]:
        """What a choice does (setting 0), and for each line that says anything the sessions that it changes."""
        from .tuning_lines import Names, explained, lines_of

        lines = [line for line in lines_of(choice, self._enabled) if self._matters(choice, line.without)]
        final = self._results([choice, *(line.without for line in lines)])
        names = Names((one.file, one.session_key) for one in self._played)
        return final, {line.place: explained(final, 0, at, names) for at, line in enumerate(lines, 1)}

    def _adjusted(self, choice: Choice) -> set[Adjustment]:
        """The settings under a choice that have to be adjusted to one another."""
        from ..settings import parse_settings

        return set(parse_settings(self._config(choice)).resolve(self._agent).adjustments)

    def _matters(self, choice: Choice, without: Choice) -> bool:
        """Whether a line says anything that does not hold without it."""
        from ..settings import parse_settings

        settings = [parse_settings(self._config(one)).resolve(self._agent) for one in (choice, without)]
        return settings[0] != settings[1]

    def _config(self, choice: Choice) -> Config:
        """The config file with a choice over it."""
        from .tuning_advice import overlaid

        return overlaid(self._base, choice.detection, choice.tools, self._agent, choice.own)

    def _results(self, choices: Sequence[Choice]) -> Results:
        """What all these do, each for itself."""
        from .tuning_advice import Results

        assert self._labels is not None
        return Results(self._round([self._config(one) for one in choices]), self._labels)

    def _round(self, configs: Sequence[Config], *, hints: bool = False) -> list[Played]:
        """Every file under these settings."""
        from .progress import Progress
        from .tuning_plays import play_all, size_of

        played: list[Played] = []
        problems: list[tuple[str, int, str]] = []
        with Progress(sum(size_of(file) for file, _ in self._files)) as progress:

            def told(done: Done) -> None:
                progress.add(done.size, "tuning")

            for done in play_all(self._files, configs, self._form, self._agent, self._jobs, told, hints=hints):
                played += done.sessions
                problems += done.problems
        self.problems = problems
        self._played = self._played or played
        return played

    def _sessions(self, played: list[Played], results: Results) -> Iterator[str]:
        fine, stuck = results.labels.fine, results.labels.stuck
        others = len(played) - len(fine) - len(stuck)
        counted = f", {others:,} not marked" if others else ""
        yield f"{len(played):,} sessions: {len(fine):,} healthy, {len(stuck):,} stuck{counted}"
        assumed = sorted(session for session in stuck if session[0] not in self._marks)
        why = "taken as stuck, since the settings in force would have ended them (mark them with --fine if not):"
        yield from _listed(why, assumed)
        yield ""


_USUAL = 0  # the pair of thresholds with which the grid begins

# What a line is for that changes no session by itself.
_COMPANY = {
    "warningThreshold": "below criticalThreshold",
    "criticalThreshold": "above warningThreshold",
    "globalCircuitBreakerThreshold": "above criticalThreshold",
    "historySize": "so that every threshold can be reached",
}
_MOST_LISTED = 20


def _listed(heading: str, sessions: Sequence[Session]) -> Iterator[str]:
    """The sessions under a heading; nothing where there are none."""
    from ..report.text import whole

    if sessions:
        yield heading
        yield from (whole(f"  {key}  {file}") for file, key in sessions[:_MOST_LISTED])
        if len(sessions) > _MOST_LISTED:
            yield f"  … and {len(sessions) - _MOST_LISTED:,} more"


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


def _told(score: Score, results: Results) -> str:
    fine, stuck = len(results.labels.fine), len(results.labels.stuck)
    return (
        f"catches {score.caught:,} of {stuck:,} stuck sessions, interrupts {score.interrupted:,} and notes "
        f"{score.noted:,} of {fine:,} healthy ones"
    )
