"""``loopguard-hook`` as Claude Code runs it: one process an event, JSON in and out, state in a file between them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from xxhash import xxh3_64_hexdigest

import loopguard_plugin
from loopguard_plugin.cli import main as loopguard
from loopguard_plugin.hosts import claude_hook
from loopguard_plugin.hosts._claude_state import State

PACKAGE = Path(loopguard_plugin.__file__).parent
START = PACKAGE / "hosts" / "_claude_start.py"
EVENT = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_use_id": "c", "tool_name": "Read"}
LOW = {"tools": {"loopDetection": {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}}}


class Claude:
    """Speaks to the hook as Claude Code does, for one session."""

    def __init__(self, folder: Path, session: str = "s", config: object = None) -> None:
        self.folder = folder
        self.session = session
        self.transcript = folder / f"{session}.jsonl"
        self.results: set[str] = set()
        self.arguments: list[str] = []
        if config is not None:
            file = folder / f"{session}.json5"
            file.write_text(json.dumps(config))
            self.arguments = ["--config", str(file)]
        self.log = ""
        self.number = 0

    def say(self, event: str, **fields: Any) -> dict[str, Any]:
        """One event; the hook's answer."""
        common = {"session_id": self.session, "transcript_path": str(self.transcript), "prompt_id": "p1"}
        told = self.run(json.dumps({**common, "hook_event_name": event, **fields}))
        assert told.returncode == 0
        self.log += told.stderr
        return json.loads(told.stdout) if told.stdout else {}

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "loopguard_plugin.hosts.claude_hook", *self.arguments],
            input=text,
            env={**os.environ, "LOOPGUARD_STATE_DIR": str(self.folder / "state")},
            capture_output=True,
            text=True,
        )

    def prompt(self, text: str = "go", prompt_id: str = "p1") -> dict[str, Any]:
        return self.say("UserPromptSubmit", prompt=text, prompt_id=prompt_id)

    def write(self, *calls: tuple[str, str, Any]) -> None:
        """The model's response arrives in the transcript, ``(call_id, tool, input)``."""
        self.number += 1
        with self.transcript.open("a") as file:
            for call_id, tool, args in calls:
                block = {"type": "tool_use", "id": call_id, "name": tool, "input": args}
                message = {"id": f"msg_{self.number}", "role": "assistant", "content": [block]}
                file.write(json.dumps({"type": "assistant", "message": message}) + "\n")

    def result(self, call_id: str, text: str, *, is_error: bool = False) -> None:
        """A result arrives in the transcript, if there is one."""
        if self.transcript.exists():
            self.results.add(call_id)
            block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}
            with self.transcript.open("a") as file:
                file.write(json.dumps({"type": "user", "message": {"role": "user", "content": [block]}}) + "\n")

    def start(self, call_id: str, tool: str = "Read", args: Any = None, **more: Any) -> dict[str, Any]:
        return self.say("PreToolUse", tool_name=tool, tool_input=args or {"p": 1}, tool_use_id=call_id, **more)

    def end(self, *calls: tuple[str, str, Any, Any], **more: Any) -> dict[str, Any]:
        """All tools of the response are done: ``(call_id, tool, input, response)``."""
        names = ("tool_use_id", "tool_name", "tool_input", "tool_response")
        for call_id, _, _, response in calls:
            if call_id not in self.results:
                self.result(call_id, str(response))
        return self.say("PostToolBatch", tool_calls=[dict(zip(names, call, strict=True)) for call in calls], **more)

    def turn(self, call_id: str, tool: str = "Read", args: Any = None, response: Any = "same") -> dict[str, Any]:
        """One call that runs and works; what the hook says at its end, or its refusal."""
        args = args or {"p": 1}
        self.write((call_id, tool, args))
        refused = self.start(call_id, tool, args)
        if refused:
            self.end((call_id, tool, args, refused["hookSpecificOutput"]["permissionDecisionReason"]))
            return refused
        return self.end((call_id, tool, args, response))

    def failure(self, call_id: str, tool: str, args: Any, error: str) -> dict[str, Any]:
        """One call that runs and fails."""
        self.write((call_id, tool, args))
        refused = self.start(call_id, tool, args)
        assert not refused
        self.say("PostToolUseFailure", tool_use_id=call_id, tool_name=tool, tool_input=args, error=error)
        return self.end((call_id, tool, args, error))

    def state(self) -> list[Path]:
        folder = self.folder / "state"
        return sorted(folder.iterdir()) if folder.exists() else []


