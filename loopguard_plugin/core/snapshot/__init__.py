"""The guard's whole state as bytes, so that counts outlive the process.

What is inside: session keys, run, agent, batch, call and message ids; tool names; counts, flags and ages; digests of
calls and outcomes; the reasons, notes and endings that were given, in our own words; and the last error text of a
failure streak (at most 300 characters, SPEC 13), also where an ending quotes it or a failure still waits for its turn.
No arguments and no results. No settings, but for the result paths that an open call is to be compared without: a
restored run takes those of the guard that it is restored into.

Layout: the mark ``loopguard``, one byte of version, the xxh3-128 checksum of the rest, then one msgpack array
(:class:`.rows.Snapshot`). The checksum finds damage, it does not prove who wrote the bytes: keep them where only the
gateway writes. Times are ages, for the clock of one process means nothing to the next; the time in between counts for
nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec
from xxhash import xxh3_128_digest

from ...errors import SnapshotError
from ..sessions import Sessions
from .reading import read
from .rows import Snapshot
from .writing import write

__all__ = ["VERSION", "dump", "load"]

MARK: Final = b"loopguard"
VERSION: Final = 2  # raised whenever a row, or what stands in it, changes
_AT: Final = len(MARK) + 1
_BODY: Final = _AT + 16

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Snapshot)


def dump(sessions: Sessions, now: float) -> bytes:
    """All sessions as bytes. ``now``: as on ``feed``."""
    body = _encoder.encode(write(sessions, now))
    return MARK + bytes((VERSION,)) + xxh3_128_digest(body) + body


def load(data: bytes, now: float, limit: int, idle: float) -> Sessions:
    """Sessions of their own from what :func:`dump` made; ``limit`` and ``idle`` are those of the guard.

    Raises :class:`SnapshotError` for anything else.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise SnapshotError(f"a snapshot is bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MARK) or len(data) < _AT:
        raise SnapshotError("these bytes are no snapshot of loopguard")
    version = data[_AT - 1]
    if version != VERSION:
        raise SnapshotError(f"the snapshot is of version {version}, this loopguard reads version {VERSION}")
    if data[_AT:_BODY] != xxh3_128_digest(data[_BODY:]):
        raise SnapshotError("the snapshot is damaged: its checksum does not match")
    try:
        return read(_decoder.decode(data[_BODY:]), now, limit, idle)
    except (msgspec.MsgspecError, LookupError, ValueError, OverflowError) as error:
        raise SnapshotError(f"the snapshot does not fit together: {error}") from error
