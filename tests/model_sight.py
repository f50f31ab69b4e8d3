"""What the slow model sees of calls and results: a small reading of SPEC 3 and 5 for plain JSON values.

It knows the rows that the generators of the property tests produce, and enough others for most of the case files:
Code Mode, memory searches, window states and private identities of odd types are left to the real observe half.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping

from model_streaks import FAILURES, Identity, Seen
from model_volatile import similar_value, without_times, without_volatile

from loopguard_plugin.events import ToolCallSettled

ALIASES = {"bash": "exec", "apply-patch": "apply_patch"}
SENDS = ("sessions_send", "conversations_send", "conversations_turn")
SEND_ACTIONS = [
    "send",
    "broadcast",
    "reply",
    "thread-reply",
    "sendWithEffect",
    "sendAttachment",
    "upload-file",
    "sticker",
    "poll",
]
DELIVERY_IDS = [
    "messageId",
    "message_id",
    "messageIds",
    "platformMessageId",
    "platformMessageIds",
    "fileId",
    "file_id",
    "fileKey",
    "pollId",
    "poll_id",
    "receipt",
    "runId",
    "idempotencyKey",
    "ts",
    "timestamp",
    "sentAt",
    "deliveredAt",
    "createdAt",
]
BAD_STATUS = [
    "error",
    "failed",
    "failure",
    "timeout",
    "timed_out",
    "denied",
    "forbidden",
    "unavailable",
    "disabled",
    "aborted",
    "cancelled",
    "canceled",
    "killed",
    "invalid",
]
NO_OUTPUT = re.compile(r"(\(no output\)|\(Command exited with code -?\d+\)|\s)*")
INNERMOST_WRAPPER = re.compile(
    r'<<<EXTERNAL_UNTRUSTED_CONTENT id=(\\*")([0-9a-f]{16})\1>>>'
    r"((?:(?!<<<(?:END_)?EXTERNAL_UNTRUSTED_CONTENT id=).)*)"
    r"<<<END_EXTERNAL_UNTRUSTED_CONTENT id=\1\2\1>>>",
    re.DOTALL,
)
NO_SUCH_TOOL = re.compile(
    r"unknown tool( id)?:?\s+\S|tool\s+\S+\s+not found|tool\s+\S+\s+is not available",
    re.IGNORECASE,
)


class PlainSight:
    """Compares by canonical JSON text. ``kinds``: tools that the settings declare ``poll`` or ``send``."""

    def __init__(self, kinds: Mapping[str, str] | None = None) -> None:
        self.kinds = kinds or {}

    def call(self, tool: str, args: object) -> Identity:
        name = normalised(tool)
        if name == "exec" and isinstance(args, dict):
            args = {key: value for key, value in args.items() if key != "title"}
        action = args.get("action") if isinstance(args, dict) else None
        polls = name == "command_status" or (name == "process" and action in ("poll", "log"))
        kind = "wait" if name == "wait" else "poll" if polls or self.kinds.get(name) == "poll" else "plain"
        return Identity(name, (name, exact(args)), kind)

    def settled(self, event: ToolCallSettled, tool: str, args: object) -> Seen:
        name = normalised(tool)
        action = args.get("action") if isinstance(args, dict) else None
        details = details_of(event.result)
        status = status_of(event, details, name)
        failed = status in FAILURES
        mode = details.get("status")
        if event.outcome_identity is not None and not failed:
            return Seen(status, ("identity", canonical(event.outcome_identity)))
        if event.error is not None:
            text = event.error if isinstance(event.error, str) else canonical(event.error)
            unknown = status == "unknown_tool" or NO_SUCH_TOOL.search(text) is not None
            similar = ("similar error", similar_error(event.error))
            return Seen(status, ("error", bare(text)), unknown_tool=failed and unknown, similar=similar)
        if name in ("exec", "wait") and ("telemetry" in details or "pendingToolCalls" in details):
            payload = code_mode(details)
            similar = ("similar code mode", canonical(similar_value(payload)))
            return Seen(status, (failed, "code mode", canonical(payload)), similar=similar if failed else None)
        if name == "exec" and mode == "running":
            similar = ("similar running", canonical(similar_value(details.get("tail"))))
            tail = canonical(details.get("tail"))
            return Seen(status, (failed, "running", tail), similar=similar if failed else None)
        if name == "exec" and mode in ("completed", "failed"):
            return finished(status, failed, details, text_of(event.result))
        if name == "exec" and mode in ("approval-pending", "approval-unavailable"):
            asked = [str(details.get(key, "")) for key in ("reason", "host", "command", "warningText")]
            pending = ("similar", mode, *map(without_volatile, asked))
            return Seen(status, (failed, mode, *asked), similar=pending if failed else None)
        if failed:
            similar = ("similar result", canonical(similar_value(event.result)))
            unknown = status == "unknown_tool"
            return Seen(status, (failed, canonical(event.result)), unknown_tool=unknown, similar=similar)
        if name == "write" and details.get("changed") is False:
            return Seen(status, "unchanged", unchanged=True)
        if name == "process" and action in ("poll", "log"):
            names = {
                "poll": ("exitCode", "exitSignal", "aggregated"),
                "log": ("totalLines", "totalChars", "truncated", "exitCode", "exitSignal"),
            }[action]
            state = [details.get("status", "absent"), *(details.get(name) for name in names), text_of(event.result)]
            return Seen(status, (action, canonical(state)))
        if isinstance(event.result, dict) and (
            name in SENDS or self.kinds.get(name) == "send" or (name == "message" and action in SEND_ACTIONS)
        ):
            return Seen(status, ("sent", canonical(without_ids(details))))
        if name == "computer" and isinstance(details.get("observation"), dict):
            return Seen(status, ("window", canonical(without_refs(details))))
        return Seen(status, ("value", canonical(event.result)))


def finished(status: str, failed: bool, details: Mapping[str, object], text: str) -> Seen:
    """Row 5 of SPEC 5, with the failure identity of 5.1."""
    outputs = [value for value in (details.get("aggregated"), details.get("output")) if isinstance(value, str)]
    output = bare(next((value for value in outputs if value.strip()), text).strip())
    code = details.get("exitCode")
    code = code if isinstance(code, (int, float)) and not isinstance(code, bool) else None
    timed_out = details.get("timedOut") is True
    fields = ("finished", failed, details.get("status"), code, timed_out)
    failure: Hashable | None = None
    if code and not timed_out and NO_OUTPUT.fullmatch(output) is None:
        failure = (*fields, without_times(output))
    similar = ("similar", *fields, without_volatile(output)) if failed else None
    return Seen(status, (*fields, output), failure, similar=similar)


def similar_error(error: object) -> str:
    """The error of row 2 without its volatile spans."""
    return bare(without_volatile(error)) if isinstance(error, str) else canonical(similar_value(error))


def status_of(event: ToolCallSettled, details: Mapping[str, object], tool: str) -> str:
    """The given status, else the derived one (SPEC 2, 5.2)."""
    if event.status is not None:
        return str(event.status)
    if event.error is not None:
        return "error"
    if details.get("status") == "blocked" and details.get("deniedReason") == "tool-loop":
        return "blocked"
    fine = details.get("ok") is True or details.get("success") is True
    wrong = details.get("ok") is False or details.get("success") is False or bool(details.get("error"))
    wrong = wrong or (details.get("status") in BAD_STATUS and not fine)
    whole = event.result if isinstance(event.result, dict) else {}
    for name in ("isError", "is_error"):
        wrong = wrong or details.get(name) is True or whole.get(name) is True
    return "error" if wrong else "ok"


def details_of(result: object) -> Mapping[str, object]:
    if not isinstance(result, dict):
        return {}
    if isinstance(result.get("details"), dict):
        details: Mapping[str, object] = result["details"]
        return details
    return {key: value for key, value in result.items() if key != "content"}


def text_of(result: object) -> str:
    if isinstance(result, str):
        return result.strip()
    if not isinstance(result, dict):
        return ""
    content = result.get("content")
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, list):
        texts = [one["text"] for one in content if isinstance(one, dict) and isinstance(one.get("text"), str)]
        return "\n".join(texts).strip()
    return str(result.get("text", "")).strip()


def code_mode(details: Mapping[str, object]) -> dict[str, object]:
    """Row 3 of SPEC 5, without retained values."""
    kept = {key: value for key, value in details.items() if key not in ("telemetry", "runId")}
    pending = kept.get("pendingToolCalls")
    if isinstance(pending, list):
        kept["pendingToolCalls"] = [{key: one.get(key) for key in ("method", "args")} for one in pending]
    return kept


def without_refs(details: Mapping[str, object]) -> dict[str, object]:
    """Row 13 of SPEC 5, for an observation in the details themselves."""
    observation = details["observation"]
    assert isinstance(observation, dict)
    kept = {key: value for key, value in observation.items() if key != "observationId"}
    if isinstance(kept.get("elements"), list):
        kept["elements"] = [{k: v for k, v in one.items() if k != "elementRef"} for one in kept["elements"]]
    return {**details, "observation": kept}


def without_ids(value: object) -> object:
    if isinstance(value, list):
        return [without_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    sent = isinstance(value.get("id"), str) and isinstance(value.get("text"), str)
    sent = sent and (
        any(isinstance(value.get(name), str) for name in ("direction", "senderId", "accountId"))
        or isinstance(value.get("conversation"), dict)
    )
    kept = {key: one for key, one in value.items() if key not in DELIVERY_IDS and not (sent and key == "id")}
    return {key: without_ids(one) for key, one in kept.items()}


def exact(value: object) -> str:
    """Canonical JSON; wrapper nonces count."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))


def canonical(value: object) -> str:
    """Canonical JSON without wrapper nonces."""
    return bare(exact(value))


def plain(value: object) -> object:
    """``1.0`` equals ``1``, ``-0`` equals ``0``."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


def bare(text: str) -> str:
    """The text without the ids of its wrappers, from the innermost wrapper out (SPEC 5.3)."""
    before = ""
    while before != text:
        before, text = text, INNERMOST_WRAPPER.sub(r"<<wrapped>>\3<</wrapped>>", text)
    return text


def normalised(tool: str) -> str:
    name = tool.strip().casefold()
    return ALIASES.get(name, name) or "tool"
