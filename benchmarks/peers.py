"""Other guards, each doing its real record-and-judge on the same calls.

An adapter shapes the calls as its guard takes them, off the clock, and times the very methods that the guard's own
integration calls around a tool: no wrapper of ours in between, no logging, no store. Thresholds are set to this
project's (warn at 10, stop at 20) where a guard has them, so that all look for the same loops; a guard object is
made afresh, off the clock, for every run. Results that are objects are turned into JSON text beforehand for guards
that take only text. All of this is in the peers' favour.

Whether a guard looks at results is found by experiment, not taken from its documentation: see :func:`looks_at`.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from msgspec import Struct

from .measure import Contender, Timed
from .workload import READING, Call

WARN, STOP = 10, 20
Runner = Callable[[Sequence[Call]], Callable[[], int]]
"""Calls → what is timed, which answers how many calls were flagged: warned about, refused or stopped."""


class Peer(Struct, frozen=True):
    """Another guard. ``timed_call`` says which of its methods are timed; ``text_only``: it takes results as text."""

    package: str
    module: str
    timed_call: str
    adapter: Callable[[ModuleType], Runner]
    variant: str = ""
    text_only: bool = False

    @property
    def name(self) -> str:
        return self.package + (f" ({self.variant})" if self.variant else "")

    def load(self) -> Runner | None:
        """The adapter over the installed package; None where it is not installed."""
        try:
            version(self.package)
            return self.adapter(importlib.import_module(self.module))
        except (PackageNotFoundError, ImportError):
            return None


def _magicrails(module: ModuleType) -> Runner:
    def shape(calls: Sequence[Call]) -> Callable[[], int]:
        given = [(call.tool, call.args) for call in calls]
        flagged: list[object] = []
        guard = module.Magicrails(max_repeats=STOP, on_trip=flagged.append)

        def timed() -> int:
            for tool, args in given:
                guard.record_call(tool, args)
            return len(flagged)

        return timed

    return shape


def _magicrails_state(module: ModuleType) -> Runner:
    """With each result handed over as the agent's state, which is how it can be made to compare results at all."""

    def shape(calls: Sequence[Call]) -> Callable[[], int]:
        given = [(call.tool, call.args, call.error or call.result) for call in calls]
        flagged: list[object] = []
        guard = module.Magicrails(max_repeats=2 * STOP, stasis_steps=STOP, on_trip=flagged.append)

        def timed() -> int:
            for tool, args, result in given:
                guard.record_call(tool, args)
                guard.record_state(result)
            return len(flagged)

        return timed

    return shape


def _controller(module: ModuleType) -> Runner:
    """loop-guardrail and hermes-agent share this interface: the former is a port of the latter. Results are compared
    for tools that are declared idempotent: those that read."""

    def shape(calls: Sequence[Call]) -> Callable[[], int]:
        given = [(call.tool, call.args, call.text, call.error is not None) for call in calls]
        guard = module.ToolCallGuardrailController(
            module.ToolCallGuardrailConfig(
                hard_stop_enabled=True,
                exact_failure_warn_after=WARN,
                exact_failure_block_after=STOP,
                same_tool_failure_warn_after=WARN,
                same_tool_failure_halt_after=STOP,
                no_progress_warn_after=WARN,
                no_progress_block_after=STOP,
                idempotent_tools=frozenset(READING),
            )
        )

        def timed() -> int:
            flagged = 0
            for tool, args, text, failed in given:
                refused = guard.before_call(tool, args).should_halt
                if refused or guard.after_call(tool, args, text, failed=failed).action != "allow":
                    flagged += 1
            return flagged

        return timed

    return shape


def _able(module: ModuleType) -> Runner:
    request_type = importlib.import_module("langchain.agents.middleware.types").ToolCallRequest
    message_type = importlib.import_module("langchain_core.messages").ToolMessage

    def shape(calls: Sequence[Call]) -> Callable[[], int]:
        given = []
        for at, call in enumerate(calls):
            asked = {"name": call.tool, "args": call.args, "id": f"call_{at}", "type": "tool_call"}
            status = "success" if call.error is None else "error"
            answer = message_type(content=call.text, name=call.tool, tool_call_id=f"call_{at}", status=status)
            request = request_type(tool_call=asked, tool=None, state={}, runtime=None)
            given.append((request, lambda _, answer=answer: answer, answer))
        guard = module.ProgressAwareLoopGuardMiddleware(stop_at=STOP)

        def timed() -> int:
            flagged = 0
            for request, handler, answer in given:
                if guard.wrap_tool_call(request, handler) is not answer:
                    flagged += 1
            return flagged

        return timed

    return shape


