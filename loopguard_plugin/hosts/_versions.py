"""Which releases of a host are accepted: by what they do, not by their number.

A release inside the tried range is taken as it is, one of a later major version is refused. Any other is looked at when
the first adapter is made: a trial run drives an unknown tool and a failing one through the host, with a model that
answers from a list, and one warning line says what the guard will not see. A release in which it would see nothing is
refused. Whatever the advice in an error, it never changes the user's host.
"""

from __future__ import annotations

import importlib.metadata
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from .. import logs
from ..answers import Answer
from ..composition import plain_answer
from ..core.guard import Guard
from ..errors import TurnEndingError
from ..events import Event, Status, ToolCallSettled, ToolCallStarted, UserMessageCommitted
from ..middleware import LoopGuard
from ..settings import Settings

__all__ = ["FAILING", "UNKNOWN", "Host", "Trial", "UnsupportedHostError", "require", "trial_run"]

UNKNOWN: Final = "loopguard_trial_unknown"
FAILING: Final = "loopguard_trial_failing"
TRIAL_SECONDS: Final = 30.0


class UnsupportedHostError(ImportError):
    """The installed release of the host is one in which loopguard cannot work."""


class Host:
    """The installed release of a host. ``tried``: the range that the adapter was tested with, as ``>=1.60,<1.63``."""

    def __init__(self, package: str, version: str, tried: str) -> None:
        self.package = package
        self.version = version
        self.tried = tried
        self.refused: UnsupportedHostError | None = None
        self._looked_at = within(version, tried)

    @contextmanager
    def names(self) -> Iterator[None]:
        """Around imports: a name that this release does not have is an :class:`UnsupportedHostError`."""
        try:
            yield
        except (ImportError, AttributeError) as error:
            raise self.refusal(str(error)) from error

    def refusal(self, why: str) -> UnsupportedHostError:
        """An error to raise, that says what to do about it."""
        return UnsupportedHostError(
            f"loopguard cannot work with {self.package} {self.version}: {why} (tried: {self.tried}). {_ADVICE}",
            name=self.package,
        )

    def check(self, look: Callable[[], Sequence[str]]) -> None:
        """Once, for a release outside of the tried range: say in the log what the guard will not see there.

        ``look`` gives that, in words. Raises UnsupportedHostError, each time, if ``look`` does.
        """
        if self.refused is not None:
            raise self.refused
        if self._looked_at:
            return
        self._looked_at = True
        try:
            unseen = look()
            found = f"the guard will not see: {'; '.join(unseen)}" if unseen else "all that the guard needs is there"
        except UnsupportedHostError as refusal:
            self.refused = refusal
            raise
        except Exception as error:
            found = f"what the guard sees there could not be found out ({type(error).__name__}: {error})"
        logs.untried_host(self.package, self.version, self.tried, found)


_ADVICE: Final = (
    "Leave it as it is: a newer loopguard-plugin may know it (pip install --upgrade loopguard-plugin); "
    "until then it runs without loopguard"
)


def require(package: str, tried: str, below: str, extra: str, *, refuse_later: bool = False) -> Host:
    """The installed release of ``package``, which must be ``below`` a major version.

    Raises ImportError, naming the extra, where the package is absent, and :class:`UnsupportedHostError` for a later
    major version; with ``refuse_later`` the host's ``check`` raises that, for a module that is to be imported first.
    """
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(
            f'{package} is not installed; it comes with: pip install "loopguard-plugin[{extra}]"', name=package
        ) from None
    host = Host(package, version, tried)
    if not within(version, f"<{below}"):
        host.refused = host.refusal(f"it was made for versions below {below}")
        if not refuse_later:
            raise host.refused
    return host


def within(version: str, supported: str) -> bool:
    """Only ``>=`` and ``<`` are understood: the two that a range needs."""
    have = _release(version)
    for clause in supported.split(","):
        operator, bound = re.fullmatch(r"\s*(>=|<)\s*([\d.]+)\s*", clause).groups()  # type: ignore[union-attr]  # ours
        if (have < _release(bound)) == (operator == ">="):
            return False
    return True


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in found.group().split(".")] if found else [0]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


class Trial:
    """What a host is driven through: a response with an unknown tool, then the same failing call again and again.

    ``guard`` is for the adapter; it remembers what it is told, and logs nothing.
    """

    def __init__(self) -> None:
        self.guard = _Witness()
        self._replies: list[str] = [UNKNOWN, FAILING, FAILING, FAILING]
        self.asked_past_the_end = False

    def skip_unknown(self) -> None:
        """For a host that ends a run where a tool is not known."""
        self._replies.remove(UNKNOWN)

    def answer(self) -> str | None:
        """The tool that the model calls this time, without arguments; None: it has no more to ask for."""
        if self._replies:
            return self._replies.pop(0)
        self.asked_past_the_end = True
        return None

    def unseen(self) -> list[str]:
        """What the guard was not told, or could not do, in words."""
        seen = self.guard.seen
        settled = [event for event in seen if isinstance(event, ToolCallSettled)]
        found = {
            "user messages": any(isinstance(event, UserMessageCommitted) for event in seen),
            "unknown tools": any(one.tool == UNKNOWN and one.status is Status.UNKNOWN_TOOL for one in settled),
            "failures of tools": any(one.tool == FAILING and one.status is Status.ERROR for one in settled),
            "the end of a turn, which the host ignores": not self.asked_past_the_end,
        }
        return [what for what, was_seen in found.items() if not was_seen]

    @property
    def saw_nothing(self) -> bool:
        """Whether not even the calls of a response were told."""
        return not any(isinstance(event, ToolCallStarted) for event in self.guard.seen)


class _Witness(LoopGuard):
    """A guard with default settings that writes no log lines, for a trial run."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.seen: list[Event] = []
        self._core = Guard(self.settings)

    def feed(self, event: Event) -> Answer:  # type: ignore[override]  # without its overloads
        self.seen.append(event)
        step = self._core.feed(event, 0.0)
        if step.error is not None:
            raise step.error
        return step.answer or plain_answer(event)

    def ended(self, session_key: str, run_id: str | None = None) -> TurnEndingError | None:
        return self._core.ended(session_key, run_id)

    def end_run(self, session_key: str, run_id: str | None = None) -> None:
        self._core.end_run(session_key, run_id)


def trial_run(host: Host, drive: Callable[[Trial], None]) -> Sequence[str]:
    """What a trial run shows that the guard will not see in this host.

    ``drive`` plays the trial, in a thread of its own: an adapter may be made inside an event loop. It may end with an
    exception where the turn ends so in this host. Raises UnsupportedHostError if the guard was told nothing at all.
    """
    trial = Trial()
    raised: list[Exception] = []

    def play() -> None:
        try:
            drive(trial)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=play, name="loopguard-trial", daemon=True)
    thread.start()
    thread.join(TRIAL_SECONDS)
    if thread.is_alive():
        raise TimeoutError(f"the trial run took more than {TRIAL_SECONDS:g} s")
    if not trial.saw_nothing:
        return trial.unseen()
    if raised:
        raise raised[0]
    raise host.refusal("in a trial run the guard was told of no call at all")
