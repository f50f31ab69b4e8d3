"""What explain names as resetting a count resets it: a loop almost to its threshold, the reset, a new count."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from helpers import compaction, message, play, settle, start, turns

from loopguard_plugin.cli import main
from loopguard_plugin.events import Event

Names = Callable[[], str]  # another call id each time
Part = Callable[[Names], Sequence[Event]]


def call(tool: str = "read", args: object = None, **settled: object) -> Part:
    """One call, settled at once."""
    given = {"p": 1} if args is None else args
    return lambda name: turns(1, tool, given, prefix=name(), **settled)


def failing(tool: str, args: object, error: str = "boom") -> Part:
    return call(tool, args, error=error)


def command(args: object, output: str, code: int = 1) -> Part:
    """A shell command that ran."""
    status = "completed"
    return call("exec", args, result={"status": status, "exitCode": code, "aggregated": output})


def others(count: int) -> Part:
    """So many different calls that all bring something new."""

    def part(name: Names) -> list[Event]:
        prefix = name()
        return [
            event for at in range(count) for event in turns(1, "look", {"n": prefix + str(at)}, prefix=f"{prefix}-{at}")
        ]

    return part


def then(*parts: Part) -> Part:
    return lambda name: [event for part in parts for event in part(name)]


def of_run(run: str, tool: str = "read") -> Part:
    """Calls of another run."""

    def part(name: Names) -> list[Event]:
        one = name()
        return [start(one, tool, {"n": one}, run=run), settle(one, tool, run=run, result=one)]

    return part


def written(_: Names) -> list[Event]:
    return [message()]


def steered(_: Names) -> list[Event]:
    """A message that another run of the session heard."""
    return [message("steering", run="q")]


def compacted(_: Names) -> list[Event]:
    return [compaction()]


@dataclass
class Loop:
    """A loop of one detector. ``steps``: its calls in turn; ``resets``: by the words that explain has for them.

    ``others``: what does not start the count anew, though it might seem so. ``before``: comes once, before the loop.
    """

    detector: str
    action: str
    steps: Sequence[Part]
    resets: dict[str, Sequence[Part]]
    others: Sequence[Part] = ()
    keys: dict[str, object] = field(default_factory=dict)
    own: dict[str, object] = field(default_factory=dict)
    before: Part | None = None
    rolling: bool = True


SMALL: dict[str, object] = {"historySize": 8, "warningThreshold": 3, "criticalThreshold": 5}
NOTES_OFF: dict[str, object] = {"historySize": 8, "warningThreshold": 4, "criticalThreshold": 5}
AB = [call("read", {"p": 1}), call("list", {"p": 2})]
ABC = [call("read", {"n": n}) for n in range(3)]
LEAVES = "so many other calls that these leave the last 8 of the run"
ANOTHER = "another result of this call"

LOOPS = {
    "repeated call, block": Loop(
        "generic_repeat",
        "block",
        [call()],
        {ANOTHER: [call(result="other"), call(error="no")], LEAVES: [others(8)]},
        [written, compacted, others(2)],
        {**NOTES_OFF, "detectors": {"pingPong": False}},
    ),
    "repeated call, note": Loop(
        "generic_repeat",
        "note",
        [call()],
        {LEAVES: [others(8)]},
        [call(result="other"), call("look", {"n": 1})],
        {**SMALL, "criticalThreshold": 50},
    ),
    "repeated call, note, with a tool that changes things": Loop(
        "generic_repeat",
        "note",
        [call()],
        {"a success of a tool with mutates": [call("edit", {"x": 1})]},
        [failing("edit", {"x": 1})],
        {**SMALL, "criticalThreshold": 50},
        {"tools": {"edit": {"mutates": True}}, "detectors": {"errorCascade": False}},
    ),
    "breaker": Loop(
        "global_circuit_breaker",
        "block",
        [call()],
        {ANOTHER: [call(result="other")], LEAVES: [others(8)]},
        [written],
        {
            **SMALL,
            "warningThreshold": 4,
            "globalCircuitBreakerThreshold": 6,
            "detectors": {"genericRepeat": False, "pingPong": False},
        },
    ),
    "failing commands": Loop(
        "generic_repeat",
        "block",
        [command({"command": f"make {n}"}, f"no rule, after {n} ms") for n in range(40)],
        {
            "a command that works": [command({"command": "true"}, "done", 0)],
            "a command that fails in another way": [command({"command": "make"}, "no file")],
            "a call of another tool": [call("read", {"n": 1})],
        },
        [written],
        NOTES_OFF,
        {"detectors": {"errorCascade": False}},
    ),
    "poll, note": Loop(
        "known_poll_no_progress",
        "note",
        [call("command_status", {"id": 1}, result="running")],
        {ANOTHER: [call("command_status", {"id": 1}, result="done")], LEAVES: [others(8)]},
        [written],
        {**SMALL, "criticalThreshold": 50},
    ),
    "poll, block": Loop(
        "known_poll_no_progress",
        "block",
        [call("command_status", {"id": 1}, result="running")],
        {ANOTHER: [call("command_status", {"id": 1}, error="gone")], LEAVES: [others(8)]},
        [written, others(1)],
        {**SMALL, "warningThreshold": 4, "detectors": {"pingPong": False}},
    ),
    "ping-pong, note": Loop(
        "ping_pong",
        "note",
        AB,
        {"a third call in between": [others(1)], "one of the two twice in a row": [then(AB[0], AB[0])]},
        [written],
        {"historySize": 30, "warningThreshold": 6, "criticalThreshold": 50, "detectors": {"genericRepeat": False}},
    ),
    "ping-pong, block": Loop(
        "ping_pong",
        "block",
        AB,
        {"a third call in between": [others(1)], "another result of either": [call("read", {"p": 1}, result="new")]},
        [written],
        {"historySize": 30, "warningThreshold": 6, "criticalThreshold": 8, "detectors": {"genericRepeat": False}},
        {"detectors": {"stagnation": False}},
    ),
    "churn": Loop(
        "argument_churn",
        "note",
        [failing("edit", {"n": 1}), failing("edit", {"n": 2})],
        {
            "a call of another tool": [others(1)],
            "a call of this one that works": [call("edit", {"n": 1}), call("edit", {"n": 3})],
            "another error than these calls share": [failing("edit", {"n": 1}, "e"), failing("edit", {"n": 2}, "e")],
        },
        [written],
        {
            "historySize": 30,
            "warningThreshold": 7,
            "criticalThreshold": 50,
            "detectors": {"genericRepeat": False, "pingPong": False},
        },
        {"detectors": {"errorCascade": False}},
    ),
    "unknown tool": Loop(
        "unknown_tool_repeat",
        "block",
        [failing("fly", {"n": n}, "unknown tool fly") for n in range(4)],
        {
            "a call of another tool": [call("read", {"n": 1}), failing("swim", {}, "unknown tool swim")],
            "any other answer of this one": [failing("fly", {"n": 1}, "no wings"), call("fly", {"n": 2})],
        },
        [written],
        {"unknownToolThreshold": 4},
        {"detectors": {"errorCascade": False}},
    ),
    "stagnation, note": Loop(
        "stagnation",
        "note",
        ABC,
        {
            "a call that was not among the last 64 different ones": [others(1)],
            "comes back with another outcome": [call("read", {"n": 1}, result="new")],
            "a user message": [written, steered],
            "a compaction": [compacted],
        },
        [of_run("q")],
        {"warningThreshold": 4, "criticalThreshold": 50, "detectors": {"genericRepeat": False}},
        before=then(*ABC),
    ),
    "stagnation, block": Loop(
        "stagnation",
        "block",
        ABC,
        {
            "a call that was not among": [others(1)],
            "comes back with another outcome": [failing("read", {"n": 1})],
            "a user message": [written],
            "a compaction": [compacted],
        },
        keys={"warningThreshold": 5, "criticalThreshold": 6, "detectors": {"genericRepeat": False}},
        before=then(*ABC),
    ),
    "error cascade, responses": Loop(
        "error_cascade",
        "note",
        [failing(tool, {"t": n}, f"{tool} {n}") for n, tool in enumerate(("read", "list", "grep", "find"))],
        {"any call that works": [others(1), AB[0]]},
        [written, compacted],
        {"warningThreshold": 50, "criticalThreshold": 60},
    ),
    "error cascade, one tool": Loop(
        "error_cascade",
        "note",
        [then(failing("fetch", {"u": n}, "503"), call("read", {"n": n}, result=f"{n}")) for n in range(30)],
        {
            "so many other calls that these leave the last 30": [others(30)],
        },
        [written, compacted, others(1), failing("fetch", {"u": 1}, "404")],
        {"warningThreshold": 50, "criticalThreshold": 60},
    ),
    "repeated error": Loop(
        "repeated_tool_error",
        "end_turn",
        [failing("read", {"p": 1})],
        {
            "a call that works": [others(1), call("read", {"p": 1})],
            "a failure of another tool": [failing("list", {"p": 1})],
            "with other arguments": [failing("read", {"p": 2})],
            "with another error": [failing("read", {"p": 1}, "bang")],
            "a user message": [written],
        },
        [compacted],
        rolling=False,
    ),
    "ceiling of a turn": Loop(
        "call_limit",
        "end_turn",
        [call("read", {"n": n}, result=str(n)) for n in range(5)],
        {"a user message": [written]},
        [compacted],
        own={"limits": {"callsPerTurn": 5}},
        rolling=False,
    ),
}


def config_of(loop: Loop) -> dict[str, object]:
    """The settings that a loop is played under."""
    detection = {**loop.keys, **({"enabled": True} if loop.rolling else {})}
    return {
        "tools": {"loopDetection": detection},
        "plugins": {"entries": {"loopguard": {"config": loop.own}}},
    }


class Play:
    """The loop of a case, as often as asked for, with what comes in between."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.events: list[Event] = []
        self.calls = self.at = 0
        if loop.before is not None:
            self.add(loop.before)

    def name(self) -> str:
        self.calls += 1
        return f"x{self.calls}-"

    def add(self, part: Part) -> Play:
        self.events += part(self.name)
        return self

    def steps(self, count: int, *, anew: bool = False) -> Play:
        """So many steps from where the loop is, or from its beginning."""
        self.at = 0 if anew else self.at
        for _ in range(count):
            self.add(self.loop.steps[self.at % len(self.loop.steps)])
            self.at += 1
        return self

    def fired(self) -> list[int]:
        """The events at which the loop's own detector did what the case is about."""
        answers = play(config_of(self.loop), self.events)
        return [
            at
            for at, (action, detector, _, _) in enumerate(answers)
            if (action, detector) == (self.loop.action, self.loop.detector)
        ]


