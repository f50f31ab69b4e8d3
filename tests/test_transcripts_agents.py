"""The sessions that coding agents keep, on small inputs written here: what is read of each, and in which order."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from transcribed import arguments, document, events, format_of, items, lines, results, told

from loopguard_plugin.transcripts import Source, Talks, Unreadable, read


def called(name: str, **more: object) -> dict[str, object]:
    """A call as Gemini CLI records it."""
    response = {"output": "x"} if "error" not in more else {"error": more["error"]}
    result = [{"functionResponse": {"id": name, "name": "grep", "response": response}}]
    return {"id": name, "name": "grep", "args": {"q": 1}, "status": "success", "result": result} | more


def test_gemini_lines(tmp_path: Path) -> None:
    """A message that grew counts once, as it was last; what follows a rewind is a run of its own."""
    path = lines(
        tmp_path / "s.jsonl",
        {"sessionId": "g", "projectHash": "h", "kind": "main"},
        {"id": "1", "type": "user", "content": [{"text": "go"}]},
        {"id": "2", "type": "gemini", "content": ""},
        {"id": "2", "type": "gemini", "content": "", "toolCalls": [called("a", status="executing")]},
        {
            "id": "2",
            "type": "gemini",
            "content": "",
            "toolCalls": [called("a"), called("b", status="error", error="no")],
        },
        {"$set": {"lastUpdated": "t"}},
        {"$set": {"messages": [{"id": "2", "type": "gemini", "toolCalls": [called("a")]}]}},
        {"$rewindTo": "2"},
        {"id": "3", "type": "gemini", "content": "", "toolCalls": [called("c", status="cancelled")]},
        {"id": "4", "type": "user", "content": [{"text": "thanks"}]},
    )
    assert format_of(path) == "gemini"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a grep 1/2",
        "turn-1 start b grep 2/2",
        "turn-1 settle a grep ok",
        "turn-1 settle b grep error",
        "turn-2 start c grep 1/1",
        "turn-2 settle c grep aborted",
        "turn-3 user message",
    ]
    assert {event.session_key for event in events(path)} == {"g"}
    assert [item.line for item in items(path)] == [2, 5, 5, 5, 5, 9, 9, 10]  # where each message was told last


ROUNDS = {
    "toolCallRounds": [
        {
            "toolCalls": [
                {"id": "a", "name": "read", "arguments": '{"p": 1}'},
                {"id": "b", "name": "grep", "arguments": ""},
            ]
        },
        {"toolCalls": []},
    ],
    "toolCallResults": {"a": {"content": [{"value": "text"}]}},
}
TOLD = {
    "kind": "toolInvocationSerialized",
    "toolId": "run",
    "toolCallId": "t",
    "invocationMessage": {"value": "Running ls"},
}


def request(**more: object) -> dict[str, object]:
    return {"requestId": "r", "message": {"text": "go"}, "response": [TOLD], **more}


def test_vscode_chat(tmp_path: Path) -> None:
    """Rounds are told with arguments and results; without them, what the user saw stands for the arguments."""
    denied = {**TOLD, "toolCallId": "d", "isConfirmed": {"type": 0}}
    done = {**TOLD, "toolCallId": "e", "resultDetails": {"input": "ls", "output": ["a"], "isError": True}}
    chat = {
        "responderUsername": "GitHub Copilot",
        "requests": [request(result={"metadata": ROUNDS}), request(response=[TOLD, {"value": "text"}, denied, done])],
    }
    path = document(tmp_path / "chat.json", chat)
    assert format_of(path) == "copilot-vscode"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a read 1/2",
        "turn-1 start b grep 2/2",
        "turn-1 settle a read derived",
        "turn-1 settle b grep ok",
        "turn-2 user message",
        "turn-2 start t run 1/1",
        "turn-2 settle t run ok",
        "turn-2 start d run 1/1",
        "turn-2 settle d run denied",
        "turn-2 start e run 1/1",
        "turn-2 settle e run error",
    ]
    assert arguments(path)[0] == {"p": 1}
    assert arguments(path)[2] == {"invocationMessage": {"value": "Running ls"}}


def test_vscode_journal(tmp_path: Path) -> None:
    """A journal plays as the chat that it adds up to; a line that changes what is not there changes nothing."""
    path = lines(
        tmp_path / "chat.jsonl",
        {"kind": 0, "v": {"sessionId": "v", "responderUsername": "GitHub Copilot", "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [request(response=[])]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [TOLD]},
        {"kind": 1, "k": ["requests", 0, "result"], "v": {"metadata": ROUNDS}},
        {"kind": 1, "k": ["requests", 7, "result"], "v": {}},
        {"kind": 2, "k": ["requests", 0, "response"], "i": 0, "v": []},
    )
    assert format_of(path) == "copilot-vscode"
    assert [line for line in told(path) if "start" in line] == ["turn-1 start a read 1/2", "turn-1 start b grep 2/2"]
    assert {event.session_key for event in events(path)} == {"v"}


def test_copilot_cli(tmp_path: Path) -> None:
    """A call is told by its message, its start and its end, and counts once; a sub-agent is a run of its own."""

    def line(kind: str, agent: str | None = None, **data: object) -> dict[str, Any]:
        return {"type": kind, "data": data, "id": "e"} | ({"agentId": agent} if agent else {})

    def call(name: str) -> dict[str, Any]:
        return {"toolCallId": name, "toolName": "bash", "arguments": {"command": "ls"}}

    path = lines(
        tmp_path / "events.jsonl",
        line("session.start", sessionId="c"),
        line("user.message", content="go"),
        line("user.message", content="x", source="skill-pdf"),
        line("assistant.message", toolRequests=[{"toolCallId": "a", "name": "view", "arguments": {}}]),
        line("tool.execution_start", toolCallId="a", toolName="view", arguments={}),
        line("tool.execution_start", agent="sub", **call("s")),
        line("tool.execution_complete", agent="sub", toolCallId="s", success=True, result={"content": "x"}),
        line("tool.execution_complete", toolCallId="a", success=True, result={"content": "x", "detailedContent": "y"}),
        line("session.compaction_start", trigger="threshold"),
        line("session.compaction_complete", success=True),
        line("session.compaction_start", trigger="manual"),
        line("session.compaction_complete", success=True),
        line("tool.user_requested", **call("u")),
        line("tool.execution_start", **call("u")),
        line("tool.execution_complete", toolCallId="u", success=True),
        line("tool.execution_start", **call("b")),
        line("tool.execution_complete", toolCallId="b", success=False, error={"message": "no"}),
        line("user.message", content="also", delivery="steering"),
        line("user.message", content="go on", isAutopilotContinuation=True),
        line("session.snapshot_rewind", upToEventId="e", eventsRemoved=1),
        line("tool.execution_start", **call("c")),
        line("abort", reason="user"),
    )
    assert format_of(path) == "copilot-cli"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a view 1/1",
        "agent-sub start s bash 1/1",
        "agent-sub settle s bash ok",
        "turn-1 settle a view ok",
        "turn-1 compaction",
        "turn-1 start b bash 1/1",
        "turn-1 settle b bash error",
        "turn-1 user steering",
        "turn-2 start c bash 1/1",
        "turn-2 settle c bash aborted",
    ]
    assert results(path)["a"] == "x"
    assert results(path)["b"] == {"message": "no"}


def test_cursor_transcript(tmp_path: Path) -> None:
    """The transcript holds no results: no two of its calls ended alike, as far as anybody knows."""
    call = {"type": "tool_use", "name": "Grep", "input": {"q": "x"}}
    path = lines(
        tmp_path / "t.jsonl",
        {"role": "user", "message": {"content": [{"type": "text", "text": "go"}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "."}, call, call]}},
        {"role": "assistant", "message": {"content": [call]}},
    )
    assert format_of(path) == "cursor"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start call-1 Grep 1/2",
        "turn-1 start call-2 Grep 2/2",
        "turn-1 settle call-1 Grep ok",
        "turn-1 settle call-2 Grep ok",
        "turn-1 start call-3 Grep 1/1",
        "turn-1 settle call-3 Grep ok",
    ]
    assert len({str(result) for result in results(path).values()}) == 3


def test_cursor_database(tmp_path: Path) -> None:
    """Messages come in the order of their chat; calls of one response share the id of the model's call."""

    def bubble(place: str, **call: object) -> tuple[str, str]:
        return f"bubbleId:chat:{place}", json.dumps({"type": 2, "toolFormerData": call})

    order = {"fullConversationHeadersOnly": [{"bubbleId": name} for name in ("u", "a", "b", "c", "gone", "d")]}
    rows = [
        bubble("d", name="grep", status="loading", modelCallId="n"),
        bubble("b", name="run", toolCallId="b", rawArgs='{"c": "ls"}', result="x", status="cancelled", modelCallId="m"),
        ("composerData:chat", json.dumps(order)),
        ("bubbleId:chat:u", json.dumps({"type": 1, "text": "go"})),
        bubble(
            "a", name="read", toolCallId="a", params='{"p": 1}', result='{"t": 1}', status="completed", modelCallId="m"
        ),
        bubble("c", name="run", toolCallId="c", rawArgs="{}", error="no", status="error", modelCallId="k"),
    ]
    path = tmp_path / "state.vscdb"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)")
        database.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
    database.close()
    assert format_of(path) == "cursor-db"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a read 1/2",
        "turn-1 start b run 2/2",
        "turn-1 settle a read derived",
        "turn-1 settle b run aborted",
        "turn-1 start c run 1/1",
        "turn-1 settle c run error",
        "turn-1 start call-6 grep 1/1",
    ]
    assert results(path)["a"] == {"t": 1}


