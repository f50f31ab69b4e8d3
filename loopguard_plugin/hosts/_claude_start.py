"""Starts ``loopguard-hook``, by its path: what ``loopguard install`` has Claude Code run, wherever it is installed."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # this folder: its modules are named after what they serve
sys.dont_write_bytecode = False  # as in the hook, and for what is imported before it

from loopguard_plugin.hosts.claude_hook import main  # noqa: E402

main()
