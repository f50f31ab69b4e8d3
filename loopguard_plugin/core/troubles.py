"""Exceptions that the observing half got over, on their way to whoever feeds the guard.

Observing never raises: what cannot be read is compared by less. An exception that means more than "this is not JSON" is
noted here, and :meth:`.guard.Guard.feed` takes it up before it answers. Notes belong to the thread that made them, so
that guards of several threads do not take each other's; ``feed`` begins with none. Only the kind of exception and its
place are kept, for its message may hold contents.
"""

from __future__ import annotations

from _thread import get_ident
from typing import Final

MOST: Final = 8  # of one event
MOST_THREADS: Final = 64  # that may have left notes behind, outside of any guard

NOTED: Final[dict[int, list[tuple[str, str]]]] = {}  # kind and place, by thread; nearly always empty


def note(error: BaseException) -> None:
    """An exception that was got over."""
    if len(NOTED) >= MOST_THREADS:
        NOTED.clear()
    noted = NOTED.setdefault(get_ident(), [])
    if len(noted) < MOST:
        noted.append((type(error).__name__, place(error)))


def place(error: BaseException) -> str:
    """Where an exception came from: file and line of its innermost frame."""
    traceback = error.__traceback__
    if traceback is None:
        return "unknown"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return f"{traceback.tb_frame.f_code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno}"


def take() -> tuple[tuple[str, str], ...]:
    """What this thread noted since the last time."""
    return tuple(NOTED.pop(get_ident(), ()))
