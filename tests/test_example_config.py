"""config.example.json5 has to stay what it says: every setting, each at its default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyjson5

from loopguard_plugin.config_file import load_config_text, load_settings
from loopguard_plugin.settings import Settings, ToolKind, ToolPolicy
from loopguard_plugin.settings_schema import config_schema

EXAMPLE = Path(__file__).parent.parent / "config.example.json5"


def test_the_example_changes_nothing() -> None:
    """Copied as it is, the file gives exactly the defaults, with `enabled` unset."""
    settings = load_settings(EXAMPLE)
    assert settings.resolve() == Settings().resolve()
    assert settings.resolve().enabled is None
    assert settings.agent_ids == ()
    assert (settings.plugin_enabled, settings.max_runs, settings.idle_minutes) == (
        Settings().plugin_enabled,
        Settings().max_runs,
        Settings().idle_minutes,
    )


def test_the_example_shows_every_setting_with_its_default() -> None:
    """Every setting that the schema gives a default stands in the file with that value; `enabled` only as a comment."""
    example = pyjson5.decode(EXAMPLE.read_text(encoding="utf-8"))
    defaults = dict(_defaults(config_schema(), ()))
    assert len(defaults) == 18
    assert {path: _at(example, path) for path in defaults} == defaults
    assert "enabled" not in example["tools"]["loopDetection"]


def test_each_state_of_enabled_has_its_line() -> None:
    """Unset, true and false are explained in one commented line each."""
    lines = re.findall(r"^ *// (enabled: .*)$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [re.split(r"[:,]\s+", line)[1] for line in lines] == ["unset", "true", "false"]


def test_what_is_commented_out_can_be_commented_in() -> None:
    """The examples for agents and tools are right as they stand, once their slashes are gone."""
    text = re.sub(r'^( *)// ("|\{ id)', r"\1\2", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    settings = load_config_text(text)
    assert settings.agent_ids == ("safe-runner", "main", "older-form", "cron")
    assert settings.default_agent == "main"
    assert settings.resolve("safe-runner").warning == 8
    assert settings.resolve("older-form").rolling
    assert settings.resolve().policy("job_status") == ToolPolicy(similar=True)
    assert settings.resolve().policy("notify_me") == ToolPolicy(kind=ToolKind.SEND)
    assert settings.resolve().policy("fetch") == ToolPolicy(identity=(("url",),))
    assert settings.resolve().policy("reserve") == ToolPolicy(error_retries=4)
    assert settings.resolve("cron").observe
    assert settings.resolve().aliases["shell"] == "exec"
    assert settings.adjustments == ()


def _defaults(schema: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    if "default" in schema and schema["default"] != {}:
        yield path, schema["default"]
    for name, inner in schema.get("properties", {}).items():
        yield from _defaults(inner, (*path, name))


def _at(value: Any, path: tuple[str, ...]) -> object:
    for key in path:
        value = value[key]
    return value
