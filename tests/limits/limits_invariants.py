"""What must be true of one courier's keys after every single script (docs/reliability.md)."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from limits_bench import KEYS, asked
from redis import Redis

from limits.keys import (
    ACCOUNT_CALLS,
    ACCOUNT_QUOTAS,
    ACCOUNTS,
    EVENTS,
    MEASURED,
    OPERATIONS,
    REVISION,
    TO_ARCHIVE,
    write_setback,
)
from limits.rules import Rules
from tracking.call import Setback
from tracking.line import TRACKING
from tracking.request import MAIN, TrackingRequest, account_and_id, number_and_account

ENDS = ("SUCCESS", "ERROR", "CANCELLED")
DAY_SECONDS, DAY_MS = 86_400, 86_400_000
INLINE = 16

LIVES_AT_MOST_MS = {
    KEYS.calls_number: 60_000,
    KEYS.sec_calls: 1_000,
    KEYS.calls_leases: 60_000,
    KEYS.call_starts: 2_250,
    KEYS.wait_drainer: 35_000,
    KEYS.wait_list_activated: DAY_MS + 10_000,
    KEYS.calls_paused: DAY_MS,
    KEYS.calls_brake: DAY_MS + 3_600_000,
    KEYS.calls_hour: 7_201_150,
    KEYS.calls_day: DAY_MS,
    EVENTS: 3_600_000,
}
REFUSED_MS = 10_000
MANUAL_US = 10_000_000
"""How long a MANUAL request waits for company, under a quota."""
NEVER_EXPIRES = {
    KEYS.wait_list,
    KEYS.wait_list_automatic,
    KEYS.wait_order,
    KEYS.wait_later,
    KEYS.wait_requests,
    KEYS.wait_inflight,
    KEYS.counts,
    KEYS.lines,
    KEYS.epoch,
    REVISION,
    MEASURED,
    TO_ARCHIVE,
    ACCOUNTS,
    ACCOUNT_QUOTAS,
    "tracking:stats:successes",
    "tracking:stats:operations",
    "tracking:stats:errors",
    "tracking:stats:slugs",
    "tracking:stats:made",
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything of one courier, read in one step."""

    lists: dict[str, list[str]]
    later: list[str]
    records: dict[str, dict[str, Any]]
    flying: dict[str, dict[str, Any]]
    index: dict[str, str]
    groups: dict[str, int]
    leases: list[str]
    starts: list[str]
    rest: dict[str, list[str]]
    order: dict[str, int]


def take_snapshot(redis: Redis) -> Snapshot:
    pipeline = redis.pipeline(transaction=True)
    pipeline.lrange(KEYS.wait_list, 0, -1)
    pipeline.lrange(KEYS.wait_list_automatic, 0, -1)
    pipeline.zrange(KEYS.wait_later, 0, -1)
    pipeline.hgetall(KEYS.wait_requests)
    pipeline.hgetall(KEYS.wait_inflight)
    pipeline.zrange(KEYS.calls_leases, 0, -1)
    pipeline.zrange(KEYS.call_starts, 0, -1)
    pipeline.hgetall(KEYS.wait_order)
    manual, automatic, later, requests, inflight, leases, starts, order = pipeline.execute()
    records = {n: json.loads(text) for n, text in requests.items() if n[0] != "!"}
    flying = {n: json.loads(text) for n, text in inflight.items() if n[0] not in "=#"}
    index = {n[1:]: text for n, text in inflight.items() if n[0] == "="}
    groups = {n[1:]: int(text) for n, text in inflight.items() if n[0] == "#"}
    lists = {"manual": manual, "automatic": automatic}
    rest = {key: redis.lrange(key, 0, -1) for key in redis.keys(f"{KEYS.operations}*")}
    order = {name: int(text) for name, text in order.items()}
    return Snapshot(lists, later, records, flying, index, groups, leases, starts, rest, order)


def lead_of(call_id: str) -> str:
    """The call whose slot and start a call shares: its own, unless it rides."""
    return call_id.partition("~")[0]


