"""What every host needs: a guard that nothing gets out of, and batches and settlements as plain values.

Hosts have moments (after the model answered, before it is asked again); adapters turn them into the four events with
:class:`Calls`. Whatever fails, in the guard or in the adapter, is logged and the host goes on unguarded (SPEC 13).
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from .. import logs
from ..answers import PROCEED, Answer, Blocked, Deliver, Proceed
from ..composition import plain_answer
from ..core.notes import append_note
from ..errors import ENDED, TurnEndingError
from ..events import (
    BatchCall,
    CompactionRetry,
    Event,
    MessageKind,
    Status,
    ToolCallSettled,
    ToolCallStarted,
    UserMessageCommitted,
    batch_started,
)
from ..middleware import LoopGuard, Seldom
from ..settings import Settings, parse_settings

__all__ = [
    "Calls",
    "Config",
    "Settled",
    "Started",
    "append_note",
    "arguments",
    "build_guard",
    "fail_open",
    "log_to",
    "report_failure",
    "result_text",
]

Config: TypeAlias = LoopGuard | Settings | str | os.PathLike[str] | Mapping[str, object] | None

F = TypeVar("F", bound=Callable[..., Any])


def build_guard(config: Config = None) -> LoopGuard:
    """A guard from whatever a user gave. Raises SettingsError for settings that cannot be used: a host must not start
    in the belief that it is guarded."""
    if isinstance(config, LoopGuard):
        return config
    if config is None or isinstance(config, Settings):
        return LoopGuard(config)
    if isinstance(config, Mapping):
        return LoopGuard(parse_settings(config))
    return LoopGuard.from_config_file(config)


def log_to(name: str) -> None:
    """Our lines go where the host's own go: to ``logging``, under the host's name; not to stderr twice."""
    logs.forward_to_stdlib(name)
    logs.leave_stderr()


class Started(NamedTuple):
    """What became of a whole response: an answer for each call, in model call order, and the error if the turn ends."""

    answers: tuple[Proceed | Blocked, ...]
    error: TurnEndingError | None = None

    @property
    def blocked(self) -> Blocked | None:
        """The first refusal; with a full batch list all calls of a batch have the same fate."""
        return next((answer for answer in self.answers if isinstance(answer, Blocked)), None)


class Settled(NamedTuple):
    """What the model should be given for one call, and the error if the turn ends."""

    answer: Deliver
    error: TurnEndingError | None = None


class Calls:
    """One host's calls into one guard, from any thread; ``TurnEndingError`` comes back as a value, never raised.

    ``run`` is None where the host has no runs: then the session's unnamed run counts (SPEC 1).
    """

    def __init__(self, config: Config = None) -> None:
        self.guard = build_guard(config)
        self._lock = threading.RLock()

    def user_message(
        self,
        session: str,
        *,
        run: str | None = None,
        agent: str | None = None,
        kind: MessageKind = MessageKind.MESSAGE,
        message_id: str | None = None,
    ) -> None:
        """A user message entered the transcript."""
        self.feed(
            UserMessageCommitted(session_key=session, run_id=run, agent_id=agent, kind=kind, message_id=message_id)
        )

    def compacted(self, session: str, *, run: str | None = None, agent: str | None = None) -> None:
        """The host compacted the context and is about to ask the model again."""
        self.feed(CompactionRetry(session_key=session, run_id=run, agent_id=agent))

    def starts(
        self,
        session: str,
        calls: Iterable[BatchCall | tuple[str, str, Any]],
        *,
        batch_id: str,
        run: str | None = None,
        agent: str | None = None,
        continues: str | None = None,
    ) -> Started:
        """All calls of a response, ``(call_id, tool, args)`` in model call order, before any of them runs."""
        events = batch_started(session, calls, batch_id=batch_id, run_id=run, agent_id=agent, continues=continues)
        answers: list[Proceed | Blocked] = []
        ended: TurnEndingError | None = None
        for event in events:
            answer, error = self.start(event)
            answers.append(answer)
            ended = ended or error
        return Started(tuple(answers), ended)

    def start(self, event: ToolCallStarted) -> tuple[Proceed | Blocked, TurnEndingError | None]:
        """One start, for hosts that see calls one by one."""
        answer, error = self.feed(event)
        return (answer if isinstance(answer, (Proceed, Blocked)) else PROCEED), error

    def settle(
        self,
        session: str,
        call_id: str,
        tool: str,
        *,
        batch_id: str | None,
        run: str | None = None,
        agent: str | None = None,
        result: object = None,
        error: object = None,
        status: Status | None = None,
        args: object = None,
        index: int | None = None,
        deliverable: bool = True,
    ) -> Settled:
        """A call ended. ``args`` count only for a call whose start was never seen.

        A result that is the last word of an agent whose turn was ended, of one to which this call delegated, is a
        failure, however the host takes it: the third identical delegation ends the turn here.
        """
        if status in (None, Status.OK) and error is None and _is_end(result):
            status, error, result = Status.ERROR, result, None
        event = ToolCallSettled(
            session_key=session,
            run_id=run,
            agent_id=agent,
            call_id=call_id,
            tool=tool,
            batch_id=batch_id,
            index=index,
            result=result,
            error=error,
            status=status,
            args=args,
            deliverable=deliverable,
        )
        answer, ended = self.feed(event)
        return Settled(answer if isinstance(answer, Deliver) else Deliver(result=result, error=error), ended)

    def ended(self, session: str, run: str | None = None) -> TurnEndingError | None:
        """The error that ended the run's turn, until the user writes again."""
        try:
            with self._lock:
                return self.guard.ended(session, run)
        except Exception as error:
            report_failure(error, "ended")
            return None

    def end_run(self, session: str, run: str | None = None) -> None:
        """Forget a run that is over."""
        try:
            with self._lock:
                self.guard.end_run(session, run)
        except Exception as error:
            report_failure(error, "end_run")

    def feed(self, event: Event) -> tuple[Answer, TurnEndingError | None]:
        """One event of any kind: what it is answered, and the error if the turn ends."""
        try:
            with self._lock:
                return self.guard.feed(event), None
        except TurnEndingError as ended:
            return ended.answer or plain_answer(event), ended.with_traceback(None)
        except Exception as error:  # EventError too: an id that the host made up must not stop it
            report_failure(error, event)
            return plain_answer(event), None


