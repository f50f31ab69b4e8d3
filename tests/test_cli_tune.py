"""loopguard tune: settings that catch every planted loop and leave the healthy sessions alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sessions import Session, healthy, mending, polling, stuck, waiting, write

from loopguard_plugin import parse_settings
from loopguard_plugin.cli import main, tuning_moves, tuning_plays, tuning_search
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
    assert (resolved.policy("search") or resolved).critical < 14
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


def tuned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fine: list[Session], loops: list[Session], *argv: str
) -> str:
    """What tune says of these sessions, each in a file of its own."""
    files = {one.key: str(write(tmp_path / f"{one.key}.jsonl", [one])) for one in (*fine, *loops)}
    marked = ["--fine", *(files[one.key] for one in fine), "--stuck", *(files[one.key] for one in loops)]
    assert main(["tune", *(marked if fine else marked[1:]), "--jobs", "1", *argv]) == 0
    return capsys.readouterr().out


def comment(told: str, start: str) -> str:
    """The comment on the line of the block that begins so."""
    (line,) = [line.strip() for line in recommended(told).splitlines() if line.strip().startswith(start)]
    return line.partition(" // ")[2]


FINE = [healthy(f"fine-{number}", 40, seed=number) for number in range(3)]


def test_parts_of_a_result_that_move_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A poll whose answer shows a time is caught by leaving that part out, and the line says in which session."""
    loop = waiting("polls", "fetch_state", 30, lambda at: {"state": "queued", "meta": {"asked": at}})
    told = tuned(tmp_path, capsys, FINE, [loop])
    assert "catches 1 of 1 stuck sessions, interrupts 0" in told
    assert 'fetch_state: { ignoreResult: ["meta.asked"] },' in told
    assert re.fullmatch(r"stops: polls\.jsonl \(call \d+\)", comment(told, "fetch_state:"))
    policy = parse_settings(load_block(recommended(told))).resolve().policy("fetch_state")
    assert policy is not None
    assert policy.ignore_result == (("meta", "asked"),)


def test_results_that_are_similar_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A status that shows how long it has run is caught as similar."""
    loop = waiting("waits", "fetch_state", 30, lambda at: f"still queued after {at} seconds")
    told = tuned(tmp_path, capsys, FINE, [loop])
    assert "catches 1 of 1" in told
    assert "fetch_state: { similar: true }, // stops: waits.jsonl (call 24)" in told


def test_errors_that_are_similar_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A call that fails four times with another id each time is caught by repeatedErrors, which is for all agents."""
    loop = healthy("ids", 3, seed=3)
    for at in range(5):
        loop.call("fetch", {"u": 1}, error=f"failed, request id 7f3a-{at:04}")
    told = tuned(tmp_path, capsys, FINE, [loop])
    assert 'repeatedErrors: "similar", // stops: ids.jsonl (call 6)' in told
    assert "repeatedErrors" not in tuned(tmp_path, capsys, FINE, [loop], "--agent", "one")


