"""What must hold in every host, as one class of tests; a host's own test file says how to play a script.

A script is what the model answers, one reply a request: a text, or a list of calls. Every host has the same tools:

- ``look(path)`` always says the same, ``tick()`` something new each time;
- ``fail(path)`` always fails in the same way, where the model sees the error;
- ``wait(seconds, fail)`` answers later, with that same failure or without; ``meet()`` waits for the other session.

A call of ``nope`` asks for a tool that does not exist, ``look`` without a path has arguments that do not validate.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from loopguard_plugin import LoopGuard, SettingsError, parse_settings
from loopguard_plugin.hosts._shared import Config

Call: TypeAlias = tuple[str, dict[str, Any]]
Reply: TypeAlias = str | list[Call]

ON: dict[str, object] = {"tools": {"loopDetection": {"enabled": True}}}
UNSET: dict[str, object] = {}

LOOK: Final[list[Call]] = [("look", {"path": "a"})]
FAIL: Final[list[Call]] = [("fail", {"path": "a"})]
TICK: Final[list[Call]] = [("tick", {})]


class ToolFailure(Exception):
    """What ``fail`` raises; each host shows it to the model in its own way."""


@dataclass
class Bench:
    """The tools' side of a play: what ran, in the order of starting, and what they say."""

    ran: list[Call] = field(default_factory=list)
    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    _ticks: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def look(self, path: str) -> str:
        self.ran.append(("look", {"path": path}))
        return f"{path} is empty"

    def tick(self) -> str:
        self.ran.append(("tick", {}))
        return f"tick {next(self._ticks)}"

    def fail(self, path: str) -> str:
        self.ran.append(("fail", {"path": path}))
        raise ToolFailure(f"cannot open {path}")

    def meet(self) -> str:
        self.barrier.wait(20)
        return "met"

    def wait_or_fail(self, fail: bool) -> str:
        """The end of ``wait``: each host sleeps in its own way, so that parallel calls really overlap."""
        self.ran.append(("wait", {"fail": fail}))
        if fail:
            raise ToolFailure("cannot wait")
        return "waited"


@dataclass
class Played:
    """How a play went, as the model and the user saw it."""

    bench: Bench
    requests: list[list[str]]  # for each request to the model, the texts of all tool results in it
    final: str  # the last thing that the user sees
    code: str | None  # why loopguard ended the last turn

    @property
    def results(self) -> list[str]:
        """The tool results in the last request."""
        return self.requests[-1]

    def ran(self, tool: str) -> int:
        return sum(name == tool for name, _ in self.bench.ran)


def broken_guard() -> LoopGuard:
    """A guard that fails inside at every event."""

    def broken() -> float:
        raise RuntimeError("a bug inside the guard")

    return LoopGuard(parse_settings(ON), clock=broken)


