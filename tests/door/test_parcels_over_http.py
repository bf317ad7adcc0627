"""`/v1/parcels`: what is stored, asked again, and of others' what nobody reads."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pymongo
import pytest
from aftership_ground import AT, answer_of
from door_ground import USPS, Client, FixedKeys, payloads, refused, until
from limits_bench import Worker, everything
from operations_ground import ARCHIVED, serving_all
from redis.asyncio import Redis

from devstack.servers import Server
from service.config.schema import Recheck
from service.http.callers import Callers
from service.operator.keys import Scope
from service.worker.flow.call import CallRunner, Stores
from service.worker.flow.handle import Admitter
from service.worker.flow.tasks import CallSlots, Tasks
from service.worker.flow.tracking_work import Asks, RetryRules, TrackingWork
from service.worker.results.connection import Store
from service.worker.results.database import Names
from service.worker.results.document import begun, content_of
from service.worker.results.trackings import Trackings
from tracking.call import Call, Ended, Granted, Verdict
from tracking.checkpoint import Checkpoint, Tag, Tracking
from tracking.operation import State
from tracking.request import Account, Number, Slug, TrackingRequest, operation_id

SOON = 5.0


PATH = f"/v1/parcels/{USPS['slug']}/{USPS['number']}"


CHECKED = dt.datetime(2026, 5, 4, 8, 0, 1, 250_000, dt.UTC)


FIELDS = {"tracking_postal_code": "8000"}


SCAN = Checkpoint("2026-05-04T10:00:00", "left", Tag.IN_TRANSIT, "InTransit_001", city="Zürich")


DOCUMENT: dict[str, Any] = {
    **begun(
        TrackingRequest(Slug("usps"), Number(USPS["number"]), USPS["number"], fields=FIELDS),
        CHECKED,
        content_of(Tracking(Tag.IN_TRANSIT, "InTransit_001", (SCAN,), weight_grams=250)),
    ),
    "error": {"code": "courier_down", "message": "it is away", "at": CHECKED},
    "attempts": [
        {"at": CHECKED, "outcome": "answered", "http_status": 200, "ms": 9, "excerpt": "x"}
    ],
    "last_checked_at": CHECKED,
}


SHOPS = DOCUMENT | {"_id": f"{DOCUMENT['_id']}@shop", "account": "shop"}


Parcels = pymongo.collection.Collection[dict[str, Any]]


@pytest.fixture
def parcels(mongo_uri: str, database: str) -> Iterator[Parcels]:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        yield client[database]["tracking"]


async def test_a_parcel_is_shown_without_what_is_ours_or_the_receivers(
    api: Client, parcels: Parcels
) -> None:
    parcels.insert_one(DOCUMENT)

    response = await api.get("/v1/parcels/usps/9405-9036 99300184125060")

    told = await response.json()
    assert response.status == 200
    assert set(told) == set(DOCUMENT) - {"fields", "observed_us", "revision", "check_pace"}
    assert told["last_checked_at"] == "2026-05-04T08:00:01.250000Z"
    assert set(told["attempts"][0]) == {"at", "outcome", "http_status", "ms"}


async def test_a_parcel_of_which_nothing_is_known_is_404(api: Client) -> None:
    await refused(await api.get(PATH), 404)
    await refused(await api.get(f"{PATH}/operations"), 404)
    assert "did you mean" in (await refused(await api.get("/v1/parcels/usp/94001"), 404))["detail"]
    await refused(await api.get("/v1/parcels/usps/!"), 404)


@pytest.mark.parametrize("query", ["?wait=1", "?max_age=-1", "?max_age=1&wait=61", "?max_age=x"])
async def test_what_cannot_be_meant_is_refused(api: Client, query: str) -> None:
    await refused(await api.get(f"{PATH}{query}"), 400)


async def test_a_young_answer_puts_nothing(
    whole: Client, parcels: Parcels, beanstalkd: Server
) -> None:
    parcels.insert_one({**DOCUMENT, "last_checked_at": dt.datetime.now(dt.UTC)})

    assert (await whole.get(f"{PATH}?max_age=60&wait=60")).status == 200

    assert payloads(beanstalkd) == []


async def test_an_old_answer_is_asked_again_with_what_the_courier_needs(
    whole: Client, parcels: Parcels, beanstalkd: Server
) -> None:
    parcels.insert_one(DOCUMENT)

    response = await whole.get(f"{PATH}?max_age=60")

    told = await response.json()
    [payload] = payloads(beanstalkd)
    assert response.status == 202
    assert response.headers["Location"] == f"/v1/operations/{payload['id']}"
    assert told["operation"].items() >= {**USPS, "id": payload["id"], "status": "QUEUED"}.items()
    assert told["parcel"]["tag"] == "InTransit"
    assert payload == {
        **USPS, "id": payload["id"], "max_age": 60.0, "tracking_postal_code": "8000"
    }  # fmt: skip


async def asked(whole: Client, worker: Worker, beanstalkd: Server, verdict: Verdict) -> Any:
    """Ask for a parcel, and let the call that is made for it end with a verdict."""
    reply = asyncio.create_task(whole.get(f"{PATH}?max_age=60&wait=60"))
    put: list[dict[str, Any]] = []

    def is_put() -> bool:
        put.extend(payloads(beanstalkd))
        return bool(put)

    await until(is_put, "a request is put")
    call = await worker.granted(USPS["number"], id=put[0]["id"])
    await worker.finish(call, verdict)
    return await asyncio.wait_for(reply, SOON)


async def test_the_answer_that_was_asked_for_is_waited_for(
    whole: Client, worker: Worker, beanstalkd: Server, parcels: Parcels
) -> None:
    parcels.insert_one(DOCUMENT)

    response = await asked(whole, worker, beanstalkd, Verdict(State.SUCCESS, {}))

    assert response.status == 200
    assert (await response.json())["tag"] == "InTransit"


async def test_a_request_that_ends_without_an_answer_is_told_as_such(
    whole: Client, worker: Worker, beanstalkd: Server
) -> None:
    failed = Verdict(State.ERROR, {"code": "courier_down", "message": "it is away"}, answered=False)

    problem = await refused(await asked(whole, worker, beanstalkd, failed), 502)

    assert (problem["reason"], problem["detail"]) == ("courier_down", "it is away")
    assert problem["operation"]["status"] == "ERROR"
    assert problem["parcel"] is None


async def test_its_history_is_told_the_newest_first_also_out_of_the_archive(
    api: Client, worker: Worker, mongo_uri: str, database: str
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[database]["operations"].insert_one(ARCHIVED)
    await worker.finish(await worker.granted(USPS["number"], id="order-2"))

    listed = (await (await api.get(f"{PATH}/operations")).json())["operations"]

    assert [each["id"] for each in listed] == ["order-2", "order-1"]
    assert listed[1]["attempts"][0]["outcome"] == "answered"


async def test_what_others_ask_for_pushes_nothing_out_of_an_accounts_history(
    disk: Path, settings: dict[str, str], mongo_uri: str, database: str, parcels: Parcels
) -> None:
    keys = FixedKeys()
    shop, other = ({"as-api-key": keys.make(each, Scope.READ)} for each in ("shop", "other"))
    parcels.insert_many([DOCUMENT, SHOPS])
    later = ARCHIVED["admitted_at"] + dt.timedelta(hours=1)
    shops = ARCHIVED | {"_id": "shop/a@1", "id": "shop/a", "account": "shop"}
    mains = {"account": "main", "admitted_at": later}
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[database]["operations"].insert_many(
            [shops, *(ARCHIVED | mains | {"_id": f"m{n}@1", "id": f"m{n}"} for n in range(1_000))]
        )
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        listed = await (await api.get(f"{PATH}/operations", headers=shop)).json()

        assert [each["id"] for each in listed["operations"]] == ["a"]
        told = await (await api.get(PATH, headers=shop)).json()
        assert (told["_id"], "account" in told) == (DOCUMENT["_id"], False)
        assert (await api.get(PATH, headers=other)).status == 404


async def test_an_account_knows_the_parcels_that_it_asked_for(
    disk: Path, settings: dict[str, str], worker: Worker, parcels: Parcels
) -> None:
    keys = FixedKeys()
    shop, other, main = (
        {"as-api-key": keys.make(name, Scope.READ)} for name in ("shop", "other", "main")
    )
    parcels.insert_one(SHOPS)
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        await worker.finish(await worker.granted(USPS["number"], id="shop/a"))

        listed = await (await api.get(f"{PATH}/operations", headers=shop)).json()
        assert [each["id"] for each in listed["operations"]] == ["a"]
        assert (await api.get(PATH, headers=shop)).status == 200
        for key in (other, main):
            unknown = await (await api.get("/v1/parcels/usps/94001", headers=key)).read()
            for path in (PATH, f"{PATH}/operations"):
                reply = await api.get(path, headers=key)
                assert (reply.status, await reply.read()) == (404, unknown)
        # It may read, and not put.
        await refused(await api.get(f"{PATH}?max_age=0", headers=shop), 403)


RIGHT, WRONG, PLAIN = {"tracking_postal_code": "NE14LP"}, {"tracking_postal_code": "SW1A"}, {}


LEFT = Checkpoint("2026-05-04T10:00:00", "left", Tag.IN_TRANSIT, "InTransit_001")


ARRIVED = Checkpoint("2026-05-05T10:00:00", "at the neighbour's", Tag.DELIVERED, "Delivered_003")


OPEN = Tracking(Tag.IN_TRANSIT, "InTransit_001", (LEFT,))


UNLOCKED = Tracking(
    Tag.DELIVERED,
    "Delivered_003",
    (LEFT, ARRIVED),
    signed_by="J. Doe",
    proof_of_delivery="https://example.com/signature",
)


SECRETS = ("J. Doe", "signature", "neighbour", "Delivered", "NE14LP")


class Flow:
    """A worker's flow over real stores; its courier tells all to those with the right code."""

    def __init__(self, worker: Worker, store: Store) -> None:
        self.calls: list[dict[str, str]] = []
        results = Trackings(store, lambda _: Recheck())
        counts = SimpleNamespace(count=lambda *_: None)
        stores = Stores(worker.limiter, results, *[counts] * 5)
        slots = CallSlots(5, results)
        self._admitter = Admitter(worker.limiter, results, slots)
        never: Any = None
        asks = Asks(self._track, never)
        work = TrackingWork(asks, results, counts, RetryRules(), lambda _: b"")
        self._runner = CallRunner(lambda _: work, stores, Tasks(), slots)

    async def _track(self, call: Call) -> Tracking:
        self.calls.append(dict(call.request.fields))
        return UNLOCKED if call.request.fields == RIGHT else OPEN

    async def admitted(self, account: str, fields: dict[str, str], name: str = "a") -> object:
        slug, number = Slug(USPS["slug"]), Number(USPS["number"])
        identity = operation_id(Account(account), name)
        max_age = None if name == "a" else 0.0
        request = TrackingRequest(slug, number, number, identity, max_age=max_age, fields=fields)
        return await self._admitter.admit(request, f"job of {identity}")

    async def asked(self, account: str, fields: dict[str, str], name: str = "a") -> None:
        """Have a request of an account carried to its end; one not called `a` asks the courier."""
        admission = await self.admitted(account, fields, name)
        if isinstance(admission, Granted):
            await self._runner.run([admission.call])
        else:
            assert isinstance(admission, Ended)