def almost(loop: Loop) -> int:
    """How many steps come to nothing yet; the next one fires."""
    return next(count for count in range(1, 60) if Play(loop).steps(count + 1).fired())


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_what_explain_names_starts_the_count_anew(loop: Loop, tmp_path: Path) -> None:
    """After each named reset the loop may go on for as long as from its beginning, and not without it."""
    most = almost(loop)
    events = Play(loop).steps(most + 1)
    named = explained(tmp_path, loop, events.events, events.fired()[0])
    for words, resets in loop.resets.items():
        assert words in named
        for reset in resets:
            again = Play(loop).steps(most - 1).add(reset)  # the reset may be the next call itself
            assert not again.fired(), words
            assert not again.steps(most, anew=True).fired(), words
            assert again.steps(1).fired() or again.steps(most).fired(), words
    for other in loop.others:
        assert Play(loop).steps(most - 1).add(other).steps(2).fired(), "this does not start it anew"


def explained(tmp_path: Path, loop: Loop, events: Sequence[Event], at: int) -> str:
    """What explain says would have reset the count of this event."""
    (tmp_path / "on.json5").write_text(json.dumps(config_of(loop)))
    (tmp_path / "e.jsonl").write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["explain", f"--at={at}", str(tmp_path / "e.jsonl"), "--config", str(tmp_path / "on.json5")]) == 0
    return out.getvalue().partition("\nreset: ")[2]


