"""The settings: layers, clamps, policies (SPEC 11, 11.2), and what is said about wrong ones."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopguard_plugin.errors import SettingsError
from loopguard_plugin.settings import Adjustment, ResolvedSettings, Settings, ToolKind, ToolPolicy, parse_settings
from loopguard_plugin.settings_model import (
    Detectors,
    ListedAgent,
    LoopDetection,
    PostCompactionGuard,
    Tools,
)
from loopguard_plugin.settings_plugin import AgentSettings, Limits, Plugin, PluginConfig, ToolSettings


def detection(**keys: Any) -> dict[str, Any]:
    """A config file with these keys under ``tools.loopDetection``."""
    return {"tools": {"loopDetection": keys}}


def own(**keys: Any) -> dict[str, Any]:
    """A config file with these keys under ``plugins.entries.loopguard.config``."""
    return {"plugins": {"entries": {"loopguard": {"config": keys}}}}


def outcome(obj: object) -> Settings | SettingsError:
    """The settings, or the error that is raised instead."""
    try:
        return parse_settings(obj)
    except SettingsError as error:
        return error


def problems(obj: object) -> dict[str, tuple[str, str | None]]:
    """What is wrong with a config, by path: (message, nearest)."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(obj)
    return {problem.path: (problem.message, problem.nearest) for problem in caught.value.problems}


# What holds by default, and in the three states of `enabled`


def test_no_settings_are_the_defaults_of_the_contract() -> None:
    """Without any settings the numbers of SPEC 6 hold, every detector may speak, and `enabled` is unset."""
    resolved = Settings().resolve()
    assert resolved == ResolvedSettings()
    assert resolved.enabled is None
    assert (resolved.warning, resolved.critical, resolved.unknown_tool, resolved.breaker) == (10, 20, 10, 30)
    assert (resolved.history_size, resolved.window_size) == (30, 3)
    assert all((resolved.generic_repeat, resolved.known_poll_no_progress, resolved.ping_pong, resolved.argument_churn))
    assert (Settings().plugin_enabled, Settings().max_runs, Settings().idle_minutes) == (True, 10_000, 30)
    assert resolved.adjustments == ()


@pytest.mark.parametrize(
    ("config", "enabled", "rolling", "post_compaction"),
    [
        ({}, None, False, True),
        (detection(), None, False, True),
        (detection(enabled=None), None, False, True),
        (detection(enabled=True), True, True, True),
        (detection(enabled=False), False, False, False),
    ],
)
def test_three_states_of_enabled(config: object, enabled: bool | None, rolling: bool, post_compaction: bool) -> None:
    """Unset, true and false are three states: the table of SPEC 11."""
    resolved = parse_settings(config).resolve()
    assert (resolved.enabled, resolved.rolling, resolved.post_compaction) == (enabled, rolling, post_compaction)


@pytest.mark.parametrize(
    ("config", "field", "value"),
    [
        (detection(historySize=40), "history_size", 40),
        (detection(warningThreshold=4), "warning", 4),
        (detection(criticalThreshold=12), "critical", 12),
        (detection(unknownToolThreshold=3), "unknown_tool", 3),
        (detection(globalCircuitBreakerThreshold=25), "breaker", 25),
        (detection(historySize=40.0), "history_size", 40),
        (detection(postCompactionGuard={"windowSize": 5}), "window_size", 5),
        (detection(detectors={"genericRepeat": False}), "generic_repeat", False),
        (detection(detectors={"knownPollNoProgress": False}), "known_poll_no_progress", False),
        (detection(detectors={"pingPong": False}), "ping_pong", False),
        (detection(detectors={"argumentChurn": False}), "argument_churn", False),
        (own(detectors={"argumentChurn": False}), "argument_churn", False),
    ],
)
def test_each_key_changes_its_own_field_only(config: object, field: str, value: int | bool) -> None:
    """A key of the file sets the field of that name, and nothing else moves."""
    resolved = parse_settings(config).resolve()
    different = {name for name in ResolvedSettings.__struct_fields__ if getattr(resolved, name) != _default(name)}
    assert different == {field}
    assert getattr(resolved, field) == value
    assert type(getattr(resolved, field)) is type(value)


