"""Inspect (UK AI Security Institute): an evaluation log as ``.json``, or as ``.eval``, which is a ZIP archive.

Every sample is a conversation: its messages are those of OpenAI's chat, but for a function's name and arguments beside
``id``, and ``error`` of a tool message. Shape: the log file reference of Inspect.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .archive import Members
from .items import Items, Placed, Unreadable
from .source import LONGEST, Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, json_text, json_values, text_of

_ERRORS = {"approval": Status.DENIED, "parsing": Status.REJECTED}


def fits(value: object) -> bool:
    """Whether this is a log: a document, or an archive of samples."""
    if isinstance(value, Members):
        return "header.json" in value.names or any(name.startswith("_journal/") for name in value.names)
    fields = as_object(value)
    return "eval" in fields and ("samples" in fields or "plan" in fields)


def read(source: Source, talks: Talks) -> Items:
    """Every sample of a log. ``line`` is the place of the message in its sample."""
    if source.archive() is not None:
        yield from _archive(source, talks)
        return
    document, problem = source.document()
    if problem is not None:
        yield Unreadable(0, f'expected an object with "samples": {problem}')
    for sample in map(as_object, as_list(as_object(document).get("samples"))):
        yield from _sample(sample, source.stem, talks)


def _archive(source: Source, talks: Talks) -> Items:
    if source.path is None:
        yield Unreadable(0, "an Inspect archive is read from its file, not from standard input")
        return
    try:
        with zipfile.ZipFile(source.path) as archive:
            for member in archive.infolist():
                if not (member.filename.startswith("samples/") and member.filename.endswith(".json")):
                    continue
                if member.file_size > LONGEST:
                    yield Unreadable(0, f"{member.filename} is longer than {LONGEST >> 20} MiB")
                    continue
                values, problem = json_values(archive.read(member))
                if problem is not None:
                    yield Unreadable(0, f"{member.filename}: {problem}")
                for sample in map(as_object, values):
                    yield from _sample(sample, source.stem, talks)
    except (OSError, zipfile.BadZipFile, RuntimeError) as error:
        yield Unreadable(0, f"not an Inspect archive that can be read: {error}")
    except NotImplementedError:
        yield Unreadable(0, "compressed in a way that this Python cannot read; `inspect log convert` helps")


def _sample(sample: Object, stem: str, talks: Talks) -> Items:
    numbers = [str(sample[name]) for name in ("id", "epoch") if isinstance(sample.get(name), (int, str))]
    talk = talks.open(".".join([stem, *numbers]))
    for place, message in enumerate(map(as_object, as_list(sample.get("messages"))), 1):
        yield from (Placed(event, place) for event in _events(talk, message))


def _events(talk: Talk, message: Object) -> Iterator[Event]:
    match message.get("role"):
        case "user":
            yield talk.said()
        case "assistant":
            calls = [_call(as_object(call)) for call in as_list(message.get("tool_calls"))]
            if calls:
                yield from talk.asked(calls)
        case "tool":
            error = as_object(message.get("error"))
            name = text_of(message, "function")
            status = _ERRORS.get(text_of(error, "type"), Status.ERROR) if error else Status.OK
            result = text_of(error, "message") or error or message.get("content")
            yield talk.settled(text_of(message, "tool_call_id") or name, result=result, status=status, tool=name)


def _call(call: Object) -> BatchCall:
    function = call.get("function")
    holder = function if isinstance(function, dict) else {"name": function, "arguments": call.get("arguments")}
    args = holder.get("arguments")
    name = text_of(holder, "name")
    return BatchCall(text_of(call, "id") or name, name, json_text(args) if isinstance(args, str) else args)
