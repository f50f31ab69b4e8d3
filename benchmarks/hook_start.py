"""What does one call of the Claude Code hook cost over bare Python? Each is a process of its own.

The event is a ``PreToolUse``: a session's first, or one after 60 calls that the hook was told of. One round to warm up
is not measured, so this is what every call costs but the first after an installation, which may have to compile the
package.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from loopguard_plugin.cli.claude_settings import hook_command

from .measure import table

CALLS = 60
DETECTION = "{ tools: { loopDetection: { enabled: true } } }"
RESULT = "".join(f"{number}\tassert f({number}) == {number}\n" for number in range(100))


class Session:
    """A process a hook event, as Claude Code starts them; state and transcript are in a folder of the session's own."""

    def __init__(self, folder: Path, *command: str, calls: int = 0) -> None:
        folder.mkdir()
        self.command = command
        self.transcript = folder / "transcript.jsonl"
        self.env = {**os.environ, "LOOPGUARD_STATE_DIR": str(folder / "state")}
        for number in range(calls):
            self.start(number)
            self.end(number)
        self.kept = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    def once(self) -> float:
        """Seconds of processor time that the hook takes for one more call, which is then forgotten."""
        seconds = self.start(CALLS)
        for file in self.transcript.parent.rglob("*"):
            if file in self.kept:
                file.write_bytes(self.kept[file])
            elif file.is_file():
                file.unlink()
        return seconds

    def start(self, number: int) -> float:
        """A call is about to start; it stands in the transcript."""
        call = {"id": f"call {number}", "name": "Read", "input": {"file_path": f"{number}.py"}}
        self._write("assistant", {"id": f"message {number}", "content": [{"type": "tool_use", **call}]})
        return self._tell("PreToolUse", tool_use_id=call["id"], tool_name=call["name"], tool_input=call["input"])

    def end(self, number: int) -> float:
        """It has a result."""
        self._write("user", {"content": [{"type": "tool_result", "tool_use_id": f"call {number}", "content": RESULT}]})
        call = {"tool_use_id": f"call {number}", "tool_name": "Read", "tool_input": {"file_path": f"{number}.py"}}
        return self._tell("PostToolBatch", tool_calls=[{**call, "tool_response": RESULT}])

    def _write(self, kind: str, message: object) -> None:
        with self.transcript.open("a") as file:
            file.write(json.dumps({"type": kind, "message": message}) + "\n")

    def _tell(self, event: str, **fields: object) -> float:
        common = {"session_id": "s", "prompt_id": "p", "transcript_path": str(self.transcript)}
        payload = json.dumps({**common, "hook_event_name": event, **fields}).encode()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(self.command, input=payload, env=self.env, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(rounds: int = 15) -> str:
    """The table: medians of interleaved rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "config.json5"
        config.write_text(DETECTION)
        installed, script = shlex.split(hook_command()), str(Path(sys.executable).with_name("loopguard-hook"))
        sessions = {
            "bare Python": Session(folder / "bare", sys.executable, "-c", "pass"),
            "the installed command": Session(folder / "first", *installed),
            f"the same, after {CALLS} calls": Session(folder / "later", *installed, calls=CALLS),
            "the same, detection on (`--config`)": Session(
                folder / "detecting", *installed, "--config", str(config), calls=CALLS
            ),
            "the script `loopguard-hook`": Session(folder / "script", script),
        }
        taken: dict[str, list[float]] = {name: [] for name in sessions}
        for turn in range(rounds + 1):
            for name, session in sessions.items():
                seconds = session.once()
                if turn:
                    taken[name].append(seconds)
    medians = {name: statistics.median(seconds) * 1000 for name, seconds in taken.items()}
    bare = medians.pop("bare Python")
    lines = [(name, f"{hook:.0f} ms", f"{hook - bare:.0f} ms") for name, hook in medians.items()]
    return table(("process", "processor time", "over bare Python"), [("bare Python", f"{bare:.0f} ms", ""), *lines])


if __name__ == "__main__":
    print(report())
