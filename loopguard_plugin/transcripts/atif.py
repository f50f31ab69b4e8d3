"""ATIF, the Agent Trajectory Interchange Format (Harbor), and its dialects seen in the wild.

One JSON document with ``steps`` (read whole), or JSONL with a header line and one step a line (streamed). A step of
the agent holds its calls and, usually, their results. Dialects: system steps with the result of a command and no
call; results as system steps *before* the step that made the calls; terminus-2, which writes its commands into the
message, as JSON or XML, and has one screen for all of them. Results without a ``source_call_id`` belong to the calls of
their step, in order. From 1.5 on a step may be a copy from the trajectory before (``is_copied_context``): its calls are
not new. From 1.7 on sub-agents may be embedded (``subagent_trajectories``): each is a run of its own. Shape: Harbor's
RFC 0001.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from ..events import BatchCall, Event, Status
from .items import Items, Placed, Unreadable
from .jsonl import objects
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, json_text, kind, said_text, text_of

_RESULT_FOR = re.compile(r"Tool result for (\S+)")
_KEYSTROKES = re.compile(r"<keystrokes\b[^>]*>(.*?)</keystrokes>", re.DOTALL)
_MOST_EARLY = 4096


def fits(value: object) -> bool:
    """Whether this is a trajectory, or a header line. Other formats have a ``schema_version`` too."""
    fields = as_object(value)
    if "__header__" in fields or text_of(fields, "schema_version").upper().startswith("ATIF"):
        return True
    return isinstance(fields.get("steps"), list) and ("agent" in fields or "schema_version" in fields)


def read(source: Source, talks: Talks) -> Items:
    """The steps of one trajectory."""
    if source.by_lines():
        yield from _lines(source, talks)
        return
    document, problem = source.document()
    steps = as_object(document).get("steps")
    if problem is not None or not isinstance(steps, list):
        yield Unreadable(0, f'expected an object with "steps": {problem or f"found {kind(document)}"}')
        return
    yield from _document(talks.open(_name(as_object(document), source)), as_object(document))


def _lines(source: Source, talks: Talks) -> Items:
    trajectory: _Trajectory | None = None
    for entry in objects(source):
        if isinstance(entry, Unreadable):
            yield entry
            continue
        line, fields = entry
        if isinstance(fields.get("steps"), list):
            yield from _document(talks.open(_name(fields, source)), fields)
            continue
        if trajectory is None:
            trajectory = _Trajectory(talks.open(_name(fields, source)))
        yield from (Placed(event, line) for event in trajectory.step(fields))


def _document(talk: Talk, document: Object) -> Items:
    yield from _steps(_Trajectory(talk), as_list(document.get("steps")))
    for number, inner in enumerate(map(as_object, as_list(document.get("subagent_trajectories"))), 1):
        name = text_of(inner, "trajectory_id", "session_id") or f"subagent-{number}"
        yield from _document(talk.sub_agent(name), inner)


def _name(fields: Object, source: Source) -> str:
    return text_of(fields, "session_id", "sessionId") or source.stem


def _steps(trajectory: _Trajectory, steps: list[object]) -> Items:
    for place, step in enumerate(map(as_object, steps), 1):
        yield from (Placed(event, place) for event in trajectory.step(step))


class _Trajectory:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._early: dict[str, Object] = {}  # results that came before their call

    def step(self, step: Object) -> Iterator[Event]:
        """The events of one step."""
        if step.get("is_copied_context") is True:
            return
        observation = as_object(step.get("observation"))
        calls = [_call(as_object(call)) for call in as_list(step.get("tool_calls"))]
        results = [as_object(one) for one in as_list(observation.get("results"))]
        if step.get("source") == "user":
            yield self.talk.said()
        if not calls and step.get("source") == "agent":
            calls = terminus_calls(said_text(step.get("message")))
        if calls:
            yield from self.talk.asked(calls)
            yield from self._known_results(calls)
        elif not results and (early := _RESULT_FOR.search(text_of(step, "message"))):
            yield from self._early_result(early.group(1).rstrip(":."), observation)
        if calls and results and not any(text_of(one, "source_call_id") for one in results):
            yield from self._in_order(calls, results)
        else:
            for result in results:
                yield from self._result(result)

    def _in_order(self, calls: list[BatchCall], results: list[Object]) -> Iterator[Event]:
        """Results without ids: one a call, or one screen that shows what came of all of them."""
        for place, call in enumerate(calls):
            result = results[place] if len(results) == len(calls) else results[-1]
            yield self.talk.settled(call.call_id, result=result.get("content"))

    def _known_results(self, calls: list[BatchCall]) -> Iterator[Event]:
        for call in calls:
            if (observation := self._early.pop(call.call_id, None)) is not None:
                yield self._observed(call.call_id, observation)

    def _early_result(self, call_id: str, observation: Object) -> Iterator[Event]:
        if self.talk.tool(call_id):
            yield self._observed(call_id, observation)
        elif len(self._early) < _MOST_EARLY:
            self._early[call_id] = observation

    def _observed(self, call_id: str, observation: Object) -> Event:
        result = observation.get("result", observation.get("content"))
        error = as_object(result).get("error")
        return self.talk.settled(call_id, result=result, status=Status.ERROR if error else Status.OK)

    def _result(self, result: Object) -> Iterator[Event]:
        content = result.get("content")
        call_id = text_of(result, "source_call_id")
        if call_id:
            yield self.talk.settled(call_id, result=content)
        elif text_of(as_object(content), "command"):
            command = as_object(content)
            yield from self.talk.asked([BatchCall("command", "command", {"command": command["command"]})])
            status = Status.ERROR if command.get("passed") is False else Status.OK
            yield self.talk.settled("command", result=command.get("output"), status=status)


def terminus_calls(message: str) -> list[BatchCall]:
    """The commands that terminus-2 wrote into its message; none if there are no keystrokes."""
    keys = [html.unescape(text) for text in _KEYSTROKES.findall(message)]
    start, end = message.find("{"), message.rfind("}")
    if not keys and 0 <= start < end:
        commands = as_list(as_object(json_text(message[start : end + 1])).get("commands"))
        keys = [text for one in commands if isinstance(text := as_object(one).get("keystrokes"), str)]
    return [BatchCall(f"keys-{place}", "bash_command", {"keystrokes": text}) for place, text in enumerate(keys)]


def _call(call: Object) -> BatchCall:
    arguments = call.get("arguments")
    return BatchCall(
        text_of(call, "tool_call_id", "id"),
        text_of(call, "function_name", "name"),
        json_text(arguments) if isinstance(arguments, str) else arguments,
    )
