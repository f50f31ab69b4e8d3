"""Progress on a terminal: how far into the input a replay is, how fast it goes, and how long it will take."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from ..report.text import plain
from ..transcripts import Items, Source

_EVERY_ITEMS = 512
_FIRST_AFTER = 0.5  # seconds; short input shows nothing
_EVERY = 0.2


class Display(Protocol):
    """Shows bytes done, of how many (0: unknown), at how many a second, and a few words; then wipes itself off."""

    def show(self, done: int, total: int, rate: float, what: str) -> None: ...

    def wipe(self) -> None: ...


class Progress:
    """Follows all files of a replay; shown on stderr, only where that is a terminal, and wiped off at the end.

    ``total``: bytes of all files as they lie on disk, 0 where nobody can know.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._before = 0  # bytes of the files that are done
        self._on = sys.stderr.isatty()
        self._display: Display | None = None
        self._began = time.monotonic()
        self._next = self._began + _FIRST_AFTER

    def watch(self, source: Source, items: Items) -> Items:
        """The items of one file, with the display kept up to date as they pass."""
        if not self._on:
            yield from items
            return
        for count, item in enumerate(items, 1):
            yield item
            if count % _EVERY_ITEMS == 0 and time.monotonic() >= self._next:
                self._show(self._before + source.position, plain(source.name))
        self._before += source.size or 0

    def add(self, size: int, what: str) -> None:
        """So many bytes are done, all at once."""
        self._before += size
        if self._on and time.monotonic() >= self._next:
            self._show(self._before, what)

    def _show(self, done: int, what: str) -> None:
        now = time.monotonic()
        self._next = now + _EVERY
        if self._display is None:
            self._display = _display()
        rate = done / (now - self._began) if now > self._began else 0.0
        self._display.show(done, self._total, rate, what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._display is not None:
            self._display.wipe()


class Line:
    """One line that is written over."""

    def show(self, done: int, total: int, rate: float, what: str) -> None:
        """Write it over."""
        part = f"{done / total:.0%} of {total / 1e6:,.0f} MB" if total else f"{done / 1e6:,.1f} MB"
        print(f"\r\x1b[K{part}, {_speed(done, total, rate)}  {what}", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """Leave nothing behind."""
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Bar:
    """A bar through rich (extra ``cli``)."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[speed]}", markup=False),
            TextColumn("{task.description}", markup=False),
            console=Console(file=sys.stderr),
            transient=True,
            auto_refresh=False,
        )
        self._task = self._bar.add_task("", total=None, speed="")
        self._bar.start()

    def show(self, done: int, total: int, rate: float, what: str) -> None:
        """Move the bar."""
        speed = _speed(done, total, rate)
        self._bar.update(self._task, completed=done, total=total or None, description=what, speed=speed, refresh=True)

    def wipe(self) -> None:
        """Leave nothing behind."""
        self._bar.stop()


def _speed(done: int, total: int, rate: float) -> str:
    """How fast it goes, and how long it will take where that can be told."""
    left = max(total - done, 0) / rate if rate else 0.0
    until = f", {left:,.0f} s left" if total and rate else ""
    return f"{rate / 1e6:,.1f} MB/s{until}"


def _display() -> Display:
    try:
        return Bar()
    except ImportError:
        return Line()
