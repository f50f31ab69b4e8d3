"""The command line apart from replay: usage, check-config, config-schema, demo, and what starting it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loopguard_plugin import __version__
from loopguard_plugin.cli import main

ROOT = Path(__file__).parents[1]


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("argv", [[], ["replay"], ["fly"], ["replay", "x", "--fail-on", "always"]], ids=" ".join)
def test_bad_usage_exits_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A command line that is wrong gives the usage on stderr and 2."""
    assert main(argv) == 2
    assert "usage: loopguard" in capsys.readouterr().err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Help names every command; both exit 0."""
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("replay", "explain", "tune", "check-config", "config-schema", "demo"))
    assert main(["--version"]) == 0
    assert lines(capsys) == [f"loopguard {__version__}"]


def test_module_runs_as_a_program() -> None:
    """python -m loopguard_plugin is the same command."""
    ran = subprocess.run(
        [sys.executable, "-m", "loopguard_plugin", "--version"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"loopguard {__version__}\n", "")


def test_help_loads_nothing_heavy() -> None:
    """Asking for help starts no event loop, no logging and no reader."""
    code = (
        "import sys; from loopguard_plugin.cli import main; main(['--help']); "
        "print([m for m in ('anyio', 'asyncio', 'loguru', 'rich', 'loopguard_plugin.transcripts') "
        "if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_check_config_of_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    """The example file leaves enabled unset: rolling detectors off, the two others on, with the reason."""
    assert main(["check-config", str(ROOT / "config.example.json5")]) == 0
    text = capsys.readouterr().out
    guards = {line.split("  ")[1].strip(): line for line in text.splitlines() if " on " in line or " off " in line}
    assert " on " in guards["repeated tool errors"]
    assert " off " in guards["rolling detectors"]
    assert "tools.loopDetection.enabled is unset" in guards["rolling detectors"]
    assert " on " in guards["post-compaction guard"]
    assert "criticalThreshold              20" in text


def test_check_config_of_an_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An agent's own settings count, the key that decides is named, and every adjustment is shown with both values."""
    path = tmp_path / "gateway.json5"
    path.write_text(
        """{ tools: { loopDetection: { enabled: false } },
             agents: { entries: { ana: { tools: { loopDetection: { enabled: true, criticalThreshold: 5 } } } } } }"""
    )
    assert main(["check-config", str(path), "--agent", "ana"]) == 0
    text = capsys.readouterr().out
    assert "agents.entries.ana.tools.loopDetection.enabled is true" in text
    assert "criticalThreshold              11" in text
    assert "agents.entries.ana.tools.loopDetection.criticalThreshold: 5 is used as 11" in text
    assert main(["check-config", str(path)]) == 0
    assert "tools.loopDetection.enabled is false" in capsys.readouterr().out


def test_check_config_of_a_plugin_that_is_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the plugin is switched off, every guard is off and the reason is that."""
    path = tmp_path / "gateway.json5"
    path.write_text("{ plugins: { entries: { loopguard: { enabled: false } } } }")
    assert main(["check-config", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.count("plugins.entries.loopguard.enabled is false") == 3
    assert " on " not in text.split("historySize")[0].split("\n\n")[1]


def test_check_config_of_single_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the plugin's own settings say is shown in the words of the file, with what to be aware of."""
    path = tmp_path / "gateway.json5"
    path.write_text(
        """{ plugins: { entries: { loopguard: { config: {
             mode: "observe", limits: { callsPerRun: 500 }, detectors: { stagnation: false },
             repeatedErrors: "similar", tools: { ci_status: { similar: true },
             "browser_*": { exempt: ["global_circuit_breaker"] }, fetch: { identity: ["url"], mutates: true } }
           } } } } }"""
    )
    assert main(["check-config", str(path)]) == 0
    text = capsys.readouterr().out
    assert "observe mode" in text
    assert "limits.callsPerRun             500" in text
    assert "detectors.stagnation           off" in text
    assert "detectors.errorCascade         on" in text
    assert "repeatedErrors                 similar" in text
    assert "tools.ci_status                results compared without times, durations and ids" in text
    assert "tools.browser_*                exempt from global_circuit_breaker" in text
    assert "tools.fetch                    identified by url, mutates" in text
    assert "to be aware of:" in text
    assert "never stopped by the circuit breaker" in text


