"""Every case of the case files, through the public face: ``EmbeddedBus`` and ``LoopGuard``.

The whole collection lies beside a checkout (``../shared/cases``) and is skipped where it is absent; a small selection
is part of the checkout.
"""

from __future__ import annotations

import pytest
from cases import KEPT, SHARED, Case, read_file
from helpers import play

FILES = ("reports.jsonl", "vectors.jsonl", "pairs.jsonl", "wider.jsonl")
KEPT_CASES = [case for name in FILES for case in read_file(KEPT / name)]
SHARED_CASES = [case for name in FILES for case in read_file(SHARED / name)]


def check(case: Case) -> None:
    """Play it and compare event by event; the first difference is the message."""
    for at, (got, wanted) in enumerate(zip(play(case.config, case.events), case.expect, strict=True)):
        assert got == wanted, f"event {at}: {case.events[at]}"


@pytest.mark.parametrize("case", KEPT_CASES, ids=[case.id for case in KEPT_CASES])
def test_kept_case(case: Case) -> None:
    """Action, detector, count and code of every answer are the expected ones."""
    check(case)


@pytest.mark.skipif(not SHARED_CASES, reason="the whole collection of cases is not beside this checkout")
@pytest.mark.parametrize("case", SHARED_CASES, ids=[case.id for case in SHARED_CASES])
def test_case(case: Case) -> None:
    """Action, detector, count and code of every answer are the expected ones."""
    check(case)
