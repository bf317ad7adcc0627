"""A courier's push has its account's own parcel asked for, once a minute, and is never believed."""

from __future__ import annotations

import base64
import datetime as dt
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import greenstalk
import pytest
from followers import Lines
from mongo_questions import Asked
from pymongo import MongoClient
from relayed import KEY, Job, label_of, stored

from couriers.pushes import NO_SECRET, NOT_BUILT, NOT_VERIFIED
from devstack.servers import Server
from service.worker.deliveries.foreign_request import ForeignRequest
from service.worker.deliveries.ingest_label import IngestLabel, new_label
from service.worker.deliveries.pushes import (
    EXPIRES_AFTER,
    NO_KEY,
    NOT_FOLLOWED,
    Asking,
    Pushes,
    Put,
    find_followed,
)
from service.worker.deliveries.relay_intake import RelayIntake, RelaySteps
from service.worker.deliveries.secret_box import SecretBox, new_key
from service.worker.deliveries.service import Ingest, Service, ServiceState, ServiceType
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.results.connection import Store
from service.worker.results.database import Collections, Document, Names
from service.worker.tubes.envelope import REQUESTS_TUBE, decode_request
from service.worker.tubes.put_servers import Putter
from tracking.errors import TubesDown
from tracking.operation import is_recheck
from tracking.request import MAIN, Account, Origin, Slug, TrackingRequest

BOX, BOX_B = SecretBox.of(new_key("a")), SecretBox.of(new_key("b"))
SHOP, OTHER = Account("shop"), Account("other")
SECRET = "security-token-of-a-webhook"  # noqa: S105 - of no courier
AT = dt.datetime(2026, 11, 26, 10, 12, 5, tzinfo=dt.UTC)
NUMBER, SECOND = "794665654567", "794665654568"

Act = Callable[..., Awaitable[Asking]]
Jobs = Callable[[], list[TrackingRequest]]


def service(account: Account = SHOP, **ingest: Any) -> Service:
    name = f"courier{account}".ljust(16, "0")[:16]
    sealed = BOX.closed(SECRET, name)
    random = new_label(account, "fedex", KEY).random
    given = {"random": random, "courier": "fedex", "push_secret": sealed, **ingest}
    return Service(
        name, account, "fedex", "", (), made_at=AT, type=ServiceType.COURIER, ingest=Ingest(**given)
    )


def push(*numbers: str, at: dt.datetime = AT, secret: str = SECRET, **other: Any) -> ForeignRequest:
    results = [{"trackingNumber": each} for each in numbers]
    body = json.dumps({"output": {"completeTrackResults": results}}).encode()
    signature = base64.b64encode(hmac.digest(secret.encode(), body, "sha256")).decode()
    given: dict[str, Any] = {
        "id": "0" * 32,
        "label": IngestLabel(SHOP, "fedex", "a" * 21),
        "received_at": at,
        "method": "POST",
        "target": "/",
        "url": "https://shop-fedex.example/",
        "headers": (("Content-Type", "application/json"), ("FDX-Signature", signature)),
        "body": body,
    }
    return ForeignRequest(**(given | other))


def follow(store: Store, number: str, account: Account = SHOP, **members: Any) -> None:
    own = {} if account == MAIN else {"account": account}
    name = f"fedex:{number}" if account == MAIN else f"fedex:{number}@{account}"
    parcel = {"_id": name, "slug": "fedex", "tracking_number": number, "active": True}
    store.tracking.insert_one({**parcel, **own, **members})


@pytest.fixture
async def putter(beanstalkd: Server) -> AsyncIterator[Putter]:
    made = Putter([beanstalkd.url])
    yield made
    made.close()


@pytest.fixture
def act(store: Store, putter: Putter) -> Act:
    """Do all that a push has done, between the stored event and the deleted job."""

    async def acting(
        to: Service,
        request: ForeignRequest,
        box: SecretBox | None = BOX,
        put: Put = putter.put_rechecks,
    ) -> Asking:
        pushes = Pushes(box, put)
        asking = await store.in_background(pushes.judge, store, to, request)
        await pushes.ask(asking)
        return asking

    return acting


@pytest.fixture
def jobs(beanstalkd: Server) -> Jobs:
    """Read all requests that were put since."""

    def taken() -> list[TrackingRequest]:
        address, found = (beanstalkd.host, beanstalkd.port), list[TrackingRequest]()
        with greenstalk.Client(address, encoding=None, watch=REQUESTS_TUBE) as client:
            while client.stats_tube(REQUESTS_TUBE)["current-jobs-ready"]:
                job = client.reserve(timeout=0)
                found.append(decode_request(job.body, lambda slug: (Slug(slug), "")))
                client.delete(job)
        return found

    return taken


