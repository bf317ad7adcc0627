"""Following requests that were put: their ends as they come, until all have ended or time is up."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any

from limits.admin.snapshot import LineSnapshot
from limits.admin.view import Place, View
from limits.ends import EndStream, Read, hearing
from service.config.schema import Config
from service.observe.background import Background
from service.operator.connections import book_of, redis_of
from service.operator.look import looked_at
from service.operator.put import Sendable
from service.operator.stored import dead_of
from tracking.errors import ResultsDown
from tracking.line import courier_line
from tracking.operation import ENDS, State, number_of
from tracking.request import Number, Slug

PACE_SECONDS = 1.0
"""How often requests are looked for that ended before anybody listened."""

AT_ONCE = 200
"""Operations asked for per round: a million must not keep Redis busy with our curiosity."""

FIRST_LOOK_SECONDS, LOOK_SECONDS = 1.0, 5.0
"""When to look what keeps the requests: most have ended after a second."""

COURIERS_LOOKED_AT = 20

CLOCKS_DIFFER = dt.timedelta(seconds=5)
"""At most, of a person's machine and a worker's: older records are of a put before."""


@dataclass(frozen=True, slots=True)
class End:
    """A request that has ended, and its operation; `status` DEAD of one that was not taken."""

    request: Sendable
    operation: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """The limit that binds a courier's requests now, yielded again and again while some wait."""

    slug: Slug
    seen: LineSnapshot


@dataclass(frozen=True, slots=True)
class Left:
    """A request that has not ended when patience has.

    `operation` None: no worker has taken it. `place` is where it stands, where that was looked at.
    """

    request: Sendable
    operation: Mapping[str, Any] | None
    place: Place | None
    seen: LineSnapshot | None


async def follow(
    requests: Sequence[Sendable], config: Config, patience: float
) -> AsyncGenerator[End | Binding | Left]:
    """Give each request's End as it comes; after `patience` seconds each other one is Left.

    Raises LimitsDown.
    """
    pending = {each.id: each for each in requests}
    began, put_at = time.monotonic(), dt.datetime.now(dt.UTC) - CLOCKS_DIFFER
    look_at, heard, changed = began + FIRST_LOOK_SECONDS, set[str](), asyncio.Event()

    def hear(read: Read) -> None:
        heard.update(each.operation for each in read.ends if each.operation in pending)
        if heard:
            changed.set()

    async with redis_of(config) as redis, hearing(redis, redis, Background().beside) as ends:
        book = book_of(config)
        view = View(redis, book.rules_of, book)
        ends.listen(await ends.stream.newest(), hear)
        while True:
            looked_for = [pending[each] for each in heard if each in pending]
            heard.clear()
            changed.clear()
            for identity, operation in (await _ended(view, looked_for or pending.values())).items():
                yield End(pending.pop(identity), operation)
            now = time.monotonic()
            left = began + patience - now
            if pending and (now >= look_at or left <= 0):
                for identity, dead in (await _refused(view, config, pending, put_at)).items():
                    yield End(pending.pop(identity), dead)
                for slug, seen in (await _bound(view, pending.values())).items():
                    yield Binding(slug, seen)
                look_at = now + LOOK_SECONDS
            if not pending or left <= 0:
                break
            await _changed_within(changed, min(PACE_SECONDS, left))
        async for each in _left(view, pending.values()):
            yield each


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation that ended while somebody looked; `members` {} where Redis knows no more."""

    id: str
    at: dt.datetime
    status: str
    members: Mapping[str, Any]


async def ends_as_they_come(
    config: Config, begin: Callable[[], object]
) -> AsyncIterator[Ended | None]:
    """Give each end from now on, for ever; None where some may be missing. Raises LimitsDown.

    `begin` is called once no end will be missed any more.
    """
    async with redis_of(config) as redis:
        book, stream = book_of(config), EndStream(redis)
        view, at = View(redis, book.rules_of, book), await stream.newest()
        begin()
        while True:
            found = await stream.after(at, AT_ONCE)
            if found is None:
                yield None
                at = await stream.newest()
                continue
            known = await view.operations([each.operation for each in found]) if found else {}
            for each in found:
                at, when = each.at, dt.datetime.fromtimestamp(each.at.ms / 1_000, dt.UTC)
                yield Ended(each.operation, when, each.state, known.get(each.operation, {}))
            if len(found) < AT_ONCE:
                await asyncio.sleep(PACE_SECONDS)


async def _changed_within(changed: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await changed.wait()


async def _known(view: View, requests: Iterable[Sendable]) -> dict[str, dict[str, Any]]:
    """Read the operations of these requests, without those that had an id for another parcel."""
    about = {each.id: f"{each.slug}:{each.number}" for each in requests}
    return await view.operations(list(about), about)


async def _ended(view: View, those: Iterable[Sendable]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    requests = list(those)
    for begin in range(0, len(requests), AT_ONCE):
        share = await _known(view, requests[begin : begin + AT_ONCE])
        found |= {each: told for each, told in share.items() if told["status"] in ENDS}
        if len(found) <= begin:
            # They end about in the order in which they were put.
            break
    return found


async def _refused(
    view: View, config: Config, pending: Mapping[str, Sendable], since: dt.datetime
) -> dict[str, dict[str, Any]]:
    """Find those that were not taken: of them `dead` alone tells."""
    requests = list(pending.values())[:AT_ONCE]
    known = await _known(view, requests)
    unknown = [each.id for each in requests if each.id not in known]
    if not unknown:
        return {}
    try:
        records = await asyncio.to_thread(dead_of, config, unknown)
    except ResultsDown:
        return {}  # the next look tells
    return {
        identity: {"status": "DEAD", "output": {"code": each["reason"], "message": each["detail"]}}
        for identity, each in records.items()
        if each["at"] >= since and each["number"] == pending[identity].number
    }


async def _bound(view: View, requests: Iterable[Sendable]) -> dict[Slug, LineSnapshot]:
    slugs = list(dict.fromkeys(each.slug for each in requests))
    return await looked_at(view, slugs[:COURIERS_LOOKED_AT])


async def _left(view: View, requests: Collection[Sendable]) -> AsyncIterator[Left]:
    bound = await _bound(view, requests)
    found: dict[str, dict[str, Any]] = {}
    left = list(requests)
    for begin in range(0, len(left), AT_ONCE):
        found |= await _known(view, left[begin : begin + AT_ONCE])
    for each in left:
        operation, place = found.get(each.id), None
        if operation and len(left) <= AT_ONCE:
            waits = operation["status"] == State.WAITING
            number = Number(number_of(each.number, each.id))
            place = await view.place(courier_line(each.slug), number, itself=waits)
        yield Left(each, operation, place, bound.get(each.slug))
