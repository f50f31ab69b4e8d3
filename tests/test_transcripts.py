"""Each transcript format, on small samples written for it: what is read, in which order, and how calls are paired."""

from __future__ import annotations

from pathlib import Path

import pytest
from transcribed import tell

from loopguard_plugin.events import (
    BatchCall,
    Event,
    Status,
    ToolCallSettled,
    ToolCallStarted,
)
from loopguard_plugin.transcripts import FORMATS, Placed, Source, Talks, Unreadable, detect, read

SAMPLES = Path(__file__).parent / "data" / "transcripts"


def items(name: str, form: str = "auto", agent: str | None = None) -> list[Placed | Unreadable]:
    with Source.open(str(SAMPLES / name)) as source:
        return list(read(source, Talks(agent), form))


def events(name: str) -> list[Event]:
    """The events of a sample that has nothing unreadable in it."""
    every = items(name)
    assert [item for item in every if isinstance(item, Unreadable)] == []
    return [item.event for item in every if isinstance(item, Placed)]


def told(name: str) -> list[str]:
    """A sample as one short line an event."""
    return [tell(event) for event in events(name)]


def results(name: str) -> dict[str, object]:
    """The last result of each call id."""
    return {event.call_id: event.result for event in events(name) if isinstance(event, ToolCallSettled)}


def test_openclaw_session() -> None:
    """A response is one batch; results find their calls in any order; a cut response leaves aborted calls."""
    assert told("openclaw-v3.jsonl") == [
        "turn-1 user message",
        "turn-1 start exec:0 exec 1/2",
        "turn-1 start read:1 read 2/2",
        "turn-1 settle read:1 read derived",
        "turn-1 settle exec:0 exec derived",
        "turn-1 compaction",
        "turn-2 user message",
        "turn-2 start exec:0 exec 1/1",
        "turn-2 settle exec:0 exec derived",
        "turn-2 start exec:1 exec 1/1",
        "turn-2 settle exec:1 exec aborted",
    ]


def test_openclaw_details_reach_the_guard() -> None:
    """OpenClaw writes isError false for failed tools; their details must come through, or no failure would count."""
    found = results("openclaw-v3.jsonl")["read:1"]
    assert isinstance(found, dict)
    assert found["details"] == {"status": "error", "tool": "read", "error": "no such file"}


def test_pi_session_with_glued_and_broken_lines() -> None:
    """Glued objects are both played, NaN and lone surrogates too; a broken line is reported, the rest plays."""
    every = items("pi-v1.jsonl")
    problems = [item for item in every if isinstance(item, Unreadable)]
    assert [tell(item.event) for item in every if isinstance(item, Placed)] == [
        "turn-1 user message",
        "turn-1 start t1 bash 1/1",
        "turn-1 settle t1 bash derived",
        "turn-2 user message",
        "turn-2 start t2 read 1/1",
        "turn-2 settle t2 read derived",
    ]
    assert [problem.line for problem in problems] == [5]
    assert "expected a JSON object" in problems[0].text


def test_claude_stream() -> None:
    """Blocks of one message are one batch around its results; a sub-agent is a run of its own and no user."""
    assert told("claude-stream.jsonl") == [
        "turn-0 start toolu_1 Bash 1/2",
        "turn-0 settle toolu_1 Bash error",
        "turn-0 start toolu_2 Task 2/2",
        "turn-0 settle toolu_2 Task ok",
        "turn-0 compaction",
        "turn-0 start toolu_4 Read 1/1",
        "turn-0 settle toolu_4 Read ok",
        "agent-toolu_2 start toolu_3 Grep 1/1",
        "agent-toolu_2 settle toolu_3 Grep ok",
        "turn-1 user message",
        "turn-1 start toolu_5 Read 1/1",
    ]


def test_claude_code_transcript() -> None:
    """Siblings of a failed call were skipped; text beside a result steers; an interrupt aborts; the rest is noise."""
    assert told("claude-code.jsonl") == [
        "turn-1 user message",
        "turn-1 start t1 Edit 1/2",
        "turn-1 settle t1 Edit error",
        "turn-1 start t2 Edit 2/2",
        "turn-1 settle t2 Edit skipped",
        "turn-1 start t3 Frobnicate 1/1",
        "turn-1 settle t3 Frobnicate unknown_tool",
        "sidechain-1 start t9 Glob 1/1",
        "sidechain-1 settle t9 Glob ok",
        "turn-1 user steering",
        "turn-1 compaction",
        "turn-1 start t4 Bash 1/1",
        "turn-1 settle t4 Bash aborted",
        "turn-2 user message",
        "turn-2 start t5 Bash 1/1",
        "turn-2 settle t5 Bash error",
        "turn-2 start t6 Write 1/1",
        "turn-2 settle t6 Write denied",
    ]