async def test_a_push_has_the_parcel_asked_for_that_its_account_follows(
    store: Store, act: Act, jobs: Jobs
) -> None:
    follow(store, NUMBER, fields={"tracking_postal_code": "SW1A 1AA"}, asked_alone=True)

    asking = await act(service(), push(NUMBER))

    [request] = jobs()
    assert (request.slug, request.number, request.origin) == ("fedex", NUMBER, Origin.AUTOMATIC)
    assert request.max_age == 0.0
    assert request.expires_at == (AT + EXPIRES_AFTER).timestamp()
    assert request.fields == {"tracking_postal_code": "SW1A 1AA"}
    assert request.alone
    assert (request.id or "").startswith("shop/")
    assert is_recheck(request)
    assert asking.document == {
        "courier": "fedex",
        "verified": True,
        "why": "",
        "parcels": [f"fedex:{NUMBER}"],
    }


async def test_several_pushes_of_a_minute_are_one_operation(
    store: Store, act: Act, jobs: Jobs
) -> None:
    follow(store, NUMBER)
    follow(store, NUMBER, OTHER)
    follow(store, NUMBER, MAIN)
    later = AT.replace(second=59)

    for each in (push(NUMBER), push(NUMBER), push(NUMBER, at=later, id="1" * 32)):
        await act(service(), each)
    await act(service(), push(NUMBER, at=AT + dt.timedelta(minutes=1)))
    await act(service(OTHER), push(NUMBER))
    await act(service(MAIN), push(NUMBER))

    first, repeated, same_minute, next_minute, others, mains = [each.id or "" for each in jobs()]
    assert first == repeated == same_minute != next_minute
    assert len({first, next_minute, others, mains}) == 4
    assert (others.startswith("other/"), "/" in mains) == (True, False)


async def test_a_push_of_several_numbers_asks_for_those_that_are_followed(
    store: Store, act: Act, jobs: Jobs
) -> None:
    follow(store, NUMBER)
    follow(store, SECOND)

    asking = await act(service(), push("794665654566", NUMBER, SECOND, NUMBER))

    assert sorted(each.number for each in jobs()) == [NUMBER, SECOND]
    assert sorted(asking.document["parcels"]) == [f"fedex:{NUMBER}", f"fedex:{SECOND}"]


async def test_a_parcel_that_the_account_does_not_follow_is_never_asked_for(
    store: Store, act: Act, jobs: Jobs
) -> None:
    follow(store, NUMBER, OTHER)
    follow(store, NUMBER, MAIN)
    follow(store, SECOND, active=False)
    follow(store, "794665654569")
    shipment = {"_id": "shop/1", "account": "shop", "parcel": "fedex:794665654569"}
    store.shipments.insert_one(shipment | {"deleted": True, "completed": False})
    store.tracking.insert_one({"_id": f"ups:{NUMBER}@shop", "active": True})

    asking = await act(service(), push(NUMBER, SECOND, "794665654569", "N0BODY"))

    assert jobs() == []
    assert asking == Asking(Slug("fedex"), verified=True, why=NOT_FOLLOWED)


@pytest.mark.parametrize(
    "case",
    [
        (service(), push(NUMBER, secret=SECRET[1:]), NOT_VERIFIED),
        (service(), push(NUMBER, headers=()), NOT_VERIFIED),
        (service(), push(NUMBER, body=b"\xff" * 9), NOT_VERIFIED),
        (service(push_secret=""), push(NUMBER, secret=""), NO_SECRET),
        (service(push_secret=BOX.closed(SECRET, "another service")), push(NUMBER), NO_KEY),
        (service(push_secret=BOX_B.closed(SECRET, service().id)), push(NUMBER), NO_KEY),
        (service(courier="gls"), push(NUMBER), NOT_BUILT),
    ],
    ids=["signed by another", "unsigned", "hostile", "no secret", "moved", "other key", "unbuilt"],
)
async def test_what_is_not_verified_is_not_acted_on(
    store: Store, act: Act, jobs: Jobs, case: tuple[Service, ForeignRequest, str]
) -> None:
    to, request, why = case
    follow(store, NUMBER)

    asking = await act(to, request)

    assert jobs() == []
    assert (asking.document["verified"], asking.document["why"]) == (False, why)
    assert asking.document["parcels"] == []


