"""Messages of model providers, frameworks and evaluations, on small inputs written here."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from transcribed import arguments, document, events, format_of, items, lines, results, told

from loopguard_plugin.transcripts import Placed

USE = {"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}}
ANTHROPIC: list[dict[str, object]] = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": [{"type": "text", "text": "."}, USE, {**USE, "id": "b"}]},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
            {"type": "tool_result", "tool_use_id": "a", "content": "x"},
            {"type": "text", "text": "<environment_details>now</environment_details>"},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s",
                "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
            },
            {**USE, "id": "c"},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c", "content": "x"},
            {"type": "text", "text": "and hurry"},
        ],
    },
]
ANTHROPIC_TOLD = [
    "turn-1 user message",
    "turn-1 start a read 1/2",
    "turn-1 start b read 2/2",
    "turn-1 settle b read error",
    "turn-1 settle a read ok",
    "turn-1 start s web_search 1/2",
    "turn-1 start c read 2/2",
    "turn-1 settle s web_search error",
    "turn-1 settle c read ok",
    "turn-1 user steering",
]


def test_anthropic_messages(tmp_path: Path) -> None:
    """A list, an object that holds one and JSON lines read the same; what a program adds to results is no user."""
    ways = [
        document(tmp_path / "list.json", ANTHROPIC),
        document(tmp_path / "held.json", {"model": "m", "messages": ANTHROPIC}),
        lines(tmp_path / "lines.jsonl", *ANTHROPIC),
        lines(tmp_path / "whole.jsonl", {"messages": ANTHROPIC}),
    ]
    for path in ways:
        assert format_of(path) == "anthropic", path
        assert told(path) == ANTHROPIC_TOLD, path


def test_each_line_that_holds_messages_is_a_session(tmp_path: Path) -> None:
    """In JSON lines, and in a list, every object with messages is a conversation of its own."""
    held = [{"id": "x", "messages": ANTHROPIC}, {"messages": ANTHROPIC}]
    for path in (lines(tmp_path / "s.jsonl", *held), document(tmp_path / "s.json", held)):
        assert {event.session_key for event in events(path)} == {"x", "s"}


RESPONSES: list[dict[str, object]] = [
    {"role": "user", "content": "go"},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "a", "name": "read", "arguments": '{"p": 1}'},
    {"type": "function_call", "call_id": "b", "name": "read", "arguments": "{broken"},
    {"type": "function_call_output", "call_id": "a", "output": "x"},
    {"type": "function_call_output", "call_id": "b", "output": "failed to parse"},
    {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "mcp_call", "id": "m", "name": "find", "arguments": "{}", "error": "down"},
    {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "+x"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
]
RESPONSES_TOLD = [
    "turn-1 user message",
    "turn-1 start a read 1/2",
    "turn-1 start b read 2/2",
    "turn-1 settle a read ok",
    "turn-1 settle b read error",
    "turn-1 start w web_search 1/1",
    "turn-1 settle w web_search ok",
    "turn-1 start m find 1/1",
    "turn-1 settle m find error",
    "turn-1 start c patch 1/1",
    "turn-1 settle c patch ok",
]


def test_openai_responses(tmp_path: Path) -> None:
    """Items play from a list, from lines, from a request with its response; a web search has no result to compare."""
    ways = [
        document(tmp_path / "list.json", RESPONSES),
        lines(tmp_path / "lines.jsonl", *RESPONSES),
        document(tmp_path / "both.json", {"input": RESPONSES[:1], "output": RESPONSES[1:]}),
    ]
    for path in ways:
        assert format_of(path) == "openai-responses", path
        assert told(path) == RESPONSES_TOLD, path
    assert arguments(ways[0]) == [{"p": 1}, "{broken", {"type": "search", "query": "q"}, {}, {"input": "+x"}]


def test_gemini_contents(tmp_path: Path) -> None:
    """Functions without ids are paired by name, equal ones in the order of their calls."""
    call = {"functionCall": {"name": "read", "args": {"p": 1}}}
    contents = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"text": "."}, call, call]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "read", "response": {"output": "x"}}},
                {"functionResponse": {"name": "read", "response": {"error": "no"}}},
            ],
        },
    ]
    for path in (document(tmp_path / "c.json", contents), document(tmp_path / "h.json", {"contents": contents})):
        assert format_of(path) == "gemini-contents"
        assert told(path) == [
            "turn-1 user message",
            "turn-1 start read read 1/2",
            "turn-1 start read read 2/2",
            "turn-1 settle read read ok",
            "turn-1 settle read read error",
        ]


def test_pydantic_ai(tmp_path: Path) -> None:
    """A retry prompt is a failure of its call; one without a tool is a word of the library to the model."""
    call = {"part_kind": "tool-call", "tool_name": "read", "args": '{"p": 1}', "tool_call_id": "a"}
    messages = [
        {"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "x"}, {"part_kind": "user-prompt"}]},
        {"kind": "response", "parts": [call, {**call, "tool_call_id": "b", "args": {"p": 2}}]},
        {
            "kind": "request",
            "parts": [
                {"part_kind": "tool-return", "tool_name": "read", "content": "x", "tool_call_id": "a"},
                {"part_kind": "retry-prompt", "tool_name": "read", "content": "no", "tool_call_id": "b"},
            ],
        },
        {"kind": "request", "parts": [{"part_kind": "retry-prompt", "content": "plain text is not allowed"}]},
    ]
    path = document(tmp_path / "m.json", messages)
    assert format_of(path) == "pydantic-ai"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a read 1/2",
        "turn-1 start b read 2/2",
        "turn-1 settle a read ok",
        "turn-1 settle b read error",
    ]
    assert arguments(path) == [{"p": 1}, {"p": 2}]


@pytest.mark.parametrize("way", ["dict", "dumped", "plain"])
def test_langchain(way: str, tmp_path: Path) -> None:
    """The three ways in which the library writes a message read the same."""

    def message(kind: str, **fields: object) -> dict[str, object]:
        if way == "dict":
            return {"type": kind, "data": fields}
        if way == "plain":
            return {"type": kind, **fields}
        name = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}[kind]
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": fields}

    calls = [{"id": "a", "name": "read", "args": {"p": 1}}]
    invalid = [{"id": "b", "name": "read", "args": "{broken", "error": "x"}]
    messages = [
        message("human", content="go"),
        message("ai", content="", tool_calls=calls, invalid_tool_calls=invalid),
        message("tool", content="x", tool_call_id="a", name="read"),
        message("tool", content="no", tool_call_id="b", name="read", status="error"),
    ]
    path = document(tmp_path / "m.json", messages)
    assert format_of(path) == "langchain"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a read 1/2",
        "turn-1 start b read 2/2",
        "turn-1 settle a read ok",
        "turn-1 settle b read error",
    ]


def test_openhands_server(tmp_path: Path) -> None:
    """Actions of one model response are one batch; thoughts do not identify a call; agent states are no calls."""

    def action(number: int, name: str, response: str, **args: object) -> dict[str, object]:
        metadata = {"function_name": f"do_{name}", "model_response": {"id": response}}
        return {"id": number, "source": "agent", "action": name, "args": args, "tool_call_metadata": metadata}

    session = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "go"}},
        action(1, "run", "m1", command="ls", thought="hm"),
        action(2, "read", "m1", path="p"),
        {
            "id": 3,
            "source": "agent",
            "observation": "run",
            "cause": 1,
            "content": "x",
            "extras": {"metadata": {"exit_code": 2}},
        },
        {"id": 4, "source": "agent", "observation": "error", "cause": 2, "content": "no", "extras": {}},
        {"id": 5, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
        {"id": 6, "source": "agent", "action": "finish", "args": {}},
    ]
    path = document(tmp_path / "s.json", session)
    assert format_of(path) == "openhands"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start 1 do_run 1/2",
        "turn-1 start 2 do_read 2/2",
        "turn-1 settle 1 do_run error",
        "turn-1 settle 2 do_read error",
    ]
    assert arguments(path)[0] == {"command": "ls"}
    assert results(path)["1"] == {"status": "completed", "exitCode": 2, "aggregated": "x"}


def test_openhands_sdk(tmp_path: Path) -> None:
    """Events of the agent SDK: actions share the id of their response, errors and rejections answer them too."""

    def action(name: str, response: str) -> dict[str, object]:
        args = {"kind": "TerminalAction", "command": "ls"}
        fields = {"kind": "ActionEvent", "source": "agent", "tool_name": "terminal", "action": args}
        return {**fields, "tool_call_id": name, "llm_response_id": response}

    done = {"kind": "TerminalObservation", "content": [{"type": "text", "text": "x"}], "exit_code": 0}
    path = lines(
        tmp_path / "e.jsonl",
        {"kind": "MessageEvent", "source": "user", "llm_message": {}},
        action("a", "r1"),
        action("b", "r1"),
        {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "a", "observation": done},
        {"kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "b", "error": "no"},
        {"kind": "Condensation", "source": "environment"},
        action("c", "r2"),
        {"kind": "UserRejectObservation", "source": "environment", "tool_call_id": "c", "rejection_reason": "no"},
    )
    assert format_of(path) == "openhands"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a terminal 1/2",
        "turn-1 start b terminal 2/2",
        "turn-1 settle a terminal ok",
        "turn-1 settle b terminal error",
        "turn-1 compaction",
        "turn-1 start c terminal 1/1",
        "turn-1 settle c terminal denied",
    ]
    assert arguments(path)[0] == {"command": "ls"}


SAMPLE: dict[str, object] = {
    "id": 7,
    "epoch": 1,
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "a", "function": "bash", "arguments": {"cmd": "ls"}},
                {"id": "b", "type": "function", "function": {"name": "bash", "arguments": '{"cmd": "ls"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "function": "bash", "content": "x"},
        {"role": "tool", "tool_call_id": "b", "content": "", "error": {"type": "timeout", "message": "late"}},
    ],
}


def test_inspect_log(tmp_path: Path) -> None:
    """A log reads the same as a document and as an archive; every sample and epoch is a session."""
    log = document(
        tmp_path / "log.json", {"version": 2, "eval": {"task": "t"}, "samples": [SAMPLE, {**SAMPLE, "epoch": 2}]}
    )
    packed = tmp_path / "log.eval"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/7_epoch_1.json", json.dumps(SAMPLE))
        archive.writestr("samples/7_epoch_2.json", json.dumps({**SAMPLE, "epoch": 2}))
    for path in (log, packed):
        assert format_of(path) == "inspect"
        assert told(path) == 2 * [
            "turn-1 user message",
            "turn-1 start a bash 1/2",
            "turn-1 start b bash 2/2",
            "turn-1 settle a bash ok",
            "turn-1 settle b bash error",
        ]
        assert {event.session_key for event in events(path)} == {"log.7.1", "log.7.2"}
    assert results(log)["b"] == "late"


def test_inspect_sample_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample longer than the limit is told and not unpacked; the next one plays."""
    monkeypatch.setattr("loopguard_plugin.transcripts.inspect_log.LONGEST", 1 << 20)
    packed = tmp_path / "log.eval"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/1.json", json.dumps({"messages": [{"role": "user", "content": "x" * (2 << 20)}]}))
        archive.writestr("samples/2.json", json.dumps(SAMPLE))
    first, *rest = items(packed)
    assert str(first).count("samples/1.json is longer than 1 MiB") == 1
    assert [isinstance(item, Placed) for item in rest] == [True] * 5


