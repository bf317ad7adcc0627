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
    THIRD,
    answer,
    attempt,
    call,
    delivered,
    failure,
    hours,
    on_its_way,
    stored,
    times,
)

from service.results.connection import Store
from service.results.document import Document, tracking_in
from service.results.forgetting import Parcel, clear
from service.results.merge import merge
from service.results.queries import find_tracking
from service.results.trackings import Trackings
from tracking.account import MAIN, Account
from tracking.call import Call, Lent, Verdict
from tracking.checkpoint import Tracking
from tracking.errors import CourierDown
from tracking.request import Origin

SHOP, OTHER = Account("shop"), Account("other")
MINE, THEIRS = {"tracking_postal_code": "8000"}, {"tracking_postal_code": "1010"}
PLAIN: dict[str, str] = {}
SIGNED = on_its_way(FIRST, SECOND, signed_by="J. Doe", proof_of_delivery="https://example.com/1")


def of(*accounts: Account, after: float = 0, **more: Any) -> Call:
    return call(hours(after), **more)._replace(accounts=accounts)


async def answered(trackings: Trackings, by: Call, tracking: Tracking = JOURNEY) -> None:
    await trackings.save(by, tracking, attempt(by))


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


async def test_an_answer_for_several_is_stored_for_each_and_a_failure_noted_for_each(
    trackings: Trackings, store: Store
) -> None:
    await answered(trackings, of(MAIN, SHOP, **MINE), SIGNED)
    later = of(MAIN, SHOP, after=1, **MINE)
    await trackings.fail(later, CourierDown("502"), attempt(later, "courier_down"), final=True)

    for account in (MAIN, SHOP):
        document = document_of(store, account)
        assert (document["signed_by"], document["error"]["code"]) == ("J. Doe", "courier_down")
    assert document_of(store, MAIN)["next_check_at"] == document_of(store, SHOP)["next_check_at"]


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


def test_an_answer_is_read_back_as_it_was_stored() -> None:
    told = delivered(FIRST, THIRD, weight_grams=250, sub_parcels=("A", "B"), signed_by="J. Doe")

    assert tracking_in(stored(told)) == told


async def borrowed(trackings: Trackings, by: Call, fields: dict[str, str]) -> Verdict | None:
    request = call(**fields).request._replace(id="other/1")
    return await trackings.borrow(request, Lent(by.accounts[0], by.granted_us // 1000))


@pytest.mark.parametrize("fields", [PLAIN, MINE])
@pytest.mark.parametrize("lender", [MAIN, SHOP])
async def test_a_lent_answer_is_stored_for_who_asked_alike(
    trackings: Trackings, store: Store, lender: Account, fields: dict[str, str]
) -> None:
    by = of(lender, **fields)
    await answered(trackings, by, SIGNED)

    verdict = await borrowed(trackings, by, fields)

    assert verdict is not None
    assert (verdict.output["checkpoints"], verdict.observed_ms) == (2, by.granted_us // 1000)
    own, lent = document_of(store, OTHER), document_of(store, lender)
    differing = {"_id", "account", "revision"}
    assert {name: own[name] for name in own.keys() - differing} == {
        name: lent[name] for name in lent.keys() - differing
    }


async def test_an_answer_that_is_joined_with_what_other_fields_brought_is_lent_to_nobody(
    trackings: Trackings, store: Store
) -> None:
    await answered(trackings, of(SHOP, **MINE), SIGNED)
    newest = of(SHOP, after=1, **THEIRS)
    await answered(trackings, newest)

    assert document_of(store, SHOP)["signed_by"] == "J. Doe"
    assert await borrowed(trackings, newest, THEIRS) is None
    assert document_of(store, OTHER) == {}


async def test_plain_answers_that_are_joined_are_lent_with_what_was_known_before(
    trackings: Trackings, store: Store
) -> None:
    await answered(trackings, of(MAIN))
    newest = of(MAIN, after=1)
    await answered(trackings, newest, on_its_way(THIRD))

    assert await borrowed(trackings, newest, PLAIN) is not None
    assert times(document_of(store, OTHER)) == [
        each.checkpoint_time for each in (FIRST, SECOND, THIRD)
    ]


async def test_an_answer_that_is_not_there_any_more_is_not_lent(
    trackings: Trackings, store: Store
) -> None:
    by = of(SHOP)
    await answered(trackings, by)
    await answered(trackings, of(SHOP, after=1))

    assert await borrowed(trackings, by, PLAIN) is None
    assert document_of(store, OTHER) == {}


async def test_a_parcel_is_forgotten_for_all_accounts(trackings: Trackings, store: Store) -> None:
    for account in (MAIN, SHOP):
        await answered(trackings, of(account))
    other = call(number=f"{NUMBER}1")._replace(accounts=(SHOP,))
    await answered(trackings, other)
    forgotten = Parcel("usps", NUMBER, of(MAIN, after=1).granted_us)

    found = clear(store.tracking, store.past, store.unreadable, store.operations, forgotten)

    assert found["tracking"] == 2
    assert [each["_id"] for each in store.tracking.find()] == [f"{NAME}1@shop"]


async def test_a_recheck_that_ends_for_an_account_goes_on_for_the_others(
    trackings: Trackings, store: Store
) -> None:
    await answered(trackings, of(MAIN, SHOP))

    await trackings.end_checks(call().request._replace(id="shop/recheck-1"))

    assert document_of(store, SHOP)["next_check_at"] is None
    assert document_of(store, MAIN)["next_check_at"] is not None