def decision(output: dict[str, Any]) -> Any:
    return output.get("hookSpecificOutput", {}).get("permissionDecision")


def test_note_block_and_end(tmp_path: Path) -> None:
    """Counts outlive the processes: a note, then a refusal, then the end of the turn with its reason."""
    claude = Claude(tmp_path, config=LOW)
    claude.prompt()
    assert [claude.turn(f"c{n}") for n in range(2)] == [{}, {}]
    noted = claude.turn("c2")["hookSpecificOutput"]
    assert noted["hookEventName"] == "PostToolBatch"
    assert "Read (c2)" in noted["additionalContext"]
    refused = claude.turn("c3")
    assert decision(refused) == "deny"
    assert "continue" not in refused
    ended = claude.turn("c4")
    assert ended["continue"] is False
    assert "Read" in ended["stopReason"]
    assert "action=warn" in claude.log
    assert "action=end_turn" in claude.log


def test_whole_batch_is_judged_at_its_first_call(tmp_path: Path) -> None:
    """Where the transcript has the response, a harmless call before the looping one does not run either."""
    claude = Claude(tmp_path, config=LOW)
    for n in range(3):
        claude.turn(f"c{n}")
    claude.write(("a", "Write", {"q": 1}), ("b", "Read", {"p": 1}))
    assert decision(claude.start("a", "Write", {"q": 1})) == "deny"
    assert decision(claude.start("b")) == "deny"


def test_without_the_transcript_calls_are_judged_one_by_one(tmp_path: Path) -> None:
    """The call before the looping one was allowed and cannot be recalled; those after it are refused."""
    claude = Claude(tmp_path, config=LOW)
    for n in range(3):
        claude.turn(f"c{n}")
    claude.transcript.unlink()
    assert claude.start("a", "Write", {"q": 1}) == {}
    assert decision(claude.start("b")) == "deny"
    assert decision(claude.start("d", "Write", {"q": 2})) == "deny"


def test_three_identical_errors_end_the_turn(tmp_path: Path) -> None:
    """A failing command ends the turn at the third time; the label that the model gives it does not matter."""
    claude = Claude(tmp_path)
    error = "Exit code 3\nno such thing"
    outs = [claude.failure(f"c{n}", "Bash", {"command": "x", "description": f"try {n}"}, error) for n in range(3)]
    assert outs[:2] == [{}, {}]
    assert outs[2]["continue"] is False
    assert "no such thing" in outs[2]["systemMessage"]


@pytest.mark.parametrize(
    "response",
    [
        "<tool_use_error>Error: No such tool available: Nope</tool_use_error>",
        "<tool_use_error>InputValidationError: Nope failed due to the following issue</tool_use_error>",
    ],
)
def test_calls_that_never_started_count(tmp_path: Path, response: str) -> None:
    """Unknown tools and invalid arguments are seen in the batch alone, and end the turn at the third time."""
    claude = Claude(tmp_path)
    outs = [claude.end((f"c{n}", "Nope", {}, response)) for n in range(3)]
    assert [out.get("continue") for out in outs] == [None, None, False]


def test_a_tool_cannot_say_that_it_was_cancelled(tmp_path: Path) -> None:
    """The word of a result alone keeps no call from being counted: the third equal one ends the turn."""
    claude = Claude(tmp_path)
    said = "<tool_use_error>Cancelled: parallel tool call Bash errored</tool_use_error>"
    outs = [claude.turn(f"c{n}", "mcp__x__y", {"a": 1}, said) for n in range(3)]
    assert [out.get("continue") for out in outs] == [None, None, False]


def test_a_call_that_was_cancelled_beside_a_failure_is_no_failure(tmp_path: Path) -> None:
    """Claude Code cancels the rest of a response when one of it fails: that neither counts nor breaks the row."""
    claude = Claude(tmp_path)
    said = "<tool_use_error>Cancelled: parallel tool call Bash(x) errored</tool_use_error>"
    outs = []
    for n in range(3):
        calls = [(f"a{n}", "Bash", {"command": "x"}), (f"b{n}", "Read", {"p": 1})]
        claude.write(*calls)
        for call in calls:
            claude.start(*call)
        claude.say("PostToolUseFailure", tool_use_id=f"a{n}", tool_name="Bash", tool_input={}, error="Exit code 1")
        outs.append(claude.end((*calls[0], "Exit code 1"), (*calls[1], said)))
    assert [out.get("continue") for out in outs] == [None, None, False]
    assert "`Bash`" in outs[2]["stopReason"]


