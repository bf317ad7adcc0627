"""Operations that ended: as scripts write them into Redis, and as they are archived in MongoDB."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Iterator

from benchmarks.rig import DATABASE, Rig
from limits.archive import Ended
from service.results.connection import Document, Store
from service.results.names import Names
from service.results.operations import read_ended

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
NOW_MS = round(NOW.timestamp() * 1000)
PARCEL_OPERATIONS = 10
BATCH = 5_000
OLD = dt.timedelta(days=100)
"""Older than operations are kept."""


def number_of(index: int) -> str:
    """The parcel's number of an operation; some operations are of the same parcel."""
    return f"9400111{index // PARCEL_OPERATIONS:015}"


def status_of(index: int) -> tuple[str, str]:
    """An operation's id and its status, as lua/lib/state.lua writes it."""
    at_ms = NOW_MS - index
    status = {
        "status": "SUCCESS",
        "tracking": f"usps:{number_of(index)}",
        "at": at_ms,
        "startedAt": "2026-03-01T12:00:00.000Z",
        "finishedAt": "2026-03-01T12:00:00.212Z",
        "output": {"tag": "InTransit", "subtag": "InTransit_003", "checkpoints": 12},
        "attempts": [[at_ms, "answered", 200, 212]],
    }
    return f"order-{index:012}", json.dumps(status, separators=(",", ":"))


def documents(count: int, first: int = 0) -> Iterator[Document]:
    """Operations as they are archived, one in two of them older than is kept."""
    for index in range(first, first + count):
        name, status = status_of(index)
        document, _ = read_ended(Ended(name, NOW_MS - index, status))
        if document is None:
            raise RuntimeError(f"{name} is no operation that ended")
        age = OLD if index % 2 else dt.timedelta(0)
        yield document | {"finished_at": document["finished_at"] - age}


def fill(rig: Rig, count: int) -> None:
    """Store so many, with the worker's indexes."""
    store = Store(Names(rig.stack.mongodb.url, DATABASE))

    async def prepare() -> None:
        await store.prepare()
        await store.close()

    asyncio.run(prepare())
    operations = rig.mongodb[DATABASE]["operations"]
    for begin in range(0, count, BATCH):
        operations.insert_many(documents(min(BATCH, count - begin), begin), ordered=False)
