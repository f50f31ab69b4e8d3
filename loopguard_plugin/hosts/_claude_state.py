"""One session's state between the hook's processes: a small file, digests and counts, under a lock.

The lock is on the file itself, so that concurrent hooks of one session wait for each other; a process that dies lets
it go. A file that cannot be used (damaged, of another version) is forgotten: counting starts again.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct
from xxhash import xxh3_64_hexdigest

from ._claude import Book

VERSION: Final = 1
WAIT_SECONDS: Final = 5.0
KEPT_SECONDS: Final = 7 * 86400.0
MOST_BYTES: Final = 1 << 24  # what is larger was not written here

# A link raises, a pipe is not waited for, and no child inherits the file. Systems differ in which of these they have.
_CAREFULLY: Final = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))

if os.name == "nt":
    import msvcrt

    def _try_lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]  # only there

else:
    import fcntl

    def _try_lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class State(Struct, array_like=True):
    """What is kept of a session: the guard's snapshot, and the open batches by run."""

    version: int = VERSION
    guard: bytes = b""
    books: dict[str, Book] = {}


def directory() -> str:
    """Where the files are: ``LOOPGUARD_STATE_DIR``, else ``loopguard`` in the user's directory for state."""
    if named := os.environ.get("LOOPGUARD_STATE_DIR"):
        return named
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "loopguard", "claude-code")


def file_of(session: str) -> str:
    """A session's file; ids come from outside and are no file names."""
    name = xxh3_64_hexdigest(session.encode("utf-8", "replace"))
    return os.path.join(directory(), f"{name}.state")


@contextlib.contextmanager
def held(session: str) -> Iterator[tuple[State, Callable[[State], None]]]:
    """A session's state, and what writes it back, while nobody else has it. Raises TimeoutError, or OSError.

    In a directory that others may write to, the file's name may have been taken: links are not followed, and what is
    not a plain file of this user's own is refused with PermissionError.
    """
    path = file_of(session)
    try:
        handle = os.open(path, os.O_RDWR | _CAREFULLY)
    except FileNotFoundError:
        folder = os.path.dirname(path)
        _make(folder)
        _forget_old(folder)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | _CAREFULLY, 0o600)
    try:
        _check(handle, path)
        _lock(handle)
        yield _read(handle), lambda state: _write(handle, state)
    finally:
        os.close(handle)


def _make(folder: str) -> None:
    """A directory and those above it that are missing, for this user alone, whatever the umask."""
    missing = []
    folder = os.path.abspath(folder)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        try:
            os.mkdir(one, 0o700)
        except FileExistsError:  # another hook was faster
            continue
        os.chmod(one, 0o700)


def _check(handle: int, path: str) -> None:
    found = os.fstat(handle)
    owned = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    if not (stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and owned):
        raise PermissionError(f"{path} is not a plain file of this user's own; loopguard does not use it")


def forget(session: str) -> None:
    """Drop a session's file."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(file_of(session))


def _lock(handle: int) -> None:
    pause, end = 0.001, time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return _try_lock(handle)
        except OSError:
            if time.monotonic() > end:
                raise TimeoutError("another hook of this session holds its state") from None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)


def _read(handle: int) -> State:
    data = os.read(handle, MOST_BYTES)
    with contextlib.suppress(msgspec.MsgspecError, ValueError):
        state = msgspec.msgpack.decode(data, type=State)
        if state.version == VERSION:
            return state
    return State()


def _write(handle: int, state: State) -> None:
    data = msgspec.msgpack.encode(state)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, data)
    os.ftruncate(handle, len(data))


def _forget_old(folder: str) -> None:
    """Sessions that ended without saying so."""
    limit = time.time() - KEPT_SECONDS
    for file in os.scandir(folder):
        with contextlib.suppress(OSError):
            if file.name.endswith(".state") and file.stat(follow_symlinks=False).st_mtime < limit:
                os.unlink(file.path)