class Scenarios:
    """Subclass as ``TestSomething`` with :meth:`play` and :meth:`new_adapter`."""

    logger: str  # the name under which lines reach the host's own log
    whole_batch = True  # False: the host cannot refuse calls of a batch before one of them runs
    unknown_tools = True  # False: the host ends the run itself when a tool does not exist
    invalid_arguments = True

    def new_adapter(self, config: Config) -> Any:
        raise NotImplementedError

    def play(self, adapter: Any, *turns: Sequence[Reply], session: str = "s", bench: Bench | None = None) -> Played:
        """Play one session: each turn is a user message, and what the model answers. ``adapter`` None: unguarded."""
        raise NotImplementedError

    def test_note_reaches_the_model_on_the_affected_result(self) -> None:
        """The 11th identical result carries the note, no earlier one does; without loopguard none does."""
        script: list[Reply] = [*[LOOK] * 11, "done"]
        played = self.play(self.new_adapter(ON), script)
        assert [("[loopguard]" in text) for text in played.results] == [False] * 10 + [True]
        assert played.results[10].startswith("a is empty")
        assert "look" in played.results[10]
        assert played.final == "done"
        assert "[loopguard]" not in "".join(self.play(None, script).results)

    def test_progress_is_left_alone(self) -> None:
        """A tool whose results change is noted as repeated but never refused, and nothing else happens."""
        played = self.play(self.new_adapter(ON), [*[TICK] * 25, "done"])
        assert played.ran("tick") == 25
        assert played.final == "done"

    def test_first_critical_call_is_refused_and_the_model_answers_once_more(self) -> None:
        """The 21st identical call does not run, the model reads why and answers; without loopguard it runs."""
        script: list[Reply] = [*[LOOK] * 21, "I give up"]
        played = self.play(self.new_adapter(ON), script)
        assert played.ran("look") == 20
        assert "was not run" in played.results[20]
        assert len(played.requests) == 22
        assert (played.final, played.code) == ("I give up", None)
        assert self.play(None, script).ran("look") == 21

    def test_whole_batch_is_blocked_before_any_tool_of_it_runs(self) -> None:
        """One looping call in a response keeps its innocent siblings from running, also the one before it."""
        batch: Reply = [("tick", {}), *LOOK, ("tick", {})]
        script: list[Reply] = [*[LOOK] * 20, batch, "ok"]
        played = self.play(self.new_adapter(ON), script)
        assert played.ran("look") == 20
        assert played.ran("tick") == (0 if self.whole_batch else 1)
        assert sum("was not run" in text for text in played.results[20:]) == (3 if self.whole_batch else 2)
        assert played.final == "ok"
        assert self.play(None, script).ran("tick") == 2

    def test_second_critical_loop_ends_the_run_with_a_reason(self) -> None:
        """Going on after the block ends the turn: no more requests, and the user reads why."""
        script: list[Reply] = [*[LOOK] * 30, "never said"]
        played = self.play(self.new_adapter(ON), script)
        assert played.ran("look") == 20
        assert len(played.requests) == 22
        assert played.code == "tool_loop_persisted"
        assert "The turn was ended" in played.final
        assert "look" in played.final
        unguarded = self.play(None, script)
        assert (unguarded.ran("look"), unguarded.final) == (30, "never said")

    def test_three_identical_errors_end_the_turn(self) -> None:
        """With default settings, the third identical failure is the last; without loopguard the model goes on."""
        script: list[Reply] = [*[FAIL] * 6, "never said"]
        played = self.play(self.new_adapter(UNSET), script)
        assert played.ran("fail") == 3
        assert len(played.requests) == 3
        assert played.code == "repeated_tool_error"
        assert "fail" in played.final
        assert "3 times" in played.final
        assert "cannot open a" in played.final
        unguarded = self.play(None, script)
        assert (unguarded.ran("fail"), unguarded.final) == (6, "never said")

    def test_unknown_tools_count(self) -> None:
        """Asking three times for a tool that does not exist ends the turn; without loopguard it goes on."""
        if not self.unknown_tools:
            pytest.skip("the host ends the run itself when a tool does not exist")
        script: list[Reply] = [*[[("nope", {"path": "a"})]] * 6, "never said"]
        played = self.play(self.new_adapter(UNSET), script)
        assert (len(played.requests), played.code) == (3, "repeated_tool_error")
        assert "nope" in played.final
        assert self.play(None, script).final == "never said"

    def test_invalid_arguments_count(self) -> None:
        """Three calls with the same arguments that do not validate end the turn, though the tool never ran."""
        if not self.invalid_arguments:
            pytest.skip("the host ends the run itself when arguments do not validate")
        script: list[Reply] = [*[[("look", {"wrong": 1})]] * 6, "never said"]
        played = self.play(self.new_adapter(UNSET), script)
        assert (len(played.requests), played.code, played.ran("look")) == (3, "repeated_tool_error", 0)
        assert self.play(None, script).final == "never said"

    def test_user_message_resets(self) -> None:
        """Two failures, a user message, two more: nothing ends. The third after it does."""
        adapter = self.new_adapter(UNSET)
        played = self.play(adapter, [FAIL, FAIL, "what now?"], [FAIL, FAIL, "still not"])
        assert (played.final, played.code, played.ran("fail")) == ("still not", None, 4)
        third: list[Reply] = [*[FAIL] * 3, "never said"]
        played = self.play(adapter, [FAIL, FAIL, "what now?"], third, session="t")
        assert (played.code, played.ran("fail")) == ("repeated_tool_error", 5)

    def test_a_turn_after_an_ended_one_goes_on(self) -> None:
        """After loopguard has ended a turn, the user's next message is answered from the whole history."""
        third: list[Reply] = [*[FAIL] * 3, "never said"]
        played = self.play(self.new_adapter(UNSET), third, ["a fresh answer"])
        assert (played.final, played.code) == ("a fresh answer", None)

    @pytest.mark.parametrize(
        ("first", "ends"),
        [
            pytest.param([(0.3, False), (0.0, True)], True, id="failure-written-last-settles-first"),
            pytest.param([(0.3, True), (0.0, False)], False, id="failure-written-first-settles-last"),
        ],
    )
    def test_parallel_calls_count_in_model_order(self, first: list[tuple[float, bool]], ends: bool) -> None:
        """Whichever finishes first, failures of one response count in the order in which the model wrote them."""
        late: list[Call] = [("wait", {"seconds": seconds, "fail": fail}) for seconds, fail in first]
        again: list[Call] = [("wait", {"seconds": late[int(ends)][1]["seconds"], "fail": True})]
        played = self.play(self.new_adapter(UNSET), [late, again, again, "done"])
        assert played.code == ("repeated_tool_error" if ends else None)
        assert [ran["fail"] for name, ran in played.bench.ran if name == "wait"][:2] == [ends, not ends], "no overlap"

    def test_two_sessions_at_once_share_nothing(self) -> None:
        """Two sessions in two threads with one adapter: each has its own two failures, and no third."""
        adapter, bench = self.new_adapter(ON), Bench()
        script: list[Reply] = [[("meet", {})], FAIL, FAIL, *[LOOK] * 8, [("meet", {})], "done"]
        with ThreadPoolExecutor(2) as pool:
            plays = [pool.submit(self.play, adapter, script, session=name, bench=bench) for name in ("s1", "s2")]
            finals = [(play.result().final, "[loopguard]" in str(play.result().requests)) for play in plays]
        assert finals == [("done", False)] * 2
        assert adapter.calls.guard.stats().events > 0

    def test_settings_come_from_a_file(self, tmp_path: Path) -> None:
        """The gateway's JSON5 file, by its path; one that cannot be used raises at once."""
        file = tmp_path / "gateway.json5"
        file.write_text("{tools: {loopDetection: {enabled: true, warningThreshold: 2, criticalThreshold: 4}}}")
        played = self.play(self.new_adapter(file), [*[LOOK] * 5, "ok"])
        assert [("[loopguard]" in text) for text in played.results] == [False, False, True, False, True]
        assert played.ran("look") == 4
        file.write_text("{tools: {loopDetection: {enabled: 'yes'}}}")
        with pytest.raises(SettingsError, match=r"tools\.loopDetection\.enabled"):
            self.new_adapter(file)

    def test_an_agent_has_settings_of_its_own(self) -> None:
        """They are found by the name that the host knows the agent by; here all agents are called ``scripted``."""
        entry = {"tools": {"loopDetection": {"enabled": True, "warningThreshold": 2}}}
        adapter = self.new_adapter({"agents": {"entries": {"scripted": entry}}})
        assert "[loopguard]" in self.play(adapter, [*[LOOK] * 3, "done"]).results[2]

    def test_lines_reach_the_log_of_the_host(self, caplog: pytest.LogCaptureFixture) -> None:
        """What the guard does stands in ``logging``, under the host's name, without arguments and results."""
        with caplog.at_level("INFO"):
            self.play(self.new_adapter(UNSET), [*[FAIL] * 3, "never said"])
        ours = [record for record in caplog.records if record.name == self.logger]
        assert ours[0].message.startswith("loopguard ready")
        assert [record.levelname for record in ours if "action=end_turn" in record.message] == ["ERROR"]
        assert "cannot open" not in "".join(record.message for record in ours)

    def test_a_bug_inside_the_guard_leaves_the_run_unharmed(self) -> None:
        """With a guard that raises at every event, the run goes exactly as without loopguard."""
        script: list[Reply] = [*[FAIL] * 4, [("tick", {}), *LOOK], "done"]
        adapter = self.new_adapter(broken_guard())
        played, unguarded = self.play(adapter, script), self.play(None, script)
        assert played.requests == unguarded.requests
        assert sorted(map(repr, played.bench.ran)) == sorted(map(repr, unguarded.bench.ran))
        assert played.final == "done"
        assert adapter.calls.guard.stats().errors > 0

    def test_a_bug_inside_the_adapter_leaves_the_run_unharmed(self) -> None:
        """The same where the adapter's own code fails."""
        script: list[Reply] = [*[FAIL] * 4, [("tick", {}), *LOOK], "done"]
        adapter = self.new_adapter(ON)
        adapter.calls = None
        played, unguarded = self.play(adapter, script), self.play(None, script)
        assert (played.requests, played.final) == (unguarded.requests, "done")


def threaded(play: Callable[[], Played]) -> Played:
    """Play in a thread of its own, for hosts that may not start an event loop inside another."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(play).result()
