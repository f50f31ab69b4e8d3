"""The observing half: what a call and a settlement come to, as digests and flags (SPEC 3, 5).

All comparing happens here, and all per-tool rules. Contents are seen here and not kept; the deciding half never sees
them. Nothing here raises, whatever arguments and results are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec import Struct, structs
from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

from ..events import Status, ToolCallSettled
from ..settings import ResolvedSettings
from .exact import exact
from .fingerprint import (
    CANONICAL,
    FLOAT,
    beside_digest,
    canonical,
    dumps,
    json_value,
    outcome_digest,
    pack,
    parts_digest,
    text_digest,
    without_fractions,
)
from .outcomes import OF_FAILURES_TOO, OF_SUCCESSES, Compared, Rule
from .outcomes.failing import SHOWN, error_text, result_error_text, says_unknown_tool, status_of
from .outcomes.parts import details_of, only_details, text_and_media
from .outcomes.rules import ORDINARY, SPECIAL, ByAction, CallKind, Rules, declared
from .outcomes.volatile import readable, value_without_volatile, without_spans, without_volatile
from .paths import Path, only, without

__all__ = [
    "Call",
    "CallKind",
    "Settlement",
    "identify",
    "normalise_tool",
    "observe_call",
    "observe_settlement",
    "tools_under",
]

# Digests of different rows, and of failures and successes of one row, never equal: each has a seed of its own.
_IDENTITY, _ERROR, _IN_FULL, _PARTS, _WHOLE, WHOLE_TEXT, _OPAQUE = 1, 2, 7, 15, 16, 17, 18
_FAILED_SEED: Final = 1 << 32
_EXEC_SEED: Final = 1 << 33  # failure identities of SPEC 5.1
_SIMILAR_SEED: Final = 1 << 34  # those of 5.1b

_FAILURES: Final = frozenset((Status.ERROR, Status.UNKNOWN_TOOL, Status.REJECTED, Status.DENIED))

_OK: Final = Status.OK
_FAILED: Final = Status.ERROR
_UNKNOWN_TOOL: Final = Status.UNKNOWN_TOOL
_GENERAL: Final = Rule.GENERAL
_EXEC: Final = Rule.EXEC
_WRITE: Final = Rule.WRITE


class Call(Struct, frozen=True, gc=False):
    """A call's identity. ``key``: digest of tool and arguments; ``shown``: the name as the model wrote it.

    ``ignore``: the paths of its results that an operator does not want compared; ``similar``: nor volatile spans.
    ``plain``: of a result that is a text nothing counts but its digest.
    """

    key: int
    tool: str
    shown: str
    kind: CallKind = CallKind.PLAIN
    rule: Rule = Rule.GENERAL
    ignore: tuple[Path, ...] = ()
    similar: bool = False
    plain: bool = True


class Settlement(Struct, frozen=True, gc=False):
    """What a settlement came to.

    ``outcome``: digest of what counts of the result; None where nothing was compared (not wanted, or the call did not
    run). ``failure``: the failure identity, where one was wanted: of every failure, and of a command that completed
    with a nonzero exit; ``exec_failure``: it is that of SPEC 5.1, else that of 5.1b. ``unknown_tool``: failed because
    no such tool exists. ``unchanged``: a ``write`` that changed nothing. ``error_text``: what a failure says, at most
    300 characters.
    """

    status: Status
    outcome: int | None = None
    failure: int | None = None
    unknown_tool: bool = False
    unchanged: bool = False
    error_text: str | None = None
    exec_failure: bool = False

    @property
    def compared(self) -> int | None:
        """What the rolling detectors compare: of a failure its identity, else the outcome."""
        return self.failure if self.status in _FAILURES else self.outcome


_WORKED: Final = Settlement(Status.OK)


# See Tools.
Tool: TypeAlias = tuple[str, str, int, Rules | ByAction | None, tuple[Path, ...] | None]


def normalise_tool(name: str, settings: ResolvedSettings) -> str:
    """A tool's name for comparing: trimmed, case-folded, aliases resolved; ``tool`` where it is blank (SPEC 3)."""
    folded = name.strip().casefold() or "tool"
    return settings.aliases.get(folded, folded)


