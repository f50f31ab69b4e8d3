"""What a tool result of hermes-agent says: whether the call failed, and what of the result is compared.

One rule for a result that has just come (:mod:`loopguard_plugin.hosts.hermes`) and for one read from the store
(:mod:`.hermes`), so that a replay counts what the live guard counted.

What hermes itself adds is left out of the comparison: how often it has seen the same read, search or patch ("BLOCKED:
… 4 times in a row", then "… 5 times"), how long a script ran, and what it puts around a result on the way into the
conversation (the frame of untrusted content, steering, hints, the warnings of its own loop guard).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from ..errors import ENDED
from ..events import Status
from .values import Object, as_list, as_object, text_of

STEERED: Final = "\n\n[OUT-OF-BAND USER MESSAGE"  # where the user wrote into a result

_reader: Final = json.JSONDecoder()
_FRAME: Final = re.compile(
    r"<untrusted_tool_result source=[^\n]*>\n[^\n]*\n\n(.*)\n</untrusted_tool_result>", re.DOTALL
)
_APPENDED: Final = (  # the last first
    re.compile(r"\n\n\[Subdirectory context discovered: .*\Z", re.DOTALL),
    re.compile(r"\n\n\[Tool loop (?:warning|hard stop): \w+; count=\d+; [^\n]*\]\Z"),
    re.compile(r"\n\n\[loopguard\] [^\n]*\Z"),
)
_ABOUT: Final = ("error", "_warning", "_hint")  # the keys under which hermes speaks of what it has counted
_COUNTED: Final = re.compile(r"\b\d+(?= times\b| consecutive failures\b)|(?<=failure #)\d+|(?<=~)\d+(?=s\b)")
_COUNTERS: Final = frozenset({"already_read", "already_searched", "loopguard_note"})
_CLOCKS: Final[Mapping[str, frozenset[str]]] = {
    "execute_code": frozenset({"duration_seconds"}),
    "process": frozenset({"uptime_seconds"}),
}


def outcome(tool: str, content: object) -> tuple[Status | None, object]:
    """How a call ended, and its result as it is to be compared; status None leaves it to SPEC 5.2.

    ``content``: the result as the tool gave it or as the store has it, a text or a JSON value. Failures are an
    ``exit_code`` of ``terminal`` other than 0, unless hermes says beside it that this is "not an error" (a search that
    found nothing, files that differ), a text that begins with ``Error``, what SPEC 5.2 finds in an object, and a
    ``delegate_task`` of which every sub-agent's turn was ended by the guard.
    """
    if isinstance(content, str):
        content = _bare(content)
        value, rest = _json_prefix(content)
        if isinstance(value, dict) and not rest.strip():
            return _of_object(tool, value)
        told = _COUNTED.sub("#", content) if isinstance(value, dict) else content
        return (Status.ERROR if told.startswith("Error") else None), told
    return _of_object(tool, content) if isinstance(content, dict) else (None, content)


def _of_object(tool: str, found: Object) -> tuple[Status | None, object]:
    if tool == "delegate_task" and (reasons := _ends(found.get("results"))):
        return Status.ERROR, reasons
    left_out = _COUNTERS | _CLOCKS.get(tool, frozenset())
    value: Object = {key: part for key, part in found.items() if key not in left_out}
    for key in _ABOUT:
        if isinstance(part := value.get(key), str):
            value[key] = _COUNTED.sub("#", part)
    if tool == "process":  # under the names where SPEC 5, rows 9 and 10, look for them
        value |= {"exitCode": found.get("exit_code"), "totalLines": found.get("total_lines")}
        value["text"] = found.get("output", found.get("output_preview"))
    code = found.get("exit_code")
    if tool != "terminal" or not isinstance(code, int) or code == 0:
        return None, value
    harmless = "not an error" in str(found.get("exit_code_meaning")) and not found.get("error")
    return (None if harmless else Status.ERROR), value


def _json_prefix(text: str) -> tuple[object, str]:
    """The JSON object that a text begins with, and what follows it; the text itself and "" if it begins with none."""
    if not text.startswith("{"):
        return text, ""
    try:
        value, end = _reader.raw_decode(text)
    except (ValueError, RecursionError):
        return text, ""
    return value, text[end:]


def _ends(results: object) -> list[str]:
    """Why the turns of all sub-agents were ended; empty if one of them was not."""
    said = [text_of(as_object(one), "summary") for one in as_list(results)]
    return said if all(text.startswith(ENDED) for text in said) else []


def _bare(text: str) -> str:
    """The result without what hermes and this guard put around it and behind it."""
    text = text.split(STEERED, 1)[0]
    if (framed := _FRAME.fullmatch(text)) is not None:
        text = framed.group(1)
    for pattern in _APPENDED:
        if "\n\n[" not in text:
            break
        text = pattern.sub("", text)
    return text
