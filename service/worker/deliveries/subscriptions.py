"""Subscriptions: what this process knows of services, which people change while it runs.

A change of a service is a change of rules: it raises their revision in MongoDB, then in Redis
(`announce`), and no step grants a call by older ones. So a process reads the services again where a
script refuses it, at a sweep, or by itself every PERIOD_SECONDS, whichever is first: who changes a
service may die before the revision is raised, or before Redis hears of it.

Who changes a service writes it before the revision, and who reads takes the revision first: what
goes by a revision is at least as new. A process that has read none yet takes every account for one
that wants to hear.

What is left of a deleted service goes in this order, and each step may be repeated by anybody:

1. its deliveries that are open or held become cancelled, a batch at a time (keeper.py)
2. Redis holds nothing of its line any more: the sweeper clears it (service.ports.Lines)
3. its document says so (`cleared_at`): nobody reads it again
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from redis.asyncio import Redis

from limits.admin.pause import Pauses
from limits.rules import Rules
from service.config.schema import AROUND_ATTEMPT_SECONDS
from service.observe.log import emit_unexpected
from service.worker.deliveries.ingest_label import IngestLabel
from service.worker.deliveries.keeper import note_cleared
from service.worker.deliveries.service import Service, ServiceState, ServiceType, service_in
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.results.database import Collections, Document
from service.worker.results.limit_changes import note_change, read_revision
from tracking.line import DELIVERY, Line, service_line, service_of
from tracking.request import Account

PERIOD_SECONDS = 30.0

SETTLED_SECONDS = 60.0
"""After it was deleted every process that lives knows that, and brings nothing in any more."""

OF_PARCELS = frozenset(name for name in EventName if name.value.startswith("parcel."))

_NO_LINE = service_line("0" * 16)
"""A change of all services; the script wants to have a line named."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one reading found: the services, and when those were deleted that left something."""

    revision: int = 0
    services: Mapping[str, Service] = field(default_factory=dict)
    deleted: Mapping[Line, dt.datetime] = field(default_factory=dict)


class Leftovers:
    """The lines of deleted services of which Redis may still hold something."""

    def __init__(self) -> None:
        self._deleted: Mapping[Line, dt.datetime] = {}
        self._cleared = set[Line]()

    def take(self, deleted: Mapping[Line, dt.datetime]) -> None:
        """Take over what was read: the lines, and when their services were deleted."""
        self._deleted = deleted
        self._cleared &= deleted.keys()

    def lines(self) -> Sequence[Line]:
        """List those that Redis is not known to hold nothing of."""
        return [line for line in self._deleted if line not in self._cleared]

    def clear(self, line: Line) -> None:
        """Take note that Redis holds nothing of a line any more.

        It counts once the deletion has settled: until then another process may bring something in.
        """
        deleted_at = self._deleted.get(line)
        if deleted_at is not None and _age(deleted_at) >= SETTLED_SECONDS:
            self._cleared.add(line)

    def cleared(self) -> Sequence[Line]:
        """List the lines of which Redis holds nothing: their documents are to say so."""
        return sorted(self._cleared)


class _Hearing(dict[Account, bool]):
    """Whether accounts are heard, as far as somebody asked since the services were read.

    Each stored answer asks, in the thread that writes: mostly it is one look-up.
    """

    def __init__(self) -> None:
        super().__init__()
        self._accounts: frozenset[Account] | None = None

    def __missing__(self, account: Account) -> bool:
        while True:
            accounts = self._accounts
            heard = self[account] = accounts is None or account in accounts
            if accounts is self._accounts:  # else `take` may have cleared it before this was set
                return heard

    def take(self, accounts: frozenset[Account]) -> None:
        """Go by other accounts."""
        self._accounts = accounts
        self.clear()


