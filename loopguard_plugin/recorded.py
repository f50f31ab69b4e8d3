"""Events as lines of the ``events`` format, so that a recording plays to the same verdicts as the traffic did.

With contents, whatever is JSON is written as it is. What is not (objects of a framework, bytes) becomes an object with
the one key ``loopguard_object`` and the text by which the guard compares it; an exception becomes its message. Equal
values stay equal and different ones different, so the verdicts are the same.

Without contents, arguments and results become digests under a secret of their own: nobody finds out what they were by
trying, and two recordings cannot be compared. Digested is what the guard compares, under the settings that are given,
so volatile parts do not count here either. Kept are session, run, agent and call ids, tool names, statuses, the
``action`` of a poller, exit codes, and which failures are the same but for volatile spans.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from typing import Final, TypeAlias, TypeVar

import msgspec

from .core.fingerprint import canonical
from .core.observe import Call, Settlement, observe_call, observe_settlement
from .core.outcomes.failing import error_text
from .events import BatchCall, Event, Status, ToolCallSettled, ToolCallStarted
from .settings import Settings

_MOST_RUNS: Final = 4096  # whose newest batch is remembered
_MOST_OPEN: Final = 16_384  # calls whose settlement is awaited
_FAILURES: Final = (Status.ERROR, Status.UNKNOWN_TOOL, Status.REJECTED, Status.DENIED)
_ACTIONS: Final = ("poll", "log")
_LETTERS: Final = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")

K = TypeVar("K")
V = TypeVar("V")
_CallKey: TypeAlias = tuple[str, str | None, str | None, str, int | None]


class Lines:
    """Makes lines of events. ``settings`` None: with contents."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._without = None if settings is None else _WithoutContents(settings)
        self._batches: OrderedDict[tuple[str, str | None], str] = OrderedDict()

    def line(self, event: Event) -> bytes:
        """One event as a line of JSON. May raise for an event whose own fields are of a wrong type."""
        event = self._less_batch(event)
        if self._without is not None:
            event = self._without.event(event)
        elif isinstance(event, ToolCallSettled) and isinstance(event.error, BaseException):
            event = msgspec.structs.replace(event, error=error_text(event.error))
        told: dict[str, object] = {"type": event.__struct_config__.tag}
        for name in event.__struct_fields__:
            value = getattr(event, name)
            if value is not None and not (name == "deliverable" and value is True):
                told[name] = value
        return _written(told) + b"\n"

    def forget(self, event: Event) -> None:
        """The line of this event was lost: the next start of its batch carries the list again."""
        self._batches.pop((event.session_key, event.run_id), None)

    def _less_batch(self, event: Event) -> Event:
        """A batch list stands in the first start of its batch alone: that is enough to replay."""
        if not isinstance(event, ToolCallStarted) or event.batch is None or not event.batch_id:
            return event
        run = (event.session_key, event.run_id)
        if self._batches.get(run) == event.batch_id:
            return msgspec.structs.replace(event, batch=None)
        _remember(self._batches, run, event.batch_id, _MOST_RUNS)
        return event


_CONTENTS: Final = ("args", "result", "error", "outcome_identity")


def _written(told: dict[str, object]) -> bytes:
    try:
        return _json(told)
    except Exception:  # some value in it cannot be written: that one is replaced, the others stay
        safe = {name: _safe(value) if name in _CONTENTS else value for name, value in told.items()}
        batch = told.get("batch")
        if isinstance(batch, tuple):
            safe["batch"] = [BatchCall(one.call_id, one.tool, _safe(one.args)) for one in batch]
        return _json(safe)


def _json(value: object) -> bytes:
    return json.dumps(value, default=_object, separators=(",", ":")).encode()


def _safe(value: object) -> object:
    """The value, or its digest where it cannot be written: keys that are no text, circles, depth, endless integers."""
    try:
        _json(value)
    except Exception:  # objects of a framework may raise anything
        return {"loopguard_object": hashlib.blake2b(canonical(value), digest_size=16).hexdigest()}
    return value


def _object(value: object) -> object:
    """What stands for an object that JSON does not know."""
    if isinstance(value, BatchCall):
        return {"call_id": value.call_id, "tool": value.tool, "args": value.args}
    text = canonical(value)
    try:
        return msgspec.json.decode(text)  # an enum member, a UUID: what it is compared as is JSON
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"loopguard_object": text.decode("utf-8", "backslashreplace")}


class _WithoutContents:
    """Events in which digests stand for contents."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._secret = os.urandom(32)
        self._open: OrderedDict[_CallKey, Call] = OrderedDict()

    def event(self, event: Event) -> Event:
        """The same event, but for its contents."""
        if isinstance(event, ToolCallStarted):
            return self._started(event)
        return self._settled(event) if isinstance(event, ToolCallSettled) else event

    def _started(self, event: ToolCallStarted) -> Event:
        limits = self._settings.resolve(event.agent_id)
        call = observe_call(event.tool, event.args, limits)
        _remember(self._open, _key(event), call, _MOST_OPEN)
        batch = event.batch and tuple(
            BatchCall(one.call_id, one.tool, self._args(observe_call(one.tool, one.args, limits), one.args))
            for one in event.batch
        )
        return msgspec.structs.replace(event, args=self._args(call, event.args), batch=batch)

    def _settled(self, event: ToolCallSettled) -> Event:
        known = self._open.pop(_key(event), None)
        call = known or observe_call(event.tool, event.args, self._settings.resolve(event.agent_id))
        settlement = observe_settlement(event, call, want_outcome=True)
        args = self._args(call, event.args) if event.args is not None else None
        bare = msgspec.structs.replace(event, args=args, result=None, error=None, outcome_identity=None)
        status = Status.UNKNOWN_TOOL if settlement.unknown_tool else settlement.status
        if settlement.outcome is None:
            return msgspec.structs.replace(bare, status=status)
        if status in _FAILURES:
            return msgspec.structs.replace(bare, status=status, error=self._failure(settlement))
        if settlement.unchanged:
            return msgspec.structs.replace(bare, status=status, result={"details": {"changed": False}})
        if settlement.failure is not None:
            code = exit_code(event.result)
            details = {"status": "completed", "exitCode": code, "aggregated": self._failure(settlement)}
            return msgspec.structs.replace(bare, status=status, result={"details": details})
        return msgspec.structs.replace(bare, status=status, outcome_identity=self._digest(settlement.outcome))

    def _args(self, call: Call, args: object) -> dict[str, object]:
        told: dict[str, object] = {"digest": self._digest(call.key)}
        action = args.get("action") if isinstance(args, dict) else None
        return {"action": action, **told} if action in _ACTIONS else told

    def _failure(self, settlement: Settlement) -> str:
        """A text that differs where the failure does. What only volatile spans tell apart looks like one: ``7 ms``."""
        same = settlement.failure if settlement.failure is not None else settlement.outcome
        return f"failure {self._digest(same).translate(_LETTERS)} {int(self._digest(settlement.outcome), 16)} ms"

    def _digest(self, compared: int | None) -> str:
        return hashlib.blake2b(str(compared).encode(), key=self._secret, digest_size=16).hexdigest()


def exit_code(result: object) -> object:
    """The exit code in a result, where it is a number."""
    for holder in (result.get("details"), result) if isinstance(result, dict) else ():
        if isinstance(holder, dict) and isinstance(code := holder.get("exitCode"), (int, float)):
            return code
    return 1


def _key(event: ToolCallStarted | ToolCallSettled) -> _CallKey:
    return event.session_key, event.run_id, event.batch_id, event.call_id, event.index


def _remember(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
