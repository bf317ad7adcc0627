"""The planner puts an AUTOMATIC request for each active parcel whose next check is due.

`service/worker/results/recheck_policy.py` decides when a check is due, and which ones come first.

All processes look, and one of them plans the checks of a courier: who holds its lease
(limits/workers.py). Put first, put off afterwards: a planner that vanishes in between leaves the
check due, and the request's id, made of parcel and due time, keeps a second put from being a second
operation. Couriers take turns, so that none waits for the parcels of another. A parcel for which
nobody but shipments asked is checked as long as one of these is active.

Of an account that has no call left today the checks are put off until it has again.

A line takes no more of them than it can call within minutes, and none while it stands: what is not
put stays due. Where a call holds several numbers, checks that would be due soon fill
the last one: each is moved by at most a tenth of its time.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from limits.admin.snapshot import LineSnapshots
from limits.workers import LEASE_SECONDS, Planners
from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.worker.results.connection import Store
from service.worker.results.database import Refusal, log_refused
from service.worker.results.document import ASKED_ALONE, fields_in
from service.worker.results.queries import (
    Search,
    are_more_due,
    call_in_checks,
    due_for_check,
    early_for_check,
    end_checks,
    give_up_check,
    put_off_checks,
    slugs_with_due,
    suspended_accounts,
)
from service.worker.results.recheck_policy import Pace, read_pace
from service.worker.results.shipments import no_longer_followed
from service.worker.tubes.envelope import decode_request, encode_request
from service.worker.tubes.put_servers import Putter
from tracking.errors import LimitsBroken, MalformedJob
from tracking.operation import recheck_id
from tracking.request import FIELDS, MAIN, Account, Origin, Slug, TrackingRequest, parse_account

PERIOD_SECONDS = 30.0

ROUND_MOST = 5_000
"""Checks that are looked up in one round, in equal shares for the couriers that have some due."""

SHARE_LEAST = 10
"""Of each courier, however many there are: most of what one costs is the look-up itself."""

TOGETHER_MOST = 100
"""Checks that are put together: to write them holds the event loop for some milliseconds."""

LOOK_MOST = 100_000
"""Checks of a courier that one look puts: more than nearly every rate lets start in AHEAD."""

AHEAD = dt.timedelta(minutes=3)
"""How long a line is to be busy with what is put: longer than others need to take over from a
planner that vanished, and so short that those that go first hardly wait behind others."""

PUT_OFF = dt.timedelta(hours=1)
"""When a check is due again whose request found no answer; an answer sets its own time."""

EXPIRES_AFTER = dt.timedelta(hours=6)
"""A re-check that still waits then is pointless: the next one is due as well."""

HELD_FOR = dt.timedelta(seconds=LEASE_SECONDS)
"""For how long a planner goes on with what it found."""

_KEPT = " -"
"""Whatever a courier's numbers keep: how they are stored is how they are asked for."""


@dataclass(slots=True)
class _Share:
    """What a courier takes in one look: `room` for more checks, `together` in a call.

    `scarce`: more are due than there is room for. `riding`: of those that were found, how many take
    no call of their own.
    """

    room: int
    together: int = 1
    scarce: bool = False
    riding: int = 0


