"""Whose deliveries a key may see and act on, and what is recorded of that."""

from __future__ import annotations

from pathlib import Path

from aftership_ground import Bucket
from door_ground import FixedKeys, refused
from operations_ground import acts, serving_all
from webhook_ground import store_delivery, store_service, stored

from service.http.callers import Callers
from service.operator.keys import Scope
from service.worker.deliveries.delivery import DeliveryState
from tracking.request import Account

DEAD, DELIVERED = DeliveryState.DEAD, DeliveryState.DELIVERED


async def test_another_account_s_deliveries_are_not_there(
    disk: Path, settings: dict[str, str], bucket: Bucket
) -> None:
    keys, scopes = FixedKeys(), (Scope.READ, Scope.HOOKS)
    shop = {"as-api-key": keys.make("shop", *scopes)}
    made = store_delivery(bucket, store_service(bucket), state=DEAD)
    own = store_delivery(bucket, store_service(bucket, account=Account("shop")), state=DEAD)
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        of_shop = await (await api.get("/v1/deliveries", headers=shop)).json()
        path = f"/v1/deliveries/{made.id}"
        problems = [
            await refused(await api.request(method, each, headers=shop), 404)
            for method, each in (
                ("GET", path),
                ("POST", f"{path}/resend"),
                ("POST", f"{path}/cancel"),
                ("GET", "/v1/deliveries/NEVER"),
            )
        ]
        response = await api.post("/v1/deliveries/resend", json={"all": True}, headers=shop)
        told = await response.json()

    assert [each["id"] for each in of_shop["deliveries"]] == [own.id]
    assert problems == [problems[0]] * len(problems)
    assert (told["resent"], stored(bucket, made)) == (1, made)


async def test_acts_need_hooks_and_read_and_looking_needs_read(
    disk: Path, settings: dict[str, str], bucket: Bucket
) -> None:
    keys = FixedKeys()
    made = store_delivery(bucket, store_service(bucket))
    path = f"/v1/deliveries/{made.id}"
    many = ("/v1/deliveries/resend", "/v1/deliveries/cancel")
    acting = (f"{path}/resend", f"{path}/cancel", *many)
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        for scopes in ([Scope.READ], [Scope.HOOKS], [Scope.INGEST, Scope.ADMIN]):
            key = {"as-api-key": keys.make("main", *scopes)}
            looking = 200 if Scope.READ in scopes else 403
            for each in ("/v1/deliveries", path):
                assert (await api.get(each, headers=key)).status == looking
            for each in acting:
                await refused(await api.post(each, headers=key, json={"all": True}), 403)

    assert stored(bucket, made) == made


async def test_each_act_is_recorded_with_the_key_by_which_it_was_done(
    disk: Path, settings: dict[str, str], bucket: Bucket
) -> None:
    keys = FixedKeys()
    text = keys.make("shop", Scope.READ, Scope.HOOKS)
    service = store_service(bucket, account=Account("shop"))
    one = store_delivery(bucket, service, state=DEAD)
    other = store_delivery(bucket, service, state=DELIVERED)
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        key = {"as-api-key": text}
        await api.post(f"/v1/deliveries/{one.id}/resend", headers=key)
        await api.post(f"/v1/deliveries/{other.id}/cancel", headers=key)
        meant = {"service": "orders", "state": "delivered"}
        await api.post("/v1/deliveries/resend", json=meant, headers=key)

    first, second, third = acts(bucket)
    assert first == (
        text[:15],
        "delivery resend",
        {"account": "shop", "delivery": one.id},
        {},
    )
    assert second[1] == "delivery cancel"
    assert "it has arrived" in second[3]["error"]
    target = {"account": "shop", "service": service.id, "state": "delivered"}
    assert third[1:] == ("delivery resend", target, {"done": 1, "failed": 0})
    assert {each["account"] for each in bucket.audit.find()} == {"shop"}
