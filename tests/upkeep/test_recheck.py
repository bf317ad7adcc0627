"""A check that is due is put on the tube first, and only then put off."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence

import pytest
from bson.datetime_ms import DatetimeMS
from due_checks import DUE, NOBODY, NOW, NUMBER, UPS, USPS, Room, parcel, parcels, put_on, stored
from mongo_questions import Asked
from pymongo import monitoring

from devstack.servers import Server
from service.observe.background import Background
from service.observe.events import Event
from service.worker.results import database as database_module
from service.worker.results.connection import Store
from service.worker.results.database import Document, Names
from service.worker.tubes.put_servers import Putter
from service.worker.upkeep import recheck
from service.worker.upkeep.recheck import PUT_OFF, Recheck, check_of
from tracking.errors import TubesDown
from tracking.request import Slug

Told = list[tuple[Event, Document]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    events: Told = []
    for module in (database_module, recheck):
        monkeypatch.setattr(module, "emit", lambda event, **more: events.append((event, more)))
    return events


async def look(store: Store, putter: Putter, slugs: Sequence[Slug] = (USPS,)) -> int:
    return await Recheck(store, putter, slugs).look(lambda: NOW)


async def test_a_check_stays_due_until_its_request_is_put(store: Store) -> None:
    store.tracking.insert_one(parcel("usps"))
    putter = Putter([NOBODY])

    with pytest.raises(TubesDown):
        await look(store, putter)

    putter.close()
    assert stored(store)["next_check_at"] == DUE


async def test_a_due_check_is_put_as_an_automatic_request_and_put_off(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    store.tracking.insert_one(parcel("usps"))

    assert await look(store, putter) == 1

    (payload,) = put_on(beanstalkd)
    assert (payload["slug"], payload["number"], payload["origin"]) == ("usps", NUMBER, "AUTOMATIC")
    assert payload["expires_in"] == (NOW + dt.timedelta(hours=6)).timestamp()
    assert stored(store)["next_check_at"] == NOW + PUT_OFF


async def test_a_parcel_of_a_suspended_account_is_not_asked_for_and_looked_at_again(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    suspended = {"at": NOW, "why": "unpaid", "services": []}
    store.accounts.insert_one({"_id": "shop", "suspended": suspended})
    for account in ("shop", "other"):
        of_account = parcel("usps", account=account) | {"_id": f"usps:{NUMBER}@{account}"}
        store.tracking.insert_one(of_account)

    assert await look(store, putter) == 1

    assert [each["account"] for each in put_on(beanstalkd)] == ["other"]
    assert stored(store, f"usps:{NUMBER}@shop")["next_check_at"] == NOW + PUT_OFF


async def test_a_check_that_was_put_and_not_put_off_is_put_under_the_same_id(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    store.tracking.insert_one(parcel("usps"))
    await look(store, putter)
    store.tracking.update_one({}, {"$set": {"next_check_at": DUE}})
    await look(store, putter)
    store.tracking.update_one({}, {"$set": {"next_check_at": DUE + dt.timedelta(seconds=1)}})
    await look(store, putter)

    first, again, next_one = [payload["id"] for payload in put_on(beanstalkd)]

    assert first == again != next_one


async def test_the_courier_is_asked_with_the_fields_that_were_stored(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    fields = {"tracking_postal_code": "SW1A 1AA", "tracking_key": "k"}
    store.tracking.insert_one(parcel("usps", fields={**fields, "slug": "ups", "other": "x"}))

    await look(store, putter)

    (payload,) = put_on(beanstalkd)
    assert {name: payload[name] for name in fields} == fields
    assert (payload["slug"], "other" in payload) == ("usps", False)


async def test_a_courier_that_is_not_there_any_more_is_not_asked(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    store.tracking.insert_one(parcel("usps"))

    assert await look(store, putter, [UPS]) == 0

    assert put_on(beanstalkd) == []
    assert stored(store) == parcel("usps")


async def test_parcels_of_a_courier_that_is_gone_keep_no_other_waiting(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    store.tracking.insert_many(parcels("gone", 500, DUE - dt.timedelta(days=1)))
    store.tracking.insert_many(parcels("usps", 5))

    assert await look(store, putter) == 5

    assert {payload["slug"] for payload in put_on(beanstalkd)} == {"usps"}
    assert store.tracking.count_documents({"slug": "gone", "next_check_at": {"$lt": DUE}}) == 500


async def test_couriers_take_turns_however_many_parcels_one_has(
    store: Store, putter: Putter, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recheck, "ROUND_MOST", 20)
    store.tracking.insert_many(parcels("ups", 90, DUE - dt.timedelta(days=1)))
    store.tracking.insert_many(parcels("usps", 10))

    assert await look(store, putter, [UPS, USPS]) == 100

    slugs = [payload["slug"] for payload in put_on(beanstalkd)]
    assert slugs[:20].count("usps") == slugs[:20].count("ups") == 10


async def test_more_couriers_than_a_round_holds_are_all_served(
    store: Store, putter: Putter, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recheck, "ROUND_MOST", 2)
    slugs = [Slug(f"courier-{index}") for index in range(5)]
    store.tracking.insert_many(parcel(slug) for slug in slugs)

    assert await look(store, putter, slugs) == 5

    assert sorted(payload["slug"] for payload in put_on(beanstalkd)) == slugs


async def test_the_longest_due_of_a_courier_comes_first(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    for minutes in (1, 3, 2):
        store.tracking.insert_one(
            parcel("usps", f"N{minutes:05}", NOW - dt.timedelta(0, 60 * minutes))
        )

    await look(store, putter)

    assert [each["number"] for each in put_on(beanstalkd)] == ["N00003", "N00002", "N00001"]


async def test_a_line_is_put_as_many_checks_as_it_takes_and_the_others_stay_due(
    store: Store, putter: Putter, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recheck, "ROUND_MOST", 4)
    store.tracking.insert_many([*parcels("ups", 90), *parcels("usps", 90), *parcels("dhl", 3)])
    lines = Room({"ups": 25, "usps": 0, "dhl": 100})

    slugs = [UPS, USPS, Slug("dhl")]
    assert await Recheck(store, putter, slugs, lines).look(lambda: NOW) == 28

    put = [payload["slug"] for payload in put_on(beanstalkd)]
    assert (put.count("ups"), put.count("usps"), put.count("dhl")) == (25, 0, 3)
    assert store.tracking.count_documents({"next_check_at": DUE}) == 155


async def test_a_line_with_a_broken_key_takes_no_checks_and_the_others_take_theirs(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    store.tracking.insert_many([*parcels("ups", 2), *parcels("usps", 2)])

    assert await Recheck(store, putter, [UPS, USPS], Room({"usps": 100})).look(lambda: NOW) == 2

    assert [payload["slug"] for payload in put_on(beanstalkd)] == ["usps", "usps"]
    assert store.tracking.count_documents({"next_check_at": DUE}) == 2


async def test_many_checks_cost_few_commands(mongo_uri: str, database: str, putter: Putter) -> None:
    commands = Asked()
    monitoring.register(commands)
    store = Store(Names(mongo_uri, database), lambda _: None)
    store.tracking.insert_many(parcels("usps", 2 * recheck.TOGETHER_MOST))
    commands.names.clear()

    await look(store, putter)

    # The first find asks for suspended accounts, the third for shipments of all that are due.
    rounds = ["aggregate", "find", "find", "update", "update", "aggregate"]
    assert commands.names == ["find", *rounds]
    await store.close()


BAD: list[tuple[Document, str]] = [
    ({"_id": "x"}, "`slug` is missing"),
    ({"_id": "x", "slug": None}, "`slug` is missing"),
    ({"_id": "x", "slug": 5}, "`slug` is a number"),
    ({"_id": "x", "slug": {"$gt": ""}}, "`slug` is an object"),
    ({"_id": "x", "slug": ["usps"]}, "`slug` is an array"),
    ({"_id": "x", "slug": b"usps"}, "bytes"),
    ({"_id": "x", "slug": "usps"}, "`number` is missing"),
    ({"_id": "x", "slug": "usps", "tracking_number": 5}, "`number` is a number"),
    ({"_id": "x", "slug": "usps", "tracking_number": "n 1"}, "'n 1' is not a tracking number"),
    ({"_id": "x", "slug": "usps", "tracking_number": "n00001"}, "is not in its one form"),
    ({"_id": 5, "slug": "usps", "tracking_number": "N00001"}, "`_id` is not a string"),
    (parcel("usps", "N00001", fields=["tracking_key"]), "indices must be"),
    (parcel("usps", "N00001", fields=5), "not iterable"),
    (parcel("usps", "N00001", account="A/b"), "names no account"),
    (parcel("usps", "N00001", fields={"tracking_key": 5}), "`tracking_key` is a number"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case[1])
async def test_a_document_that_no_worker_wrote_is_recorded_and_passed_over(
    store: Store, putter: Putter, beanstalkd: Server, told: Told, case: tuple[Document, str]
) -> None:
    bad, why = case
    store.tracking.insert_one({"active": True, "next_check_at": DUE} | bad)
    store.tracking.insert_one(parcel("usps"))

    assert await look(store, putter) == 1
    assert await look(store, putter) == 0

    assert [payload["number"] for payload in put_on(beanstalkd)] == [NUMBER]
    kept = stored(store, bad["_id"])
    assert (kept["next_check_at"], kept["error"]["code"]) == (None, "bad_document")
    assert why in kept["error"]["message"]
    # MongoDB finds an array by each of its values as well.
    assert len(told) == (2 if bad.get("slug") == ["usps"] else 1)
    event, fields = told[0]
    assert (event, fields["document"]) == (Event.BAD_DOCUMENT, str(bad["_id"]))
    assert why in fields["error"]


async def test_what_mongodb_lets_nobody_put_off_holds_up_no_other_and_is_asked_about_hourly(
    store: Store, putter: Putter, beanstalkd: Server, told: Told
) -> None:
    bad = {"_id": 5, "slug": "usps", "active": True, "next_check_at": DUE, "tracking_number": "Z"}
    store.tracking.insert_many([bad, parcel("usps", "N00001"), parcel("usps", "N00002")])
    valid = {"tracking_number": {"$nin": ["Z", "N00001"]}}
    store.tracking.database.command("collMod", store.tracking.name, validator=valid)
    recheck = Recheck(store, putter, [USPS])

    looks = [await recheck.look(lambda: NOW) for _ in range(2)]
    later = await recheck.look(lambda: NOW + PUT_OFF)

    assert (looks, later) == ([2, 0], 2)
    numbers = [payload["number"] for payload in put_on(beanstalkd)]
    assert sorted(numbers) == ["N00001", "N00001", "N00002", "N00002"]
    refused = [fields["document"] for event, fields in told if event is Event.REFUSED_DOCUMENT]
    assert sorted(refused) == ["5", "5", "usps:N00001", "usps:N00001"]


async def test_a_date_that_python_cannot_hold_is_passed_over_too(
    store: Store, putter: Putter, told: Told
) -> None:
    year_30000 = DatetimeMS(884_541_600_000_000)
    store.tracking.insert_one(parcel("usps", "N00001", fields={"tracking_key": year_30000}))
    store.tracking.insert_one(parcel("usps"))

    assert await look(store, putter) == 1

    assert [event for event, _ in told] == [Event.BAD_DOCUMENT]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - what it asks about is in another process
            await asyncio.sleep(0.01)


async def test_a_bad_document_does_not_end_the_task(
    store: Store, putter: Putter, told: Told
) -> None:
    now = dt.datetime.now(dt.UTC)
    store.tracking.insert_one({"_id": "x", "active": True, "next_check_at": now})

    ends = list[str]()
    background = Background(ends.append)
    background.keep_looking("re-checks", Recheck(store, putter, [USPS]).look, 0.01)
    await until(lambda: bool(told))
    store.tracking.insert_one(parcel("usps", due=now))
    await until(lambda: stored(store)["next_check_at"] > now)

    await background.stop()
    assert ends == []


def test_a_parcel_that_answers_for_several_leave_out_is_asked_about_alone() -> None:
    assert check_of(parcel("usps", asked_alone=True), NOW).alone
    assert not check_of(parcel("usps"), NOW).alone


async def test_each_account_s_document_is_asked_for_with_its_own_fields(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    fields, main = {"tracking_postal_code": "8000"}, parcel("usps")
    shops = main | {"_id": f"{main['_id']}@shop", "account": "shop", "fields": fields}
    store.tracking.insert_many([main, shops])

    assert await look(store, putter) == 2

    of_main, of_shop = sorted(put_on(beanstalkd), key=lambda payload: "account" in payload)
    assert of_main.keys() & {"account", *fields} == set()
    assert of_shop.items() >= {"account": "shop", **fields}.items()


async def test_checks_of_a_parcel_that_no_shipment_follows_end_when_they_are_due(
    store: Store, putter: Putter
) -> None:
    store.tracking.insert_many(parcels("usps", 2))
    ended = {"parcel": "usps:N000000", "completed": {"reason": "LOST"}, "deleted": False}
    store.shipments.insert_one({"_id": "0a", **ended})

    assert await look(store, putter) == 1

    planned = [each["next_check_at"] for each in store.tracking.find(sort=["_id"])]
    assert planned[0] is None
    assert planned[1] > NOW
