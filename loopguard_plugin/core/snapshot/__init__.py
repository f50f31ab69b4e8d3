"""The guard's whole state as bytes, so that counts outlive the process.

What is inside: session keys, run, agent, batch, call and message ids; tool names; counts, flags and ages; digests of
calls and outcomes; the reasons, notes and endings that were given, in our own words; and the last error text of a
failure streak (at most 300 characters, SPEC 13), also where an ending quotes it or a failure still waits for its turn.
No arguments and no results. No settings, but for the result paths that an open call is to be compared without: a
restored run takes those of the guard that it is restored into.

Layout: the mark ``loopguard``, one byte of version, the xxh3-128 checksum of the directory, its length in 4 bytes and
the directory itself, a msgpack array with the key, size and checksum of each session (:data:`.rows.Directory`); then
the sessions, each one msgpack array of its own (:class:`.rows.SessionRow`). So damage to one session, or a cut, leaves
the others readable. Checksums find damage, they do not prove who wrote the bytes: keep them where only the gateway
writes. Times are ages, for the clock of one process means nothing to the next; the time in between counts for nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec
from xxhash import xxh3_128_digest

from ...answers import SessionRefused
from ...errors import SnapshotError
from ..sessions import Sessions
from .reading import Restored, unpacked
from .rows import Directory, SessionRow
from .writing import packed, write

__all__ = ["VERSION", "dump", "load"]

MARK: Final = b"loopguard"
VERSION: Final = 2  # raised whenever a row, or what stands in it, changes
_SUM: Final = len(MARK) + 1
_LENGTH: Final = _SUM + 16
_BODY: Final = _LENGTH + 4

_encoder: Final = msgspec.msgpack.Encoder()
_directory_decoder: Final = msgspec.msgpack.Decoder(Directory)
_session_decoder: Final = msgspec.msgpack.Decoder(SessionRow)


def dump(sessions: Sessions, now: float) -> bytes:
    """All sessions as bytes. ``now``: as on ``feed``."""
    directory: Directory = []
    parts: list[bytes] = []
    for key, row in write(sessions, now):
        part = _encoder.encode(row)
        parts.append(part)
        directory.append((packed(key), len(part), xxh3_128_digest(part)))
    head = _encoder.encode(directory)
    return b"".join((MARK, bytes((VERSION,)), xxh3_128_digest(head), len(head).to_bytes(4, "big"), head, *parts))


def load(data: bytes, now: float, limit: int, idle: float) -> tuple[Sessions, tuple[SessionRefused, ...]]:
    """Sessions of their own from what :func:`dump` made; ``limit`` and ``idle`` are those of the guard.

    A session that is damaged, or does not fit together, is left out and told with its key; the others are restored.
    Raises :class:`SnapshotError` for bytes of which nothing can be restored: those of another version, or with a
    damaged head, or whose sessions are all refused.
    """
    data, at, directory = _open(data)
    restored, refused = Restored(now), []
    for packed_key, size, checksum in directory:
        part, at = data[at : at + size], at + size
        key = unpacked(packed_key)
        try:
            if xxh3_128_digest(part) != checksum:
                raise ValueError("it is damaged: its checksum does not match")
            restored.add(key, _session_decoder.decode(part))
        except Exception as error:  # whatever is wrong with one session is no reason to lose the others
            refused.append(SessionRefused(key, str(error) or type(error).__name__))
    if len(data) > at:
        raise SnapshotError(f"the snapshot is damaged: {len(data) - at} bytes stand behind its end")
    if refused and len(refused) == len(directory):
        raise SnapshotError(f"no session of the snapshot can be restored; of the first one: {refused[0].reason}")
    return restored.sessions(limit, idle), tuple(refused)


def _open(data: bytes) -> tuple[bytes, int, Directory]:
    """The bytes, where the sessions begin in them, and the directory."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise SnapshotError(f"a snapshot is bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MARK) or len(data) < _SUM:
        raise SnapshotError("these bytes are no snapshot of loopguard")
    version = data[_SUM - 1]
    if version != VERSION:
        raise SnapshotError(f"the snapshot is of version {version}, this loopguard reads version {VERSION}")
    end = _BODY + int.from_bytes(data[_LENGTH:_BODY], "big")
    head = data[_BODY:end]
    if data[_SUM:_LENGTH] != xxh3_128_digest(head):
        raise SnapshotError("the snapshot is damaged: the checksum of its directory does not match")
    try:
        directory = _directory_decoder.decode(head)
        for key, _, _ in directory:
            unpacked(key)
    except (msgspec.MsgspecError, ValueError) as error:
        raise SnapshotError(f"the snapshot does not fit together: {error}") from error
    return data, end, directory