async def test_without_a_key_nothing_is_verified(store: Store, act: Act, jobs: Jobs) -> None:
    follow(store, NUMBER)

    asking = await act(service(), push(NUMBER), box=None)

    assert (jobs(), asking.verified, asking.why) == ([], False, NO_KEY)


async def test_a_push_of_which_the_put_failed_is_repeated_under_the_same_id(
    store: Store, act: Act, jobs: Jobs
) -> None:
    follow(store, NUMBER)
    nobody = Putter(["127.0.0.1:1"])

    with pytest.raises(TubesDown):
        await act(service(), push(NUMBER), put=nobody.put_rechecks)
    nobody.close()
    for _ in range(2):
        await act(service(), push(NUMBER))

    first, again = jobs()
    assert first.id == again.id


@pytest.mark.parametrize("fields", [5, ["tracking_key"], {"tracking_key": 5}, None, "x"])
async def test_a_document_that_another_program_wrote_has_its_parcel_asked_for_all_the_same(
    store: Store, act: Act, jobs: Jobs, fields: object
) -> None:
    follow(store, NUMBER, fields=fields)

    await act(service(), push(NUMBER))

    assert [each.fields for each in jobs()] == [{}]


def intake(store: Store, put: Put) -> RelayIntake:
    known = Subscriptions(store)
    return RelayIntake(store, known, Lines().bring, RelaySteps(), Pushes(BOX, put))


async def test_what_became_of_a_push_stands_in_its_event_and_its_parcel_is_asked_for(
    store: Store, putter: Putter, jobs: Jobs
) -> None:
    to = stored(store, service())
    follow(store, NUMBER)
    taking = intake(store, putter.put_rechecks)

    await taking.take(Job.of(push(NUMBER, label=label_of(to))))  # type: ignore[arg-type]

    [event] = store.events.find()
    right = {"courier": "fedex", "verified": True, "why": "", "parcels": [f"fedex:{NUMBER}"]}
    assert (event["push"], event["type"]) == (right, "relay.request")
    [delivery] = store.deliveries.find()
    assert (delivery["state"], delivery["why"]) == ("completed", "nowhere_to_go")
    assert [each.number for each in jobs()] == [NUMBER]


async def test_a_push_is_relayed_too_where_its_service_has_a_destination(
    store: Store, putter: Putter, jobs: Jobs
) -> None:
    to = stored(store, replace(service(), destination="https://shop.example/in"))
    follow(store, NUMBER)

    await intake(store, putter.put_rechecks).take(
        Job.of(push(NUMBER, label=label_of(to)))  # type: ignore[arg-type]
    )

    assert [each["state"] for each in store.deliveries.find()] == ["open"]
    assert len(jobs()) == 1


async def test_while_no_request_can_be_put_the_job_of_a_push_stays_and_all_is_repeated(
    store: Store, putter: Putter, jobs: Jobs
) -> None:
    job = Job.of(push(NUMBER, label=label_of(stored(store, service()))))
    follow(store, NUMBER)
    nobody = Putter(["127.0.0.1:1"])

    with pytest.raises(TubesDown):
        await intake(store, nobody.put_rechecks).take(job)  # type: ignore[arg-type]
    nobody.close()
    assert (store.events.count_documents({}), store.deliveries.count_documents({})) == (1, 1)
    await intake(store, putter.put_rechecks).take(job)  # type: ignore[arg-type]

    assert (store.events.count_documents({}), store.deliveries.count_documents({})) == (1, 1)
    assert [each.number for each in jobs()] == [NUMBER]


@pytest.mark.parametrize(
    "members",
    [{"state": ServiceState.DELETED}, {"type": ServiceType.RELAY}, {"type": ServiceType.WEBHOOK}],
    ids=str,
)
async def test_only_a_service_of_a_courier_that_is_there_has_parcels_asked_for(
    store: Store, putter: Putter, jobs: Jobs, members: dict[str, Any]
) -> None:
    to = stored(store, replace(service(), **members))
    follow(store, NUMBER)

    await intake(store, putter.put_rechecks).take(
        Job.of(push(NUMBER, label=label_of(to)))  # type: ignore[arg-type]
    )

    assert jobs() == []
    assert [("push" in each) for each in store.events.find()] == [False]


def test_whether_a_parcel_is_followed_is_what_a_majority_has(mongo_uri: str, database: str) -> None:
    asked = Asked()
    with MongoClient[Document](mongo_uri, event_listeners=[asked]) as client:
        find_followed(Collections(client, Names(mongo_uri, database)), ["fedex:1"])

    [look] = [each for each in asked.looks if each.get("find") == "tracking"]
    assert look["readConcern"] == {"level": "majority"}