def tool(name: str, **state: object) -> dict[str, object]:
    """A call as opencode keeps it."""
    return {
        "type": "tool",
        "callID": name,
        "tool": "bash",
        "messageID": "m",
        "state": {"input": {"command": "ls"}, **state},
    }


DONE = {"status": "completed", "output": "x", "metadata": {"exit": 0}}
OPENCODE: list[dict[str, object]] = [
    {"info": {"role": "user"}, "parts": [{"type": "text", "text": "go"}]},
    {
        "info": {"role": "assistant"},
        "parts": [
            {"type": "step-start"},
            tool("a", **DONE),
            tool("b", status="error", error="no"),
            {"type": "step-start"},
            tool("c", status="completed", output="x", metadata={"exit": 2}),
            tool("d", status="running"),
        ],
    },
    {"info": {"role": "user"}, "parts": [{"type": "compaction", "auto": False}]},
    {"info": {"role": "user"}, "parts": [{"type": "compaction", "auto": True}]},
    {"info": {"role": "user"}, "parts": [{"type": "text", "text": "go on", "synthetic": True}]},
]
OPENCODE_TOLD = [
    "turn-1 user message",
    "turn-1 start a bash 1/2",
    "turn-1 start b bash 2/2",
    "turn-1 settle a bash ok",
    "turn-1 settle b bash error",
    "turn-1 start c bash 1/2",
    "turn-1 start d bash 2/2",
    "turn-1 settle c bash error",
    "turn-1 compaction",
]


