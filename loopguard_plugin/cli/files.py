"""A file of somebody else's, written anew: all of it or nothing, and only over what was read."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


class ChangedError(OSError):
    """Somebody else has written the file since it was read."""


def read(file: Path) -> bytes | None:
    """The contents; None where there is no file. Raises OSError, also for what is not a plain file."""
    if not file.exists():
        return None
    if not file.is_file():
        raise OSError(0, "not a plain file")
    return file.read_bytes()


def unchanged(file: Path, old: bytes | None) -> None:
    """Raises :class:`ChangedError` where the contents are others than ``old`` by now."""
    if read(file) != old:
        raise ChangedError(0, "it was changed by someone else meanwhile")


def why(error: Exception) -> str:
    """What is wrong with a file, without its name."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text (byte {error.start + 1})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def replace(file: str | os.PathLike[str], old: bytes | None, new: bytes) -> None:
    """Write ``new`` where ``old`` was read (None: there was no file); mode, owner and links stay.

    Raises :class:`ChangedError` where the contents are others by now, and OSError; then nothing has changed.
    """
    target = Path(os.path.realpath(file))
    temporary = written_beside(target, target, new)
    try:
        unchanged(target, old)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def back_up(file: Path, data: bytes, ending: str) -> Path:
    """A copy of what was read, beside the file and for the same readers; takes the place of an earlier one."""
    target = Path(os.path.realpath(file))
    copy = target.with_name(target.name + ending)
    temporary = written_beside(copy, target, data)
    try:
        os.replace(temporary, copy)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return copy


def written_beside(target: Path, like: Path, data: bytes) -> Path:
    """A temporary file in the directory of ``target``, with the mode and owner of ``like`` where that exists."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        if like.exists():
            _own(temporary, like.stat())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _own(file: Path, like: os.stat_result) -> None:
    """Raises OSError where the owner cannot be kept: the file would be lost to whoever has it now."""
    found = file.stat()
    if hasattr(os, "chown") and (found.st_uid, found.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.chown(file, like.st_uid, like.st_gid)
        except PermissionError:
            raise PermissionError(0, "it belongs to another user or group, which cannot be kept") from None
    os.chmod(file, stat.S_IMODE(like.st_mode))