def check(redis: Redis, rules: Rules, by_hand: set[str], *, flag_until: float) -> None:
    """Fail on the first thing that is not as it must be. `by_hand`: numbers pushed by hand.

    `flag_until`: when, by time.monotonic(), the flag may end while somebody waits.
    """
    seen = take_snapshot(redis)
    _limits_hold(seen, rules)
    _no_account_has_more_calls_than_its_quota(redis, seen)
    _a_group_is_one_call(seen)
    _projections_are_right(redis, seen)
    _the_flag_tells_that_somebody_waits(redis, seen, flag_until)
    _everybody_waits_in_one_place(seen, by_hand)
    _positions_are_right(seen)
    _operations_hang_on_one_record(redis, seen)
    _ends_are_counted_once(redis)
    _keys_live_as_long_as_documented(redis)


def asking(number: str, operation: str | None, **more: Any) -> TrackingRequest:
    """A request with what its account says: one says something."""
    return asked(number, id=operation, fields=_said(operation), **more)


def _said(operation: str | None) -> dict[str, str]:
    account, slash, _ = (operation or "").partition("/")
    return {"tracking_key": account} if slash and account != "other" else {}


def accounts_are_apart(redis: Redis) -> None:
    """Fail where anything of an account stands with another's."""
    seen = take_snapshot(redis)
    flying = [(each["n"], each) for each in seen.flying.values()]
    for name, record in [*seen.records.items(), *flying]:
        _, account = number_and_account(name)
        ids = [*(record.get("newest") or ()), *([""] if record.get("anon") else ())]
        assert {account_and_id(each)[0] for each in ids} <= {account}, (name, record)
        said = {"tracking_key": account} if account not in {MAIN, "other"} else {}
        assert record.get("forgotten") or (record.get("fields") or {}) == said, (name, record)
    for key, ids in seen.rest.items():
        _, account = number_and_account(key)
        assert {account_and_id(each)[0] for each in ids} <= {account}, key
    _answers_are_apart(redis)


def _answers_are_apart(redis: Redis) -> None:
    """Fail where somebody's end is that of an answer to another account."""
    for name, each in _statuses(redis, redis.keys(f"{KEYS.status}*")).items():
        asked_by = (each["output"] or {}).get("by") if each["status"] in ENDS else None
        if asked_by is not None:
            own = None if each.get("anonymous") else name.removeprefix(KEYS.status)
            assert _said(own) == asked_by.get("fields", {}), (name, asked_by)
            assert account_and_id(own or "")[0] == asked_by.get("account", MAIN), name


def setback_of(why: str, delay_ms: int) -> bytes:
    """A setback as retry.lua reads it; what is repeated at once is an attempt, of which two end it.

    Who is refused is given up by the next sweep.
    """
    setback = Setback(
        why,
        delay_ms / 1000,
        charged=not delay_ms,
        attempts=2,
        brake=TRACKING.brakes.get(why),
        patience=0.0 if why == "auth_failed" else None,
    )
    return write_setback(setback, unsent=False)


def places_of(redis: Redis, number: str) -> str:
    """Write where a number stands, for cancel.lua and forget.lua."""
    seen = take_snapshot(redis)
    found = [
        [at for at, entry in enumerate(entries, seen.order.get(name, 0)) if entry == number]
        for name, entries in seen.lists.items()
    ]
    return json.dumps(found)


def pushed_wait(redis: Redis) -> bool:
    """Whether a number waits that was pushed by hand.

    Such hide from the sweep, until they are called, that as many were taken out.
    """
    seen = take_snapshot(redis)
    return any(number not in seen.records for each in seen.lists.values() for number in each)


def whole_records(redis: Redis, but: str) -> list[tuple[str, str, str, str]]:
    """List records as key, field, number, text; not of those that wait for the number `but`.

    What has a list of its own beside it is left out: that would be taken for another record's.
    """
    found = []
    for key in (KEYS.wait_requests, KEYS.wait_inflight):
        for field, text in sorted(redis.hgetall(key).items()):
            if field[0] not in "!=#" and not json.loads(text).get("listed"):
                number = field if key == KEYS.wait_requests else json.loads(text)["n"]
                found.append((key, field, number, text))
    return [each for each in found if each[0] != KEYS.wait_requests or each[2] != but]


