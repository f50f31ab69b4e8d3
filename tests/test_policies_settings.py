"""The plugin's own settings: policies of tools, agents, modes, wider patterns, ceilings (SPEC 11.2)."""

from __future__ import annotations

from typing import Any

import pytest
from loguru import logger

from loopguard_plugin import LoopGuard
from loopguard_plugin.errors import SettingsError
from loopguard_plugin.settings import (
    Adjustment,
    Notice,
    ResolvedSettings,
    Settings,
    ToolKind,
    ToolPolicy,
    parse_settings,
)

CONFIG = "plugins.entries.loopguard.config"
SEARCH = f"{CONFIG}.tools.search"


def own(**keys: Any) -> dict[str, Any]:
    """A config file with these keys under ``plugins.entries.loopguard.config``."""
    return {"plugins": {"entries": {"loopguard": {"config": keys}}}}


def search(**keys: Any) -> Settings:
    """Settings that say this of the tool ``search``."""
    return parse_settings(own(tools={"search": keys}))


def test_without_these_settings_all_is_as_by_the_contract() -> None:
    """Absent, empty and null are the same: the two wider patterns on, every other part off."""
    empty: list[dict[str, Any]] = [{}, {"mode": None, "limits": None, "agents": None, "tools": None, "detectors": None}]
    empty += [{"repeatedErrors": None}, {"detectors": {"stagnation": None}}, {"tools": {"x": None}}]
    empty += [{"limits": {"callsPerRun": None}, "agents": {"a": None, "b": {}}, "tools": {}, "detectors": {}}]
    for config in empty:
        settings = parse_settings(own(**config))
        for resolved in map(settings.resolve, (None, "a", "b")):
            assert resolved == ResolvedSettings()
    usual = ResolvedSettings()
    assert (usual.stagnation, usual.error_cascade) == (True, True)
    assert (usual.observe, usual.similar_errors, usual.policies) == (False, False, ())
    assert (usual.calls_per_run, usual.calls_per_turn) == (None, None)
    assert usual.policy("read") is None


# Tools


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({}, ToolPolicy()),
        ({"kind": "poll"}, ToolPolicy(kind=ToolKind.POLL)),
        (
            {"exempt": ["generic_repeat", "stagnation", "stagnation"]},
            ToolPolicy(exempt=frozenset({"generic_repeat", "stagnation"})),
        ),
        ({"warningThreshold": 5}, ToolPolicy(warning=5)),
        ({"warningThreshold": 5, "criticalThreshold": 8}, ToolPolicy(warning=5, critical=8)),
        ({"unknownToolThreshold": 3}, ToolPolicy(unknown_tool=3)),
        ({"globalCircuitBreakerThreshold": 25}, ToolPolicy(breaker=25)),
        ({"identity": ["url", "page.from"]}, ToolPolicy(identity=(("url",), ("page", "from")))),
        ({"identity": []}, ToolPolicy(identity=())),
        ({"ignoreResult": ["meta.requestId", "a b"]}, ToolPolicy(ignore_result=(("meta", "requestId"), ("a b",)))),
        ({"similar": True}, ToolPolicy(similar=True)),
        ({"similar": False}, ToolPolicy()),
        ({"mutates": True}, ToolPolicy(mutates=True)),
        ({"errorRetries": 0}, ToolPolicy(error_retries=0)),
    ],
    ids=str,
)
def test_each_setting_of_a_tool_comes_to_its_field(given: dict[str, Any], policy: ToolPolicy) -> None:
    """What is said of a tool stands in its policy, all else there is as usual, and other tools have none."""
    resolved = search(**given).resolve()
    assert resolved.policy("search") == policy
    assert resolved.policy("research") is None
    assert resolved.adjustments == ()


