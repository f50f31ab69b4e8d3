"""What the history keeps of one call: digests and marks, about a hundred bytes, never contents."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

# Marks of a record. None of them and an outcome: the call ran and worked. No outcome and no veto: pending.
VETO: Final = 1  # loopguard refused it, or another layer did
FAILED: Final = 2
UNCHANGED: Final = 4  # a write that changed nothing
UNKNOWN: Final = 8  # failed because no such tool exists
REJECTED: Final = 16  # argument validation refused it; it never ran
GONE: Final = 32  # left the window
MUTATED: Final = 64  # a tool that is declared to change things worked
EXEC_FAILURE: Final = 128  # a shell command that failed with a cause: its failure identity is that of SPEC 5.1


class Record(Struct, gc=False):
    """One call of the history. ``key``: digest of tool and arguments; ``failure``: failure identity (SPEC 5.1, 5.1b).

    ``gc=False`` saves the collector's header on each; it holds nothing that could point back to it.
    """

    key: int
    tool: str
    outcome: int | None = None
    failure: int | None = None
    marks: int = 0


def compared(record: Record) -> int | None:
    """What no-progress, ping-pong evidence and stagnation compare: a failure by its identity, else the outcome."""
    return record.failure if record.marks & FAILED else record.outcome
