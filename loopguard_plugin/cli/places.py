"""Where agents keep their sessions on this machine, for ``--from``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct


class Place(Struct, frozen=True):
    """An agent's own directory (``variable`` overrules ``home``), and its sessions in it as globs.

    The first glob that matches anything is taken: later ones are older ways of keeping the same sessions.
    """

    variable: str
    home: str
    globs: tuple[tuple[str, ...], ...]


PLACES: Final[Mapping[str, Place]] = {
    "claude-code": Place("CLAUDE_CONFIG_DIR", ".claude", (("projects/**/*.jsonl",),)),
    "codex": Place("CODEX_HOME", ".codex", (("sessions/**/*.jsonl", "archived_sessions/**/*.jsonl"),)),
    "openclaw": Place("OPENCLAW_STATE_DIR", ".openclaw", (("agents/*/sessions/*.jsonl",),)),
    "hermes": Place("HERMES_HOME", ".hermes", (("state.db", "profiles/*/state.db"), ("sessions/session_*.json",))),
}


def directory(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The agent's own directory, whether or not it is there."""
    place = PLACES[name]
    return Path(environment.get(place.variable, "").strip() or Path.home() / place.home).expanduser()


def sessions(name: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The session files of an agent, in order of their paths; none where it never ran."""
    root = directory(name, environment)
    for globs in PLACES[name].globs:
        found = sorted({str(path) for glob in globs for path in root.glob(glob) if path.is_file()})
        if found:
            return found
    return []
