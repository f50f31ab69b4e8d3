"""``loopguard replay``: recorded events or transcripts through the real bus and middleware."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from ..printable import printable
from .commands import Commands
from .exits import Exit
from .given import settings_of

if TYPE_CHECKING:
    from ..report.page import Page
    from ..report.tally import Tally
    from ..settings import Settings
    from .playing import Played

class _Names(Collection[str]):
    """The names that --format takes. The readers are loaded when a name is given, not for every --help."""

    def __iter__(self) -> Iterator[str]:
        from ..transcripts import FORMATS as READERS

        return iter(("auto", *READERS))

    def __contains__(self, name: object) -> bool:
        return name == "auto" or any(name == one for one in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


FORMATS = _Names()
AGENTS = ("claude-code", "codex", "openclaw", "hermes")  # spelled out for --help, and held equal to places.PLACES
_STRENGTH = {"warn": 1, "block": 2, "end_turn": 3}
_FIRED = {"note": 1, "block": 2, "end_turn": 3}


_FROM = "the sessions of an agent on this machine, where it keeps them (CLAUDE_CONFIG_DIR, CODEX_HOME, …)"


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "replay",
        help="play recorded events or transcripts and show what fires",
        description="Play recorded events or transcripts through the guard and show what fires, and where. Each user "
        "message of a transcript opens a new run.",
        epilog="Exit: 0; 1 bad input (a line that could not be read; the rest was played); 2 bad usage or config; "
        "3 with --fail-on, when something that strong fired (this goes before 1).",
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="a file, also gzipped; a directory; - for standard input"
    )
    parser.add_argument("--from", dest="agents", choices=AGENTS, action="append", default=[], help=_FROM)
    parser.add_argument(
        "--format",
        metavar="NAME",
        choices=FORMATS,
        default="auto",
        help="what the files are (default: look at the content; a wrong name lists all)",
    )
    parser.add_argument("--config", metavar="FILE", help="the gateway's JSON5 config file (default: all defaults)")
    parser.add_argument("--agent", metavar="ID", help="the agent whose settings count, where an event names none")
    parser.add_argument("--json", action="store_true", help="one JSON line an event on stdout; all else on stderr")
    parser.add_argument(
        "--html", metavar="FILE", help="also write a page that shows every session (needs the extra report)"
    )
    parser.add_argument(
        "--include-content", action="store_true", help="let that page show arguments and results, shortened"
    )
    parser.add_argument("--fail-on", choices=tuple(_STRENGTH), help="exit 3 when something this strong fired")
    parser.set_defaults(run=run, usage=parser.format_usage)


def run(arguments: argparse.Namespace) -> int:
    """Play the files, report, and say by the exit code how it went."""
    from .playing import play

    settings = settings_of(arguments.config)
    if settings is None:
        return Exit.BAD_USAGE
    files, found, missing = _files(arguments)
    if not files and not missing:
        print(f"{arguments.usage()}loopguard replay: error: name a FILE, or an agent with --from", file=sys.stderr)
        return Exit.BAD_USAGE
    page = None
    if arguments.html is not None:
        try:
            from ..report.page import Page
        except ImportError:
            print('--html needs the extra "report": pip install "loopguard-plugin[report]"', file=sys.stderr)
            return Exit.BAD_USAGE
        page = Page(
            arguments.html,
            settings,
            arguments.agent,
            with_content=arguments.include_content,
            options=_options(arguments),
        )
    elif arguments.include_content:
        print(f"{arguments.usage()}loopguard replay: error: --include-content goes with --html", file=sys.stderr)
        return Exit.BAD_USAGE
    watchers = [page.add] if page is not None else []
    played = play(
        files, settings, arguments.format, arguments.agent, as_json=arguments.json, watchers=watchers, found=found
    )
    if page is not None and not _written(page, played):
        return Exit.BAD_INPUT
    if played.guard_failures:
        print(f"the guard itself failed at {played.guard_failures} events, which passed unjudged", file=sys.stderr)
    if arguments.json:
        from ..report import text

        print(text.summary(played.tally, played.files), file=sys.stderr)
    else:
        _show(played, settings, arguments.agent)
    strongest = played.tally.strongest
    if arguments.fail_on and strongest and _FIRED[strongest] >= _STRENGTH[arguments.fail_on]:
        return Exit.FIRED
    return Exit.BAD_INPUT if played.problems or missing else Exit.OK


def _options(arguments: argparse.Namespace) -> Iterator[str]:
    """What ``explain`` must be told to see what this replay saw."""
    if arguments.format != "auto":
        yield from ("--format", arguments.format)
    if arguments.config is not None:
        yield from ("--config", arguments.config)
    if arguments.agent is not None:
        yield from ("--agent", arguments.agent)


def _files(arguments: argparse.Namespace) -> tuple[list[str], list[str], bool]:
    """The files to play, those that were found with an agent, and whether one has none where it usually keeps them."""
    from .places import directory, sessions

    mine: list[str] = []
    missing = False
    for agent in arguments.agents:
        theirs = sessions(agent)
        if not theirs:
            print(printable(f"{agent}: no sessions under {directory(agent)}"), file=sys.stderr)
            missing = True
        mine += theirs
    return [*arguments.files, *mine], mine, missing


def _written(page: Page, played: Played) -> bool:
    """Write the page. False, said on stderr, where that cannot be done."""
    try:
        page.write(played.tally, played.files)
    except OSError as error:
        print(printable(f"{page.path}: {error.strerror or error}"), file=sys.stderr)
        return False
    print(printable(f"{page.path}: written"), file=sys.stderr)
    return True


def _show(played: Played, settings: Settings, agent: str | None) -> None:
    """On a terminal through rich where it is installed, plain text everywhere else."""
    from ..report import text

    terminal = _terminal() if sys.stdout.isatty() else None
    if terminal is not None:
        terminal(played.tally, played.files)
    else:
        _show_plainly(played.tally)
        print(text.summary(played.tally, played.files))
    if not settings.plugin_enabled:
        print("loopguard is off: plugins.entries.loopguard.enabled is false (see --config)")
    elif not settings.resolve(agent).rolling:
        print("rolling detectors are off: tools.loopDetection.enabled is not true (see --config)")


def _terminal() -> Callable[[Tally, int], None] | None:
    try:
        from ..report.terminal import show
    except ImportError:
        return None
    return show


def _show_plainly(tally: Tally) -> None:
    from ..report import text

    findings = list(tally.findings.values())
    if findings:
        for line in text.table(findings):
            print(printable(line))
        print()
    for line in text.verdicts(tally):
        print(printable(line))
