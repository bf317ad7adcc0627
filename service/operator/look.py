"""A look at what runs, what waits and what is known; it changes nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pymongo.collection import Collection

from limits.admin.accounts import older_workers
from limits.admin.running import LiveWorker, RunningCall, running_calls
from limits.admin.snapshot import BY_HAND, LineSnapshot
from limits.admin.soundness import flaws_of
from limits.admin.view import Place, View
from limits.workers import LIVES_SECONDS
from service import PROGRAM
from service.config.schema import Config
from service.operator.connections import Collections, collections_of, redis_of, view_of
from service.operator.producer import Producer, Tubes
from service.operator.stored import kept_operation, with_archived
from service.worker.deliveries.standing import Standing, standing_of
from service.worker.preflight.judgement import judge_memory
from service.worker.results.database import Document, in_thread
from service.worker.results.queries import NOTHING_DUE, Behind, checks_behind, find_tracking
from service.worker.results.statistics import listed_codes
from tracking.errors import LimitsBroken, LimitsDown, ResultsDown
from tracking.line import DELIVERY, courier_line, kind_of
from tracking.operation import ENDS, State, number_of
from tracking.request import Account, Number, Slug

__all__ = [
    "BY_HAND",
    "LIVES_SECONDS",
    "Behind",
    "Document",
    "LineSnapshot",
    "LiveWorker",
    "Place",
    "RunningCall",
    "Tubes",
    "with_archived",
]


@dataclass(frozen=True, slots=True)
class UnknownCode:
    """A code that no table of a courier's module holds, and how often an answer had it."""

    slug: str
    code: str
    count: int
    first_seen: dt.datetime
    last_seen: dt.datetime


@dataclass(frozen=True, slots=True)
class Lines:
    """All lines that anybody ever asked, by name.

    `worries` are sentences about what keeps requests waiting and does not pass by itself.
    """

    told: Sequence[LineSnapshot]
    worries: Sequence[str]


@dataclass(frozen=True, slots=True)
class Look:
    """Everything at one moment. `unknown_codes` is None while MongoDB does not answer.

    `worries` are as in `Lines`.
    """

    couriers: Sequence[LineSnapshot]
    tubes: Sequence[Tubes]
    workers: Sequence[LiveWorker]
    unknown_codes: Sequence[UnknownCode] | None
    worries: Sequence[str]


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """The status of one request. `operation` None: in the tube, forgotten, or never put.

    `seen` is its courier and `place` where it stands, while it waits; `nobody`: it is not known,
    and no worker lives. `dead` is the newest record of it, where nothing else tells of it.
    """

    operation: dict[str, Any] | None
    place: Place | None
    seen: LineSnapshot | None
    nobody: bool
    dead: Document | None = None


@dataclass(frozen=True, slots=True)
class ParcelNow:
    """A parcel in Redis: where its number stands, its courier, its operations, the newest first."""

    place: Place | None
    seen: LineSnapshot
    operations: Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class AtWork:
    """The worker processes that live, and the calls in flight, the oldest first.

    `older`: workers of a version before, which keep those of this one from their start.
    """

    workers: Sequence[LiveWorker]
    older: Sequence[str]
    calls: Sequence[RunningCall]


async def at_work(view: View) -> AtWork:
    """Look at who works, and on what. Raises LimitsDown."""
    return AtWork(
        *await asyncio.gather(view.workers(), older_workers(view.redis), running_calls(view.redis))
    )


@asynccontextmanager
async def looking(
    config: Config, known: Sequence[Slug]
) -> AsyncIterator[Callable[[], Awaitable[Look]]]:
    """Open what looks at everything; `known` are all couriers. A look raises LimitsDown."""
    with Producer(config.beanstalkd.servers) as producer:
        async with view_of(config) as view:
            yield functools.partial(_look, config, view, known, producer)


