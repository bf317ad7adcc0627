"""`account set` and `account list` with quotas, against real servers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import redis
from command_line import Run

QUOTAS = ("calls_a_day", "parcels", "requests_a_minute")


def test_a_quota_is_set_and_taken_back_and_the_others_stay(run: Run, collections: Any) -> None:
    run("account", "add", "shop")
    for name in QUOTAS:
        done = run("account", "set", "shop", f"{name}=1000")
        assert (done.code, done.out) == (0, f"{name} of shop: 1,000\n")

    taken = run("account", "set", "shop", "parcels=none", "--json")

    assert taken.json == [{"account": "shop", "parcels": None}]
    kept = collections.accounts.find_one({"_id": "shop"})
    assert {name: kept.get(name) for name in QUOTAS} == {
        "calls_a_day": 1000,
        "parcels": None,
        "requests_a_minute": 1000,
    }
    acts = [each["target"] for each in collections.audit.find({"act": "account set"})]
    assert acts[0] == {"account": "shop", "calls_a_day": 1000}
    assert acts[-1] == {"account": "shop", "parcels": None}


def test_main_may_have_quotas_too(run: Run, collections: Any) -> None:
    assert run("account", "set", "main", "calls_a_day=5").code == 0

    assert collections.accounts.find_one({"_id": "main"})["calls_a_day"] == 5


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("calls_a_day=0", "calls_a_day=NUMBER, 1 to 1,000,000,000"),
        ("parcels=2000000000", "parcels=NUMBER"),
        ("parcels=-1", "one of inbox_keep_days=NUMBER, calls_a_day=NUMBER, parcels=NUMBER"),
        ("calls=5", "requests_a_minute=NUMBER"),
    ],
)
def test_what_is_no_quota_is_not_set(run: Run, collections: Any, setting: str, why: str) -> None:
    refused = run("account", "set", "main", setting)

    assert (refused.code, why in refused.err) == (2, True), refused.err
    assert collections.accounts.find_one({"_id": "main"}) is None


def test_of_an_account_that_is_not_there_nothing_is_set(run: Run, store: redis.Redis) -> None:
    refused = run("account", "set", "nope", "calls_a_day=5")

    assert (refused.code, "there is no account nope" in refused.err) == (2, True)
    assert not store.exists("tracking:account_quotas")


def test_calls_a_day_are_in_force_in_redis_at_once(
    run: Run, store: redis.Redis, collections: Any
) -> None:
    run("account", "add", "shop")
    run("account", "set", "shop", "calls_a_day=7")
    revision = str(collections.limits.find_one({})["revision"])

    assert store.hgetall("tracking:account_quotas") == {"!": revision, "shop": "7"}
    assert store.get("tracking:rules") == revision
    run("account", "set", "shop", "calls_a_day=none")
    assert not store.exists("tracking:account_quotas")


def test_with_another_quota_re_checks_that_waited_for_the_next_day_are_due(
    run: Run, collections: Any
) -> None:
    run("account", "add", "shop")
    tomorrow = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    tomorrow += dt.timedelta(days=1)
    for account, hours in (("shop", 0), ("shop", 1), ("other", 0)):
        due = tomorrow + dt.timedelta(hours=hours)
        parcel = {"account": account, "active": True, "next_check_at": due}
        collections.tracking.insert_one({"_id": f"usps:N{hours}@{account}", **parcel})

    run("account", "set", "shop", "calls_a_day=7")

    found = collections.tracking.find({"next_check_at": {"$lt": tomorrow}})
    assert [each["_id"] for each in found] == ["usps:N0@shop"]


def test_what_is_used_is_listed(run: Run, store: redis.Redis, collections: Any) -> None:
    run("account", "add", "shop")
    for setting in ("calls_a_day=1000", "parcels=50", "requests_a_minute=60"):
        run("account", "set", "shop", setting)
    store.hset("tracking:account_calls", mapping={"shop": 12})
    tags = ["InTransit", "Pending", "Delivered", "Expired"]
    collections.tracking.insert_many({"account": "shop", "tag": tag} for tag in tags)

    [main, shop] = run("account", "list", "--json").json
    table = run("account", "list").out

    assert main["quotas"] == dict.fromkeys(QUOTAS, {"allowed": None, "used": None} | NO_END)
    assert shop["quotas"]["parcels"] == {"allowed": 50, "used": 2} | NO_END
    assert shop["quotas"]["requests_a_minute"] == {"allowed": 60, "used": None} | NO_END
    calls = shop["quotas"]["calls_a_day"]
    assert (calls["allowed"], calls["used"]) == (1000, 12)
    assert "T00:00:00" in calls["resets_at"]
    assert "calls_a_day 12 of 1,000, parcels 2 of 50, requests_a_minute 60" in table


NO_END = {"resets_at": None}


def test_while_redis_is_away_the_accounts_are_listed_all_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("account", "set", "main", "calls_a_day=1000")
    monkeypatch.setenv("TRACKER_REDIS__URL", "redis://127.0.0.1:1/0")

    listed = run("account", "list")
    [main] = run("account", "list", "--json").json

    assert (listed.code, "calls_a_day 1,000" in listed.out) == (0, True)
    assert (main["quotas"]["calls_a_day"]["allowed"], main["quotas"]["calls_a_day"]["used"]) == (
        1000,
        None,
    )


def test_a_quota_of_which_redis_has_not_heard_is_set_again(
    run: Run, collections: Any, store: redis.Redis
) -> None:
    with pytest.MonkeyPatch.context() as away:
        away.setenv("TRACKER_REDIS__URL", "redis://127.0.0.1:1/0")
        unheard = run("account", "set", "main", "calls_a_day=5")
    kept = collections.accounts.find_one({"_id": "main"})["calls_a_day"]

    again = run("account", "set", "main", "calls_a_day=5")

    assert (unheard.code, "Redis" in unheard.err, kept, again.code) == (3, True, 5, 0)
    assert store.hget("tracking:account_quotas", "main") == "5"