def _default(name: str) -> object:
    return getattr(ResolvedSettings(), name)


def test_plugin_keys_that_hold_for_all_agents() -> None:
    """`enabled`, `maxRuns` and `idleMinutes` of the plugin's entry are read."""
    config = {"plugins": {"entries": {"loopguard": {"enabled": False, "config": {"maxRuns": 5, "idleMinutes": 0.5}}}}}
    settings = parse_settings(config)
    assert (settings.plugin_enabled, settings.max_runs, settings.idle_minutes) == (False, 5, 0.5)


# Layers


def test_an_agents_settings_lie_over_the_global_ones_field_by_field() -> None:
    """What an agent does not set, also inside `detectors` and `postCompactionGuard`, stays as it is globally."""
    everywhere = {"warningThreshold": 5, "detectors": {"pingPong": False}, "postCompactionGuard": {"windowSize": 4}}
    agent = {"enabled": True, "criticalThreshold": 7, "detectors": {"genericRepeat": False}, "postCompactionGuard": {}}
    config = detection(**everywhere) | {"agents": {"entries": {"a": {"tools": {"loopDetection": agent}}}}}
    resolved = parse_settings(config).resolve("a")
    assert (resolved.enabled, resolved.warning, resolved.critical, resolved.window_size) == (True, 5, 7, 4)
    assert (resolved.ping_pong, resolved.generic_repeat, resolved.argument_churn) == (False, False, True)
    assert parse_settings(config).resolve("b") == parse_settings(detection(**everywhere)).resolve()


def test_null_falls_back_to_the_layer_below() -> None:
    """`null` in an agent's settings is as good as no key; it does not unset what is set globally."""
    agent = {"enabled": None, "criticalThreshold": None, "detectors": None, "postCompactionGuard": {"windowSize": None}}
    below = detection(enabled=True, criticalThreshold=15, detectors={"pingPong": False})
    config = below | {"agents": {"entries": {"a": {"tools": {"loopDetection": agent}}}}}
    assert parse_settings(config).resolve("a") == parse_settings(below).resolve()


@pytest.mark.parametrize("nothing", [None, {}])
@pytest.mark.parametrize("outer", ["tools", "agents", "plugins"])
def test_null_or_empty_parts_are_unset(outer: str, nothing: object) -> None:
    """An outer object that is null or empty sets nothing."""
    assert parse_settings({outer: nothing}).resolve() == ResolvedSettings()


def test_entries_win_over_list() -> None:
    """Where both forms name an agent, its entry's fields win, and its list item's fill the gaps."""
    config = {
        "agents": {
            "entries": {"a": {"tools": {"loopDetection": {"enabled": False}}}},
            "list": [{"id": " a ", "tools": {"loopDetection": {"enabled": True, "warningThreshold": 3}}}],
        }
    }
    resolved = parse_settings(config).resolve("a")
    assert (resolved.enabled, resolved.warning) == (False, 3)


@pytest.mark.parametrize(
    ("entries", "listed", "expected"),
    [
        ({}, [], None),
        ({"a": {"default": True}}, [], "a"),
        ({}, [{"id": "b", "default": True}], "b"),
        ({"a": {}}, [{"id": "b", "default": True}], "b"),
        ({"a": {"default": True}}, [{"id": "b", "default": True}], "a"),
        ({"a": {"default": "true"}}, [], None),
        ({"a": {"default": 1}, "c": {"default": True}}, [], "c"),
        ({"a": {}}, [], None),
    ],
)
def test_the_default_agent(entries: dict[str, Any], listed: list[Any], expected: str | None) -> None:
    """Events without an agent get the one marked `default: true`, entries first; else the global settings alone."""
    for place, entry in enumerate([*entries.values(), *listed]):
        entry["tools"] = {"loopDetection": {"warningThreshold": 2 + place}}
    settings = parse_settings({"agents": {"entries": entries, "list": listed}})
    assert settings.default_agent == expected
    wanted = ResolvedSettings() if expected is None else settings.resolve(expected)
    for absent in (None, "", "  "):
        assert settings.resolve(absent) == wanted
    assert settings.resolve("stranger") == ResolvedSettings()


