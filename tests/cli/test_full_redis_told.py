"""A full Redis is named by the commands that people and probes look at, with the fix."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from command_line import Run

FIX = "Raise its maxmemory, or look why so much waits (info)."


@pytest.fixture
def _full(store: redis.Redis) -> Iterator[None]:
    store.config_set("maxmemory", 2**19)
    yield
    store.config_set("maxmemory", 0)


@pytest.mark.usefixtures("_full")
def test_a_full_redis_is_named_with_the_fix(run: Run) -> None:
    told = run("info")
    (look,) = run("info", "--json").json
    check, doctor = run("check"), run("doctor")

    assert (told.code, check.code, doctor.code) == (0, 1, 1)
    for worry in (told.lines[0], *look["worries"]):
        assert worry.endswith(f" of 0.5 MiB): new requests stay in beanstalkd. {FIX}")
    assert len(look["worries"]) == 1
    assert "Redis is full (" in check.out
    at = next(index for index, line in enumerate(doctor.lines) if line.startswith("FULL "))
    assert doctor.lines[at + 1].strip() == f"-> {FIX}"


def test_a_redis_with_room_worries_nobody(run: Run) -> None:
    (look,) = run("info", "--json").json

    assert look["worries"] == []