def test_a_denied_call_is_told_by_the_transcript(tmp_path: Path) -> None:
    """A result that is marked as an error, of a call that no hook saw fail, was denied: it counts."""
    claude = Claude(tmp_path)
    outs = []
    for n in range(3):
        call_id = f"c{n}"
        claude.write((call_id, "Bash", {"command": "x"}))
        claude.start(call_id, "Bash", {"command": "x"})
        claude.result(call_id, "not today", is_error=True)
        outs.append(claude.end((call_id, "Bash", {"command": "x"}, "not today")))
    assert [out.get("continue") for out in outs] == [None, None, False]


def test_user_message_resets(tmp_path: Path) -> None:
    """Two errors, a prompt, two errors: nothing ends; a background task's notice is no prompt."""
    claude = Claude(tmp_path)
    fail = ("Bash", {"command": "x"}, "Exit code 1")
    assert not any(claude.failure(f"a{n}", *fail) for n in range(2))
    claude.prompt(prompt_id="p2")
    assert not any(claude.failure(f"b{n}", *fail) for n in range(2))
    claude.prompt("<task-notification>done</task-notification>")
    assert claude.failure("b2", *fail)["continue"] is False


def test_a_late_transcript_is_waited_for(tmp_path: Path) -> None:
    """Claude Code writes its transcript now and then: what comes within a moment counts."""
    claude = Claude(tmp_path, config=LOW)
    for n in range(3):
        claude.turn(f"c{n}")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(claude.start, "a", "Write", {"q": 1})
        time.sleep(0.12)
        claude.write(("a", "Write", {"q": 1}), ("b", "Read", {"p": 1}))
        assert decision(first.result()) == "deny"


def test_loop_after_compaction_ends(tmp_path: Path) -> None:
    """After an automatic compaction three identical calls end the turn; after one by hand they do not."""
    claude = Claude(tmp_path)
    claude.say("PostCompact", trigger="manual")
    assert not any(claude.turn(f"a{n}") for n in range(4))
    claude.say("PostCompact", trigger="auto")
    outs = [claude.turn(f"b{n}") for n in range(3)]
    assert [out.get("continue") for out in outs] == [None, None, False]


@pytest.mark.parametrize("written", [True, False], ids=["transcript", "no transcript"])
def test_parallel_hooks_of_one_response(tmp_path: Path, written: bool) -> None:
    """Ten hooks at once lose no call; with the transcript the calls count in model order whoever comes first."""
    claude = Claude(tmp_path, config={"tools": {"loopDetection": {"enabled": True}}})
    calls = [(f"c{n}", "Read", {"p": 1}) for n in range(10)]
    if written:
        claude.write(*calls)
    with ThreadPoolExecutor(5) as pool:
        assert not any(pool.map(lambda call: claude.start(*call), reversed(calls)))
    claude.end(*[(*call, "same") for call in calls])
    noted = claude.turn("last")["hookSpecificOutput"]["additionalContext"]
    assert "10" in noted


def test_model_order_of_errors(tmp_path: Path) -> None:
    """Error then success in the response: the success is last and resets, though its hook and its end came first."""
    claude = Claude(tmp_path)
    bad, good = ("bad", "Bash", {"command": "x"}), ("good", "Read", {"p": 1})
    claude.write(bad, good)
    claude.start(*good)
    claude.start(*bad)
    claude.say("PostToolUseFailure", tool_use_id="bad", tool_name="Bash", tool_input=bad[2], error="Exit code 1")
    claude.end((*bad, "Exit code 1"), (*good, "fine"))
    assert not any(claude.failure(f"c{n}", "Bash", {"command": "x"}, "Exit code 1") for n in range(2))


def test_sessions_and_sub_agents_share_nothing(tmp_path: Path) -> None:
    """Two errors in each of two sessions, and two in a sub-agent of one of them, end nothing."""
    first, second = Claude(tmp_path, "a"), Claude(tmp_path, "b")
    for claude in (first, second):
        assert not any(claude.failure(f"c{n}", "Bash", {"command": "x"}, "Exit code 1") for n in range(2))
    who = {"agent_id": "sub", "agent_type": "Explore"}
    for n in range(2):
        first.start(f"s{n}", "Bash", {"command": "x"}, **who)
        first.say("PostToolUseFailure", tool_use_id=f"s{n}", tool_name="Bash", error="Exit code 1", **who)
        assert first.end((f"s{n}", "Bash", {"command": "x"}, "Exit code 1"), **who) == {}


