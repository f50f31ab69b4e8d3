"""The scenarios' assertions say what they compared."""

import pytest

pytest.register_assert_rewrite("scenarios")
