"""Ids and names as they are kept: those that are longer than any in earnest by a prefix and a digest (SPEC 13)."""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_128_hexdigest

LONGEST: Final = 512  # characters that are kept as they are
_PREFIX: Final = 128  # characters of a longer name that are kept


def trimmed(name: str) -> str:
    """An id as it is compared and kept. Longer ones still tell apart, and no sender decides how much is kept."""
    name = name.strip()
    return name if len(name) <= LONGEST else bounded(name)


def bounded(name: str) -> str:
    """A name as it is kept."""
    if len(name) <= LONGEST:
        return name
    return f"{name[:_PREFIX]}…{xxh3_128_hexdigest(name.encode('utf-8', 'surrogatepass'))}"


def trimmed_or_none(name: str | None) -> str | None:
    """An id that may be absent; blank is as good as absent."""
    if name is None:
        return None
    name = name.strip()
    return (name if len(name) <= LONGEST else bounded(name)) or None