def test_an_interrupted_call_is_no_failure(tmp_path: Path) -> None:
    """What the user stopped neither counts nor resets."""
    claude = Claude(tmp_path)
    for n in range(4):
        claude.start(f"c{n}", "Bash", {"command": "x"})
        claude.say("PostToolUseFailure", tool_use_id=f"c{n}", tool_name="Bash", error="stopped", is_interrupt=True)
        assert claude.end((f"c{n}", "Bash", {"command": "x"}, "stopped")) == {}


def test_state_is_small_private_and_goes_with_the_session(tmp_path: Path) -> None:
    """One file that holds no arguments and no results, readable by its owner; none after the session."""
    claude = Claude(tmp_path, config={"tools": {"loopDetection": {"enabled": True}}})
    for n in range(15):
        claude.turn(f"c{n}", args={"p": f"secret {n}"}, response=f"hidden {n}")
    (file,) = claude.state()
    data = file.read_bytes()
    assert len(data) < 8_000
    assert b"secret" not in data
    assert b"hidden" not in data
    assert file.stat().st_mode & 0o077 == 0
    claude.say("SessionEnd", reason="other")
    assert claude.state() == []


@pytest.mark.parametrize("damage", [b"", b"junk", b"\x93\x01\xc4\x03abc\x80", b"\x93\x63\xc4\x00\x80"])
def test_a_damaged_state_is_forgotten(tmp_path: Path, damage: bytes) -> None:
    """Counting starts again, and works."""
    claude = Claude(tmp_path)
    claude.turn("c0")
    (file,) = claude.state()
    file.write_bytes(damage)
    outs = [claude.failure(f"f{n}", "Bash", {"command": "x"}, "Exit code 1") for n in range(3)]
    assert [out.get("continue") for out in outs] == [None, None, False]


@pytest.mark.parametrize("text", ["", "junk", "[]", "{}", '{"hook_event_name": "PreToolUse", "tool_input": 5}'])
def test_nonsense_passes(tmp_path: Path, text: str) -> None:
    """Whatever comes in, the hook exits 0 and says nothing: Claude Code goes on."""
    told = Claude(tmp_path).run(text)
    assert (told.returncode, told.stdout) == (0, "")


def test_without_a_place_for_state_it_passes(tmp_path: Path) -> None:
    """A state directory that cannot be made leaves Claude Code unharmed, and the log says why."""
    (tmp_path / "state").write_text("in the way")
    claude = Claude(tmp_path)
    assert claude.start("c0") == {}
    assert "passed the event on" in claude.log


def test_wrong_settings_are_told_to_the_user(tmp_path: Path) -> None:
    """Nobody must believe to be guarded: the user hears it with each message, and nothing else is said."""
    claude = Claude(tmp_path, config={"tools": {"loopDetection": {"histroySize": 1}}})
    assert "histroySize" in claude.prompt()["systemMessage"]
    assert claude.start("c0") == {}


def test_a_plugin_that_is_off_says_nothing(tmp_path: Path) -> None:
    """``plugins.entries.loopguard.enabled: false`` passes everything and keeps nothing."""
    claude = Claude(tmp_path, config={"plugins": {"entries": {"loopguard": {"enabled": False}}}})
    assert not any(claude.failure(f"c{n}", "Bash", {"command": "x"}, "Exit code 1") for n in range(4))
    assert claude.state() == []


def test_a_long_transcript_is_read_from_its_end(tmp_path: Path) -> None:
    """Megabytes before the response, or within it, hide none of its calls."""
    claude = Claude(tmp_path, config=LOW)
    for n in range(3):
        claude.turn(f"c{n}")
    claude.transcript.write_text(json.dumps({"type": "user", "message": {"content": "x" * 3_000_000}}) + "\n")
    claude.write(("a", "Write", {"text": "y" * 1_000_000}), ("b", "Read", {"p": 1}))
    assert decision(claude.start("a", "Write", {"text": "y" * 1_000_000})) == "deny"


