"""What a recorded session is like, for finding settings that are worth a try: read once, without a guard.

Only names, numbers and paths are kept; contents are compared by digest and forgotten.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from xxhash import xxh3_64_intdigest

from ..core.observe import Call, observe_call, observe_settlement
from ..events import Event, Status, ToolCallSettled, ToolCallStarted, UserMessageCommitted
from ..settings import Settings

_LARGEST: Final = 100_000  # characters of a result that are looked into
_DEEPEST: Final = 4  # keys of a path
_KEPT: Final = 256  # different calls whose last result is compared
_OPEN: Final = 1024  # calls that wait for their result
_PAIRS: Final = 3  # results compared with the one before, at least
_MOST_PATHS: Final = 4  # that may move: where more of a result does, that is what it is about

Parts: TypeAlias = dict[str, int]  # digests of the values of a result, by dotted path


class Hints(Struct, frozen=True):
    """One session. ``turn``, ``run``: the most calls of one turn and of one run. ``worked``: tools that worked.

    ``repeated``: how often the most frequent call of a tool was made, by tool. ``moving``: parts of a tool's results
    that mostly differed when a call was made again, by tool, where other parts stayed.
    """

    turn: int
    run: int
    worked: frozenset[str]
    repeated: dict[str, int]
    moving: dict[str, tuple[str, ...]]


class Looking:
    """Takes the events of one session in order."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turns: Counter[str | None] = Counter()  # calls since the last user message, by run
        self._runs: Counter[str | None] = Counter()
        self._turn = 0
        self._made: Counter[tuple[str, int]] = Counter()  # by tool and call
        self._worked: set[str] = set()
        self._open: OrderedDict[tuple[str | None, str | None, str], Call] = OrderedDict()
        self._last: OrderedDict[int, Parts] = OrderedDict()
        self._pairs: Counter[str] = Counter()
        self._moved: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._stayed: defaultdict[str, set[str]] = defaultdict(set)

    def take(self, event: Event) -> None:
        """The next event."""
        if isinstance(event, ToolCallStarted):
            self._started(event)
        elif isinstance(event, ToolCallSettled):
            self._settled(event)
        elif isinstance(event, UserMessageCommitted):
            self._turns.clear()

    def hints(self) -> Hints:
        """What was seen."""
        repeated: dict[str, int] = {}
        for (tool, _), times in self._made.items():
            repeated[tool] = max(times, repeated.get(tool, 0))
        return Hints(
            turn=self._turn,
            run=max(self._runs.values(), default=0),
            worked=frozenset(self._worked),
            repeated=repeated,
            moving={tool: paths for tool in self._pairs if (paths := self._paths(tool))},
        )

    def _started(self, event: ToolCallStarted) -> None:
        call = observe_call(event.tool, event.args, self._settings.resolve(event.agent_id))
        self._runs[event.run_id] += 1
        self._turns[event.run_id] += 1
        self._turn = max(self._turn, self._turns[event.run_id])
        self._made[call.tool, call.key] += 1
        self._open[event.run_id, event.batch_id, event.call_id] = call
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)

    def _settled(self, event: ToolCallSettled) -> None:
        call = self._open.pop((event.run_id, event.batch_id, event.call_id), None)
        if call is None:
            return
        if observe_settlement(event, call, want_outcome=False).status is Status.OK:
            self._worked.add(call.tool)
        parts = parts_of(event.result if event.error is None else event.error)
        if not parts:
            return
        before = self._last.pop(call.key, None)
        self._last[call.key] = parts
        if len(self._last) > _KEPT:
            self._last.popitem(last=False)
        if before is not None:
            moved = {path for path in {*before, *parts} if before.get(path) != parts.get(path)}
            self._pairs[call.tool] += 1
            self._moved[call.tool].update(moved)
            self._stayed[call.tool] |= parts.keys() - moved

    def _paths(self, tool: str) -> tuple[str, ...]:
        """What mostly moved when a call of this tool was made again."""
        pairs, moved = self._pairs[tool], self._moved[tool]
        often = tuple(sorted(path for path, times in moved.items() if times * 2 >= pairs))
        stayed = self._stayed[tool].difference(often)
        return often if pairs >= _PAIRS and len(often) <= _MOST_PATHS and stayed else ()


def parts_of(result: object) -> Parts:
    """The values of a result by the paths that ``ignoreResult`` takes, as digests; none of what is no object.

    Text that is JSON is read as such, alone or as ``content`` or a text block of it.
    """
    found: dict[str, list[bytes]] = {}
    _collect(result, (), found)
    return {path: xxh3_64_intdigest(b"\0".join(values)) for path, values in found.items()}


def _collect(value: object, path: tuple[str, ...], found: dict[str, list[bytes]]) -> None:
    if isinstance(value, str) and not path and value.lstrip()[:1] in ("{", "[") and len(value) <= _LARGEST:
        try:
            _collect(msgspec.json.decode(value), path, found)
        except (ValueError, RecursionError):
            return
    elif isinstance(value, dict) and len(path) < _DEEPEST:
        for key, item in value.items():
            if not path and key in ("content", "text"):
                _collect(item, path, found)
            elif isinstance(key, str) and key and "." not in key:
                _collect(item, (*path, key), found)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            _collect(item, path, found)
    elif path:
        try:
            encoded = msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError):
            return
        found.setdefault(".".join(path), []).append(encoded)
