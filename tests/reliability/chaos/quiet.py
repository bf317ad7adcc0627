"""Waiting until nothing moves any more: everything that was asked for has come to an end."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import greenstalk
import redis

from chaos.arena import FIRST, SECOND, Arena
from chaos.scale import ATTEMPTS, LEASE, LONGEST_PROBE, REFUSED_ANSWERS, RETRY_CAP, STEP_SECONDS
from limits.keys import TO_ARCHIVE
from tracking.line import TRACKING

STEP = 0.25
SWEEP = 6.0
SPARE = 15.0
"""For what cannot be reckoned: processes that start, a busy machine."""

ARCHIVED_SECONDS = 60.0
"""What is promised, also when the one who archives has just vanished."""

WATCHED_SECONDS = 2 * LEASE + LONGEST_PROBE
"""For how long something is watched that is not quiet in time: leases, and the longest backoff."""

REFUSED_PAUSE = TRACKING.brakes["unstorable_answer"].early_seconds or LONGEST_PROBE

TUBES = ("requests_flow", "wait_list")
UNFINISHED = ("current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed")
SHOWN = 12
FEW = 4
"""The last things that are left are told: quiet hangs on them."""

BINDING = ("calls_leases", "wait_drainer", "calls_paused", "calls_brake", "calls_held")
SLUG_KEYS = ("wait_list", "wait_list_automatic", "wait_later", "wait_requests", "wait_inflight")


@dataclass(frozen=True, slots=True)
class Quiet:
    """How quiet came: after `seconds`; `late` is what ended after the bound only, `left` never."""

    seconds: float
    left: Sequence[str] = ()
    late: Sequence[str] = ()


def until_quiet(arena: Arena, say: Callable[[str], None] = lambda _: None) -> Quiet:
    """Wait until nothing is left; after too long go on watching, to know what is late or lost.

    While a line stands because its courier failed, nothing of it can end: that time does not count,
    but for more than the longest pause, and the pauses between calls that MongoDB refuses.
    """
    began = last = time.monotonic()
    stood, bound = 0.0, bound_for(arena)
    may_stand = max(LONGEST_PROBE, REFUSED_PAUSE * refused_calls(arena))
    say(f"quiet is expected within {bound:.0f} s")
    at_bound, late, told = 0.0, list[str](), list[str]()
    while left := list(_left(arena)):
        if len(left) < FEW and left != told:
            say(f"left: {'; '.join(left)}")
            told = left
        time.sleep(STEP)
        passed, last = time.monotonic() - last, time.monotonic()
        stood += passed if _stands(arena) else 0.0
        if not late and last - began - min(stood, may_stand) > bound:
            at_bound, late = last, [*left, *places(arena)]
        if late and last - at_bound > WATCHED_SECONDS:
            return Quiet(last - began, left=[*left, *places(arena), "and at the bound:", *late])
    if late:
        late.insert(0, f"by {last - at_bound:.1f} s")
    return Quiet(time.monotonic() - began, late=tuple(late))


def until_archived(arena: Arena) -> list[str]:
    """Wait until all that ended is archived; returns what is left after too long."""
    deadline = time.monotonic() + ARCHIVED_SECONDS
    while True:
        with arena.redis() as client:
            waiting = client.zcard(TO_ARCHIVE)
        if not waiting or time.monotonic() > deadline:
            return [f"{waiting} operations are to be archived"] if waiting else []
        time.sleep(STEP)


def bound_for(arena: Arena) -> float:
    """How long it may take: the slowest courier's list, then leases, sweeps and retries."""
    longest = 0.0
    with arena.redis() as client:
        for courier in arena.scale.couriers:
            # Everything in the tubes might be for the slowest of them.
            waiting = client.hlen(f"wait_requests:{courier.slug}") + _jobs(arena) / 4
            longest = max(longest, waiting / min(courier.per_second, courier.concurrent))
    stepped = 1.5 * STEP_SECONDS if arena.scale.step_clock else 0.0
    return stepped + longest * 1.2 + 2 * (LEASE + SWEEP) + 5 * RETRY_CAP + SPARE


def refused_calls(arena: Arena) -> int:
    """How many calls for numbers that MongoDB refuses are to come at one courier at most.

    Where only these wait, each of their attempts comes after a pause of its own.
    """
    most, refused = 0, re.compile(REFUSED_ANSWERS)
    with arena.redis() as client:
        for courier in arena.scale.couriers:
            records = client.hgetall(f"wait_requests:{courier.slug}").items()
            made = [
                int(json.loads(record).get("attempts", 0))
                for number, record in records
                if refused.search(number)
            ]
            most = max(most, sum(ATTEMPTS - attempts for attempts in made))
    return most


