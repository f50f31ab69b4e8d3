"""Settings for the whole suite: property tests repeat the same examples everywhere, and log lines go nowhere."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from loguru import logger

# A slow machine must not fail a test for being slow; what is generated depends on nothing but the code.
settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# For hunting: HYPOTHESIS_PROFILE=search pytest tests/test_runs_property.py
settings.register_profile("search", parent=settings.get_profile("ci"), derandomize=False, max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Tests that look at log lines add a sink of their own.
logger.remove()

# The scenarios that hosts share: their assertions say what they compared.
pytest.register_assert_rewrite("scenarios")
