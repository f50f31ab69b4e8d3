"""What does one call of the Claude Code hook cost over bare Python? Each is a process of its own."""

from __future__ import annotations

import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile

from loopguard_plugin.cli.install import hook_command

from .measure import table

PAYLOAD = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_use_id": "c", "tool_name": "Read"}


def seconds(*command: str, state: str) -> float:
    """Processor time of one process."""
    env = {**os.environ, "LOOPGUARD_STATE_DIR": state}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=json.dumps(PAYLOAD).encode(), env=env, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(rounds: int = 15) -> str:
    """The table: medians of interleaved rounds."""
    bare: list[float] = []
    hook: list[float] = []
    with tempfile.TemporaryDirectory() as state:
        for _ in range(rounds):
            bare.append(seconds(sys.executable, "-c", "pass", state=state))
            hook.append(seconds(*shlex.split(hook_command()), state=state))
    lines = [
        ("bare Python", f"{statistics.median(bare) * 1000:.0f} ms", ""),
        (
            "the hook",
            f"{statistics.median(hook) * 1000:.0f} ms",
            f"{(statistics.median(hook) - statistics.median(bare)) * 1000:.0f} ms",
        ),
    ]
    return table(("process", "processor time", "over bare Python"), lines)


if __name__ == "__main__":
    print(report())
