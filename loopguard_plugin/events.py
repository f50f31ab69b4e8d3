"""The four events as they come off the bus (SPEC 2), and how they are decoded.

Every event is a frozen struct tagged by its JSON key ``type``. Unknown extra fields are ignored, so a gateway may
publish its own richer objects as JSON and lose nothing here. Ids are compared after trimming; a blank ``run_id``
is the session's one unnamed run, a blank ``batch_id`` or ``agent_id`` is as good as none.

Structs built in Python are not checked when they are made (msgspec checks on decoding); the guard checks them when
they arrive, with :func:`check`, so that nonsense never reaches a run.

No ``from __future__ import annotations`` here: msgspec would have to compile every annotation at every start.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from .errors import EventError
from .json_text import JSONError, may_be_deep, read_json
from .printable import printable


class Status(StrEnum):
    """How a call settled (SPEC 2)."""

    OK = "ok"
    ERROR = "error"
    UNKNOWN_TOOL = "unknown_tool"
    REJECTED = "rejected"
    DENIED = "denied"
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    ABORTED = "aborted"


class MessageKind(StrEnum):
    """What kind of user message entered the transcript."""

    MESSAGE = "message"
    FOLLOW_UP = "follow_up"
    STEERING = "steering"


class BatchCall(Struct, frozen=True):
    """One call of a response's batch, as the model wrote it."""

    call_id: str
    tool: str
    args: Any = None


class ToolCallStarted(Struct, frozen=True, kw_only=True, tag_field="type", tag="tool_call_started"):
    """A tool is about to run; published before it does. Answered by ``Proceed`` or ``Blocked``.

    ``batch`` lists the whole response in model call order, this call included; with it on the first start, the batch
    is admitted or blocked as one. ``index`` is this call's 0-based place in that order. ``continues`` names the run
    that this run goes on from without new user input.
    """

    session_key: str
    call_id: str
    tool: str
    args: Any = None
    run_id: str | None = None
    agent_id: str | None = None
    batch_id: str | None = None
    index: int | None = None
    batch: tuple[BatchCall, ...] | None = None
    continues: str | None = None


class ToolCallSettled(Struct, frozen=True, kw_only=True, tag_field="type", tag="tool_call_settled"):
    """A call ended. Answered by ``Deliver``, or ``TurnEndingError`` is raised.

    ``error: None`` is no error. ``args`` counts only where the start was never seen. ``deliverable=False`` says that
    the gateway cannot change this result: it is judged but never noted.
    """

    session_key: str
    call_id: str
    tool: str
    result: Any = None
    error: Any = None
    status: Status | None = None
    args: Any = None
    run_id: str | None = None
    agent_id: str | None = None
    batch_id: str | None = None
    index: int | None = None
    outcome_identity: Any = None
    deliverable: bool = True


class CompactionRetry(Struct, frozen=True, kw_only=True, tag_field="type", tag="compaction_retry"):
    """The gateway compacted the context after an overflow and asks the model again. Answered by ``Acknowledged``."""

    session_key: str
    run_id: str | None = None
    agent_id: str | None = None


class UserMessageCommitted(Struct, frozen=True, kw_only=True, tag_field="type", tag="user_message_committed"):
    """A user message entered the transcript. A ``message_id`` seen before changes nothing."""

    session_key: str
    run_id: str | None = None
    agent_id: str | None = None
    kind: MessageKind = MessageKind.MESSAGE
    message_id: str | None = None


Event: TypeAlias = ToolCallStarted | ToolCallSettled | CompactionRetry | UserMessageCommitted

EVENT_TYPES: tuple[type[Struct], ...] = (ToolCallStarted, ToolCallSettled, CompactionRetry, UserMessageCommitted)

_WORDS: dict[str, type[StrEnum]] = {"status": Status, "kind": MessageKind}
_STATUSES = frozenset(Status)
_KINDS = frozenset(MessageKind)
_LONGEST_WORD = 40

