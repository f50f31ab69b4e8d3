"""OpenAI chat messages: a list of messages, a list of runs (tau-bench, AgentRx), mini-swe-agent, or JSONL of any of it
(nanobot's sessions too).

A file that is one JSON document is read whole; JSONL is streamed, and a line may be a conversation or one message.
The format has no mark for a failed call: a result that begins with ``Error`` is one, and so is a ``returncode``
other than 0, and a command of nanobot that ends with another ``Exit code``.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..events import BatchCall, Status
from . import mini_swe, nanobot_results
from .items import Items, Placed, Unreadable
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, json_text, json_values, kind, said_text, text_of


def fits(value: object) -> bool:
    """Whether this is a message, a list of messages, or something that holds one."""
    first = as_object(value[0] if isinstance(value, list) and value else value)
    return _is_message(first) or any(
        _is_message(as_object(next(iter(as_list(first.get(key))), None))) for key in ("messages", "traj")
    )


def _is_message(fields: Object) -> bool:
    return isinstance(fields.get("role"), str) and ("content" in fields or "tool_calls" in fields)


def read(source: Source, talks: Talks) -> Items:
    """Every conversation of one file."""
    if not source.by_lines():
        document, problem = source.document()
        if problem is not None:
            yield Unreadable(0, f"expected a list of messages: {problem}")
        else:
            yield from _conversations(document, source.stem, talks, None)
        return
    loose: Talk | None = None
    for line, text in source.lines():
        values, problem = json_values(text)
        for value in values:
            message = as_object(value)
            if isinstance(message.get("_type"), str):  # nanobot's lines about the session
                continue
            if isinstance(message.get("role"), str):
                loose = loose or talks.open(source.stem)
                yield from messages_of(loose, [message], line)
            else:
                yield from _conversations(value, source.stem, talks, line)
        if problem is not None:
            yield Unreadable(line, f"expected a message or a list of messages: {problem}")


def _conversations(value: object, name: str, talks: Talks, line: int | None) -> Items:
    """The conversations in a value: a list of messages, an object that holds one, or a list of such objects."""
    if isinstance(value, dict):
        messages = next((value[key] for key in ("messages", "traj") if isinstance(value.get(key), list)), None)
        if messages is None:
            yield Unreadable(line or 0, 'expected "messages" or "traj" with a list of messages')
        else:
            yield from messages_of(talks.open(_name(value, name)), as_list(messages), line)
    elif isinstance(value, list):
        if any("role" in as_object(one) for one in value):
            yield from messages_of(talks.open(name), value, line)
        else:
            for place, one in enumerate(value, 1):
                yield from _conversations(one, name, talks, line or place)
    else:
        yield Unreadable(line or 0, f"expected a message or a list of messages, found {kind(value)}")


def _name(fields: Object, name: str) -> str:
    """The conversation's own name: mini-swe-agent's instance, or the file with the number of the task."""
    for key in ("instance_id", "id", "session_id"):
        if text_of(fields, key):
            return text_of(fields, key)
    numbers = [str(fields[key]) for key in ("task_id", "trial") if isinstance(fields.get(key), (int, str))]
    return ".".join([name, *numbers])


def messages_of(talk: Talk, messages: Iterable[object], line: int | None) -> Items:
    """The messages of one conversation. ``line`` is where all of them stand, None: count them."""
    listed = list(messages)
    told = mini_swe.told_in_text(map(as_object, listed))
    for place, message in enumerate(map(as_object, listed), 1):
        at = line or place
        match message.get("role"):
            case "user" if told and talk.tool("command"):
                status, result = _outcome(message)
                yield Placed(talk.settled("command", result=result, status=status), at)
            case "user" if not mini_swe.by_program(message):
                yield Placed(talk.said(), at)
            case "assistant":
                calls = mini_swe.calls(message) if told else _calls(message)
                if calls:
                    yield from (Placed(event, at) for event in talk.asked(calls))
            case "tool" | "function":
                name = text_of(message, "name")
                call_id = text_of(message, "tool_call_id") or name
                status, result = _outcome(message, talk.tool(call_id) or name)
                yield Placed(talk.settled(call_id, result=result, status=status, tool=name), at)


def _calls(message: Object) -> list[BatchCall]:
    """The calls of a response; the old style has one, without an id, and is paired by the function's name."""
    calls = []
    for call in map(as_object, as_list(message.get("tool_calls"))):
        function = as_object(call.get("function")) or as_object(call.get("custom"))
        calls.append(_call(text_of(call, "id"), function))
    old = as_object(message.get("function_call"))
    if old and not calls:
        calls.append(_call(text_of(old, "name"), old))
    return calls


def _call(call_id: str, function: Object) -> BatchCall:
    arguments = function.get("arguments", function.get("input"))
    return BatchCall(
        call_id, text_of(function, "name"), json_text(arguments) if isinstance(arguments, str) else arguments
    )


def _outcome(message: Object, tool: str = "") -> tuple[Status, object]:
    if (ended := mini_swe.outcome(message)) is not None:
        return ended
    content = message.get("content")
    text = said_text(content)
    ended = nanobot_results.outcome(tool, text)
    return ended or (Status.ERROR if text.startswith("Error") else Status.OK, content)