def test_claude_code_shell_failure_is_compared_by_exit_code_and_output() -> None:
    """A failed shell command comes in the shape that the exec rules of the contract compare."""
    assert results("claude-code.jsonl")["t5"] == {
        "status": "completed",
        "exitCode": 1,
        "aggregated": "1 failed in 0.3s",
    }


def test_codex_rollout() -> None:
    """Calls up to the first output are one batch; a user message written twice counts once; an abort settles calls."""
    assert told("codex.jsonl") == [
        "turn-1 user message",
        "turn-1 start c1 shell 1/2",
        "turn-1 start c2 shell 2/2",
        "turn-1 settle c2 shell error",
        "turn-1 settle c1 shell ok",
        "turn-1 start c3 apply_patch 1/1",
        "turn-1 settle c3 apply_patch ok",
        "turn-1 compaction",
        "turn-1 start c4 exec_command 1/1",
        "turn-1 settle c4 exec_command ok",
        "turn-1 start c5 frob 1/1",
        "turn-1 settle c5 frob unknown_tool",
        "turn-1 start c6 shell 1/1",
        "turn-1 settle c6 shell aborted",
        "turn-2 user message",
    ]


def test_codex_durations_are_not_compared() -> None:
    """Of a shell output only exit code and output remain: the duration and the chunk id change every time."""
    found = results("codex.jsonl")
    assert found["c1"] == {"status": "completed", "exitCode": 0, "aggregated": "a\n"}
    assert found["c4"] == {"status": "completed", "exitCode": 0, "aggregated": "a\n"}


def test_openai_runs_of_tau_bench() -> None:
    """Every run of the list is a session of its own; old-style functions are paired by name; Error… is an error."""
    assert told("openai-tau.json") == [
        "turn-1 user message",
        "turn-1 start call_1 get_order 1/2",
        "turn-1 start call_2 get_user 2/2",
        "turn-1 settle call_2 get_user error",
        "turn-1 settle call_1 get_order ok",
        "turn-2 user message",
        "turn-1 user message",
        "turn-1 start get_order get_order 1/1",
        "turn-1 settle get_order get_order ok",
    ]
    starts = [event for event in events("openai-tau.json") if isinstance(event, ToolCallStarted)]
    assert [start.args for start in starts] == [{"id": "#1"}, "{broken", {"id": "#2"}]
    assert {start.session_key for start in starts} == {"openai-tau.7.0", "openai-tau.8.0"}


def test_openai_mini_swe_agent() -> None:
    """A return code other than 0 is an error; the call that submitted stays open."""
    assert told("openai-mini-swe.json") == [
        "turn-1 user message",
        "turn-1 start c1 bash 1/1",
        "turn-1 settle c1 bash error",
        "turn-1 start c2 bash 1/1",
    ]
    assert results("openai-mini-swe.json")["c1"] == {"status": "completed", "exitCode": 1, "aggregated": "boom\n"}


def test_openai_mini_swe_agent_in_text_mode() -> None:
    """Without tool calls, the one block of a response is the call and the next user message its result."""
    assert told("openai-mini-swe-text.json") == [
        "turn-1 user message",
        "turn-1 start command bash 1/1",
        "turn-1 settle command bash ok",
        "turn-1 start command bash 1/1",
        "turn-1 settle command bash error",
    ]


def test_openai_lines() -> None:
    """In JSONL a line may be a list or an object with messages: each is a session."""
    found = [event for event in events("openai-lines.jsonl") if isinstance(event, ToolCallStarted)]
    assert [(start.session_key, start.args) for start in found] == [
        ("openai-lines", {"q": 1}),
        ("openai-lines#2", {"q": 2}),
    ]


