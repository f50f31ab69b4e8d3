"""The JSON Schema: good by its own rules, and of one mind with the reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pyjson5
import pytest

from loopguard_plugin.errors import SettingsError
from loopguard_plugin.settings import ResolvedSettings, Settings, ToolPolicy, parse_settings
from loopguard_plugin.settings_schema import config_schema

EXAMPLE = Path(__file__).parent.parent / "config.example.json5"
SCHEMA = config_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
LOOP: dict[str, Any] = SCHEMA["properties"]["tools"]["properties"]["loopDetection"]
PLUGIN: dict[str, Any] = SCHEMA["properties"]["plugins"]["properties"]["entries"]["properties"]["loopguard"]


def own(**keys: object) -> object:
    """A config file with these keys under ``plugins.entries.loopguard.config``."""
    return {"plugins": {"entries": {"loopguard": {"config": keys}}}}


GOOD: list[object] = [
    {},
    {"tools": None, "agents": {"entries": None}, "plugins": {"entries": {"loopguard": None}}},
    {"tools": {"loopDetection": {"enabled": None, "historySize": 30.0, "detectors": {"pingPong": None}}, "other": 1}},
    {"agents": {"entries": {"a": {"default": "yes", "tools": {"loopDetection": {"enabled": True}}}}, "list": [{}]}},
    {"plugins": {"entries": {"other": 5, "loopguard": {"config": {"tools": {"x_*": {"kind": "poll"}, "y": None}}}}}},
    {"plugins": {"entries": {"loopguard": {"config": {"toolAliases": {"sh": "exec"}, "idleMinutes": 0.5}}}}},
    own(mode="observe", limits={"callsPerRun": 5, "callsPerTurn": None}, agents={"a": {"mode": "enforce"}, "b": None}),
    own(
        repeatedErrors="similar", detectors={"stagnation": False, "errorCascade": None}, tools={"x": {"similar": True}}
    ),
    own(tools={"x": {"exempt": ["stagnation"], "identity": ["a", "b.c"], "ignoreResult": [], "errorRetries": 0}}),
]
BAD: list[object] = [
    [],
    {"tools": 5},
    {"tools": {"loopDetection": {"enabled": "true"}}},
    {"tools": {"loopDetection": {"historySize": 0}}},
    {"tools": {"loopDetection": {"historySize": 2.5}}},
    {"tools": {"loopDetection": {"historySize": True}}},
    {"tools": {"loopDetection": {"historySize": 2**60}}},
    {"tools": {"loopDetection": {"history_size": 5}}},
    {"tools": {"loopDetection": {"detectors": {"stagnation": True}}}},
    own(detectors={"cycle": True}),
    own(agents={"a": {"detectors": {"cycle": True}}}),
    own(agents={"a": {"repeatedErrors": "similar"}}),
    own(repeatedErrors="fuzzy"),
    own(tools={"x": {"similar": "exact"}}),
    {"tools": {"loopDetection": {"postCompactionGuard": {"windowSize": "3"}}}},
    {"agents": {"entries": {"a": {"tools": {"loopDetection": {"x": 1}}}}}},
    {"agents": {"list": [{"id": "a", "tools": {"loopDetection": {"warningThreshold": -1}}}]}},
    {"agents": {"list": {}}},
    {"plugins": {"entries": {"loopguard": {"maxRuns": 4}}}},
    {"plugins": {"entries": {"loopguard": {"config": {"maxRuns": 0}}}}},
    {"plugins": {"entries": {"loopguard": {"config": {"idleMinutes": 0}}}}},
    {"plugins": {"entries": {"loopguard": {"config": {"tools": {"x": {"kind": "push"}}}}}}},
    {"plugins": {"entries": {"loopguard": {"config": {"tools": {" ": {}}}}}}},
    {"plugins": {"entries": {"loopguard": {"config": {"toolAliases": {"a": ""}}}}}},
    own(mode="off"),
    own(limits={"callsPerRun": 0}),
    own(agents={"a": {"tools": {"x": {"mutates": 1}}}}),
    own(agents={"a": {"maxRuns": 5}}),
    own(tools={"x": {"exempt": "stagnation"}}),
    own(tools={"x": {"exempt": ["cycle"]}}),
    own(tools={"x": {"identity": ["a..b"]}}),
    own(tools={"x": {"ignoreResult": [".a"]}}),
    own(tools={"x": {"errorRetries": -1}}),
]


def test_it_is_a_schema_of_the_stated_draft() -> None:
    """The schema holds to draft 2020-12, and says that it does."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]


