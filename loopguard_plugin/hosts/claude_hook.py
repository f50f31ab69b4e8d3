"""``loopguard-hook``: the command that Claude Code runs for its hook events; one process an event.

Reads the event on standard input, answers on standard output, and logs on standard error, which Claude Code keeps in
its debug log. Whatever fails, it says nothing and exits 0: Claude Code goes on as without it (SPEC 13). Only settings
that cannot be used are told to the user, in every session anew.

``loopguard-hook [--config FILE]``; without it the file that ``LOOPGUARD_CONFIG`` names, else the defaults.
:mod:`loopguard_plugin.hosts.claude_code` says what the whole does and what it cannot do.
"""

from __future__ import annotations

import gc
import sys

from ._claude_late import put_off_unused

gc.disable()  # a process of a twentieth of a second: looking for garbage is a tenth of that
sys.dont_write_bytecode = False  # or all that follows is compiled for every event, which takes longer than to run it
put_off_unused()

import json  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402

import msgspec  # noqa: E402

from ..answers import Answer  # noqa: E402
from ..errors import SettingsError, SnapshotError, TurnEndingError  # noqa: E402
from ..events import Event  # noqa: E402
from ..json_text import read_json  # noqa: E402
from ..printable import printable  # noqa: E402
from ._claude import Output, respond  # noqa: E402
from ._claude_state import State, forget, held  # noqa: E402
from ._claude_transcript import PATIENCE, PAUSE, look  # noqa: E402

__all__ = ["main"]


def main() -> None:
    """Answer one event. Exits 0 always."""
    try:
        output = _answer(sys.stdin.buffer.read(), sys.argv[1:])
        if output:
            sys.stdout.buffer.write(_written(output))
            sys.stdout.flush()
    except Exception as error:
        _log(f"loopguard failed inside and passed the event on unjudged: {type(error).__name__}: {error}")
    gc.freeze()  # nor is garbage looked for at the end


def _answer(data: bytes, arguments: list[str]) -> Output:
    payload = read_json(data)
    if not isinstance(payload, dict):
        raise ValueError("the event is not a JSON object")
    session = str(payload.get("session_id") or "claude-code")
    if payload.get("hook_event_name") == "SessionEnd":
        forget(session)
        return {}
    from ..core.guard import Guard
    from ..settings import Settings

    config = _config_file(arguments)
    if config is None:
        settings = Settings()
    else:
        from ..config_file import load_settings

        try:
            settings = load_settings(config)
        except SettingsError as error:
            return _tell(error, payload.get("hook_event_name"))
    if not settings.plugin_enabled:
        return {}
    seen, end = look(payload, session), time.monotonic() + PATIENCE
    while not seen.complete and time.monotonic() < end:
        time.sleep(PAUSE)
        seen = look(payload, session)
    with held(session) as (state, write):
        guard = Guard(settings)
        now = time.time()
        _restore(guard, state, now)

        def feed(event: Event) -> tuple[Answer | None, TurnEndingError | None]:
            step = guard.feed(event, now)
            _log_facts(step.facts)
            return (step.answer if step.error is None else step.error.answer), step.error

        known = list(state.books)
        output = respond(payload, feed, state.books, seen.asked, seen.failed)
        for run in known:
            if run not in state.books:
                _log_facts(guard.end_run(session, run or None))
        state.guard = guard.snapshot(now)
        write(state)
    return output


def _written(output: Output) -> bytes:
    try:
        return msgspec.json.encode(output)
    except UnicodeError:  # an error that was cut inside an emoji is quoted
        return json.dumps(output, separators=(",", ":")).encode()


def _config_file(arguments: list[str]) -> str | None:
    if arguments[:1] == ["--as"]:  # a name for the installer to find the command by
        arguments = arguments[2:]
    if len(arguments) == 2 and arguments[0] == "--config":
        return arguments[1]
    if arguments:
        raise ValueError("usage: loopguard-hook [--config FILE]")
    return os.environ.get("LOOPGUARD_CONFIG") or None


def _restore(guard: Any, state: State, now: float) -> None:
    if not state.guard:
        return
    try:
        guard.restore(state.guard, now)
    except SnapshotError as error:
        state.books = {}
        _log(f"loopguard starts counting again: {error}")


def _log_facts(facts: tuple[Any, ...]) -> None:
    """What is for the debug level is left out: some of it comes with every batch."""
    if facts:
        from ..log_lines import line

        for fact in facts:
            told = line(fact)
            if told.severity != "DEBUG":
                _log(told.text)


def _log(text: str) -> None:
    try:
        print(f"loopguard: {printable(text)}", file=sys.stderr)
    except OSError:
        return


def _tell(error: SettingsError, event: object) -> Output:
    """Nobody must believe to be guarded: said to the user with each message, and to the log with each event."""
    _log(str(error))
    said: Output = {"systemMessage": f"loopguard is off, its settings cannot be used: {error}"}
    return said if event == "UserPromptSubmit" else {}


if __name__ == "__main__":
    main()