def test_a_text_cut_inside_an_emoji_counts(tmp_path: Path) -> None:
    """Lone surrogates in results, arguments, ids and the transcript are everyday: the third failure ends the turn."""
    claude = Claude(tmp_path, session="s\ud83d")
    claude.transcript = tmp_path / "s.jsonl"
    args, error = {"command": "false \ud83d"}, "Exit code 1\nboom \ud83d"
    assert claude.failure("c1\ud83d", "Bash", args, error) == {}
    assert claude.failure("c2\ud83d", "Bash", args, error) == {}
    ended = claude.failure("c3\ud83d", "Bash", args, error)
    assert ended["continue"] is False
    assert "boom \ud83d" in ended["stopReason"]
    assert "failed inside" not in claude.log


def test_a_response_with_huge_numbers_is_still_one_batch(tmp_path: Path) -> None:
    """What msgspec does not read (``1e309``, 5,000 digits) stands in the transcript, too, and hides no sibling."""
    claude = Claude(tmp_path, config=LOW)
    for n in range(3):
        claude.turn(f"c{n}")
    claude.write(("a", "Write", "HUGE"), ("b", "Read", {"p": 1}))
    text = claude.transcript.read_text()
    claude.transcript.write_text(text.replace('"HUGE"', '{"q": [1e309, ' + "7" * 5000 + "]}"))
    assert decision(claude.start("a", "Write", {"q": 1})) == "deny"


@pytest.mark.parametrize("text", ["[]", "null", "7", '"x"'])
def test_what_is_no_event_is_passed(tmp_path: Path, text: str) -> None:
    """JSON that is no object is told in the log and nothing else happens."""
    told = Claude(tmp_path).run(text)
    assert (told.returncode, told.stdout) == (0, "")
    assert "the event is not a JSON object" in told.stderr


def test_an_event_nested_too_deeply_is_told(tmp_path: Path) -> None:
    """The limit is the one that holds everywhere, and the log names it."""
    told = Claude(tmp_path).run(json.dumps(EVENT)[:-1] + ', "tool_input": ' + "[" * 1000 + "]" * 1000 + "}")
    assert (told.returncode, told.stdout) == (0, "")
    assert "nested more than 1000 levels deep" in told.stderr


def state_file(claude: Claude) -> Path:
    """Where the session's state is to be; its directory is made."""
    folder = claude.folder / "state"
    folder.mkdir(exist_ok=True)
    return folder / f"{xxh3_64_hexdigest(claude.session.encode())}.state"


@pytest.mark.skipif(os.name == "nt", reason="links need rights of their own there")
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_links_in_the_place_of_the_state_are_not_followed(tmp_path: Path, link: str, exists: bool) -> None:
    """In a directory that others may write to, nobody else's file is overwritten, or made, through our name."""
    claude, victim = Claude(tmp_path), tmp_path / "theirs"
    if link == "hardlink_to" and not exists:
        pytest.skip("a hard link leads to a file")
    if exists:
        victim.write_text("precious")
    getattr(state_file(claude), link)(victim)
    assert claude.start("c1") == {}
    assert "passed the event on unjudged" in claude.log
    assert (victim.read_text() if victim.exists() else None) == ("precious" if exists else None)


@pytest.mark.skipif(os.name == "nt", reason="no pipes by name there")
def test_only_plain_files_are_read(tmp_path: Path) -> None:
    """A pipe or a directory as transcript or as state is not waited for; the event passes."""
    claude = Claude(tmp_path)
    for make in (os.mkfifo, os.mkdir):
        make(claude.transcript)
        assert claude.start("c1") == {}
        claude.transcript.rmdir() if claude.transcript.is_dir() else claude.transcript.unlink()
    assert claude.log == ""
    file = state_file(claude)
    file.unlink()
    os.mkfifo(file)
    assert claude.start("c2") == {}
    assert "not a plain file" in claude.log


@pytest.mark.parametrize("path", [7, "a\0b", "", "/dev/zero"])
def test_a_transcript_that_is_no_file_is_none(tmp_path: Path, path: object) -> None:
    """Whatever stands in the place of the path, the call is judged without its siblings."""
    claude = Claude(tmp_path)
    assert claude.start("c1", transcript_path=path) == {}
    assert claude.log == ""
    assert len(claude.state()) == 1


