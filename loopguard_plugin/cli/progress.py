"""Progress on a terminal: how far into a long file the replay is."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from ..report.text import plain
from ..transcripts import Items, Source

_EVERY_ITEMS = 512
_FIRST_AFTER = 0.5  # seconds; a short file shows nothing
_EVERY = 0.2


class Progress:
    """One line on stderr that is written over, only where stderr is a terminal, and wiped at the end."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._on = sys.stderr.isatty()
        self._began = time.monotonic()
        self._next = self._began + _FIRST_AFTER
        self._shown = False

    def watch(self, items: Items) -> Items:
        """The items, with the line kept up to date as they pass."""
        if not self._on:
            yield from items
            return
        for count, item in enumerate(items, 1):
            yield item
            if count % _EVERY_ITEMS == 0 and time.monotonic() >= self._next:
                self._show(count)

    def _show(self, count: int) -> None:
        now = time.monotonic()
        self._next = now + _EVERY
        self._shown = True
        done, size = self._source.position, self._source.size
        left = ""
        if size and done:
            seconds = (now - self._began) * max(size - done, 0) / done
            left = f" {done / size:.0%}, {done / 1e6:,.0f} of {size / 1e6:,.0f} MB, {seconds:,.0f} s left"
        print(f"\r\x1b[K{plain(self._source.name)}: {count:,} events{left}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
