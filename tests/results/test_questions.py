"""What is asked of the collection `tracking` besides the writing."""

from __future__ import annotations

from typing import Any

from store_parcels import NAME, NUMBER, START, attempt, call, days, delivered, hours, on_its_way
from store_parcels import scan as scanned

from service.results.connection import Store
from service.results.queries import due_for_check, find_tracking, put_off_check
from service.results.trackings import Trackings
from tracking.request import Number, Slug

FIRST = scanned("2026-02-27T08:00:00")


async def test_one_parcel_is_found_by_slug_and_number(store: Store, trackings: Trackings) -> None:
    of = call()
    await trackings.save(of, on_its_way(FIRST), attempt(of))

    found = find_tracking(store.tracking, Slug("usps"), Number(NUMBER))

    assert found is not None
    assert found["_id"] == NAME
    assert find_tracking(store.tracking, Slug("usps"), Number("OTHER1")) is None


async def test_what_is_due_is_active_and_comes_the_longest_due_first(
    store: Store, trackings: Trackings
) -> None:
    await store.prepare()
    for number, after in (("LATER1", 3), ("SOONER1", 1), ("NOTYET1", 100)):
        of = call(hours(after), number)
        await trackings.save(of, on_its_way(FIRST), attempt(of))
    done = call(number="DONE1")
    await trackings.save(done, delivered(FIRST), attempt(done))

    due = due_for_check(store.tracking, START + hours(12), 10)

    assert [each["tracking_number"] for each in due] == ["SOONER1", "LATER1"]
    assert set(due[0]) == {"_id", "slug", "tracking_number", "next_check_at"}
    assert len(due_for_check(store.tracking, START + hours(12), 1)) == 1


async def test_a_check_is_put_off_only_if_nobody_has_planned_another(
    store: Store, trackings: Trackings
) -> None:
    of = call()
    await trackings.save(of, on_its_way(FIRST), attempt(of))
    (due,) = due_for_check(store.tracking, START + days(1), 1)

    put_off_check(store.tracking, NAME, due["next_check_at"], START + days(2))
    put_off_check(store.tracking, NAME, due["next_check_at"], START + days(3))

    found = find_tracking(store.tracking, Slug("usps"), Number(NUMBER))
    assert found is not None
    assert found["next_check_at"] == START + days(2)


async def test_preparing_twice_changes_nothing(store: Store) -> None:
    def indexes() -> dict[str, Any]:
        collections = (store.tracking, store.past, store.dead)
        return {each.name: each.index_information() for each in collections}

    await store.prepare()
    before = indexes()
    await store.prepare()

    assert indexes() == before
    assert before["tracking"]["next_check_at_1"]["partialFilterExpression"] == {"active": True}