def _stands(arena: Arena) -> bool:
    with suppress(redis.RedisError), arena.redis() as client:
        return bool(client.exists(*(f"calls_paused:{each.slug}" for each in arena.scale.couriers)))
    return False


def _left(arena: Arena) -> Iterator[str]:
    try:
        if jobs := _jobs(arena):
            yield f"{jobs} jobs in the tubes"
        poison = poison_of(arena)
        with arena.redis() as client:
            for courier in arena.scale.couriers:
                yield from _left_of(client, courier.slug, poison[courier.slug])
    except (redis.RedisError, greenstalk.Error, OSError) as error:
        yield f"a server does not answer: {error!r}"


def poison_of(arena: Arena) -> Mapping[str, set[str]]:
    """By courier, the numbers that never succeed: all others must end beside them."""
    found: dict[str, set[str]] = {courier.slug: set() for courier in arena.scale.couriers}
    for put in arena.producer.log if arena.scale.poison else ():
        if put.wish.is_hopeless:
            found[put.wish.slug].add(put.wish.number)
    return found


def waiting(arena: Arena) -> frozenset[str]:
    """Whom Redis still keeps a record of, as slug:number."""
    with arena.redis() as client:
        return frozenset(
            f"{courier.slug}:{field.removeprefix('=')}"
            for courier in arena.scale.couriers
            for name in ("wait_requests", "wait_inflight")
            for field in client.hkeys(f"{name}:{courier.slug}")
        )


def _left_of(client: redis.Redis, slug: str, poison: set[str]) -> Iterator[str]:
    flying = client.hgetall(f"wait_inflight:{slug}")
    calls = {call for number in poison if (call := flying.get(f"={number}"))}
    leads = {call.partition("~")[0] for call in calls}
    beside = (
        poison
        | calls
        | {f"={number}" for number in poison}
        | {f"#{lead}" for lead in leads}
        | ({"", "!relist"} if poison else set())
    )
    for name in SLUG_KEYS:
        if _members(client, f"{name}:{slug}") - beside:
            yield f"{name}:{slug} is not empty"
    if running := len(_members(client, f"calls_leases:{slug}") - leads):
        yield f"{running} leases of {slug}"
    if int(client.get(f"calls_number:{slug}") or 0) and not poison:
        yield f"calls_number:{slug} is not 0"


def _members(client: redis.Redis, key: str) -> set[str]:
    match client.type(key):
        case "list":
            return set(client.lrange(key, 0, -1))
        case "zset":
            return set(client.zrange(key, 0, -1))
        case "hash":
            return set(client.hkeys(key))
    return set()


def places(arena: Arena) -> Iterator[str]:
    """Where everything that has not ended stands, as Redis tells: what a late end hangs on."""
    with suppress(redis.RedisError), arena.redis() as client:
        seconds, micros = client.time()
        yield f"the time is {seconds}.{micros:06d}"
        for courier in arena.scale.couriers:
            for key in (f"{name}:{courier.slug}" for name in (*SLUG_KEYS, *BINDING)):
                for told in islice(_told(client, key), SHOWN):
                    yield f"{key} {told}"


def _told(client: redis.Redis, key: str) -> Iterator[str]:
    match client.type(key):
        case "list":
            yield f"is {client.lrange(key, 0, SHOWN)}"
        case "zset":
            yield f"is {client.zrange(key, 0, SHOWN, withscores=True)}"
        case "hash":
            yield from (f"{field} is {text}" for field, text in client.hgetall(key).items())
        case "string":
            yield f"is {client.get(key)} for {client.pttl(key)} ms"


def _jobs(arena: Arena) -> int:
    jobs = 0
    for name in (FIRST, SECOND):
        server = arena.servers[name]
        with greenstalk.Client((server.host, server.port)) as client:
            known = client.tubes()
            # What asks for a line to be drained goes round while poison or a delivery waits there.
            for tube in TUBES[:1] if arena.scale.poison or arena.scale.hooks else TUBES:
                if tube in known:
                    told: Mapping[str, object] = client.stats_tube(tube)
                    jobs += sum(int(str(told[state])) for state in UNFINISHED)
    return jobs
