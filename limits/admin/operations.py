"""Operations, read by their ids or by their parcel; nothing is changed.

While requests without an id wait, their operation stands in the record of their number only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis

from limits import keys
from tracking.line import courier_line
from tracking.operation import State
from tracking.request import (
    MAIN,
    Account,
    Number,
    Slug,
    account_and_id,
    anonymous_id,
    anonymous_in,
    own_number,
)

Operation = dict[str, Any]
"""`status`, `startedAt`, `finishedAt`, `output`, `tracking`; and `resend_of` of a repeated one,
`webhook` of one that names a service, `attempts` of one that ended after calls."""

_MEMBERS = ("status", "startedAt", "finishedAt", "output", "tracking")

Made = tuple[int, str, int | None, int]
"""A call that was made: its grant (Unix ms), outcome, HTTP status, ms that it took."""

LISTED_MOST = 1_000
"""Operations of one parcel that are listed: the newest."""

_OF_PARCEL = """
return { redis.call('HGET', KEYS[1], ARGV[1]), redis.call('LRANGE', KEYS[2], 0, ARGV[2]),
  redis.call('LRANGE', KEYS[3], 0, ARGV[2]), redis.call('ZREVRANGE', KEYS[4], 0, ARGV[2]) }
"""
_BY_ID = """
local found = { redis.call('MGET', unpack(KEYS)) }
for i = 1, #ARGV, 2 do found[#found + 1] = redis.call('HGET', ARGV[i], ARGV[i + 1]) end
return found
"""
"""What an operation tells moves between keys, so they are read at one instant; not in a
transaction, all of which a full Redis may refuse."""

_UNNAMED = """
local call = redis.call('HGET', KEYS[2], '=' .. ARGV[1])
return { redis.call('HGET', KEYS[1], ARGV[1]), call and redis.call('HGET', KEYS[2], call) }
"""


async def operations_of(
    redis: Redis, slug: Slug, number: Number, account: Account = MAIN
) -> list[Operation]:
    """All operations of an account's parcel, each with its `id`, the newest first.

    Those that wait come first. `status` is None of one that ended, and how is not known any more.
    Takes two round trips.
    """
    own = own_number(number, account)
    names = keys.of_line(courier_line(slug))
    # Of more than 100 that a call is for the others are not noted before they end.
    lists = (f"{names.operations}{own}", f"{names.operations}={own}")
    asked = (names.wait_requests, *lists, f"{names.history}{slug}:{own}")
    told = await redis.eval(_OF_PARCEL, len(asked), *asked, own, str(LISTED_MOST - 1))
    text, listed, called, noted = told
    record = _read(text)
    anonymous = record.get("anon")
    jobs = [anonymous_id(slug, number, anonymous["id"])] if anonymous else []
    waiting = [*(record.get("newest") or ()), *jobs, *listed]
    # For a day after an upgrade what was noted of a number may be of several accounts.
    noted = [each for each in noted if account_and_id(each)[0] == account]
    ids = list(dict.fromkeys([*waiting, *called, *noted]))[:LISTED_MOST]
    texts = await redis.mget([keys.status(each) for each in ids]) if ids else []
    unknown = {"tracking": f"{slug}:{number}"}
    waits = unknown | {"status": State.WAITING.value}
    return [
        {"id": each} | _told(_read(text) or (waits if each in jobs else unknown))
        for each, text in zip(ids, texts, strict=True)
    ]


async def operations(
    redis: Redis, ids: Sequence[str], about: Mapping[str, str] | None = None
) -> dict[str, Operation]:
    """Where operations stand, in one round trip; an id of which nothing is known is left out.

    `about`: the parcel of each id, `<slug>:<number>`; an operation of another parcel is left out.
    """
    named = {each: name for each in ids if (name := anonymous_in(each))}
    statuses, records_of = [keys.status(each) for each in ids], list[str]()
    for slug, number, _ in named.values():
        records_of += (keys.of_line(courier_line(Slug(slug))).wait_requests, number)
    texts, *records = await redis.eval(_BY_ID, len(statuses), *statuses, *records_of)
    read = {each: _read(text) for each, text in zip(ids, texts, strict=True)}
    if about:
        read = {each: told for each, told in read.items() if _is_about(each, told, about[each])}
    # One that was just refused has no status: it is no operation.
    found = {each: _told(operation) for each, operation in read.items() if operation.get("status")}
    for (each, (slug, number, job)), text in zip(named.items(), records, strict=True):
        if each not in found and (_read(text).get("anon") or {}).get("id") == job:
            found[each] = _told({"status": State.WAITING.value, "tracking": f"{slug}:{number}"})
    return found


async def waits_unnamed(redis: Redis, slug: Slug, number: Number, at_ms: int) -> bool:
    """Whether a request without an id that came at this instant waits or runs.

    Of those that joined one operation its record names two, and tells when the oldest and the
    newest came.
    """
    names = keys.of_line(courier_line(slug))
    waiting, call = await redis.eval(_UNNAMED, 2, names.wait_requests, names.wait_inflight, number)
    return any(
        (anonymous := record.get("anon"))
        and (since := record["since"]) <= at_ms <= anonymous.get("at", since)
        for record in (_read(waiting), _read(call))
    )


def _is_about(identity: str, read: Mapping[str, Any], parcel: str) -> bool:
    """Whether an operation is of this parcel; of a forgotten one only a hash is left."""
    if tracking := read.get("tracking"):
        return str(tracking) == parcel
    own = hashlib.sha1(f"{identity} {parcel}".encode(), usedforsecurity=False).hexdigest()
    return str(read.get("hash", own)) == own


def _read(text: str | bytes | None) -> Mapping[str, Any]:
    """Read a status or a record; of one that is no JSON object nothing is known."""
    try:
        read = json.loads(text or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def own_attempts(
    made: Sequence[Made],
    admitted_ms: int,
    *,
    anonymous: bool,
    instant: Callable[[int], object] | None = None,
) -> list[Operation]:
    """Tell of the calls for an operation, oldest first, out of those for its number.

    `instant` makes of Unix ms what stands for a call's time: `iso`, unless it is given.

    They were made since it was admitted, but for the one that answered it, which may have run.
    Requests without an id joined one by one, the last of them at `admitted_ms`: all are theirs.
    """
    return [
        {"at": (instant or iso)(at_ms), "outcome": outcome, "http_status": http_status, "ms": ms}
        for i, (at_ms, outcome, http_status, ms) in enumerate(made)
        if anonymous or at_ms >= admitted_ms or i == len(made) - 1
    ]


def iso(ms: float) -> str:
    """Write an instant as an operation's members have it."""
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _told(read: Mapping[str, Any]) -> Operation:
    told = {name: read.get(name) for name in _MEMBERS}
    told |= {
        name: read[name]
        for name in ("resend_of", "webhook", "cancels", "repliedAt")
        if read.get(name)
    }
    if read.get("attempts"):
        anonymous = bool(read.get("anonymous"))
        told["attempts"] = own_attempts(read["attempts"], read["at"], anonymous=anonymous)
    return told
