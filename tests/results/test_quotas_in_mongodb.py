"""Quotas of accounts as MongoDB holds them, and parcels that are followed."""

from __future__ import annotations

import pytest

from service.worker.results.account_quotas import (
    calls_of,
    count_followed,
    known_among,
    read_quotas,
)
from service.worker.results.connection import Store
from service.worker.results.limit_changes import note_change, read_rules
from tracking.request import MAIN, Account

SHOP = Account("shop")


@pytest.fixture
async def stored(store: Store) -> Store:
    await store.prepare()
    return store


async def test_quotas_are_those_of_accounts_that_are_there_and_what_is_none_is_left_out(
    stored: Store,
) -> None:
    stored.accounts.insert_many(
        [
            {"_id": "main", "calls_a_day": 7},
            {"_id": "shop", "calls_a_day": 5, "parcels": 100, "requests_a_minute": "many"},
            {"_id": "plain"},
            {"_id": "wrong", "calls_a_day": -1, "parcels": 2.5},
            {"_id": "gone", "calls_a_day": 5, "removed_at": "yesterday"},
        ]
    )

    found = read_quotas(stored.accounts)

    assert {name: each for name, each in found.items() if each} == {
        "main": {"calls_a_day": 7},
        "shop": {"calls_a_day": 5, "parcels": 100},
    }
    assert calls_of(found) == {MAIN: 7, SHOP: 5}


async def test_workers_read_calls_a_day_with_the_revision_of_the_rules(stored: Store) -> None:
    stored.accounts.insert_one({"_id": "shop", "calls_a_day": 5, "parcels": 100})
    revision = note_change(stored.limits)

    rules = read_rules(stored.limits, stored.accounts)

    assert (rules.revision, rules.quotas) == (revision, {SHOP: 5})


async def test_a_parcel_is_followed_until_it_is_delivered_or_expired(stored: Store) -> None:
    tags = ["Pending", "InTransit", "Exception", "Delivered", "Expired"]
    stored.tracking.insert_many(
        {"_id": f"usps:{tag}{end}", "tag": tag, **whose}
        for tag in tags
        for end, whose in (("@shop", {"account": "shop"}), ("", {}))
    )
    stored.tracking.insert_one({"_id": "usps:more@shop", "tag": "Pending", "account": "shop"})

    counted = [count_followed(stored.tracking, each, 10) for each in (SHOP, MAIN, Account("no"))]

    assert counted == [4, 3, 0]
    assert count_followed(stored.tracking, SHOP, 2) == 2
    names = {"usps:more@shop", "usps:Delivered@shop", "usps:none@shop"}
    assert known_among(stored.tracking, names) == names - {"usps:none@shop"}


async def test_followed_parcels_are_counted_in_an_index_alone(stored: Store) -> None:
    stored.tracking.insert_many(
        {"_id": f"usps:{n}@shop", "tag": "Pending", "account": "shop"} for n in range(50)
    )
    query = {"account": "shop", "tag": {"$in": ["Pending", "InTransit"]}}
    asked = {"count": stored.tracking.name, "query": query, "limit": 20}

    told = stored.tracking.database.command("explain", asked, verbosity="executionStats")

    assert told["executionStats"]["totalDocsExamined"] == 0
    assert told["executionStats"]["executionStages"]["nCounted"] == 20
