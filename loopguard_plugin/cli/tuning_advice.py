"""Which settings fit a history: how each did, by session and by tool (pure; plays nothing).

A stuck session is *caught* where something was blocked or ended in it; a healthy one is *interrupted* by the same, and
*noted* by a note. What is best first interrupts and misses as few as possible, then notes few healthy sessions, then
stays close to the usual thresholds: a history is never all that will happen, so no margin is given away for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from glob import escape
from typing import Final, TypeAlias, cast

from msgspec import Struct

from ..answers import Detector
from .tuning_plays import BLOCKED, ENDED, NOTED, Played

Config: TypeAlias = dict[str, object]
Policies: TypeAlias = dict[str, dict[str, object]]  # by tool, as under config.tools
Session: TypeAlias = tuple[str, str]  # file and session key

# (warningThreshold, criticalThreshold), the nearest to the usual ones first.
GRID: Final = (
    (10, 20),
    (8, 15),
    (15, 20),
    (5, 20),
    (15, 30),
    (25, 30),
    (5, 10),
    (4, 8),
    (20, 40),
    (35, 40),
    (3, 6),
    (30, 60),
    (50, 60),
    (50, 100),
    (90, 100),
    (190, 200),
)
_ROOM: Final = 10  # between criticalThreshold and the breaker
_BREAKER: Final = 30
_GUARDS: Final = (Detector.REPEATED_TOOL_ERROR, Detector.COMPACTION_LOOP_PERSISTED)
_EXEMPTIBLE: Final = (
    Detector.GENERIC_REPEAT,
    Detector.KNOWN_POLL_NO_PROGRESS,
    Detector.PING_PONG,
    Detector.ARGUMENT_CHURN,
    Detector.STAGNATION,
    Detector.ERROR_CASCADE,
)


class Labels(Struct, frozen=True):
    """Which sessions are healthy, and which are stuck; all others say nothing."""

    fine: frozenset[Session]
    stuck: frozenset[Session]


class Score(Struct, frozen=True):
    """How a setting did: healthy sessions that it interrupted or noted, stuck ones that it caught or missed."""

    interrupted: int
    noted: int
    caught: int
    missed: int

    @property
    def rank(self) -> tuple[int, int, int]:
        """For sorting, the best the smallest."""
        return self.interrupted + self.missed, self.interrupted, self.noted


class Changed(Struct, frozen=True):
    """Sessions for which one setting does better than another, and those for which it does worse."""

    better: frozenset[Session]
    worse: frozenset[Session]


def thresholds(warning: int, critical: int) -> dict[str, int]:
    """What goes with a pair of thresholds: a breaker above it, and a history that reaches it."""
    breaker = max(_BREAKER, critical + _ROOM)
    return {
        "warningThreshold": warning,
        "criticalThreshold": critical,
        "globalCircuitBreakerThreshold": breaker,
        "historySize": breaker,
    }


def overlaid(
    base: Config,
    shared: Mapping[str, object],
    tools: Mapping[str, Mapping[str, object]],
    agent: str | None,
    own: Mapping[str, object] | None = None,
) -> Config:
    """A config file with these keys over it: for one agent where one is named, else for all.

    ``shared`` goes to ``tools.loopDetection``, ``own`` and ``tools`` to loopguard's own settings. Tools come before the
    patterns that are there, for the first match wins, and keep what those say about them. Their names are no patterns,
    whatever is in them.
    """
    config = deepcopy(base)
    where = ("agents", "entries", agent) if agent else ()
    detection = _at(config, *where, "tools", "loopDetection")
    detection.update({"enabled": True, **shared})
    if not tools and not own:
        return config
    ours = _at(config, "plugins", "entries", "loopguard", "config", *(("agents", agent) if agent else ()))
    for key, value in (own or {}).items():
        if isinstance(value, Mapping):
            _at(ours, key).update(value)
        else:
            ours[key] = value
    if tools:
        old = {name: given for name, given in cast(Config, ours.get("tools") or {}).items() if isinstance(given, dict)}
        new = {escape(tool): {**_matching(old, tool), **given} for tool, given in tools.items()}
        ours["tools"] = {**new, **{name: given for name, given in old.items() if name not in new}}
    return config


def _at(config: Config, *path: str) -> Config:
    """The object at a path, made where it is missing."""
    for name in path:
        inner = config.get(name)
        if not isinstance(inner, dict):
            inner = config[name] = {}
        config = inner
    return config


def _matching(tools: Mapping[str, object], tool: str) -> Config:
    found = next((given for name, given in tools.items() if fnmatchcase(tool, name.strip().casefold())), None)
    return dict(found) if isinstance(found, dict) else {}


def labelled(played: Iterable[Played], marks: Mapping[str, str], setting: int, *, certain: bool) -> Labels:
    """Labels by file: ``fine`` or ``stuck``. With ``certain`` unmarked sessions say nothing; without it, those that
    ``setting`` ended for looping are taken as stuck, and the others as fine.
    """
    fine: set[Session] = set()
    stuck: set[Session] = set()
    for one in played:
        mark = marks.get(one.file)
        if mark is None and not certain:
            loops = (f for f in one.fired if f.setting == setting and f.detector not in _GUARDS)
            mark = "stuck" if any(f.level == ENDED for f in loops) else "fine"
        if mark is not None:
            (stuck if mark == "stuck" else fine).add((one.file, one.session_key))
    return Labels(frozenset(fine), frozenset(stuck))


class Results:
    """What all settings did, by setting and tool."""

    def __init__(self, played: Sequence[Played], labels: Labels) -> None:
        self.labels = labels
        # (setting, tool) → session → level, the strongest; tool None: any.
        self._by: dict[tuple[int, str | None], dict[Session, int]] = defaultdict(dict)
        self._detectors: dict[tuple[int, str], dict[str, set[Session]]] = defaultdict(lambda: defaultdict(set))
        self._counts: dict[tuple[str, str], int] = defaultdict(int)
        self._first: dict[tuple[int, Session, bool], int] = {}
        self.tools: set[str] = set()
        for one in played:
            session = (one.file, one.session_key)
            for fired in one.fired:
                self.tools.add(fired.tool)
                self._detectors[fired.setting, fired.tool][fired.detector].add(session)
                if session in labels.fine:
                    key = (fired.tool, fired.detector)
                    self._counts[key] = max(self._counts[key], fired.count)
                for noted, call in ((True, fired.noted), (False, fired.stopped)):
                    if call:
                        place = (fired.setting, session, noted)
                        self._first[place] = min(call, self._first.get(place, call))
                for tool in (fired.tool, None):
                    found = self._by[fired.setting, tool]
                    found[session] = max(fired.level, found.get(session, 0))

    def score(self, setting: int, tool: str | None = None) -> Score:
        """How a setting did, over all tools or through one. A tool misses what it catches under another setting."""
        found = self._by.get((setting, tool), {})
        wanted = self.labels.stuck if tool is None else self._catchable(tool)
        caught = sum(found.get(one, 0) >= BLOCKED for one in wanted)
        fine = [level for one, level in found.items() if one in self.labels.fine]
        interrupted = sum(level >= BLOCKED for level in fine)
        return Score(interrupted, fine.count(NOTED), caught, len(wanted) - caught)

    def _catchable(self, tool: str) -> set[Session]:
        return {
            session
            for (_, name), found in self._by.items()
            if name == tool
            for session, level in found.items()
            if level >= BLOCKED and session in self.labels.stuck
        }

    def totals(self, setting: int) -> tuple[int, int, int]:
        """Sessions that a setting noted, blocked and ended, whatever their label."""
        levels = list(self._by.get((setting, None), {}).values())
        return levels.count(NOTED), levels.count(BLOCKED), levels.count(ENDED)

    def level(self, setting: int, session: Session) -> int:
        """How far a setting went in a session: 0, NOTED, BLOCKED or ENDED."""
        return self._by.get((setting, None), {}).get(session, 0)

    def first(self, setting: int, session: Session, level: int) -> int:
        """The first call of a session, from 1, at which a setting noted it (NOTED) or stopped it; 0: none."""
        return self._first.get((setting, session, level == NOTED), 0)

    def bothered(self, setting: int) -> set[Session]:
        """Healthy sessions that a setting noted or interrupted."""
        return {one for one, level in self._by.get((setting, None), {}).items() if level and one in self.labels.fine}

    def uncaught(self, setting: int) -> set[Session]:
        """Stuck sessions in which a setting blocked or ended nothing."""
        return {one for one in self.labels.stuck if self.level(setting, one) < BLOCKED}

    def changed(self, setting: int, before: int) -> Changed:
        """The sessions for which a setting does better and worse than another one."""
        better: set[Session] = set()
        worse: set[Session] = set()
        for one in self.labels.fine:
            old, new = self.level(before, one), self.level(setting, one)
            if min(old, BLOCKED) != min(new, BLOCKED):
                (better if new < old else worse).add(one)
        for one in self.labels.stuck:
            caught, new_caught = self.level(before, one) >= BLOCKED, self.level(setting, one) >= BLOCKED
            if caught is not new_caught:
                (better if new_caught else worse).add(one)
        return Changed(frozenset(better), frozenset(worse))

    def fires_on_fine(self, setting: int, detector: Detector) -> bool:
        """Whether a detector speaks in a healthy session."""
        return any(
            sessions & self.labels.fine
            for (place, _), found in self._detectors.items()
            if place == setting and (sessions := found.get(detector))
        )

    def only_fine(self, setting: int, tool: str) -> list[str]:
        """Rolling detectors that speak about a tool in healthy sessions alone."""
        found = self._detectors.get((setting, tool), {})
        return [
            str(name)
            for name in _EXEMPTIBLE
            if (sessions := found.get(name)) and sessions & self.labels.fine and not sessions & self.labels.stuck
        ]

    def errors_lived_through(self, tool: str) -> int:
        """How many identical failures in a row a healthy session made of this tool; 0 where it never mattered."""
        return self._counts.get((tool, str(Detector.REPEATED_TOOL_ERROR)), 0)


def best_shared(results: Results, settings: int) -> int:
    """The setting that does best for all tools together."""
    return min(range(settings), key=lambda setting: (results.score(setting).rank, setting))


def by_tool(results: Results, shared: int, pairs: Sequence[tuple[int, int]]) -> Policies:
    """Thresholds of their own for the tools that do better under another pair than the shared one."""
    found: Policies = {}
    for tool in sorted(results.tools):
        best = min(range(len(pairs)), key=lambda setting: (results.score(setting, tool).rank, setting))
        if results.score(best, tool).rank < results.score(shared, tool).rank:
            warning, critical = pairs[best]
            found[tool] = {"warningThreshold": warning, "criticalThreshold": critical}
            breaker = thresholds(warning, critical)["globalCircuitBreakerThreshold"]
            if breaker > thresholds(*pairs[shared])["globalCircuitBreakerThreshold"]:
                found[tool]["globalCircuitBreakerThreshold"] = breaker
    return found
