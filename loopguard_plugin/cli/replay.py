"""``loopguard replay``: recorded events or transcripts through the real bus and middleware."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from .commands import Commands
from .exits import Exit

if TYPE_CHECKING:
    from ..report.tally import Tally
    from ..settings import Settings
    from .playing import Played

# Spelled out here so that --help needs no reader; a test holds it equal to transcripts.FORMATS.
FORMATS = (
    "auto",
    "events",
    "openclaw",
    "pi",
    "claude-stream",
    "claude-code",
    "codex",
    "openai-chat",
    "gemini",
    "swe-agent",
    "atif",
)
_STRENGTH = {"warn": 1, "block": 2, "end_turn": 3}
_FIRED = {"note": 1, "block": 2, "end_turn": 3}


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
        "files", metavar="FILE", nargs="+", help="a file, also gzipped; a directory; - for standard input"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="auto", help="what the files are (default: look at the content)"
    )
    parser.add_argument("--config", metavar="FILE", help="the gateway's JSON5 config file (default: all defaults)")
    parser.add_argument("--agent", metavar="ID", help="the agent whose settings count, where an event names none")
    parser.add_argument("--json", action="store_true", help="one JSON line an event on stdout; all else on stderr")
    parser.add_argument("--fail-on", choices=tuple(_STRENGTH), help="exit 3 when something this strong fired")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play the files, report, and say by the exit code how it went."""
    from ..errors import SettingsError
    from ..settings import Settings
    from .playing import play

    settings = Settings()
    if arguments.config is not None:
        from ..config_file import load_settings

        try:
            settings = load_settings(arguments.config)
        except SettingsError as error:
            print(error, file=sys.stderr)
            return Exit.BAD_USAGE
    played = play(arguments.files, settings, arguments.format, arguments.agent, as_json=arguments.json)
    if played.guard_failures:
        print(f"the guard itself failed at {played.guard_failures} events, which passed unjudged", file=sys.stderr)
    if not arguments.json:
        _show(played, settings, arguments.agent)
    strongest = played.tally.strongest
    if arguments.fail_on and strongest and _FIRED[strongest] >= _STRENGTH[arguments.fail_on]:
        return Exit.FIRED
    return Exit.BAD_INPUT if played.problems else Exit.OK


def _show(played: Played, settings: Settings, agent: str | None) -> None:
    from ..report import text

    _show_findings(played.tally)
    for line in text.verdicts(played.tally):
        print(line)
    print(text.summary(played.tally, played.files))
    if not settings.plugin_enabled:
        print("loopguard is off: plugins.entries.loopguard.enabled is false (see --config)")
    elif not settings.resolve(agent).rolling:
        print("rolling detectors are off: tools.loopDetection.enabled is not true (see --config)")


def _show_findings(tally: Tally) -> None:
    """The table: through rich on a terminal where it is installed, plain text everywhere else."""
    from ..report import text

    findings = list(tally.findings.values())
    if not findings:
        return
    if sys.stdout.isatty():
        try:
            from ..report.rich_table import show
        except ImportError:
            pass
        else:
            show(findings)
            print()
            return
    for line in text.table(findings):
        print(line)
    print()
