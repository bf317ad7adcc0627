"""Services of accounts (service/operator/services.py), on a real MongoDB and Redis."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import time
from typing import Any

import pytest
from redis.asyncio import Redis
from services_ground import KEYS, NOW, SHOP, TO, WHO, lower, make

from service.config.schema import Allowed, Config
from service.operator import accounts, suspension
from service.operator.connections import Collections
from service.operator.services import (
    BadWish,
    NoKeys,
    ServiceConflict,
    Services,
    UnknownService,
    seal_again,
)
from service.worker.deliveries.delivery import Delivery, delivery_in
from service.worker.deliveries.delivery import document_of as delivery_document
from service.worker.deliveries.keeper import out_of_step
from service.worker.deliveries.secret_box import SecretBox, new_key
from service.worker.deliveries.service import Format, ServiceState
from service.worker.results.change import EventName
from service.worker.results.queries import suspended_accounts
from tracking.errors import NotDone
from tracking.request import MAIN


def test_a_secret_is_shown_once_and_kept_encrypted(ours: Services, stores: Collections) -> None:
    made = make(ours)

    [kept] = stores.services.find()
    assert made.secret is not None
    assert made.secret.startswith("whsec_")
    assert len(base64.b64decode(made.secret.removeprefix("whsec_"))) == 32
    assert made.secret not in json.dumps(kept, default=str)
    assert SecretBox.of(KEYS).opened(kept["secrets"][0]["text"], kept["_id"]) == made.secret


def test_a_service_has_what_was_wished_and_else_what_is_set(
    config: Config, stores: Collections
) -> None:
    ours = Services(lower(config, per_second=3, attempts=4, timeout_seconds=9.0), stores)

    made = make(
        ours,
        events=["parcel.delivered"],
        slugs=["usps", "hkpost"],
        tags=["Delivered"],
        headers={"Authorization": "Bearer x"},
        format="aftership",
        concurrent=2,
        ordered=True,
    ).service

    assert made == ours.named(MAIN, "erp")
    assert (made.concurrent, made.per_second, made.attempts) == (2, 3, 4)
    assert (made.timeout_seconds, made.ordered, made.format) == (9.0, True, Format.AFTERSHIP)
    assert made.wanted.events == {EventName.PARCEL_DELIVERED}
    assert made.wanted.slugs == {"usps", "hong-kong-post"}
    assert made.headers == {"Authorization": "Bearer x"}
    assert made.state is ServiceState.ACTIVE


@pytest.mark.parametrize(
    ("wish", "value", "says"),
    [
        ("destination", "http://hooks.example/", "https://"),
        ("destination", "https://10.0.0.1/", "host's name"),
        ("destination", 5, "as text"),
        ("events", ["parcel.lost"], "parcel.changed"),
        ("events", "parcel.changed", "list"),
        ("slugs", ["no-such-courier"], "royal-mail"),
        ("tags", ["delivered"], "Delivered"),
        ("headers", {"webhook-id": "1"}, "webhook-id"),
        ("headers", {"X": 1}, "text"),
        ("format", "svix", "standard or aftership"),
        ("concurrent", 0, "from 1 up to"),
        ("per_second", True, "from 1 up to"),
        ("attempts", 51, "up to 50"),
        ("timeout_seconds", 15.5, "up to 15"),
        ("ordered", "yes", "true or false"),
        ("state", "disabled", "active or paused"),
        ("secret", "whsec_x", "no such setting"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused_by_its_name_and_nothing_is_made(
    ours: Services, stores: Collections, wish: str, value: object, says: str
) -> None:
    with pytest.raises(BadWish) as caught:
        make(ours, **{wish: value})

    assert caught.value.parameter == wish
    assert says in str(caught.value)
    assert stores.services.count_documents({}) == 0


@pytest.mark.parametrize("name", ["", "ERP", "a-b", "a" * 21])
def test_a_name_is_1_to_20_of_a_to_z_and_digits(ours: Services, name: str) -> None:
    with pytest.raises(BadWish, match="1 to 20"):
        make(ours, name)


def test_an_operator_may_allow_an_account_a_private_network(
    config: Config, stores: Collections
) -> None:
    allowed = {"main": Allowed(networks=("10.0.0.0/8",), http=True, ports=(8080,))}
    ours = Services(lower(config, allowed=allowed), stores)

    made = make(ours, destination="http://10.0.0.1:8080/")

    assert made.service.destination == "http://10.0.0.1:8080/"
    with pytest.raises(NotDone, match="no account shop"):
        ours.make(WHO, SHOP, "erp", {"destination": "http://10.0.0.1:8080/"})
    accounts.add_account(stores, SHOP)
    with pytest.raises(BadWish, match="https://"):
        ours.make(WHO, SHOP, "erp", {"destination": "http://10.0.0.1:8080/"})


def test_without_keys_services_are_listed_but_none_is_made_and_it_says_how_to(
    config: Config, stores: Collections, ours: Services
) -> None:
    make(ours)
    keyless = Services(lower(config, keys=""), stores)

    with pytest.raises(NoKeys, match=r"service key.*TRACKER_WEBHOOKS__KEYS"):
        make(keyless, "crm")

    assert [each.name for each in keyless.of(MAIN)] == ["erp"]


def test_a_name_is_taken_until_its_service_is_deleted(ours: Services, stores: Collections) -> None:
    first = make(ours).service
    with pytest.raises(ServiceConflict, match="already"):
        make(ours)

    ours.delete(WHO, MAIN, "erp")
    second = make(ours).service

    assert first.id != second.id
    assert stores.services.find_one({"_id": first.id})["state"] == "deleted"  # type: ignore[index]


def test_a_change_leaves_what_it_does_not_name(ours: Services, stores: Collections) -> None:
    make(ours, headers={"X": "1"}, events=["parcel.delivered"])
    stores.services.update_one({"name": "erp"}, {"$set": {"health": {"failing": 3}}})
    before = ours.named(MAIN, "erp")

    ours.change(WHO, MAIN, "erp", {"attempts": 2})

    after = ours.named(MAIN, "erp")
    assert after.attempts == 2
    assert (after.headers, after.wanted, after.secrets) == (
        before.headers,
        before.wanted,
        before.secrets,
    )
    assert stores.services.find_one({"name": "erp"})["health"] == {"failing": 3}  # type: ignore[index]


async def test_a_service_that_is_made_active_goes_on_whatever_stopped_it(
    ours: Services, stores: Collections, redis: Redis
) -> None:
    line = (await asyncio.to_thread(make, ours)).service.line
    off = {"state": "disabled", "disabled_at": NOW, "disabled_why": "gone"}
    stores.services.update_one({"name": "erp"}, {"$set": off})
    seconds, _ = await redis.time()
    await redis.set(f"calls_brake:{line}", "{}")
    await redis.set(f"calls_paused:{line}", str((seconds + 900) * 1_000_000), px=900_000)

    done = await asyncio.to_thread(ours.change, WHO, MAIN, "erp", {"state": "active"})

    kept = stores.services.find_one({"name": "erp"}) or {}
    assert done.service.state is ServiceState.ACTIVE
    assert (kept["disabled_at"], kept["disabled_why"]) == (None, "")
    assert await redis.exists(f"calls_paused:{line}") == 0


def test_a_paused_service_stays_and_goes_on(ours: Services) -> None:
    make(ours)

    paused = ours.change(WHO, MAIN, "erp", {"state": "paused"}).service.state
    active = ours.change(WHO, MAIN, "erp", {"state": "active"}).service.state

    assert (paused, active) == (ServiceState.PAUSED, ServiceState.ACTIVE)


@pytest.mark.parametrize("state", ["paused", "disabled"])
def test_what_joined_is_looked_for_though_no_keeper_saw_that_a_service_held(
    state: str, ours: Services, stores: Collections
) -> None:
    service = make(ours).service
    stores.services.update_one({"_id": service.id}, {"$set": {"state": state}})

    ours.change(WHO, MAIN, "erp", {"state": "active"})

    assert [each["_id"] for each in out_of_step(stores.services)] == [service.id]


def test_who_has_an_active_service_go_on_does_not_end_its_failing(
    ours: Services, stores: Collections
) -> None:
    make(ours)

    ours.change(WHO, MAIN, "erp", {"state": "active"})

    assert out_of_step(stores.services) == []


def test_a_new_secret_signs_beside_the_one_before_for_a_day(ours: Services) -> None:
    made = make(ours)

    rotated = ours.rotate(WHO, MAIN, "erp")

    box, now = SecretBox.of(KEYS), dt.datetime.now(dt.UTC)
    in_a_day = now + dt.timedelta(hours=23, minutes=59)
    live = [box.opened(each, made.service.id) for each in rotated.service.live_secrets(in_a_day)]
    assert live == [rotated.secret, made.secret]
    later = rotated.service.live_secrets(now + dt.timedelta(hours=24, seconds=1))
    assert [box.opened(each, made.service.id) for each in later] == [rotated.secret]


def test_rotated_again_the_first_one_ends_no_later(ours: Services) -> None:
    make(ours)
    first = ours.rotate(WHO, MAIN, "erp", 60.0).service.secrets[1]

    again = ours.rotate(WHO, MAIN, "erp").service.secrets

    assert len(again) == 3
    assert again[2] == first


def test_more_secrets_than_receivers_compare_are_not_made(ours: Services) -> None:
    make(ours)
    for _ in range(4):
        ours.rotate(WHO, MAIN, "erp")

    with pytest.raises(ServiceConflict, match="wait until"):
        ours.rotate(WHO, MAIN, "erp")


def test_a_deleted_service_leaves_neither_secrets_nor_open_deliveries(
    ours: Services, stores: Collections
) -> None:
    service = make(ours, headers={"Authorization": "Bearer x"}).service
    for number, state in enumerate(["open", "held", "delivered"]):
        each = Delivery(str(number), service.id, MAIN, "e", EventName.PARCEL_CHANGED, NOW, NOW)
        stores.deliveries.insert_one({**delivery_document(each), "state": state})

    ours.delete(WHO, MAIN, "erp")

    [kept] = stores.services.find()
    assert (kept["state"], kept["secrets"], kept["headers"]) == ("deleted", [], {})
    ended = [(each["state"], each["why"]) for each in stores.deliveries.find().sort("_id")]
    assert ended == [("cancelled", "service_deleted")] * 2 + [("delivered", "")]
    with pytest.raises(UnknownService):
        ours.named(MAIN, "erp")
    with pytest.raises(UnknownService):
        ours.delete(WHO, MAIN, "erp")


def test_an_accounts_services_end_with_it(ours: Services, stores: Collections) -> None:
    accounts.add_account(stores, SHOP)
    for account, name in ((SHOP, "a"), (SHOP, "b"), (MAIN, "a")):
        ours.make(WHO, account, name, TO)

    assert ours.end(WHO, SHOP) == 2

    assert ours.of(SHOP) == []
    assert len(ours.of(MAIN)) == 1


def test_an_accounts_services_pause_and_go_on_with_it_but_those_that_were_not_active(
    ours: Services, stores: Collections
) -> None:
    accounts.add_account(stores, SHOP)
    for name in "abc":
        ours.make(WHO, SHOP, name, TO)
    ours.change(WHO, SHOP, "b", {"state": "paused"})

    paused = suspension.suspend(ours, WHO, SHOP, "unpaid"), suspension.suspend(ours, WHO, SHOP, "!")
    suspended = [each.state.value for each in ours.of(SHOP)], suspended_accounts(stores.accounts)
    going = suspension.resume(ours, WHO, SHOP)

    assert (paused, going) == ((2, 0), 2)
    assert suspended == (["paused"] * 3, {SHOP: "!"})
    assert [each.state.value for each in ours.of(SHOP)] == ["active", "paused", "active"]
    assert suspended_accounts(stores.accounts) == {}
    with pytest.raises(NotDone, match="is not suspended"):
        suspension.resume(ours, WHO, SHOP)
    with pytest.raises(NotDone, match="never suspended"):
        suspension.suspend(ours, WHO, MAIN, "")


def test_a_service_made_while_its_account_is_removed_is_deleted_again(
    ours: Services, stores: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts.add_account(stores, SHOP)
    insert = ours._insert  # noqa: SLF001 - between its two looks

    def and_meanwhile(*told: Any) -> None:
        insert(*told)
        accounts.remove_account(stores, SHOP)

    monkeypatch.setattr(ours, "_insert", and_meanwhile)

    with pytest.raises(NotDone):
        ours.make(WHO, SHOP, "erp", TO)

    assert [each["state"] for each in stores.services.find()] == ["deleted"]


def test_a_test_is_an_event_that_says_so_and_a_delivery_of_it(
    ours: Services, stores: Collections
) -> None:
    service = make(ours).service

    made = ours.test(WHO, MAIN, "erp")

    [kept], [event] = stores.deliveries.find(), stores.events.find()
    assert delivery_in(kept) == made
    assert (made.service, made.event, made.type) == (service.id, event["_id"], "parcel.changed")
    body = json.loads(event["bodies"]["standard"])
    assert body["data"]["test"] is True
    assert made.next_at <= dt.datetime.now(dt.UTC)


def test_every_act_is_recorded_without_what_may_be_secret(
    ours: Services, stores: Collections
) -> None:
    make(ours, headers={"Authorization": "Bearer s3cret"}, events=["parcel.delivered"])
    ours.rotate(WHO, MAIN, "erp")
    ours.change(WHO, MAIN, "erp", {"destination": "https://b.example/s3cret", "state": "paused"})
    with pytest.raises(BadWish):
        ours.change(WHO, MAIN, "erp", {"attempts": 0})
    ours.delete(WHO, MAIN, "erp")

    records = list(stores.audit.find().sort("_id"))
    assert [each["act"] for each in records] == [
        "service make",
        "service secret rotate",
        "service change",
        "service change",
        "service delete",
    ]
    assert "error" in records[3]["outcome"]
    assert records[2]["target"]["state"] == "paused"
    assert (records[0]["key"], records[0]["account"], records[0]["via"]) == (
        "tk_0123456789ab",
        "shop",
        "http",
    )
    assert "s3cret" not in json.dumps(records, default=str)
    assert time.time() > 0


def test_secrets_are_encrypted_again_by_a_new_key_and_the_old_one_goes(
    config: Config, stores: Collections, ours: Services
) -> None:
    made, new = make(ours), new_key("b")
    rotated = ours.rotate(WHO, MAIN, "erp")
    both = lower(config, keys=f"{new} {KEYS}")

    done = seal_again(both, stores, WHO)

    kept, box = ours.named(MAIN, "erp"), SecretBox.of(new)
    assert done == (2, 0)
    assert [box.opened(each.text, kept.id) for each in kept.secrets] == [
        rotated.secret,
        made.secret,
    ]
    assert [each.ends_at for each in kept.secrets] == [
        each.ends_at for each in rotated.service.secrets
    ]
    assert seal_again(both, stores, WHO) == (0, 0)


def test_a_secret_that_no_key_opens_stays_as_it_is_and_is_counted(
    config: Config, stores: Collections, ours: Services
) -> None:
    before = make(ours).service

    done = seal_again(lower(config, keys=new_key("b")), stores, WHO)

    assert done == (0, 1)
    assert ours.named(MAIN, "erp") == before