def observe_call(tool: str, args: object, settings: ResolvedSettings) -> Call:
    """The identity of a call. ``tool`` is the name as the model wrote it."""
    return identify(tool, args, tools_under(settings))


def identify(tool: str, args: object, tools: Tools) -> Call:
    """As :func:`observe_call`."""
    shown, name, seed, rules, identity = tools[tool]
    if rules is not None:
        if rules.__class__ is dict:
            rules = _rules_of_action(rules, args)
        rule, kind, ignore, similar, plain = rules
        if rule is _EXEC:
            args = _exec_args(args)
        if identity is not None:
            args = _only(args, identity)
    try:  # as in canonical(), whose call would cost a tenth of all there is to do for a call
        out = dumps(args, None, CANONICAL)
        packed = pack(args)
        if FLOAT in packed:
            out = without_fractions(args, out, packed)
    except Exception:  # not JSON, or an object in it that raises anything
        out = exact(args, False)
    if rules is None:
        return Call(xxh3_128_intdigest(out, seed), name, shown)
    return Call(xxh3_128_intdigest(out, seed), name, shown, kind, rule, ignore, similar, plain)  # type: ignore[arg-type]  # no table by now


class Tools(dict[str, Tool]):
    """What is known of tools under one agent's settings, by their names as models write them; worked out once.

    A tool is: how its name is shown, how it is compared, the seed of the digests of its calls, their rules (None: they
    are ordinary; a table: it depends on the ``action``), and which arguments identify a call (None: all).
    """

    def __init__(self, settings: ResolvedSettings) -> None:
        self._settings = settings

    def __missing__(self, tool: str) -> Tool:
        shown, settings = tool.strip(), self._settings
        name = normalise_tool(tool, settings)
        seed = xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"))
        rules, policy = SPECIAL.get(name), settings.policy(name)
        identity = None
        if policy is not None:
            identity = policy.identity
            if isinstance(rules, dict):
                rules = {action: declared(found, policy) for action, found in rules.items()}
            else:
                rules = declared(rules or ORDINARY, policy)
        known = shown or "tool", name, seed, rules, identity
        if len(tool) <= _USUAL:
            if len(self) >= _TOOLS:
                self.clear()
            self[tool] = known
        return known


_TOOLS: Final = 1024  # how many are kept
_USUAL: Final = 128  # characters of a name; longer ones, which only a confused model writes, are not kept


def tools_under(settings: ResolvedSettings) -> Tools:
    """The tools under these settings."""
    tools = settings.kept.get(__name__)
    if not isinstance(tools, Tools):
        settings.kept[__name__] = tools = Tools(settings)
    return tools


def _rules_of_action(actions: ByAction, args: object) -> Rules:
    """The rules of a call by the ``action`` in its arguments."""
    try:
        action = args.get("action") if isinstance(args, dict) else None
        found = actions.get(action) if isinstance(action, str) else None
    except Exception:  # arguments of a framework's own may raise in anything that they are asked
        found = None
    return found or actions[None]


def _exec_args(args: object) -> object:
    """``exec`` arguments without the top-level title; a Code Mode program is a ``command`` by either name."""
    try:
        if not isinstance(args, dict) or not ("title" in args or "code" in args):
            return args
        kept = {key: item for key, item in args.items() if key != "title"}
        if "code" in kept and "command" not in kept:
            kept["command"] = kept.pop("code")
        return kept
    except Exception:  # as above
        return args


def _only(args: object, identity: Sequence[Path]) -> object:
    """The arguments that identify a call."""
    try:
        return only(args, identity)
    except Exception:  # as above
        return args


def observe_settlement(
    event: ToolCallSettled, call: Call, want_outcome: bool, want_identity: bool | None = None
) -> Settlement:
    """What a settlement came to.

    Without ``want_outcome`` only failures are compared; without ``want_identity`` (None: as ``want_outcome``) they have
    no failure identity.
    """
    if want_identity is None:
        want_identity = want_outcome
    result, status = event.result, event.status
    if (
        call.plain
        and type(result) is str
        and event.error is None
        and event.outcome_identity is None
        and (status is None or status is _OK)
    ):  # the most frequent settlement by far
        if not want_outcome:
            return _WORKED
        return Settlement(_OK, text_digest(result, WHOLE_TEXT))
    if (
        type(result) is dict
        and want_outcome
        and status is None
        and event.error is None
        and event.outcome_identity is None
        and not call.ignore
        and not call.similar
        and (outcome := object_outcome(result, call.rule)) is not None
    ):  # the next most frequent one
        return Settlement(_OK, outcome)
    if call.ignore or call.similar:
        event = _less_volatile(event, call)
    settlement = _observe_any(event, call.rule, want_outcome, want_identity)
    if call.similar and settlement.error_text:
        return structs.replace(settlement, error_text=readable(settlement.error_text))
    return settlement


