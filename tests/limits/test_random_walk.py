"""Whatever happens in whatever order: the invariants hold after every script, and all ends well."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from limits_bench import KEYS
from portion import PORTION
from walk import Walk
from walk_groups import WalkOfGroups

WALKS = int(os.environ.get("WALKS", 10 * PORTION))  # of each kind; `make chaos` takes a thousand
FLAG_MS = 200


@pytest.mark.portion
@pytest.mark.parametrize(("at_once", "together"), [(100, 1), (2, 1), (100, 3)])
def test_the_invariants_hold_after_every_script_of_any_walk(
    redis_url: str, at_once: int, together: int
) -> None:
    walks = settings(max_examples=WALKS, stateful_step_count=30)

    run_state_machine_as_test(lambda: WalkOfGroups(redis_url, at_once, together), settings=walks)


@pytest.fixture
def waiting(redis_url: str) -> Iterator[Walk]:
    """Somebody waits, and the last script left a flag that soon ends as it was."""
    walk = Walk(redis_url, at_once=100)
    for number in ("N001", "N002", "N003"):
        walk.somebody_asks(number, None, auto=False, age=None, sent=1)
    walk.redis.pexpire(KEYS.wait_list_activated, FLAG_MS)
    walk.sweep(1)
    yield walk
    walk.redis.flushdb()
    walk.redis.close()


def test_a_flag_that_runs_down_behind_a_script_that_left_it_alone_is_no_breach(
    waiting: Walk,
) -> None:
    deadline = time.monotonic() + 10
    while waiting.redis.exists(KEYS.wait_list_activated):
        assert time.monotonic() < deadline
        time.sleep(FLAG_MS / 10_000)

    waiting.all_is_as_it_must_be()


def test_a_script_that_leaves_those_who_wait_without_a_flag_is_a_breach(waiting: Walk) -> None:
    waiting.redis.delete(KEYS.wait_list_activated)
    waiting.sweep(1)
    waiting.redis.delete(KEYS.wait_list_activated)
    waiting.flag_until += 60  # a busy machine may look late

    with pytest.raises(AssertionError, match="flag"):
        waiting.all_is_as_it_must_be()
