"""Re-checks: puts an AUTOMATIC request for each active parcel whose next check is due.

`service/worker/results/recheck_policy.py` decides when a check is due.

Put first, put off afterwards: a worker that vanishes in between leaves the check due, and the
request's id, made of parcel and due time, keeps a second put from being a second operation.
Couriers take turns, so that none waits for the parcels of another. A parcel for which nobody but
shipments asked is checked as long as one of these is active.

A line takes no more of them than it can call before they are put again, and none while it stands:
what is not put stays due.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import random
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Protocol

from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.worker.results.connection import Store
from service.worker.results.database import Refusal, log_refused
from service.worker.results.document import ASKED_ALONE, fields_in
from service.worker.results.queries import (
    due_for_check,
    end_checks,
    give_up_check,
    put_off_checks,
    slugs_with_due,
)
from service.worker.results.shipments import no_longer_followed
from service.worker.tubes.envelope import decode_request, encode_request
from service.worker.tubes.put_servers import Putter
from tracking.errors import AWAY, LimitsBroken, MalformedJob
from tracking.operation import recheck_id
from tracking.request import FIELDS, MAIN, Origin, Slug, TrackingRequest, parse_account

PERIOD_SECONDS = 30.0

ROUND_MOST = 1_000
"""Checks that are looked up in one round, in equal shares for the couriers that have some due."""

SHARE_LEAST = 10
"""Of each courier, however many there are: most of what one costs is the look-up itself."""

TOGETHER_MOST = 100
"""Checks that are put together: to write them holds the event loop for some milliseconds."""

LOOK_MOST = 100_000
"""Checks of a courier that one look puts: more than nearly every rate lets start in PUT_OFF."""

PUT_OFF = dt.timedelta(hours=1)
"""When a check is due again whose request found no answer; an answer sets its own time."""

EXPIRES_AFTER = dt.timedelta(hours=6)
"""A re-check that still waits then is pointless: the next one is due as well."""

_KEPT = " -"
"""Whatever a courier's numbers keep: how they are stored is how they are asked for."""


class Lines(Protocol):
    """The lines of couriers, and the room on each."""

    async def room(self, slug: Slug, most: int, within: float) -> int:
        """How many re-checks a courier takes that are called in `within` seconds; LimitsDown."""


