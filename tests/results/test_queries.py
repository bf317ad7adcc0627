"""What is asked of the collection `tracking` besides the writing."""

from __future__ import annotations

import datetime as dt

import pytest
from store_parcels import (
    FIRST,
    NAME,
    NUMBER,
    START,
    answered,
    call,
    days,
    delivered,
    hours,
    on_its_way,
)

from service.worker.results import queries
from service.worker.results.connection import Store
from service.worker.results.database import EPOCH, Document
from service.worker.results.queries import (
    Behind,
    Search,
    are_more_due,
    call_in_checks,
    checks_behind,
    count_in_time,
    delivered_since,
    due_for_check,
    due_slugs,
    early_for_check,
    early_of,
    find_tracking,
    oldest_of,
    overdue,
    paces_of,
    put_off_checks,
    put_off_until,
    slugs_with_due,
)
from service.worker.results.recheck_policy import Pace
from service.worker.results.trackings import Trackings
from tracking.checkpoint import Tracking
from tracking.request import MAIN, Account, Number, Slug


async def test_one_parcel_is_found_by_slug_and_number(store: Store, trackings: Trackings) -> None:
    await answered(trackings, call(), on_its_way(FIRST))

    found = find_tracking(store.tracking, Slug("usps"), Number(NUMBER))

    assert found is not None
    assert found["_id"] == NAME
    assert find_tracking(store.tracking, Slug("usps"), Number("OTHER1")) is None


async def saved(trackings: Trackings, number: str, after: float, tracking: Tracking) -> None:
    await answered(trackings, call(hours(after), number), tracking)


async def test_what_is_due_of_a_courier_is_active_and_comes_the_longest_due_first(
    store: Store, trackings: Trackings
) -> None:
    await store.prepare()
    for number, after in (("LATER1", 3), ("SOONER1", 1), ("NOTYET1", 100)):
        await saved(trackings, number, after, on_its_way(FIRST))
    await saved(trackings, "DONE1", 0, delivered(FIRST))

    due = due_for_check(store.tracking, Search("usps", START + hours(12), 10))

    assert [each["tracking_number"] for each in due] == ["SOONER1", "LATER1"]
    named = {"_id", "slug", "tracking_number", "next_check_at", "check_pace", "fields"}
    assert set(due[0]) == named
    assert len(due_for_check(store.tracking, Search("usps", START + hours(12), 1))) == 1
    assert due_for_check(store.tracking, Search("ups", START + hours(12), 10)) == []
    assert are_more_due(store.tracking, Search("usps", START + hours(12), 1))
    assert not are_more_due(store.tracking, Search("usps", START + hours(12), 2))


async def test_the_couriers_with_something_due_are_found_by_leaps_through_the_index(
    store: Store, trackings: Trackings
) -> None:
    await store.prepare()
    await saved(trackings, "DUE1", 0, on_its_way(FIRST))
    for slug, due in (("ups", hours(50)), ("gls", None), ("dhl", hours(1)), ("dhl", hours(2))):
        at = due and START + due
        parcel = {"_id": f"{slug}:{due}", "slug": slug, "active": True, "next_check_at": at}
        store.tracking.insert_one(parcel)
    store.tracking.insert_one({"_id": "x", "active": True, "next_check_at": START})

    found = slugs_with_due(store.tracking, START + hours(12))

    assert sorted(map(str, found)) == ["None", "dhl", "usps"]
    plan = store.tracking.database.command(
        "explain", {"aggregate": "tracking", "pipeline": due_slugs(START + hours(12)), "cursor": {}}
    )
    assert "DISTINCT_SCAN" in str(plan)
    assert "FETCH" not in str(plan)


async def test_checks_are_put_off_only_if_nobody_has_planned_others(
    store: Store, trackings: Trackings
) -> None:
    for number in ("DUE1", "DUE2"):
        await saved(trackings, number, 0, on_its_way(FIRST))
    put = Pace(first=False, seconds=3_600, put=True)
    dates = {each["_id"]: each["next_check_at"] for each in store.tracking.find()}

    put_off_checks(store.tracking, {"usps:DUE1": dates["usps:DUE1"]}, put, START + days(2))
    put_off_checks(store.tracking, dates, put, START + days(3))

    found = [find_tracking(store.tracking, Slug("usps"), Number(name)) for name in ("DUE1", "DUE2")]
    assert [each and each["next_check_at"] for each in found] == [START + days(2), START + days(3)]
    assert {each and each["check_pace"] for each in found} == {"then 3600 put"}


PACES = ("first 2560", "then 14336", "then 81920", "then 3600 put", None)


def many(count: int) -> list[Document]:
    """Parcels of a courier, of all paces in turn, one due each second."""
    return [
        {
            "_id": f"usps:N{n:06}",
            "slug": "usps",
            "tracking_number": f"N{n:06}",
            "active": True,
            "next_check_at": START + dt.timedelta(seconds=n),
            "check_pace": PACES[n % len(PACES)],
        }
        for n in range(count)
    ]


def explained(store: Store, command: Document) -> Document:
    told: Document = store.tracking.database.command(
        {"explain": command, "verbosity": "executionStats"}
    )
    return told


