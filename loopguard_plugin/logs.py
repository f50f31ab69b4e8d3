"""What is written to the gateway's log (SPEC 12). loguru is imported here and nowhere else.

Registering the middleware is the opt-in: lines go to whatever sinks the gateway has, and no sink is ever added but by
:func:`forward_to_stdlib`. All lines come from modules of this package, each from the function that had something to
tell. So loguru's usual ways apply: ``logger.disable("loopguard_plugin")`` silences them, and a sink's
``filter={"loopguard_plugin": "ERROR"}`` thins them.

Every line carries the bound fields ``FIELDS``, None where one does not apply; ``event`` is the type of the event being
answered, outside of any ``start``, ``settings`` or ``end_run``. Lines at info and above hold no arguments, results or
error texts: so tracebacks are written as places only, without the error's own text and without the values of variables,
which loguru's default sink would show. The text of such an error follows at debug.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from loguru import logger

from . import log_lines
from .log_lines import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from loguru import Message, Record

    from .answers import Fact, SessionRefused
    from .errors import EventError, Problem, SettingsError
    from .settings import Adjustment, Notice, Settings

PACKAGE: Final = "loopguard_plugin"  # the name under which loguru knows our lines

# In the order in which a reader wants them.
FIELDS: Final = (
    "event",
    "session_key",
    "run_id",
    "agent_id",
    "tool",
    "detector",
    "level",
    "action",
    "code",
    "count",
    "call_id",
)
_LONGEST_REASON: Final = 300
_LONGEST_PROBLEM: Final = 500
_MOST_PROBLEMS: Final = 10
_DEEPEST: Final = 20  # innermost frames of a traceback that are written

_forwards: dict[str, int] = {}


def started(settings: Settings) -> None:
    """The lines at start: every setting that was adjusted, is weighty or is not read, once; which guards are on."""
    if settings.plugin_enabled:
        _reminders(settings.adjustments, settings.notices)
        _strays(settings.unread, settings.unknown_agents)
    _write("INFO", log_lines.ready(settings), event="start")


def settings_changed(before: Settings, after: Settings) -> None:
    """One line that other settings hold now, and which; then what is newly adjusted, weighty or not read."""
    _write("INFO", log_lines.changed(before, after), event="settings")
    if after.plugin_enabled:
        told = {*before.adjustments, *before.notices} if before.plugin_enabled else set()
        _reminders(
            [adjustment for adjustment in after.adjustments if adjustment not in told],
            [notice for notice in after.notices if notice not in told],
        )
        strays = {*before.unread, *before.unknown_agents} if before.plugin_enabled else set()
        _strays(
            [problem for problem in after.unread if problem not in strays],
            [problem for problem in after.unknown_agents if problem not in strays],
        )


def settings_refused(error: SettingsError) -> None:
    """A changed file cannot be used: a line for each thing that is wrong, with line and column or path."""
    for problem in error.problems[:_MOST_PROBLEMS]:
        where = f"{error.file}: " if error.file else ""
        text = (
            f"loopguard settings not changed, the last good ones stay: {plain(f'{where}{problem}', _LONGEST_PROBLEM)}"
        )
        _write("ERROR", text, event="settings")
    if len(error.problems) > _MOST_PROBLEMS:
        more = len(error.problems) - _MOST_PROBLEMS
        _write("ERROR", f"loopguard settings not changed: {more} more things are wrong in the file", event="settings")


def settings_unchanged(file: str, *, good_again: bool) -> None:
    """A changed file says what holds already, as when only other parts of it were edited or a mistake was undone."""
    severity, state = ("INFO", "can be used again") if good_again else ("DEBUG", "was read again")
    _write(
        severity,
        f"loopguard settings file {state}, no setting changed: {plain(file, _LONGEST_PROBLEM)}",
        event="settings",
    )


def not_notified(directory: str, error: Exception, seconds: float) -> None:
    """The system does not tell of changes to files; they are looked for."""
    text = f"loopguard is not notified of changes in {plain(directory, _LONGEST_PROBLEM)} ({type(error).__name__})"
    _write("WARNING", f"{text}, and looks at the settings file every {seconds:g} seconds", event="settings")


def untried_host(package: str, version: str, tried: str, found: str) -> None:
    """A release of a host that no adapter was tested with, and what a look at it found."""
    text = f"loopguard has not been tried with {package} {version} (tried: {tried}); {plain(found, _LONGEST_PROBLEM)}"
    _write("WARNING", text, event="start")


def _reminders(adjustments: Iterable[Adjustment], notices: Iterable[Notice]) -> None:
    for adjustment in adjustments:
        _write("WARNING", f"loopguard setting adjusted: {_adjusted(adjustment)}", 3, event="settings")
    for notice in notices:
        _write("WARNING", f"loopguard setting in force: {notice.path}: {notice.what}", 3, event="settings")


def _strays(unread: Sequence[Problem], unknown_agents: Sequence[Problem]) -> None:
    """Settings that look like ours where nothing reads them, and those of agents that the file does not have."""
    for problems, what in ((unread, "setting not read"), (unknown_agents, "settings of an unknown agent")):
        for problem in problems[:_MOST_PROBLEMS]:
            _write("WARNING", f"loopguard {what}: {plain(str(problem), _LONGEST_PROBLEM)}", event="settings")
        if len(problems) > _MOST_PROBLEMS:
            more = len(problems) - _MOST_PROBLEMS
            _write("WARNING", f"loopguard {what}: {more} more like it in the file", event="settings")


def _adjusted(adjustment: Adjustment) -> str:
    given, used = str(adjustment.given).lower(), str(adjustment.used).lower()
    change = f"{given} is used as {used}" if adjustment.given != adjustment.used else f"{given} has no effect as it is"
    return f"{adjustment.path}: {change}, {adjustment.why}"


def fact(that: Fact, event: object) -> None:
    """The line of one thing that the guard did when it answered ``event``; None: when a run was ended."""
    line = log_lines.line(that)
    fields = {name: value for name in FIELDS if (value := getattr(that, name, None)) is not None}
    for name in ("detector", "code"):
        if name in fields:
            fields[name] = str(fields[name])  # plain text for sinks that serialise
    _write(line.severity, line.text, event=_moment(event), level=line.level, action=line.action, **fields)


def malformed(event: object, error: EventError, unreported: int) -> None:
    """An event with a field of the wrong type, passed on unjudged (SPEC 13)."""
    text = f"loopguard passed on a malformed {event_name(event)} unjudged: {plain(str(error), _LONGEST_REASON)}"
    _write("WARNING", text + _more(unreported), event=event_name(event))


def not_recorded(path: str, error: Exception, unreported: int) -> None:
    """An event that could not be written to a recording; it was passed on as ever."""
    text = f"loopguard could not record an event in {plain(path, _LONGEST_REASON)}: {type(error).__name__}"
    _write("WARNING", text + _more(unreported), event="record")


def guard_failed(event: object, error: Exception, unreported: int) -> None:
    """An exception inside the guard, with its traceback; the event was passed on unjudged (SPEC 13).

    ``event``: the name of the moment where a host's adapter failed outside of any event, None where a run was ended.
    """
    text = f"loopguard failed inside and passed the event on unjudged: {type(error).__name__}"
    _write_failure(text + _more(unreported), _moment(event), error)


def sessions_refused(refused: Sequence[SessionRefused]) -> None:
    """Sessions of a snapshot that could not be restored: how many, and of the first one its key and why."""
    first = refused[0]
    text = f"loopguard: {len(refused)} of the snapshot's sessions could not be restored and start afresh; of the first"
    text = f"{text}: {plain(first.reason, _LONGEST_PROBLEM)}"
    _write("WARNING", text, event="restore", session_key=first.session_key)


def handler_failed(event: object, error: Exception, handler: object) -> None:
    """An exception of a handler on the embedded bus; the other handlers ran."""
    name = getattr(handler, "__qualname__", type(handler).__name__)
    _write_failure(f"a handler of {event_name(event)} failed: {name}: {type(error).__name__}", event_name(event), error)


def _moment(event: object) -> str:
    """What the bound field ``event`` says; a text is the name of a moment, given by the code of this package."""
    return "end_run" if event is None else plain(event) if isinstance(event, str) else event_name(event)


def event_name(event: object) -> str:
    """The type tag of an event, or the class name of anything else."""
    tag = getattr(getattr(type(event), "__struct_config__", None), "tag", None)
    return tag if isinstance(tag, str) else type(event).__name__


def forward_to_stdlib(name: str = "loopguard") -> int:
    """Send every line to ``logging.getLogger(name)`` too, for gateways that log through ``logging``.

    The bound fields become attributes of the log record, levels keep their numbers. Called again for the same name, it
    takes the place of the earlier one. Returns the id of the loguru sink, which ``logger.remove(id)`` takes away again.
    loguru's own default sink on stderr stays as it is; a gateway that wants none of it calls ``logger.remove()`` first.
    """
    target = logging.getLogger(name)

    def sink(message: Message) -> None:
        record = message.record
        number = record["level"].no
        if target.isEnabledFor(number):
            fields = {field: record["extra"].get(field) for field in FIELDS}
            where = record["file"].path, record["line"]
            text, function = record["message"], record["function"]
            target.handle(target.makeRecord(name, number, *where, text, (), None, function, extra=fields))

    with contextlib.suppress(KeyError, ValueError):  # not forwarded before, or the gateway has removed that sink
        logger.remove(_forwards.pop(name))
    _forwards[name] = logger.add(sink, level=0, format="{message}", filter=_is_ours)
    return _forwards[name]


def leave_stderr() -> None:
    """Keep our lines off loguru's own default sink, for hosts whose terminal is their user interface.

    Everybody else's lines still go there. Where the host or the user has taken that sink away, nothing is done.
    """
    with contextlib.suppress(ValueError):
        logger.remove(0)
        logger.add(sys.stderr, filter=lambda record: not _is_ours(record))


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """No lines of ours in here: for a command that shows the same things in its own way."""
    logger.disable(PACKAGE)
    try:
        yield
    finally:
        logger.enable(PACKAGE)


def _is_ours(record: Record) -> bool:
    """By a bound field too: a gateway may send ``logging`` back into loguru, and nothing may go round in circles."""
    return (record["name"] or "").startswith(f"{PACKAGE}.") and "session_key" in record["extra"]


def _write(severity: str, text: str, depth: int = 2, **fields: object) -> None:
    """``depth``: how many calls up the function is whose name and line the record shows, the caller of this module.

    A sink or patcher that raises must not take the gateway down (SPEC 13).
    """
    with contextlib.suppress(Exception):
        logger.opt(depth=depth).bind(**dict.fromkeys(FIELDS) | fields).log(severity, text)


def _write_failure(text: str, event: str, error: Exception) -> None:
    _write("ERROR", f"{text}\n{_bare_traceback(error)}", 3, event=event)
    _write("DEBUG", f"the text of that {type(error).__name__}: {_said(error)}", 3, event=event)


def _said(error: Exception) -> str:
    try:
        return plain(str(error), _LONGEST_REASON)
    except Exception as failure:
        return f"(none, its __str__ raises {type(failure).__name__})"


def _bare_traceback(error: BaseException, causes: int = 5) -> str:
    """The traceback by places and kinds of errors alone; causes first."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    head = f"{_bare_traceback(earlier, causes - 1)}\n\nwhich led to:\n\n" if earlier and causes else ""
    stack = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    frames = "".join(f'  File "{at.filename}", line {at.lineno}, in {at.name}\n' for at in stack[-_DEEPEST:])
    return f"{head}Traceback (most recent call last):\n{frames}{type(error).__name__}"


def _more(unreported: int) -> str:
    return f" ({unreported} more like it since the last such line)" if unreported else ""
