"""Runs of the OpenAI Agents SDK between its hooks and guardrails, and its items read as calls and results."""

from __future__ import annotations

import functools
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agents import RunContextWrapper
from agents.tool import default_tool_error_function
from agents.usage import Usage

from ..errors import TurnEndingError
from ..events import Status
from ._shared import Started, arguments

if TYPE_CHECKING:
    from .openai_agents import Adapter


class Call(NamedTuple):
    call_id: str
    tool: str
    args: object


class Failed(NamedTuple):
    """What became of a call that failed; ``error`` is the exception's text where one is known."""

    status: Status
    error: str | None = None


class Run:
    """One run between hooks. ``waiting``: places of calls of the batch that have not settled."""

    __slots__ = ("adapter", "batch_id", "calls", "ended", "failures", "handed_off", "session", "started", "waiting")

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.session = uuid.uuid4().hex
        self.handed_off = False
        self.batch_id = ""
        self.calls: Sequence[Call] = ()
        self.started = Started(())
        self.waiting: set[int] = set()
        self.failures: dict[str, Failed] = {}
        self.ended: TurnEndingError | None = None

    def place(self, call_id: object) -> int | None:
        """The first open call of that id, in model call order."""
        return next((place for place in sorted(self.waiting) if self.calls[place].call_id == call_id), None)


class Runs:
    """Runs by what all hooks and guardrails of one run, and of no other, have in common.

    That is their ``Usage`` and their table of approvals: an agent that is a tool of another shares the caller's usage,
    but has a table of its own. A run that waited for a person's approval goes on with copies of both. It is known again
    by the calls that waited.
    """

    MOST_WAITING: Final = 10_000  # calls; those that nobody ever approves are forgotten in time

    def __init__(self) -> None:
        self._runs: dict[int, tuple[weakref.ref[Usage], dict[int, tuple[object, Run]]]] = {}
        self._waiting: OrderedDict[str, Run] = OrderedDict()

    def find(self, context: RunContextWrapper[Any], call_ids: Iterable[object] = ()) -> Run | None:
        """The run of this context, or else one in which one of these calls waits."""
        known = self._runs.get(id(context.usage))
        if known is not None and known[0]() is context.usage and (own := known[1].get(id(_own(context)))) is not None:
            return own[1]
        run = next((self._waiting[one] for one in call_ids if isinstance(one, str) and one in self._waiting), None)
        return self._bind(context, run) if run is not None else None

    def begin(self, context: RunContextWrapper[Any], adapter: Adapter) -> Run:
        return self._bind(context, Run(adapter))

    def open_batch(self, run: Run, calls: Sequence[Call], started: Started, batch_id: str) -> None:
        """The calls of a response are about to run, or to wait for approval; those of the one before are over."""
        for place in run.waiting:
            self.settled(run.calls[place].call_id)
        run.batch_id, run.calls, run.started = batch_id, calls, started
        run.waiting = set(range(len(calls)))
        run.failures.clear()
        for call in calls:
            self._waiting[call.call_id] = run
        while len(self._waiting) > self.MOST_WAITING:
            self._waiting.popitem(last=False)

    def settled(self, call_id: str) -> None:
        self._waiting.pop(call_id, None)

    def _bind(self, context: RunContextWrapper[Any], run: Run) -> Run:
        key = id(context.usage)
        known = self._runs.get(key)
        if known is None or known[0]() is not context.usage:
            known = self._runs[key] = weakref.ref(context.usage, functools.partial(self._forget, key)), {}
        own = _own(context)
        known[1][id(own)] = own, run  # kept beside the run, so that no other table gets its address
        return run

    def _forget(self, key: int, gone: weakref.ref[Usage]) -> None:
        if key in self._runs and self._runs[key][0] is gone:
            del self._runs[key]


def _own(context: RunContextWrapper[Any]) -> object:
    return getattr(context, "_approvals", None)


RUNS: Final = Runs()


def failure(tool: str, output: object) -> Status | None:
    """A failure known by the SDK's own words."""
    if not isinstance(output, str):
        return None
    if output == f"Tool '{tool}' not found.":
        return Status.UNKNOWN_TOOL
    if output == default_tool_error_function(_NOBODY, Exception()) or output.startswith(
        f"Tool '{tool}' timed out after"
    ):
        return Status.ERROR
    return None


_NOBODY: Final[RunContextWrapper[Any]] = RunContextWrapper(context=None)


def textual(output: object) -> bool:
    """Whether the SDK sends this as text; it has kinds of its own for images and files."""
    return isinstance(output, (str, int, float)) or (isinstance(output, dict) and "type" not in output)


def field(item: object, name: str) -> object:
    """A field of an item that is a mapping in the input and an object in the output."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def is_output(item: object) -> bool:
    return str(field(item, "type")).endswith("_output")


def calls_of(output: Sequence[object]) -> Iterator[Call]:
    """The calls of a response that the SDK will run, in model call order, whatever their kind."""
    for item in output:
        kind, call_id = str(field(item, "type")), field(item, "call_id")
        if kind.endswith("_call") and isinstance(call_id, str):
            args = next((value for name in _ARGUMENTS if (value := field(item, name)) is not None), None)
            yield Call(call_id, str(field(item, "name") or kind.removesuffix("_call")), arguments(args))


_ARGUMENTS: Final = ("arguments", "input", "action", "actions", "operation")
