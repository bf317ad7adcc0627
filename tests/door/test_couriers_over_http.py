"""`/v1/couriers`: what each courier needs, and who may have a number."""

from __future__ import annotations

import datetime as dt

from door_ground import USPS, Client, refused
from operations_ground import Database


async def test_every_courier_is_listed_with_what_it_needs_and_when_it_was_tried(
    api: Client, collections: Database
) -> None:
    at = dt.datetime(2026, 5, 4, 8, 0, tzinfo=dt.UTC)
    collections.trials.insert_one({"_id": "ups", "tried_at": at, "outcome": "Delivered"})
    listed = (await (await api.get("/v1/couriers")).json())["couriers"]

    [usps] = [each for each in listed if each["slug"] == "usps"]
    assert (usps["name"], usps["ready"], usps["numbers_per_call"]) == ("USPS", False, 35)
    assert "never run against the live site" in usps["verified"]
    assert usps["required_fields"] == []
    assert "why" not in usps
    assert (usps["tried_at"], usps["tried"]) == (None, None)
    [ups] = [each for each in listed if each["slug"] == "ups"]
    assert (ups["tried_at"], ups["tried"]) == ("2026-05-04T08:00:00Z", "Delivered")
    assert len(listed) == 23


async def test_couriers_that_may_have_a_number_are_listed_the_likeliest_first(api: Client) -> None:
    found = await (await api.get("/v1/couriers", params={"number": USPS["number"]})).json()
    assert [(each["slug"], each["why"]) for each in found["couriers"]] == [
        ("usps", "form and check digit fit")
    ]
    await refused(await api.get("/v1/couriers", params={"number": "?"}), 400)
    await refused(await api.get("/v1/couriers", params=USPS), 400)