class Ground(NamedTuple):
    """An api that several accounts ask, and the flow behind it."""

    flow: Flow
    api: Client
    keys: dict[str, str]

    async def told(self, account: str) -> dict[str, str]:
        """All that an account is told, by route."""
        header = {"as-api-key": self.keys[account]}
        listed = await answer_of(await self.api.get(AT, headers=header))
        [shown] = listed["trackings"]
        routes = (PATH, f"{PATH}/operations", "/v1/operations/a", f"{AT}/{shown['id']}")
        replies = {each: await self.api.get(each, headers=header) for each in routes}
        assert {each: reply.status for each, reply in replies.items()} == dict.fromkeys(routes, 200)
        whole = {each: await reply.text() for each, reply in replies.items()}
        return whole | {AT: json.dumps(listed)}


@pytest.fixture
async def store(mongo_uri: str, database: str) -> AsyncIterator[Store]:
    opened = Store(Names(mongo_uri, database), lambda _: None)
    yield opened
    await opened.close()


@pytest.fixture
def opened(disk: Path, settings: dict[str, str], worker: Worker, store: Store) -> Any:
    @asynccontextmanager
    async def ground(*accounts: str) -> AsyncIterator[Ground]:
        made = FixedKeys()
        keys = {each: made.make(each, Scope.READ, Scope.INGEST) for each in accounts}
        callers = Callers(made, 1_000.0)
        async with serving_all(disk / "spool.sqlite", settings, callers=callers) as api:
            for each in accounts:
                said = {"tracking_number": USPS["number"], "slug": USPS["slug"]}
                header = {"as-api-key": keys[each]}
                await answer_of(await api.post(AT, json=said, headers=header), 201)
            yield Ground(Flow(worker, store), api, keys)

    return ground


def reads_it(told: dict[str, str]) -> bool:
    return "J. Doe" in told[PATH] and "J. Doe" in told[AT]


def leaks(told: dict[str, str]) -> list[tuple[str, str]]:
    return [(each, route) for route, text in told.items() for each in SECRETS if each in text]


@pytest.mark.parametrize(("knows", "does_not"), [("main", "shop"), ("shop", "main")])
async def test_what_a_postal_code_unlocked_is_told_to_those_who_gave_it_alone(
    opened: Any, redis: Redis, knows: str, does_not: str
) -> None:
    asks = {knows: RIGHT, "twin": RIGHT, "other": WRONG, does_not: PLAIN}
    async with opened(*asks) as ground:
        for account, fields in asks.items():
            await ground.flow.asked(account, fields)

        for account, fields in asks.items():
            told = await ground.told(account)
            if fields == RIGHT:
                assert reads_it(told), account
            else:
                assert leaks(told) == [], account
    assert ground.flow.calls == [RIGHT, RIGHT, WRONG, PLAIN]
    # Operations and events are told from here.
    assert [each for each in SECRETS[:3] if each in json.dumps(await everything(redis))] == []
