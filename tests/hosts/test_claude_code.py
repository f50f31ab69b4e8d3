"""Claude Code itself, as claude-agent-sdk ships it, with a scripted provider on the loopback: hooks and SDK callbacks.

Run in an environment of its own: ``pip install "loopguard-plugin[claude-code]" pytest hypothesis``.
"""

from __future__ import annotations

import asyncio
import doctest
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from anthropic_server import Dialogue, serving, text_of
from openai_server import Overflow, Step, calls
from releases import Releases

claude_agent_sdk = pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
if not CLI.exists():
    pytest.skip("this build of claude-agent-sdk brings no Claude Code", allow_module_level=True)

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient  # noqa: E402

from loopguard_plugin.cli import main as loopguard  # noqa: E402
from loopguard_plugin.hosts import claude_code as host  # noqa: E402
from loopguard_plugin.hosts.claude_code import Adapter, attach  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # the host's own

LOW = {"tools": {"loopDetection": {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}}}
TOOLS = ["Bash(*)", "Read", "Write", "Edit"]


class Played(NamedTuple):
    """How a session went: what the model was sent, what the user saw, and what the tools left in the folder."""

    dialogue: Dialogue
    shown: str
    folder: Path
    debug: str = ""

    @property
    def asked(self) -> int:
        return len(self.dialogue.requests)


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own, and nothing of the user's: no account, no settings, no telemetry."""
    for name in os.environ:
        if name.startswith(("ANTHROPIC", "CLAUDE", "AWS_", "GOOGLE_", "HTTP", "http")):
            monkeypatch.delenv(name)
    for name, value in {
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }.items():
        monkeypatch.setenv(name, value)


def bash(command: str, label: str = "a command") -> tuple[str, dict[str, str]]:
    return "Bash", {"command": command, "description": label}


def same(times: int, command: str = "echo hi") -> list[Step]:
    """So many responses with one and the same command, each with another label."""
    return [calls(bash(command, f"try {n}")) for n in range(times)]


Play = Callable[..., Played]


