"""A worker's MongoDB: the synchronous driver on three threads, with majority writes and a circuit.

A write that was not confirmed may have happened: it is ResultsDown, and every write of this package
may be repeated. While MongoDB is away nobody waits in line for time-outs: everything fails at once
until a majority confirms a write. A ping would not do: a primary whose secondaries are away answers
it, and confirms nothing.

`Batches` lets many callers share one step: what they submit while a batch runs is the next batch.
`Marks` tells a thread that writes which parcels were forgotten (`forgetting.py`).
"""

from __future__ import annotations

import asyncio
import copy
import functools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

import pymongo
from pymongo import common
from pymongo.collection import Collection
from pymongo.errors import ConnectionFailure, PyMongoError, WTimeoutError
from pymongo.read_concern import ReadConcern
from pymongo.topology_description import TopologyDescription

from service.observe.log import emit_unexpected
from service.worker.results.database import (
    Collections,
    Document,
    Names,
    indexes_for,
    make_indexes,
    open_client,
)
from service.worker.results.document import id_of
from service.worker.results.failure import mongodb_down, refuses_writes
from tracking.call import Call
from tracking.errors import ResultsDown, TrackingError

T = TypeVar("T")
In = TypeVar("In")
Out = TypeVar("Out")
W = TypeVar("W", bound="OfCall")
Notice = Callable[[Exception | None], None]

SELECTION_MS = 2_000
"""How long a server that takes writes is looked for."""

OPERATION_MS = 5_000
"""The longest that one operation may take. The driver repeats it until then, so this is also how
long it takes to see that MongoDB is away."""

HEARTBEAT_MS = 20_000
"""How often the driver looks at the servers: so soon a process that writes nothing just now sees
that MongoDB is away. Each look is dear for a process that does nothing else, and nothing is lost
where a write is the first to see it."""

NAP_SECONDS = 2.0
"""How often a thread of the driver wakes: so much later it sees that a server is back."""

LOOK_SECONDS = 0.5
CONFIRM_SECONDS = 30.0
"""How long an answer, and a look, wait for a majority, as long as a call may take: members that lag
further behind than OPERATION_MS must not keep all answers from ever being stored. Of a server that
hangs the driver tells sooner, by its own looks."""

END_SECONDS = 1.0

MARKS_LOOK_SECONDS = 1.0
"""How often a writer that saw no mark looks again: each look costs a call to MongoDB."""

NEVER = -1
"""When a parcel was forgotten that was not: before any call."""

BATCH_SIZE = 500
"""Items of one batch: some 2 MB of documents, written in about 50 ms."""


def write_nothing(collection: Collection[Document]) -> None:
    """Return once a majority has all that was written so far. Raises PyMongoError.

    It fits no document, and is refused where writes are. For a write that changes nothing MongoDB
    waits until a majority has the newest operation of all; alone it waits for its journal.
    """
    collection.update_one({"_id": ""}, {"$set": {"active": False}})


def durable(collection: Collection[Document]) -> Collection[Document]:
    """Show no more of a collection than what a majority has. Raises PyMongoError.

    A MongoDB that stands alone shows all that it has in memory, to such reads too; its journal has
    it a tenth of a second later. So the journal is waited for.
    """
    servers = collection.database.client.topology_description.server_descriptions()
    if any(each.server_type_name == "Standalone" for each in servers.values()):
        write_nothing(collection)
    return collection.with_options(read_concern=ReadConcern("majority"))


def patiently(seconds: float, step: Callable[[], T]) -> T:
    """Let what a step asks of MongoDB take so long, all together."""
    with pymongo.timeout(seconds):
        return step()


def _let_the_driver_rest() -> None:
    """Set what the driver has no options for.

    How often a thread of its own looks for cursors that somebody left open, which nobody does here;
    and how often each of its threads wakes to see whether it is wanted. Both were a fifth of what
    idling costs. Commands, which have no Store, leave it as it is.
    """
    common.KILL_CURSOR_FREQUENCY = 60
    common.MIN_HEARTBEAT_INTERVAL = NAP_SECONDS


