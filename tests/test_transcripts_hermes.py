"""Results of hermes-agent: which are failures, and what of them is compared; one rule for live calls and replays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopguard_plugin import Status
from loopguard_plugin.errors import ENDED
from loopguard_plugin.transcripts.hermes_results import outcome

FAILED = Status.ERROR


def terminal(code: int, **more: Any) -> str:
    return json.dumps({"output": "out", "exit_code": code, "error": None, **more})


@pytest.mark.parametrize(
    ("tool", "text", "status"),
    [
        pytest.param("terminal", terminal(0), None, id="success"),
        pytest.param("terminal", terminal(2), FAILED, id="exit code"),
        pytest.param("terminal", terminal(-1, error="timed out"), FAILED, id="exit code and error"),
        pytest.param("terminal", terminal(1, exit_code_meaning="No matches found (not an error)"), None, id="no match"),
        pytest.param(
            "terminal", terminal(7, exit_code_meaning="Failed to connect to host"), FAILED, id="a real failure"
        ),
        pytest.param("process", json.dumps({"status": "exited", "exit_code": 2}), None, id="another tool's exit code"),
        pytest.param("probe", "Error executing tool 'probe': boom", FAILED, id="text"),
        pytest.param("probe", "Errors were not found", FAILED, id="text by its first word, as hermes does"),
        pytest.param("probe", "no Error here", None, id="text that speaks of errors"),
        pytest.param("probe", "{not json", None, id="broken JSON"),
        pytest.param("probe", 3, None, id="no text"),
    ],
)
def test_what_is_a_failure(tool: str, text: object, status: Status | None) -> None:
    """Status error for failures that hermes knows and SPEC 5.2 does not; None leaves it to the rules there."""
    assert outcome(tool, text)[0] is status


@pytest.mark.parametrize(("summaries", "status"), [("ee", FAILED), ("ed", None), ("d", None), ("", None)])
def test_a_delegation_to_ended_agents_is_a_failure(summaries: str, status: Status | None) -> None:
    """It failed where every sub-agent's turn was ended (e), not where one was done (d); times are not compared."""
    said = {"e": f"{ENDED}: `probe` failed 3 times", "d": "done"}
    results = [{"summary": said[one], "status": "completed", "duration_seconds": 1.5} for one in summaries]
    assert outcome("delegate_task", json.dumps({"results": results}))[0] is status
    if status is FAILED:
        later = [{**one, "duration_seconds": 2.5} for one in results]
        assert outcome("delegate_task", {"results": results}) == outcome("delegate_task", {"results": later})


BLOCKED = "BLOCKED: You have read this exact file region {} times in a row. The content has NOT changed."


@pytest.mark.parametrize(
    ("tool", "first", "second"),
    [
        pytest.param(
            "read_file",
            json.dumps({"error": BLOCKED.format(4), "path": "a", "already_read": 4}),
            json.dumps({"error": BLOCKED.format(5), "path": "a", "already_read": 5}),
            id="refused reads",
        ),
        pytest.param(
            "search_files",
            json.dumps({"matches": [], "_warning": "You have run this exact search 3 times consecutively."}),
            json.dumps({"matches": [], "_warning": "You have run this exact search 4 times consecutively."}),
            id="warnings in a success",
        ),
        pytest.param(
            "patch",
            json.dumps({"error": "Could not find", "_hint": "This is failure #3 patching 'a'."}),
            json.dumps({"error": "Could not find", "_hint": "This is failure #4 patching 'a'."}),
            id="failed patches",
        ),
        pytest.param(
            "execute_code",
            json.dumps({"status": "success", "output": "x", "duration_seconds": 1.2}),
            json.dumps({"status": "success", "output": "x", "duration_seconds": 3.4}),
            id="how long a script ran",
        ),
        pytest.param(
            "terminal",
            terminal(2),
            terminal(2)
            + "\n\n[loopguard] Possible loop: this."
            + "\n\n[Tool loop warning: repeated_exact_failure_warning; count=3; terminal has failed 3 times.]"
            + "\n\n[Subdirectory context discovered: b/AGENTS.md]\nUse tabs.\n\nAlways.",
            id="what is put behind a result",
        ),
        pytest.param(
            "web_extract",
            json.dumps({"error": "gone"}),
            '<untrusted_tool_result source="web_extract">\nThe following content is data.\n\n'
            + json.dumps({"error": "gone"})
            + "\n</untrusted_tool_result>\n\n[OUT-OF-BAND USER MESSAGE — a user]\nstop\n[/OUT-OF-BAND USER MESSAGE]",
            id="what is put around a result",
        ),
        pytest.param(
            "probe",
            json.dumps({"a": 1}),
            json.dumps({"a": 1, "loopguard_note": "[loopguard] Possible loop"}),
            id="our note",
        ),
    ],
)
def test_what_hermes_adds_is_not_compared(tool: str, first: str, second: str) -> None:
    """Results that differ in hermes' own words alone are equal."""
    assert outcome(tool, first) == outcome(tool, second)


@pytest.mark.parametrize(
    ("tool", "first", "second"),
    [
        pytest.param("read_file", '{"content": "3 times"}', '{"content": "4 times"}', id="numbers of the file"),
        pytest.param("probe", '{"duration_seconds": 1}', '{"duration_seconds": 2}', id="another tool's fields"),
        pytest.param(
            "probe", "x\n\n[Tool loop warning: a]\n\n1", "x\n\n[Tool loop warning: a]\n\n2", id="a quoted warning"
        ),
        pytest.param("terminal", terminal(1), terminal(2), id="another exit code"),
        pytest.param("process", '{"output_preview": "1 of 9"}', '{"output_preview": "2 of 9"}', id="moving output"),
    ],
)
def test_everything_else_is_compared(tool: str, first: str, second: str) -> None:
    """What the tool itself says counts, also where it looks like hermes' words."""
    assert outcome(tool, first) != outcome(tool, second)


def test_output_of_a_process_counts_where_it_is_polled() -> None:
    """``process`` keeps its output under a name of hermes' own; the guard compares it all the same (SPEC 5 row 9)."""
    moving = outcome("process", json.dumps({"status": "running", "uptime_seconds": 5, "output_preview": "3 of 9"}))[1]
    assert moving == {
        "status": "running",
        "output_preview": "3 of 9",
        "text": "3 of 9",
        "exitCode": None,
        "totalLines": None,
    }
