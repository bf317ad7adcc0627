"""A held reply that told of an end: the service that the request named need not hear of it."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
from aiohttp import ClientError, web
from door_ground import Client
from limits_bench import Worker
from operations_ground import Database
from redis.asyncio import Redis

from limits.archive import ToArchive
from limits.ends import EndStream
from limits.pipeline import unconfirmed
from service.http import exchange
from service.worker.deliveries.operation_ends import OperationEnds
from service.worker.deliveries.replies import CLAIM_SECONDS
from service.worker.deliveries.service import Service, document_of
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.results.connection import Store
from service.worker.upkeep.archiver import Archiver, Ears, Telling
from tracking.request import MAIN

SOON = 5.0
MADE = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
SHOP = Service("shop" * 4, MAIN, "shop", "https://receiver.example/", (), MADE)
NAMED: dict[str, Any] = {"id": "a", "webhook": "shop", "cancel_on_reply": True}


@pytest.fixture(autouse=True)
def _there(collections: Database) -> None:
    collections.services.insert_one(document_of(SHOP))


@pytest.fixture
async def archiver(redis: Redis, store: Store) -> Archiver:
    async def has_services() -> bool:
        return True

    ends = OperationEnds(store, Subscriptions(store), lambda _: None)
    telling = Telling(ends, Ears(EndStream(redis), has_services))
    return Archiver(ToArchive(unconfirmed(redis), "first"), store, telling)


def delivery(collections: Database) -> dict[str, Any]:
    [found] = collections.deliveries.find()
    return found


async def ended(api: Client, worker: Worker, **named: Any) -> int:
    """End an operation of which a held reply tells."""
    call = await worker.granted("N001", **(NAMED | named))
    reply = asyncio.create_task(api.get("/v1/operations/a?wait=60"))
    await asyncio.sleep(0.05)
    await worker.finish(call)
    response = await asyncio.wait_for(reply, SOON)
    assert (await response.json())["status"] == "SUCCESS"
    return response.status


async def until_cancelled(collections: Database) -> None:
    async with asyncio.timeout(SOON):
        while delivery(collections)["state"] != "cancelled":  # noqa: ASYNC110 - nobody says so
            await asyncio.sleep(0.01)


async def test_what_a_held_reply_told_is_delivered_to_nobody(
    api: Client, worker: Worker, collections: Database, archiver: Archiver
) -> None:
    assert await ended(api, worker) == 200

    await until_cancelled(collections)
    await archiver.step()

    found = delivery(collections)
    assert (found["state"], found["why"]) == ("cancelled", "replied")
    assert collections.operations.count_documents({}) == 1
    assert collections.events.count_documents({}) == 1


async def test_so_it_is_where_the_archiver_was_quicker(
    api: Client, worker: Worker, collections: Database, archiver: Archiver
) -> None:
    await worker.finish(await worker.granted("N001", **NAMED))
    await archiver.step()
    assert delivery(collections)["state"] == "open"

    response = await api.get("/v1/operations/a?wait=0")

    assert response.status == 200
    await until_cancelled(collections)


async def test_so_it_is_where_redis_has_forgotten_the_end(
    api: Client, worker: Worker, collections: Database, archiver: Archiver, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001", **NAMED))
    await archiver.step()
    await redis.delete("tracking:status:a")

    await api.get("/v1/operations/a?wait=0")

    await until_cancelled(collections)


async def test_where_the_bytes_were_not_written_the_delivery_is_due_soon(
    api: Client,
    worker: Worker,
    collections: Database,
    archiver: Archiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await worker.finish(await worker.granted("N001", **NAMED))

    async def lost(*_: object) -> None:
        raise ConnectionResetError("the client has gone")

    monkeypatch.setattr(web.Response, "write_eof", lost)
    before = dt.datetime.now(dt.UTC)
    with pytest.raises((ClientError, TimeoutError)):
        await asyncio.wait_for(api.get("/v1/operations/a?wait=0"), 1.0)
    await archiver.step()

    found = delivery(collections)
    assert found["state"] == "open"
    assert (
        0 < (found["next_at"].replace(tzinfo=dt.UTC) - before).total_seconds() <= CLAIM_SECONDS + 1
    )
    event = collections.events.find_one({"_id": found["event"]})
    assert event is not None
    assert b'"status":"SUCCESS"' in event["bodies"]["standard"]


@pytest.mark.parametrize(
    ("named", "query"),
    [({"cancel_on_reply": False}, "?wait=0"), ({"webhook": None}, "?wait=0"), ({}, "")],
)
async def test_what_does_not_ask_for_it_or_is_not_held_cancels_nothing(
    api: Client, worker: Worker, collections: Database, named: dict[str, Any], query: str
) -> None:
    await worker.finish(await worker.granted("N001", **(NAMED | named)))

    assert (await api.get(f"/v1/operations/a{query}")).status == 200

    assert collections.deliveries.count_documents({}) == 0


@pytest.mark.usefixtures("unread_log")
async def test_a_service_that_somebody_else_wrote_keeps_no_reply_back(
    api: Client, worker: Worker, collections: Database
) -> None:
    collections.services.update_one({}, {"$set": {"format": "of a later version"}})

    assert await ended(api, worker) == 200

    assert collections.deliveries.count_documents({}) == 0


async def test_what_an_attempt_moved_on_meanwhile_stays(
    api: Client,
    worker: Worker,
    collections: Database,
    archiver: Archiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await worker.finish(await worker.granted("N001", **NAMED))
    await archiver.step()
    real = exchange.Written.write_eof

    async def slow(response: exchange.Written, data: bytes = b"") -> None:
        collections.deliveries.update_one({}, {"$set": {"made": 1, "state": "delivered"}})
        await real(response, data)

    monkeypatch.setattr(exchange.Written, "write_eof", slow)
    await api.get("/v1/operations/a?wait=0")
    await asyncio.sleep(0.1)

    assert delivery(collections)["state"] == "delivered"
