"""The archiver writes ended operations to MongoDB, in batches; then Redis may let go of them.

One worker process archives, whichever has the locks (limits/archive.py); the others look now and
then whether it vanished. What it has written it reports with its next question: a process that
vanishes in between leaves the batch to be written once more, which changes nothing.

A service that a request named hears of its end before that is reported. So where there are services
the archiver looks as soon as something has ended.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from limits.archive import DAY_MS, Archived, Ended, ToArchive
from limits.ends import NO_EVENT, EndStream
from service.observe.background import rest, wake_at
from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.worker.deliveries.operation_ends import OperationEnds
from service.worker.results.connection import Store, patiently
from service.worker.results.database import Document, Refusal, log_refused
from service.worker.results.operations import NotArchivable, archive_ended, close_open, read_ended
from tracking.errors import AWAY, LimitsBroken, ResultsDown

PERIOD_SECONDS = 5.0
"""How soon to look again when less than a batch was there: a third of the first lock's time."""

CONFIRM_SECONDS = 12.0
"""How long a batch waits for a majority that lags: shorter than the first lock lives."""

TOGETHER_MOST = 300
"""Operations of one batch: Redis is busy with them for three milliseconds, MongoDB for ten."""

GATHER_SECONDS = 0.2
"""How long an end waits for others of its batch, where services may hear of it."""


class Stored(NamedTuple):
    """A batch that is stored: what to report of it, and the documents that name a service.

    `unstorable` cannot be stored at all; `aside` MongoDB refuses.
    """

    reported: Sequence[Archived]
    unstorable: Sequence[Refusal]
    aside: Sequence[Refusal]
    named: Sequence[Document]


class Ears:
    """Hears that something ended, where there is a service that may want to know it soon."""

    def __init__(self, stream: EndStream, has_services: Callable[[], Awaitable[bool]]) -> None:
        """`has_services` raises ResultsDown where nobody knows."""
        self._stream = stream
        self._has_services = has_services
        self._listens = False
        self._at = NO_EVENT

    async def mark(self) -> None:
        """Remember where the stream stands. Raises LimitsDown."""
        if self._listens:
            self._at = await self._stream.newest()

    async def rest(self, seconds: float) -> None:
        """Wait for so long, or until something has ended since the mark."""
        loop = asyncio.get_running_loop()
        until = wake_at(loop.time(), seconds)
        with suppress(*AWAY, LimitsBroken):  # said elsewhere
            while loop.time() < until and await self._is_heard():
                read = await self._stream.next(self._at, 1)
                if read.ends or read.lost:
                    await asyncio.sleep(GATHER_SECONDS)
                    return
        await asyncio.sleep(max(0.0, until - loop.time()))

    async def _is_heard(self) -> bool:
        was, self._listens = self._listens, await self._has_services()
        if self._listens and not was:
            await self.mark()
        return self._listens


class Telling(NamedTuple):
    """What an archiver tells services of ends with, and how it hears of these."""

    ends: OperationEnds
    ears: Ears


class Archiver:
    """Archives until cancelled. One per process."""

    def __init__(
        self,
        to_archive: ToArchive,
        store: Store,
        telling: Telling | None = None,
        *,
        mirrored: bool = False,
    ) -> None:
        """`mirrored`: what waits in Redis stands in MongoDB too, until it has ended."""
        self._telling = telling
        self._to_archive = to_archive
        self._store = store
        self._mirrored = mirrored
        self._reported: Sequence[Archived] = ()
        self._doubted = False
        self.works = False
        """Whether this process is the one that archives."""

    async def run(self) -> None:
        """Archive until cancelled."""
        while True:
            seconds = PERIOD_SECONDS
            try:
                seconds = await self.step() or seconds
            except ResultsDown as error:
                # That MongoDB is away is said elsewhere; it may also refuse these documents.
                if self._store.is_available:
                    emit(Event.NOT_ARCHIVED, error=error.message, fix=error.fix)
            except LimitsBroken as error:
                emit_unexpected(error)
            except AWAY:
                pass  # said elsewhere
            if seconds > 0:
                await self._rest(seconds)

    async def step(self) -> float | None:
        """Report the last batch, and archive one more. Raises LimitsDown, ResultsDown.

        Returns seconds after which to ask again, below 0 for at once; None: when it suits.
        """
        await self._store.available()
        if self._telling:
            await self._telling.ears.mark()
        given = await self._to_archive.ask(self._reported, TOGETHER_MOST)
        self._reported = ()
        self.works = not isinstance(given, float)
        if isinstance(given, float):
            return given + random.uniform(0.0, 1.0)
        if not given:
            return None
        doubted, self._doubted = self._doubted, True
        archive = partial(self._archive, given, doubted=doubted)
        stored = await self._store.in_background(patiently, CONFIRM_SECONDS, archive)
        self._doubted = False
        for identity, why in stored.unstorable:
            emit(Event.NOT_ARCHIVED, operation=identity, error=why)
        log_refused(self._store.operations, stored.aside)
        # Before the report: Redis still has what nobody has told of.
        if self._telling and stored.named:
            await self._telling.ends.archived(stored.named)
        self._reported = stored.reported
        return None if len(given) < TOGETHER_MOST else -1.0

    async def _rest(self, seconds: float) -> None:
        if self._telling and self.works:
            await self._telling.ears.rest(seconds)
        else:
            await rest(seconds)

    def _archive(self, given: Sequence[Ended], *, doubted: bool) -> Stored:
        """Store what is given."""
        documents: list[Document] = []
        reported: list[Archived] = []
        unstorable: list[Refusal] = []
        for each in given:
            try:
                document, archived = read_ended(each)
            except NotArchivable as error:
                # Nobody can do anything with it; it must not hold up the others for ever.
                document, archived = None, Archived(each, DAY_MS)
                unstorable.append((each.id, str(error)))
            reported.append(archived)
            if document is not None:
                documents.append(document)
        store = self._store
        more, aside = archive_ended(store, documents, doubted=doubted)
        if self._mirrored:
            close_open(store.operations, [each.id for each in given], documents)
        named = [each for each in documents if each.get("webhook")]
        return Stored(reported, unstorable + more, aside, named)
