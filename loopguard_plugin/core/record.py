"""What the history keeps of one call: digests and marks, about a hundred bytes, never contents."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

# Marks of a record. None of them and an outcome: the call ran and worked. No outcome and no veto: pending.
VETO: Final = 1  # loopguard refused it
FAILED: Final = 2
UNCHANGED: Final = 4  # a write that changed nothing
UNKNOWN: Final = 8  # failed because no such tool exists
REJECTED: Final = 16  # argument validation refused it; it never ran
GONE: Final = 32  # left the window
MUTATED: Final = 64  # a tool that is declared to change things worked


class Record(Struct, gc=False):
    """One call of the history. ``key``: digest of tool and arguments; ``failure``: failure identity (SPEC 5.1).

    ``gc=False`` saves the collector's header on each; it holds nothing that could point back to it.
    """

    key: int
    tool: str
    outcome: int | None = None
    failure: int | None = None
    marks: int = 0