def recount(redis: Redis) -> None:
    """Count what is open, as a line that was at rest meanwhile began to count again."""
    seen = take_snapshot(redis)
    records = (*seen.records.values(), *seen.flying.values())
    ids = [each for record in records for each in record.get("newest") or ()]
    ids += [each for listed in seen.rest.values() for each in listed]
    told = _statuses(redis, [f"{KEYS.status}{each}" for each in ids]).values()
    still = [each for each in told if each["status"] not in ENDS]
    open_now = {"open": len(still), "open_automatic": sum("auto" in each for each in still)}
    redis.hset(KEYS.counts, mapping=open_now)


def all_came_earlier(redis: Redis, seconds: float) -> None:
    """Let those who wait have waited for so much longer, and starts be so much longer ago."""
    for start, at in redis.zrange(KEYS.calls_hour, 0, -1, withscores=True):
        redis.zadd(KEYS.calls_hour, {start: at - round(seconds * 1e6)})
    for number, text in redis.hgetall(KEYS.wait_requests).items():
        if number[0] == "!":
            continue
        record = json.loads(text)
        since = f'"since":{record["since"] - round(seconds * 1000)}'
        redis.hset(KEYS.wait_requests, number, re.sub(r'"since":\d+', since, text, count=1))


def only_who_may_waits_for_company(redis: Redis, rules: Rules, reply: list[Any]) -> None:
    """Fail where a step says that all wait for company, and one has no need of it (any more)."""
    now_us, *_, why, ask, _ = reply
    if why != "filling":
        return
    seen = take_snapshot(redis)
    waiting = [number for listed in seen.lists.values() for number in listed if number]
    is_full = len(waiting) >= rules.together
    assert not is_full or not any(seen.lists["manual"]), "a full call waits"
    for number in waiting[: rules.together]:
        record = seen.records[number]  # what was pushed by hand has none, and goes at once
        assert not record.keys() & {"tries", "half", "alone", "deaths"}, (number, record)
        if not record.get("auto"):
            assert now_us < record["since"] * 1000 + MANUAL_US, (number, record)
            assert not int(ask) or int(ask) <= record["since"] * 1000 + MANUAL_US, (number, record)


def a_day_goes_by(redis: Redis) -> None:
    """Calls that run are of yesterday, and those of today are counted from none on."""
    redis.delete(ACCOUNT_CALLS)
    for call_id, record in take_snapshot(redis).flying.items():
        record["granted"] = f"{int(record['granted']) - DAY_SECONDS * 1_000_000}"
        redis.hset(KEYS.wait_inflight, call_id, json.dumps(record))


def left(redis: Redis) -> list[str]:
    """List the keys that say that somebody waits or something runs."""
    lists = (KEYS.wait_list, KEYS.wait_list_automatic, KEYS.wait_order)
    waits = (*lists, KEYS.wait_later, KEYS.wait_requests)
    runs = (KEYS.wait_inflight, KEYS.calls_leases, KEYS.calls_number, KEYS.lines)
    return [key for key in (*waits, *runs, KEYS.wait_drainer) if redis.exists(key)]


def claims_end(redis: Redis) -> None:
    """Who was to record a call as dead was not heard of for a lease: its reply was lost."""
    for call_id, record in take_snapshot(redis).flying.items():
        if isinstance(record.get("dying"), dict):
            record["dying"]["till"] = 1
            redis.hset(KEYS.wait_inflight, call_id, json.dumps(record))


