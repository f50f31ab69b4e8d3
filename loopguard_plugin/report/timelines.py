"""Every session of a replay as a timeline: one item a call, user message or compaction, in the order of the recording.

Made for a page that shows thousands of sessions, so an item is five numbers. Whether two calls are the same, and
whether a result is the one of last time, is what the guard's own observing half says of them (SPEC 3, 5). What that
needs is kept for the sessions that were seen last; contents are kept only where asked for, and shortened.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from ..core.observe import Call, Settlement, observe_call, observe_settlement
from ..events import Event, Status, ToolCallSettled, ToolCallStarted, UserMessageCommitted
from ..settings import ResolvedSettings, Settings
from ..turn_ends import TurnEnds
from .rows import Action, Row
from .tally import FIRED

Place: TypeAlias = tuple[int, int]  # the line of an event, and its number among the events of its file

WIDTH: Final = 5  # numbers an item: kind, tool, identity, line, event
LONGEST: Final = 2_000  # characters shown of arguments and of a result
MOST_CONTENT: Final = 40_000_000  # characters of contents in one page
_AWAKE: Final = 256  # sessions whose calls can still be compared
_SETTLED: Final = 64  # settled calls of a session by which a repeated settlement is recognised
_LAST_ERROR = re.compile(r" Last error: .* (?=Check the arguments of the call)", re.DOTALL)


class Kind(IntEnum):
    """What an item is; of a call, what came of it."""

    PENDING = 0  # no result in the recording
    NEW = 1  # worked, and the result is the first one or another one than last time
    SAME = 2  # worked, with the result of last time
    FAILED = 3
    FAILED_SAME = 4  # failed as it did last time
    NOT_RUN = 5  # skipped, aborted, or blocked in the recording itself
    USER = 6
    COMPACTION = 7


class Mark(Struct, frozen=True, array_like=True):
    """Something that fired at item ``at``. ``detector`` and ``text`` are places in the lists of :class:`Timelines`.

    ``line``, ``event``: of the event that it fired at, which of a note is the settlement. ``again``: an end of a turn
    that had ended before.
    """

    at: int
    level: int  # 0 note, 1 block, 2 end
    detector: int
    count: int
    text: int
    line: int
    event: int
    again: bool = False


class Content(Struct, array_like=True):
    """Arguments and result of the call at item ``at``, shortened."""

    at: int
    args: str
    result: str


class Timeline(Struct):
    """One session. ``items``: WIDTH numbers each; ``identities``: how many different calls.

    ``files``: from which item on the session stands in which file; most sessions stand in one.
    """

    key: str
    files: list[tuple[int, int]]
    items: array[int]
    marks: list[Mark]
    contents: list[Content]
    identities: int = 0


class _Open(Struct):
    batch_id: str | None
    index: int | None
    at: int
    call: Call
    content: Content | None


class _Awake:
    """What is needed while events of a session come: its calls, their last outcomes, what is open."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.identity: dict[int, int] = {}
        self.outcome: dict[int, int | None] = {}
        self.open: dict[tuple[str | None, str], list[_Open]] = {}
        self.settled: OrderedDict[tuple[str | None, str, str, int | None], None] = OrderedDict()


class Names:
    """Strings by number, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The number of a string, the next one if it is new."""
        return self.numbers.setdefault(name, len(self.numbers))


