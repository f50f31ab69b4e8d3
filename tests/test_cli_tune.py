"""loopguard tune: settings that catch every planted loop and leave the healthy sessions alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sessions import Session, healthy, polling, stuck, write

from loopguard_plugin import parse_settings
from loopguard_plugin.cli import main
from loopguard_plugin.cli.playing import play
from loopguard_plugin.cli.tuning_advice import overlaid
from loopguard_plugin.cli.tuning_block import block
from loopguard_plugin.config_file import load_settings
from loopguard_plugin.report.rows import Action


@pytest.fixture
def history(tmp_path: Path) -> dict[str, list[str]]:
    """Healthy sessions with long waits among them, and loops of several tools, some of them short."""
    fine = [
        *(healthy(f"fine-{number}", 60, seed=number) for number in range(12)),
        *(polling(f"waits-{number}", "job_status", 45 + number) for number in range(3)),
        flaky(),
    ]
    loops = [
        *(stuck(f"search-{number}", "search", 14 + number) for number in range(4)),
        *(stuck(f"read-{number}", "read", 40, before=30) for number in range(2)),
        stuck("hangs", "job_status", 90),
    ]
    return {
        name: [str(write(tmp_path / f"{one.key}.jsonl", [one])) for one in sessions]
        for name, sessions in (("fine", fine), ("stuck", loops))
    }


def flaky() -> Session:
    """A healthy session: a tool that is to be tried again, and worked at the fifth attempt."""
    session = Session("flaky").user()
    for _ in range(4):
        session.call("reserve", {"seat": 1}, error="503, try again")
    return session.call("reserve", {"seat": 1}, "reserved")


def recommended(told: str) -> str:
    """The block to paste: the last lines, from the first brace on."""
    return told[told.index("\n{\n") + 1 :]


def stopped(files: list[str], config: Path) -> list[str]:
    """The files in which something is blocked or ended under these settings."""
    settings = load_settings(config)
    found = []
    for file in files:
        tally = play([file], settings, "auto", None, as_json=False).tally
        if tally.total(Action.BLOCK) or tally.total(Action.END_TURN):
            found.append(file)
    return found


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_every_loop_is_caught_and_no_healthy_session_interrupted(
    jobs: str, history: dict[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pasted block, played by replay itself, stops all planted loops and nothing else, as tune said it would."""
    argv = ["tune", "--fine", *history["fine"], "--stuck", *history["stuck"], "--jobs", jobs]
    assert main(argv) == 0
    told = capsys.readouterr().out
    assert "23 sessions: 16 healthy, 7 stuck" in told
    assert "Recommended: catches 7 of 7 stuck sessions, interrupts 0 and notes 0 of 16 healthy ones." in told
    config = tmp_path / "pasted.json5"
    config.write_text(recommended(told))
    assert stopped(history["stuck"], config) == history["stuck"]
    assert stopped(history["fine"], config) == []


