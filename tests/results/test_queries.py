"""What is asked of the collection `tracking` besides the writing."""

from __future__ import annotations

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

from service.worker.results.connection import Store
from service.worker.results.queries import (
    Search,
    due_for_check,
    due_slugs,
    find_tracking,
    put_off_checks,
    slugs_with_due,
)
from service.worker.results.recheck_policy import Pace
from service.worker.results.trackings import Trackings
from tracking.checkpoint import Tracking
from tracking.request import Number, Slug


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
        "explain",
        {"aggregate": "tracking", "pipeline": due_slugs(START + hours(12)), "cursor": {}},
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