def test_a_tool_that_changes_things_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the same test after each edit was noted, the edit is declared to change things; a mere look is not."""
    fine = [*FINE, mending("mends", 40), mending("looks", 3, tool="view")]
    told = tuned(tmp_path, capsys, fine, [stuck("search", "search", 9)])
    assert "catches 1 of 1 stuck sessions, interrupts 0 and notes 0 of 5" in told
    assert "edit: { mutates: true }, // leaves alone: mends.jsonl" in told
    assert "view" not in told


def test_stagnation_is_switched_on_where_it_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A round of calls that nothing else stops: where the file switches stagnation off, tune says what that costs."""
    loop = healthy("round", 3, seed=3)
    for at in range(120):
        page = (at * 5 + at // 16) % 16
        loop.call("read", {"page": page}, f"page {page}")
    off = tmp_path / "off.json5"
    off.write_text("{ plugins: { entries: { loopguard: { config: { detectors: { stagnation: false } } } } } }")
    told = tuned(tmp_path, capsys, FINE, [loop], "--config", str(off))
    assert re.search(r"stagnation: true, // stops: round\.jsonl \(call \d+\)", told)
    assert "stagnation" not in tuned(tmp_path, capsys, FINE, [loop])


def test_stagnation_is_switched_off_where_rounds_are_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Watchers that look at the same sixteen things again and again are left alone by the one switch that helps all."""
    fine = []
    for tool in ("watch", "probe", "survey"):
        session = Session(tool).user()
        for at in range(160):
            session.call(f"{tool}_{at % 2}", {"place": at % 16}, "all quiet")
        fine.append(session)
    told = tuned(tmp_path, capsys, fine, [stuck("search", "search", 30)])
    assert "catches 1 of 1 stuck sessions, interrupts 0 and notes 0 of 3" in told
    assert "stagnation: false, // leaves alone: probe.jsonl, survey.jsonl, watch.jsonl" in told


def test_a_ceiling_where_nothing_repeats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A session that only goes on and on is caught by a ceiling, well above the longest healthy turn."""
    loop = Session("endless").user()
    for at in range(150):
        loop.call("search", {"q": at}, f"hit {at}")
    told = tuned(tmp_path, capsys, FINE, [loop])
    assert "callsPerTurn: 40, // stops: endless.jsonl (call 41)" in told
    assert "catches 1 of 1 stuck sessions, interrupts 0" in told


def test_nothing_is_recommended_that_no_session_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Healthy sessions and a loop that the usual settings stop: no line beyond the switch, and nothing for any tool."""
    told = tuned(tmp_path, capsys, FINE, [stuck("search", "search", 30)])
    assert load_block(recommended(told)) == {"tools": {"loopDetection": {"enabled": True}}}
    assert comment(told, "enabled:") == "stops: search.jsonl (call 26)"


def test_stuck_sessions_that_get_through_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing that was tried stops a session, it is named: the user should know what is left."""
    lost = Session("lost").user()
    for at in range(12):
        lost.call("search", {"q": at}, f"hit {at}")
    told = tuned(tmp_path, capsys, FINE, [stuck("search", "search", 30), lost])
    assert f"stay uncaught:\n  lost  {tmp_path / 'lost.jsonl'}\n" in told
    assert "catches 1 of 2" in told


def test_each_line_says_what_it_is_for(history: dict[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of the block has a comment: sessions that it changes, or the line that it goes with."""
    main(["tune", "--fine", *history["fine"], "--stuck", *history["stuck"], "--jobs", "1"])
    told = capsys.readouterr().out
    lines = [line for line in recommended(told).splitlines() if not line.strip().endswith(("{", "}", "},"))]
    assert len(lines) >= 5
    assert all(" // " in line for line in lines)
    assert comment(told, "reserve:") == "leaves alone: flaky.jsonl"
    assert "waits-0.jsonl" in comment(told, "job_status:")
    assert comment(told, "search:").startswith("stops: search-0.jsonl (call ")
    assert comment(told, "historySize:") == "stops: hangs.jsonl (call 66)"
    assert "no session here needs it" not in told


def test_without_a_line_its_sessions_go_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a comment promises is what replay shows: with the line the loop is stopped at that call, without it not."""
    loop = waiting("waits", "fetch_state", 30, lambda at: f"still queued after {at} seconds")
    told = tuned(tmp_path, capsys, FINE, [loop])
    config = tmp_path / "pasted.json5"
    config.write_text(recommended(told))
    file = [str(tmp_path / "waits.jsonl")]
    assert stopped(file, config) == file
    config.write_text("\n".join(line for line in recommended(told).splitlines() if "fetch_state" not in line))
    assert stopped(file, config) == []


def test_names_of_files_cannot_end_a_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line break in a file's name stays in the comment, so that nothing of it is read as a setting."""
    told = tuned(tmp_path, capsys, FINE, [stuck("a\nmaxRuns: 1,", "search", 30)])
    assert load_block(recommended(told)) == {"tools": {"loopDetection": {"enabled": True}}}


def test_the_work_is_bounded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many tools could do with settings of their own, rounds and their settings stay within their bounds."""
    fine = []
    for at in range(40):
        session = polling(f"waits-{at}", f"status_of_{at}", 12 + at)
        for _ in range(4):
            session.call(f"reserve_{at}", {}, error="503")
        fine.append(session)
    rounds: list[int] = []
    play_all = tuning_plays.play_all

    def counting(files: object, settings: Sequence[object], *rest: Any, **more: Any) -> Any:
        rounds.append(len(settings))
        return play_all(files, settings, *rest, **more)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(tuning_plays, "play_all", counting)
    told = tuned(tmp_path, capsys, fine, [stuck("search", "search", 8)])
    assert "catches 1 of 1" in told
    assert len(rounds) <= 5 + 2 * (tuning_search.ROUNDS + tuning_search.PRUNING)
    assert max(rounds) <= tuning_moves.MOST + 8