def test_agent_ids_are_compared_after_trimming() -> None:
    """Blanks around an agent's id do not matter, on neither side."""
    settings = parse_settings({"agents": {"entries": {" a": {"tools": {"loopDetection": {"enabled": True}}}}}})
    assert settings.resolve("a ").enabled is True
    assert settings.resolve("A").enabled is None


def test_resolving_again_gives_the_same_object_and_strangers_cost_no_memory() -> None:
    """The guard asks on every event: an answer is made once, and agents that the file does not name share one."""
    settings = parse_settings({"agents": {"entries": {"a": {}}}})
    assert settings.resolve("a") is settings.resolve(" a ")
    assert settings.resolve("stranger 1") is settings.resolve("stranger 2")


@pytest.mark.parametrize(
    ("documented", "plugin", "agent", "used"),
    [
        (None, False, None, False),
        (True, False, None, True),
        (False, True, None, False),
        (None, False, True, True),
        (None, True, False, False),
    ],
)
def test_argument_churn_in_two_places(documented: bool | None, plugin: bool, agent: bool | None, used: bool) -> None:
    """The plugin's own key lies below `tools.loopDetection`, global or an agent's: it never overrules it."""
    config = detection(detectors={"argumentChurn": documented}) | own(detectors={"argumentChurn": plugin})
    config["agents"] = {"entries": {"a": {"tools": {"loopDetection": {"detectors": {"argumentChurn": agent}}}}}}
    assert parse_settings(config).resolve("a").argument_churn is used


def test_two_global_values_of_argument_churn_that_differ_are_reported() -> None:
    """An operator who wrote both learns which one counts."""
    config = detection(detectors={"argumentChurn": True}) | own(detectors={"argumentChurn": False})
    path = "plugins.entries.loopguard.config.detectors.argumentChurn"
    why = "tools.loopDetection.detectors.argumentChurn is set too, and wins"
    assert parse_settings(config).adjustments == (Adjustment(path, given=False, used=True, why=why),)


# Clamps


@pytest.mark.parametrize(
    ("keys", "numbers", "adjusted"),
    [
        ({"warningThreshold": 10, "criticalThreshold": 5}, (10, 11, 30), {"criticalThreshold": (5, 11)}),
        ({"criticalThreshold": 10}, (10, 11, 30), {"criticalThreshold": (10, 11)}),
        ({"warningThreshold": 20}, (20, 21, 30), {"criticalThreshold": (20, 21)}),
        ({"globalCircuitBreakerThreshold": 20}, (10, 20, 21), {"globalCircuitBreakerThreshold": (20, 21)}),
        (
            {"warningThreshold": 30, "historySize": 32},
            (30, 31, 32),
            {"criticalThreshold": (20, 31), "globalCircuitBreakerThreshold": (30, 32)},
        ),
        ({"warningThreshold": 1, "criticalThreshold": 2, "globalCircuitBreakerThreshold": 3}, (1, 2, 3), {}),
    ],
)
def test_thresholds_rise_until_they_are_in_order(
    keys: dict[str, int], numbers: tuple[int, int, int], adjusted: dict[str, tuple[int, int]]
) -> None:
    """critical > warning and breaker > critical, each raised by as little as it takes, and said so."""
    resolved = parse_settings(detection(**keys)).resolve()
    assert (resolved.warning, resolved.critical, resolved.breaker) == numbers
    said = {adjustment.path: (adjustment.given, adjustment.used) for adjustment in resolved.adjustments}
    assert said == {f"tools.loopDetection.{key}": values for key, values in adjusted.items()}


