"""Which rule compares a tool's results, and whether the detectors take it for a poller: by name and arguments."""

from __future__ import annotations

from enum import Enum
from typing import Final

from ...settings import ToolKind


class Rule(Enum):
    """The kinds of tools that SPEC 5 compares in a way of their own; ``GENERAL`` are all others."""

    GENERAL = 0
    EXEC = 1
    WAIT = 2
    WRITE = 3
    PROCESS_POLL = 4
    PROCESS_LOG = 5
    SEND = 6
    MEMORY_SEARCH = 7
    COMPUTER = 8
    PROGRESS_CARD = 9

    __hash__ = object.__hash__  # Enum's own is a Python function, and each look-up in a table would call it


class CallKind(Enum):
    """What a call is to the detectors (SPEC 6): a poller, the ``wait`` that is blocked at ten, or neither."""

    PLAIN = 0
    POLL = 1
    WAIT = 2


_BY_NAME: Final = {
    "exec": (Rule.EXEC, CallKind.PLAIN),
    "wait": (Rule.WAIT, CallKind.WAIT),
    "write": (Rule.WRITE, CallKind.PLAIN),
    "command_status": (Rule.GENERAL, CallKind.POLL),
    "sessions_send": (Rule.SEND, CallKind.PLAIN),
    "conversations_send": (Rule.SEND, CallKind.PLAIN),
    "conversations_turn": (Rule.SEND, CallKind.PLAIN),
    "memory_search": (Rule.MEMORY_SEARCH, CallKind.PLAIN),
    "computer": (Rule.COMPUTER, CallKind.PLAIN),
    "progress_card": (Rule.PROGRESS_CARD, CallKind.PLAIN),
}
_OTHERS: Final = (Rule.GENERAL, CallKind.PLAIN)

_SENDING: Final = (
    *("send", "broadcast", "reply", "thread-reply", "sendWithEffect", "sendAttachment", "upload-file"),
    *("sticker", "poll"),
)
_BY_ACTION: Final = {
    "process": {"poll": (Rule.PROCESS_POLL, CallKind.POLL), "log": (Rule.PROCESS_LOG, CallKind.POLL)},
    "message": dict.fromkeys(_SENDING, (Rule.SEND, CallKind.PLAIN)),
}

SPECIAL: Final = frozenset((*_BY_NAME, *_BY_ACTION))


def rule_of(tool: str, args: object, declared: ToolKind | None) -> tuple[Rule, CallKind]:
    """How to compare a call's results, and what it is to the detectors; for any tool not in ``SPECIAL``, nothing.

    ``declared`` is what the settings say about the tool (SPEC 11.2): ``plain`` takes the name's special treatment as
    poller or send away; results of ``process`` and ``wait`` are compared by their rows all the same.
    """
    found = _BY_NAME.get(tool, _OTHERS)
    if tool in _BY_ACTION and isinstance(args, dict):
        action = args.get("action")
        found = _BY_ACTION[tool].get(action, _OTHERS) if isinstance(action, str) else _OTHERS
    return found if declared is None else _declared(found, declared)


def _declared(found: tuple[Rule, CallKind], declared: ToolKind) -> tuple[Rule, CallKind]:
    rule, kind = found
    if declared is ToolKind.SEND:
        return Rule.SEND, kind
    if declared is ToolKind.POLL:
        return rule, kind if kind is CallKind.WAIT else CallKind.POLL
    return Rule.GENERAL if rule is Rule.SEND else rule, CallKind.PLAIN
