"""All questions, one after the other, as one Markdown page. Each is asked in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

from . import (
    bus_cycle,
    core_cycle,
    exec_failures,
    history_size,
    hook_start,
    host_overhead,
    import_time,
    memory,
    nonces,
    open_runs,
    outcome_kinds,
    reference,
    replay,
    result_size,
    snapshot,
    stuck,
)

QUESTIONS = (
    core_cycle,
    bus_cycle,
    result_size,
    outcome_kinds,
    exec_failures,
    stuck,
    nonces,
    history_size,
    open_runs,
    memory,
    import_time,
    snapshot,
    replay,
    hook_start,
    host_overhead,
    reference,
)


def main() -> int:
    """Print the page, part by part; the status is 1 if one could not be answered."""
    print(f"Python {platform.python_version()}, {platform.machine()}, {sys.platform}\n")
    failed = 0
    for question in QUESTIONS:
        title = (question.__doc__ or "").strip().splitlines()[0]
        print(f"## {title}\n", flush=True)
        failed |= subprocess.run([sys.executable, "-m", question.__name__]).returncode != 0
        print(flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