def test_thresholds_of_two_layers_are_clamped_together() -> None:
    """An agent's warning threshold lifts the global critical one, for that agent alone; the path says whose it was."""
    config = detection(criticalThreshold=8, warningThreshold=4)
    config["agents"] = {"entries": {"my agent": {"tools": {"loopDetection": {"warningThreshold": 9}}}}}
    settings = parse_settings(config)
    assert settings.resolve().critical == 8
    assert settings.resolve("my agent").critical == 10
    (adjustment,) = settings.adjustments
    assert (adjustment.path, adjustment.given, adjustment.used) == ("tools.loopDetection.criticalThreshold", 8, 10)


def test_a_window_of_one_is_raised_to_two() -> None:
    """SPEC 10: one call alone repeats nothing; the adjustment stands at the agent who asked for it."""
    agent = {"postCompactionGuard": {"windowSize": 1}}
    settings = parse_settings({"agents": {"entries": {"my.agent": {"tools": {"loopDetection": agent}}}}})
    assert settings.resolve("my.agent").window_size == 2
    (adjustment,) = settings.adjustments
    assert adjustment.path == 'agents.entries["my.agent"].tools.loopDetection.postCompactionGuard.windowSize'
    assert (adjustment.given, adjustment.used) == (1, 2)


@pytest.mark.parametrize(("history_size", "reported"), [(29, True), (30, False)])
def test_a_history_too_small_for_the_breaker_is_reported_but_kept(history_size: int, reported: bool) -> None:
    """SPEC 11: the operator learns that the breaker cannot be reached; the value stays as given."""
    resolved = parse_settings(detection(historySize=history_size)).resolve()
    assert resolved.history_size == history_size
    assert [adjustment.path for adjustment in resolved.adjustments] == ["tools.loopDetection.historySize"] * reported
    assert all((a.given, a.used) == (history_size, history_size) and "30" in a.why for a in resolved.adjustments)


def test_the_same_adjustment_of_many_agents_is_listed_once() -> None:
    """What all agents inherit is one adjustment, to be logged once."""
    config = detection(criticalThreshold=1) | {"agents": {"entries": {"a": {}, "b": {}}}}
    assert len(parse_settings(config).adjustments) == 1


# Tools and aliases


def test_the_first_matching_pattern_wins() -> None:
    """Names and globs are tried in the order of the file; null sets nothing and is passed over."""
    tools = {"notify_me": {}, "notify_off": None, "Notify_*": {"kind": "send"}, "*": {"kind": "plain"}}
    resolved = parse_settings(own(tools=tools)).resolve()
    assert resolved.policy("notify_me") == ToolPolicy(kind=None)
    assert resolved.policy("notify_off") == ToolPolicy(kind=ToolKind.SEND)
    assert resolved.policy("notify_you") == ToolPolicy(kind=ToolKind.SEND)
    assert resolved.policy("read") == ToolPolicy(kind=ToolKind.PLAIN)
    assert resolved.policy("read") is resolved.policy("read")


def test_without_patterns_no_tool_has_a_policy() -> None:
    """No policy: the tool's own name decides."""
    assert Settings().resolve().policy("command_status") is None


def test_a_flood_of_tool_names_does_not_grow_without_bound() -> None:
    """Models invent tool names; the remembered answers stay few, and right."""
    resolved = parse_settings(own(tools={"poll_*": {"kind": "poll"}})).resolve()
    assert all(resolved.policy(f"poll_{n}") == ToolPolicy(kind=ToolKind.POLL) for n in range(5000))
    assert len(resolved._met) <= 1024


def test_aliases_are_merged_over_the_built_in_ones() -> None:
    """The file's aliases are trimmed and case-folded, may lead to another alias, and may undo a built-in one."""
    assert Settings().resolve().aliases == {"bash": "exec", "apply-patch": "apply_patch"}
    given = {" Shell ": "BASH", "terminal": "shell", "Apply-Patch": "apply-patch", "bash": None}
    aliases = parse_settings(own(toolAliases=given)).resolve().aliases
    assert {name: aliases.get(name, name) for name in ("shell", "terminal", "bash", "apply-patch")} == {
        "shell": "exec",
        "terminal": "exec",
        "bash": "exec",
        "apply-patch": "apply-patch",
    }