def test_processes_change_nothing(history: dict[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """However many processes play, the answer is the same to the letter."""
    told = []
    for jobs in ("1", "2"):
        main(["tune", "--fine", *history["fine"], "--stuck", *history["stuck"], "--jobs", jobs])
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_a_tool_that_waits_gets_settings_of_its_own(
    history: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The poller that was healthy for 47 equal answers gets more room, the tool that is to be retried more tries."""
    main(["tune", "--fine", *history["fine"], "--stuck", *history["stuck"], "--jobs", "1"])
    told = capsys.readouterr().out
    settings = parse_settings(load_block(recommended(told)))
    resolved = settings.resolve()
    waits, usual = resolved.policy("job_status"), resolved.policy("read")
    assert waits is not None
    assert waits.critical > 47
    assert waits.breaker > waits.critical
    assert resolved.history_size >= waits.breaker
    assert resolved.critical < 14
    assert usual is None
    reserve = resolved.policy("reserve")
    assert reserve is not None
    assert reserve.error_retries == 4


def load_block(text: str) -> object:
    import pyjson5

    return pyjson5.loads(text)


def test_table_shows_catches_against_interruptions(
    history: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each pair of thresholds has a line; stricter ones catch more and interrupt more."""
    main(["tune", "--fine", *history["fine"], "--stuck", *history["stuck"], "--jobs", "1"])
    told = capsys.readouterr().out
    rows = [line for line in told.splitlines() if re.fullmatch(r"[\d ]+", line) and line.strip()]
    lines = [list(map(int, line.split())) for line in rows]
    by_pair = {(warning, critical): (caught, interrupted) for warning, critical, caught, interrupted, *_ in lines}
    assert by_pair[3, 6][0] == 7
    assert by_pair[3, 6][1] > by_pair[190, 200][1]
    assert by_pair[190, 200][0] == 0


def test_unmarked_history(history: dict[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without marks the settings in force say which sessions were stuck, and tune names them."""
    assert main(["tune", *history["fine"][:12], *history["stuck"][4:6], "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "14 sessions: 12 healthy, 2 stuck" in told
    assert "mark them with --fine if not" in told
    assert "read-0" in told
    assert "catches 2 of 2" in told
    assert "interrupts 0" in told


def test_marked_on_both_sides_leaves_the_rest_out(
    history: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """With --fine and --stuck both given, other sessions are counted but do not decide."""
    argv = ["tune", history["fine"][13], "--fine", history["fine"][0], "--stuck", history["stuck"][0], "--jobs", "1"]
    assert main(argv) == 0
    told = capsys.readouterr().out
    assert "3 sessions: 1 healthy, 1 stuck, 1 not marked" in told
    assert "taken as stuck" not in told


def test_block_for_one_agent(tmp_path: Path) -> None:
    """With an agent the block goes under that agent's name, and says the same as the settings that were played."""
    shared = {"warningThreshold": 5, "criticalThreshold": 10, "globalCircuitBreakerThreshold": 30, "historySize": 30}
    tools: dict[str, dict[str, object]] = {
        "ci-status": {"kind": "poll", "criticalThreshold": 50},
        'odd "name"[*]': {"exempt": ["ping_pong"]},
    }
    for agent in (None, "safe-runner"):
        pasted = load_block("\n".join(block(shared, tools, agent)))
        assert pasted == overlaid({}, shared, tools, agent)
        assert parse_settings(pasted).resolve(agent).critical == 10
        policy = parse_settings(pasted).resolve(agent).policy("ci-status")
        assert policy is not None
        assert policy.critical == 50
        odd = parse_settings(pasted).resolve(agent).policy('odd "name"[*]')
        assert odd is not None
        assert odd.exempt == {"ping_pong"}


def test_what_the_file_says_already_is_kept() -> None:
    """A tool's new settings go before a pattern that matches it, with what that pattern says."""
    base: dict[str, object] = {
        "plugins": {"entries": {"loopguard": {"config": {"tools": {"job_*": {"kind": "poll"}}}}}}
    }
    resolved = parse_settings(overlaid(base, {}, {"job_status": {"criticalThreshold": 50}}, None)).resolve()
    policy = resolved.policy("job_status")
    assert policy is not None
    assert (policy.kind, policy.critical) == ("poll", 50)
    other = resolved.policy("job_other")
    assert other is not None
    assert (other.kind, other.critical) == ("poll", 20)
    assert "job_status" not in str(base)


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No files, a config that cannot be used and a broken line are told; the rest plays."""
    assert main(["tune"]) == 2
    (tmp_path / "bad.json5").write_text("{")
    assert main(["tune", "x", "--config", str(tmp_path / "bad.json5")]) == 2
    path = write(tmp_path / "e.jsonl", [stuck("s", "read", 30)])
    path.write_text(path.read_text() + "oops\n")
    capsys.readouterr()
    assert main(["tune", "--stuck", str(path), "--jobs", "1"]) == 1
    captured = capsys.readouterr()
    assert "expected an event" in captured.err
    assert "catches 1 of 1" in captured.out