def test_the_example_file_is_valid() -> None:
    """Whoever starts from the example starts without red marks."""
    VALIDATOR.validate(pyjson5.decode(EXAMPLE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("config", GOOD, ids=str)
def test_what_the_reader_takes_the_schema_takes(config: object) -> None:
    """Good settings are good to both."""
    VALIDATOR.validate(config)
    parse_settings(config)


@pytest.mark.parametrize("config", BAD, ids=str)
def test_what_the_schema_refuses_the_reader_refuses(config: object) -> None:
    """Bad settings are bad to both."""
    assert not VALIDATOR.is_valid(config)
    with pytest.raises(SettingsError):
        parse_settings(config)


def test_its_defaults_are_those_in_use() -> None:
    """A settings page shows what an absent key really means."""
    resolved, settings = ResolvedSettings(), Settings()
    properties = LOOP["properties"]
    assert {name: schema["default"] for name, schema in properties.items() if "default" in schema} == {
        "historySize": resolved.history_size,
        "warningThreshold": resolved.warning,
        "criticalThreshold": resolved.critical,
        "unknownToolThreshold": resolved.unknown_tool,
        "globalCircuitBreakerThreshold": resolved.breaker,
    }
    assert properties["postCompactionGuard"]["properties"]["windowSize"]["default"] == resolved.window_size
    assert {name: schema["default"] for name, schema in properties["detectors"]["properties"].items()} == {
        "genericRepeat": resolved.generic_repeat,
        "knownPollNoProgress": resolved.known_poll_no_progress,
        "pingPong": resolved.ping_pong,
        "argumentChurn": resolved.argument_churn,
    }
    config = PLUGIN["properties"]["config"]["properties"]
    assert {name: schema["default"] for name, schema in config["detectors"]["properties"].items()} == {
        "argumentChurn": resolved.argument_churn,
        "stagnation": resolved.stagnation,
        "errorCascade": resolved.error_cascade,
    }
    tool = config["tools"]["additionalProperties"]["properties"]
    assert {name: schema["default"] for name, schema in tool.items() if "default" in schema} == {
        "similar": ToolPolicy().similar,
        "mutates": ToolPolicy().mutates,
        "errorRetries": ToolPolicy().error_retries,
    }
    assert (config["repeatedErrors"]["default"] == "similar") is resolved.similar_errors
    assert (config["mode"]["default"] == "observe") is resolved.observe
    assert PLUGIN["properties"]["enabled"]["default"] is settings.plugin_enabled
    assert (config["maxRuns"]["default"], config["idleMinutes"]["default"]) == (
        settings.max_runs,
        settings.idle_minutes,
    )


def test_enabled_has_no_default_and_tells_reset_from_off() -> None:
    """Unset is a state of its own (SPEC 14): a page that fills in a default would change what runs."""
    enabled = LOOP["properties"]["enabled"]
    assert "default" not in enabled
    assert "reset removes the key; off writes false" in enabled["description"]


def test_an_agents_own_settings_have_no_defaults() -> None:
    """What an agent leaves out comes from the global settings, not from a number in the schema."""
    agents = SCHEMA["properties"]["agents"]
    assert "historySize" in str(agents)
    assert not [schema for schema in _all(agents) if "default" in schema]


def test_every_setting_has_a_title_and_a_description() -> None:
    """A settings page has something to show for each of our keys, and no code marks in it."""
    ours = [*_named(LOOP), *_named(PLUGIN)]
    assert len(ours) > 20
    bare = [name for name, schema in ours if not (schema.get("title") and schema.get("description"))]
    assert bare == []
    assert "``" not in str(SCHEMA)


def _named(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property in a schema, at any depth."""
    for name, inner in schema.get("properties", {}).items():
        yield name, inner
        yield from _named(inner)


def _all(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all that are in it."""
    yield schema
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for each in inner:
        if isinstance(each, dict):
            yield from _all(each)