def test_a_policy_for_an_alias_is_one_for_its_tool() -> None:
    """Calls of `bash` are calls of `exec`, so a policy written for `Bash` has to meet them."""
    assert parse_settings(own(tools={"Bash": {"kind": "poll"}})).resolve().policy("exec") == ToolPolicy(ToolKind.POLL)


def test_aliases_that_go_in_a_circle_are_refused() -> None:
    """Nobody can say which name is the tool's own then; each name of the circle is named, those outside are not."""
    found = problems(own(toolAliases={"a": "b", "b": "a", "c": "a"}))
    where = "plugins.entries.loopguard.config.toolAliases"
    assert found == {
        f"{where}.a": ("leads back to itself: a → b → a", None),
        f"{where}.b": ("leads back to itself: b → a → b", None),
    }


# Mistakes

LOOP = "tools.loopDetection"
MISTAKES = [
    (detection(historySize="thirty"), f"{LOOP}.historySize", 'whole number from 1 (default 30), found "thirty"', None),
    (detection(historySize="40"), f"{LOOP}.historySize", "whole number from 1", "40"),
    (detection(historySize=0), f"{LOOP}.historySize", "whole number from 1 (default 30), found 0", "1"),
    (detection(warningThreshold=-3), f"{LOOP}.warningThreshold", "found -3", "1"),
    (detection(criticalThreshold=2.5), f"{LOOP}.criticalThreshold", "found 2.5", "2"),
    (detection(unknownToolThreshold=True), f"{LOOP}.unknownToolThreshold", "whole number", None),
    (
        detection(globalCircuitBreakerThreshold=2**60),
        f"{LOOP}.globalCircuitBreakerThreshold",
        "to 9007",
        str(2**53 - 1),
    ),
    (detection(historySize=10**5000), f"{LOOP}.historySize", "found a number beyond all use", str(2**53 - 1)),
    (detection(historySize=float("nan")), f"{LOOP}.historySize", "found nan", None),
    (detection(historySize=float("inf")), f"{LOOP}.historySize", "found inf", None),
    (detection(enabled="true"), f"{LOOP}.enabled", 'true or false, found "true" (string)', "true"),
    (detection(enabled=1), f"{LOOP}.enabled", "true or false, found 1 (number)", None),
    (detection(historysize=1), f"{LOOP}.historysize", "unknown key, expected one of criticalThr", "historySize"),
    (detection(history_size=1), f"{LOOP}.history_size", "unknown key", "historySize"),
    (detection(pingPong=True), f"{LOOP}.pingPong", "unknown key", "detectors.pingPong"),
    (detection(windowSize=3), f"{LOOP}.windowSize", "unknown key", "postCompactionGuard.windowSize"),
    (detection(zzz=1), f"{LOOP}.zzz", "unknown key", None),
    (detection(repeatThreshold=3), f"{LOOP}.repeatThreshold", "an older key, replaced by w", "warningThreshold"),
    (detection(detectorCooldownMs=12000), f"{LOOP}.detectorCooldownMs", "an older key, of no use any more", None),
    (
        detection(detectors={"repeatingNoProgress": True}),
        f"{LOOP}.detectors.repeatingNoProgress",
        "an older key, replaced by genericRepeat",
        "genericRepeat",
    ),
    (detection(detectors=[]), f"{LOOP}.detectors", "expected an object, found a list", None),
    (detection(detectors={"pingpong": 1}), f"{LOOP}.detectors.pingpong", "unknown key", "pingPong"),
    (detection(detectors={"pingPong": "no"}), f"{LOOP}.detectors.pingPong", "true or false", None),
    (
        detection(postCompactionGuard={"windowSize": 0}),
        f"{LOOP}.postCompactionGuard.windowSize",
        "whole number from 1 (default 3), found 0",
        "1",
    ),
    (
        {"agents": {"entries": {"safe-runner": detection(historySize=[])}}},
        f"agents.entries.safe-runner.{LOOP}.historySize",
        "found a list",
        None,
    ),
    (
        {"agents": {"entries": {"a.b": detection(enable=True)}}},
        f'agents.entries["a.b"].{LOOP}.enable',
        "unknown key",
        "enabled",
    ),
    ({"agents": {"list": [{}, detection(x=1) | {"id": "b"}]}}, f"agents.list[1].{LOOP}.x", "unknown key", None),
    ({"agents": {"list": [detection(enabled=True)]}}, "agents.list[0].id", "expected the id of the agent", None),
    ({"agents": {"list": {}}}, "agents.list", "expected a list, found an object", None),
    ({"agents": {"entries": {"a": 5}}}, "agents.entries.a", "expected an object, found 5", None),
    ({"tools": "all"}, "tools", 'expected an object, found "all"', None),
    ({"tools": {"loopDetection": True}}, LOOP, "expected an object, found true", None),
    ([], "", "expected an object, found a list", None),
    (None, "", "expected an object, found null", None),
    (
        {"plugins": {"entries": {"loopguard": {"enable": False}}}},
        "plugins.entries.loopguard.enable",
        "unknown key",
        "enabled",
    ),
    (
        {"plugins": {"entries": {"loopguard": {"maxRuns": 5}}}},
        "plugins.entries.loopguard.maxRuns",
        "unknown key",
        "config.maxRuns",
    ),
    (own(maxRun=5), "plugins.entries.loopguard.config.maxRun", "unknown key", "maxRuns"),
    (own(maxRuns=0), "plugins.entries.loopguard.config.maxRuns", "(default 10000), found 0", "1"),
    (own(idleMinutes=0), "plugins.entries.loopguard.config.idleMinutes", "number above 0 (default 30), found 0", None),
    (own(idleMinutes="1.5"), "plugins.entries.loopguard.config.idleMinutes", "number above 0", "1.5"),
    (
        own(detectors={"pingPong": True}),
        "plugins.entries.loopguard.config.detectors.pingPong",
        "unknown key here; it belongs at tools.loopDetection.detectors.pingPong",
        "tools.loopDetection.detectors.pingPong",
    ),
    (
        own(tools={"notify_*": {"kind": "sends"}}),
        'plugins.entries.loopguard.config.tools["notify_*"].kind',
        "one of poll, send, plain, found",
        "send",
    ),
    (own(tools={"x": {"kin": 1}}), "plugins.entries.loopguard.config.tools.x.kin", "unknown key", "kind"),
    (own(tools={" ": {}}), 'plugins.entries.loopguard.config.tools[" "]', "not blank as key", None),
    (own(toolAliases={"a": 5}), "plugins.entries.loopguard.config.toolAliases.a", "a string that is not blank", None),
    (own(toolAliases={"a": " "}), "plugins.entries.loopguard.config.toolAliases.a", "not blank", None),
]


