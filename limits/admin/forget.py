"""The forgetter deletes what Redis knows of a parcel, for people who must have it forgotten."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline as Pipe

from limits import keys
from limits.admin.accounts import accounts_in
from limits.admin.cancel import NOWHERE, places_of
from limits.admin.line_scripts import LineScripts
from limits.archive import BRIEF_MS
from limits.failure import redis_asked
from limits.pipeline import confirmations, done
from limits.rules import RulesOf
from limits.server import RENAME, REPLACE
from tracking.line import Line, courier_line
from tracking.operation import ENDS
from tracking.request import Number, Slug, anonymous_in, own_number

MARK_SECONDS = 3_600
"""How long an answer of a call that was granted before is known for one. A call lasts at most
`call_timeout_seconds`; but a worker that a server's outage held up comes back with it later."""

READ_AT_ONCE = 1_000
"""Keys of one SCAN: Redis is busy with them for about a millisecond."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The extent of a forget: answers of calls granted until `at_us`, Redis' time, are discarded.

    `ended` operations were waiting or running. `calls` are the ids of the calls that run, one for
    an account at most. `answers` were remembered.
    """

    at_us: int
    ended: int
    calls: tuple[str, ...]
    answers: int


class _Operation(msgspec.Struct):
    status: str | None = None
    startedAt: datetime | None = None  # noqa: N815 - the contract's name
    tracking: str | None = None
    anonymous: bool = False


_Ends = list[tuple[str, dict[str, str]]]
"""What XRANGE reads of the stream: entry, state → id."""

_read_operation = msgspec.json.Decoder(_Operation).decode


def _operation_in(text: Any) -> _Operation | None:
    """Read a status; None of what is none. One of a request that was just refused says nothing."""
    try:
        return _read_operation(str(text)) if text else None
    except msgspec.MsgspecError:
        return None


class Forgetter:
    """Clears parcels from Redis. Every method raises LimitsDown, and may be repeated then."""

    def __init__(self, redis: Redis, rules_of: RulesOf) -> None:
        self._redis = redis
        self._scripts = LineScripts(redis, rules_of)

    async def forget(self, slug: Slug, number: Number) -> Forgotten:
        """End what waits and what runs for any account, and discard what comes of it."""
        with redis_asked():
            others = [own_number(number, each) for each in await accounts_in(self._redis)]
        # Together they are one script mostly.
        found = await asyncio.gather(*(self._forget(slug, each) for each in (number, *others)))
        return Forgotten(
            max(each.at_us for each in found),
            sum(each.ended for each in found),
            tuple(call for each in found for call in each.calls),
            sum(each.answers for each in found),
        )

    async def _forget(self, slug: Slug, number: str) -> Forgotten:
        """Forget what one account asked (lua/forget.lua)."""
        line = courier_line(slug)
        with redis_asked():
            found = {} if "@" in number else await places_of(self._redis, line, [Number(number)])
            places = found.get(Number(number), NOWHERE)
        args = (number, MARK_SECONDS * 1000, json.dumps(places))
        total, more = 0, 1
        while more:
            at_us, ended, more, call, answers = await self._scripts.run("forget", line, *args)
            total += ended
        return Forgotten(at_us, total, (call,) if call else (), answers)

    async def runs(self, slug: Slug, call: str) -> bool:
        """Whether a call is still in flight: what it stores is stored before it ends."""
        names = keys.of_line(courier_line(slug))
        with redis_asked():
            return bool(await self._redis.hexists(names.wait_inflight, call))

    async def calls_for(self, line: Line, number: Number) -> bool:
        """Whether a call for this number is in flight on a line, for `main`."""
        with redis_asked():
            return bool(await self._redis.hexists(keys.of_line(line).wait_inflight, f"={number}"))

    async def clear_outputs(self, parcels: Mapping[str, int]) -> tuple[Counter[str], list[str]]:
        """Empty what ended operations tell of parcels; counts them for each.

        `parcels`: for each `_id` the `at_us` of its forget. That an operation ended stays known:
        its job may come back. Names the keys that cannot be read.
        """
        cleared, unreadable = Counter[str](), list[str]()
        with redis_asked():
            confirmed = await confirmations(self._redis)
            async for names in self._operations():
                pipeline = self._redis.pipeline(transaction=False)
                for name, text in zip(names, await self._redis.mget(names), strict=True):
                    operation = _operation_in(text)
                    if operation is None and (text or await self._is_foreign(name)):
                        unreadable.append(name)
                    elif operation and operation.tracking and _is_told(operation, parcels):
                        _empty(pipeline, name, str(text), operation)
                        cleared[operation.tracking] += 1
                if len(pipeline):
                    await done(pipeline, confirmed=confirmed)
            await self._clear_events(parcels)
        return cleared, unreadable

    async def _clear_events(self, parcels: Mapping[str, int]) -> None:
        """Take the ends of operations out of the stream whose ids name the parcel."""
        begin = "-"
        while told := cast(
            "_Ends", await self._redis.xrange(keys.EVENTS, begin, "+", READ_AT_ONCE)
        ):
            begin = f"({told[-1][0]}"
            gone = [
                entry for entry, ends in told if any(_names(parcels, of) for of in ends.values())
            ]
            if gone:
                await self._redis.xdel(keys.EVENTS, *gone)

    async def _is_foreign(self, name: str) -> bool:
        return await self._redis.type(name) not in {"string", "none"}

    async def _operations(self) -> AsyncIterator[Sequence[str]]:
        cursor = -1
        while cursor:
            cursor, names = await self._redis.scan(
                max(cursor, 0), match=f"{keys.STATUS}*", count=READ_AT_ONCE
            )
            if names:
                yield [str(name) for name in names]


def _is_told(operation: _Operation, parcels: Mapping[str, int]) -> bool:
    at_us = parcels.get(operation.tracking or "")
    if at_us is None or operation.status not in ENDS:
        return False
    return operation.startedAt is None or operation.startedAt.timestamp() * 1_000_000 <= at_us


def _names(parcels: Mapping[str, int], operation: str) -> bool:
    named = anonymous_in(operation)
    return named is not None and f"{named[0]}:{named[1]}" in parcels


def _empty(pipeline: Pipe, name: str, text: str, operation: _Operation) -> None:
    """Leave of an operation that it ended, under a name that does not tell its parcel."""
    emptied = _emptied(name, text)
    if not operation.anonymous:
        pipeline.eval(REPLACE, 1, name, text, emptied)
        return
    identity = name.removeprefix(keys.STATUS)
    hidden = keys.status(_sha1(identity))  # lua/admit.lua looks there for a job that comes back
    pipeline.eval(RENAME, 3, name, hidden, keys.TO_ARCHIVE, text, emptied, BRIEF_MS, identity)


def _sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _emptied(name: str, text: str) -> bytes:
    """Leave of an operation that it ended; its id stays that of its parcel (lua/lib/state.lua)."""
    operation = msgspec.json.decode(text)
    digest = _sha1(f"{name.removeprefix(keys.STATUS)} {operation['tracking']}")
    output = {"code": "forgotten", "message": "its parcel was forgotten"}
    emptied = {"output": output, "tracking": None, "hash": digest}
    # What it repeats is of the same parcel, and its id may name that.
    return msgspec.json.encode(operation | emptied | {"resend_of": None})