def test_browser_use(tmp_path: Path) -> None:
    """The actions of a step are a batch; those without a result were skipped; the state of the page is no result."""
    step = {
        "model_output": {"action": [{"click": {"index": 7}}, {"input": {"text": "x"}}, {"done": None}]},
        "result": [{"extracted_content": "ok"}, {"error": "gone"}],
        "state": {"url": "http://x/?t=1"},
    }
    path = document(tmp_path / "h.json", {"history": [step, {"model_output": None, "result": [{"error": "x"}]}]})
    assert format_of(path) == "browser-use"
    assert told(path) == [
        "turn-0 start step-1.1 click 1/3",
        "turn-0 start step-1.2 input 2/3",
        "turn-0 start step-1.3 action 3/3",
        "turn-0 settle step-1.1 click ok",
        "turn-0 settle step-1.2 input error",
        "turn-0 settle step-1.3 action skipped",
    ]


def attribute(key: str, **value: object) -> dict[str, object]:
    return {"key": key, "value": value}


NAMED = {"name": "grep", "call.id": "a"}


def span(number: int, start: int, end: int, *more: object, **fields: object) -> dict[str, object]:
    attributes = [attribute("gen_ai.operation.name", stringValue="execute_tool"), *more]
    times = {"startTimeUnixNano": str(start), "endTimeUnixNano": str(end)}
    return {
        "traceId": "t",
        "spanId": str(number),
        "name": "execute_tool read",
        "attributes": attributes,
        **times,
        **fields,
    }