@asynccontextmanager
async def running(config: Config) -> AsyncIterator[Callable[[], Awaitable[list[RunningCall]]]]:
    """Open what lists the calls in flight, the oldest first. A list raises LimitsDown."""
    async with redis_of(config) as redis:
        yield functools.partial(running_calls, redis)


async def _look(config: Config, view: View, known: Sequence[Slug], producer: Producer) -> Look:
    lines, workers, older, tubes, unknown = await asyncio.gather(
        overview(view, known, _behind(config)),
        view.workers(),
        older_workers(view.redis),
        asyncio.to_thread(lambda: list(producer.tubes())),
        unknown_codes(config),
    )
    return Look(lines.told, tubes, workers, unknown, [*lines.worries, *older_than_this(older)])


def older_than_this(workers: Iterable[str]) -> list[str]:
    """Say which workers of a version before keep those of this one from their start."""
    return [
        f"the worker {each} shares records among accounts, as versions before did: "
        "workers of this version wait until it has stopped. Stop it"
        for each in workers
    ]


async def overview(
    view: View, known: Sequence[Slug], behind: Awaitable[Mapping[str, Behind] | None]
) -> Lines:
    """Look at all lines; `known` are all couriers. Raises LimitsDown.

    `behind`: how far their re-checks are, None while MongoDB does not answer.
    """
    configured = set(map(courier_line, known))
    found, memory, due = await asyncio.gather(view.lines(configured), view.memory(), behind)
    # Those of webhooks are listed by service.
    views = [each for each in found if kind_of(each.line) is not DELIVERY]
    if due is not None:
        views = [with_checks(each, due) for each in views]
    removed = [each for each in views if each.line not in configured and each.waiting]
    flaws = await flaws_of(view.redis, sorted(configured | {each.line for each in views}))
    worries = [*map(str, judge_memory(memory)), *map(str, flaws), *map(_removed, removed)]
    told = [_of_nobody(each) if each in removed else each for each in views if _tells(each)]
    return Lines(told, worries)


def _tells(view: LineSnapshot) -> bool:
    """Leave out couriers that nobody ever asked."""
    return bool(view.running or view.waiting or view.bound_by or view.asked or view.checks_due)


def with_checks(view: LineSnapshot, behind: Mapping[str, Behind]) -> LineSnapshot:
    """Add how many of its re-checks are due, and for how long."""
    due, seconds = behind.get(view.line, NOTHING_DUE)
    return dataclasses.replace(view, checks_due=due, checks_behind_seconds=seconds)


def _of_nobody(view: LineSnapshot) -> LineSnapshot:
    return dataclasses.replace(view, bound_by="not_configured", until_seconds=None)


def _removed(view: LineSnapshot) -> str:
    if kind_of(view.line) is None:
        return (
            f"{view.waiting:,} numbers wait on {view.line}, a line of a kind that this version "
            "does not know: they go on once a worker knows it"
        )
    return (
        f"{view.line} is not configured any more, and {view.waiting:,} numbers wait for it. "
        f"Configure it again ([couriers.{view.line}]), and they go on; or end them: "
        f"{PROGRAM} cancel --slug {view.line}"
    )


async def looked_at(view: View, slugs: Iterable[Slug]) -> dict[Slug, LineSnapshot]:
    """Look at couriers of requests that have not ended. Raises LimitsDown.

    Without a worker that is what keeps also those that are still in the tube.
    """
    found = {slug: await view.line(courier_line(slug)) for slug in slugs}
    if await view.workers():
        return found
    return {
        slug: dataclasses.replace(seen, bound_by="no_worker", until_seconds=None)
        for slug, seen in found.items()
    }


def line_members(view: LineSnapshot) -> dict[str, Any]:
    """Say all of a line to machines."""
    shown = dataclasses.asdict(view)
    return {"slug": shown.pop("line"), **shown}


def members(view: LineSnapshot) -> dict[str, Any]:
    """Say to machines what binds a courier."""
    return {
        "bound_by": view.bound_by,
        "paused_why": view.paused_why,
        "paused_note": view.paused_note,
        "until_seconds": view.until_seconds,
    }