async def test_of_many_that_are_due_hardly_more_are_read_than_are_wanted(store: Store) -> None:
    await store.prepare()
    store.tracking.insert_many(many(2_000))
    now = START + hours(1)

    found = due_for_check(store.tracking, Search("usps", now, 20, turn=0))

    assert {each["check_pace"] for each in found[:3]} == {"first 2560"}
    assert found[3]["check_pace"] == "then 3600 put"
    lates = [now - each["next_check_at"] for each in found if each["check_pace"] == "first 2560"]
    assert lates == sorted(lates, reverse=True)
    due = {"active": True, "slug": "usps", "next_check_at": {"$gt": EPOCH, "$lte": now}}
    told = explained(store, {"aggregate": "tracking", "pipeline": paces_of(due), "cursor": {}})
    assert "DISTINCT_SCAN" in str(told)
    one = {"find": "tracking", "filter": due | {"check_pace": {"$eq": "then 14336"}}}
    told = explained(store, one | {"sort": {"next_check_at": 1}, "limit": 20})["executionStats"]
    assert (told["totalKeysExamined"], told["totalDocsExamined"]) == (20, 20)


async def test_what_fills_a_call_is_due_within_a_tenth_of_its_time_and_found_by_the_index(
    store: Store,
) -> None:
    await store.prepare()
    store.tracking.insert_many(many(20_000))
    store.tracking.update_one({"_id": "usps:N000006"}, {"$set": {"asked_alone": True}})
    search = Search("usps", START, 50)

    found = early_for_check(store.tracking, search)

    assert [each["_id"][-1] for each in found[:4]] == ["1", "2", "5", "7"]
    assert len(found) == 50
    assert {each["check_pace"] for each in found} == set(PACES[:3])
    late = max(
        each["next_check_at"]
        for each in early_for_check(store.tracking, search._replace(most=9_999))
    )
    assert START + hours(2.2) < late <= START + dt.timedelta(seconds=8_192)
    asked = {"find": "tracking", "filter": early_of(store.tracking, search), "limit": 50}
    told = explained(store, asked | {"sort": {"next_check_at": 1}})
    assert "SORT_MERGE" in str(told["queryPlanner"]["winningPlan"])
    assert told["executionStats"]["totalDocsExamined"] <= 60
    assert early_for_check(store.tracking, Search("ups", START, 50)) == []


async def test_how_far_checks_are_behind_is_counted_out_of_the_index_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.prepare()
    store.tracking.insert_many([*many(100), {"_id": 7, "active": True, "next_check_at": START}])
    now = START + dt.timedelta(seconds=49.5)

    assert checks_behind(store.tracking, now) == {"usps": Behind(50, 49.5)}
    assert checks_behind(store.tracking, START - hours(1)) == {}
    monkeypatch.setattr(queries, "COUNTED_MOST", 20)
    assert checks_behind(store.tracking, now) == {"usps": Behind(20, 49.5)}
    due = {"active": True, "slug": "usps", "next_check_at": {"$gt": EPOCH, "$lte": now}}
    asked = {"aggregate": "tracking", "pipeline": oldest_of(due), "cursor": {}}
    told = str(explained(store, asked))
    assert "DISTINCT_SCAN" in told
    assert "'totalDocsExamined': 0" in told


@pytest.mark.parametrize("account", [MAIN, Account("shop")])
async def test_what_was_delivered_today_and_what_is_overdue_is_counted_by_indexes(
    store: Store, account: Account
) -> None:
    await store.prepare()
    before, today, own = START - hours(30), START - hours(2), {"updated_at": START}
    own |= {} if account == MAIN else {"account": account}
    done, waits = {"tag": "Delivered", "active": False}, {"tag": "InTransit", "active": True}
    kept: list[Document] = [
        done | {"delivered_at_utc": before},
        done | {"delivered_at_utc": today},
        done | {"delivered_at_utc": None},
        done | {"delivered_at_utc": today, "account": "other"},
        done | {"delivered_at_utc": None, "updated_at": before},
        waits | {"expected_delivery": f"{before:%Y-%m-%d}T18:00:00+08:00"},
        waits | {"expected_delivery": f"{START:%Y-%m-%d}"},
        waits | {"expected_delivery": "as soon as can be"},
        waits | {"expected_delivery": None},
        waits | {"expected_delivery": f"{before:%Y-%m-%d}", "active": False},
        waits | {"expected_delivery": f"{before:%Y-%m-%d}", "account": "other"},
    ]
    store.tracking.insert_many([{**own, "_id": f"n{n}", **each} for n, each in enumerate(kept)])

    asked = delivered_since(account, today), overdue(account, START)

    assert [count_in_time(store.tracking, each) for each in asked] == [2, 1]
    assert count_in_time(store.tracking, asked[0], most=1) == 1
    for each in asked:
        plan = explained(store, {"find": "tracking", "filter": each})
        assert "COLLSCAN" not in str(plan)
        assert plan["executionStats"]["totalDocsExamined"] <= 3


@pytest.mark.parametrize("account", [MAIN, Account("shop")])
async def test_checks_that_were_put_off_until_an_instant_are_called_in_by_an_index(
    store: Store, account: Account
) -> None:
    await store.prepare()
    until, own = START + hours(9), {} if account == MAIN else {"account": account}
    store.tracking.insert_many(many(1_000))
    kept = many(4)
    for index, each in enumerate(kept):
        due = {"next_check_at": until} if index else {}
        whose = {"account": "other"} if index == 1 else own
        each |= {"_id": f"kept{index}", "tracking_number": f"K{index}", **whose, **due}
    store.tracking.insert_many(kept)

    asked = {"find": "tracking", "filter": put_off_until(account, until)}
    told = explained(store, asked)["executionStats"]
    call_in_checks(store.tracking, account, until, START)

    assert (told["totalKeysExamined"] < 20, told["totalDocsExamined"]) == (True, 3)
    called = store.tracking.find({"_id": {"$in": ["kept2", "kept3"]}}).distinct("next_check_at")
    assert called == [START]
    assert store.tracking.count_documents({"next_check_at": until}) == 1


async def test_a_count_that_takes_too_long_is_none(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "COUNT_SECONDS", 1e-6)

    assert count_in_time(store.tracking, overdue(MAIN, START)) is None