# What may say that a call failed, see status_of().
_TELLING: Final = frozenset(("ok", "success", "status", "error", "isError", "is_error"))
_NO_PARTS: Final = b"[{},[]]"  # the canonical bytes of no details and no media


def object_outcome(result: dict[str, object], rule: Rule) -> int | None:
    """The outcome of an object that came without an error, in one go, as :func:`_observe` comes to it.

    None where it is a failure, or more than an outcome has to be known of it.
    """
    try:
        given = result.get("details")
        details = given if isinstance(given, dict) else result
        silent = _TELLING.isdisjoint(details) and (details is result or _TELLING.isdisjoint(result))
        if not silent and status_of(result, details) is not _OK:
            return None
        if rule is not _GENERAL:
            if rule is _WRITE and details.get("changed") is False:
                return None
            compared = (OF_FAILURES_TOO.get(rule) or OF_SUCCESSES[rule])(result, details)
            if compared is not None:
                if compared.drifts:
                    return None
                return beside_digest(canonical(compared.value, True), compared.text, compared.row)
        content = result.get("content")
        if content is None:
            return _general_digest(result, details)
        if type(content) is not list or len(content) != 1:
            return None
        block = content[0]
        text = block.get("text") if type(block) is dict else None
        if type(text) is not str:
            return None
        if details is not result:
            out = canonical([details, ()], True)
        elif len(result) == 1:
            out = _NO_PARTS
        else:
            out = canonical([only_details(result, details), ()], True)
        return beside_digest(out, text.strip(), _PARTS)
    except Exception:  # objects of a framework may raise in anything that they are asked
        return None


def _observe_any(event: ToolCallSettled, rule: Rule, want_outcome: bool, want_identity: bool) -> Settlement:
    try:
        if event.error is not None and event.status is None:
            return _observe_error(_FAILED, event.error, want_identity)
        return _observe(event, rule, want_outcome, want_identity)
    except Exception:  # objects of a framework may raise in anything that they are asked
        return _observe_opaque(event, want_outcome)


def _less_volatile(event: ToolCallSettled, call: Call) -> ToolCallSettled:
    """The settlement as it is compared, where an operator leaves parts of results out."""
    try:
        result, error = event.result, event.error
        if call.ignore:
            result = without(result, call.ignore)
            if isinstance(error, (dict, list)):
                error = without(error, call.ignore)
        if call.similar:
            result = value_without_volatile(result)
            error = error_text(error) if isinstance(error, BaseException) else error
            error = value_without_volatile(error)
        return structs.replace(event, result=result, error=error)
    except Exception:  # as above
        return event


def _observe(event: ToolCallSettled, rule: Rule, want_outcome: bool, want_identity: bool) -> Settlement:
    result, error, status = event.result, event.error, event.status
    details = details_of(result)
    if status is None:
        status = _FAILED if error is not None else status_of(result, details)
    elif status.__class__ is not Status:
        status = Status(status)
    if status is not _OK and status in _FAILURES:
        if error is not None:
            return _observe_error(status, error, want_identity)
        return _observe_failure(status, result, details, rule, want_identity)
    if not want_outcome or status != _OK:
        return Settlement(status)
    unchanged = rule is Rule.WRITE and details.get("changed") is False
    if event.outcome_identity is not None:
        return Settlement(_OK, outcome_digest(event.outcome_identity, _IDENTITY), None, False, unchanged)
    if error is not None:
        return Settlement(_OK, text_digest(error_text(error), _ERROR))
    if rule is not _GENERAL:
        compare = OF_FAILURES_TOO.get(rule) or OF_SUCCESSES[rule]
        compared = compare(result, details)
        if compared is not None:
            outcome = parts_digest(compared.value, compared.text, compared.row)
            if not compared.drifts:
                return Settlement(_OK, outcome, None, False, unchanged)
            return Settlement(_OK, outcome, _exec_identity(compared), False, unchanged, None, True)
    return Settlement(_OK, _general_digest(result, details))


