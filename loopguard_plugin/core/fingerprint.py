"""Any value to canonical bytes, and those to a digest (SPEC 3). Never raises, whatever the value.

Canonical bytes of a JSON value are its JSON: UTF-8, no white space, keys sorted, whole numbers without a fraction.
What is not JSON gets a text of its own that no JSON value can have, see :mod:`.exact`. Where Python knows more
types than JSON:

- a tuple is a list; subclasses of str, int, float, list and dict are what they extend;
- an enum member is its value, a UUID its usual text;
- bytes are not text: ``b"a"`` differs from ``"a"``;
- a whole float beyond 64 bits equals the integer of the same value, as a smaller one does.

Digests are xxh3-128 as int: equality is all that matters, in this process or another.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Final

import msgspec
import orjson
from xxhash import xxh3_128_intdigest

from .exact import exact
from .nonces import OPEN_BRACKET, may_wrap, may_wrap_bytes, split_at_ids, without_outer_ids
from .scalars import NONCE

CANONICAL: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
dumps: Final = orjson.dumps
json_value: Final = orjson.loads

# orjson's JSON is canonical but for whole floats, and for NaN and the infinities, which it writes as null. Whether a
# value has any is seen soonest in its MessagePack, where each float is the byte CB and its eight bytes: most values
# have no such byte at all, and finding that out costs next to nothing however long their strings are.
pack: Final = msgspec.msgpack.Encoder().encode
FLOAT: Final = 0xCB
# Whole floats end with two zero bytes up to 2**36, and begin with 42 or more from 2**33 on, as what is no number does.
_ODD: Final = re.compile(rb"\xcb(?=(.{6}\x00\x00|[\x42-\x7f\xc2-\xff].{7}))", re.DOTALL)
_MOST_ODD: Final = 32  # floats that are looked at one by one
_double: Final = struct.Struct(">d").unpack
# In large JSON of many small values, looking through the JSON itself costs half as much as packing it.
_LARGE: Final = 2048
_SAMPLE: Final = 512
_DENSE: Final = 38  # quotes in a sample
_NULL: Final = re.compile(rb"null")
_FRACTION: Final = re.compile(rb"\.0(?=[,}\]]|\Z)")  # in JSON, as the next ones
_AFTER_KEY: Final = re.compile(rb'[A-Za-z0-9_]":(?:0|-?[1-9][0-9]*)\Z')
_EXPONENT: Final = re.compile(rb"[0-9]e\+?[0-9]")
_E: Final = b"e+" if dumps(1e16) == b"1e+16" else b"e"  # releases of orjson differ
_SIGN: Final = _E[-1]
_MINUS: Final = ord("-")

_PLAIN: Final = frozenset((str, int, bool, type(None)))


def canonical(value: object, ignore_nonces: bool = False) -> bytes:
    """The canonical bytes of a value; with ``ignore_nonces``, equal for values that differ in wrapper ids only."""
    try:
        out = dumps(value, None, CANONICAL)
        dense = len(out) > _LARGE and out.count(b'"', 0, _SAMPLE) >= _DENSE and _SIGN not in out
        cut = _cut_certain(value, out) if dense else None
        if cut is not None:
            out = cut
        elif FLOAT in (packed := pack(value)):
            out = without_fractions(value, out, packed)
    except Exception:  # orjson refuses what is not JSON with TypeError; objects in it may raise anything
        return exact(value, ignore_nonces)
    if ignore_nonces and may_wrap_bytes(out):
        return exact(value, True)
    return out


def outcome_digest(value: object, seed: int) -> int:
    """The digest of a value in which wrapper ids do not count: of results."""
    return xxh3_128_intdigest(canonical(value, True), seed)


def text_bytes(text: str) -> bytes:
    """A text as bytes, wrapper ids left out."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode("utf-8", "surrogatepass")
    return without_ids(text, data) if OPEN_BRACKET in data else data  # found soonest in what was just written