class Recheck:
    """Looks every half a minute for parcels whose next check is due.

    `lines`: None for couriers that take any number of them.
    """

    def __init__(
        self, store: Store, putter: Putter, slugs: Collection[Slug], lines: Lines | None = None
    ) -> None:
        self._store = store
        self._putter = putter
        self._slugs = slugs
        self._lines = lines
        self._refused: dict[str, tuple[object, dt.datetime]] = {}
        """The `_id`s of documents that MongoDB lets nobody put off, and when they are due again."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS * random.uniform(0.8, 1.2))
            with suppress(*AWAY):  # said elsewhere; what is due stays due
                await self.look()

    async def look(self, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> int:
        """Put every check that is due and that its line takes. Returns how many.

        Raises TubesDown, ResultsDown, LimitsDown.
        """
        count, room = 0, dict[str, int]()
        while found := await self._due(moment := now(), room):
            for start in range(0, len(found), TOGETHER_MOST):
                count += await self._put(found[start : start + TOGETHER_MOST], moment)
        return count

    async def _due(self, moment: dt.datetime, room: dict[str, int]) -> list[dict[str, Any]]:
        """Find those of one round. `room`: what each courier takes yet in this look."""
        read = self._store.on_reader
        slugs = await read(slugs_with_due, self._store.tracking, moment)
        # A slug that is no text is no courier that is gone, but a document to be reported.
        ours = [slug for slug in slugs if not isinstance(slug, str) or slug in self._slugs]
        share = max(SHARE_LEAST, ROUND_MOST // max(1, len(ours)))
        self._refused = {text: each for text, each in self._refused.items() if each[1] > moment}
        found, but = [], [name for name, _ in self._refused.values()]
        for slug in ours:
            if not isinstance(slug, str):
                found += await read(_due_checks, self._store, slug, moment, share, but)
                continue
            if slug not in room:
                room[slug] = await self._room(Slug(slug))
            if most := min(share, room[slug]):
                some = await read(_due_checks, self._store, slug, moment, most, but)
                room[slug] -= len(some)
                found += some
        return found

    async def _room(self, slug: Slug) -> int:
        """How many checks of a courier one look puts."""
        if self._lines is None:
            return LOOK_MOST
        try:
            return await self._lines.room(slug, LOOK_MOST, PUT_OFF.total_seconds())
        except LimitsBroken as error:
            emit_unexpected(error, slug=slug)
            return 0

    async def _put(self, documents: Sequence[dict[str, Any]], moment: dt.datetime) -> int:
        requests, names, ended = [], [], []
        for document in documents:
            if document["unfollowed"]:
                ended.append(document["_id"])
                continue
            try:
                requests.append(check_of(document, moment))
                names.append(document["_id"])
            except (MalformedJob, TypeError, ValueError) as error:
                await self._give_up(document["_id"], moment, error)
        await self._putter.put_rechecks(requests)
        tracking, until = self._store.tracking, moment + PUT_OFF
        stay = await self._store.on_writer(put_off_checks, tracking, names, moment, until)
        if ended:
            stay += await self._store.on_writer(end_checks, tracking, ended, moment)
        self._leave(stay, moment)
        return len(names)

    async def _give_up(self, name: object, moment: dt.datetime, error: Exception) -> None:
        why = error.detail if isinstance(error, MalformedJob) else str(error)
        stay = await self._store.on_writer(give_up_check, self._store.tracking, name, moment, why)
        emit(Event.BAD_DOCUMENT, document=str(name), error=why)
        self._leave(stay, moment)

    def _leave(self, refused: Sequence[Refusal], moment: dt.datetime) -> None:
        """Pass over for an hour what would else be due at once again."""
        for name, _ in refused:
            self._refused[str(name)] = (name, moment + PUT_OFF)
        log_refused(self._store.tracking, refused)


def _due_checks(
    store: Store, slug: object, moment: dt.datetime, most: int, but: Sequence[object]
) -> list[dict[str, Any]]:
    """Find checks that are due; `unfollowed`: nobody follows the parcel any more."""
    found = due_for_check(store.tracking, slug, moment, most, but)
    names = [each["_id"] for each in found if isinstance(each["_id"], str)]
    gone = no_longer_followed(store.shipments, store.operations, names) if names else []
    return [each | {"unfollowed": each["_id"] in gone} for each in found]


def check_of(document: dict[str, Any], moment: dt.datetime) -> TrackingRequest:
    """Make the request of the account whose document it is, as a worker will read it.

    Raises MalformedJob, TypeError, ValueError for a document that this service did not write.
    """
    account, fields = parse_account(document.get("account", MAIN)), fields_in(document)
    name = document["_id"]
    slug: Any = document.get("slug")
    number: Any = document.get("tracking_number")
    if not isinstance(name, str):
        raise MalformedJob("bad_id", "`_id` is not a string: write SLUG:NUMBER")
    for member in ("slug", "tracking_number"):
        if isinstance(document.get(member), bytes):
            raise MalformedJob("bad_document", f"`{member}` is bytes: write a string")
    key = f"{name}@{document['next_check_at'].isoformat()}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    written = encode_request(
        TrackingRequest(
            slug=slug,
            number=number,
            given=number,
            id=recheck_id(account, digest),
            origin=Origin.AUTOMATIC,
            expires_at=(moment + EXPIRES_AFTER).timestamp(),
            fields={each: fields[each] for each in FIELDS if each in fields},
            alone=document.get(ASKED_ALONE) is True,
        )
    )
    request = decode_request(written, lambda slug: (Slug(slug), _KEPT))
    if request.number != number:
        raise MalformedJob("bad_number", f"{number!r} is not in its one form, {request.number!r}")
    return request
