"""One conversation as it is read: which turn it is in, and which calls still wait for their result.

Every user message opens a run of its own (``turn-1``, ``turn-2``, …), for that is what the agent does between two of
them. A sub-agent is a run of its own in the same session (SPEC 2), named after the sub-agent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ..events import (
    BatchCall,
    CompactionRetry,
    MessageKind,
    Status,
    ToolCallSettled,
    ToolCallStarted,
    UserMessageCommitted,
    batch_started,
)

_MOST_OPEN = 4096  # ids of calls without a result that are remembered; a log of aborted calls must not fill memory


class _Open(Struct, frozen=True, gc=False):
    run_id: str
    batch_id: str
    index: int
    tool: str


class Talk:
    """The events of one conversation. ``run_id`` of a sub-agent is fixed; otherwise it follows the user messages."""

    def __init__(self, session_key: str, agent_id: str | None, run_id: str | None = None) -> None:
        self.session_key = session_key
        self.agent_id = agent_id
        self.run_id = run_id or "turn-0"
        self._turn = 0
        self._batches = 0
        self._unrecorded = 0
        self._open: dict[str, list[_Open]] = {}

    def sub_agent(self, name: str) -> Talk:
        """The conversation of a sub-agent: a run of its own in this session."""
        return Talk(self.session_key, self.agent_id, name)

    def said(self) -> UserMessageCommitted:
        """A user message: the next run begins."""
        self.branched()
        return self._user(MessageKind.MESSAGE)

    def branched(self) -> None:
        """The conversation goes on from another place: a run of its own, though nobody wrote anything."""
        self._turn += 1
        self.run_id = f"turn-{self._turn}"

    def steered(self) -> UserMessageCommitted:
        """A user message that reached the agent while it was at work: the run goes on."""
        return self._user(MessageKind.STEERING)

    def _user(self, kind: MessageKind) -> UserMessageCommitted:
        return UserMessageCommitted(session_key=self.session_key, run_id=self.run_id, agent_id=self.agent_id, kind=kind)

    def compacted(self) -> CompactionRetry:
        """The context was compacted, and the agent went on."""
        return CompactionRetry(session_key=self.session_key, run_id=self.run_id, agent_id=self.agent_id)

    def asked(self, calls: Sequence[BatchCall]) -> list[ToolCallStarted]:
        """All calls of one response, in model call order: one batch."""
        self._batches += 1
        batch_id = f"response-{self._batches}"
        for index, call in enumerate(calls):
            waiting = self._open.setdefault(call.call_id, [])
            waiting.append(_Open(self.run_id, batch_id, index, call.tool))
            del waiting[:-_MOST_OPEN]
        while len(self._open) > _MOST_OPEN:
            del self._open[next(iter(self._open))]
        return batch_started(self.session_key, calls, batch_id=batch_id, run_id=self.run_id, agent_id=self.agent_id)

    def tool(self, call_id: str) -> str:
        """The tool of the newest open call of that id; empty if there is none."""
        waiting = self._open.get(call_id)
        return waiting[-1].tool if waiting else ""

    def settled(self, call_id: str, *, result: object, status: Status | None = None, tool: str = "") -> ToolCallSettled:
        """The result of the nearest unanswered call of that id (providers reuse ids); of no known call otherwise.

        ``tool`` is what the log itself says; it counts only where the call is not known.
        """
        waiting = self._open.get(call_id)
        if not waiting:
            return ToolCallSettled(
                session_key=self.session_key,
                run_id=self.run_id,
                agent_id=self.agent_id,
                call_id=call_id,
                tool=tool or "tool",
                result=result,
                status=status,
            )
        # The newest batch that asked under this id; inside it, equal ids are answered in model call order.
        call = next(one for one in waiting if one.batch_id == waiting[-1].batch_id)
        waiting.remove(call)
        if not waiting:
            del self._open[call_id]
        return ToolCallSettled(
            session_key=self.session_key,
            run_id=call.run_id,
            agent_id=self.agent_id,
            call_id=call_id,
            tool=call.tool,
            batch_id=call.batch_id,
            index=call.index,
            result=result,
            status=status,
        )

    def unrecorded(self, call_id: str) -> ToolCallSettled:
        """The end of a call of which the log does not hold the result.

        It counts as a result that was never there before: a repetition is warned about, and nothing is blocked for
        results that nobody knows.
        """
        self._unrecorded += 1
        return self.settled(call_id, result={"not recorded": self._unrecorded}, status=Status.OK)

    def cut(self) -> list[ToolCallSettled]:
        """The log says that the agent was stopped: every call that still waits was aborted."""
        ids = [call_id for call_id, waiting in self._open.items() for _ in waiting]
        return [self.settled(call_id, result=None, status=Status.ABORTED) for call_id in ids]


class Talks:
    """Opens conversations under session keys that are unique across all files of one replay.

    A resumed session begins with a copy of the old one, and carries its id: it must not count twice in one session.
    """

    def __init__(self, agent_id: str | None = None) -> None:
        self.agent_id = agent_id
        self._names: Counter[str] = Counter()

    def open(self, name: str, agent_id: str | None = None) -> Talk:
        """A new conversation. ``agent_id`` is what the log knows of the agent; the caller's own word goes first."""
        name = name.strip() or "session"
        self._names[name] += 1
        times = self._names[name]
        return Talk(name if times == 1 else f"{name}#{times}", self.agent_id or agent_id)