def test_a_difference_after_a_compaction_disarms_the_guard(tmp_path: Path) -> None:
    """Any difference within the window and the guard rests; the next compaction arms it anew."""
    loop = Loop("compaction_loop_persisted", "end_turn", [call()], {}, before=compacted, rolling=False)
    events = Play(loop).steps(3)
    assert events.fired()
    named = explained(tmp_path, loop, events.events, events.fired()[0])
    assert "one call that differs in tool, arguments or result; the guard then rests until the next compaction" in named
    for other in (call("list"), call("read", {"p": 2}), call(result="other")):
        again = Play(loop).steps(2).add(other).steps(5)
        assert not again.fired()
        assert again.add(compacted).steps(3).fired()


def test_a_new_run_has_calls_of_its_own(tmp_path: Path) -> None:
    """The ceiling of a run is not raised by a user message; another run begins at nothing."""
    own: dict[str, object] = {"limits": {"callsPerRun": 4}}
    loop = Loop("call_limit", "end_turn", [call("read", {"n": n}) for n in range(4)], {}, own=own, rolling=False)
    events = Play(loop).steps(4).add(written).steps(1)
    assert events.fired()
    assert explained(tmp_path, loop, events.events, events.fired()[0]).startswith("a new run\n")
    fresh = Play(loop).steps(4)
    for _ in range(4):
        fresh.add(of_run("q"))
    assert not fresh.fired()
    assert fresh.add(of_run("q")).fired()
