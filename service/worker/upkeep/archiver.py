"""The archiver writes ended operations to MongoDB, in batches; then Redis may let go of them.

One worker process archives, whichever has the locks (limits/archive.py); the others look now and
then whether it vanished. What it has written it reports with its next question: a process that
vanishes in between leaves the batch to be written once more, which changes nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial

from limits.archive import DAY_MS, Archived, Ended, ToArchive
from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
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


class Archiver:
    """Archives until cancelled. One per process."""

    def __init__(self, to_archive: ToArchive, store: Store, *, mirrored: bool = False) -> None:
        """`mirrored`: what waits in Redis stands in MongoDB too, until it has ended."""
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
            seconds = PERIOD_SECONDS * random.uniform(0.8, 1.2)
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
                await asyncio.sleep(seconds)

    async def step(self) -> float | None:
        """Report the last batch, and archive one more. Raises LimitsDown, ResultsDown.

        Returns seconds after which to ask again, below 0 for at once; None: when it suits.
        """
        await self._store.available()
        given = await self._to_archive.ask(self._reported, TOGETHER_MOST)
        self._reported = ()
        self.works = not isinstance(given, float)
        if isinstance(given, float):
            return given + random.uniform(0.0, 1.0)
        if not given:
            return None
        doubted, self._doubted = self._doubted, True
        archive = partial(self._archive, given, doubted=doubted)
        told = await self._store.in_background(patiently, CONFIRM_SECONDS, archive)
        reported, unstorable, aside = told
        self._doubted = False
        for identity, why in unstorable:
            emit(Event.NOT_ARCHIVED, operation=identity, error=why)
        log_refused(self._store.operations, aside)
        self._reported = reported
        return None if len(given) < TOGETHER_MOST else -1.0

    def _archive(
        self, given: Sequence[Ended], *, doubted: bool
    ) -> tuple[list[Archived], list[Refusal], list[Refusal]]:
        """Store what is given.

        Tells what to report, and why some cannot be stored at all, or are refused and kept aside.
        """
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
        return reported, unstorable + more, aside
