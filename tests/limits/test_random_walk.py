"""Whatever happens in whatever order: the invariants hold after every script, and all ends well."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from portion import PORTION
from walk import Walk

WALKS = int(os.environ.get("WALKS", 10 * PORTION))  # of each kind; `make chaos` takes a thousand


@pytest.mark.portion
@pytest.mark.parametrize(("at_once", "together"), [(100, 1), (2, 1), (100, 3)])
def test_the_invariants_hold_after_every_script_of_any_walk(
    redis_url: str, at_once: int, together: int
) -> None:
    walks = settings(max_examples=WALKS, stateful_step_count=30)

    run_state_machine_as_test(lambda: Walk(redis_url, at_once, together), settings=walks)
