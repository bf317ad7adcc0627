"""What one account asks a courier with is asked for no other, and whose an answer is, is known."""

from __future__ import annotations

import time
from typing import Any

import pytest
from store_parcels import (
    JOURNEY,
    START,
    answer,
    attempt,
    call,
    delivered,
    failure,
    hours,
    scan,
    stored,
)

from service.results.account_fields import fields_for
from service.results.document import Document
from service.results.merge import merge
from service.results.trackings import Trackings
from service.upkeep.recheck import requests_of
from tracking.account import MAIN, Account
from tracking.call import Call
from tracking.request import Origin, account_of

SHOP, OTHER = Account("shop"), Account("other")
MINE, THEIRS = {"tracking_postal_code": "8000"}, {"tracking_postal_code": "1010"}


def of(*accounts: Account, after: float = 0, **more: Any) -> Call:
    return call(hours(after), **more)._replace(accounts=accounts)


def answered(old: Document | None, by: Call) -> Document:
    return merge(old, answer(by, JOURNEY)).document


def test_a_document_that_main_alone_asked_for_is_as_it_was() -> None:
    assert stored().keys() & {"accounts", "answered_with"} == set()
    assert "accounts" not in answered(stored(), of(MAIN, after=1, **MINE))


def test_what_an_account_asks_with_is_its_own() -> None:
    document = answered(None, of(MAIN, **MINE))
    document = answered(document, of(SHOP, after=1, **THEIRS))
    document = answered(document, of(OTHER, after=2))

    assert document["fields"] == MINE
    assert document["accounts"] == {"main": MINE, "shop": THEIRS, "other": {}}
    assert [fields_for(document, each) for each in (MAIN, SHOP, OTHER)] == [MINE, THEIRS, {}]
    assert fields_for(document, Account("nobody")) == {}


@pytest.mark.parametrize("write", [answer, failure])
def test_a_first_call_for_others_says_nothing_for_main(write: Any) -> None:
    args = (JOURNEY,) if write is answer else ()
    document = merge(None, write(of(SHOP, OTHER, **THEIRS), *args)).document

    assert (document["fields"], document["accounts"]) == ({}, {"shop": THEIRS, "other": THEIRS})


def test_within_an_account_the_newest_win_and_a_schedule_fills_gaps() -> None:
    document = answered(None, of(SHOP, **MINE))
    document = answered(document, of(SHOP, after=1, tracking_key="k", **THEIRS))
    scheduled = of(SHOP, after=2, origin=Origin.AUTOMATIC, tracking_state="ZH", **MINE)
    document = answered(document, scheduled)

    assert fields_for(document, SHOP) == {**THEIRS, "tracking_key": "k", "tracking_state": "ZH"}


def test_a_parcel_is_checked_again_once_for_each_set_of_fields() -> None:
    document = answered(None, of(SHOP, OTHER, **THEIRS))
    [alone] = requests_of(document, START)
    one, two = requests_of(answered(document, of(MAIN, after=1, **MINE)), START)
    [plain] = requests_of(stored(), START)

    assert (account_of(alone), dict(alone.fields)) == (OTHER, THEIRS)
    assert (account_of(one), dict(one.fields)) == (MAIN, MINE)
    assert (account_of(two), dict(two.fields)) == (OTHER, THEIRS)
    assert (account_of(plain), dict(plain.fields)) == (MAIN, {})


async def test_a_stored_answer_is_fresh_for_who_asked_and_for_who_says_the_same(
    trackings: Trackings,
) -> None:
    now_us = round(time.time() * 1_000_000)

    async def is_fresh(identity: str, **fields: str) -> bool:
        request = call(**fields).request._replace(id=identity)
        return await trackings.fresh(request, 60) is not None

    async def saved(by: Call, us: int) -> None:
        by = by._replace(granted_us=us)
        await trackings.save(by, delivered(scan("2026-02-27T08:00:00")), attempt(by))

    await saved(of(SHOP, **THEIRS), now_us - 2_000_000)
    assert await is_fresh("shop/1")
    assert await is_fresh("shop/1", **MINE)
    assert await is_fresh("other/1", **THEIRS)
    assert not await is_fresh("other/1")
    assert not await is_fresh("1")

    await saved(of(MAIN), now_us - 1_000_000)
    assert await is_fresh("1", **MINE)
    assert await is_fresh("shop/1")
    assert not await is_fresh("shop/1", **THEIRS)