def test_opencode_export(tmp_path: Path) -> None:
    """The calls of a step are one batch; a running call stays open; a compaction by hand does not arm the guard."""
    path = document(tmp_path / "e.json", {"info": {"id": "ses"}, "messages": OPENCODE})
    assert format_of(path) == "opencode"
    assert told(path) == OPENCODE_TOLD
    assert results(path)["a"] == {"status": "completed", "exitCode": 0, "aggregated": "x"}
    assert {event.session_key for event in events(path)} == {"ses"}


def test_opencode_database(tmp_path: Path) -> None:
    """The database plays as the export of its sessions does."""
    path = tmp_path / "opencode.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE session (id TEXT)")
        database.execute("CREATE TABLE message (id TEXT, session_id TEXT, data TEXT)")
        database.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
        for number, message in enumerate(OPENCODE):
            name = f"msg_{number}"
            database.execute("INSERT INTO message VALUES (?, 'ses', ?)", (name, json.dumps(message["info"])))
            parts = message["parts"]
            assert isinstance(parts, list)
            for place, part in enumerate(parts):
                row = (f"prt_{number}_{place}", name, json.dumps(part))
                database.execute("INSERT INTO part VALUES (?, ?, 'ses', ?)", row)
    database.close()
    assert format_of(path) == "opencode-db"
    assert told(path) == OPENCODE_TOLD