def _is_end(result: object) -> bool:
    """Whether a result begins as the message of a turn that a guard ended."""
    if isinstance(result, Mapping):
        result = result.get("content")
    if isinstance(result, (list, tuple)):
        result = result[0].get("text") if result and isinstance(result[0], Mapping) else None
    return isinstance(result, str) and result.lstrip().startswith(ENDED)


def arguments(text: object) -> object:
    """A call's arguments as the model wrote them: JSON text decoded where it is JSON, anything else as it is."""
    if not isinstance(text, (str, bytes)):
        return text
    try:
        decoded: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return decoded


def result_text(text: str) -> object:
    """A result that the host turned into text: the object again where it is a JSON object, so that the rules of
    SPEC 5 for details apply; anything else as it is."""
    if not (text.startswith("{") and text.endswith("}")):
        return text
    decoded = arguments(text)
    return decoded if isinstance(decoded, dict) else text


_seldom = Seldom()


def report_failure(error: Exception, where: object) -> None:
    """Log an exception inside the guard or an adapter, once a minute and place; never raises."""
    try:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        place = (at.tb_frame.f_code.co_filename, at.tb_lineno) if at is not None else None
        unreported = _seldom.passes((type(error), place), time.monotonic())
        if unreported is not None:
            logs.guard_failed(error=error, event=where, unreported=unreported)
    except Exception:  # nothing is left to tell it to
        return


def fail_open(answer: object = None) -> Callable[[F], F]:
    """Decorate a host's callback, sync or async: what fails in it is logged, and the host gets ``answer``.

    ``TurnEndingError`` passes. Not for callbacks that call the host back (``call_next``): the host's own exceptions
    would be swallowed.
    """

    def decorate(function: F) -> F:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def later(*args: object, **kwargs: object) -> object:
                try:
                    return await function(*args, **kwargs)
                except TurnEndingError:
                    raise
                except Exception as error:
                    report_failure(error, function.__name__)
                    return answer

            return cast("F", later)

        @functools.wraps(function)
        def now(*args: object, **kwargs: object) -> object:
            try:
                return function(*args, **kwargs)
            except TurnEndingError:
                raise
            except Exception as error:
                report_failure(error, function.__name__)
                return answer

        return cast("F", now)

    return decorate
