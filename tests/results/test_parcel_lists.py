"""The lists of an account's parcels: what they hold, in which order, and by which index."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pymongo
import pytest
from mongo_questions import Asked, plan_of
from store_parcels import START

from service.worker.results import parcel_filter, parcel_lists
from service.worker.results.connection import Store
from service.worker.results.database import Collections, Document, Names, indexes_for, make_indexes
from service.worker.results.document import document_id
from service.worker.results.parcel_lists import (
    Sort,
    TooMuch,
    Which,
    counted,
    every,
    listed,
)
from service.worker.results.shipments import deletion, fill_search, search_of, spoken_of
from service.worker.results.shipments import make_indexes as make_words
from tracking.checkpoint import Tag
from tracking.request import MAIN, Account

SHOP = Account("shop")
TAGS = (Tag.IN_TRANSIT, Tag.DELIVERED, Tag.EXCEPTION)
SLUGS = ("dpd", "dpd-uk", "ups")
WORDS = {
    "title": "Blue shoes",
    "order_id": "A-1007",
    "customers": [{"name": "Jane Doe", "email": "jane@example.com"}],
    "shipment_tags": ["VIP", "spring sale"],
}


def parcel(n: int, account: Account = MAIN) -> Document:
    """Of nine parcels each has its own tag and courier; all that is of one second has one time."""
    slug, tag = SLUGS[n % 3], TAGS[n // 3 % 3]
    name = f"{slug}:1Z{n:04}"
    return {
        "_id": document_id(name, account),
        **({} if account == MAIN else {"account": account}),
        "slug": slug,
        "tracking_number": name.partition(":")[2],
        "tag": tag.value,
        "active": tag is not Tag.DELIVERED,
        "created_at": START + dt.timedelta(seconds=n // 2),
        "updated_at": START + dt.timedelta(seconds=(n * 7 % 20) // 2),
        "next_check_at": START + dt.timedelta(hours=n % 5) if tag is not Tag.DELIVERED else None,
        "check_pace": f"then {n % 2}",
    }


def shipment(name: str, account: Account = MAIN, **words: Any) -> Document:
    return {
        "_id": f"{account}/{name}",
        "account": account,
        "parcel": name,
        "number": name.partition(":")[2],
        "words": words,
        "search": search_of(name.partition(":")[2], words),
        "deleted": False,
        "updated_at": START,
    }


@pytest.fixture(scope="module")
def asked() -> Asked:
    return Asked()


@pytest.fixture(scope="module")
def stores(stack: Any, asked: Asked) -> Iterator[Collections]:
    """Forty parcels of each of two accounts; of four of them the accounts say something."""
    uri = stack.mongodb.url
    with pymongo.MongoClient[Document](uri, event_listeners=[asked]) as client:
        names = Names(uri, "test_parcel_lists")
        made = Collections(client, names)
        make_indexes(made.tracking, indexes_for(names)["tracking"])
        make_words(made.shipments)
        both = (MAIN, SHOP)
        made.tracking.insert_many(parcel(n, each) for n in range(40) for each in both)
        made.shipments.insert_many(
            [
                shipment("dpd:1Z0000", **WORDS),
                shipment("dpd-uk:1Z0001", title="Blue hat", shipment_tags=["vip"]),
                shipment("ups:1Z0002", SHOP, order_number="A-1007"),
                shipment("dpd:1Z0003", order_id="a-1007") | deletion(START)["$set"],
            ]
        )
        yield made
        client.drop_database("test_parcel_lists")


def names_of(stores: Collections, which: Which, most: int = 100) -> list[str]:
    return [each["_id"] for each in listed(stores, which, most, {"_id": 1})[0]]


@pytest.mark.parametrize("sort", list(Sort))
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("account", [MAIN, SHOP])
def test_pages_of_each_order_hold_each_parcel_of_the_account_once_in_its_order(
    stores: Collections, sort: Sort, account: Account, *, few: bool, monkeypatch: Any
) -> None:
    if not few:
        monkeypatch.setattr(parcel_lists, "SOUGHT_MOST", 3)
    which, found = Which(account, sort=sort), []
    while page := listed(stores, which, 7)[0]:
        found += page
        last = page[-1]
        which = replace(which, after=(last[sort.member], last["_id"].partition("@")[0]))

    own = [parcel(n, account) for n in range(40)]
    wanted = sorted(
        ((each[sort.member], each["_id"]) for each in own if each[sort.member]),
        reverse=sort.startswith("-"),
    )
    assert [each["_id"] for each in found] == [name for _, name in wanted]
    exported = [each for some in every(stores, Which(account, sort=sort), None) for each in some]
    assert exported == found


@pytest.mark.parametrize("sort", list(Sort))
def test_a_list_holds_what_agrees_with_all_filters(stores: Collections, sort: Sort) -> None:
    since = START + dt.timedelta(seconds=4)
    filters: list[tuple[dict[str, Any], Any]] = [
        ({"tags": (Tag.EXCEPTION, Tag.DELIVERED)}, lambda each: each["tag"] != "InTransit"),
        ({"slug": "dpd"}, lambda each: each["slug"] == "dpd"),
        ({"active": True}, lambda each: each["active"]),
        ({"active": False}, lambda each: not each["active"]),
        ({"since": since}, lambda each: each["updated_at"] >= since),
    ]
    own = [parcel(n) for n in range(40) if parcel(n)[sort.member]]
    for given, agrees in filters:
        found = names_of(stores, Which(MAIN, sort=sort, **given))
        assert sorted(found) == sorted(each["_id"] for each in own if agrees(each)), given


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("1Z0000", ["dpd:1Z0000"]),
        (" 1z-0000 ", ["dpd:1Z0000"]),
        ("1z001", [f"{SLUGS[n % 3]}:1Z{n:04}" for n in range(10, 20)]),
        ("a-1007", ["dpd:1Z0000"]),
        ("A-10", ["dpd:1Z0000"]),
        ("JANE  doe", ["dpd:1Z0000"]),
        ("doe", ["dpd:1Z0000"]),
        ("jane@", ["dpd:1Z0000"]),
        ("blue", ["dpd-uk:1Z0001", "dpd:1Z0000"]),
        ("vip", ["dpd-uk:1Z0001", "dpd:1Z0000"]),
        ("1007", []),
        (".*", []),
        ("\0", []),
    ],
)
def test_a_search_finds_what_begins_so_of_number_order_customer_title_and_label(
    stores: Collections, search: str, found: list[str]
) -> None:
    assert sorted(names_of(stores, Which(MAIN, search=search))) == sorted(found)


def test_a_label_is_found_whole_and_beside_a_search(stores: Collections) -> None:
    def found(**given: str) -> list[str]:
        return sorted(names_of(stores, Which(MAIN, **given)))

    assert found(label="Vip") == ["dpd-uk:1Z0001", "dpd:1Z0000"]
    assert found(label="spring sale") == ["dpd:1Z0000"]
    assert found(label="spring") == []
    assert found(label="vip", search="blue h") == ["dpd-uk:1Z0001"]
    assert found(label="vip", slug="dpd") == ["dpd:1Z0000"]


def test_no_list_search_or_cursor_of_an_account_leads_to_what_another_has(
    stores: Collections,
) -> None:
    own = "@shop"
    for search in ("", "1Z", "a-1007", "jane"):
        found = names_of(stores, Which(SHOP, search=search))
        assert all(each.endswith(own) for each in found)
        assert not any("@" in each for each in names_of(stores, Which(MAIN, search=search)))
    assert names_of(stores, Which(SHOP, search="a-1007")) == ["ups:1Z0002@shop"]
    after = (START + dt.timedelta(seconds=99), "ups:1Z0002")
    assert all(each.endswith(own) for each in names_of(stores, Which(SHOP, after=after)))
    assert list(spoken_of(stores.shipments, SHOP, ["dpd:1Z0000"])) == []


def test_of_more_than_are_sorted_a_search_says_so_and_all_are_exported(
    stores: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcel_lists, "SOUGHT_MOST", 5)

    page, narrow = listed(stores, Which(MAIN, search="1Z"), 50)

    assert (len(page), narrow) == (5, True)
    whole = [each["_id"] for some in every(stores, Which(MAIN, search="1Z"), None) for each in some]
    assert len(whole) == len(set(whole)) == 40


def test_parcels_are_counted_by_tag_up_to_a_bound(
    stores: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {tag: count for tag, count in counted(stores.tracking, SHOP).items() if count} == {
        Tag.IN_TRANSIT: 15,
        Tag.DELIVERED: 13,
        Tag.EXCEPTION: 12,
    } or sum(counted(stores.tracking, SHOP).values()) == 40
    monkeypatch.setattr(parcel_lists, "COUNTED_MOST", 10)
    assert counted(stores.tracking, MAIN)[Tag.DELIVERED] == 10


@pytest.mark.parametrize("account", [MAIN, SHOP])
def test_each_question_is_answered_by_an_index_in_its_order(
    stores: Collections, asked: Asked, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcel_lists, "SOUGHT_MOST", 2)
    monkeypatch.setattr(parcel_lists, "LARGE", 3)
    after = (START + dt.timedelta(seconds=3), "dpd:1Z0004")
    some: list[dict[str, Any]] = [
        {},
        {"after": after},
        {"tags": (Tag.EXCEPTION,), "active": False},
        {"slug": "dpd", "since": START},
        {"tags": TAGS, "slug": "ups", "active": True, "since": START, "after": after},
    ]
    asked.looks.clear()
    for given in some:
        for sort in Sort:
            listed(stores, Which(account, sort=sort, **given), 5)
    for words in ({"search": "1Z"}, {"search": "blue", "label": "vip"}, {"label": "vip"}):
        listed(stores, Which(account, **words), 5)
    counted(stores.tracking, account)
    looks = list(asked.looks)

    assert len(looks) > 50
    for each in looks:
        plan = plan_of(stores, each)
        assert "COLLSCAN" not in plan, each
        assert "'stage': 'SORT'" not in plan, f"{each} {plan}"


def test_what_takes_too_long_is_given_up(
    stores: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcel_filter, "SECONDS", 1e-6)

    with pytest.raises(TooMuch, match="narrow it"):
        listed(stores, Which(MAIN), 5)


def test_shipments_of_a_version_before_are_found_once_they_were_filled(store: Store) -> None:
    before = shipment("dpd:1Z0000", **WORDS)
    del before["search"]
    store.shipments.insert_one(before)
    store.tracking.insert_one(parcel(0))

    assert fill_search(store.shipments) is False

    assert names_of_words(store, "jane") == ["dpd:1Z0000"]
    assert store.shipments.find_one({"search": None}) is None


def names_of_words(store: Store, search: str) -> list[str]:
    return [each["_id"] for each in listed(store, Which(MAIN, search=search), 5)[0]]


def test_what_a_shipment_is_found_by_is_bounded() -> None:
    found = search_of("1Z1", {"title": "x" * 5_000, "shipment_tags": [f"t{n}" for n in range(999)]})

    assert len(found) == 40
    assert max(map(len, found)) <= 101
