"""Releases of a host that are not installed: the real one under another number, whole or with something taken away.

An adapter's module is loaded a second time, under a name of its own, so that what the tests have imported stays.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from loguru import logger

from loopguard_plugin.hosts._versions import UnsupportedHostError


def under(host: ModuleType, package: str, version: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """The adapter's module as it is loaded beside that release."""
    real = importlib.metadata.version
    patch.setattr(importlib.metadata, "version", lambda name: version if name == package else real(name))
    assert host.__file__ is not None
    name = f"{host.__name__}_under_{version.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, host.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@contextmanager
def told() -> Iterator[list[str]]:
    """The lines about releases that were not tried."""
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(str(message.record["message"])), level="WARNING")
    try:
        yield lines
    finally:
        logger.remove(sink)
        lines[:] = [line for line in lines if "has not been tried with" in line]


class Releases:
    """What must hold in every host for releases that nobody tried. Subclass with the facts of the host."""

    host: ModuleType
    package: str
    older: str  # of the same major version
    newer: str
    later_major: str
    lacking: str  # what :meth:`take_away` makes the guard blind to, as the log says it

    def make(self, module: ModuleType) -> object:
        """The first adapter."""
        return module.Adapter()

    def take_away(self, patch: pytest.MonkeyPatch) -> None:
        """Make the installed release one that lacks something the guard can do without."""
        raise NotImplementedError

    def ruin(self, patch: pytest.MonkeyPatch) -> None:
        """Make the installed release one in which nothing can be guarded."""
        raise NotImplementedError

    @pytest.mark.parametrize("which", ["older", "newer"])
    def test_a_release_that_was_not_tried_is_looked_at(self, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is taken, with one line that says which it is and that nothing is missing; the next adapter is silent."""
        module = under(self.host, self.package, getattr(self, which), monkeypatch)
        with told() as lines:
            self.make(module)
            self.make(module)
        (line,) = lines
        assert f"{self.package} {getattr(self, which)} (tried: >=" in line
        assert line.endswith(self.expected(which))

    def expected(self, which: str) -> str:
        return "all that the guard needs is there"

    def test_what_a_release_lacks_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the guard will see less, the line says exactly what."""
        self.take_away(monkeypatch)
        module = under(self.host, self.package, self.newer, monkeypatch)
        with told() as lines:
            self.make(module)
        (line,) = lines
        assert line.endswith(f"the guard will not see: {self.lacking}")

    def test_a_release_that_cannot_be_guarded_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each time, and with advice that leaves the user's host as it is."""
        self.ruin(monkeypatch)
        loaded: list[ModuleType] = []

        def attempt() -> None:
            loaded[:] = loaded or [under(self.host, self.package, self.newer, monkeypatch)]
            self.make(loaded[0])

        for _ in range(2):
            with pytest.raises(UnsupportedHostError) as refused:
                attempt()
            self.check(refused.value, self.newer)

    def test_a_later_major_version_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever it can do: nobody knows what else it changed."""

        def attempt() -> None:
            self.make(under(self.host, self.package, self.later_major, monkeypatch))

        with pytest.raises(UnsupportedHostError) as refused:
            attempt()
        self.check(refused.value, self.later_major)

    def check(self, error: UnsupportedHostError, version: str) -> None:
        assert f"cannot work with {self.package} {version}" in str(error)
        assert "Leave it as it is" in str(error)
        assert "loopguard-plugin[" not in str(error), "an extra would change the user's host"
        assert error.name == self.package

    def test_the_installed_release_was_tried(self) -> None:
        """These tests ran with it, so nothing is to be said of it."""
        with told() as lines:
            self.make(self.host)
        assert not lines


def no(*_: Any, **__: Any) -> None:
    """A hook that is never called."""


async def no_later(*_: Any, **__: Any) -> None:
    """An async hook that is never called."""

