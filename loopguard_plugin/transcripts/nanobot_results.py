"""What a result of nanobot's shell tools says; one rule for live calls and for sessions read from a file.

``exec`` and ``exec_session`` (once ``write_stdin``) answer with a text whose last lines tell how the command ended:
``Exit code: 1``, in a shell session ``Elapsed: 2.3s`` behind it. nanobot itself takes any exit code for a success.
"""

from __future__ import annotations

import re
from typing import Final

from ..events import Status
from .shell import finished, running

SHELLS: Final = frozenset({"exec", "exec_session", "write_stdin"})

_ELAPSED: Final = r"(?:\nElapsed: \d+(?:\.\d+)?s)?"
_HINT: Final = r"(?:\n\n\[Analyze the error above[^\n]*\])?(?:\n\n\[loopguard\] [^\n]*)?"  # nanobot's, and our note
_ENDED: Final = re.compile(rf"(?:\A|\n)Exit code: (-?\d+){_ELAPSED}{_HINT}\s*\Z")
_RUNNING: Final = re.compile(rf"(?:\A|\n)Process running\. session_id: \S+{_ELAPSED}{_HINT}\s*\Z")


def outcome(tool: str, text: str) -> tuple[Status, object] | None:
    """How a command ended, and its result as the guard compares commands (SPEC 5, rows 4 and 5).

    None for a text without these lines, and for other tools: then it is what nanobot takes it for.
    """
    if tool not in SHELLS:
        return None
    if (ended := _ENDED.search(text)) is not None:
        code = int(ended.group(1))
        return (Status.ERROR if code else Status.OK), finished(code, text[: ended.start()])
    if (still := _RUNNING.search(text)) is not None:
        return Status.OK, running(text[: still.start()])
    return None
