"""The slow model itself agrees with the case files; only then is it fit to hold the core to it."""

from __future__ import annotations

import pytest
from cases import KEPT, Case, limits_of, own_config, read_cases, read_file, tool_kinds
from helpers import settle, start
from model import Answer, Model
from model_sight import PlainSight
from model_streaks import Identity, Item, Limits, Seen, churn, exec_failures, judge, no_progress, ping_pong

from loopguard_plugin.events import decode_event

# Ceilings and parts of results that do not count are no business of the model.
CASES = [
    case
    for case in read_cases("reports.jsonl", "vectors.jsonl", "wider.jsonl")
    if "limits" not in own_config(case.config) and "ignoreResult" not in str(case.config)
]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_model_agrees_with_case(case: Case) -> None:
    """Every answer of the model is the expected one."""
    model = Model(limits_of(case.config), PlainSight(tool_kinds(case.config)))
    for at, (raw, wanted) in enumerate(zip(case.events, case.expect, strict=True)):
        assert model.play(decode_event(raw)) == wanted, f"event {at}: {raw}"


def test_kept_cases_are_there() -> None:
    """A checkout alone has cases of both kinds to hold the model and the core to."""
    kept = [case for path in sorted(KEPT.glob("*.jsonl")) for case in read_file(path)]
    assert {case.needs for case in kept} == {"guards", "detectors"}
    assert len(kept) > 100


A = Identity("read", "a", "plain")
B = Identity("read", "b", "plain")
X = Identity("exec", "x", "plain")
Y = Identity("exec", "y", "plain")


def done(call: Identity, outcome: str = "same") -> Item:
    """A call that settled well."""
    return Item(call, False, Seen("ok", outcome))


def failed(call: Identity, failure: str = "boom") -> Item:
    """A command that failed with a cause."""
    return Item(call, False, Seen("ok", failure, failure=failure))


def veto(call: Identity) -> Item:
    """A call that did not run."""
    return Item(call, True, None)


def test_veto_older_than_all_equal_outcomes_does_not_count() -> None:
    """SPEC 6, no-progress: vetoes count one each unless older than every equal outcome still in the window."""
    assert no_progress([veto(A), done(A), veto(A)], A) == (2, "same")
    assert no_progress([veto(A), done(B), veto(A)], A) == (2, None)


def test_exec_failures_pass_over_other_vetoes_and_end_where_the_arguments_come_back() -> None:
    """SPEC 6, exec failures: own vetoes count, other vetoes are passed over, meeting the own arguments again ends."""
    assert exec_failures([failed(X), failed(Y), veto(X), veto(Y)], X) == 2
    assert exec_failures([failed(Y), failed(X), failed(X)], X) == 3
    assert exec_failures([failed(X), done(A), failed(X)], X) == 1


def test_ping_pong_needs_two_calls_before_it() -> None:
    """SPEC 6, ping-pong: at least A B must stand before the call, and a veto keeps its place."""
    assert ping_pong([done(B)], A)[0] == 0
    assert ping_pong([done(A), done(B)], A) == (3, True, "b")
    assert ping_pong([done(A), veto(B)], A) == (3, False, "b")


def test_churn_stops_at_a_changed_outcome_of_the_same_arguments() -> None:
    """SPEC 6, churn: walking back, a changed outcome of the same arguments ends the stretch."""
    no = [Item(call, False, Seen("error", "no")) for call in (A, B) * 3]
    assert churn(no, A) == 6
    assert churn([Item(A, False, Seen("error", "other")), *no], A) == 6
    assert churn([Item(B, False, Seen("ok", "no")), *no], A) == 6
    assert churn(no[1:], A) == 0


def test_critical_row_goes_before_a_warning() -> None:
    """SPEC 6: the first row that matches speaks."""
    verdict = judge([done(B), done(A), done(A), done(A)], B, Limits(enabled=True, warning=2, critical=3))
    assert verdict is None
    verdict = judge([done(B), done(A), done(A), done(A)], A, Limits(enabled=True, warning=2, critical=3))
    assert verdict is not None
    assert (verdict.critical, verdict.detector, verdict.times) == (True, "generic_repeat", 3)


def test_end_run_forgets_the_run_and_its_bucket_keys() -> None:
    """SPEC 2: after ``end_run`` the same run id is a new run, which is warned anew."""
    model = Model(lambda agent: Limits(enabled=True, warning=1, critical=9), PlainSight())
    answers = []
    for round_ in range(2):
        for at in range(2):
            call_id = f"{round_}{at}"
            model.play(start(call_id))
            answers.append(model.play(settle(call_id)))
        model.end_run("s", "r")
    assert answers == [Answer("deliver"), Answer("note", "generic_repeat", 1)] * 2