def test_a_sub_agent_cannot_name_another_file(tmp_path: Path) -> None:
    """Its transcript is looked for beside the session's; an id that would lead elsewhere has none."""
    from loopguard_plugin.hosts._claude_transcript import _file

    path = str(tmp_path / "s.jsonl")
    assert _file(path, "s", "a1") == str(tmp_path / "s" / "subagents" / "agent-a1.jsonl")
    assert _file(path, "s", "../../x") is None
    assert _file(path, "../s", "a1") is None
    assert _file(path, "..", "a1") is None


@pytest.mark.skipif(os.name == "nt", reason="no modes there")
@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_directories_are_for_the_user_alone(tmp_path: Path, umask: int) -> None:
    """Whatever the umask, each directory that is made has mode 0700 and the file 0600; others stay as they are."""
    (tmp_path / "home").mkdir(mode=0o755)
    folder = tmp_path / "home" / ".local" / "state" / "loopguard"
    code = f"import os; os.umask({umask}); from loopguard_plugin.hosts.claude_hook import main; main()"
    env = {**os.environ, "LOOPGUARD_STATE_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", code], input=json.dumps(EVENT), env=env, text=True, check=True)
    (file,) = folder.iterdir()
    made = [folder, folder.parent, folder.parent.parent]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700] * 3
    assert file.stat().st_mode & 0o177 == 0
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o755


def test_a_relative_state_directory_is_made(tmp_path: Path) -> None:
    """``LOOPGUARD_STATE_DIR`` may be relative to where Claude Code runs."""
    env = {**os.environ, "LOOPGUARD_STATE_DIR": "a/b"}
    subprocess.run([sys.executable, START], input=json.dumps(EVENT), env=env, cwd=tmp_path, text=True, timeout=30)
    assert len(list((tmp_path / "a" / "b").iterdir())) == 1


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The hook's own function, for more events than processes are worth; gives its answer."""
    monkeypatch.setenv("LOOPGUARD_STATE_DIR", str(tmp_path / "state"))

    def say(event: str, **fields: Any) -> Any:
        payload = {"session_id": "s", "prompt_id": "p", "hook_event_name": event, **fields}
        return claude_hook._answer(json.dumps(payload).encode(), [])

    return say


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / "state").iterdir())


def test_prompts_do_not_pile_up(tmp_path: Path, inside: Callable[..., Any]) -> None:
    """A session of hundreds of prompts keeps the newest; the file and the time of an event stop growing."""
    sizes = []
    for n in range(400):
        inside("UserPromptSubmit", prompt_id=f"p{n}", prompt="go")
        inside("PreToolUse", prompt_id=f"p{n}", tool_use_id=f"c{n}", tool_name="Bash", tool_input={"n": n})
        done = {"tool_use_id": f"c{n}", "tool_name": "Bash", "tool_response": "ok"}
        inside("PostToolBatch", prompt_id=f"p{n}", tool_calls=[done])
        sizes.append(size(tmp_path))
    assert sizes[-1] < 1.05 * sizes[300] < 20_000


def test_calls_that_never_settle_do_not_pile_up(tmp_path: Path, inside: Callable[..., Any]) -> None:
    """Starts without an end, refused ones and failures included, are kept up to a bound; a loop is still stopped."""
    for n in range(900):
        inside("PreToolUse", tool_use_id=f"call number {n}", tool_name="Bash", tool_input={"n": n})
        inside("PostToolUseFailure", tool_use_id=f"call number {n}", tool_name="Bash", error="x")
        if n == 600:
            before = size(tmp_path)
    assert size(tmp_path) < before + 30_000
    for n in range(3):
        call = {"tool_use_id": f"x{n}", "tool_name": "Bash", "tool_input": {"a": 1}}
        inside("PreToolUse", **call)
        inside("PostToolUseFailure", **call, error="boom")
        ended = inside("PostToolBatch", tool_calls=[{**call, "tool_response": "boom"}])
    assert ended["continue"] is False


def test_long_names_are_kept_short_and_apart(tmp_path: Path, inside: Callable[..., Any]) -> None:
    """Ids of megabytes take no more than 512 characters each in the state, and still tell calls apart."""
    long = "x" * 1_000_000
    for end in "ab":
        call = {"tool_use_id": f"{long}{end}", "tool_name": "Read", "tool_input": {"p": end}}
        inside("PreToolUse", prompt_id=f"{long}{end}", **call)
    state = msgspec.msgpack.decode(next((tmp_path / "state").iterdir()).read_bytes(), type=State)
    (first, second) = state.books
    assert len(first) == len(second) == 512
    assert first != second
    assert [len(call) for book in state.books.values() for call in book.started] == [512, 512]