def without_ids(text: str, data: bytes) -> bytes:
    """The bytes of a text without the ids of its wrappers. These are marked by a byte that UTF-8 does not have."""
    outer = without_outer_ids(data, NONCE)
    if outer is not None:
        return outer
    if may_wrap(text) and (pieces := split_at_ids(text)) is not None:
        return NONCE.join(piece.encode("utf-8", "surrogatepass") for piece in pieces)
    return data


def text_digest(text: str, seed: int) -> int:
    """The digest of a text as it is, not as JSON; wrapper ids do not count."""
    return xxh3_128_intdigest(text_bytes(text), seed)


def parts_digest(value: object, text: str, seed: int) -> int:
    """The digest of a JSON list or object and a text beside it, which is not escaped: that is what costs most."""
    return beside_digest(canonical(value, True), text, seed)


def beside_digest(out: bytes, text: str, seed: int) -> int:
    """As :func:`parts_digest`, of canonical bytes."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode("utf-8", "surrogatepass")
    return xxh3_128_intdigest(out + (without_ids(text, data) if OPEN_BRACKET in data else data), seed)


def without_fractions(value: object, out: bytes, packed: bytes) -> bytes:
    """The JSON of a value with floats in it, the whole ones as integers. Raises where one is no number at all."""
    odd = _ODD.findall(packed)
    if not odd:
        return out
    if len(odd) <= _MOST_ODD:
        floats = [_double(each)[0] for each in odd]  # and perhaps bytes of strings that look like one
        if not all(map(math.isfinite, floats)):
            raise ValueError("NaN or infinite")
        if not any(map(float.is_integer, floats)):
            return out
    elif any(each[0] & 0x7F == 0x7F and each[1] >= 0xF0 for each in odd):
        raise ValueError("NaN or infinite")
    if _SIGN in out and out.find(_E) >= 0 and _EXPONENT.search(out):  # one byte is found ten times as fast as two
        return dumps(_whole(value), None, CANONICAL)
    if not _FRACTION.search(out):
        return out
    if _FRACTION.search(packed):  # in a string; cutting it out of the JSON could cut the string
        return dumps(_whole(value), None, CANONICAL)
    out = _FRACTION.sub(b"", out)
    return out if _MINUS not in out or out.find(b"-0") < 0 else dumps(_whole(value), None, CANONICAL)


def _cut_certain(value: object, out: bytes) -> bytes | None:
    """The JSON of a value, the whole floats as integers, without a look at its MessagePack; None where that is unsure.

    Sure are: nulls, where there are just as many as the value itself has Nones in it, so that none is a NaN; a whole
    float right after a key that ends with a letter or a digit, for such a quote ends a string wherever it stands.
    ``out`` has no exponents.
    """
    if len(_E) == 1:  # exponents without a sign
        return None
    nulls = len(_NULL.findall(out))
    if nulls and not (type(value) is dict and nulls == sum(item is None for item in value.values())):
        return None
    pieces: list[bytes] = []
    at = 0
    for fraction in _FRACTION.finditer(out):
        start = fraction.start()
        if len(pieces) > _MOST_ODD or not _AFTER_KEY.search(out, max(at, start - 24), start):
            return None
        pieces.append(out[at:start])
        at = fraction.end()
    return b"".join((*pieces, out[at:])) if pieces else out


def _whole(value: object) -> object:
    """A copy in which whole floats are integers; raises for what JSON has no number for, and for subclasses."""
    cls = type(value)
    if cls in _PLAIN:
        return value
    if cls is float:
        if value.is_integer():  # type: ignore[attr-defined]  # a float; also below
            return int(value)  # type: ignore[call-overload]  # as above
        if math.isfinite(value):  # type: ignore[arg-type]  # as above
            return value
    elif cls is dict:
        return {k: v if type(v) in _PLAIN else _whole(v) for k, v in value.items()}  # type: ignore[attr-defined]  # a dict
    elif cls is list or cls is tuple:
        return [v if type(v) in _PLAIN else _whole(v) for v in value]  # type: ignore[attr-defined]  # a list
    raise TypeError(cls)
