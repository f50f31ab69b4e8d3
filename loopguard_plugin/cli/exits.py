"""The exit codes of the command line (SPEC 14)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a script may rely on."""

    OK = 0
    BAD_INPUT = 1
    BAD_USAGE = 2  # bad configuration too
    FIRED = 3
    INTERRUPTED = 130
    BROKEN_PIPE = 141