def test_opencode_stream(tmp_path: Path) -> None:
    """Calls that end within one step were one batch; the stream holds no prompt."""
    path = lines(
        tmp_path / "run.jsonl",
        {"type": "step_start", "sessionID": "s", "part": {"type": "step-start"}},
        {"type": "tool_use", "sessionID": "s", "part": tool("a", **DONE)},
        {"type": "tool_use", "sessionID": "s", "part": tool("b", **DONE)},
        {"type": "step_finish", "sessionID": "s", "part": {"type": "step-finish"}},
        {"type": "tool_use", "sessionID": "s", "part": tool("c", **DONE)},
    )
    assert format_of(path) == "opencode"
    assert [line for line in told(path) if "start" in line] == [
        "turn-0 start a bash 1/2",
        "turn-0 start b bash 2/2",
        "turn-0 start c bash 1/1",
    ]


def qwen(kind: str, *parts: object, **more: object) -> dict[str, object]:
    return {
        "uuid": "u",
        "parentUuid": None,
        "sessionId": "q",
        "type": kind,
        "message": {"role": "x", "parts": [*parts]},
    } | more


def test_qwen_code(tmp_path: Path) -> None:
    """Qwen's lines look like Claude Code's and hold Gemini contents; a compression that was asked for arms nothing."""
    call = {"functionCall": {"id": "a", "name": "read", "args": {"p": 1}}}
    answer = {"functionResponse": {"id": "a", "name": "read", "response": {"output": "x"}}}
    system = {"uuid": "u", "sessionId": "q", "type": "system"}
    path = lines(
        tmp_path / "q.jsonl",
        qwen("user", {"text": "go"}, message={"role": "user", "parts": [{"text": "go"}]}),
        qwen("assistant", call),
        qwen("tool_result", answer, toolCallResult={"callId": "a", "status": "error"}),
        {**system, "subtype": "chat_compression"},
        {**system, "subtype": "slash_command", "systemPayload": {"rawCommand": "/compress"}},
        {**system, "subtype": "chat_compression"},
        qwen("user", {"text": "also"}, subtype="mid_turn_user_message"),
    )
    assert format_of(path) == "qwen"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a read 1/1",
        "turn-1 settle a read error",
        "turn-1 compaction",
        "turn-1 user steering",
    ]


def test_droid(tmp_path: Path) -> None:
    """Droid's lines look like OpenClaw's and hold Anthropic messages; what Droid writes itself is no user."""

    def message(role: str, *blocks: object) -> dict[str, object]:
        return {"type": "message", "id": "m", "message": {"role": role, "content": [*blocks]}}

    path = lines(
        tmp_path / "d.jsonl",
        {"type": "session_start", "id": "d", "title": "t"},
        message("user", {"type": "text", "text": "<system-reminder>x</system-reminder>"}),
        message("user", {"type": "text", "text": "go"}),
        message("assistant", {"type": "tool_use", "id": "a", "name": "Read", "input": {}}),
        message("user", {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}),
        {"type": "compaction_state"},
    )
    assert format_of(path) == "droid"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a Read 1/1",
        "turn-1 settle a Read error",
        "turn-1 compaction",
    ]
    assert {event.session_key for event in events(path)} == {"d"}