@pytest.fixture(params=["hook", "sdk"])
def play(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays a session, guarded by the command hooks or by the SDK's callbacks."""

    def playing(steps: list[Step], *, config: Any = None, guarded: bool = True, tools: Any = TOOLS) -> Played:
        dialogue = Dialogue(steps)
        folder = tmp_path / "work"
        folder.mkdir(exist_ok=True)
        with serving(dialogue) as url:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
            if request.param == "hook":
                return with_hooks(dialogue, folder, config, guarded, tools)
            options = sdk_options(folder, tools)
            if guarded:
                attach(options, config)
            return Played(dialogue, asyncio.run(talk(options, "go")), folder)

    return playing


def with_hooks(dialogue: Dialogue, folder: Path, config: Any, guarded: bool, tools: Any) -> Played:
    """``claude -p`` with the settings that ``loopguard install claude-code`` writes."""
    home = folder.parent
    if guarded:
        arguments = ["install", "claude-code", "--yes"]
        if config is not None:
            (home / "loopguard.json5").write_text(json.dumps(config))
            arguments += ["--config", str(home / "loopguard.json5")]
        assert loopguard(arguments) == 0
    else:
        assert loopguard(["install", "claude-code", "--undo", "--yes"]) == 0
    shown = ["--output-format", "stream-json", "--verbose", "--debug"]
    told = subprocess.run(
        [str(CLI), "-p", "go", *shown, "--model", "claude-sonnet-4-5", "--allowed-tools", *tools],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert told.returncode == 0, told.stderr
    logs = (home / "config" / "debug").glob("*.txt")
    return Played(dialogue, told.stdout, folder, "".join(log.read_text() for log in logs))


def sdk_options(folder: Path, tools: Any = TOOLS) -> ClaudeAgentOptions:
    return ClaudeAgentOptions(cwd=folder, model="claude-sonnet-4-5", allowed_tools=list(tools), setting_sources=[])


async def talk(options: ClaudeAgentOptions, *prompts: str) -> str:
    """One session of these prompts; everything that the program is told."""
    told: list[str] = []
    async with ClaudeSDKClient(options) as client:
        for prompt in prompts:
            await client.query(prompt)
            told += [repr(message) async for message in client.receive_response()]
    return "\n".join(told)


def test_note_reaches_the_model(play: Play) -> None:
    """The third identical command warns, right beside its result; without loopguard nobody does."""
    played = play([*same(3), "done"], config=LOW)
    first, second, third = played.dialogue.results()
    assert "[loopguard]" not in first + second
    assert third.startswith("hi\n")
    assert "[loopguard]" in third
    assert "[loopguard]" not in play([*same(3), "done"], guarded=False).dialogue.said()


def test_whole_batch_is_blocked_and_the_model_answers(play: Play) -> None:
    """The fourth time blocks its whole response, also the call before it, and the model's answer is the last word."""
    batch = calls(bash("touch before"), bash("echo hi"), bash("touch after"))
    played = play([*same(3), batch, "I give up"], config=LOW)
    assert list(played.folder.iterdir()) == []
    assert sum("was not run" in text for text in played.dialogue.results()) == 3
    assert "I give up" in played.shown


def test_second_critical_loop_ends_the_turn(play: Play) -> None:
    """The model is not asked again, and the user reads why."""
    played = play([*same(6), "never said"], config=LOW)
    assert played.asked == 5
    assert "The turn was ended" in played.shown
    assert "never said" not in played.shown


def test_three_identical_errors_end_the_turn(play: Play) -> None:
    """A command that fails three times alike is the last; without loopguard the model goes on."""
    played = play([*same(6, "echo no such thing >&2; exit 3"), "never said"])
    assert played.asked == 3
    assert "no such thing" in played.shown.split("The turn was ended")[1]
    assert play([*same(6, "exit 3"), "at last"], guarded=False).asked == 7


@pytest.mark.parametrize(
    ("call", "tools"),
    [
        pytest.param(("Nope", {"a": 1}), TOOLS, id="unknown tool"),
        pytest.param(("Read", {"path": 1}), TOOLS, id="invalid arguments"),
        pytest.param(bash("touch denied"), ["Read"], id="denied"),
    ],
)
def test_calls_that_never_run_count(play: Play, call: Any, tools: Any) -> None:
    """Unknown tools, invalid arguments and denied calls end the turn at the third time."""
    played = play([*[calls(call) for _ in range(6)], "never said"], tools=tools)
    assert played.asked == 3
    assert "The turn was ended" in played.shown


def test_loop_after_compaction_ends(play: Play) -> None:
    """After an overflow and a summary, three identical calls end the turn; without loopguard all six run."""
    steps = [calls(bash("echo before")), Overflow(), *same(6), "never said"]
    played = play(steps)
    assert played.dialogue.side
    assert played.asked == 5
    assert "compact" in played.shown.split("The turn was ended")[1]
    assert play(list(steps), guarded=False).asked == 9


def test_without_compaction_the_same_calls_pass(play: Play) -> None:
    """For contrast: with default settings six identical calls run."""
    assert "done" in play([*same(6), "done"]).shown


def test_parallel_calls_count_in_model_order(play: Play) -> None:
    """A slow error before a fast success: the success is last in the response and resets the count."""
    slow = bash("sleep 0.5; echo no such thing >&2; exit 3")
    first = calls(slow, ("Glob", {"pattern": "*.nothing"}))
    played = play([first, *[calls(slow) for _ in range(2)], "done"], tools=[*TOOLS, "Glob"])
    assert "done" in played.shown


def delegating(request: dict[str, Any], *, background: bool, times: int = 6) -> Step:
    """A parent that delegates one and the same task until it gives up, to an agent that fails and fails."""
    if "do the task" in text_of(request["messages"][0]["content"]):
        return calls(bash("echo no such thing >&2; exit 3"))
    if str(request["messages"]).count("'tool_use_id'") >= times:
        return "the parent gives up"
    prompt = {"description": "a task", "prompt": "do the task", "subagent_type": "general-purpose"}
    return calls(("Agent", {**prompt, "run_in_background": background}))


def asked_by_the_parent(played: Played) -> list[dict[str, Any]]:
    requests = played.dialogue.requests
    return [one for one in requests if "do the task" not in text_of(one["messages"][0]["content"])]


def test_a_parent_reads_why_its_agent_was_ended(play: Play) -> None:
    """An agent that was ended is a failure of the call that waited for it; the third identical one ends the parent."""
    step = functools.partial(delegating, background=False)
    played = play([step] * 30, tools=[*TOOLS, "Agent"])
    asked = asked_by_the_parent(played)
    assert (len(asked), played.asked) == (3, 12)
    assert "no such thing" in text_of(asked[1]["messages"][-1]["content"]).split("the agent did not finish")[1]
    assert "the parent gives up" not in played.shown
    assert "`Agent` failed 3 times" in played.shown


def test_a_parent_reads_why_an_agent_in_the_background_was_ended(play: Play, request: Any) -> None:
    """The notification that such an agent is done comes with the reason beside it."""
    if request.node.callspec.params["play"] == "sdk":
        pytest.skip("the program has closed the session by then")
    step = functools.partial(delegating, background=True, times=1)
    asked = asked_by_the_parent(play([step] * 30, tools=[*TOOLS, "Agent"]))
    notified = text_of(asked[-1]["messages"][-1]["content"])
    assert "<task-notification>" in notified
    assert "no such thing" in notified.split("The agent did not finish")[1]


def test_a_broken_guard_leaves_the_session_unharmed(play: Play, tmp_path: Path, request: Any) -> None:
    """The hook has no place for its state, the callbacks' guard raises: everything runs as without loopguard."""
    (tmp_path / "state").write_text("in the way")

    def broken() -> float:
        raise RuntimeError("a bug inside the guard")

    config: Any = None
    if request.node.callspec.params["play"] == "sdk":
        from loopguard_plugin import LoopGuard, parse_settings

        config = LoopGuard(parse_settings(LOW), clock=broken)
    assert "at last" in play([*same(6, "exit 3"), "at last"], config=config).shown


def test_user_message_resets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two errors, a prompt, two errors: nothing ends; the third after it does."""
    dialogue = Dialogue([*same(2, "exit 3"), "what now?", *same(3, "exit 3"), "never said"])
    with serving(dialogue) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        options = sdk_options(tmp_path)
        attach(options)
        shown = asyncio.run(talk(options, "go", "try again"))
    assert len(dialogue.requests) == 6
    assert "what now?" in shown
    assert "never said" not in shown


def test_two_sessions_at_once_share_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions with one adapter and two errors each: neither ends."""
    dialogue = Dialogue([*same(4, "exit 3"), "done", "done"])
    adapter = Adapter()

    async def both() -> list[str]:
        options = [sdk_options(tmp_path), sdk_options(tmp_path)]
        for one in options:
            attach(one, adapter)
        return await asyncio.gather(*(talk(one, "go") for one in options))

    def shared(request: dict[str, Any]) -> Step:
        """Each session fails twice, whichever asks."""
        results = str(request["messages"]).count("tool_result'")
        return calls(bash("exit 3")) if results < 2 else "done"

    dialogue.steps[:] = [shared] * 6
    with serving(dialogue) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        shown = asyncio.run(both())
    assert all("done" in one and "The turn was ended" not in one for one in shown)
    assert adapter.calls.guard.stats().runs == 2


def test_lines_reach_the_debug_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``claude --debug`` keeps what the hook logs."""
    dialogue = Dialogue([*same(3), "done"])
    folder = tmp_path / "work"
    folder.mkdir()
    with serving(dialogue) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        played = with_hooks(dialogue, folder, LOW, True, TOOLS)
    assert "action=warn detector=generic_repeat count=2" in played.debug


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize(
    ("steps", "status", "out", "err"),
    [
        pytest.param([*same(3, "exit 3"), "never said"], 1, "", "The turn was ended", id="ended"),
        pytest.param([*same(1), "an answer"], 0, "an answer\n", "", id="answered"),
    ],
)
def test_a_script_learns_of_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[Step], status: int, out: str, err: str
) -> None:
    """The command in docs/hosts/claude-code.md gives the answer and status 0, or the reason of the end and status 1."""
    page = (Path(__file__).parents[2] / "docs" / "hosts" / "claude-code.md").read_text()
    (command,) = re.findall(r"```sh\n(claude -p.*?)\n```", page, re.DOTALL)
    ours = f"{shlex.quote(str(CLI))} --allowed-tools 'Bash(*)' --model claude-sonnet-4-5"
    command = command.replace("claude", ours, 1)
    assert loopguard(["install", "claude-code", "--yes"]) == 0
    with serving(Dialogue(steps)) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        told = subprocess.run(
            ["sh", "-c", command],
            env={**os.environ, "PROMPT": "go"},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert (told.returncode, told.stdout) == (status, out)
    assert err in told.stderr


def test_hooks_of_others_stay() -> None:
    """Callbacks that the options have already are kept, before ours."""

    async def theirs(*_: Any) -> dict[str, Any]:
        return {}

    options = ClaudeAgentOptions(hooks={"PreToolUse": [claude_agent_sdk.HookMatcher(hooks=[theirs])]})
    attach(options)
    assert options.hooks is not None
    assert [matcher.hooks[0] is theirs for matcher in options.hooks["PreToolUse"]] == [True, False]


def test_example_runs() -> None:
    """The example in the module's docstring does what it says."""
    assert doctest.testmod(host) == (0, 5)


class TestReleases(Releases):
    host = host
    package, older, newer, later_major = "claude-agent-sdk", "0.2.50", "0.99.0", "1.0.0"
    lacking = "compactions"

    def take_away(self, patch: pytest.MonkeyPatch) -> None:
        """A Claude Code that does not know one of the events."""
        known = " ".join(event for event in host.SEEN_BY if event != "PostCompact")
        folder = Path(os.environ["HOME"]) / "sdk" / "_bundled"
        folder.mkdir(parents=True)
        (folder / "claude").write_text(known)
        patch.setattr(claude_agent_sdk, "__file__", str(folder.parent / "__init__.py"))

    def ruin(self, patch: pytest.MonkeyPatch) -> None:
        """No callback can be given to the SDK."""
        patch.delattr(claude_agent_sdk, "HookMatcher")
