"""`/v1/couriers`: what each courier needs, and who may have a number."""

from __future__ import annotations

from door_ground import USPS, Client, refused


async def test_every_courier_is_listed_with_what_it_needs(api: Client) -> None:
    listed = (await (await api.get("/v1/couriers")).json())["couriers"]

    [usps] = [each for each in listed if each["slug"] == "usps"]
    assert (usps["name"], usps["ready"], usps["numbers_per_call"]) == ("USPS", False, 35)
    assert "never run against the live site" in usps["verified"]
    assert usps["required_fields"] == []
    assert "why" not in usps
    assert len(listed) == 23


async def test_couriers_that_may_have_a_number_are_listed_the_likeliest_first(api: Client) -> None:
    found = await (await api.get("/v1/couriers", params={"number": USPS["number"]})).json()
    assert [(each["slug"], each["why"]) for each in found["couriers"]] == [
        ("usps", "form and check digit fit")
    ]
    await refused(await api.get("/v1/couriers", params={"number": "?"}), 400)
    await refused(await api.get("/v1/couriers", params=USPS), 400)
