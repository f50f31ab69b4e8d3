"""Which rule compares a tool's results, and whether the detectors take it for a poller: by name and arguments."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from ...settings import ToolKind
from ...settings_policies import ToolPolicy
from ..paths import Path


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


# How a tool's results are compared, what its calls are to the detectors, the paths of its results that do not count,
# whether volatile spans of its results do not count either, and whether of a result that is a text nothing counts but
# its digest.
Rules: TypeAlias = tuple[Rule, CallKind, tuple[Path, ...], bool, bool]
ByAction: TypeAlias = dict[str | None, Rules]  # under None: those of any other action

ORDINARY: Final[Rules] = (Rule.GENERAL, CallKind.PLAIN, (), False, True)
_SEND: Final[Rules] = (Rule.SEND, CallKind.PLAIN, (), False, True)
_SENDING: Final = (
    *("send", "broadcast", "reply", "thread-reply", "sendWithEffect", "sendAttachment", "upload-file"),
    *("sticker", "poll"),
)
SPECIAL: Final[dict[str, Rules | ByAction]] = {
    "exec": (Rule.EXEC, CallKind.PLAIN, (), False, True),
    "wait": (Rule.WAIT, CallKind.WAIT, (), False, True),
    "write": (Rule.WRITE, CallKind.PLAIN, (), False, True),
    "command_status": (Rule.GENERAL, CallKind.POLL, (), False, True),
    "sessions_send": _SEND,
    "conversations_send": _SEND,
    "conversations_turn": _SEND,
    "memory_search": (Rule.MEMORY_SEARCH, CallKind.PLAIN, (), False, True),
    "computer": (Rule.COMPUTER, CallKind.PLAIN, (), False, True),
    "progress_card": (Rule.PROGRESS_CARD, CallKind.PLAIN, (), False, True),
    "process": {
        "poll": (Rule.PROCESS_POLL, CallKind.POLL, (), False, False),
        "log": (Rule.PROCESS_LOG, CallKind.POLL, (), False, False),
        None: ORDINARY,
    },
    "message": {**dict.fromkeys(_SENDING, _SEND), None: ORDINARY},
}
"""The tools that SPEC 5 and 6 know by name; of some of them it depends on the ``action`` in their arguments."""


def is_plain(rule: Rule, ignore: tuple[Path, ...], similar: bool) -> bool:
    """Whether of a result that is a text nothing counts but its digest: what a poll says may hold its progress."""
    return not ignore and not similar and rule is not Rule.PROCESS_POLL and rule is not Rule.PROCESS_LOG


def declared(found: Rules, policy: ToolPolicy) -> Rules:
    """The rules of a call under what the settings say about its tool (SPEC 11.2).

    ``plain`` takes the name's special treatment as poller or send away; results of ``process`` and ``wait`` are
    compared by their rows all the same. What a tool that ``mutates`` did is seen in more than its text.
    """
    rule, kind, *_ = found
    if policy.kind is ToolKind.SEND:
        rule = Rule.SEND
    elif policy.kind is ToolKind.POLL:
        kind = kind if kind is CallKind.WAIT else CallKind.POLL
    elif policy.kind is ToolKind.PLAIN:
        rule, kind = Rule.GENERAL if rule is Rule.SEND else rule, CallKind.PLAIN
    ignore, similar = policy.ignore_result, policy.similar
    return rule, kind, ignore, similar, is_plain(rule, ignore, similar) and not policy.mutates