def _no_account_has_more_calls_than_its_quota(redis: Redis, seen: Snapshot) -> None:
    """Each that runs is counted, once for each account in it."""
    pipeline = redis.pipeline(transaction=False)
    pipeline.hgetall(ACCOUNT_QUOTAS)
    pipeline.hgetall(ACCOUNT_CALLS)
    pipeline.time()
    allowed, calls, (seconds, _) = pipeline.execute()
    today_us = seconds // DAY_SECONDS * DAY_SECONDS * 1_000_000
    charged = [
        (number_and_account(record["n"])[1], lead_of(call_id))
        for call_id, record in seen.flying.items()
        if record.get("quota") and int(record["granted"]) >= today_us
    ]
    assert len(set(charged)) == len(charged), "a call is counted twice for an account"
    running = Counter(str(account) for account, _ in charged)
    used = {account: int(each) for account, each in calls.items()}
    for account in {*used, *running}:
        most = int(allowed.get(account, used.get(account, 0)))
        assert running[account] <= used.get(account, 0) <= most, (account, used, allowed, running)


def _limits_hold(seen: Snapshot, rules: Rules) -> None:
    assert len(seen.leases) <= rules.concurrent
    assert len(seen.starts) <= rules.per_second
    assert seen.index == {record["n"]: call_id for call_id, record in seen.flying.items()}


def _a_group_is_one_call(seen: Snapshot) -> None:
    """One lease, one start, counted until the last of its numbers has ended."""
    members: dict[str, list[dict[str, Any]]] = {}
    for call_id, record in seen.flying.items():
        assert record.get("lead", call_id) == lead_of(call_id), (call_id, record)
        if "lead" in record:
            members.setdefault(record["lead"], []).append(record)
    assert {lead: len(records) for lead, records in members.items()} == seen.groups
    for records in members.values():
        bare = [number_and_account(record["n"])[0] for record in records]
        assert len(set(bare)) == len(bare), "a number rides with itself"
        assert not any(record.get("deaths") for record in records), "it rides after a death"
        if len(records) > 1:
            assert not any(record.get("alone") for record in records), "it rides although alone"
        told = [(each.get("half"), each.get("fields") or {}) for each in records if _counts(each)]
        assert all(each == told[0] for each in told), "it rides with another half, or fields"
        assert len({(record["at"], record["granted"]) for record in records}) == 1
    assert not any("~" in each for each in (*seen.leases, *seen.starts))
    assert not any("lead" in record for record in seen.records.values())


def _counts(record: dict[str, Any]) -> bool:
    """Whether more is known of a call than what its slot needs: its parcel was not forgotten."""
    return not record.get("forgotten")


def _projections_are_right(redis: Redis, seen: Snapshot) -> None:
    calls, second = redis.mget(KEYS.calls_number, KEYS.sec_calls)
    assert int(calls or 0) == len(seen.leases)
    assert calls != "0"
    assert second is None or 0 < int(second) == len(seen.starts)


def _the_flag_tells_that_somebody_waits(redis: Redis, seen: Snapshot, until: float) -> None:
    somebody_waits = any(seen.lists.values()) or bool(seen.later)
    flag = bool(redis.exists(KEYS.wait_list_activated))
    may_have_ended = time.monotonic() >= until  # asked behind the flag: a busy machine takes long
    assert flag == somebody_waits or (may_have_ended and not flag), "the flag"


def _everybody_waits_in_one_place(seen: Snapshot, by_hand: set[str]) -> None:
    places = Counter(number for listed in seen.lists.values() for number in listed if number)
    places.update(seen.later)
    twice = {number for number, count in places.items() if count > 1}
    assert twice <= by_hand
    for number, record in seen.records.items():
        match record.get("state"):
            case None:
                assert number in seen.lists["automatic" if record.get("auto") else "manual"]
            case "later":
                assert number in seen.later
            case "behind":
                assert number in seen.index
                assert number not in places or number in by_hand
    assert set(places) <= set(seen.records) | by_hand


def _positions_are_right(seen: Snapshot) -> None:
    assert not seen.order or any(seen.lists.values())
    for name, entries in seen.lists.items():
        assert seen.order.get(f"{name}_gaps", 0) == entries.count("") <= max(0, len(entries) - 1)
    for number, record in seen.records.items():
        if record.get("state") is None:
            name = "automatic" if record.get("auto") else "manual"
            index = record["position"] - seen.order.get(name, 0)
            assert seen.lists[name][index] == number, (number, record, seen.lists, seen.order)
        else:
            assert "position" not in record
    assert not any("position" in record for record in seen.flying.values())