GOOSE = [
    {"role": "user", "content": [{"type": "text", "text": "go"}]},
    {
        "role": "assistant",
        "content": [
            {
                "type": "toolRequest",
                "id": "a",
                "toolCall": {"status": "success", "value": {"name": "shell", "arguments": {}}},
            },
            {"type": "toolRequest", "id": "b", "toolCall": {"status": "error", "error": "bad"}},
            {
                "type": "toolRequest",
                "id": "c",
                "toolCall": {"status": "success", "value": {"name": "edit", "arguments": {}}},
            },
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "toolResponse", "id": "a", "toolResult": {"status": "error", "error": "no"}},
            {
                "type": "toolResponse",
                "id": "c",
                "toolResult": {"status": "success", "value": {"content": [], "isError": True}},
            },
        ],
    },
]
GOOSE_TOLD = [
    "turn-1 user message",
    "turn-1 start a shell 1/3",
    "turn-1 start b  2/3",
    "turn-1 start c edit 3/3",
    "turn-1 settle b  rejected",
    "turn-1 settle a shell error",
    "turn-1 settle c edit error",
]


def test_goose(tmp_path: Path) -> None:
    """A request that could not be read was rejected; a result may fail in two ways."""
    path = lines(tmp_path / "g.jsonl", {"working_dir": "/p", "description": "x", "message_count": 3}, *GOOSE)
    assert format_of(path) == "goose"
    assert told(path) == GOOSE_TOLD


def test_goose_database(tmp_path: Path) -> None:
    """The database of newer versions holds the same messages."""
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT)"
        )
        rows = [(message["role"], json.dumps(message["content"])) for message in GOOSE]
        database.executemany("INSERT INTO messages (session_id, role, content_json) VALUES ('s', ?, ?)", rows)
    database.close()
    assert format_of(path) == "goose-db"
    assert told(path) == GOOSE_TOLD


def test_kimi(tmp_path: Path) -> None:
    """Arguments may come in parts; calls up to the first result are one batch; a sub-agent is a run of its own."""

    def wire(kind: str, **payload: object) -> dict[str, object]:
        return {"timestamp": 1.0, "message": {"type": kind, "payload": payload}}

    def call(name: str, text: str) -> dict[str, object]:
        return {"type": "function", "id": name, "function": {"name": "Shell", "arguments": text}}

    ok = {"is_error": False, "output": "x"}
    path = lines(
        tmp_path / "wire.jsonl",
        {"type": "metadata", "protocol_version": "1.3"},
        wire("TurnBegin", user_input="go"),
        wire("StepBegin", n=1),
        wire("ToolCall", **call("a", '{"c": ')),
        wire("ToolCallPart", arguments_part='"ls"}'),
        wire("ToolCall", **call("b", "{}")),
        wire("SubagentEvent", parent_tool_call_id="b", event={"type": "ToolCall", "payload": call("s", "{}")}),
        wire("ToolResult", tool_call_id="a", return_value=ok),
        wire("ToolResult", tool_call_id="b", return_value={"is_error": True, "message": "no"}),
        wire("CompactionBegin"),
        wire("CompactionEnd"),
        wire("ToolCall", **call("c", "{}")),
        wire("StepInterrupted"),
    )
    assert format_of(path) == "kimi"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a Shell 1/2",
        "turn-1 start b Shell 2/2",
        "agent-b start s Shell 1/1",
        "turn-1 settle a Shell ok",
        "turn-1 settle b Shell error",
        "turn-1 compaction",
        "turn-1 start c Shell 1/1",
        "turn-1 settle c Shell aborted",
    ]
    assert arguments(path)[0] == {"c": "ls"}