class Timelines:
    """All sessions of a replay, added up event by event."""

    def __init__(self, settings: Settings, agent_id: str | None = None, *, with_content: bool = False) -> None:
        self.sessions: dict[str, Timeline] = {}
        self.tools, self.detectors, self.texts, self.files = Names(), Names(), Names(), Names()
        self.with_content = with_content
        self.content_left = MOST_CONTENT
        self._settings = settings
        self._agent_id = agent_id
        self._awake: OrderedDict[str, _Awake] = OrderedDict()
        self._turn_ends = TurnEnds()
        self._file, self._first = "", 0  # the file that is being read, and the first of its events

    def add(self, row: Row, event: Event, file: str, line: int) -> None:
        """One answered event and its place. The events of a file come one after another."""
        if file != self._file:
            self._file, self._first = file, row.i
        place = (line, row.i - self._first)
        awake = self._wake(event.session_key.strip(), file)
        if isinstance(event, ToolCallStarted):
            at = self._started(awake, event, place)
        elif isinstance(event, ToolCallSettled):
            at = self._settled(awake, event, place)
        elif isinstance(event, UserMessageCommitted):
            at = _append(awake.timeline, Kind.USER, 0, 0, place)
        else:
            at = _append(awake.timeline, Kind.COMPACTION, 0, 0, place)
        self._turn_ends.further(event)
        if row.action in FIRED:
            again = row.action is Action.END_TURN and not self._turn_ends.ends(event)
            text = row.message or ""
            if not self.with_content:  # the one sentence of the guard's that quotes a result
                text = _LAST_ERROR.sub(" ", text)
            detector, number = self.detectors.number(row.detector or ""), self.texts.number(text)
            awake.timeline.marks.append(
                Mark(at, _LEVELS[row.action], detector, row.count, number, *place, again)
            )

    def _wake(self, key: str, file: str) -> _Awake:
        awake = self._awake.get(key)
        if awake is None:
            timeline = self.sessions.get(key)
            if timeline is None:
                timeline = self.sessions[key] = Timeline(key, [], array("I"), [], [])
            awake = self._awake[key] = _Awake(timeline)
            if len(self._awake) > _AWAKE:
                self._awake.popitem(last=False)
        else:
            self._awake.move_to_end(key)
        timeline, number = awake.timeline, self.files.number(file)
        if not timeline.files or timeline.files[-1][1] != number:
            timeline.files.append((len(timeline.items) // WIDTH, number))
        return awake

    def _limits(self, event: Event) -> ResolvedSettings:
        return self._settings.resolve(event.agent_id or self._agent_id)

    def _started(self, awake: _Awake, event: ToolCallStarted, place: Place) -> int:
        waiting = awake.open.setdefault(_name(event), [])
        for one in waiting:
            if event.batch_id is not None and (one.batch_id, one.index) == (event.batch_id, event.index):
                return one.at  # published twice
        call = observe_call(event.tool, event.args, self._limits(event))
        at = self._append_call(awake, call, Kind.PENDING, place)
        content = self._content(awake.timeline, at, event.args)
        waiting.append(_Open(event.batch_id, event.index, at, call, content))
        return at

    def _append_call(self, awake: _Awake, call: Call, kind: Kind, place: Place) -> int:
        identity = awake.identity.setdefault(call.key, len(awake.identity))
        awake.timeline.identities = len(awake.identity)
        return _append(awake.timeline, kind, self.tools.number(call.shown), identity, place)

    def _settled(self, awake: _Awake, event: ToolCallSettled, place: Place) -> int:
        name = _name(event)
        waiting = awake.open.get(name, [])
        found = next((one for one in waiting if _fits(one, event)), None)
        if found is None:
            if event.batch_id is not None and (*name, event.batch_id, event.index) in awake.settled:
                return len(awake.timeline.items) // WIDTH - 1
            call = observe_call(event.tool, event.args, self._limits(event))
            at = self._append_call(awake, call, Kind.PENDING, place)
            found = _Open(event.batch_id, event.index, at, call, self._content(awake.timeline, at, event.args))
        else:
            waiting.remove(found)
            if not waiting:
                del awake.open[name]
        if event.batch_id is not None:
            awake.settled[*name, event.batch_id, event.index] = None
            if len(awake.settled) > _SETTLED:
                awake.settled.popitem(last=False)
        if found.content is not None:
            found.content.result = self._shortened(event.result if event.error is None else event.error)
        settlement = observe_settlement(event, found.call, want_outcome=True)
        awake.timeline.items[found.at * WIDTH] = _kind(awake, found.call.key, settlement)
        return found.at

    def _content(self, timeline: Timeline, at: int, args: object) -> Content | None:
        if not self.with_content or self.content_left <= 0:
            return None
        content = Content(at, self._shortened(args), "")
        timeline.contents.append(content)
        return content

    def _shortened(self, value: object) -> str:
        text = value if isinstance(value, str) else shown(value)
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]}\n… and {len(text) - LONGEST:,} more characters"
        self.content_left -= len(text)
        return text


_LEVELS: Final = {action: level for level, action in enumerate(FIRED)}
_FAILED: Final = (Status.ERROR, Status.UNKNOWN_TOOL, Status.REJECTED, Status.DENIED)


def _append(timeline: Timeline, kind: Kind, tool: int, identity: int, place: Place) -> int:
    timeline.items.extend((kind, tool, identity, *place))
    return len(timeline.items) // WIDTH - 1


def _name(event: ToolCallStarted | ToolCallSettled) -> tuple[str | None, str]:
    return (event.run_id or "").strip() or None, event.call_id


def _fits(one: _Open, event: ToolCallSettled) -> bool:
    batch = event.batch_id is None or one.batch_id is None or one.batch_id == event.batch_id
    return batch and (event.index is None or one.index is None or one.index == event.index)


def _kind(awake: _Awake, key: int, settlement: Settlement) -> Kind:
    """What came of a call, compared with the last time that the same call had an outcome."""
    failed = settlement.status in _FAILED
    if not failed and settlement.status is not Status.OK:
        return Kind.NOT_RUN
    same = key in awake.outcome and awake.outcome[key] == settlement.outcome
    awake.outcome[key] = settlement.outcome
    if failed:
        return Kind.FAILED_SAME if same else Kind.FAILED
    return Kind.SAME if same else Kind.NEW


def shown(value: object) -> str:
    """A value as people read it: text as it is, anything else as JSON."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
    except (TypeError, ValueError):
        return repr(value)
    except RecursionError:
        return f"({type(value).__name__}, nested too deeply to be shown)"