UNREAD = {
    "plugins.entries.loopgaurd": "{ plugins: { entries: { loopgaurd: { config: { mode: 'observe' } } } } }",
    "tools.loopDetectoin": "{ tools: { loopDetectoin: { enabled: true } } }",
    "agents.entries.ana.tools.loop_detection": "{ agents: { entries: { ana: { tools: { loop_detection: {} } } } } }",
    "agents.list[1].tools.loopdetection": "{ agents: { list: [{}, { id: 'b', tools: { loopdetection: {} } }] } }",
}


@pytest.mark.parametrize("path", UNREAD)
def test_check_config_of_settings_that_nothing_reads(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key one edit away from ours gives 2, with its path and the key meant; other commands say it and go on."""
    file, meant = tmp_path / "gateway.json5", "loopguard" if "plugins" in path else "loopDetection"
    file.write_text(UNREAD[path])
    told = f"{file}: {path}: loopguard does not read this key (did you mean {meant}?)\n"
    assert main(["check-config", str(file)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", told)
    assert main(["replay", str(ROOT / "tests" / "data" / "stuck.jsonl"), "--config", str(file)]) == 0
    assert told in capsys.readouterr().err


def test_check_config_of_an_agent_that_the_file_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The settings of an agent whom no part of the file knows are something to be aware of, with the name meant."""
    path = tmp_path / "gateway.json5"
    path.write_text(
        """{ agents: { entries: { cron: {} } },
             plugins: { entries: { loopguard: { config: { agents: { crno: { mode: "observe" } } } } } } }"""
    )
    assert main(["check-config", str(path)]) == 0
    assert lines(capsys)[-2:] == [
        "to be aware of:",
        "  plugins.entries.loopguard.config.agents.crno: neither agents.entries nor agents.list has an agent of this "
        "name (did you mean cron?)",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{ plugins: { entries: { loopguard: { config: { detectors: { cycle: true } } } } } }",
            "replaced by stagnation",
        ),
        (
            "{ plugins: { entries: { loopguard: { config: { agents: { a: { detectors: { cycle: 1 } } } } } } } }",
            "agents.a.detectors.cycle: an older key, replaced by stagnation",
        ),
        (
            "{ plugins: { entries: { loopguard: { config: { tools: { x: { exempt: ['cycle'] } } } } } } }",
            "tools.x.exempt[0]: an older word, replaced by stagnation",
        ),
        (
            "{ tools: { loopDetection: { mode: 'observe' } } }",
            "tools.loopDetection.mode: unknown key here; it belongs at plugins.entries.loopguard.config.mode",
        ),
        ("{ tools: { loopDetection: { historySise: 3 } } }", "tools.loopDetection.historySise"),
        ("{ tools: \n { loopDetection: [ }", "line 2"),
        (None, "cannot be read"),
    ],
    ids=["older key", "of an agent", "older word", "other place", "unknown key", "not JSON5", "no such file"],
)
def test_bad_config_exits_2(text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A config that cannot be used gives 2, and the errors with file and place on stderr, in both commands."""
    path = tmp_path / "gateway.json5"
    if text is not None:
        path.write_text(text)
    for argv in (["check-config", str(path)], ["replay", "-", "--config", str(path)]):
        assert main(argv) == 2
        captured = capsys.readouterr()
        assert said in captured.err
        assert str(path) in captured.err
        assert captured.out == ""


def test_config_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The schema is printed as JSON and describes the settings."""
    assert main(["config-schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    loop = schema["properties"]["tools"]["properties"]["loopDetection"]["properties"]
    assert loop["historySize"]["default"] == 30


def test_demo_shows_the_whole_ladder(capsys: pytest.CaptureFixture[str]) -> None:
    """Note at the 11th call, block at the 21st, one recovery answer, end; then the two guards that are always on."""
    assert main(["demo"]) == 0
    told = lines(capsys)
    heads = [line.split("→")[0].split()[1] + " " + line.split("→ ")[1] for line in told if "→" in line]
    fired = [head for head in heads if any(word in head for word in ("NOTE", "BLOCKED", "END OF TURN"))]
    assert fired == [
        "11 NOTE (generic_repeat, count 10)",
        "21 BLOCKED (generic_repeat, count 20)",
        "23 END OF TURN (tool_loop_persisted, count 21)",
        "3 END OF TURN (repeated_tool_error, count 3)",
        "4 END OF TURN (compaction_loop_persisted, count 3)",
    ]
    assert any("answers once more" in line for line in told)
