"""A fault run ends by knowing: what is not quiet in time is watched until it is late, or lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from chaos import quiet
from chaos.producer import Put
from chaos.scale import Courier, Scale
from chaos.wishes import Kind, Wish

SCALE = Scale(couriers=(Courier("named", concurrent=2, per_second=2, pace=1.0),))


@pytest.fixture
def arena(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run that is over but for Redis; what is not quiet at once is too late."""

    @contextmanager
    def connect() -> Iterator[Any]:
        with redis.Redis.from_url(redis_url, decode_responses=True) as client:
            yield client

    monkeypatch.setattr(quiet, "_jobs", lambda _: 0)
    monkeypatch.setattr(quiet, "bound_for", lambda _: 0.0)
    with connect() as client:
        client.rpush("wait_list:named", "PARCEL2")
        client.hset("wait_requests:named", "PARCEL2", "{")
    return SimpleNamespace(scale=SCALE, redis=connect, producer=SimpleNamespace(log=[]))


def test_what_ends_after_its_time_is_late_with_the_state_in_which_it_was(
    arena: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_before = quiet.places

    def end(arena: Any) -> Iterator[str]:
        """Say where all stands, and end it then."""
        yield from seen_before(arena)
        with arena.redis() as client:
            client.delete("wait_list:named", "wait_requests:named")

    monkeypatch.setattr(quiet, "places", end)

    seen = quiet.until_quiet(arena)

    assert seen.left == ()
    assert seen.late[0].startswith("by ")
    assert "wait_list:named is ['PARCEL2']" in seen.late
    assert "wait_requests:named PARCEL2 is {" in seen.late


def test_what_never_ends_is_left(arena: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "WATCHED_SECONDS", 0.1)

    seen = quiet.until_quiet(arena)

    assert seen.late == ()
    assert seen.left[:2] == ["wait_list:named is not empty", "wait_requests:named is not empty"]


def test_a_number_that_never_succeeds_is_not_waited_for_and_all_others_are(
    arena: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "WATCHED_SECONDS", 0.1)
    arena.scale = replace(SCALE, poison=True)
    poison = Put(Wish(Kind.POISON, "named", "POISON1", "one"), 0.0)
    arena.producer.log.append(poison)
    with arena.redis() as client:
        client.rpush("wait_list:named", "", "POISON1")
        client.hset("wait_inflight:named", mapping={"=POISON1": "c", "c": "{}"})
        client.zadd("calls_leases:named", {"c": 1})
    assert quiet.until_quiet(arena).left[:1] == ["wait_list:named is not empty"]

    with arena.redis() as client:
        client.lrem("wait_list:named", 0, "PARCEL2")
        client.delete("wait_requests:named")

    assert quiet.until_quiet(arena).left == ()


def test_numbers_that_mongodb_refuses_have_a_pause_for_each_attempt_that_is_left(
    arena: Any,
) -> None:
    with arena.redis() as client:
        client.hset("wait_requests:named", "PARCEL077", '{"attempts":6}')
        client.hset("wait_requests:named", "PARCEL177", "{}")

    assert quiet.refused_calls(arena) == 2 + 8


def test_a_line_that_stands_is_waited_for_as_long_as_its_pauses_last(
    arena: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "LONGEST_PROBE", 0.0)
    monkeypatch.setattr(quiet, "refused_calls", lambda _: 1)
    monkeypatch.setattr(quiet, "bound_for", lambda _: 0.5)
    with arena.redis() as client:
        client.set("calls_paused:named", "1")
        timer = threading.Timer(1.0, client.delete, ("wait_list:named", "wait_requests:named"))
        timer.start()

        seen = quiet.until_quiet(arena)
        timer.join()

    assert seen.late == ()
