"""RecordEvents: middleware that writes every event to a file, for ``loopguard replay``, ``tune`` and ``explain``.

The event is made into a line while it is published, before anybody else sees it; a thread writes the lines. So the disk
never holds the gateway up, on asyncio, trio or without a loop. Nothing raises into the gateway: an event that cannot be
written is dropped, counted, and told in the log once a minute.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from . import logs
from .events import EVENT_TYPES, Event
from .middleware import Seldom
from .recorded import Lines
from .recorded_files import RecordedFiles
from .settings import Settings

E = TypeVar("E")
A = TypeVar("A")

MOST_WAITING: Final = 32 << 20  # bytes of lines that wait for the disk; what comes beyond is dropped
_PATIENCE: Final = 5.0  # seconds
_IDLE: Final = 10.0  # seconds without an event, after which the file is closed until the next one


class RecordEvents:
    """Writes the four events to ``path``, one JSON line each, and passes everything on.

    Register it outside the guard (before it): ``bus.use(RecordEvents("events.jsonl"))``. A gateway without a bus calls
    :meth:`record`. Once the file has ``max_bytes`` it is renamed to ``events.000001.jsonl`` and so on, of which the
    newest ``keep`` stay; in a directory they replay in order. The files are readable by their owner alone.

    ``contents=False`` writes digests in place of arguments, results and errors; :mod:`.recorded` says what is kept and
    how far such a recording replays. ``settings`` are those under which the digests are taken (the guard's own).

    ``recorded`` and ``dropped`` count events. One recorder writes to one path: processes need a path each. Raises
    ValueError for ``max_bytes`` or ``keep`` below 1.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        contents: bool = True,
        settings: Settings | None = None,
        max_bytes: int = 64 << 20,
        keep: int = 8,
    ) -> None:
        if max_bytes < 1 or keep < 1:
            raise ValueError("max_bytes and keep must be at least 1")
        self.path = Path(path)
        self.recorded = 0
        self.dropped = 0
        self._lines = Lines(None if contents else settings or Settings())
        self._files = RecordedFiles(self.path, max_bytes, keep)
        self._seldom = Seldom()
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._writing = False
        self._closed = False
        self._thread: threading.Thread | None = None
        atexit.register(_at_exit, weakref.ref(self))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_in_child, weakref.ref(self)))

    async def __call__(self, event: E, call_next: Callable[[E], Awaitable[A]]) -> A:
        """Record one event, and let the next handlers have it. Anything that is no event of ours passes untouched."""
        if isinstance(event, EVENT_TYPES):
            self.record(event)  # type: ignore[arg-type]  # one of the four, as was just seen
        return await call_next(event)

    def record(self, event: Event) -> None:
        """Record one event, without waiting for the disk. Never raises; after :meth:`close` nothing is recorded."""
        try:
            with self._changed:
                if not self._closed:
                    self._add(event)
        except Exception as error:
            self._drop(error)

    def _add(self, event: Event) -> None:
        line = self._lines.line(event)
        if self._size + len(line) > MOST_WAITING:
            self._lines.forget(event)
            raise BufferError("the disk does not keep up with the events")
        self._waiting.append(line)
        self._size += len(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="loopguard-recorder", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def flush(self, timeout: float = _PATIENCE) -> bool:
        """Wait until everything that was recorded is in the file. False where it is not after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._writing, timeout)

    def close(self, timeout: float = _PATIENCE) -> bool:
        """Write what waits, and close the file. False where the disk did not take it within ``timeout`` seconds.

        Called at exit by itself. In an event loop: ``await anyio.to_thread.run_sync(recorder.close)``.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
            return not thread.is_alive()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _work(self) -> None:
        """What the thread does until the recorder is closed, or until there was nothing to write for a while."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed, _IDLE)
                lines, self._waiting = self._waiting, deque()
                self._writing = bool(lines)
                if not lines:
                    self._thread = None
                    with contextlib.suppress(OSError):
                        self._files.close()
                    return
            for line in lines:
                try:
                    self._files.write(line)
                    self.recorded += 1
                except Exception as error:
                    self._drop(error)
            with self._changed:
                self._writing = False
                self._size -= sum(map(len, lines))
                self._changed.notify_all()

    def _drop(self, error: Exception) -> None:
        with self._changed:
            self.dropped += 1
            unreported = self._seldom.passes(type(error).__name__, time.monotonic())
        if unreported is not None:
            with contextlib.suppress(Exception):  # nobody is left to be told
                logs.not_recorded(str(self.path), error, unreported)

    def _forked(self) -> None:
        """In a child process: the thread stayed behind, and so did what waits for it."""
        self._changed = threading.Condition()
        self._waiting, self._size, self._writing, self._thread = deque(), 0, False, None


def _at_exit(recorder: weakref.ref[RecordEvents]) -> None:
    if (alive := recorder()) is not None:
        alive.close()


def _in_child(recorder: weakref.ref[RecordEvents]) -> None:
    if (alive := recorder()) is not None:
        alive._forked()
