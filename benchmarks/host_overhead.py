"""What does loopguard add to a tool call inside an agent host?

A scripted model asks for one tool after another with ever new arguments; the tool does nothing. So what is timed is
the host's own bookkeeping: real models and tools take thousands of times as long. Three lines a host: the host alone,
with middleware of the same hooks that does nothing (what the host asks for any middleware), and with loopguard.
The last line is the guard's own part: the same events, fed without the host. Ratios are those of the best rounds, for
a host's own time varies by more than what is measured here.

Needs ``langchain`` or ``hermes-agent`` (``pip install "loopguard-plugin[langchain]"``, ``[hermes]``): measures those
that are there.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

from loopguard_plugin import parse_settings
from loopguard_plugin.hosts._shared import Calls

from . import hermes_turns
from .measure import Contender, Timed, table, take_turns

CALLS = 30  # a run; a host's own cost a call grows with the messages
RUNS = 3
PER = CALLS * RUNS
ON = parse_settings({"tools": {"loopDetection": {"enabled": True, "historySize": 30}}})
BARE, EMPTY, GUARDED, ALONE = "the host alone", "with empty hooks", "with loopguard", "the guard alone"
Ways = dict[str, Callable[[], Timed]]
"""What is compared, by name."""


def guard_alone() -> Timed:
    """The same starts and settlements, straight into the guard."""
    calls = Calls(ON)

    def timed() -> None:
        for run in map(str, range(RUNS)):
            calls.user_message("s", run=run)
            for number in range(CALLS):
                name = f"c{number}"
                calls.starts("s", [(name, "look", {"path": name})], batch_id=name, run=run)
                calls.settle("s", name, "look", batch_id=name, run=run, index=0, result=f"{name} is empty")

    return timed


def hermes_agents() -> Ways:
    """Ways to prepare hermes agents."""
    hermes_turns.home()
    setups = {BARE: hermes_turns.nothing, EMPTY: hermes_turns.empty, GUARDED: hermes_turns.guarded(ON)}
    return {name: hermes_turns.prepared(setup, calls=CALLS, runs=RUNS) for name, setup in setups.items()}


def langchain_agents() -> Ways:
    """Ways to prepare a LangChain agent."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware, hook_config
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage

    from loopguard_plugin.hosts.langchain import Adapter

    class Model(FakeMessagesListChatModel):
        def bind_tools(self, tools: object, **kwargs: object) -> Model:
            return self

    class Empty(AgentMiddleware):
        def before_agent(self, state: object, runtime: object) -> None:
            return None

        @hook_config(can_jump_to=["end"])
        def before_model(self, state: object, runtime: object) -> None:
            return None

        @hook_config(can_jump_to=["end"])
        def after_model(self, state: object, runtime: object) -> None:
            return None

    def look(path: str) -> str:
        """Look."""
        return f"{path} is empty"

    def prepared(middleware: Callable[[], list[object]]) -> Callable[[], Timed]:
        def prepare() -> Timed:
            replies = [
                AIMessage(content="", tool_calls=[{"name": "look", "args": {"path": f"c{n}"}, "id": f"c{n}"}])
                for n in range(CALLS)
            ]
            model = Model(responses=[*replies, AIMessage(content="done")])
            agent = create_agent(model, [look], middleware=middleware())

            def timed() -> None:
                for _ in range(RUNS):
                    messages = agent.invoke({"messages": [("user", "go")]})["messages"]
                    assert len(messages) == 2 * CALLS + 2

            return timed

        return prepare

    return {
        BARE: prepared(list),
        EMPTY: prepared(lambda: [Empty()]),
        GUARDED: prepared(lambda: [Adapter(ON)]),
    }


HOSTS = {"LangChain": ("langchain", langchain_agents), "hermes-agent": ("run_agent", hermes_agents)}
"""The module by which a host is known to be installed, and how its agents are made."""


def report() -> str:
    """A Markdown table for each host that is installed, or what is missing for one."""
    parts = []
    for host, (module, agents) in HOSTS.items():
        if importlib.util.find_spec(module) is not None:
            try:
                parts.append(_one_host(host, agents()))
            except ImportError as error:  # a host without its own requirements, for its guard alone needs none
                parts.append(f"{host} cannot be imported: {error}")
    return "\n\n".join(parts) or f"None of these is installed: {', '.join(HOSTS)}."


def _one_host(host: str, agents: Ways) -> str:
    ways = {**agents, ALONE: guard_alone}
    timings = take_turns([Contender(name=name, per=PER, prepare=prepare) for name, prepare in ways.items()], rounds=9)
    lines = [
        (
            name,
            f"{min(timings.rounds[name]) * 1e6:.0f}",
            f"{100 * (timings.best_ratio(name, BARE) - (0 if name == ALONE else 1)):.1f} %",
        )
        for name in ways
    ]
    return table((f"one tool call in {host}", "µs", "added, of the host's own"), lines)


def main() -> int:
    """Print the table."""
    print(report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
