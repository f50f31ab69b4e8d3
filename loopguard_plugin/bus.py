"""The bus that the middleware sits on: the protocol that it asks of a gateway's own bus, and a small embedded one.

Middleware is ``async def __call__(self, event, call_next)``; the first one registered is the outermost. Handlers run
after all middleware, in the order of subscription. :class:`EmbeddedBus` runs on asyncio and on trio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar, cast, overload

import anyio

from . import logs
from .answers import Acknowledged, Answer, Blocked, Deliver, Proceed
from .composition import plain_answer, stricter
from .decisions import LoopGuardDecision
from .errors import TurnEndingError
from .events import CompactionRetry, Event, ToolCallSettled, ToolCallStarted, UserMessageCommitted

CallNext: TypeAlias = Callable[[Event], Awaitable[Answer]]
E = TypeVar("E")


class Middleware(Protocol):
    """``async def __call__(self, event, call_next)``, or a function of that shape; answers the event."""

    def __call__(self, event: Event, call_next: CallNext, /) -> Awaitable[Answer]: ...


class Bus(Protocol):
    """What the plugin asks of a bus. Raises ``TurnEndingError`` out of ``publish`` where the turn ends."""

    def use(self, middleware: Middleware, /) -> None: ...

    @overload
    def publish(self, event: ToolCallStarted, /) -> Awaitable[Proceed | Blocked]: ...
    @overload
    def publish(self, event: ToolCallSettled, /) -> Awaitable[Deliver]: ...
    @overload
    def publish(self, event: CompactionRetry | UserMessageCommitted, /) -> Awaitable[Acknowledged]: ...


class EmbeddedBus:
    """A bus inside the process.

    A handler that fails does not silence the others: all handlers of an event run, each failure is logged and counted
    in ``handler_failures``, and the event is answered by the rest. ``TurnEndingError`` reaches the publisher once every
    handler has run; cancellation reaches it at once. What a middleware raises reaches it as it is.

    A settlement or a decision of the guard that has begun reaches every handler, also where its publisher is cancelled
    meanwhile (by an anyio or trio scope; asyncio's own ``task.cancel()`` cannot be held up). So that nothing hangs, a
    handler that takes longer than ``settle_deadline`` seconds over one of them is cut off and counts as failed.
    """

    def __init__(self, *, settle_deadline: float = 30.0) -> None:
        self.handler_failures = 0
        self._settle_deadline = settle_deadline
        self._handlers: tuple[tuple[type, Callable[[object], Awaitable[object]]], ...] = ()
        self._middleware: list[Middleware] = []
        self._chain: CallNext = self._handle

    def use(self, middleware: Middleware, /) -> None:
        """Register ``middleware`` inside those registered before. Raises TypeError for what cannot be called."""
        if isinstance(middleware, type):
            raise TypeError(f"use() takes an instance, not the class: use({middleware.__name__}())")
        if not callable(middleware):
            kind = type(middleware).__name__
            raise TypeError(f"use() takes something with async __call__(event, call_next), got {kind}")
        self._middleware.append(middleware)
        chain: CallNext = self._handle
        for one in reversed(self._middleware):
            chain = _linked(one, chain)
        self._chain = chain

    def subscribe(self, event_type: type[E], handler: Callable[[E], Awaitable[Answer | None]], /) -> None:
        """Call ``handler`` with every event of that type (``object``: with every event).

        It may answer: the strictest answer to a start wins; the last ``Deliver`` for a settlement, ``Acknowledged``
        for the other two. None is no answer.
        """
        self._handlers = (*self._handlers, (event_type, cast("Callable[[object], Awaitable[object]]", handler)))

    @overload
    async def publish(self, event: ToolCallStarted, /) -> Proceed | Blocked: ...
    @overload
    async def publish(self, event: ToolCallSettled, /) -> Deliver: ...
    @overload
    async def publish(self, event: CompactionRetry | UserMessageCommitted, /) -> Acknowledged: ...
    @overload
    async def publish(self, event: object, /) -> object: ...
    async def publish(self, event: object, /) -> object:
        """Take one event through middleware and handlers; returns its answer (None for events that are not ours).

        Raises ``TurnEndingError`` where the turn ends, and whatever a middleware raises.
        """
        return await self._chain(event)  # type: ignore[arg-type]  # a gateway's own events pass through too

    async def _handle(self, event: Event) -> Answer:
        """The innermost handler: every subscriber, then the one answer."""
        answer = plain_answer(event)
        ended: TurnEndingError | None = None
        for event_type, handler in self._handlers:
            if not isinstance(event, event_type):
                continue
            try:
                if isinstance(event, (ToolCallSettled, LoopGuardDecision)):
                    with anyio.fail_after(self._settle_deadline, shield=True):
                        theirs = await handler(event)
                else:
                    theirs = await handler(event)
            except TurnEndingError as error:
                ended = ended or error
            except Exception as error:
                self.handler_failures += 1
                logs.handler_failed(event, error, handler)
            else:
                answer = _merged(answer, theirs)
        if ended is not None:
            raise ended
        return answer


def _linked(middleware: Middleware, call_next: CallNext) -> CallNext:
    return lambda event: middleware(event, call_next)


def _merged(answer: Answer, theirs: object) -> Answer:
    """The answer so far and that of one more handler. An answer that does not fit the event counts as none."""
    if isinstance(answer, (Proceed, Blocked)):
        return stricter(answer, theirs) if isinstance(theirs, (Proceed, Blocked)) else answer
    if isinstance(answer, Deliver):
        return theirs if isinstance(theirs, Deliver) else answer
    return theirs if isinstance(theirs, Acknowledged) else answer