_decoder = msgspec.json.Decoder(Event)
_FIELD = re.compile(r"`\$\.?([^`]*)`$")
_WRONG_WORD = re.compile(r"Invalid enum value '(.*)'\Z", re.DOTALL)
_NAMED = re.compile(r"(?:field|value) [`'](\w+)[`']")


def decode_event(data: bytes | str | Mapping[str, Any]) -> Event:
    """One event from JSON text or from a decoded JSON object.

    Any JSON is read, up to :data:`.json_text.MAX_DEPTH` levels of objects and lists; that module says what becomes of
    lone surrogates and of numbers that Python has no type for. Raises :class:`EventError`, which names the field;
    nothing else.
    """
    try:
        event = _converted(data)
    except msgspec.ValidationError as error:
        raise _named(str(error)) from error
    except (JSONError, RecursionError) as error:
        raise EventError("(event)", str(error)) from error
    check(event)
    return event


def _converted(data: bytes | str | Mapping[str, Any]) -> Event:
    event: Event
    if isinstance(data, (bytes, str)):
        deep = may_be_deep(data)
        if not deep:
            try:
                event = _decoder.decode(data)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass  # either no event, or JSON that msgspec does not take
            else:
                return event
        event = msgspec.convert(read_json(data, deep=deep), Event)
    else:
        event = msgspec.convert(data, Event)
    return event


def _named(message: str) -> EventError:
    """The event error for a validation message, with the field that it speaks of."""
    at = _FIELD.search(message)
    reason = message.split(" - at ")[0]
    inner = _NAMED.search(reason)
    path = at.group(1) if at else ""
    if inner and "missing required" in reason:
        path = f"{path}.{inner.group(1)}" if path else inner.group(1)
    if path in _WORDS and (wrong := _WRONG_WORD.match(reason)):
        reason = _not_one_of(path, wrong.group(1))
    return EventError(path or "type", reason)


def check(event: object) -> None:
    """Raise :class:`EventError` unless this is one of the four events with fields of the right types.

    Contents (``args``, ``result``, ``error``, ``outcome_identity``) may be anything; :func:`check_batch` looks at a
    ``batch`` list.
    """
    check_types(event)
    if not event.session_key.strip():  # type: ignore[attr-defined]  # every event has one
        raise EventError("session_key", "must not be blank")


def check_types(event: Any) -> None:
    """As :func:`check`, but a blank ``session_key`` passes: whoever trims it looks at that.

    It runs on every event, so the ordinary one goes through in a few comparisons of classes.
    """
    kind = event.__class__
    if (
        (kind is ToolCallStarted or kind is ToolCallSettled)
        and event.session_key.__class__ is str
        and event.call_id.__class__ is str
        and event.tool.__class__ is str
        and (event.run_id is None or event.run_id.__class__ is str)
        and (event.index is None or (event.index.__class__ is int and event.index >= 0))
        and (event.batch_id is None or event.batch_id.__class__ is str)
        and (event.agent_id is None or event.agent_id.__class__ is str)
        and (
            event.continues is None
            if kind is ToolCallStarted
            else event.status is None and event.deliverable is True
        )
    ):
        return
    _check_fields(event)


def _check_fields(event: object) -> None:
    """Field by field, with a word on what is wrong."""
    if not isinstance(event, (ToolCallStarted, ToolCallSettled, CompactionRetry, UserMessageCommitted)):
        raise EventError("type", f"expected one of the four events, got {type(event).__name__}")
    _need_text(event.session_key, "session_key")
    _may_be_text(event, "run_id", "agent_id", "batch_id", "continues", "message_id")
    if isinstance(event, (ToolCallStarted, ToolCallSettled)):
        _need_text(event.call_id, "call_id")
        _need_text(event.tool, "tool")
        index = event.index
        if index is not None and (index.__class__ is not int or index < 0):
            raise EventError("index", f"expected a whole number from 0, got {_brief(index)}")
    if isinstance(event, ToolCallSettled):
        if event.status is not None and (not isinstance(event.status, str) or event.status not in _STATUSES):
            raise EventError("status", _not_one_of("status", event.status))
        if event.deliverable is not True and event.deliverable is not False:
            raise EventError("deliverable", f"expected true or false, got {_brief(event.deliverable)}")
    elif isinstance(event, UserMessageCommitted) and (
        not isinstance(event.kind, str) or event.kind not in _KINDS
    ):
        raise EventError("kind", _not_one_of("kind", event.kind))