def test_a_policy_is_complete_for_its_agent() -> None:
    """What a pattern leaves out is the agent's own value, not the one for all."""
    config = own(tools={"search": {"criticalThreshold": 9}})
    config["tools"] = {"loopDetection": {"unknownToolThreshold": 4, "warningThreshold": 6}}
    config["agents"] = {"entries": {"a": {"tools": {"loopDetection": {"warningThreshold": 3, "historySize": 50}}}}}
    settings = parse_settings(config)
    assert settings.resolve().policy("search") == ToolPolicy(warning=6, critical=9, unknown_tool=4)
    assert settings.resolve("a").policy("search") == ToolPolicy(warning=3, critical=9, unknown_tool=4)


@pytest.mark.parametrize(
    ("given", "policy", "reported"),
    [
        (
            {"warningThreshold": 9, "criticalThreshold": 4},
            ToolPolicy(warning=9, critical=10),
            [("criticalThreshold", 4, 10)],
        ),
        ({"criticalThreshold": 8}, ToolPolicy(critical=11), [("criticalThreshold", 8, 11)]),
        (
            {"warningThreshold": 35},
            ToolPolicy(warning=35, critical=36, breaker=37),
            [
                ("criticalThreshold", 20, 36),
                ("globalCircuitBreakerThreshold", 30, 37),
                ("globalCircuitBreakerThreshold", 37, 37),
            ],
        ),
        (
            {"globalCircuitBreakerThreshold": 20},
            ToolPolicy(breaker=21),
            [("globalCircuitBreakerThreshold", 20, 21)],
        ),
        (
            {"globalCircuitBreakerThreshold": 31},
            ToolPolicy(breaker=31),
            [("globalCircuitBreakerThreshold", 31, 31)],
        ),
    ],
    ids=str,
)
def test_thresholds_of_a_tool_have_to_rise_too(
    given: dict[str, Any], policy: ToolPolicy, reported: list[tuple[str, int, int]]
) -> None:
    """The clamps are those of the global thresholds, and so is a breaker out of the history's reach: all reported."""
    settings = search(**given)
    assert settings.resolve().policy("search") == policy
    assert [(each.path, each.given, each.used) for each in settings.adjustments] == [
        (f"{SEARCH}.{name}", was, used) for name, was, used in reported
    ]


def test_a_breaker_out_of_reach_for_all_is_reported_once() -> None:
    """A tool that says nothing of the breaker adds nothing to what is reported where it stands."""
    config = own(tools={"search": {"warningThreshold": 5}}) | {"tools": {"loopDetection": {"historySize": 20}}}
    (adjustment,) = parse_settings(config).adjustments
    assert adjustment.path == "tools.loopDetection.historySize"


def test_weighty_exemptions_are_told_at_start() -> None:
    """Nothing stops a tool that is exempt from the breaker or from unknown tools: whoever starts the guard is told."""
    tools = {"wait_*": {"exempt": ["global_circuit_breaker", "ping_pong"]}, "x": {"exempt": ["unknown_tool_repeat"]}}
    settings = parse_settings(own(tools=tools, agents={"a": {}, "b": {"tools": tools}}))
    assert settings.resolve().notices == (
        Notice(
            f'{CONFIG}.tools["wait_*"].exempt',
            "calls of this tool are never stopped by the circuit breaker, however often they repeat "
            "(global_circuit_breaker)",
        ),
        Notice(
            f"{CONFIG}.tools.x.exempt",
            "calls of this tool are never stopped for naming a tool that does not exist (unknown_tool_repeat)",
        ),
    )
    assert [notice.path.removeprefix(f"{CONFIG}.") for notice in settings.notices] == [
        'tools["wait_*"].exempt',
        "tools.x.exempt",
        'agents.b.tools["wait_*"].exempt',
        "agents.b.tools.x.exempt",
    ]
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(str(message).strip()), format="{level} {message}")
    try:
        LoopGuard(settings)
    finally:
        logger.remove(sink)
    told = [line for line in lines if "exempt" in line]
    assert len(told) == 4
    assert told[0].startswith(f'WARNING loopguard setting in force: {CONFIG}.tools["wait_*"].exempt: calls of')


# Modes, wider patterns, ceilings


@pytest.mark.parametrize(("given", "observe"), [("observe", True), ("enforce", False), (None, False)])
def test_the_mode_is_enforce_unless_observe_is_asked_for(given: str | None, observe: bool) -> None:
    """Only `observe` takes the effect away."""
    assert parse_settings(own(mode=given)).resolve().observe is observe