def test_opentelemetry_spans(tmp_path: Path) -> None:
    """Spans play by their start; those that overlap are one batch; one without a recorded result settles too."""
    args = attribute("gen_ai.tool.call.arguments", stringValue='{"p": 1}')
    spans = [
        span(3, 90, 95, args, status={"code": 2, "message": "down"}),
        span(2, 15, 30, args, attribute("gen_ai.tool.call.result", stringValue="x")),
        span(1, 10, 20, *(attribute(f"gen_ai.tool.{key}", stringValue=value) for key, value in NAMED.items())),
        {"traceId": "t", "spanId": "0", "name": "chat m", "attributes": [], "startTimeUnixNano": "1"},
    ]
    path = document(tmp_path / "t.json", {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    assert format_of(path) == "otel"
    assert told(path) == [
        "turn-0 start a grep 1/2",
        "turn-0 start 2 read 2/2",
        "turn-0 settle a grep ok",
        "turn-0 settle 2 read derived",
        "turn-0 start 3 read 1/1",
        "turn-0 settle 3 read error",
    ]
    assert arguments(path) == [None, {"p": 1}, {"p": 1}]


def test_langfuse_export(tmp_path: Path) -> None:
    """Tool observations are calls, of a session where the trace has one."""

    def observation(name: str, start: str, **more: object) -> dict[str, object]:
        times = {"startTime": f"2026-01-01T00:00:{start}Z", "endTime": f"2026-01-01T00:00:{start}.5Z"}
        return {"id": name, "traceId": "t", "type": "TOOL", "name": "read", "input": {"p": 1}, **times, **more}

    found = [
        observation("b", "20", level="ERROR", statusMessage="down"),
        observation("a", "10", output="x", level="DEFAULT"),
        {"id": "g", "traceId": "t", "type": "GENERATION", "name": "chat"},
    ]
    ways = [
        document(tmp_path / "o.json", found),
        document(tmp_path / "d.json", {"data": found}),
        lines(tmp_path / "o.jsonl", *found),
    ]
    for path in ways:
        assert format_of(path) == "otel"
        assert told(path) == [
            "turn-0 start a read 1/1",
            "turn-0 settle a read derived",
            "turn-0 start b read 1/1",
            "turn-0 settle b read error",
        ]


def test_atif_results_without_ids(tmp_path: Path) -> None:
    """Results without ids belong to the calls of their step; copied steps are not new; sub-agents are runs."""
    step = {
        "source": "agent",
        "message": [{"type": "text", "text": "."}],
        "tool_calls": [{"tool_call_id": "a", "function_name": "bash", "arguments": {"c": "ls"}}],
        "observation": {"results": [{"content": "x"}]},
    }
    inner = {"trajectory_id": "sub", "agent": {}, "steps": [{**step, "step_id": 1}]}
    steps = [{"source": "user", "message": "go"}, {**step, "is_copied_context": True}, step]
    path = document(
        tmp_path / "a.json",
        {"schema_version": "ATIF-v1.7", "agent": {"name": "x"}, "steps": steps, "subagent_trajectories": [inner]},
    )
    assert format_of(path) == "atif"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a bash 1/1",
        "turn-1 settle a bash derived",
        "sub start a bash 1/1",
        "sub settle a bash derived",
    ]


@pytest.mark.parametrize(
    "message",
    [
        'Here: {"analysis": "x", "commands": [{"keystrokes": "ls\\n"}, {"keystrokes": "a < b\\n"}], "done": false}',
        '<commands><keystrokes duration="1">ls\n</keystrokes><keystrokes>a &lt; b\n</keystrokes></commands>',
    ],
    ids=["JSON", "XML"],
)
def test_atif_of_terminus(message: str, tmp_path: Path) -> None:
    """Commands inside the message are calls, and the one screen is what came of all of them."""
    step = {"step_id": 1, "source": "agent", "message": message, "observation": {"results": [{"content": "$"}]}}
    trajectory = {"schema_version": "ATIF-v1.5", "agent": {"name": "terminus-2"}, "steps": [step]}
    path = document(tmp_path / "t.json", trajectory)
    assert arguments(path) == [{"keystrokes": "ls\n"}, {"keystrokes": "a < b\n"}]
    assert results(path) == {"keys-0": "$", "keys-1": "$"}


@pytest.mark.parametrize(
    "answer",
    [
        "<returncode>\n0\n</returncode>\n<output>\nsame\n</output>",
        "<returncode>0</returncode>\n<warning>long</warning>\n<output_head>same</output_head>",
        "Observation: same",
    ],
)
def test_mini_swe_text_of_all_ages(answer: str, tmp_path: Path) -> None:
    """Older and longer answers of the text mode settle the command before them."""
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "x\n\n```bash\nls\n```"},
        {"role": "user", "content": answer},
    ]
    assert told(document(tmp_path / "m.json", messages)) == [
        "turn-1 user message",
        "turn-1 start command bash 1/1",
        "turn-1 settle command bash ok",
    ]


