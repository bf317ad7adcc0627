"""Each account has a document of its own of a parcel: no other reads what its fields brought."""

from __future__ import annotations

import time
from typing import Any

import pytest
from store_parcels import (
    FIRST,
    JOURNEY,
    NAME,
    NUMBER,
    SECOND,
    answer,
    answered,
    call,
    delivered,
    failure,
    hours,
    on_its_way,
    stored,
)

from service.worker.results.connection import Store
from service.worker.results.database import Document
from service.worker.results.forgetting import Parcel, clear
from service.worker.results.merge import merge
from service.worker.results.queries import find_tracking, followed_by_several
from service.worker.results.trackings import Trackings
from tracking.call import Call
from tracking.checkpoint import Tracking
from tracking.request import MAIN, Account, Origin

SHOP, OTHER = Account("shop"), Account("other")
MINE, THEIRS = {"tracking_postal_code": "8000"}, {"tracking_postal_code": "1010"}
PLAIN: dict[str, str] = {}
SIGNED = on_its_way(FIRST, SECOND, signed_by="J. Doe", proof_of_delivery="https://example.com/1")


def of(account: Account, after: float = 0, **more: Any) -> Call:
    return call(hours(after), **more)._replace(account=account)


def document_of(store: Store, account: Account) -> Document:
    request = call().request
    return find_tracking(store.tracking, request.slug, request.number, account) or {}


async def test_what_an_account_unlocked_stands_in_its_own_document_alone(
    trackings: Trackings, store: Store
) -> None:
    await answered(trackings, of(SHOP, **MINE), SIGNED)
    await answered(trackings, of(OTHER, after=1, **THEIRS))
    await answered(trackings, of(MAIN, after=2))

    names = (NAME, f"{NAME}@other", f"{NAME}@shop")
    assert [each["_id"] for each in store.tracking.find(sort=["_id"])] == list(names)
    shop, other, main = (document_of(store, each) for each in (SHOP, OTHER, MAIN))
    assert (shop["account"], other["account"]) == (SHOP, OTHER)
    assert (shop["fields"], other["fields"], main["fields"]) == (MINE, THEIRS, {})
    assert (shop["signed_by"], other["signed_by"], main["signed_by"]) == ("J. Doe", None, None)
    assert {each["tracking_number"] for each in (shop, other, main)} == {NUMBER}


async def test_what_main_unlocked_is_read_by_main_alone(trackings: Trackings, store: Store) -> None:
    await answered(trackings, of(MAIN, **MINE), SIGNED)
    await answered(trackings, of(SHOP, after=1))

    assert document_of(store, MAIN)["signed_by"] == "J. Doe"
    assert document_of(store, SHOP)["signed_by"] is None
    assert document_of(store, OTHER) == {}


def test_the_document_of_main_is_as_it_was_before_there_were_accounts() -> None:
    assert stored()["_id"] == NAME
    assert "account" not in merge(stored(), answer(of(MAIN, after=1, **MINE), JOURNEY)).document


@pytest.mark.parametrize("write", [answer, failure])
def test_a_first_call_for_others_says_nothing_for_main(write: Any) -> None:
    args = (JOURNEY,) if write is answer else ()
    document = merge(None, write(of(SHOP, **THEIRS), *args)).document

    assert (document["_id"], document["account"], document["fields"]) == (
        f"{NAME}@shop", SHOP, THEIRS
    )  # fmt: skip


def test_a_number_that_is_used_again_leaves_the_old_parcel_to_its_account() -> None:
    old = merge(None, answer(of(SHOP, **MINE), delivered(FIRST))).document
    again = Tracking(JOURNEY.tag, JOURNEY.subtag, (FIRST._replace(checkpoint_time="2027-01-01"),))

    [past] = merge(old, answer(of(SHOP, after=9_000), again)).past

    first = FIRST.checkpoint_time
    assert (past["_id"], past["account"]) == (f"{NAME}@shop:{first}", SHOP)


def test_within_an_account_the_newest_win_and_a_schedule_fills_gaps() -> None:
    document = merge(None, answer(of(SHOP, **MINE), JOURNEY)).document
    document = merge(document, answer(of(SHOP, after=1, tracking_key="k", **THEIRS), JOURNEY))[0]
    scheduled = of(SHOP, after=2, origin=Origin.AUTOMATIC, tracking_state="ZH", **MINE)
    document = merge(document, answer(scheduled, JOURNEY)).document

    assert document["fields"] == {**THEIRS, "tracking_key": "k", "tracking_state": "ZH"}


async def test_a_stored_answer_is_fresh_for_whose_document_it_stands_in(
    trackings: Trackings,
) -> None:
    by = of(SHOP, **THEIRS)._replace(granted_us=round(time.time() * 1_000_000))
    await answered(trackings, by)

    fresh = [
        await trackings.fresh(call(**fields).request._replace(id=identity), 60) is not None
        for identity, fields in (
            ("shop/1", THEIRS),
            ("shop/1", MINE),
            ("other/1", THEIRS),
            ("1", THEIRS),
        )
    ]

    assert fresh == [True, False, False, False]


async def test_a_parcel_is_forgotten_for_all_accounts(trackings: Trackings, store: Store) -> None:
    for account in (MAIN, SHOP):
        await answered(trackings, of(account))
    other = call(number=f"{NUMBER}1")._replace(account=SHOP)
    await answered(trackings, other)
    forgotten = Parcel("usps", NUMBER, of(MAIN, after=1).granted_us)

    found = clear(store, forgotten)

    assert found["tracking"] == 2
    assert [each["_id"] for each in store.tracking.find()] == [f"{NAME}1@shop"]


async def test_a_recheck_that_ends_for_an_account_goes_on_for_the_others(
    trackings: Trackings, store: Store
) -> None:
    for account in (MAIN, SHOP):
        await answered(trackings, of(account))

    await trackings.end_checks(call().request._replace(id="shop/recheck-1"))

    assert document_of(store, SHOP)["next_check_at"] is None
    assert document_of(store, MAIN)["next_check_at"] is not None


async def test_a_parcel_that_several_accounts_follow_is_counted_once(
    trackings: Trackings, store: Store
) -> None:
    for account in (MAIN, SHOP, OTHER):
        await answered(trackings, of(account))
    await answered(trackings, call(number=f"{NUMBER}1")._replace(account=SHOP))
    await answered(trackings, call(number=f"{NUMBER}2"))

    assert followed_by_several(store.tracking) == 1