def test_amp(tmp_path: Path) -> None:
    """The run of a call says whether it was done, failed, was rejected or cancelled."""

    def result(name: str, **run: object) -> dict[str, object]:
        return {"type": "tool_result", "toolUseID": name, "run": run}

    uses = [{"type": "tool_use", "id": name, "name": "Bash", "input": {}} for name in "abcd"]
    ended = [
        result("a", status="done", result="x"),
        result("b", status="error", error={"message": "no"}),
        result("c", status="rejected-by-user", reason="no"),
        result("d", status="cancelled"),
    ]
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": ended},
    ]
    path = document(tmp_path / "T.json", {"v": 1, "id": "T-1", "messages": messages})
    assert format_of(path) == "amp"
    assert [line for line in told(path) if "start" not in line] == [
        "turn-1 user message",
        "turn-1 settle a Bash ok",
        "turn-1 settle b Bash error",
        "turn-1 settle c Bash denied",
        "turn-1 settle d Bash aborted",
    ]


def test_continue(tmp_path: Path) -> None:
    """States beside a message tell what came of its calls; a call that only runs stays open."""

    def call(name: str) -> dict[str, object]:
        return {"id": name, "type": "function", "function": {"name": "read_file", "arguments": '{"p": 1}'}}

    states = [
        {"toolCallId": "a", "status": "done", "output": [{"content": "x"}, {"content": "y"}]},
        {"toolCallId": "b", "status": "errored", "output": []},
        {"toolCallId": "c", "status": "calling"},
    ]
    history = [
        {"message": {"role": "user", "content": "go"}, "contextItems": []},
        {"message": {"role": "assistant", "toolCalls": [call("a"), call("b"), call("c")]}, "toolCallStates": states},
    ]
    path = document(tmp_path / "c.json", {"sessionId": "s", "history": history})
    assert format_of(path) == "continue"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start a read_file 1/3",
        "turn-1 start b read_file 2/3",
        "turn-1 start c read_file 3/3",
        "turn-1 settle a read_file ok",
        "turn-1 settle b read_file error",
    ]
    assert results(path)["a"] == "x\ny"


@pytest.mark.parametrize("form", ["cursor-db", "opencode-db", "goose-db", "hermes"])
def test_database_of_another_product_is_refused(form: str, tmp_path: Path) -> None:
    """A reader of a database that is given another one says so, and does not raise."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other (id INTEGER)")
    database.close()
    with Source.open(str(path)) as source:
        told = list(read(source, Talks(), form))
    assert all(isinstance(item, Unreadable) for item in told)
    assert "that can be read: no such table" in str(told[0])


def test_cline_in_xml(tmp_path: Path) -> None:
    """A call is an element of the response and settles with the next message; what the program says is no user."""

    def user(*texts: str) -> dict[str, object]:
        return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}

    def assistant(text: str) -> dict[str, object]:
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}

    details = "<environment_details>\n12:00\n</environment_details>"
    history = [
        user("<task>\ngo\n</task>", details),
        assistant("I look.\n<read_file>\n<path>a.txt</path>\n</read_file>"),
        user("[read_file for 'a.txt'] Result:", "text", details),
        assistant("Done."),
        user("[ERROR] You did not use a tool in your previous response! Please retry with a tool use.", details),
        assistant(
            "<execute_command>\n<command>ls</command>\n<requires_approval>false</requires_approval>\n</execute_command>"
        ),
        user(
            "[execute_command for 'ls'] Result:",
            "The tool execution failed with the following error:\n<error>\nx",
            details,
        ),
        assistant("<list_files>\n<path>.</path>\n</list_files>"),
        user("[list_files for '.'] Result:", "The user denied this operation."),
    ]
    path = document(tmp_path / "api_conversation_history.json", history)
    assert format_of(path) == "cline"
    assert told(path) == [
        "turn-1 user message",
        "turn-1 start read_file read_file 1/1",
        "turn-1 settle read_file read_file ok",
        "turn-1 start execute_command execute_command 1/1",
        "turn-1 settle execute_command execute_command error",
        "turn-1 start list_files list_files 1/1",
        "turn-1 settle list_files list_files denied",
    ]
    assert arguments(path)[:2] == [{"path": "a.txt"}, {"command": "ls", "requires_approval": "false"}]
    assert results(path)["read_file"] == "text"