class Store(Collections):
    """The worker's collections, and the three threads that ask MongoDB.

    One writes, one reads, and one does what no request waits for.
    """

    def __init__(self, names: Names, notice: Notice = lambda _: None) -> None:
        """`notice` hears of it when MongoDB goes away (the error) and when it is back (None).

        Raises ResultsDown, as `open_client`.
        """
        _let_the_driver_rest()
        client = open_client(
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
        super().__init__(client, names, wtimeout=OPERATION_MS)
        self._names = names
        self._notice = notice
        self._writer = ThreadPoolExecutor(1, "store")
        self._reader = ThreadPoolExecutor(1, "store-reader")
        self._background = ThreadPoolExecutor(1, "store-background")
        self._up = asyncio.Event()
        self._up.set()
        self._looker: asyncio.Task[None] | None = None
        self._closed = False
        self._topology: TopologyDescription | None = None
        self.returned: Callable[[], None] = lambda: None
        """Is called when MongoDB is back; the wiring sets it to wake the drainer."""

    async def prepare(self) -> None:
        """Make the indexes, and see that a majority confirms. Raises ResultsDown: repeat it."""
        for attribute, wanted in indexes_for(self._names).items():
            await self.on_writer(make_indexes, self.named(attribute), wanted)
        await self.on_writer(write_nothing, self.tracking)

    async def on_writer(self, step: Callable[..., T], *args: Any) -> T:
        """Run `step` after the writes before it. Raises ResultsDown; it may have happened then."""
        return await self._run(self._writer, step, *args)

    async def write(self, step: Callable[[], T], confirmed: Callable[[T], bool]) -> T:
        """Run `step` as `on_writer`, and let it wait for a majority that lags behind.

        Where that takes long, MongoDB is away until the step ends; `confirmed` tells of what it
        returned whether it is back then.
        """
        return await self._run(self._writer, patiently, CONFIRM_SECONDS, step, confirmed=confirmed)

    async def on_reader(self, step: Callable[..., T], *args: Any) -> T:
        """Run `step` without waiting for a write that is under way. Raises ResultsDown."""
        return await self._run(self._reader, step, *args)

    async def in_background(self, step: Callable[..., T], *args: Any) -> T:
        """Run `step` beside both, for what no request waits for. Raises as `on_writer`."""
        return await self._run(self._background, step, *args)

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
        self._background.shutdown(wait=False)
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
                running.add_done_callback(_hear)
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


def _hear(running: asyncio.Future[T]) -> None:
    """Take note of how a step ended: nobody may wait for it any more, and that is no defect."""
    if not running.cancelled():
        running.exception()


def _is_away(error: PyMongoError) -> bool:
    return isinstance(error, ConnectionFailure) or error.timeout


_Waiting = tuple[Sequence[In], asyncio.Future[Any], bool]
"""Items of one caller, who waits for the future of them, and whether they are several."""


class Batches(Generic[In, Out]):
    """Collects what `submit` is given, and has `work` do it one batch at a time, in order.

    `work` returns one result per item; a TrackingError among them is raised for that item only. If
    it raises one, that is raised for every item of the batch.
    """

    def __init__(
        self,
        work: Callable[[list[In]], Awaitable[Sequence[Out | TrackingError]]],
        most: int = BATCH_SIZE,
        size: Callable[[In], int] = lambda _: 1,
        rest_seconds: float = 0.0,
    ) -> None:
        """A batch ends with the item by which the sizes of its items reach `most`.

        `rest_seconds`: so long after a batch the next one is gathered; who comes later is done at
        once.
        """
        self._work = work
        self._most = most
        self._size = size
        self._rest_seconds = rest_seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting[In]] = deque()
        self._task: asyncio.Task[None] | None = None

    def submit(self, item: In) -> asyncio.Future[Out]:
        """Have one item done. A caller that is cancelled leaves its item in the batch."""
        done: asyncio.Future[Out] = self._loop.create_future()
        self._waiting.append(((item,), done, False))
        if self._task is None:
            # It begins after this turn of the loop, so that all of the turn get into one batch.
            self._task = asyncio.create_task(self._run())
        return done

    def submit_all(self, items: Sequence[In]) -> asyncio.Future[list[Out | TrackingError]]:
        """Have several items done in the same batch; gives the result of each, raises nothing."""
        done: asyncio.Future[list[Out | TrackingError]] = self._loop.create_future()
        self._waiting.append((items, done, True))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return done

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._run_one(self._next())
                if self._rest_seconds:
                    await asyncio.sleep(self._rest_seconds)
        finally:
            self._task = None

    def _next(self) -> list[_Waiting[In]]:
        batch, room = list[_Waiting[In]](), self._most
        while self._waiting and room > 0:
            batch.append(self._waiting.popleft())
            room -= sum(map(self._size, batch[-1][0]))
        return batch

    async def _run_one(self, batch: list[_Waiting[In]]) -> None:
        results: Sequence[Out | TrackingError] = []
        items = [item for several, _, _ in batch for item in several]
        try:
            results = await self._work(items)
        except TrackingError as error:
            results = [error] * len(items)
        except Exception as error:  # noqa: BLE001 - a defect; the next batch is done all the same
            emit_unexpected(error)
        finally:
            # A defect, or the end of the worker: those who wait must not wait for ever.
            self._resolve(batch, results or [ResultsDown("the write was cut off")] * len(items))

    @staticmethod
    def _resolve(batch: Sequence[_Waiting[In]], results: Sequence[Out | TrackingError]) -> None:
        start = 0
        for items, done, several in batch:
            result, start = results[start], start + len(items)
            if done.done():
                continue
            if several:
                done.set_result(results[start - len(items) : start])
            elif isinstance(result, TrackingError):
                done.set_exception(copy.copy(result))  # each raise adds to its own traceback
            else:
                done.set_result(result)


class OfCall(Protocol):
    """Something to write that a call found out."""

    @property
    def call(self) -> Call:
        """That call."""


class Marks:
    """The marks of forgotten parcels, as one thread that writes knows them."""

    def __init__(self, forgotten: Collection[Document]) -> None:
        self._forgotten = forgotten
        self._any = False
        self._look_at = float("-inf")

    def left_of(self, writes: Sequence[W]) -> list[W]:
        """Select writes that were granted after their parcel's mark. Raises PyMongoError."""
        marks = self.of(id_of(each.call.request) for each in writes)
        return [
            each
            for each in writes
            if each.call.granted_us > marks.get(id_of(each.call.request), NEVER)
        ]

    def of(self, names: Iterable[str]) -> Mapping[str, int]:
        """Look up `at_us` of those of these parcels that have a mark. Raises PyMongoError."""
        now = time.monotonic()
        if now >= self._look_at:
            self._any = self._forgotten.find_one({}, {"_id": 1}) is not None
            self._look_at = now + MARKS_LOOK_SECONDS
        if not self._any:
            return {}
        found = self._forgotten.find({"_id": {"$in": list(names)}})
        return {mark["_id"]: mark["at_us"] for mark in found}