def test_observe_mode_is_told_at_start() -> None:
    """The line at start says so, and names the agents for whom it is otherwise."""
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(str(message).strip()), format="{message}")
    try:
        LoopGuard(parse_settings(own(mode="observe", agents={"cron": {"mode": "enforce"}})))
    finally:
        logger.remove(sink)
    assert lines == [
        "loopguard ready: rolling detectors off, post-compaction guard on, repeated tool errors on, "
        "observe mode: nothing is noted, blocked or ended (otherwise for: cron)"
    ]


def test_wider_patterns_are_on_until_refused_and_ceilings_off_until_asked_for() -> None:
    """Each comes to its own field."""
    resolved = parse_settings(own(detectors={"stagnation": False}, limits={"callsPerRun": 400})).resolve()
    assert (resolved.stagnation, resolved.error_cascade) == (False, True)
    assert (resolved.calls_per_run, resolved.calls_per_turn) == (400, None)
    resolved = parse_settings(own(detectors={"errorCascade": False}, limits={"callsPerTurn": 40.0})).resolve()
    assert (resolved.stagnation, resolved.error_cascade) == (True, False)
    assert (resolved.calls_per_run, resolved.calls_per_turn) == (None, 40)


@pytest.mark.parametrize(("given", "similar"), [("similar", True), ("exact", False), (None, False)])
def test_repeated_errors_are_compared_exactly_unless_similar_is_asked_for(given: str | None, similar: bool) -> None:
    """It holds for every agent: there is no such key of one agent."""
    settings = parse_settings(own(repeatedErrors=given, agents={"a": {"mode": "observe"}}))
    assert settings.resolve().similar_errors is settings.resolve("a").similar_errors is similar


# Agents


def test_an_agents_own_settings_lie_over_those_for_all_field_by_field() -> None:
    """Mode, detectors and limits: what the agent leaves out is as for all, and the others are not touched."""
    agent = {"mode": "enforce", "detectors": {"stagnation": True}, "limits": {"callsPerTurn": 9}}
    settings = parse_settings(
        own(
            mode="observe",
            detectors={"stagnation": False, "errorCascade": False},
            limits={"callsPerRun": 100, "callsPerTurn": 50},
            agents={" cron ": agent},
        )
    )
    cron, others = settings.resolve("cron"), settings.resolve("main")
    assert (cron.observe, cron.stagnation, cron.error_cascade) == (False, True, False)
    assert (cron.calls_per_run, cron.calls_per_turn) == (100, 9)
    assert (others.observe, others.stagnation, others.error_cascade) == (True, False, False)
    assert (others.calls_per_run, others.calls_per_turn) == (100, 50)
    assert settings.resolve() is settings.resolve(None) == others
    assert settings.agent_ids == ("cron",)


def test_an_agents_patterns_are_tried_before_those_for_all() -> None:
    """First match wins, and a match is complete: the pattern for all adds nothing to it."""
    settings = parse_settings(
        own(
            tools={"search": {"warningThreshold": 5, "mutates": True}, "other": {"kind": "send"}},
            agents={"a": {"tools": {"sea*": {"kind": "poll"}}}},
        )
    )
    assert settings.resolve("a").policy("search") == ToolPolicy(kind=ToolKind.POLL)
    assert settings.resolve("a").policy("other") == ToolPolicy(kind=ToolKind.SEND)
    assert settings.resolve("b").policy("search") == ToolPolicy(warning=5, mutates=True)


def test_the_default_agent_brings_its_own_settings() -> None:
    """Events that name no agent are those of the agent marked default, also for what stands under the plugin."""
    config = own(agents={"main": {"mode": "observe"}}) | {"agents": {"entries": {"main": {"default": True}}}}
    settings = parse_settings(config)
    assert settings.resolve().observe
    assert not settings.resolve("other").observe


