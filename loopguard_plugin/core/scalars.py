"""Strings and numbers as canonical bytes, odd ones too: for :mod:`.exact`."""

from __future__ import annotations

from math import isfinite
from typing import Final

import orjson

from .nonces import may_wrap, split_at_ids

# Bytes that UTF-8 does not have: before what is not JSON, and in the place of a wrapper's id.
ODD: Final = b"\xfe"
NONCE: Final = b"\xff"


def json_text(text: str, ignore_nonces: bool) -> bytes:
    """A string as JSON; lone surrogates keep their three bytes, wrapper ids are one byte that UTF-8 does not have."""
    if ignore_nonces and may_wrap(text) and (pieces := split_at_ids(text)) is not None:
        return b'"' + NONCE.join(json_text(piece, False)[1:-1] for piece in pieces) + b'"'
    try:
        return orjson.dumps(text)
    except TypeError:
        return b'"' + b"".join(_surrogate(char) for char in text) + b'"'


def _surrogate(char: str) -> bytes:
    if "\ud800" <= char <= "\udfff":
        return char.encode("utf-8", "surrogatepass")
    return orjson.dumps(char)[1:-1]


def number(value: int) -> bytes:
    """An integer; beyond 64 bits, where JSON readers differ, in hexadecimal, which takes linear time."""
    if -(2**63) <= value < 2**64:
        return b"%d" % value
    return ODD + hex(value).encode()


def real(value: float) -> bytes:
    """A float: a whole one as the integer that it is."""
    if not isfinite(value):
        return ODD + repr(value).encode()
    return number(int(value)) if value.is_integer() else orjson.dumps(value)
