"""MongoDB by the synchronous driver, on three threads, with majority writes and a circuit.

A write that was not confirmed may have happened: it is ResultsDown, and every write of this package
may be repeated. While MongoDB is away nobody waits in line for time-outs: everything fails at once
until a majority confirms a write. A ping would not do: a primary whose secondaries are away answers
it, and confirms nothing.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pymongo
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import ConnectionFailure, PyMongoError, WTimeoutError
from pymongo.topology_description import TopologyDescription

from service.observe.log import emit_unexpected
from service.results.failure import mongodb_down, refuses_writes
from service.results.forgetting import Marks
from service.results.indexes import indexes_for, make_indexes
from service.results.names import (
    FORGOTTEN,
    LIMITS,
    OPERATIONS,
    SHIPMENTS,
    STATISTICS,
    UNKNOWN_CODES,
    Names,
)
from tracking.errors import ResultsDown

T = TypeVar("T")
Document = dict[str, Any]
Notice = Callable[[Exception | None], None]

SELECTION_MS = 2_000
"""How long a server that takes writes is looked for."""

OPERATION_MS = 5_000
"""The longest that one operation may take. The driver repeats it until then, so this is also how
long it takes to see that MongoDB is away."""

HEARTBEAT_MS = 2_000
"""How often the driver looks at the servers: so soon a process that writes nothing just now sees
that MongoDB is away."""

LOOK_SECONDS = 0.5
CONFIRM_SECONDS = 30.0
"""How long an answer, and a look, wait for a majority, as long as a call may take: members that lag
further behind than OPERATION_MS must not keep all answers from ever being stored. Of a server that
hangs the driver tells sooner, by its own looks."""

END_SECONDS = 1.0


def open_client(uri: str, **options: Any) -> MongoClient[Document]:
    """Make a client, which connects when it is first asked.

    Raises ResultsDown: the driver reads the address at once, and the files that it names.
    """
    try:
        return MongoClient(uri, **options)
    except (PyMongoError, ValueError, OSError) as error:
        raise mongodb_down(error) from error


def write_nothing(tracking: Collection[Document]) -> None:
    """Return once a majority has all that was written so far. Raises PyMongoError.

    It fits no document, and is refused where writes are. For a write that changes nothing MongoDB
    waits until a majority has the newest operation of all.
    """
    tracking.update_one({"_id": ""}, {"$set": {"active": False}})


def patiently(seconds: float, step: Callable[[], T]) -> T:
    """Let what a step asks of MongoDB take so long, all together."""
    with pymongo.timeout(seconds):
        return step()


class Store:
    """The collections, and the threads that speak to them.

    One writes, one reads, and one does what no request waits for.
    """

    def __init__(self, names: Names, notice: Notice = lambda _: None) -> None:
        """`notice` hears of it when MongoDB goes away (the error) and when it is back (None).

        Raises ResultsDown, as `open_client`.
        """
        self._names = names
        self.client = open_client(
            names.uri,
            serverSelectionTimeoutMS=SELECTION_MS,
            connectTimeoutMS=SELECTION_MS,
            timeoutMS=OPERATION_MS,
            appname="courier-tracking-worker",
            # Streaming takes two more threads that wake twice a second, half of what idling costs.
            # Where a server changes its role the next operation's error makes the driver look.
            serverMonitoringMode="poll",
            heartbeatFrequencyMS=HEARTBEAT_MS,
        )
        self._notice = notice
        self._writer = ThreadPoolExecutor(1, "store")
        self._reader = ThreadPoolExecutor(1, "store-reader")
        self._keeper = ThreadPoolExecutor(1, "store-keeper")
        self._up = asyncio.Event()
        self._up.set()
        self._looker: asyncio.Task[None] | None = None
        self._closed = False
        self._topology: TopologyDescription | None = None
        self.returned: Callable[[], None] = lambda: None
        """Is called when MongoDB is back; the wiring sets it to wake the drainer."""
        self.marks = Marks(self.forgotten)
        """For the thread that writes."""

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

    @property
    def unreadable(self) -> Collection[Document]:
        """The newest answer about a number that could not be read."""
        return self._collection(self._names.unreadable)

    @property
    def unknown_codes(self) -> Collection[Document]:
        """How often couriers gave status codes that have no meaning here."""
        return self._collection(UNKNOWN_CODES)

    @property
    def forgotten(self) -> Collection[Document]:
        """Which parcels were forgotten lately."""
        return self._collection(FORGOTTEN)

    @property
    def operations(self) -> Collection[Document]:
        """What became of requests: operations that ended."""
        return self._collection(OPERATIONS)

    @property
    def shipments(self) -> Collection[Document]:
        """What accounts say of parcels."""
        return self._collection(SHIPMENTS)

    @property
    def statistics(self) -> Collection[Document]:
        """What happened, day by day."""
        return self._collection(STATISTICS)

    @property
    def limits(self) -> Collection[Document]:
        """What operators set of couriers' limits."""
        return self._collection(LIMITS)

    async def prepare(self) -> None:
        """Make the indexes, and see that a majority confirms. Raises ResultsDown: repeat it."""
        for name, wanted in indexes_for(self._names).items():
            await self.run(make_indexes, self._collection(name), wanted)
        await self.run(write_nothing, self.tracking)

    async def run(self, step: Callable[..., T], *args: Any) -> T:
        """Run `step` after those before it. Raises ResultsDown; it may have happened then."""
        return await self._run(self._writer, step, *args)

    async def write(self, step: Callable[[], T], confirmed: Callable[[T], bool]) -> T:
        """Run `step` as `run`, and let it wait for a majority that lags behind.

        Where that takes long, MongoDB is away until the step ends; `confirmed` tells of what it
        returned whether it is back then.
        """
        return await self._run(self._writer, patiently, CONFIRM_SECONDS, step, confirmed=confirmed)

    async def read(self, step: Callable[..., T], *args: Any) -> T:
        """Run `step` without waiting for a write that is under way. Raises ResultsDown."""
        return await self._run(self._reader, step, *args)

    async def keep(self, step: Callable[..., T], *args: Any) -> T:
        """Run `step` beside both, for what no request waits for. Raises ResultsDown, as `run`."""
        return await self._run(self._keeper, step, *args)

    @property
    def is_available(self) -> bool:
        """Whether MongoDB takes writes, as far as the driver knows; if not, it is looked for."""
        topology = self.client.topology_description
        if topology is not self._topology:
            self._topology = topology
            if not topology.has_writable_server():
                self._down(ConnectionFailure("no server takes writes"))
        return self._up.is_set()

    def available(self) -> Awaitable[object]:
        """Wait while MongoDB is away."""
        return self._up.wait()

    def failed(self, error: BaseException | None) -> None:
        """Take it for away if a write failed for more than what was written."""
        if isinstance(error, PyMongoError) and (_is_away(error) or refuses_writes(error)):
            self._down(error)

    async def close(self) -> None:
        """End the threads and the connections; whatever is asked from now on is ResultsDown."""
        self._closed = True
        if self._looker is not None:
            self._looker.cancel()
        self._writer.shutdown(wait=False)
        self._reader.shutdown(wait=False)
        self._keeper.shutdown(wait=False)
        await asyncio.to_thread(self._end)

    async def _run(
        self,
        thread: ThreadPoolExecutor,
        step: Callable[..., T],
        *args: Any,
        confirmed: Callable[[T], bool] | None = None,
    ) -> T:
        if self._closed or not self._up.is_set():
            raise ResultsDown("the store is closed" if self._closed else "MongoDB is away")
        loop = asyncio.get_running_loop()
        try:
            running = loop.run_in_executor(thread, functools.partial(step, *args))
            if confirmed is not None:
                await self._watch(running, confirmed)
            return await running
        except PyMongoError as error:
            if _is_away(error):
                self._down(error)
            raise mongodb_down(error) from error

    async def _watch(self, running: asyncio.Future[T], confirmed: Callable[[T], bool]) -> None:
        """Wait for a write; while it takes long nobody is to begin what ends with another one."""
        done, _ = await asyncio.wait({running}, timeout=OPERATION_MS / 1000)
        if done:
            return
        slow = WTimeoutError("a write is not confirmed yet")
        self._stop(slow)
        await asyncio.wait({running})
        if running.exception() is None and confirmed(running.result()):
            self._back()
        else:
            self._down(slow)

    def _end(self) -> None:
        with pymongo.timeout(END_SECONDS):
            self.client.close()  # says good-bye to the server, who may not listen

    def _collection(self, name: str) -> Collection[Document]:
        return self.client.get_database(self._names.database).get_collection(
            name,
            # Else one date that Python cannot hold would fail all that is read together with it.
            codec_options=CodecOptions(
                tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO
            ),
            write_concern=WriteConcern(w="majority", wtimeout=OPERATION_MS),
        )

    def _look_once(self) -> None:
        patiently(CONFIRM_SECONDS, functools.partial(write_nothing, self.tracking))

    def _stop(self, error: PyMongoError) -> None:
        if self._up.is_set():
            self._up.clear()
            self._notice(error)

    def _back(self) -> None:
        if not self._up.is_set():
            self._up.set()
            self._notice(None)
            self.returned()

    def _down(self, error: PyMongoError) -> None:
        if not self._closed:
            self._stop(error)
            if self._looker is None or self._looker.done():
                self._looker = asyncio.create_task(self._look())

    async def _look(self) -> None:
        """Look until a majority confirms; then everybody may go on."""
        loop = asyncio.get_running_loop()
        while not self._up.is_set():
            try:
                await loop.run_in_executor(self._reader, self._look_once)
            except Exception as error:  # noqa: BLE001 - everybody waits for the end of this
                if not isinstance(error, PyMongoError):
                    emit_unexpected(error, server="mongodb")
                await asyncio.sleep(LOOK_SECONDS)
            else:
                self._back()


def _is_away(error: PyMongoError) -> bool:
    return isinstance(error, ConnectionFailure) or error.timeout
