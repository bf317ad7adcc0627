"""`limits`: a courier's limits are shown, set over config.toml and taken back."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
import redis
from command_line import Run

from tracking.errors import LimitsDown


def test_what_is_set_holds_over_the_file_until_it_is_reset(
    run: Run, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_LIMITS__SLUGS__USPS__PER_HOUR", "60")
    done = run("limits", "set", "usps", "per_second=5", "per_hour=none", "--json")
    assert done.code == 0
    (told,) = done.json
    assert told["limits"] == {
        "per_second": 5,
        "concurrent": 20,
        "per_hour": None,
        "per_day": None,
        "together": 35,
    }
    assert told["set"] == {"per_second": 5, "per_hour": None}
    assert told["known_to_workers"] is True
    assert store.get("tracking:rules") == "1"

    (told,) = run("limits", "reset", "usps", "per_hour", "--json").json
    assert (told["limits"]["per_hour"], told["set"]) == (60, {"per_second": 5})

    (told,) = run("limits", "reset", "usps", "--json").json
    assert (told["limits"]["per_second"], told["set"]) == (2, {})


def test_all_couriers_are_listed_with_a_mark_at_what_was_set(run: Run) -> None:
    run("limits", "set", "usps", "concurrent=3")

    lines = run("limits", "show").lines

    (usps,) = [line for line in lines if line.startswith("usps")]
    assert usps.split() == ["usps", "2", "3*", "none", "none", "35"]
    assert "limits reset SLUG" in lines[-1]


def test_info_goes_by_what_is_set(run: Run, store: redis.Redis) -> None:
    store.rpush("wait_list:usps", "94001")
    store.sadd("wait_slugs", "usps")
    run("limits", "set", "usps", "concurrent=3", "per_second=7")

    (line,) = [each for each in run("info", "--json").json[0]["couriers"] if each["slug"] == "usps"]

    assert (line["concurrent"], line["per_second"]) == (3, 7)


def test_doctor_tells_what_is_set(run: Run) -> None:
    run("limits", "set", "usps", "per_second=7", "together=5")

    (usps,) = [line for line in run("doctor").lines if "over config.toml" in line]

    assert usps.startswith("usps ")
    assert "7/s, 5 numbers a call, set over config.toml" in usps


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("per_second", "NAME=NUMBER"),
        ("per_second=0", "1 or more"),
        ("per_second=none", "only per_hour and per_day"),
        ("per_minute=3", "per_second, concurrent, per_hour, per_day, together"),
        ("together=36", "35 at most: usps"),
        ("together=101", "100"),
        ("together=none", "only per_hour and per_day"),
        ("concurrent=99999999", "1000000"),
        ("per_second=-1", "NAME=NUMBER"),
    ],
)
def test_a_limit_that_cannot_hold_is_refused_with_the_way_to_write_it(
    run: Run, store: redis.Redis, word: str, hint: str
) -> None:
    done = run("limits", "set", "usps", word)
    assert done.code == 2
    assert hint in done.err
    assert not store.exists("tracking:rules")


def test_a_change_that_redis_has_not_heard_of_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        broken = MagicMock(side_effect=LimitsDown("Redis is away"))
        away.setattr("limits.admin.pause.Pauses.revise", broken)
        assert run("limits", "set", "usps", "per_second=5").code != 0

    done = run("limits", "show", "usps")

    assert done.code == 1
    assert "repeat the change" in done.lines[-1]
    assert run("limits", "set", "usps", "per_second=5").code == 0


def test_changes_are_recorded_and_looks_are_not(run: Run, collections: Any) -> None:
    run("limits", "show")
    run("limits", "set", "usps", "per_second=5")
    run("limits", "reset", "usps")

    recorded = [(each["act"], each["target"]["slug"]) for each in collections.audit.find()]

    assert recorded == [("limits set", "usps"), ("limits reset", "usps")]
