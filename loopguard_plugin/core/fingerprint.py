"""Any value to canonical bytes, and those to a digest (SPEC 3). Never raises, whatever the value.

Canonical bytes of a JSON value are its JSON: UTF-8, no white space, keys sorted, whole numbers without a fraction.
What is not JSON gets a text of its own that no JSON value can have, see :mod:`.exact`. Where Python knows more
types than JSON:

- a tuple is a list; subclasses of str, int, float, list and dict are what they extend;
- an enum member is its value, a UUID its usual text;
- bytes are not text: ``b"a"`` differs from ``"a"``;
- a number beyond 64 bits is equal to a float of the same value.

Digests are xxh3-128 as int: equality is all that matters, in this process or another.
"""

from __future__ import annotations

import re
from typing import Final

import orjson
from msgspec.msgpack import encode as _pack
from xxhash import xxh3_128_intdigest

from .exact import exact
from .nonces import may_wrap, split_at_ids

_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_dumps: Final = orjson.dumps

# orjson's JSON is canonical but for three things, each with a text that betrays it: whole floats, and NaN as null.
_WHOLE_FLOAT: Final = re.compile(r"\.0(?![0-9])|[0-9]e\+?[0-9]")
_ODD_FLOAT: Final = re.compile(b"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)  # NaN and the infinities in MessagePack


def canonical(value: object, *, ignore_nonces: bool = False) -> bytes:
    """The canonical bytes of a value; with ``ignore_nonces``, equal for values that differ in wrapper ids only."""
    try:
        out = _dumps(value, None, _OPTIONS)
        text = out.decode()
        if ("." in text or "e" in text) and _WHOLE_FLOAT.search(text):
            return exact(value, ignore_nonces)
        if "null" in text and _ODD_FLOAT.search(_pack(value)):
            return exact(value, ignore_nonces)
        if ignore_nonces and may_wrap(text):
            return exact(value, True)
    except Exception:  # orjson refuses what is not JSON with TypeError; objects in it may raise anything
        return exact(value, ignore_nonces)
    return out


def value_digest(value: object, seed: int = 0) -> int:
    """The digest of a value in which wrapper ids count: of arguments."""
    return xxh3_128_intdigest(canonical(value), seed)


def outcome_digest(value: object, seed: int) -> int:
    """The digest of a value in which wrapper ids do not count: of results."""
    return xxh3_128_intdigest(canonical(value, ignore_nonces=True), seed)


def text_bytes(text: str) -> bytes:
    """A text as bytes, wrapper ids left out. They are marked by a byte that UTF-8 does not have."""
    if may_wrap(text) and (pieces := split_at_ids(text)) is not None:
        return b"\xff".join(piece.encode("utf-8", "surrogatepass") for piece in pieces)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def text_digest(text: str, seed: int) -> int:
    """The digest of a text as it is, not as JSON; wrapper ids do not count."""
    return xxh3_128_intdigest(text_bytes(text), seed)


def parts_digest(value: object, text: str, seed: int) -> int:
    """The digest of a JSON list or object and a text beside it, which is not escaped: that is what costs most."""
    return xxh3_128_intdigest(canonical(value, ignore_nonces=True) + text_bytes(text), seed)
