"""The error tree::

    LoopGuardError
    ├── EventError (ValueError)      an event that is not one of the four, or has a field of the wrong type
    ├── SettingsError (ValueError)   settings that cannot be used; lists every problem with its path
    ├── SnapshotError (ValueError)   a snapshot that cannot be restored: damaged, of another version, or none at all
    └── TurnEndingError              the turn ends here; complete text for the transcript
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from .printable import printable

if TYPE_CHECKING:
    from .answers import Blocked, Code, Deliver, Detector


ENDED = "[loopguard] The turn was ended"  # how the message of every TurnEndingError begins


class LoopGuardError(Exception):
    """The root of everything that this package raises on purpose."""


class EventError(LoopGuardError, ValueError):
    """An event that cannot be understood. ``field`` names what is wrong, ``reason`` says how."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


class Problem(Struct, frozen=True):
    """One thing wrong with the settings.

    ``path`` is the dotted path of the key (empty for the file as a whole), ``nearest`` the nearest known key where
    the key is unknown; ``told``: ``message`` names it already. ``line`` and ``column`` (both from 1) are set where the
    text itself is not JSON5.
    """

    path: str
    message: str
    nearest: str | None = None
    line: int | None = None
    column: int | None = None
    told: bool = False

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        path = f"{self.path}: " if self.path else ""
        hint = f" (did you mean {self.nearest}?)" if self.nearest and not self.told else ""
        return f"{place}{path}{self.message}{hint}"


class SettingsError(LoopGuardError, ValueError):
    """Settings that cannot be used. ``problems`` lists all that is wrong, ``file`` where it stands (None: no file)."""

    def __init__(self, problems: tuple[Problem, ...], file: str | None = None) -> None:
        super().__init__(problems, file)
        self.problems = problems
        self.file = file

    def __str__(self) -> str:
        prefix = f"{self.file}: " if self.file else ""
        return "\n".join(printable(f"{prefix}{problem}") for problem in self.problems)


class SnapshotError(LoopGuardError, ValueError):
    """Bytes that cannot be restored. The guard is as it was; one that has just been made starts clean."""


class TurnEndingError(LoopGuardError):
    """The turn ends: the model must not be asked again (SPEC 9).

    ``message`` is complete text for the gateway to record as the turn's last entry. ``answer`` is what the event
    would have been answered otherwise, so that the result of that very call is not lost: a ``Deliver`` for a
    settlement, a terminal ``Blocked`` for a start. ``run_id`` is None for the session's unnamed run.
    """

    def __init__(
        self,
        *,
        code: Code,
        message: str,
        session_key: str,
        run_id: str | None,
        tool: str,
        count: int,
        detector: Detector,
        answer: Deliver | Blocked | None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.session_key = session_key
        self.run_id = run_id
        self.tool = tool
        self.count = count
        self.detector = detector
        self.answer = answer

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (dict(self.__dict__),)


def _rebuild(fields: dict[str, object]) -> TurnEndingError:
    """Unpickle: exceptions with keyword-only arguments need a function of their own."""
    return TurnEndingError(**fields)  # type: ignore[arg-type]  # the very fields that __reduce__ gave