@pytest.mark.parametrize(
    "reply",
    [
        {"content": "Please always provide EXACTLY ONE action in triple backticks, found 2 actions."},
        {"content": "Format error:\n<error>none</error>"},
        {"content": "anything", "extra": {"interrupt_type": "FormatError"}},
    ],
)
def test_mini_swe_format_error_is_no_user(reply: dict[str, object], tmp_path: Path) -> None:
    """What the program says of a response without exactly one action opens no run; a timeout is a failed command."""
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "```bash\nls\n```"},
        {"role": "user", "content": "<returncode>1</returncode>\n<output>\nx\n</output>"},
        {"role": "assistant", "content": "```bash\nls\n```\n```bash\npwd\n```"},
        {"role": "user", **reply},
        {"role": "assistant", "content": "```bash\nls\n```"},
        {"role": "user", "content": "The last command <command>ls</command> timed out and has been killed."},
    ]
    assert told(document(tmp_path / "m.json", messages)) == [
        "turn-1 user message",
        "turn-1 start command bash 1/1",
        "turn-1 settle command bash error",
        "turn-1 start command bash 1/1",
        "turn-1 settle command bash error",
    ]


def test_codex_web_search(tmp_path: Path) -> None:
    """A search that the provider ran is a call of its own; the rollout holds no results, so two are taken to differ."""
    search = {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}}
    path = lines(
        tmp_path / "r.jsonl",
        {"type": "event_msg", "payload": {"type": "user_message", "message": "go"}},
        {"type": "response_item", "payload": search},
        {"type": "response_item", "payload": search},
    )
    assert told(path) == [
        "turn-1 user message",
        *(2 * ["turn-1 start w web_search 1/1", "turn-1 settle w web_search ok"]),
    ]