def _may_be_text(event: object, *names: str) -> None:
    for name in names:
        value = getattr(event, name, None)
        if value is not None:
            _need_text(value, name)


def check_batch(batch: object) -> None:
    """As :func:`check`, for a ``batch`` list. Apart, since every start may carry it and only the first one needs it."""
    for at, call in enumerate(as_batch(batch)):
        if call.__class__ is BatchCall and call.call_id.__class__ is str and call.tool.__class__ is str:
            continue
        if not isinstance(call, BatchCall):
            raise EventError(f"batch[{at}]", f"expected a BatchCall, got {_brief(call)}")
        _need_text(call.call_id, f"batch[{at}].call_id")
        _need_text(call.tool, f"batch[{at}].tool")


def as_batch(batch: object) -> tuple[object, ...] | list[object]:
    """A ``batch`` as the list that it has to be, whatever is in it. Raises :class:`EventError` for anything else."""
    if not isinstance(batch, (tuple, list)):
        raise EventError("batch", f"expected a list of calls, got {_brief(batch)}")
    return batch


def _need_text(value: object, path: str) -> None:
    if not isinstance(value, str):
        raise EventError(path, f"expected a string, got {_brief(value)}")


def _not_one_of(field: str, value: object) -> str:
    """What a field may say, and what it said instead: a word of a gateway's own, no content."""
    said = f'"{printable(value[:_LONGEST_WORD])}"' if isinstance(value, str) else _brief(value)
    return f"expected one of {', '.join(_WORDS[field])}, got {said}"


def _brief(value: object) -> str:
    """A value's type, and the value itself where it is short and plain: contents never reach a message."""
    if isinstance(value, (bool, int, float)) and abs(value) < 10**18:  # of a longer number even repr() may raise
        return f"{type(value).__name__} {value!r}"
    return type(value).__name__


def _batch_call(call: object, place: int) -> BatchCall:
    if isinstance(call, (tuple, list)) and len(call) in (2, 3):
        call = BatchCall(*call)
    if not isinstance(call, BatchCall):
        found = type(call).__name__ + (f" of {len(call)}" if isinstance(call, (tuple, list)) else "")
        raise TypeError(
            f"calls[{place}]: expected a BatchCall or (call_id, tool, args), got {found}; "
            "use BatchCall(call_id, tool, args) with the names that your calls have for these"
        )
    for name in ("call_id", "tool"):
        if not isinstance(getattr(call, name), str):
            raise TypeError(f"calls[{place}].{name}: expected a string, got {_brief(getattr(call, name))}")
    return call


def batch_started(
    session_key: str,
    calls: Iterable[BatchCall | tuple[str, str, Any]],
    *,
    batch_id: str,
    run_id: str | None = None,
    agent_id: str | None = None,
    continues: str | None = None,
) -> list[ToolCallStarted]:
    """The starts of one whole response, in model call order.

    ``calls`` are :class:`BatchCall` or ``(call_id, tool, args)``. Every start carries the whole list, so the first
    one to be published admits or blocks the batch as one, whichever it is. Raises TypeError, which names what it was
    given, for anything else: the calls of a model's API are objects of other names and shapes.
    """
    if isinstance(calls, (str, bytes, Mapping, BatchCall)) or not isinstance(calls, Iterable):
        raise TypeError(f"batch_started takes a list of calls, got {type(calls).__name__}")
    batch = tuple(_batch_call(call, place) for place, call in enumerate(calls))
    return [
        ToolCallStarted(
            session_key=session_key,
            call_id=call.call_id,
            tool=call.tool,
            args=call.args,
            run_id=run_id,
            agent_id=agent_id,
            batch_id=batch_id,
            index=index,
            batch=batch,
            continues=continues,
        )
        for index, call in enumerate(batch)
    ]
