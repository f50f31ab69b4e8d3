"""hermes-agent: the real agent with a scripted provider on the loopback, and what the model and the user get to see.

Run in an environment of its own: ``pip install "loopguard-plugin[hermes]" pytest hypothesis``.
"""

from __future__ import annotations

import doctest
import functools
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from offline import no_network
from openai_server import OUT, Overflow, Script, Step, calls, served
from releases import Releases, under
from scenarios import Bench, Call, Played, Reply, Scenarios

from loopguard_plugin import LoopGuard, ToolCallSettled, TurnEndingError
from loopguard_plugin.hosts._shared import Config
from loopguard_plugin.transcripts import FORMATS, Placed, Source, Talks

pytest.importorskip("run_agent", reason="hermes-agent is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # the host's own

LOW = {"tools": {"loopDetection": {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}}}
CONFIG = """
model: {context_length: 128000}
plugins:
  enabled: [loopguard]
  entries: {loopguard: {allow_tool_override: true}, testtools: {allow_tool_override: true}}
tool_loop_guardrails: {warnings_enabled: false}
compression: {enabled: true, protect_first_n: 1, protect_last_n: 2}
"""


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of hermes for the whole module, that of the profile ``scripted``: it is read at import."""
    user = tmp_path_factory.mktemp("user")
    path = user / ".hermes" / "profiles" / "scripted"
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(user))
        patch.setenv("HERMES_HOME", str(path))
        no_network(patch)
        yield path


class Tools:
    """Tools that count how often they ran. ``results``: what each gives, by name; a function of the arguments."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx
        self.ran: list[tuple[str, Any]] = []
        self.results: dict[str, Callable[[Any], str]] = {}

    def add(self, ctx: Any, name: str) -> None:
        def handler(args: dict[str, Any], **_: Any) -> str:
            self.ran.append((name, args))
            return self.results[name](args) if name in self.results else "same text"

        schema = {"name": name, "description": "for tests", "parameters": {"type": "object", "properties": {}}}
        ctx.register_tool(name, "testtools", schema, handler, override=True)


@pytest.fixture
def manager() -> Iterator[Any]:
    """hermes' plugin manager without any plugin, put back afterwards."""
    from hermes_cli.plugins import get_plugin_manager

    manager = get_plugin_manager()
    before = {name: (dict(getattr(manager, name))) for name in ("_hooks", "_middleware")}
    manager._hooks.clear()
    manager._middleware.clear()
    manager._discovered = True
    yield manager
    for name, value in before.items():
        getattr(manager, name).clear()
        getattr(manager, name).update(value)


@pytest.fixture
def tools(manager: Any) -> Tools:
    """Three tools: ``probe`` and ``other`` run one by one, ``web_search`` and ``web_extract`` in parallel."""
    from hermes_cli.plugins import PluginContext, PluginManifest

    ctx = PluginContext(PluginManifest(name="testtools"), manager)
    tools = Tools(ctx)
    for name in ("probe", "other", "web_search", "web_extract"):
        tools.add(ctx, name)
    return tools


def agent(url: str, session: str = "s", toolsets: Sequence[str] = ("testtools",), db: Any = None) -> Any:
    """A real agent that asks the scripted provider. ``db``: the store that it writes its messages to."""
    from run_agent import AIAgent

    return AIAgent(
        base_url=url,
        api_key="none",
        provider="custom",
        model="scripted",
        enabled_toolsets=list(toolsets),
        session_db=db,
        quiet_mode=True,
        skip_context_files=True,
        skip_memory=True,
        session_id=session,
        tool_delay=0,
    )


def run(steps: list[Step], *messages: str) -> tuple[str, Script]:
    """One conversation of these user messages; the last answer that the user sees, and the script."""
    script = Script(steps)
    history: Any = None
    with served(script) as (url,):
        one = agent(url)
        for message in messages or ("go",):
            said = one.run_conversation(message, conversation_history=history)
            history = said["messages"]
    return str(said["final_response"]), script


def attached(manager: Any, config: Any = LOW) -> Any:
    from loopguard_plugin.hosts.hermes import attach

    return attach(manager, config)


def same(times: int, name: str = "probe", **args: Any) -> list[Any]:
    """So many responses of one and the same call."""
    return [calls((name, args or {"x": 1})) for _ in range(times)]


def spread(function: Callable[..., str], args: dict[str, Any]) -> str:
    return function(**args)


class TestAgent(Scenarios):
    """The scenarios that all hosts share. hermes runs only tools of certain names in parallel: ``wait`` is one here.

    It drops exact duplicates within a response, so the second ``tick`` of one is written with an argument.
    """

    unknown_tools = False  # three responses with nothing else end the turn in hermes itself
    logger = "hermes_plugins.loopguard"

    @pytest.fixture(autouse=True)
    def _manager(self, manager: Any, tools: Tools) -> None:
        self.manager = manager
        self.tools = tools

    def new_adapter(self, config: Config) -> Any:
        return attached(self.manager, config)

    def play(self, adapter: Any, *turns: Sequence[Reply], session: str = "s", bench: Bench | None = None) -> Played:
        bench = bench or Bench()
        self.install(bench)
        if adapter is None:
            self.manager._hooks.clear()
            self.manager._middleware.clear()
        script = Script([])
        history: Any = None
        code: list[str] = []
        if adapter is not None and adapter.calls is not None:
            end_run = adapter.calls.end_run

            def ended(key: str, run: str | None = None) -> None:
                """The last moment at which the reason of a turn is known."""
                if key == session:
                    error = adapter.calls.ended(key, run)
                    code[:] = [str(error.code)] if error is not None else []
                end_run(key, run)

            adapter.calls.end_run = ended
        with served(script) as (url,):
            one = agent(url, session)
            for turn in turns:
                script.steps[:] = [reply if isinstance(reply, str) else calls(*self.named(reply)) for reply in turn]
                said = one.run_conversation("go", conversation_history=history)
                history = said["messages"]
        requests = [[str(m["content"]) for m in r["messages"] if m["role"] == "tool"] for r in script.requests]
        return Played(bench, requests, str(said["final_response"]), code[0] if code else None)

    def named(self, reply: list[Call]) -> list[Call]:
        shown = {"wait": "web_search"}
        return [
            (shown.get(name, name), {"at": at} if name == "tick" and at else args)
            for at, (name, args) in enumerate(reply)
        ]

    def install(self, bench: Bench) -> None:
        def wait(seconds: float, fail: bool) -> str:
            time.sleep(seconds)
            return bench.wait_or_fail(fail)

        functions: dict[str, Callable[..., str]] = {
            "look": bench.look,
            "tick": lambda at=0: bench.tick(),
            "fail": bench.fail,
            "meet": bench.meet,
            "web_search": wait,
        }
        for name, function in functions.items():
            self.tools.results[name] = functools.partial(spread, function)
            self.tools.add(self.tools.ctx, name)


def test_note_reaches_the_model(manager: Any, tools: Tools) -> None:
    """The third identical call warns: its result carries the note, and the ones before do not."""
    attached(manager)
    steps = same(3)
    _, script = run([*steps, "done"])
    assert script.seen(steps[1][0].id) == "same text"
    assert script.seen(steps[2][0].id).startswith("same text\n\n")
    assert "probe" in script.seen(steps[2][0].id)


def test_note_in_a_json_result(manager: Any, tools: Tools) -> None:
    """A result that is a JSON object stays one, so that hermes still tells errors from successes."""
    attached(manager)
    tools.results["probe"] = lambda _: '{"error": null, "output": "x"}'
    steps = same(3)
    _, script = run([*steps, "done"])
    noted = json.loads(script.seen(steps[2][0].id))
    assert noted["output"] == "x"
    assert "probe" in noted["loopguard_note"]


def test_whole_batch_is_blocked_and_the_model_answers(manager: Any, tools: Tools) -> None:
    """The fourth identical call blocks its batch: no tool of it runs, and the model's one more answer is the last."""
    attached(manager)
    stuck = calls(("other", {}), ("probe", {"x": 1}))
    answer, script = run([*same(3), stuck, "I give up"])
    assert [name for name, _ in tools.ran] == ["probe"] * 3
    assert "probe" in script.seen(stuck[1].id)
    assert json.loads(script.seen(stuck[0].id))["error"]
    assert answer == "I give up"


def test_second_critical_loop_ends_the_turn(manager: Any, tools: Tools) -> None:
    """After the recovery answer another loop ends the turn: the reason is the answer, the model is not asked again."""
    attached(manager)
    answer, script = run([*same(5), *same(3), "never"])
    assert len(tools.ran) == 3
    assert len(script.requests) == 5
    assert "probe" in answer
    assert answer not in ("never", OUT)


def test_without_loopguard_it_goes_on(manager: Any, tools: Tools) -> None:
    """For contrast: hermes alone runs every one of these calls, also failing ones, as long as the model wants."""
    tools.results["probe"] = lambda _: '{"error": "boom"}'
    answer, _ = run([*same(8), "never"])
    assert len(tools.ran) == 8
    assert answer == "never"


def test_three_identical_errors_end_the_turn(manager: Any, tools: Tools) -> None:
    """Always on: the third identical error ends the turn with what to do about it."""
    attached(manager, None)
    tools.results["probe"] = lambda _: '{"error": "boom"}'
    answer, script = run([*same(8), "never"])
    assert len(tools.ran) == 3
    assert len(script.requests) == 3
    assert "boom" in answer


def test_a_raising_tool_counts(manager: Any, tools: Tools) -> None:
    """A tool that raises is an error like any other."""
    attached(manager, None)

    def boom(_: Any) -> str:
        raise RuntimeError("boom")

    tools.results["probe"] = boom
    answer, _ = run([*same(8), "never"])
    assert len(tools.ran) == 3
    assert "boom" in answer


def lived_and_replayed(tmp_path: Path, call: tuple[str, Any], times: int = 8) -> tuple[int, str, list[str]]:
    """hermes' own tools, one call again and again: requests made, the last answer, and what a replay of its store does.

    The replay is given as the action on each result.
    """
    from hermes_state import SessionDB

    store = SessionDB(tmp_path / "state.db")
    script = Script([*[calls(call) for _ in range(times)], "never"])
    with served(script) as (url,):
        answer = agent(url, toolsets=("terminal", "file"), db=store).run_conversation("go")["final_response"]
    store.close()
    guard = LoopGuard()
    actions: list[str] = []
    with Source.open(str(tmp_path / "state.db")) as source:
        for item in FORMATS["hermes"].read(source, Talks()):
            assert isinstance(item, Placed)
            try:
                guard.feed(item.event)
                action = "deliver"
            except TurnEndingError as ended:
                action = str(ended.code)
            if isinstance(item.event, ToolCallSettled):
                actions.append(action)
    return len(script.requests), str(answer), actions


def test_a_failing_command_counts_live_and_in_a_replay(manager: Any, tmp_path: Path) -> None:
    """``terminal`` tells a failure by its exit code alone, with ``error: null``: the third one ends the turn."""
    attached(manager, None)
    requests, answer, replayed = lived_and_replayed(tmp_path, ("terminal", {"command": "ls /nowhere/at/all"}))
    assert requests == 3
    assert "`terminal` failed 3 times" in answer
    assert replayed == ["deliver", "deliver", "repeated_tool_error"]


def test_a_search_that_finds_nothing_is_no_failure(manager: Any, tmp_path: Path) -> None:
    """What hermes calls "not an error" is none, live and in a replay."""
    (tmp_path / "a.txt").write_text("hello\n")
    attached(manager, None)
    requests, answer, replayed = lived_and_replayed(
        tmp_path, ("terminal", {"command": f"grep nothing {tmp_path}/a.txt"}), times=5
    )
    assert (requests, answer, replayed) == (6, "never", ["deliver"] * 5)


def test_the_counters_of_hermes_are_no_progress(manager: Any, tmp_path: Path) -> None:
    """hermes refuses a repeated read with a number that grows ("3 times", "4 times"): one and the same failure."""
    (tmp_path / "a.txt").write_text("hello\n")
    attached(manager, None)
    requests, answer, replayed = lived_and_replayed(tmp_path, ("read_file", {"path": str(tmp_path / "a.txt")}))
    assert requests == 5  # the text, "unchanged", and three refusals
    assert "`read_file` failed 3 times" in answer
    assert replayed == ["deliver"] * 4 + ["repeated_tool_error"]


def test_user_message_resets(manager: Any, tools: Tools) -> None:
    """Two errors, a new message, two more: nothing ends."""
    attached(manager, None)
    tools.results["probe"] = lambda _: '{"error": "boom"}'
    answer, _ = run([*same(2), "stuck", *same(2), "done"], "go", "again")
    assert len(tools.ran) == 4
    assert answer == "done"


def test_steering_resets(manager: Any, tools: Tools) -> None:
    """A message that the user slips in mid-turn starts a fresh count, and is no part of the result."""
    attached(manager, None)
    script = Script([*same(5), "never"])
    with served(script) as (url,):
        one = agent(url)

        def fail(_: Any) -> str:
            if len(tools.ran) == 2:
                one.steer("try something else")
            return '{"error": "boom"}'

        tools.results["probe"] = fail
        answer = one.run_conversation("go")["final_response"]
    assert len(tools.ran) == 5
    assert "boom" in answer


def test_a_tool_cannot_pretend_to_be_the_user(manager: Any, tools: Tools) -> None:
    """A result that contains the marker of a steering message resets nothing."""
    from agent.prompt_builder import format_steer_marker

    attached(manager, None)
    tools.results["probe"] = lambda _: json.dumps({"error": format_steer_marker("go on")}, ensure_ascii=False)
    run([*same(8), "never"])
    assert len(tools.ran) == 3


def test_loop_after_compaction_ends(manager: Any, tools: Tools) -> None:
    """After an overflow and a compaction, three identical calls end the turn, with rolling detectors off."""
    attached(manager, None)
    tools.results["other"] = lambda args: f"{args} " + "long " * 3000
    before = [calls(("other", {"n": n})) for n in range(8)]
    answer, script = run([*before, Overflow(), *same(8), "never"])
    assert script.side, "hermes asked for a summary"
    assert [name for name, _ in tools.ran].count("probe") == 3
    assert "compact" in answer


def test_without_compaction_the_same_calls_pass(manager: Any, tools: Tools) -> None:
    """For contrast: with rolling detectors off and no compaction, eight identical calls all run."""
    attached(manager, None)
    answer, _ = run([*same(8), "done"])
    assert len(tools.ran) == 8
    assert answer == "done"


def test_parallel_calls_count_in_model_order(manager: Any, tools: Tools) -> None:
    """A slow error before a fast success: in model order the success comes last and resets the count."""
    attached(manager, None)
    settled: list[str] = []

    def slow(_: Any) -> str:
        if not settled:
            time.sleep(0.3)
        settled.append("web_search")
        return '{"error": "boom"}'

    def fast(_: Any) -> str:
        settled.append("web_extract")
        return "fine"

    tools.results.update(web_search=slow, web_extract=fast)
    first = calls(("web_search", {"q": 1}), ("web_extract", {"q": 2}))
    answer, _ = run([first, *same(2, "web_search", q=1), "done"])
    assert settled[:2] == ["web_extract", "web_search"]
    assert answer == "done"


def test_a_parallel_result_is_noted_once(manager: Any, tools: Tools) -> None:
    """hermes runs its middleware twice around a parallel call; the note is there once."""
    attached(manager, {"tools": {"loopDetection": {**LOW["tools"]["loopDetection"], "detectors": {"pingPong": False}}}})
    steps = [calls(("web_search", {"q": 1}), ("web_extract", {"n": n})) for n in range(3)]
    _, script = run([*steps, "done"])
    assert script.seen(steps[1][0].id).count("[loopguard]") == 0
    noted = script.seen(steps[2][0].id)
    assert noted.count("[loopguard]") == 1
    assert noted.count("same text") == 1


def test_unknown_tools_count(manager: Any, tools: Tools) -> None:
    """Unknown names reach no hook of hermes, and count all the same: the batch of the third is blocked."""
    attached(manager, {"tools": {"loopDetection": {"enabled": True, "unknownToolThreshold": 2}}})
    last = calls(("probe", {}), ("nope", {"n": 3}))
    answer, script = run([calls(("nope", {"n": 1})), calls(("nope", {"n": 2})), last, "I give up"])
    assert not tools.ran
    assert "nope" in script.seen(last[0].id)
    assert answer == "I give up"


def test_the_same_unknown_call_ends_the_turn(manager: Any, tools: Tools) -> None:
    """Three identical calls of a tool that does not exist; hermes alone runs on as long as a good call is beside it."""
    attached(manager, None)
    tools.results["probe"] = lambda _: '{"error": "boom"}'
    nope: tuple[str, Any] = ("nope", {})
    answer, script = run([calls(nope), calls(nope), calls(nope, ("other", {})), calls(nope, ("other", {})), "never"])
    assert len(script.requests) == 3
    assert "nope" in answer


@pytest.mark.parametrize("written", ["{not json}", "[1]"])
def test_invalid_arguments_count(manager: Any, tools: Tools, written: str) -> None:
    """Arguments that are no JSON object never run: the third time ends the turn. hermes alone asks on and on."""
    attached(manager, None)
    script = Script([*[calls(("probe", written)) for _ in range(8)], "never"])
    with served(script) as (url,):
        one = agent(url)
        one._disable_streaming = True  # while streaming, hermes takes broken JSON for a cut answer and asks anew itself
        answer = one.run_conversation("go")["final_response"]
    assert not tools.ran
    assert len(script.requests) == 3
    assert "probe" in answer


def test_two_sessions_do_not_share_state(manager: Any, tools: Tools) -> None:
    """Two errors in each of two sessions at once end neither."""
    attached(manager, None)
    tools.results["probe"] = lambda _: '{"error": "boom"}'
    scripts = [Script([*same(2), "done"]), Script([*same(2), "done"])]
    answers: dict[str, str] = {}

    def talk(url: str, session: str) -> None:
        answers[session] = agent(url, session).run_conversation("go")["final_response"]

    with served(*scripts) as urls:
        threads = [threading.Thread(target=talk, args=(url, name)) for url, name in zip(urls, "ab", strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {"a": "done", "b": "done"}


def test_a_failing_guard_leaves_the_run_alone(manager: Any, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a guard that raises at every event, hermes behaves as without one."""
    adapter = attached(manager)

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("inside the guard")

    for name in ("feed", "ended", "end_run"):
        monkeypatch.setattr(adapter.calls.guard, name, broken)
    answer, _ = run([*same(8), "done"])
    assert len(tools.ran) == 8
    assert answer == "done"


@pytest.mark.parametrize("api_mode", ["chat_completions", "anthropic_messages", "codex_responses"])
def test_the_reason_passes_as_an_answer(api_mode: str) -> None:
    """Whatever API hermes speaks, it takes the reason for what the model said."""
    from agent.transports import get_transport

    from loopguard_plugin.hosts.hermes import _said

    transport = get_transport(api_mode)
    response = _said("the reason", api_mode, "scripted")
    assert transport.validate_response(response)
    normalised = transport.normalize_response(response)
    assert normalised.content == "the reason"
    assert not normalised.tool_calls
    assert normalised.finish_reason == "stop"


def test_lines_reach_the_log_of_hermes(manager: Any, tools: Tools, caplog: pytest.LogCaptureFixture) -> None:
    """Lines arrive under a logger that hermes writes to gateway.log."""
    from hermes_logging import COMPONENT_PREFIXES

    with caplog.at_level(logging.INFO):
        attached(manager, None)
        tools.results["probe"] = lambda _: '{"error": "boom"}'
        run([*same(3), "never"])
    ours = [record for record in caplog.records if record.name == "hermes_plugins.loopguard"]
    assert ours[0].getMessage().startswith("loopguard ready")
    assert any("action=end_turn" in record.getMessage() for record in ours)
    assert ours[0].name.startswith(COMPONENT_PREFIXES["gateway"])
    assert not any("boom" in record.getMessage() for record in ours)


def test_hermes_finds_and_loads_the_plugin(home: Path) -> None:
    """Enabled in config.yaml, the installed entry point is loaded with the settings that stand there."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from hermes_cli.plugins import get_plugin_manager\n"
            "manager = get_plugin_manager()\n"
            "manager.discover_and_load()\n"
            "print([(p['enabled'], p['error']) for p in manager.list_plugins() if p['name'] == 'loopguard'])\n"
            "adapter = manager._middleware['llm_execution'][0].__self__\n"
            "print(adapter.calls.guard.settings.resolve(None).rolling)",
        ],
        env={**os.environ, "HERMES_HOME": str(configured(home, "loopDetection: {enabled: true}"))},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[-2:] == ["[(True, None)]", "True"]
    assert "loopguard ready" not in told.stderr


def test_a_wrong_setting_is_an_error_of_the_plugin(home: Path) -> None:
    """hermes must not run in the belief that it is guarded: the plugin fails to load, and the error says why."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from hermes_cli.plugins import get_plugin_manager\n"
            "manager = get_plugin_manager()\n"
            "manager.discover_and_load()\n"
            "print([p['error'] for p in manager.list_plugins() if p['name'] == 'loopguard'])",
        ],
        env={**os.environ, "HERMES_HOME": str(configured(home, "loopDetection: {histroySize: 3}"))},
        capture_output=True,
        text=True,
    )
    assert "tools.loopDetection.histroySize" in told.stdout


def configured(home: Path, tools: str) -> Path:
    """Another home, with these settings."""
    other = home / f"home{len(list(home.iterdir()))}"
    other.mkdir()
    (other / "config.yaml").write_text(f"{CONFIG}tools:\n  {tools}\n")
    return other


def test_duplicates_that_hermes_drops_are_not_judged(manager: Any, tools: Tools) -> None:
    """One response with the same call five times runs it once, and is judged as one."""
    attached(manager)
    answer, _ = run([calls(*[("probe", {"x": 1})] * 5), "done"])
    assert len(tools.ran) == 1
    assert answer == "done"


def test_other_policies_count_as_denied(manager: Any, tools: Tools) -> None:
    """A call that another plugin refuses is a failure; three of them end the turn."""
    manager._hooks.setdefault("pre_tool_call", []).append(lambda **_: {"action": "block", "message": "not allowed"})
    attached(manager, None)
    answer, script = run([*same(8), "never"])
    assert not tools.ran
    assert len(script.requests) == 3
    assert "probe" in answer


def test_example_runs(manager: Any) -> None:
    """The example in the module's docstring does what it says."""
    import loopguard_plugin.hosts.hermes as module

    assert doctest.testmod(module) == (0, 4)


def test_turns_are_forgotten(manager: Any, tools: Tools) -> None:
    """Nothing is kept of a turn that is over."""
    adapter = attached(manager)
    run([*same(1), "done"])
    assert not adapter._turns
    assert adapter.calls.guard.stats().runs == 0


def test_calls_that_are_not_the_models_pass(manager: Any) -> None:
    """A tool that runs outside of any turn is none of loopguard's business."""
    adapter = attached(manager)
    assert adapter.tool_execution(next_call=lambda: "ran", turn_id="", tool_call_id="") == "ran"
    assert adapter.llm_execution(next_call=lambda: SimpleNamespace(x=1)).x == 1
    assert adapter.calls.guard.stats().events == 0


class TestReleases(Releases):
    package, older, newer, later_major = "hermes-agent", "0.18.2", "0.99.0", "1.0.0"
    lacking = "compactions after an overflow"

    @pytest.fixture(autouse=True)
    def _manager(self, manager: Any) -> None:
        import loopguard_plugin.hosts.hermes as module

        self.host = module
        self.manager = manager

    def make(self, module: ModuleType) -> object:
        return module.attach(self.manager)

    def expected(self, which: str) -> str:
        missing = "unknown tools beside other calls, arguments that are JSON but no object"
        return f"the guard will not see: {missing}" if which == "older" else super().expected(which)

    def take_away(self, patch: pytest.MonkeyPatch) -> None:
        """Nobody tells of requests that failed."""
        from hermes_cli import plugins

        patch.setattr(plugins, "VALID_HOOKS", plugins.VALID_HOOKS - {"api_request_error"})

    def ruin(self, patch: pytest.MonkeyPatch) -> None:
        """Nobody tells of answers of the model."""
        from hermes_cli import plugins

        patch.setattr(plugins, "VALID_HOOKS", plugins.VALID_HOOKS - {"post_api_request"})


@pytest.mark.parametrize("why", ["settings", "version"])
def test_a_plugin_that_is_off_says_so(
    home: Path, manager: Any, tools: Tools, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """hermes lists what is enabled in its configuration, loaded or not: so the first answer of a session tells."""
    import loopguard_plugin.hosts.hermes as module

    told = "tools.loopDetection.histroySize"
    if why == "version":
        module, told = under(module, "hermes-agent", "1.0.0", monkeypatch), "hermes-agent 1.0.0"
    monkeypatch.setenv("HERMES_HOME", str(configured(home, "loopDetection: {histroySize: 3}")))
    monkeypatch.setattr(manager, "_load_entrypoint_module", lambda manifest: module)
    manager._load_plugin(entry_point())
    (listed,) = (plugin for plugin in manager.list_plugins() if plugin["name"] == "loopguard")
    assert not listed["enabled"]
    assert told in listed["error"]
    script = Script(["one", "two"])
    with served(script) as (url,):
        one = agent(url)
        first = one.run_conversation("go")
        second = one.run_conversation("again", conversation_history=first["messages"])
    assert "loopguard is off" in first["final_response"]
    assert told in first["final_response"]
    assert first["final_response"].endswith("one")
    assert second["final_response"] == "two"


def entry_point() -> Any:
    """The plugin as hermes finds it."""
    from hermes_cli.plugins import PluginManifest

    return PluginManifest(name="loopguard", source="entrypoint", path="loopguard_plugin.hosts.hermes")