class Subscriptions:
    """The services that a process knows. One per process."""

    def __init__(self, store: Store, timeout_most: float = 25.0) -> None:
        """`timeout_most`: of an attempt, in seconds, whatever a service has set before."""
        self._store = store
        self._timeout_most = timeout_most
        self._found = Found()
        self._knows = False
        self._hearing = _Hearing()
        self.hears: Callable[[Account], bool] = self._hearing.__getitem__
        """Whether a change of the account's parcels is marked; True while nothing is known yet."""
        self._of: Mapping[Account, Sequence[Service]] = {}
        self._lines: Mapping[Line, Service] = {}
        self._labels: Mapping[IngestLabel, Service] = {}
        self.leftovers = Leftovers()

    @property
    def revision(self) -> int:
        """The revision of the services that this process goes by; 0 also before it knows any."""
        return self._found.revision

    @property
    def longest_seconds(self) -> float:
        """How long a call of any service may take; 0 where there is none."""
        longest = max((each.timeout_seconds for each in self.all()), default=None)
        return 0.0 if longest is None else longest + AROUND_ATTEMPT_SECONDS

    async def learn(self) -> None:
        """Read all services that are not deleted, and go by them. Raises ResultsDown."""
        self._take(await self._store.on_reader(read_services, self._store))

    async def look(self) -> None:
        """Learn where anything was changed. Raises ResultsDown."""
        newest = await self._store.on_reader(read_revision, self._store.limits)
        if newest != self.revision or not self._knows:
            await self.learn()

    def of(self, account: Account) -> Sequence[Service]:
        """List an account's services that hear of events, in all states but deleted."""
        return self._of.get(account, ())

    def named(self, account: Account, name: str) -> Service | None:
        """Find a service of these by its name."""
        return next((each for each in self.of(account) if each.name == name), None)

    def by_line(self, line: Line) -> Service | None:
        """Find the service of a line; None where it is deleted, or not known here."""
        return self._lines.get(line)

    def active(self, label: IngestLabel) -> Service | None:
        """Find the service of an ingest label; None where it is not active, or not known here."""
        return self._labels.get(label)

    def all(self) -> Sequence[Service]:
        """List all services."""
        return tuple(self._lines.values())

    @property
    def are_none(self) -> bool:
        """Whether it is known that there is no service, nor anything left of a deleted one."""
        return self._knows and not self._found.services and not self._found.deleted

    def _take(self, found: Found) -> None:
        known, of = self._found.services, dict[Account, list[Service]]()
        services = dict[str, Service]()
        for name, read in sorted(found.services.items()):
            most = min(read.timeout_seconds, self._timeout_most)
            each = read if most == read.timeout_seconds else replace(read, timeout_seconds=most)
            # The same object where nothing of it has changed: the rules of its line are kept by it.
            before = known.get(name)
            services[name] = each = before if before == each else each
            if each.type is ServiceType.WEBHOOK:
                of.setdefault(each.account, []).append(each)
        self._of = {account: tuple(some) for account, some in of.items()}
        self._lines = {each.line: each for each in services.values()}
        self._labels = {
            IngestLabel(each.account, each.name, each.ingest.random): each
            for each in services.values()
            if each.type is not ServiceType.WEBHOOK and each.state is ServiceState.ACTIVE
        }
        self._hearing.take(frozenset(each.account for each in services.values() if _hears(each)))
        self._found = Found(found.revision, services, found.deleted)
        self.leftovers.take(found.deleted)
        self._knows = True


class Keeping:
    """Keeps the subscriptions of one process."""

    def __init__(
        self, store: Store, leftovers: Leftovers, learn: Callable[[], Awaitable[None]]
    ) -> None:
        """`learn` reads the services again, and what else goes by their revision."""
        self._store = store
        self._leftovers = leftovers
        self._learn = learn

    async def look(self) -> None:
        """Look once. Raises StoreError."""
        await self._learn()
        for line in self._leftovers.cleared():
            await self._store.in_background(note_cleared, self._store, service_of(line))


def read_services(stores: Collections) -> Found:
    """Read all services, and which deleted ones left something. Raises PyMongoError."""
    revision = read_revision(stores.limits)
    there, deleted = list[Document](), dict[Line, dt.datetime]()
    for document in stores.services.find({"cleared_at": None}):
        if document.get("state") == ServiceState.DELETED:
            deleted[service_line(document["_id"])] = document.get("deleted_at") or dt.datetime.now(
                dt.UTC
            )
        else:
            there.append(document)
    return Found(revision, {each.id: each for each in readable(there)}, deleted)


def readable(documents: Iterable[Document]) -> Iterator[Service]:
    """Read documents of services; the others go on without what is none, which the log tells."""
    for each in documents:
        try:
            yield service_in(each)
        except (LookupError, TypeError, ValueError) as error:
            # Of a later version, or of a person.
            emit_unexpected(error, document=str(each.get("_id")))


async def announce(store: Store, redis: Redis, line: Line = _NO_LINE) -> None:
    """Have every process hear that services were changed. Raises StoreError: repeat it.

    `line`: of the one that was, so that its drainer goes by its new rules at once.
    """
    revision = await store.in_background(note_change, store.limits)
    await Pauses(redis, lambda _: Rules(kind=DELIVERY)).revise(line, revision)


def _hears(service: Service) -> bool:
    wanted = service.wanted.events
    return service.type is ServiceType.WEBHOOK and (not wanted or bool(wanted & OF_PARCELS))


def _age(since: dt.datetime) -> float:
    return (dt.datetime.now(dt.UTC) - since).total_seconds()