@pytest.mark.parametrize(
    ("config", "path", "words", "nearest"), MISTAKES, ids=[path or "all" for _, path, *_ in MISTAKES]
)
def test_a_mistake_is_named_with_path_expectation_and_suggestion(
    config: object, path: str, words: str, nearest: str | None
) -> None:
    """One bad value gives one problem: where it is, what was expected and found, and what was probably meant."""
    found = problems(config)
    assert list(found) == [path]
    message, suggestion = found[path]
    assert words in message
    assert suggestion == nearest


def test_all_mistakes_are_listed_at_once() -> None:
    """Nobody should have to fix a file one error at a time; the text of the error holds them all."""
    config = detection(historySize=0, enabledd=True, detectors={"pingPong": 3}) | own(maxRuns="x")
    with pytest.raises(SettingsError) as caught:
        parse_settings(config)
    assert len(caught.value.problems) == 4
    assert "tools.loopDetection.enabledd: unknown key" in str(caught.value)
    assert "(did you mean enabled?)" in str(caught.value)


def test_what_is_not_ours_is_ignored() -> None:
    """The gateway's own keys may hold anything, next to ours at every level of its objects."""
    config = {
        "channels": [1, {"tools": 3}],
        "tools": {"exec": "anything", "loop": 4},
        "agents": {"defaults": 7, "entries": {"a": {"model": None, "tools": {"allow": ["x"]}}, "": {}}, "list": [{}]},
        "plugins": {"enabled": 3, "entries": {"other": 5, "loopguard": None}},
    }
    assert parse_settings(config).resolve("a") == ResolvedSettings()


