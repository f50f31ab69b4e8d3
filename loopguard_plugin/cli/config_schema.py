"""``loopguard config-schema``: the JSON Schema of everything that loopguard reads in a config file."""

from __future__ import annotations

import argparse
import json

from .commands import Commands
from .exits import Exit


def add(commands: Commands) -> None:
    """Register the command."""
    about = "print the JSON Schema of the settings"
    parser = commands.add_parser("config-schema", help=about, description=f"{about.capitalize()}, for settings pages.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    from ..settings_schema import config_schema

    print(json.dumps(config_schema(), indent=2))
    return Exit.OK
