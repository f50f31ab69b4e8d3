"""``loopguard demo``: a stuck scripted agent on the embedded bus, stopped before your eyes."""

from __future__ import annotations

import argparse

from .commands import Commands
from .exits import Exit


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "demo",
        help="watch a stuck agent being stopped",
        description="A scripted agent that is stuck, on the embedded bus: the note, the block, one more answer of the "
        "model, the end of the turn; then the two guards that are on without any setting.",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play the scenes."""
    import anyio

    from .. import logs
    from .scenes import play_all

    with logs.silenced():  # the scenes tell what the log would
        anyio.run(play_all)
    return Exit.OK