@pytest.mark.parametrize(
    ("agent_entry", "agent_plugin", "shared", "plugin", "value"),
    [
        (None, None, None, None, True),
        (None, None, None, False, False),
        (None, None, True, False, True),
        (None, False, True, True, False),
        (None, True, False, False, True),
        (False, True, True, True, False),
    ],
)
def test_argument_churn_of_an_agent_comes_before_that_for_all(
    agent_entry: bool | None, agent_plugin: bool | None, shared: bool | None, plugin: bool | None, value: bool
) -> None:
    """The agent's entry, the agent's own under the plugin, tools.loopDetection, the plugin's: the first that is set."""
    config = own(detectors={"argumentChurn": plugin}, agents={"a": {"detectors": {"argumentChurn": agent_plugin}}})
    config["tools"] = {"loopDetection": {"detectors": {"argumentChurn": shared}}}
    config["agents"] = {"entries": {"a": {"tools": {"loopDetection": {"detectors": {"argumentChurn": agent_entry}}}}}}
    settings = parse_settings(config)
    assert settings.resolve("a").argument_churn is value
    overruled = {
        f"{CONFIG}.agents.a.detectors.argumentChurn": None not in (agent_entry, agent_plugin)
        and agent_entry is not agent_plugin,
        f"{CONFIG}.detectors.argumentChurn": None not in (shared, plugin) and shared is not plugin,
    }
    assert {each.path for each in settings.adjustments} == {path for path, told in overruled.items() if told}
    assert all(isinstance(each, Adjustment) and "wins" in each.why for each in settings.adjustments)


# Mistakes