def _general_digest(result: object, details: dict[str, object]) -> int:
    """Rows 15 and 16 of SPEC 5."""
    if isinstance(result, dict):
        if "content" not in result and "details" not in result:
            return outcome_digest(result, _WHOLE)
        text, media = text_and_media(result)
        return parts_digest([only_details(result, details), media], text, _PARTS)
    return text_digest(result, WHOLE_TEXT) if isinstance(result, str) else outcome_digest(result, _WHOLE)


def _observe_failure(
    status: Status, result: object, details: dict[str, object], rule: Rule, want_identity: bool
) -> Settlement:
    """A failure that came as a result: by its row where that is one for failures too, else in full."""
    text = result_error_text(result, details)[:SHOWN]
    compare = OF_FAILURES_TOO.get(rule)
    compared = compare(result, details) if compare is not None else None
    failure: int | None = None
    if compared is None:
        outcome = outcome_digest(result, _IN_FULL | _FAILED_SEED)
        if want_identity:
            failure = outcome_digest(value_without_volatile(result), _IN_FULL | _SIMILAR_SEED)
        unknown = status is _UNKNOWN_TOOL or says_unknown_tool(text)
        return Settlement(status, outcome, failure, unknown, False, text)
    outcome = parts_digest(compared.value, compared.text, compared.row | _FAILED_SEED)
    if want_identity:
        failure = _exec_identity(compared) if compared.drifts else _similar_identity(compared)
    exec_failure = compared.drifts and want_identity
    return Settlement(status, outcome, failure, status is _UNKNOWN_TOOL, False, text, exec_failure)


def _observe_opaque(event: ToolCallSettled, want_outcome: bool) -> Settlement:
    """A settlement whose contents cannot be read: by its status and its type names."""
    status = Status(event.status or (Status.OK if event.error is None else Status.ERROR))
    failed = status in _FAILURES
    if not failed and (not want_outcome or status is not Status.OK):
        return Settlement(status)
    value = [event.result if event.error is None else event.error]
    unknown = status is _UNKNOWN_TOOL
    outcome = outcome_digest(value, _OPAQUE | _FAILED_SEED if failed else _OPAQUE)
    return Settlement(status, outcome, outcome if failed else None, unknown, False, "" if failed else None)


def _observe_error(status: Status, error: object, want_identity: bool) -> Settlement:
    text = error_text(error)
    unknown = status is _UNKNOWN_TOOL or says_unknown_tool(text)
    failure = _error_identity(text) if want_identity else None
    return Settlement(status, text_digest(text, _ERROR | _FAILED_SEED), failure, unknown, False, text[:SHOWN])


def failure_text(result: object, error: object) -> str:
    """What a failed call says, at most ``SHOWN`` characters."""
    try:
        return (error_text(error) if error is not None else result_error_text(result, details_of(result)))[:SHOWN]
    except Exception:  # as above
        return ""


def _exec_identity(compared: Compared) -> int:
    """The failure identity of SPEC 5.1."""
    return parts_digest(compared.value, without_spans(compared.text), compared.row | _EXEC_SEED)


def _similar_identity(compared: Compared) -> int:
    """The failure identity of SPEC 5.1b, of what a row compares."""
    value, text = value_without_volatile(compared.value), without_volatile(compared.text)
    return parts_digest(value, text, compared.row | _SIMILAR_SEED)


def _error_identity(text: str) -> int:
    """The failure identity of SPEC 5.1b of an error, by the text that its outcome is compared by.

    An error that is an object equals the text of its canonical JSON (row 2), so such a text is read as the object.
    """
    if text[:1] in ("{", "["):
        try:
            value = json_value(text)
            if canonical(value).decode() == text:
                return outcome_digest(value_without_volatile(value), _ERROR | _SIMILAR_SEED)
        except Exception:  # no JSON, or none that has a canonical text: it is a text like any other
            pass
    return text_digest(without_volatile(text), _ERROR | _SIMILAR_SEED)
