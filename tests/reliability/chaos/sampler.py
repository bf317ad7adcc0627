"""Looks at Redis all the time, past the proxies: who waits, what runs, what has no end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import redis

from chaos.arena import Arena
from chaos.scale import Courier
from tracking.operation import ENDS

PERIOD = 0.2
"""Seconds between two looks."""

SLACK_MS = 1_000
"""A key's end is rounded up, and the key may have been written during the look."""

LONGEST_MS = {
    "calls_number": 60_000,
    "sec_calls": 1_000,
    "calls_leases": 60_000,
    "call_starts": 5_000,
    "wait_drainer": 35_000,
    "wait_list_activated": 5_000_000,
    "calls_paused": 3_600_000,
    "calls_brake": 2 * 86_400_000,
}
"""How long each key of a courier may still live, at most (docs/interface.md §2)."""

STATUS_MS = 86_400_000
STATUSES_AT_ONCE = 200
ENDS_AT_ONCE = 16
"""Couriers whose keys' ends are looked at in one look; the others' turn comes."""


@dataclass(slots=True)
class Lease:
    """One call's place, as long as it was seen; seconds of `time.monotonic()`.

    A look takes seconds where Redis is stopped in the middle of it: a place was seen from the end
    of its first look to the beginning of its last one.
    """

    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Look:
    """Who waited for each courier at one instant of `time.monotonic()`, and who drained.

    `drainers` holds what `wait_drainer:<slug>` told, where it told something.
    """

    at: float
    waiting: dict[str, int]
    drainers: dict[str, str] = field(default_factory=dict)


class Sampler:
    """Collects looks and leases on a thread; `faults` are breaches of what is always true."""

    def __init__(self, arena: Arena) -> None:
        self.looks: list[Look] = []
        self.leases: dict[tuple[str, str], Lease] = {}
        self.faults: list[str] = []
        self._arena = arena
        self._couriers = {courier.slug: courier for courier in arena.scale.couriers}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._cursor = 0
        self._turn = 0

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        slugs = list(self._couriers)
        while not self._stop.is_set():
            try:
                with self._arena.redis() as client:
                    while not self._stop.wait(PERIOD):
                        self._look(client, slugs)
                        self._look_at_statuses(client)
            except redis.RedisError:
                self._stop.wait(PERIOD)  # Redis is broken just now, as planned

    def _look(self, client: redis.Redis, slugs: Sequence[str]) -> None:
        began = time.monotonic()
        seconds, micros = client.time()
        now_us = int(seconds) * 1_000_000 + int(micros)
        turns = -(-len(slugs) // ENDS_AT_ONCE)
        self._turn = (self._turn + 1) % turns
        with_ends = frozenset(slugs[self._turn :: turns])
        pipeline = client.pipeline()
        for slug in slugs:
            pipeline.llen(f"wait_list:{slug}")
            pipeline.llen(f"wait_list_automatic:{slug}")
            # What has ended is none any more, although the next script has yet to remove it.
            pipeline.zrangebyscore(f"calls_leases:{slug}", now_us, "+inf")
            pipeline.get(f"wait_drainer:{slug}")
            pipeline.hgetall(f"wait_inflight:{slug}")
            if slug in with_ends:
                pipeline.get(f"calls_number:{slug}")
                pipeline.get(f"sec_calls:{slug}")
                for name in LONGEST_MS:
                    pipeline.pttl(f"{name}:{slug}")
        self._note(iter(pipeline.execute()), slugs, with_ends, began)

    def _note(
        self, answers: Iterator[Any], slugs: Sequence[str], with_ends: Collection[str], began: float
    ) -> None:
        look = Look(time.monotonic(), {})
        for slug in slugs:
            manual, automatic, leases, drainer, flying = islice(answers, 5)
            look.waiting[slug] = manual + automatic
            if drainer:
                look.drainers[slug] = drainer
            for call in leases:
                self.leases.setdefault((slug, call), Lease(look.at, began)).last = began
            self._judge_groups(self._couriers[slug], leases, flying)
            if slug in with_ends:
                self._judge_ends(slug, answers)
        self.looks.append(look)

    def _judge_groups(
        self, courier: Courier, leases: Sequence[str], flying: Mapping[str, str]
    ) -> None:
        """What is in flight are groups: each has one place, and as many numbers as it may."""
        if len(leases) > courier.concurrent:
            self.faults.append(f"{len(leases)} places of {courier.slug} are taken")
        riding = [call for call in leases if "~" in call]
        if riding:
            self.faults.append(f"riders of {courier.slug} have places of their own: {riding}")
        for lead, left in flying.items():
            if lead.startswith("#") and not 1 <= int(left) <= courier.together:
                self.faults.append(f"{left} numbers of {courier.slug} go with {lead}")

    def _judge_ends(self, slug: str, answers: Iterator[Any]) -> None:
        for name in ("calls_number", "sec_calls"):
            if int(next(answers) or 0) < 0:
                self.faults.append(f"{name}:{slug} is negative")
        for name, longest in LONGEST_MS.items():
            left = next(answers)
            if left == -1:
                self.faults.append(f"{name}:{slug} has no end")
            elif left > longest + SLACK_MS:
                self.faults.append(f"{name}:{slug} lives {left} ms, more than {longest:g}")

    def _look_at_statuses(self, client: redis.Redis) -> None:
        found = client.scan(self._cursor, match="tracking:status:*", count=STATUSES_AT_ONCE)
        self._cursor, names = int(found[0]), [str(name) for name in found[1]]
        pipeline = client.pipeline(transaction=False)
        for name in names:
            pipeline.get(name)
            # Asked for in this order: what was archived in between has its end by then.
            pipeline.zscore("tracking:to_archive", name.removeprefix("tracking:status:"))
            pipeline.pttl(name)
        told = pipeline.execute()
        for name, text, waits, left in zip(names, *(told[i::3] for i in range(3)), strict=True):
            has_ended = text and json.loads(text)["status"] in ENDS
            if (has_ended and waits is None and left == -1) or left > STATUS_MS + SLACK_MS:
                self.faults.append(f"{name} lives {left} ms")
