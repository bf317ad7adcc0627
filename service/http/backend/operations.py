"""Operations by their ids: where each stands, awaited and cancelled. For a process that serves."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from limits.admin.cancel import Cancelled, Canceller, NotCancelled
from limits.admin.snapshot import LineSnapshots
from limits.admin.view import Place, View
from limits.admin.violations import Violations, judging
from limits.ends import Ends, hearing
from limits.jobs import Queued
from limits.server import RunInBackground
from service.config.schema import Config
from service.http.backend.listeners import Listeners, Progress, listening, watching
from service.http.backend.operation_view import (
    OperationView,
    placed,
    view_of_members,
    views_of_ends,
)
from service.http.backend.operators import Operators
from service.observe.log import emit_unexpected
from service.operator.connections import book_of, redis_of
from service.operator.put import Sendable
from service.operator.stored import Stored, open_stored
from service.worker.deliveries import replies
from service.worker.results.connection import Batches
from service.worker.results.database import Document, in_thread
from tracking.errors import LimitsBroken, LimitsDown, StoreError, TrackingError
from tracking.operation import State
from tracking.request import Account, Number, Slug

__all__ = ["NotCancelled", "OperationView", "Place"]

SPARE_PART = 10
"""Of the connections one in so many stays free of those that wait."""

PATIENCE_SECONDS = 2.0
"""How long a probe waits."""


class Operations:
    """Questions about operations and acts on them; for one event loop. Methods raise StoreError."""

    held_most = 900
    """How many may wait at once, listeners among them."""

    held: Counter[str | None]
    """How many replies are held for each key or user; None: for all who need none."""

    listeners: Listeners
    progress: Progress

    operators: Operators
    """What operators may ask and do, over the same connections."""

    standings: LineSnapshots
    """How all lines stand."""

    violations: Violations
    """How often a limit was broken."""

    replies: Replies
    """What held replies spare services."""

    def __init__(
        self, view: View, ends: Ends, canceller: Canceller, stored: Stored, queued: Queued
    ) -> None:
        self.stored = stored
        self._queued = queued
        self._view = view
        self._ends = ends
        self._canceller = canceller
        self.held = Counter()
        self._reads: Batches[str, dict[str, Any] | None] = Batches(self._read)

    async def find(self, identity: str) -> OperationView | None:
        """Find one by its id. None: still in its tube, long over, or never put."""
        members = await self._reads.submit(identity) or await self.stored.operation(identity)
        if members is None:
            return None
        found = view_of_members(identity, members)
        return await placed(self._view, found)

    async def end_of(
        self, identity: str, seconds: float, gone: Callable[[], bool]
    ) -> OperationView | None:
        """Find it as it stands when it ends, or after so many seconds; it need not be known yet.

        A waiter who has `gone` is let go within seconds.
        """
        found = await self.find(identity)
        if found and found.ended:
            return found
        await self._ends.ended(identity, seconds, gone)
        return await self.find(identity)

    async def note_reply(self, known: OperationView) -> OperationView:
        """Note the time of the reply that tells its end; gives it with the first such time."""
        if not known.ended:
            return known
        await self._ends.note_reply(known.id)
        return await self.find(known.id) or known

    def note_put(self, put: Iterable[Sendable]) -> None:
        """Have requests that are durable found as QUEUED, soon; nobody needs to wait for that."""
        self._queued.note((each.id, f"{each.slug}:{each.number}") for each in put)

    async def refusal(self) -> str:
        """Say why nothing can be asked just now; "" when it can."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._reads.submit("")
        except (LimitsBroken, LimitsDown) as error:
            return f"{error}"
        except TimeoutError:
            return f"Redis does not answer within {PATIENCE_SECONDS:g} s"
        return ""

    def release(self) -> None:
        """Let all go who wait now, because the process ends."""
        self._ends.release()
        self.listeners.release()

    async def cancel(self, known: OperationView) -> Cancelled:
        """Cancel it where it waits."""
        if known.slug is None or known.number is None:
            return Cancelled(kept=NotCancelled.ENDED, detail=known.members["status"])
        return await self._canceller.cancel(known.slug, known.number, known.id)

    async def of_parcel(
        self, slug: Slug, number: Number, account: Account | None = None
    ) -> list[OperationView]:
        """List those of a parcel, the newest first, or only those of an account.

        Those that wait come first.
        """
        found = await self._view.operations_of(slug, number, account)
        listed = await self.stored.operations(slug, number, found, account)
        return [OperationView(each["id"], slug, number, each) for each in listed]

    async def _read(self, ids: list[str]) -> Sequence[dict[str, Any] | TrackingError | None]:
        found = await self._view.operations(ids)
        return [found.get(each) for each in ids]


class Replies:
    """Has services not hear of ends of which a held reply tells, where their requests say so."""

    def __init__(self, ends: Ends, stored: Stored) -> None:
        self._ends = ends
        self._stores = stored.stores

    async def claim(self, known: OperationView) -> Callable[[], Awaitable[None]] | None:
        """Put off what a service would hear of an end; gives what to call behind the reply.

        None: nobody hears of it, or it cannot be put off; then both tell.
        """
        if not (known.ended and known.members.get("webhook") and known.members.get("cancels")):
            return None
        try:
            status = await self._ends.status_of(known.id)
            claimed = await in_thread(replies.claim, self._stores, known.id, status)
        except StoreError:
            return None
        return None if claimed is None else functools.partial(self._cancel, claimed)

    async def _cancel(self, claimed: Document) -> None:
        with contextlib.suppress(StoreError):  # it is due soon, then
            await in_thread(replies.cancel, self._stores, claimed)


def queued(put: Sendable) -> OperationView:
    """View a durable request of which no worker has said anything yet: it is QUEUED."""
    members = {"status": State.QUEUED.value, "startedAt": None, "finishedAt": None, "output": None}
    return OperationView(put.id, put.slug, Number(put.number), members)


@asynccontextmanager
async def open_operations(config: Config, beside: RunInBackground) -> AsyncIterator[Operations]:
    """Open what asks about operations, and hears of their ends."""
    book = book_of(config)
    rules_of = book.rules_of
    async with (
        redis_of(config) as redis,
        redis_of(config) as blocking,  # the reader of ends keeps a connection for itself
        hearing(redis, blocking, beside, emit_unexpected) as ends,
        aclosing(Queued(redis)) as queued,
        judging(redis, rules_of, beside, book) as violations,
        open_stored(config) as stored,
    ):
        view = View(redis, rules_of, book)
        made = Operations(view, ends, Canceller(redis, rules_of), stored, queued)
        made.operators, made.replies = Operators(config, view, stored.stores), Replies(ends, stored)
        made.standings, made.violations = LineSnapshots(redis, rules_of, book), violations
        made.held_most = config.http.connections - config.http.connections // SPARE_PART
        read = functools.partial(views_of_ends, view, stored)
        async with (
            listening(ends, read, beside) as made.listeners,
            watching(view, beside) as made.progress,
        ):
            yield made
