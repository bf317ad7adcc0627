"""How requests have ended, judged from the producer's log; and what is still held anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import redis
from producer_log import Producer, Put
from pymongo.database import Database
from running_worker import until

from limits.keys import TO_ARCHIVE
from tracking.operation import ENDS

STEP = 0.25
KEYS_LOOKED_AT = 500
LISTS = ("wait_list", "wait_list_automatic")
EXPIRING = {
    "calls_number": 60_000,
    "sec_calls": 1_000,
    "calls_leases": 60_000,
    "call_starts": 60_000,
    "calls_paused": 86_400_000,
    "calls_brake": 2 * 86_400_000,
    "wait_drainer": 86_400_000,
    "wait_list_activated": 86_400_000_000,
    "tracking:status": 86_400_000,
    "tracking:answer": 86_400_000,
}
"""Keys that must expire, and the longest that each may live, in ms (docs/interface.md §2)."""


class Endings:
    """Stored, or dead with its reason, or CANCELLED (docs/interface.md §1); nothing is held."""

    def __init__(
        self,
        producer: Producer,
        client: redis.Redis,
        database: Database[dict[str, Any]],
        slugs: Sequence[str],
    ) -> None:
        self._producer = producer
        self._redis = client
        self._tracking = database["tracking"]
        self._dead = database["dead"]
        self._slugs = slugs

    def come(self, seconds: float) -> None:
        """Wait until everything that was acknowledged has ended and nothing is held."""
        try:
            until(self._quiet, seconds, "everything ends", step=STEP)
        except AssertionError as error:
            error.add_note(f"held: {self.held()}; not ended: {self.missing()}")
            raise

    def _quiet(self) -> bool:
        self.keys_are_sound()
        left = self.held() or self.missing()
        return not left

    def state(self, operation: str) -> str | None:
        """The state of an operation as its producer may ask for it."""
        text = self._redis.get(f"tracking:status:{operation}")
        return json.loads(str(text))["status"] if text else None

    def missing(self) -> list[Put]:
        """Acknowledged requests that have not ended."""
        puts = self._producer.acknowledged
        found = self._tracking.find({}, {"error": 1, "last_checked_at": 1})
        stored = {document["_id"]: document for document in found}
        dead = list(self._dead.find({}))
        states = self._states([put.id for put in puts if put.id])
        return [put for put in puts if not _ended(put, stored, dead, states)]

    def _states(self, operations: Sequence[str]) -> dict[str, str]:
        if not operations:
            return {}
        texts = self._redis.mget([f"tracking:status:{each}" for each in operations])
        read = zip(operations, texts, strict=True)
        told = {each: json.loads(text)["status"] for each, text in read if text}
        return {each: state for each, state in told.items() if state in ENDS}

    def held(self) -> list[str]:
        """What tubes and Redis still hold, in words."""
        return [*self._producer.held(), *(each for slug in self._slugs for each in self._of(slug))]

    def _of(self, slug: str) -> list[str]:
        seconds, micros = self._redis.time()
        now = int(seconds) * 1_000_000 + int(micros)
        pipeline = self._redis.pipeline(transaction=False)
        for name in LISTS:
            pipeline.llen(f"{name}:{slug}")
        pipeline.zcard(f"wait_later:{slug}")
        pipeline.hlen(f"wait_inflight:{slug}")
        pipeline.hlen(f"wait_requests:{slug}")
        pipeline.zcount(f"calls_leases:{slug}", now, "+inf")
        names = (*LISTS, "wait_later", "wait_inflight", "wait_requests", "slots")
        counts = zip(names, pipeline.execute(), strict=True)
        return [f"{name}:{slug}: {count}" for name, count in counts if count]

    def keys_are_sound(self) -> None:
        """Assert I5: every key that should expire has its TTL, and no counter is negative."""
        keys = [str(key) for key in islice(self._redis.scan_iter(count=1000), KEYS_LOOKED_AT)]
        kinds = {key: kind for key in keys for kind in EXPIRING if key.startswith(f"{kind}:")}
        told = {key for key, kind in kinds.items() if kind == "tracking:status"}
        texts = {key: self._redis.get(key) for key in told}
        is_open = {key for key in told if json.loads(texts[key] or "{}").get("status") not in ENDS}
        # In this order: what is archived from now on has its end by the look below.
        is_open |= {f"tracking:status:{each}" for each in self._redis.zrange(TO_ARCHIVE, 0, -1)}
        pipeline = self._redis.pipeline(transaction=False)
        for key in kinds:
            pipeline.pttl(key)
        for (key, kind), ttl in zip(kinds.items(), pipeline.execute(), strict=True):
            assert ttl != -1 or key in is_open, f"{key} never expires"
            assert ttl <= EXPIRING[kind], f"{key} lives for {ttl} ms more"
            if kind in {"calls_number", "sec_calls"}:
                assert int(self._redis.get(key) or 0) >= 0, f"{key} is negative"


def _ended(
    put: Put, stored: dict[str, Any], dead: list[dict[str, Any]], states: dict[str, str]
) -> bool:
    document = stored.get(f"{put.slug}:{put.number}", {})
    answered = document.get("last_checked_at") is not None
    failed = document.get("error") is not None or any(
        put.id in each["operations"]
        or (each["slug"], each["number"], each["job"]) == (put.slug, put.number, None)
        for each in dead
    )
    if put.id is None:
        return answered or failed
    match states.get(put.id):
        case "SUCCESS":
            return answered
        case "ERROR":
            return failed
        case state:
            return state == "CANCELLED"
