"""Live settings: a guard follows its gateway's config file while it runs (SPEC 11.2; extra ``watch``).

::

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_config, guard, "gateway.json5")

What counts are the file's contents, read anew whenever something happens in its directory, and every ``poll`` seconds
besides: so editors that replace the file, files that vanish for a moment, and the symlinks of mounted Kubernetes
ConfigMaps are all alike. Contents are used once they have stayed the same for ``quiet`` seconds, and only whole: a text
that is still being written is no JSON5 until its last brace.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import anyio
from anyio.to_thread import run_sync

from . import logs
from .config_file import load_config_bytes, read_config
from .errors import Problem, SettingsError
from .settings import Settings

if TYPE_CHECKING:
    from .middleware import LoopGuard

# A file's contents, or why it cannot be read.
Contents: TypeAlias = bytes | tuple[Problem, ...]

# How much longer than others a broken text has to stay the same: someone may be writing slowly.
_PATIENCE = 4
_DEBOUNCE = 200  # milliseconds
# The link that Kubernetes turns when a mounted ConfigMap changes; the file's own entry stays as it is.
_CONFIG_MAP = "..data"


async def watch_config(
    guard: LoopGuard, path: str | os.PathLike[str], *, quiet: float = 0.25, poll: float = 2.0
) -> None:
    """Keep ``guard`` on the settings in a JSON5 file until cancelled; runs on asyncio and trio, in the guard's thread.

    Begins with the file as it is, in case it changed since the guard was built. A file that is broken or gone is logged
    as an error, with path, line and column, and the last good settings stay. Raises ImportError without watchfiles;
    nothing that happens to the file ends it.
    """
    import watchfiles  # noqa: F401  # a missing extra is told at once, not at the first change

    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_set_when_cancelled, stop)
        await _follow(guard, os.fspath(path), quiet, poll, stop)


async def _follow(guard: LoopGuard, file: str, quiet: float, poll: float, stop: anyio.Event) -> None:
    seen: Contents | None = None
    last: Settings | SettingsError | None = None
    async with aclosing(_wakes(file, poll, stop)) as wakes:
        async for _ in wakes:
            if await _contents(file) == seen:
                continue
            contents = await _settled(file, quiet)
            found = await run_sync(_settings, contents, file)
            if isinstance(found, SettingsError):
                contents = await _settled(file, quiet * _PATIENCE)
                found = await run_sync(_settings, contents, file)
            if contents != seen:
                _apply(guard, found, last, file)
                seen, last = contents, found


def _apply(guard: LoopGuard, found: Settings | SettingsError, last: Settings | SettingsError | None, file: str) -> None:
    """Other settings are put in force; each time the file changes, what it means now is told once."""
    if isinstance(found, SettingsError):
        logs.settings_refused(found)
    elif found != guard.settings:
        guard.use(found)
    elif last is not None:
        logs.settings_unchanged(file, good_again=isinstance(last, SettingsError))


async def _settled(file: str, quiet: float) -> Contents:
    """The contents once they have stayed the same for ``quiet`` seconds."""
    contents = await _contents(file)
    while True:
        await anyio.sleep(quiet)
        before, contents = contents, await _contents(file)
        if before == contents:
            return contents


async def _contents(file: str) -> Contents:
    """Nothing depends on a read that is given up: a gateway that shuts down does not wait for a disk that hangs."""
    return await run_sync(_read, file, abandon_on_cancel=True)


def _read(file: str) -> Contents:
    """What is not a plain file any more (a pipe, say) cannot be read, and is not waited for."""
    try:
        return read_config(file, wait=False)
    except SettingsError as error:
        return error.problems


def _settings(contents: Contents, file: str) -> Settings | SettingsError:
    """Done in a worker thread: a file with many agents takes its time. So the layers are laid here too."""
    if not isinstance(contents, bytes):
        return SettingsError(contents, file)
    try:
        settings = load_config_bytes(contents, file)
    except SettingsError as error:
        return error
    settings.resolve()
    return settings


async def _wakes(file: str, poll: float, stop: anyio.Event) -> AsyncGenerator[None, None]:
    """Yields at once, then whenever the file may have changed, and every ``poll`` seconds."""
    from watchfiles import awatch

    told = False
    while True:
        places = await run_sync(_places, file)
        names = {os.path.basename(file), os.path.basename(os.path.realpath(file)), _CONFIG_MAP}
        try:
            changes = awatch(
                *(place.path for place in places),
                watch_filter=partial(_is_one_of, names),
                debounce=_DEBOUNCE,
                stop_event=stop,
                rust_timeout=max(int(poll * 1000), 1),
                yield_on_timeout=True,
                recursive=False,
            )
            async with aclosing(changes):
                yield
                async for _ in changes:
                    yield
                    if await run_sync(_places, file) != places:  # made anew, or a link leads elsewhere now
                        break
        except Exception as error:  # the system has no notifications left, or none for this directory
            if not told:
                logs.not_notified(os.path.dirname(os.path.abspath(file)), error, poll)
            told = True
            await anyio.sleep(poll)


def _is_one_of(names: set[str], change: object, path: str) -> bool:
    """Whether watchfiles should speak of a change; a log file beside the config would answer itself for ever else."""
    return os.path.basename(path) in names


class _Place(NamedTuple):
    """A directory to be watched; made anew under the same name, it is another one."""

    path: str
    device: int
    number: int


def _places(file: str) -> frozenset[_Place]:
    """Where the file is and where it really is; the nearest directory above, as long as there is none."""
    found = set()
    for path in (os.path.abspath(file), os.path.realpath(file)):
        directory = os.path.dirname(path)
        while not os.path.isdir(directory) and directory != os.path.dirname(directory):
            directory = os.path.dirname(directory)
        with suppress(OSError):
            stat = os.stat(directory)
            found.add(_Place(directory, stat.st_dev, stat.st_ino))
    return frozenset(found)


async def _set_when_cancelled(stop: anyio.Event) -> None:
    """watchfiles waits in a thread, which cancellation alone does not reach before its time is up."""
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()
