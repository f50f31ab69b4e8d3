"""The ``loopguard`` command (SPEC 14). Each command loads what it needs only when it runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from . import check_config, config, config_schema, demo, doctor, explain, install, replay, tune
from .exits import Exit

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; ``argv`` without the program's name (None: that of the process). Returns the exit code."""
    try:
        arguments = _parser().parse_args(argv)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse: usage errors, --help, --version
        return stop.code if isinstance(stop.code, int) else Exit.OK
    except BrokenPipeError:
        _silence_stdout()
        return Exit.BROKEN_PIPE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loopguard",
        description="Stops agents that repeat the same tool call without getting anywhere.",
        epilog="'loopguard COMMAND --help' explains a command.",
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (replay, explain, tune, check_config, config, config_schema, demo, install, doctor):
        command.add(commands)
    return parser


class _Version(argparse.Action):
    """``--version``, which looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        from .. import __version__

        print(f"loopguard {__version__}")
        parser.exit()


def _silence_stdout() -> None:
    """Whoever read our output has gone (``… | head``): the interpreter's last flush must not complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