def test_what_is_for_debugging_is_not_logged(tmp_path: Path) -> None:
    """Of calls that never settle the log tells once, not with every batch."""
    claude = Claude(tmp_path)
    for n in range(5):
        claude.start(f"c{n}", "Bash", {"n": n})
        claude.end((f"d{n}", "Bash", {"n": n}, "ok"))
    assert claude.log.count("never settled") == 0
    assert claude.log.count("had not settled") <= 1


def python(code: str, folder: Path, text: str = "") -> str:
    """What a program says on standard error."""
    env = {**os.environ, "LOOPGUARD_STATE_DIR": str(folder / "state")}
    told = subprocess.run([sys.executable, "-c", code], input=text, env=env, capture_output=True, text=True, check=True)
    return told.stderr


def test_the_hook_loads_only_what_it_needs(tmp_path: Path) -> None:
    """No log library, no event loop, no reader of settings where there are none, no inspect where nobody inspects."""
    code = (
        "import atexit, sys\n"
        "before = set(sys.modules)\n"
        "new = lambda: [m for name, m in sys.modules.items() if name not in before and getattr(m, '__spec__', None)]\n"
        "atexit.register(lambda: print(*[module.__name__ for module in new()], file=sys.stderr))\n"
        f"sys.path.insert(0, {str(START.parent)!r})\n"
        "import _claude_start"
    )
    loaded = set(python(code, tmp_path, json.dumps(EVENT)).split())
    assert "loopguard_plugin.core.guard" in loaded
    assert not loaded & {"anyio", "asyncio", "logging", "loguru", "threading"}
    assert not loaded & {"argparse", "difflib", "pathlib", "pyjson5", "loopguard_plugin.settings_reader"}
    assert not loaded & {"ast", "dis", "inspect", "msgspec.inspect", "textwrap", "tokenize", "typing_extensions"}
    assert sys.platform != "linux" or "platform" not in loaded


@pytest.mark.parametrize(
    "use",
    [
        "import dataclasses; assert dataclasses.make_dataclass('Point', [('x', int)]).__doc__ == 'Point(x: int)'",
        "import inspect; assert inspect.signature(lambda x: x).parameters",
        "from inspect import signature; assert signature(lambda x: x).parameters",
        "import inspect; inspect.Signature; import inspect as again; assert again.__file__",
    ],
)
def test_a_module_that_is_put_off_is_there_when_it_is_used(tmp_path: Path, use: str) -> None:
    """The stand-in for ``inspect`` loads nothing by itself, and gives the real module's names to whoever asks."""
    put_off = "from loopguard_plugin.hosts._claude_late import Late, put_off; put_off('inspect'); import sys; "
    python(put_off + "assert type(sys.modules['inspect']) is Late; assert 'dis' not in sys.modules", tmp_path)
    python(put_off + use + "; assert type(sys.modules['inspect']) is not Late", tmp_path)