MISTAKES: list[tuple[dict[str, Any], str, str, str | None]] = [
    ({"mode": "observed"}, "mode", 'expected one of enforce, observe, found "observed"', "observe"),
    ({"mode": True}, "mode", "one of enforce, observe, found true", None),
    ({"modes": "observe"}, "modes", "unknown key", "mode"),
    ({"limits": 5}, "limits", "expected an object, found 5", None),
    ({"limits": {"callsPerRun": 0}}, "limits.callsPerRun", "whole number from 1, found 0", "1"),
    ({"limits": {"callsPerTurn": "40"}}, "limits.callsPerTurn", "whole number from 1", "40"),
    ({"limits": {"callPerTurn": 3}}, "limits.callPerTurn", "unknown key", "callsPerTurn"),
    ({"callsPerRun": 3}, "callsPerRun", "unknown key", "limits.callsPerRun"),
    ({"repeatedErrors": "fuzzy"}, "repeatedErrors", 'expected one of exact, similar, found "fuzzy"', None),
    ({"repeatedErrors": "Similar"}, "repeatedErrors", "expected one of exact, similar", "similar"),
    ({"repeatedErrors": True}, "repeatedErrors", "expected one of exact, similar, found true", None),
    ({"repeatedError": "similar"}, "repeatedError", "unknown key", "repeatedErrors"),
    ({"detectors": {"stagnation": 1}}, "detectors.stagnation", "true or false (default true), found 1", None),
    ({"detectors": {"stagnations": True}}, "detectors.stagnations", "unknown key", "stagnation"),
    ({"detectors": {"cycle": True}}, "detectors.cycle", "an older key, replaced by stagnation", "stagnation"),
    ({"detectors": {"cycle": None}}, "detectors.cycle", "an older key, replaced by stagnation", "stagnation"),
    ({"detectors": {"cycles": True}}, "detectors.cycles", "unknown key, expected one of argumentC", "stagnation"),
    ({"detectors": {"error_cascade": True}}, "detectors.error_cascade", "unknown key", "errorCascade"),
    ({"agents": []}, "agents", "expected an object, found a list", None),
    ({"agents": {"a": True}}, "agents.a", "expected an object, found true", None),
    ({"agents": {" ": {}}}, 'agents[" "]', "not blank as key", None),
    ({"agents": {"a": {"mod": "observe"}}}, "agents.a.mod", "unknown key", "mode"),
    ({"agents": {"a": {"mode": "on"}}}, "agents.a.mode", "one of enforce, observe", None),
    ({"agents": {"a": {"maxRuns": 3}}}, "agents.a.maxRuns", f"belongs at {CONFIG}.maxRuns", f"{CONFIG}.maxRuns"),
    ({"agents": {"a": {"limits": {"callsPerRun": -1}}}}, "agents.a.limits.callsPerRun", "from 1", "1"),
    ({"agents": {"a": {"tools": {"x": {"kind": "pol"}}}}}, "agents.a.tools.x.kind", "one of poll", "poll"),
    ({"agents": {"a": {"detectors": {"stagnation": "no"}}}}, "agents.a.detectors.stagnation", "true or false", None),
    (
        {"agents": {"a": {"detectors": {"cycle": True}}}},
        "agents.a.detectors.cycle",
        "an older key, replaced by stagnation",
        "stagnation",
    ),
]
OF_TOOLS: list[tuple[dict[str, Any], str, str, str | None]] = [
    ({"exempt": "generic_repeat"}, "exempt", "expected a list, found", '["generic_repeat"]'),
    ({"exempt": "all"}, "exempt", "expected a list, found", None),
    ({"exempt": ["genericRepeat"]}, "exempt[0]", "expected one of generic_repeat, known_poll", "generic_repeat"),
    ({"exempt": ["stagnation", None]}, "exempt[1]", "expected one of generic_repeat", None),
    ({"exempt": ["ping_pong", "cycle"]}, "exempt[1]", "an older word, replaced by stagnation", "stagnation"),
    ({"exempt": "cycle"}, "exempt", 'expected a list, found "cycle"', '["stagnation"]'),
    ({"similar": "yes"}, "similar", "true or false (default false)", None),
    ({"simlar": True}, "simlar", "unknown key", "similar"),
    ({"exempt": ["repeated_tool_error"]}, "exempt[0]", "expected one of generic_repeat", None),
    ({"exempts": []}, "exempts", "unknown key", "exempt"),
    ({"warningThreshold": 0}, "warningThreshold", "whole number from 1, found 0", "1"),
    ({"warnThreshold": 5}, "warnThreshold", "unknown key", "warningThreshold"),
    ({"criticalThreshold": 2.5}, "criticalThreshold", "found 2.5", "2"),
    ({"unknownToolThreshold": True}, "unknownToolThreshold", "whole number from 1, found true", None),
    ({"globalCircuitBreakerThreshold": "x"}, "globalCircuitBreakerThreshold", 'found "x"', None),
    ({"identity": "url"}, "identity", "expected a list, found", '["url"]'),
    ({"identity": {"url": True}}, "identity", "expected a list, found an object", None),
    ({"identity": ["url", 5]}, "identity[1]", "expected a name, or names with a dot between each two", None),
    ({"identity": [""]}, "identity[0]", 'found ""', None),
    ({"identity": [".page..from"]}, "identity[0]", "names with a dot between", "page.from"),
    ({"ignoreResult": ["meta."]}, "ignoreResult[0]", "names with a dot between", "meta"),
    ({"ignoreResults": []}, "ignoreResults", "unknown key", "ignoreResult"),
    ({"mutates": "true"}, "mutates", "true or false (default false)", "true"),
    ({"errorRetries": -1}, "errorRetries", "whole number from 0 (default 2), found -1", "0"),
    ({"errorRetries": 1.5}, "errorRetries", "whole number from 0", "2"),
    ({"errorRetry": 1}, "errorRetry", "unknown key", "errorRetries"),
]
MISTAKES += [
    ({"tools": {"search": given}}, f"tools.search.{path}", words, nearest) for given, path, words, nearest in OF_TOOLS
]


@pytest.mark.parametrize(("config", "path", "words", "nearest"), MISTAKES, ids=[path for _, path, *_ in MISTAKES])
def test_a_mistake_is_named_with_path_expectation_and_suggestion(
    config: dict[str, Any], path: str, words: str, nearest: str | None
) -> None:
    """One bad value gives one problem: where it is, what was expected and found, and what was probably meant."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(own(**config))
    (problem,) = caught.value.problems
    assert problem.path == f"{CONFIG}.{path}"
    assert words in problem.message
    assert problem.nearest == nearest
