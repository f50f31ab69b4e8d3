"""OpenTelemetry GenAI spans (OTLP as JSON, or spans one by one), and Langfuse exports.

A span ``execute_tool`` is a call; the spans of one parent are told in the order of their start, and a call that starts
before the one before it ended belongs to its batch. Arguments and results are there only where the application records
them (``gen_ai.tool.call.arguments``, ``.result``). In Langfuse a
``TOOL`` observation is a call. Shapes: the GenAI semantic conventions of OpenTelemetry; Langfuse's API reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..events import BatchCall, Event, Status
from .items import Items, Placed, Unreadable
from .reading import UNRECORDED, answered, entries
from .source import Source
from .talk import Talk, Talks
from .values import Object, as_list, as_object, inner, json_text, text_of

_RESOURCES = ("resourceSpans", "resource_spans")
_SPANS = ("spans", "observations", "data")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "tool_arguments", "input.value", "traceloop.entity.input")
_RESULT = ("gen_ai.tool.call.result", "tool_response", "output.value", "traceloop.entity.output")
_FAILED = ("STATUS_CODE_ERROR", "ERROR", 2)


def fits(value: object) -> bool:
    """Whether this is a span or an observation, or holds some."""
    fields = as_object(value)
    return any(name in fields for name in _RESOURCES) or any(
        _is_span(one) or _is_observation(one) for one in inner(value, *_SPANS)
    )


def read(source: Source, talks: Talks) -> Items:
    """Every trace of one file is a conversation. ``line`` is the place of the call in it, by time."""
    traces: dict[str, list[_Span]] = {}
    for item in entries(source, *_SPANS):
        if isinstance(item, Unreadable):
            yield item
            continue
        for fields in _spans_in(item[2]):
            span = _Span(fields)
            if span.tool:
                traces.setdefault(span.session, []).append(span)
    for name, spans in traces.items():
        talk = talks.open(name or source.stem)
        yield from _events(talk, sorted(spans, key=lambda one: one.start))


def _spans_in(fields: Object) -> Iterator[Object]:
    """The spans of an OTLP request, an observation with what it holds, or the span itself."""
    resources = [one for name in _RESOURCES for one in as_list(fields.get(name))]
    for resource in map(as_object, resources):
        for name in ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            for scope in map(as_object, as_list(resource.get(name))):
                yield from map(as_object, as_list(scope.get("spans")))
    if not resources:
        yield fields


class _Span:
    """One call of a tool, if ``tool`` is not empty."""

    def __init__(self, fields: Object) -> None:
        attributes = _attributes(fields)
        observation = _is_observation(fields)
        name = text_of(fields, "name")
        self.tool = ""
        if observation and fields.get("type") == "TOOL":
            self.tool = name
        elif text_of(attributes, "gen_ai.operation.name") == "execute_tool" or _is_tool(attributes):
            self.tool = text_of(attributes, "gen_ai.tool.name", "tool.name") or name.removeprefix("execute_tool ")
        self.session = text_of(attributes, "gen_ai.conversation.id", "session.id") or text_of(
            fields, "sessionId", "traceId", "trace_id"
        )
        self.id = text_of(attributes, "gen_ai.tool.call.id") or text_of(fields, "spanId", "span_id", "id")
        self.parent = text_of(fields, "parentSpanId", "parent_span_id", "parentObservationId")
        self.start = _time(fields, "startTimeUnixNano", "start_time_unix_nano", "startTime", "start_time")
        self.end = _time(fields, "endTimeUnixNano", "end_time_unix_nano", "endTime", "end_time")
        self.args = _read(fields.get("input") if observation else _first(attributes, *_ARGUMENTS))
        result = fields.get("output") if observation else _first(attributes, *_RESULT)
        status = as_object(fields.get("status"))
        code = status.get("code", status.get("status_code"))
        failed = code in _FAILED or fields.get("level") == "ERROR" or bool(text_of(attributes, "error.type"))
        message = text_of(status, "message", "description") or text_of(fields, "statusMessage")
        self.status = Status.ERROR if failed else None
        self.result: object = _read(result) if result is not None else (message or "error") if failed else UNRECORDED

    def answer(self) -> tuple[BatchCall, Status | None, object]:
        return BatchCall(self.id, self.tool, self.args), self.status, self.result


def _events(talk: Talk, spans: list[_Span]) -> Items:
    batch: list[_Span] = []
    place = 0
    for place, span in enumerate(spans, 1):
        together = batch and span.parent == batch[0].parent and "" < span.start < max(one.end for one in batch)
        if batch and not together:
            yield from (Placed(event, place - 1) for event in _answered(talk, batch))
            batch = []
        batch.append(span)
    yield from (Placed(event, place) for event in _answered(talk, batch))


def _answered(talk: Talk, batch: list[_Span]) -> Iterator[Event]:
    if batch:
        yield from answered(talk, [one.answer() for one in batch])


def _is_span(fields: Object) -> bool:
    return bool(text_of(fields, "spanId", "span_id")) and "attributes" in fields


def _is_observation(fields: Object) -> bool:
    return "traceId" in fields and text_of(fields, "type") in ("TOOL", "GENERATION", "SPAN", "EVENT", "AGENT", "CHAIN")


def _is_tool(attributes: Object) -> bool:
    kinds = (attributes.get(name) for name in ("openinference.span.kind", "traceloop.span.kind"))
    return any(isinstance(kind, str) and kind.lower() == "tool" for kind in kinds)


def _attributes(fields: Object) -> Object:
    """Attributes as an object: OTLP writes a list of keys and typed values."""
    given = fields.get("attributes")
    if isinstance(given, dict):
        return given
    listed: Iterable[Object] = map(as_object, as_list(given))
    return {text_of(one, "key"): _plain(one.get("value")) for one in listed}


def _plain(value: object) -> object:
    fields = as_object(value)
    if "arrayValue" in fields:
        return [_plain(one) for one in as_list(as_object(fields["arrayValue"]).get("values"))]
    if "kvlistValue" in fields:
        pairs = map(as_object, as_list(as_object(fields["kvlistValue"]).get("values")))
        return {text_of(one, "key"): _plain(one.get("value")) for one in pairs}
    return next((one for name, one in fields.items() if name.endswith("Value")), value)


def _first(owner: Object, *names: str) -> object:
    return next((owner[name] for name in names if owner.get(name) is not None), None)


def _read(value: object) -> object:
    return json_text(value) if isinstance(value, str) else value


def _time(fields: Object, *names: str) -> str:
    """A time as text that sorts: nanoseconds are padded, ISO times are as they are."""
    value = _first(fields, *names)
    return str(value).rjust(24, "0") if isinstance(value, int) or str(value).isdigit() else str(value or "")