def test_gemini_session() -> None:
    """Calls of one message are a batch; status and response.error tell failures; process ids are left out."""
    assert told("gemini.json") == [
        "turn-1 user message",
        "turn-1 start ls-1 list_directory 1/3",
        "turn-1 start sh-1 run_shell_command 2/3",
        "turn-1 start sh-2 run_shell_command 3/3",
        "turn-1 settle ls-1 list_directory error",
        "turn-1 settle sh-1 run_shell_command ok",
        "turn-1 settle sh-2 run_shell_command aborted",
        "turn-2 user message",
    ]
    assert results("gemini.json")["sh-1"] == {"output": "Command: ls\nOutput: a\nExit Code: 0"}


def test_swe_agent_trajectory() -> None:
    """One step is one call of the command's first word; a step without an action is none."""
    assert told("swe-agent.traj") == [
        "turn-1 user message",
        "turn-1 start step-1 open 1/1",
        "turn-1 settle step-1 open ok",
        "turn-1 start step-3 open 1/1",
        "turn-1 settle step-3 open ok",
    ]


def test_atif_document() -> None:
    """Results stand in the step of their calls, or, in one dialect, in a system step before it."""
    assert told("atif.json") == [
        "turn-1 user message",
        "turn-1 start x1 fetch 1/2",
        "turn-1 start x2 fetch 2/2",
        "turn-1 settle x1 fetch derived",
        "turn-1 settle x2 fetch derived",
        "turn-1 start x3 fetch 1/1",
        "turn-1 settle x3 fetch error",
    ]


def test_atif_lines() -> None:
    """A header line and one step a line; a command that the system ran is a call with its result."""
    assert told("atif-lines.jsonl") == [
        "turn-1 user message",
        "turn-1 start command command 1/1",
        "turn-1 settle command command error",
    ]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("events.jsonl", "events"),
        ("openclaw-v3.jsonl", "openclaw"),
        ("pi-v1.jsonl", "openclaw"),
        ("claude-stream.jsonl", "claude-stream"),
        ("claude-code.jsonl", "claude-code"),
        ("codex.jsonl", "codex"),
        ("openai-tau.json", "openai-chat"),
        ("openai-mini-swe.json", "openai-chat"),
        ("openai-mini-swe-text.json", "openai-chat"),
        ("openai-lines.jsonl", "openai-chat"),
        ("gemini.json", "gemini"),
        ("swe-agent.traj", "swe-agent"),
        ("atif.json", "atif"),
        ("atif-lines.jsonl", "atif"),
    ],
)
def test_format_is_told_by_content(name: str, form: str) -> None:
    """Looking at the content finds the format, and naming the format reads the same."""
    with Source.open(str(SAMPLES / name)) as source:
        assert detect(source) == form
    assert repr(items(name, form)) == repr(items(name))  # by text: a NaN does not equal itself


@pytest.mark.parametrize("form", FORMATS)
def test_foreign_content_never_raises(form: str) -> None:
    """Whatever reader is named for whatever file, it yields events or problems and does not raise."""
    for sample in sorted(SAMPLES.iterdir()):
        for item in items(sample.name, form):
            assert isinstance(item, (Placed, Unreadable))


def test_agent_is_named_by_the_caller() -> None:
    """The agent asked for stands in every event that names none itself."""
    for sample in sorted(SAMPLES.iterdir()):
        found = items(sample.name, agent="ana")
        assert {item.event.agent_id for item in found if isinstance(item, Placed)} == {"ana"}


def test_same_session_twice_is_two_sessions() -> None:
    """A resumed session begins with a copy of the old one: played together, nothing may count twice."""
    talks = Talks()
    keys = []
    for _ in range(2):
        with Source.open(str(SAMPLES / "openclaw-v3.jsonl")) as source:
            keys.append({item.event.session_key for item in read(source, talks) if isinstance(item, Placed)})
    assert keys == [{"claw-1"}, {"claw-1#2"}]


def test_equal_ids_are_paired_with_the_nearest_open_call() -> None:
    """Ids repeat: a result belongs to the newest response that asked, inside it to the first call still open."""
    talk = Talks().open("s")
    talk.asked([BatchCall("call", "old")])
    talk.asked([BatchCall("call", "first"), BatchCall("call", "second")])
    answered = [talk.settled("call", result=None, status=Status.OK).tool for _ in range(4)]
    assert answered == ["first", "second", "old", "tool"]
