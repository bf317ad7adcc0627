"""The connection to MongoDB: sync pymongo on one thread, majority writes, and a circuit.

Every write is idempotent, so an error means "unknown" and the caller repeats. While MongoDB is away
nobody waits in line for time-outs: everything fails at once until a ping succeeds.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pymongo
from bson.codec_options import CodecOptions
from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from tracking.errors import ResultsDown

T = TypeVar("T")
Document = dict[str, Any]
Notice = Callable[[Exception | None], None]

SELECTION_MS = 2_000
OPERATION_MS = 10_000
PING_SECONDS = 0.5
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Names:
    """Where MongoDB is and what its collections are called; `dead_keep_days` until TTL removal."""

    uri: str
    database: str = "bucket"
    tracking: str = "tracking"
    past: str = "tracking_past"
    dead: str = "dead"
    dead_keep_days: int = 30


class Store:
    """The three collections, and the one thread that speaks to them."""

    def __init__(self, names: Names, notice: Notice = lambda _: None) -> None:
        """`notice` hears of it when MongoDB goes away (the error) and when it is back (None)."""
        self._names = names
        self._notice = notice
        self.client: MongoClient[Document] = MongoClient(
            names.uri,
            serverSelectionTimeoutMS=SELECTION_MS,
            connectTimeoutMS=SELECTION_MS,
            timeoutMS=OPERATION_MS,
            appname="courier-tracking-worker",
        )
        self._thread = ThreadPoolExecutor(1, "store")
        self._up = asyncio.Event()
        self._up.set()
        self._pinger: asyncio.Task[None] | None = None

    @property
    def tracking(self) -> Collection[Document]:
        """`bucket.tracking`: one document per (slug, number)."""
        return self._collection(self._names.tracking)

    @property
    def past(self) -> Collection[Document]:
        """What stood in `tracking` before a number was used again."""
        return self._collection(self._names.past)

    @property
    def dead(self) -> Collection[Document]:
        """Requests that nobody will answer, with their reasons."""
        return self._collection(self._names.dead)

    async def prepare(self) -> None:
        """Make the indexes; repeating it changes nothing. Raises ResultsDown."""
        await self.run(self._make_indexes)

    async def run(self, step: Callable[..., T], *args: Any) -> T:
        """Run `step` on the store's thread. Raises ResultsDown; the step may have happened then."""
        if not self._up.is_set():
            raise ResultsDown("MongoDB is away")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, functools.partial(step, *args))
        except PyMongoError as error:
            self._down(error)
            raise ResultsDown(f"MongoDB did not confirm: {error}") from error

    async def available(self) -> None:
        """Wait while MongoDB is away."""
        await self._up.wait()

    async def close(self) -> None:
        """End the thread and the connections."""
        if self._pinger is not None:
            self._pinger.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.client.close()

    def _collection(self, name: str) -> Collection[Document]:
        return self.client.get_database(self._names.database).get_collection(
            name,
            codec_options=CodecOptions(tz_aware=True),
            write_concern=WriteConcern(w="majority", wtimeout=OPERATION_MS),
        )

    def _make_indexes(self) -> None:
        self.tracking.create_index("next_check_at", partialFilterExpression={"active": True})
        self.tracking.create_index("updated_at")
        self.tracking.create_index([("tag", pymongo.ASCENDING), ("slug", pymongo.ASCENDING)])
        self.past.create_index(
            [("slug", pymongo.ASCENDING), ("tracking_number", pymongo.ASCENDING)]
        )
        self.dead.create_index([("slug", pymongo.ASCENDING), ("reason", pymongo.ASCENDING)])
        self._keep_dead(self._names.dead_keep_days * DAY_SECONDS)

    def _keep_dead(self, seconds: int) -> None:
        """The TTL follows the setting: an index that is there with another TTL is changed."""
        found = self.dead.index_information().get("at_1")
        if found is None:
            self.dead.create_index("at", expireAfterSeconds=seconds)
        elif found.get("expireAfterSeconds") != seconds:
            change = {"keyPattern": {"at": 1}, "expireAfterSeconds": seconds}
            self.dead.database.command("collMod", self.dead.name, index=change)

    def _down(self, error: PyMongoError) -> None:
        if not self._up.is_set():
            return
        self._up.clear()
        self._notice(error)
        self._pinger = asyncio.create_task(self._ping())

    async def _ping(self) -> None:
        """Look until it answers; then everybody may go on."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(
                    self._thread, functools.partial(self.client.admin.command, "ping")
                )
            except PyMongoError:
                await asyncio.sleep(PING_SECONDS)
            else:
                break
        self._up.set()
        self._notice(None)