def test_codex_app_server_in_an_envelope(tmp_path: Path) -> None:
    """Notifications behind a comment and inside an envelope play; the comment is no broken line."""
    item = {"type": "commandExecution", "id": "c", "command": "ls", "status": "completed", "exitCode": 0}
    path = tmp_path / "n.jsonl"
    envelope = [
        {"workspace_id": "w", "message": {"method": method, "params": {"threadId": "t", "item": item}}}
        for method in ("item/started", "item/completed")
    ]
    path.write_text("# recorded by hand\n" + "".join(json.dumps(one) + "\n" for one in envelope))
    assert format_of(path) == "codex-app-server"
    assert told(path) == ["turn-0 start c shell 1/1", "turn-0 settle c shell ok"]


CLAUDE: list[dict[str, object]] = [
    {"type": "user", "message": {"role": "user", "content": "go"}},
    {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [USE]}},
    {
        "type": "user",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    },
]


@pytest.mark.parametrize("value", [CLAUDE, {"loglines": CLAUDE}], ids=["list", "loglines"])
def test_claude_code_in_one_document(value: object, tmp_path: Path) -> None:
    """Exports that hold the lines as a list read as the transcript does."""
    path = document(tmp_path / "c.json", value)
    assert format_of(path) == "claude-code"
    assert told(path) == ["turn-1 user message", "turn-1 start a read 1/1", "turn-1 settle a read ok"]


@pytest.mark.parametrize(("trigger", "armed"), [("auto", 1), ("manual", 0)])
def test_compaction_by_hand_does_not_arm_the_guard(trigger: str, armed: int, tmp_path: Path) -> None:
    """Only a compaction that the agent goes on from is one in the sense of the contract."""
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "sessionId": "s",
        "compactMetadata": {"trigger": trigger},
    }
    transcript = lines(tmp_path / "t.jsonl", *({**line, "sessionId": "s"} for line in CLAUDE), boundary)
    streamed = {
        "type": "system",
        "subtype": "compact_boundary",
        "session_id": "s",
        "compact_metadata": {"trigger": trigger},
    }
    stream = lines(tmp_path / "s.jsonl", *({**line, "session_id": "s"} for line in CLAUDE), streamed)
    for path in (transcript, stream):
        assert sum("compaction" in line for line in told(path)) == armed
