"""Results of shell tools in the shape that the guard compares by exit code and output (SPEC 5, rows 4 and 5).

Agents wrap the output of a command in text of their own that changes with every call: durations, process ids, chunk
numbers. As recorded, two runs of one command would never compare equal, so the readers take the wrapping off.
"""

from __future__ import annotations

from .values import Object


def finished(exit_code: int | None, output: str) -> Object:
    """A command that ended. Its output is compared without the white space around it."""
    return {"status": "completed", "exitCode": exit_code, "aggregated": output}


def running(tail: str) -> Object:
    """A command that was still running when the tool answered."""
    return {"status": "running", "tail": tail}