def _aura(module: ModuleType) -> Runner:
    config = module.AuraGuardConfig(
        secret_key=b"benchmark",
        tool_loop_window=30,
        repeat_toolcall_threshold=STOP,
        sequence_repeat_threshold=WARN,
        arg_jitter_repeat_threshold=STOP,
        error_retry_threshold=STOP,
        side_effect_tools=set(),
    )

    def shape(calls: Sequence[Call]) -> Callable[[], int]:
        given = [(call.tool, call.args, call.result, None if call.error is None else "failed") for call in calls]
        guard = module.AgentGuard(config=config)

        def timed() -> int:
            flagged = 0
            for tool, args, result, error in given:
                if guard.check_tool(tool, args).action.value == "allow":
                    guard.record_result(ok=error is None, payload=result, error_code=error)
                else:
                    flagged += 1
            return flagged

        return timed

    return shape


def _agentguard47(module: ModuleType) -> Runner:
    def shape(calls: Sequence[Call]) -> Callable[[], int]:
        given = [(call.tool, call.args) for call in calls]
        guard = module.LoopGuard(max_repeats=STOP, window=30)
        detected = module.LoopDetected

        def timed() -> int:
            flagged = 0
            for tool, args in given:
                try:
                    guard.check(tool, args)
                except detected:
                    flagged += 1
            return flagged

        return timed

    return shape


def _watchdog(module: ModuleType) -> Runner:
    def shape(calls: Sequence[Call]) -> Callable[[], int]:
        given = [(call.tool, call.args, call.text) for call in calls]
        guard = module.AgentWatchdog(max_identical_calls=STOP, pattern_window_size=STOP, timeout_seconds=None)
        halted = module.WatchdogHalt

        def timed() -> int:
            flagged = 0
            try:
                with guard.watch():
                    for tool, args, text in given:
                        guard.record_tool_call(tool, args, text)
            except halted:
                flagged = 1
            return flagged

        return timed

    return shape


def _fuse(module: ModuleType) -> Runner:
    """It takes four equal calls for two rounds of a cycle, so cycles shorter than equal calls may run are left out."""

    def shape(calls: Sequence[Call]) -> Callable[[], int]:
        given = [(call.tool, call.args, call.error or call.result, call.error is None) for call in calls]
        cycles = module.CycleConfig(direct_repeat_threshold=STOP, cycle_min_length=WARN, cycle_max_length=WARN + 6)
        guard = module.AgentFuse(module.FuseConfig(window=32, cycle=cycles))
        action, detected = module.Action, module.DeadlockDetected

        def timed() -> int:
            flagged = 0
            for tool, args, result, success in given:
                if guard.check(tool, args) is not None:
                    flagged += 1
                try:
                    guard.observe(action(tool, args, result, success))
                except detected:
                    flagged += 1
            return flagged

        return timed

    return shape


PEERS: tuple[Peer, ...] = (
    Peer("magicrails", "magicrails", "record_call", _magicrails),
    Peer("magicrails", "magicrails", "record_call + record_state(result)", _magicrails_state, "results as state"),
    Peer("loop-guardrail", "loop_guardrail", "before_call + after_call", _controller, text_only=True),
    Peer("able-harness-kit", "able_harness_kit.loop_guard", "progress-aware wrap_tool_call", _able, text_only=True),
    Peer("aura-guard", "aura_guard", "check_tool + record_result", _aura),
    Peer("agentguard47", "agentguard", "LoopGuard.check", _agentguard47),
    Peer("agent-watchdog", "agent_watchdog", "record_tool_call", _watchdog),
    Peer("trajectory-fuse", "trajectory_fuse", "check + observe", _fuse),
    Peer("hermes-agent", "agent.tool_guardrails", "before_call + after_call", _controller, text_only=True),
)


@functools.cache
def installed() -> dict[str, Runner]:
    """The adapters of all peers that are installed, by name."""
    logging.getLogger("able_harness_kit").addHandler(logging.NullHandler())
    return {peer.name: runner for peer in PEERS if (runner := peer.load()) is not None}


def text_only() -> set[str]:
    """Names of the peers that take results as text."""
    return {peer.name for peer in PEERS if peer.text_only}


def missing() -> list[str]:
    """Packages that are not installed."""
    return sorted({peer.package for peer in PEERS if peer.load() is None})


def contender(name: str, runner: Runner, runs: Sequence[Sequence[Call]]) -> Contender:
    """A peer over these runs, with a fresh guard for each."""

    def prepare() -> Timed:
        each = [runner(calls) for calls in runs]

        def timed() -> None:
            for one in each:
                one()

        return timed

    return Contender(name=name, per=sum(map(len, runs)), prepare=prepare)