def test_a_module_that_is_put_off_may_have_something_given(tmp_path: Path) -> None:
    """What is given is answered without loading; the rest, and what does not exist, as the module itself does."""
    code = (
        "from loopguard_plugin.hosts._claude_late import Late, put_off; import sys\n"
        "put_off('platform', system=lambda: 'this')\n"
        "import platform\n"
        "assert platform.system() == 'this' and type(sys.modules['platform']) is Late\n"
        "assert platform.python_version() and not hasattr(platform, 'nothing')\n"
        "real = sys.modules['platform']\n"
        "put_off('platform')\n"
        "assert sys.modules['platform'] is real and type(real) is not Late"
    )
    python(code, tmp_path)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package without bytecode, in a folder of its own."""
    copy = tmp_path / "site" / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def compiled(package: Path) -> set[str]:
    return {file.name.partition(".")[0] for file in package.rglob("*.pyc")}


@pytest.mark.parametrize("command", [["hosts/_claude_start.py"], ["-m", "loopguard_plugin.hosts.claude_hook"]])
def test_bytecode_is_written_whatever_the_shell_says(copy: Path, command: list[str]) -> None:
    """``PYTHONDONTWRITEBYTECODE`` would have the package compiled for every event."""
    env = {**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    env["LOOPGUARD_STATE_DIR"] = str(copy.parents[1] / "state")
    env.pop("PYTHONPYCACHEPREFIX", None)
    subprocess.run([sys.executable, *command], cwd=copy, input=json.dumps(EVENT), env=env, text=True, check=True)
    assert {"events", "guard", "settings", "_claude"} <= compiled(copy)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Claude Code's settings file, with a hook and a setting of somebody else."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    file = tmp_path / "settings.json"
    other = {"matcher": "Bash", "hooks": [{"type": "command", "command": "their-hook"}]}
    file.write_text(json.dumps({"model": "opus", "hooks": {"PreToolUse": [other]}}, indent=2) + "\n")
    return file


def install(*more: str) -> int:
    return loopguard(["install", "claude-code", *more])


def commands(file: Path, event: str) -> list[str]:
    found = json.loads(file.read_text()).get("hooks", {}).get(event, [])
    return [hook["command"] for matcher in found for hook in matcher["hooks"]]


def test_install_merges_and_undo_takes_out(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our hooks come beside theirs, twice makes no second one, and undo leaves the file as it was."""
    before = settings.read_text()
    assert install("--yes") == 0
    assert commands(settings, "PreToolUse")[0] == "their-hook"
    assert "loopguard-hook" in commands(settings, "PreToolUse")[1]
    assert "loopguard-hook" in commands(settings, "PostToolBatch")[0]
    assert "+" in capsys.readouterr().out
    assert install("--yes") == 0
    assert len(commands(settings, "PreToolUse")) == 2
    assert install("--undo", "--yes") == 0
    assert settings.read_text() == before
    assert install("--undo", "--yes") == 0


def test_install_compiles_the_package(settings: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first hook is as fast as the others; what cannot be compiled is no reason to fail."""
    monkeypatch.setattr("loopguard_plugin.cli.install.PACKAGE", copy)
    monkeypatch.setattr("sys.pycache_prefix", None)
    (copy / "broken.py").write_text("def")
    assert install("--print") == 0
    assert not compiled(copy)
    assert install("--yes") == 0
    assert {"events", "guard", "settings", "claude_hook"} <= compiled(copy)


def test_install_asks_first(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a yes nothing is written: not where nobody can be asked, nor after a no."""
    before = settings.read_text()
    assert install() == 1
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert install() == 1
    assert settings.read_text() == before
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert install() == 0
    assert settings.read_text() != before


def test_install_prints_the_block(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--print`` is the block that would be merged, and changes nothing."""
    before = settings.read_text()
    assert install("--print") == 0
    block = json.loads(capsys.readouterr().out)
    assert "PostToolBatch" in block["hooks"]
    assert settings.read_text() == before


def test_install_changes_its_config(settings: Path, tmp_path: Path) -> None:
    """Another ``--config`` takes the place of the one before; one that cannot be used is refused at once."""
    good, bad = tmp_path / "good.json5", tmp_path / "bad.json5"
    good.write_text("{}")
    bad.write_text("{tools: {loopDetection: {histroySize: 1}}}")
    assert install("--yes") == 0
    assert install("--yes", "--config", str(good)) == 0
    assert commands(settings, "PreToolUse")[1].endswith(f"--config {good}")
    assert len(commands(settings, "PreToolUse")) == 2
    assert install("--yes", "--config", str(bad)) == 2
    assert commands(settings, "PreToolUse")[1].endswith(f"--config {good}")


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}'])
def test_install_leaves_files_that_it_does_not_understand(settings: Path, text: str) -> None:
    """What Claude Code itself would not take is left alone."""
    settings.write_text(text)
    assert install("--yes") == 1
    assert settings.read_text() == text


def test_install_makes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no settings yet, there are some afterwards; a link stays a link."""
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "settings.json").symlink_to(real)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "linked"))
    assert install("--yes") == 0
    assert "loopguard-hook" in real.read_text()
    assert (tmp_path / "linked" / "settings.json").is_symlink()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "new"))
    assert install("--yes") == 0
    assert "loopguard-hook" in commands(tmp_path / "new" / "settings.json", "PreToolUse")[0]


def test_the_installed_command_runs(settings: Path, tmp_path: Path) -> None:
    """The very command that was written answers an event."""
    assert install("--yes") == 0
    told = subprocess.run(
        commands(settings, "PreToolUse")[1],
        shell=True,
        input=json.dumps(EVENT),
        env={**os.environ, "LOOPGUARD_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    assert len(list((tmp_path / "state").iterdir())) == 1