def kept_by(place: Place | None, seen: LineSnapshot) -> LineSnapshot:
    """Say what blocks this request, which may differ from what blocks its line.

    For those far behind that is a quota, say.
    """
    if place is None or place.state is not State.WAITING:
        return seen
    return dataclasses.replace(seen, bound_by=place.bound_by, until_seconds=place.until_seconds)


def stored_tracking(
    config: Config, slug: Slug, number: Number, account: Account
) -> Document | None:
    """Read the document that an account has of a parcel. Raises ResultsDown."""
    with collections_of(config) as stores:
        return find_tracking(stores.tracking, slug, number, account)


async def parcel_of(config: Config, slug: Slug, number: Number) -> ParcelNow:
    """Find where a number's requests stand, and how its courier does. Raises LimitsDown."""
    async with view_of(config) as view:
        seen = await looked_at(view, [slug])
        operations = await view.operations_of(slug, number)
        # That of main, or of the account that asked last.
        open_now = [each["id"] for each in operations if each["status"] not in {None, *ENDS}]
        names = dict.fromkeys([number, *(Number(number_of(number, each)) for each in open_now)])
        for name in names:
            if place := await view.place(courier_line(slug), name):
                break
        return ParcelNow(place, seen[slug], operations)


async def operation_of(config: Config, identity: str) -> RequestStatus:
    """Find one request by its id: in Redis, then in the archive, then among the dead ones.

    Raises LimitsDown, ResultsDown.
    """
    async with view_of(config) as view:
        status = await status_of(view, identity)
    if status.operation is not None:
        return status
    archived, dead = await asyncio.to_thread(kept_operation, config, identity)
    unknown = archived is None and dead is None
    return RequestStatus(archived, None, None, nobody=status.nobody and unknown, dead=dead)


async def status_of(view: View, identity: str) -> RequestStatus:
    """Find one request in Redis by its id, and its place where it waits. Raises LimitsDown."""
    operation = await view.operation(identity)
    if operation is None:
        return RequestStatus(None, None, None, not await view.workers())
    if operation["status"] != State.WAITING:
        return RequestStatus(operation, None, None, nobody=False)
    slug, _, number = operation["tracking"].partition(":")
    own = Number(number_of(number, identity))
    place = await view.place(courier_line(Slug(slug)), own, itself=True)
    seen = (await looked_at(view, [Slug(slug)]))[Slug(slug)]
    return RequestStatus(operation, place, seen, nobody=False)


async def live_workers(config: Config) -> list[LiveWorker] | None:
    """List the worker processes that live. None when Redis does not answer."""
    try:
        async with view_of(config) as view:
            return await view.workers()
    except (LimitsBroken, LimitsDown):
        return None


async def unknown_codes(config: Config) -> Sequence[UnknownCode] | None:
    """Read all, the most frequent first. None when MongoDB does not answer: then go on without."""
    try:
        return await asyncio.to_thread(_read_codes, config)
    except ResultsDown:
        return None


async def behind_in(tracking: Collection[Document]) -> Mapping[str, Behind] | None:
    """Read how far re-checks are behind, by courier. None when MongoDB does not answer."""
    try:
        return await in_thread(checks_behind, tracking, dt.datetime.now(dt.UTC))
    except ResultsDown:
        return None


async def webhooks_in(stores: Collections) -> Standing | None:
    """Read how webhooks stand. None when MongoDB does not answer."""
    try:
        return await in_thread(standing_of, stores, dt.datetime.now(dt.UTC))
    except ResultsDown:
        return None


async def _behind(config: Config) -> Mapping[str, Behind] | None:
    try:
        with collections_of(config) as stores:
            return await behind_in(stores.tracking)
    except ResultsDown:
        return None


def _read_codes(config: Config) -> list[UnknownCode]:
    with collections_of(config) as stores:
        return [UnknownCode(**each) for each in listed_codes(stores.unknown_codes)]
