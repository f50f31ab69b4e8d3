"""Settings written where nothing reads them: misspelt parts, the wrong one of our two places, unknown agents."""

from __future__ import annotations

import string
from typing import Any

import pytest
from helpers import settings_of
from hypothesis import given
from hypothesis import strategies as st

from loopguard_plugin.errors import SettingsError
from loopguard_plugin.settings import Settings, parse_settings
from loopguard_plugin.settings_names import one_edit_apart

PLUGIN = "plugins.entries.loopguard"
CONFIG = f"{PLUGIN}.config"
LOOP = "tools.loopDetection"


def at(path: str, value: object) -> dict[str, Any]:
    """A config file with this value at this path."""
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def own(**keys: object) -> dict[str, Any]:
    """A config file with these keys under ``plugins.entries.loopguard.config``."""
    return at(CONFIG, keys)


def problems(config: object) -> list[str]:
    """What is wrong with a config, as it is told."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(config)
    return [str(problem) for problem in caught.value.problems]


# One edit away from ours, in an object of the gateway's


@pytest.mark.parametrize(
    "key", ["loopgaurd", "loopguards", "lopguard", "loopguart", "LoopGuard", "loop-guard", "loop_guard", "Loop Guards"]
)
def test_an_entry_that_is_nearly_loopguard_is_told(key: str) -> None:
    """Letters swapped, one more, one less, another one, other case, `-` or `_`: the file is used, and the key named."""
    settings = parse_settings({"plugins": {"entries": {key: {"enabled": False}}}})
    (problem,) = settings.unread
    assert (problem.path, problem.nearest) == (f"plugins.entries{_step(key)}", "loopguard")
    assert str(problem).endswith(": loopguard does not read this key (did you mean loopguard?)")
    assert settings.plugin_enabled


@pytest.mark.parametrize(
    "key", ["loopDetectoin", "loopDetections", "loopdetection", "loop_detection", "loop-detection", "LoopDetecton"]
)
@pytest.mark.parametrize("holder", ["tools", "agents.entries.safe-runner.tools", "agents.list[0].tools"])
def test_a_key_of_tools_that_is_nearly_loop_detection_is_told(holder: str, key: str) -> None:
    """So in the tools of an agent, in both forms."""
    if holder == "agents.list[0].tools":
        config: dict[str, Any] = {"agents": {"list": [{"id": "a", "tools": {key: {"enabled": True}}}]}}
    else:
        config = at(holder, {key: {"enabled": True}})
    settings = parse_settings(config)
    (problem,) = settings.unread
    assert (problem.path, problem.nearest) == (f"{holder}.{key}", "loopDetection")
    assert not any(settings.resolve(agent).rolling for agent in (None, "a", "safe-runner"))


@pytest.mark.parametrize(
    "config",
    [
        {"tools": {"loopDetection": {}, "loopDetectionXY": {}, "detection": {}, "loop": {}, "": {}, 5: {}}},
        {"tools": {"loopDetectoin": None}, "plugins": {"entries": {"loopgaurd": None}}},
        {"plugins": {"entries": {"loopguard": {}, "guard": {}, "loop": {}, "openloopguard": {}, "x" * 10_000: {}}}},
        {"toolz": {"loopDetectoin": {}}, "loopguard": {}, "plugins": {"loopguards": {}}},
        own(tools={"loopDetectoin": {}, "loopgaurd": {}}, agents={"loopgaurd": {}}),
    ],
    ids=["other tools", "null", "other plugins", "other objects", "names of the operator's"],
)
def test_what_is_further_away_is_the_gateways_own(config: dict[str, Any]) -> None:
    """Two edits are another word; null sets nothing; names that an operator may choose are not keys."""
    assert parse_settings(config).unread == ()


def test_the_rest_of_such_a_file_holds() -> None:
    """The gateway may know that key, so nothing else in the file suffers from it; another file is not the same."""
    right = at(LOOP, {"enabled": True, "warningThreshold": 4})
    wrong = right | {"plugins": {"entries": {"loopgaurd": {}}}}
    settings = parse_settings(wrong)
    assert settings.resolve() == parse_settings(right).resolve()
    assert settings != parse_settings(right)


def test_they_are_listed_with_the_mistakes_of_the_file() -> None:
    """Where the file cannot be used anyway, everything that is wrong with it comes at once."""
    config = {"tools": {"loopDetection": {"historySize": 0}, "loopDetectoin": {}}, "plugins": {"entries": {"guard": 1}}}
    assert problems(config) == [
        "tools.loopDetection.historySize: expected a whole number from 1 (default 30), found 0 (number) "
        "(did you mean 1?)",
        "tools.loopDetectoin: loopguard does not read this key (did you mean loopDetection?)",
    ]


def _step(key: str) -> str:
    return f'["{key}"]' if " " in key else f".{key}"


# In the wrong one of our two places


@pytest.mark.parametrize(
    ("written", "belongs"),
    [
        (f"{LOOP}.mode", f"{CONFIG}.mode"),
        (f"{LOOP}.repeatedErrors", f"{CONFIG}.repeatedErrors"),
        (f"{LOOP}.callsPerRun", f"{CONFIG}.limits.callsPerRun"),
        (f"{LOOP}.maxRun", f"{CONFIG}.maxRuns"),
        (f"{LOOP}.similar", f"{CONFIG}.tools.NAME.similar"),
        (f"{LOOP}.detectors.stagnation", f"{CONFIG}.detectors.stagnation"),
        (f"{LOOP}.detectors.error_cascade", f"{CONFIG}.detectors.errorCascade"),
        (f"{LOOP}.detectors.warningThreshold", f"{LOOP}.warningThreshold"),
        (f"{CONFIG}.warningThreshold", f"{LOOP}.warningThreshold"),
        (f"{CONFIG}.postCompactionGuard", f"{LOOP}.postCompactionGuard"),
        (f"{CONFIG}.windowSize", f"{LOOP}.postCompactionGuard.windowSize"),
        (f"{CONFIG}.detectors.pingPong", f"{LOOP}.detectors.pingPong"),
        (f"{CONFIG}.detectors.mode", f"{CONFIG}.mode"),
        (f"{CONFIG}.enabled", f"{PLUGIN}.enabled or {LOOP}.enabled"),
        (f"{CONFIG}.errorRetries", f"{CONFIG}.tools.NAME.errorRetries"),
        (f"{CONFIG}.tools.search.historySize", f"{LOOP}.historySize"),
        (f"{PLUGIN}.criticalThreshold", f"{LOOP}.criticalThreshold"),
        (f"agents.entries.cron.{LOOP}.mode", f"{CONFIG}.agents.cron.mode"),
        (f"agents.entries.cron.{LOOP}.detectors.stagnation", f"{CONFIG}.agents.cron.detectors.stagnation"),
        (f"agents.entries.cron.{LOOP}.idleMinutes", f"{CONFIG}.idleMinutes"),
        (f"{CONFIG}.agents.cron.historySize", f"agents.entries.cron.{LOOP}.historySize"),
        (f"{CONFIG}.agents.cron.enabled", f"agents.entries.cron.{LOOP}.enabled"),
        (f"{CONFIG}.agents.cron.repeatedErrors", f"{CONFIG}.repeatedErrors"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_with_its_own(written: str, belongs: str) -> None:
    """Two places are ours; a key of the one in the other, or too far inside, is named with the path that is read."""
    assert problems(at(written, True)) == [f"{written}: unknown key here; it belongs at {belongs}"]


def test_the_place_of_an_agent_is_written_as_paths_are() -> None:
    """A name with a dot keeps its quotes; an agent of the older list is not known by name in the path."""
    entry = {"my.agent": {"tools": {"loopDetection": {"mode": "observe"}}}}
    listed = [{"id": "b", "tools": {"loopDetection": {"mode": "observe"}}}]
    assert problems({"agents": {"entries": entry, "list": listed}}) == [
        f'agents.entries["my.agent"].{LOOP}.mode: unknown key here; it belongs at {CONFIG}.agents["my.agent"].mode',
        f"agents.list[0].{LOOP}.mode: unknown key here; it belongs at {CONFIG}.agents.NAME.mode",
    ]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (f"{CONFIG}.detectors.cycle", "an older key, replaced by stagnation"),
        (f"{CONFIG}.agents.a.detectors.cycle", "an older key, replaced by stagnation"),
        (f"{LOOP}.detectors.cycle", f"an older key, replaced by {CONFIG}.detectors.stagnation"),
        (f"{LOOP}.detectorCooldownMs", "an older key, of no use any more: remove it"),
    ],
)
def test_an_older_key_is_told_with_the_name_that_took_its_place(written: str, told: str) -> None:
    """Once, and in plain words."""
    assert problems(at(written, True)) == [f"{written}: {told}"]


# Agents that the file does not have


def test_settings_of_an_agent_that_the_file_does_not_have_are_told() -> None:
    """With the agent that was probably meant; those of `agents.list` and of a file without agents are right."""
    agents = {"entries": {"cron": {}, "main": None}, "list": [{"id": " older "}, {"id": 5}, {}]}
    config = own(agents={"crno": {}, "Cron": {"mode": "observe"}, " cron ": {}, "older": {}, "main": {}, "off": None})
    unknown = parse_settings(config | {"agents": agents}).unknown_agents
    assert [(problem.path, problem.nearest) for problem in unknown] == [
        (f"{CONFIG}.agents.crno", "cron"),
        (f"{CONFIG}.agents.Cron", "cron"),
        (f"{CONFIG}.agents.main", None),
    ]
    assert str(unknown[0]).endswith(
        "crno: neither agents.entries nor agents.list has an agent of this name (did you mean cron?)"
    )
    without: list[dict[str, Any]] = [
        {},
        {"agents": None},
        {"agents": {"entries": {}, "list": []}},
        {"agents": {"x": 1}},
    ]
    for none in without:
        assert parse_settings(config | none).unknown_agents == ()


def test_settings_of_an_unknown_agent_hold_for_events_that_name_it() -> None:
    """They are told, not dropped: a gateway may know more agents than its file."""
    settings = parse_settings(own(agents={"ghost": {"mode": "observe"}}) | {"agents": {"entries": {"cron": {}}}})
    assert settings.resolve("ghost").observe


@pytest.mark.parametrize(
    ("config", "agents"),
    [
        ({}, ()),
        ({"agents": {"entries": {"a": {}, "b": {"default": True}}}}, ()),
        ({"agents": {"entries": {"a": at(LOOP, {"warningThreshold": 10})}}}, ()),
        ({"agents": {"entries": {"a": at(LOOP, {"warningThreshold": 3}), "b": {}}}}, ("a",)),
        (own(agents={"a": {"mode": "enforce"}, "b": {"tools": {"x": {"similar": True}}}}), ("b",)),
    ],
    ids=str,
)
def test_agents_for_whom_something_else_holds(config: dict[str, Any], agents: tuple[str, ...]) -> None:
    """An agent that the file only names, or gives what holds for all, has no settings of its own."""
    assert settings_of(config).own_agents == agents
    assert Settings().own_agents == ()


# How near is near

LETTERS = st.text(alphabet="abc", max_size=5)


def _edits(word: str) -> set[str]:
    """The word, and every word that is one edit away from it."""
    found = {word}
    for place in range(len(word) + 1):
        head, tail = word[:place], word[place:]
        found |= {head + letter + tail for letter in string.ascii_lowercase}
        if tail:
            found |= {head + tail[1:], *(head + letter + tail[1:] for letter in string.ascii_lowercase)}
        if len(tail) > 1:
            found.add(head + tail[1] + tail[0] + tail[2:])
    return found


@given(LETTERS, LETTERS)
def test_one_edit_is_one_letter_or_two_neighbours_swapped(one: str, other: str) -> None:
    """Held against the list of all words that are one edit away."""
    assert one_edit_apart(one, other) is (other in _edits(one))


@given(LETTERS)
def test_every_word_one_edit_away_is_found(word: str) -> None:
    """None is missed, in either direction, whatever the case and the marks between letters."""
    for other in _edits(word):
        assert one_edit_apart(word, other)
        assert one_edit_apart("_".join(other.upper()), word)
