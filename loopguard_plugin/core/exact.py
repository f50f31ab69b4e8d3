"""Canonical bytes the slow way: value by value, for the few that JSON serialisers would get wrong or refuse.

Where a value is JSON, the bytes equal those of :func:`.fingerprint.canonical`'s fast way. Everything else begins with
the byte ``FE``, which UTF-8 does not have: type name and contents or fields, never an address. Fields of objects and
members of sets are written as digests, so that their order and their depth do not matter.

Nothing is nested by recursion: a list 100,000 deep is no problem. A value inside itself is written as how many levels
up it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any
from uuid import UUID

from xxhash import xxh3_128_digest

from .nonces import may_wrap, split_at_ids
from .objects import content_of, fields_of, read, type_name
from .scalars import ODD, json_text, number, real
from .troubles import note

_MOST_OBJECTS = 10_000  # objects with fields in one value; a framework's object can lead to half the process


def exact(value: object, ignore_nonces: bool) -> bytes:
    """Canonical bytes of any value; never raises. See :mod:`.fingerprint`."""
    try:
        return _Writer(ignore_nonces).write(value)
    except Exception as error:
        note(error)
        return ODD + type_name(type(value))


class _Writer:
    """Writes one value. A container is a generator that writes itself and yields what has to be written inside it."""

    __slots__ = ("ignore_nonces", "keys", "known", "objects", "out", "path")

    def __init__(self, ignore_nonces: bool) -> None:
        self.ignore_nonces = ignore_nonces
        self.out: list[bytes] = []
        self.path: dict[int, int] = {}  # the containers that are being written: id, depth
        self.keys: dict[str, tuple[str, bytes]] = {}
        self.objects = 0
        self.known: dict[int, tuple[object, bytes]] = {}  # objects already written; kept alive, for ids are reused

    def write(self, value: object) -> bytes:
        top = self._enter(value)
        open_values = [(value, top)] if top else []
        while open_values:
            owner, writing = open_values[-1]
            inner = next(writing, self)  # the writer itself stands for "nothing more"
            if inner is self:
                open_values.pop()
                self.path.pop(id(owner), None)
            elif (further := self._enter(inner)) is not None:
                open_values.append((inner, further))
        return b"".join(self.out)

    def _enter(self, value: object) -> Iterator[object] | None:
        """Write a plain value at once; for a container give what writes it."""
        cls = type(value)
        write = _EXACT.get(cls)
        if write is None:
            write = next((function for base, function in _FAMILIES if issubclass(cls, base)), _Writer._object)
        depth = self.path.get(id(value))
        if depth is not None:
            self.out.append(ODD + b"^%d" % (len(self.path) - depth))
            return None
        writing = write(self, value)
        if writing is not None:
            self.path[id(value)] = len(self.path)
        return writing

    # One function a family of types. Methods of the base types are called unbound: subclasses may override them.

    def _null(self, value: None) -> None:
        self.out.append(b"null")

    def _bool(self, value: bool) -> None:
        self.out.append(b"true" if value else b"false")

    def _int(self, value: int) -> None:
        self.out.append(number(int.__add__(value, 0)))

    def _float(self, value: float) -> None:
        self.out.append(real(float.__add__(value, 0.0)))

    def _str(self, value: str) -> None:
        self.out.append(json_text(str.__str__(value), self.ignore_nonces))

    def _uuid(self, value: UUID) -> None:
        self.out.append(b'"%s"' % str(value).encode())

    def _enum(self, value: Enum) -> Iterator[object]:
        yield read(value, "value")

    def _list(self, value: list[object]) -> Iterator[object]:
        return self._items(list.__iter__(value))

    def _tuple(self, value: tuple[object, ...]) -> Iterator[object]:
        return self._items(tuple.__iter__(value))

    def _items(self, items: Iterator[object]) -> Iterator[object]:
        before = b"["
        for item in items:
            self.out.append(before)
            before = b","
            if (plain := _PLAIN.get(type(item))) is not None:
                plain(self, item)
            else:
                yield item
        self.out.append(b"[]" if before == b"[" else b"]")

    def _dict(self, value: dict[object, object]) -> Iterator[object]:
        pairs = {}
        for key, item in list(dict.items(value)):
            if not issubclass(type(key), str):
                return self._odd_dict(value)
            order, written = self._key(str.__str__(key))
            pairs[written] = (order, item)
        if len(pairs) < len(value):  # keys that differ only in what does not count
            return self._odd_dict(value)
        return self._pairs(sorted(pairs.items(), key=_order))

    def _key(self, key: str) -> tuple[str, bytes]:
        """By what a key is sorted, and how it is written. Rows have the same keys again and again."""
        known = self.keys.get(key)
        if known is None:
            order = key
            if self.ignore_nonces and may_wrap(key) and (pieces := split_at_ids(key)) is not None:
                order = "\udfff".join(pieces)
            known = self.keys[key] = (order, json_text(key, self.ignore_nonces))
        return known

    def _pairs(self, pairs: list[tuple[bytes, tuple[str, object]]]) -> Iterator[object]:
        before = b"{"
        for key, (_, item) in pairs:
            self.out += (before, key, b":")
            before = b","
            if (plain := _PLAIN.get(type(item))) is not None:
                plain(self, item)
            else:
                yield item
        self.out.append(b"{}" if before == b"{" else b"}")

    def _odd_dict(self, value: dict[object, object]) -> Iterator[object]:
        return self._unordered(b"dict", iter(list(dict.items(value))))

    def _set(self, value: set[object] | frozenset[object]) -> Iterator[object]:
        return self._unordered(type_name(type(value)), iter(list(value)))

    def _unordered(self, name: bytes, members: Iterator[object]) -> Iterator[object]:
        """Members in the order of their digests."""
        outer = self.out
        digests = []
        for member in members:
            self.out = []
            yield member
            digests.append(xxh3_128_digest(b"".join(self.out)))
        self.out = outer
        self.out += (ODD, name, b"{", *sorted(digests), b"}")

    def _object(self, value: object) -> Iterator[object] | None:
        """Anything else: contents where a type is known to have them, else fields, else the type name alone."""
        name = type_name(type(value))
        known = self.known.get(id(value))
        content = known[1] if known else content_of(value)
        if content is not None:
            self.out += (ODD, name, b"=%d:" % len(content), content)
            return None
        self.objects += 1
        fields = fields_of(value) if self.objects <= _MOST_OBJECTS else None
        if not fields:
            self.out += (ODD, name)
            return None
        return self._fields(value, name, fields)

    def _fields(self, value: object, name: bytes, fields: dict[str, object]) -> Iterator[object]:
        outer = self.out
        self.out = []
        yield fields
        digest = xxh3_128_digest(b"".join(self.out))
        self.known[id(value)] = (value, digest)
        self.out = outer
        self.out += (ODD, name, b"=%d:" % len(digest), digest)


def _order(pair: tuple[bytes, tuple[str, object]]) -> str:
    return pair[1][0]


# Any: each function gets values of its own type only.
_Write = Callable[[_Writer, Any], "Iterator[object] | None"]

_EXACT: dict[type, _Write] = {
    type(None): _Writer._null,
    bool: _Writer._bool,
    int: _Writer._int,
    float: _Writer._float,
    str: _Writer._str,
    list: _Writer._list,
    tuple: _Writer._tuple,
    dict: _Writer._dict,
    set: _Writer._set,
    frozenset: _Writer._set,
    UUID: _Writer._uuid,
}

# Those that are written at once: passing them through the stack would double their cost.
_PLAIN: dict[type, _Write] = {cls: _EXACT[cls] for cls in (type(None), bool, int, float, str)}

# Enums first, as JSON serialisers have it: an enum of strings is the value of its member.
_FAMILIES: tuple[tuple[type, _Write], ...] = (
    (Enum, _Writer._enum),
    *((base, _EXACT[base]) for base in (str, int, float, list, tuple, dict, set, frozenset)),
)