def _operations_hang_on_one_record(redis: Redis, seen: Snapshot) -> None:
    carried = {f"{KEYS.operations}{number}": record for number, record in seen.records.items()}
    carried |= {f"{KEYS.operations}={each['n']}": each for each in seen.flying.values()}
    listed = {key: record["listed"] for key, record in carried.items() if record.get("listed")}
    inline = [record.get("newest") or () for record in carried.values()]

    assert {key: len(ids) for key, ids in seen.rest.items()} == listed
    assert all(len(ids) <= INLINE for ids in inline)
    reached = Counter(operation for ids in (*inline, *seen.rest.values()) for operation in ids)
    assert set(reached.values()) <= {1}
    told = _statuses(redis, [f"{KEYS.status}{operation}" for operation in reached])
    open_now = {name for name, each in told.items() if each["status"] not in ENDS}
    counts = redis.hgetall(KEYS.counts)
    assert int(counts.get("open", 0)) == len(open_now)
    told_of = {name: int(count) for name, count in redis.hgetall(OPERATIONS).items()}
    ended = sum(told_of.get(end, 0) for end in ENDS)
    if not getattr(redis, "is_one_line_of_several", False):  # it is counted over all lines
        assert told_of.get("admitted", 0) == ended + len(open_now)
    assert int(counts.get("open_automatic", 0)) == sum("auto" in told[each] for each in open_now)
    known = _statuses(redis, redis.keys(f"{KEYS.status}*"))
    left = {name for name, each in known.items() if each["status"] not in ENDS} - open_now
    anonymous = {f"{KEYS.status}usps:{each['n']}:" for each in seen.flying.values()}
    assert all(known[name]["status"] == "RUNNING" for name in left)
    assert {f"{name.rpartition(':')[0]}:" for name in left} <= anonymous


def _statuses(redis: Redis, names: list[str]) -> dict[str, dict[str, Any]]:
    """Operations; what tells that a request was just refused is none."""
    texts = redis.mget(*names) if names else []
    told = {name: json.loads(text) for name, text in zip(names, texts, strict=True) if text}
    return {name: each for name, each in told.items() if each["status"] is not None}


def _ends_are_counted_once(redis: Redis) -> None:
    assert all(int(count) >= 0 for count in redis.hgetall(KEYS.counts).values())
    told = Counter(ended(redis).values())
    for prefix in ("tracking:stats1:", "tracking:stats2:usps:"):
        tallied = Counter[str]()
        for name in redis.keys(f"{prefix}*"):
            for field, times in redis.hgetall(name).items():
                tallied[field.partition(" ")[0]] += int(times)
        assert {end: tallied[end] for end in ENDS} == {end: told[end] for end in ENDS}


def _keys_live_as_long_as_documented(redis: Redis) -> None:
    names = list(redis.keys())
    told = _statuses(redis, [name for name in names if name.startswith(KEYS.status)])
    still_open = {name for name, each in told.items() if each["status"] not in ENDS}
    still_open |= {f"{KEYS.status}{each}" for each in redis.zrange(TO_ARCHIVE, 0, -1)}
    pipeline = redis.pipeline(transaction=False)
    for name in names:
        pipeline.pttl(name)
    for name, left_ms in zip(names, pipeline.execute(), strict=True):
        if name in NEVER_EXPIRES or name.startswith(KEYS.operations) or name in still_open:
            assert left_ms == -1, name
        else:
            week_ms = 7 * DAY_MS if name.startswith("tracking:stats2:") else DAY_MS
            is_refused = name.startswith(KEYS.status) and name not in told
            most_ms = LIVES_AT_MOST_MS.get(name, REFUSED_MS if is_refused else week_ms)
            assert left_ms == -2 or 0 <= left_ms <= most_ms, (name, left_ms)


def ended(redis: Redis) -> dict[str, str]:
    """The state of every operation that has ended, by its id."""
    told = _statuses(redis, redis.keys(f"{KEYS.status}*"))
    found = {name.removeprefix(KEYS.status): each["status"] for name, each in told.items()}
    return {operation: state for operation, state in found.items() if state in ENDS}