def test_settings_built_in_python_are_checked_too() -> None:
    """A guard must not start on settings that a file could not hold (SPEC 13)."""
    assert Settings(tools=Tools(loop_detection=LoopDetection(enabled=True, warning_threshold=4))).resolve().warning == 4
    with pytest.raises(SettingsError, match=r"tools\.loopDetection\.historySize: expected a whole number"):
        Settings(tools=Tools(loop_detection=LoopDetection(history_size=0)))


def test_a_wrong_value_is_shown_shortened() -> None:
    """A file can hold anything in the wrong place; the error stays one readable line."""
    ((message, _),) = problems(detection(enabled="x\n" * 100_000)).values()
    assert len(message) < 200
    assert "\n" not in message


# Anything at all

PARTS = (
    *(ListedAgent, LoopDetection, Detectors, PostCompactionGuard),
    *(Plugin, PluginConfig, ToolSettings, AgentSettings, Limits),
)
KEYS = st.sampled_from(
    [
        *("tools", "loopDetection", "agents", "entries", "list", "plugins", "loopguard", "config", "detectors"),
        *(field.encode_name for part in PARTS for field in msgspec.structs.fields(part)),
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["poll", "x"])
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=8), inner, max_size=4),
    max_leaves=25,
)


def _wrapped(value: object) -> st.SearchStrategy[object]:
    """A value at each of the places that are ours."""
    return st.sampled_from(
        [
            value,
            {"tools": {"loopDetection": value}},
            {"agents": {"entries": {"a": {"tools": {"loopDetection": value}}}}},
            {"agents": {"list": [value, {"id": "b", "tools": value}]}},
            {"plugins": {"entries": {"loopguard": value}}},
            {"plugins": {"entries": {"loopguard": {"config": value}}}},
            {"plugins": {"entries": {"loopguard": {"config": {"tools": value, "toolAliases": value}}}}},
        ]
    )


@given(ANYTHING.flatmap(_wrapped))
def test_anything_parses_or_raises_settings_error(obj: object) -> None:
    """Whatever JSON holds, it is settings in good order or a SettingsError with problems; never another error."""
    before = json.dumps(obj)
    read = outcome(obj)
    if isinstance(read, SettingsError):
        assert read.problems
        assert str(read)
    else:
        for resolved in map(read.resolve, (None, "a", "b")):
            assert 1 <= resolved.warning < resolved.critical < resolved.breaker
            assert resolved.window_size >= 2
            policy = resolved.policy("exec")
            assert policy is None or 1 <= policy.warning < policy.critical < policy.breaker
    assert json.dumps(obj) == before


@given(st.dictionaries(st.text(max_size=6), st.just({"kind": "poll"}), max_size=3), st.text(max_size=8))
def test_any_pattern_can_be_held_against_any_name(tools: dict[str, object], name: str) -> None:
    """No glob, however odd, makes matching fail; blank ones are refused before."""
    read = outcome(own(tools=tools))
    if isinstance(read, SettingsError):
        assert not all(pattern.strip() for pattern in tools)
    else:
        assert read.resolve().policy(name) in (None, ToolPolicy(kind=ToolKind.POLL))