class Recheck:
    """Looks every half a minute for parcels whose next check is due, and puts those that it plans.

    `lines`: None for couriers that take any number of them. `planners`: None where nobody else
    plans.
    """

    def __init__(
        self,
        store: Store,
        putter: Putter,
        slugs: Collection[Slug],
        lines: LineSnapshots | None = None,
        planners: Planners | None = None,
    ) -> None:
        self._store = store
        self._putter = putter
        self._slugs = slugs
        self._lines = lines
        self._planners = planners
        self._turns: dict[Slug, int] = {}
        """How many of each courier were put where more were due: every FOURTH goes not first."""
        self._refused: dict[str, tuple[object, dt.datetime]] = {}
        """The `_id`s of documents that MongoDB lets nobody put off, and when they are due again."""
        self._resting: tuple[frozenset[Account], float] = frozenset(), 0.0
        """The accounts that have no call left today, and when they have again."""
        self._suspended: frozenset[Account] = frozenset()
        """The accounts that are suspended: their checks are looked at again later."""

    async def look(self, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> int:
        """Put every check that is due, that this process plans, and that its line takes.

        Returns how many. Raises TubesDown, ResultsDown, LimitsDown.
        """
        count, shares = 0, dict[Slug, _Share]()
        if self._lines:
            await self._learn_who_rests(self._lines, now())
        suspended = await self._store.on_reader(suspended_accounts, self._store.accounts)
        self._suspended = frozenset(suspended)
        while found := await self._due(moment := now(), shares):
            for start in range(0, len(found), TOGETHER_MOST):
                if now() - moment >= HELD_FOR:
                    break  # another process may plan these by now
                count += await self._put(found[start : start + TOGETHER_MOST], moment)
        return count

    async def _learn_who_rests(self, lines: LineSnapshots, moment: dt.datetime) -> None:
        """Learn which accounts have no call left; who has again before the day ends goes on now.

        `operator/quotas.py` calls in what was put off before it: this is for what was meanwhile.
        """
        before, ends = self._resting
        self._resting = await lines.resting()
        for account in before - self._resting[0] if self._resting[1] == ends else ():
            until = dt.datetime.fromtimestamp(ends, dt.UTC)
            await self._store.on_writer(
                call_in_checks, self._store.tracking, account, until, moment
            )

    async def _due(self, moment: dt.datetime, shares: dict[Slug, _Share]) -> list[dict[str, Any]]:
        """Find those of one round. `shares`: what each courier takes yet in this look."""
        read = self._store.on_reader
        slugs = await read(slugs_with_due, self._store.tracking, moment)
        # A slug that is no text is no courier that is gone, but a document to be reported.
        odd = [slug for slug in slugs if not isinstance(slug, str)]
        texts = [Slug(slug) for slug in slugs if isinstance(slug, str)]
        ours = await self._planned([slug for slug in texts if slug in self._slugs])
        share = max(SHARE_LEAST, ROUND_MOST // max(1, len(odd) + len(ours)))
        self._refused = {text: each for text, each in self._refused.items() if each[1] > moment}
        found, but = [], [name for name, _ in self._refused.values()]
        for slug in odd:
            found += await read(_due_checks, self._store, Search(slug, moment, share, but))
        for slug in ours:
            if slug not in shares:
                shares[slug] = await self._share(slug, moment)
            found += await self._due_of(slug, share, shares[slug], moment)
        return found

    async def _planned(self, slugs: Sequence[Slug]) -> Sequence[Slug]:
        return slugs if self._planners is None else await self._planners.hold(slugs)

    async def _due_of(
        self, slug: Slug, most: int, share: _Share, moment: dt.datetime
    ) -> list[dict[str, Any]]:
        """Find those of one courier; where these are all, those too that fill its last call."""
        if not (most := min(most, share.room)):
            return []
        read, but = self._store.on_reader, [name for name, _ in self._refused.values()]
        turn = self._turns.get(slug, 0) if share.scarce else None
        found = await read(_due_checks, self._store, Search(slug, moment, most, but, turn))
        if turn is not None:
            self._turns[slug] = turn + len(found)
        going = [each for each in found if self._rests_until(each, moment) is None]
        share.riding += sum(ASKED_ALONE not in each for each in going)
        share.room -= len(going)
        if len(found) < most:
            if lacking := min(share.room, -share.riding % share.together):
                search = Search(slug, moment, lacking, but)
                found += await read(_early_checks, self._store, search)
            share.room = 0
        return found

    def _rests_until(self, document: dict[str, Any], moment: dt.datetime) -> dt.datetime | None:
        """When a check is due again whose account has no call left today, or is suspended.

        None for all others.
        """
        accounts, ends = self._resting
        account = document.get("account", MAIN)
        if account in self._suspended:
            return moment + PUT_OFF
        return dt.datetime.fromtimestamp(ends, dt.UTC) if account in accounts else None

    async def _share(self, slug: Slug, moment: dt.datetime) -> _Share:
        """What a courier takes in one look."""
        if self._lines is None:
            return _Share(LOOK_MOST)
        try:
            room = await self._lines.room(slug, LOOK_MOST, AHEAD.total_seconds())
        except LimitsBroken as error:
            emit_unexpected(error, slug=slug)
            return _Share(0)
        search = Search(slug, moment, room)
        scarce = room > 0 and await self._store.on_reader(
            are_more_due, self._store.tracking, search
        )
        return _Share(room, self._lines.together(slug), scarce)

    async def _put(self, documents: Sequence[dict[str, Any]], moment: dt.datetime) -> int:
        requests, ended = list[TrackingRequest](), list[str]()
        put = defaultdict[tuple[bool, dt.datetime], dict[str, dt.datetime]](dict)
        for document in documents:
            if document["unfollowed"]:
                ended.append(document["_id"])
                continue
            until = self._rests_until(document, moment)
            try:
                if until is None:
                    requests.append(check_of(document, moment))
            except (MalformedJob, TypeError, ValueError) as error:
                await self._give_up(document["_id"], moment, error)
                continue
            first = read_pace(document.get("check_pace")).first
            again = until or moment + PUT_OFF
            put[first, again][document["_id"]] = document["next_check_at"]
        await self._putter.put_rechecks(requests)
        write, tracking, stay = self._store.on_writer, self._store.tracking, list[Refusal]()
        for (first, again), checks in put.items():
            pace = Pace(first, int(PUT_OFF.total_seconds()), put=True)
            stay += await write(put_off_checks, tracking, checks, pace, again)
        if ended:
            stay += await write(end_checks, tracking, ended, moment)
        self._leave(stay, moment)
        return len(requests)

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


def _due_checks(store: Store, search: Search) -> list[dict[str, Any]]:
    """Find checks that are due; `unfollowed`: nobody follows the parcel any more."""
    return _followed(store, due_for_check(store.tracking, search))


def _early_checks(store: Store, search: Search) -> list[dict[str, Any]]:
    """Find checks that may be put before their time."""
    found = _followed(store, early_for_check(store.tracking, search))
    return [each for each in found if not each["unfollowed"]]


def _followed(store: Store, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
