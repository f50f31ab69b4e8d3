"""All questions, one after the other, as one Markdown page."""

from __future__ import annotations

import platform
import sys

from . import (
    bus_cycle,
    core_cycle,
    exec_failures,
    history_size,
    host_overhead,
    import_time,
    memory,
    nonces,
    open_runs,
    outcome_kinds,
    replay,
    result_size,
    snapshot,
)

QUESTIONS = (
    core_cycle,
    bus_cycle,
    result_size,
    outcome_kinds,
    exec_failures,
    nonces,
    history_size,
    open_runs,
    memory,
    import_time,
    snapshot,
    replay,
    host_overhead,
)


def main() -> None:
    """Print the page, part by part."""
    print(f"Python {platform.python_version()}, {platform.machine()}, {sys.platform}\n")
    for question in QUESTIONS:
        title = (question.__doc__ or "").strip().splitlines()[0]
        print(f"## {title}\n\n{question.report()}\n", flush=True)


if __name__ == "__main__":
    main()
