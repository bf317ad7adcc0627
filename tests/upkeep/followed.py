"""Parcels that are followed for days of virtual time, through kills of their planner.

Real are the planner (`Recheck`), its queries on a real MongoDB, and the policy that sets dates;
made up are the lines, which call as many as their rate allows, tube, leases and time.
Judged is each put: a check is put for the date that its parcel has by then, at most a tenth before
it, never for one date twice but under its id. `python -m followed` follows 100,000 for three days.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import hashlib
import heapq
import random
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from pymongo import UpdateOne, WriteConcern

from devstack.kinds import MONGODB
from devstack.servers import running
from limits.workers import LEASE_SECONDS
from service.config.schema import Recheck as Settings
from service.worker.results.connection import Store
from service.worker.results.database import Document, Names
from service.worker.results.document import scheduled
from service.worker.results.recheck_policy import EARLY, read_pace
from service.worker.tubes.put_servers import Putter
from service.worker.upkeep.recheck import AHEAD, PERIOD_SECONDS, Recheck
from tracking.checkpoint import Tag
from tracking.operation import recheck_id
from tracking.request import MAIN, Account, Slug, TrackingRequest

BEGAN = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
TICK = dt.timedelta(seconds=30)
PLANNERS = 2

LATE_MOST = LEASE_SECONDS + PERIOD_SECONDS * 1.2 * 2 + 5
"""Seconds: a planner dies right after it took its lease, and another one looks once that is over;
a check that was due right after a look waits for the next one."""

UNEVEN, STARVED = 1.15, 1.5
"""How much more one group's times may be stretched than another's, and those of one parcel."""

OVERDUE = "2026-02-20"

MIX: Sequence[tuple[float, Tag, float, str | None]] = (
    (0.30, Tag.IN_TRANSIT, 0.0, None),
    (0.27, Tag.IN_TRANSIT, 4.0, None),
    (0.20, Tag.IN_TRANSIT, 12.0, None),
    (0.11, Tag.PENDING, 5.0, None),
    (0.02, Tag.OUT_FOR_DELIVERY, 0.0, None),
    (0.05, Tag.EXCEPTION, 0.0, None),
    (0.05, Tag.IN_TRANSIT, 0.0, OVERDUE),
)
"""Which part of the parcels has which tag, has not changed for so many days, is expected when."""


class Kind(NamedTuple):
    """A courier: its `part` of the parcels, and how much more is due than it can be asked."""

    slug: Slug
    part: float
    together: int
    excess: float


KINDS = (
    Kind(Slug("ample"), 0.5, 30, 0.1),
    Kind(Slug("tight"), 0.25, 1, 1.4),
    Kind(Slug("quota"), 0.25, 10, 1.25),
)


class Scale(NamedTuple):
    """How large a world is. Its hours between checks are `faster` than the defaults."""

    parcels: int = 100_000
    days: float = 3.0
    seed: int = 1
    faster: float = 1.0

    @property
    def settings(self) -> Settings:
        """Hours between checks."""
        default = Settings()
        return Settings(
            **{
                name: getattr(default, name) / self.faster
                for name in Settings.__struct_fields__
                if name.endswith("_hours")
            }
        )


class Killed(Exception):
    """A process is gone, in the middle of what it did."""


@dataclass
class Parcel:
    """What is known of a parcel beside its document."""

    document: Document
    asked: dt.datetime
    """When its courier was last asked, or the world began."""

    seconds: float = 0.0
    """From then to its date."""

    put: set[str] = field(default_factory=set)
    """The ids under which checks of it were put since."""

    @property
    def group(self) -> str:
        """For figures."""
        pace = read_pace(self.document["check_pace"])
        unchanged = (BEGAN - self.document["updated_at"]).days
        return "first" if pace.first else f"unchanged for {unchanged} days"


class Line:
    """A courier as the planner sees it, which calls at a steady rate."""

    def __init__(self, kind: Kind, calls_a_second: float) -> None:
        self.kind = kind
        self.rate = calls_a_second
        self.queue: deque[TrackingRequest] = deque()
        self.known: set[str] = set()
        self.credit = 0.0
        self.calls = self.numbers = 0

    def room(self, most: int, within: float) -> int:
        """As lua/room.lua."""
        calls = int(self.rate * within) + 1
        return max(0, min(most, calls * self.kind.together - len(self.queue)))

    def admit(self, request: TrackingRequest) -> bool:
        """Take a request unless its id is known, as admit.lua does."""
        assert request.id is not None
        if request.id in self.known:
            return False
        self.known.add(request.id)
        self.queue.append(request)
        return True

    def called(self, seconds: float) -> Iterator[TrackingRequest]:
        """Call as many as the rate allows in so many seconds."""
        self.credit = min(self.credit, 1.0) + self.rate * seconds
        while self.queue and self.credit >= 1:
            self.credit -= 1
            self.calls += 1
            for _ in range(min(self.kind.together, len(self.queue))):
                self.numbers += 1
                yield self.queue.popleft()


@dataclass
class Verdict:
    """What came of it."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    late: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """Of each courier and group, once a third of the time is over: how much longer each took than
    its time, as a part of it; at the last moment, of those too that are late then."""
    late_seconds: float = 0.0
    """Most, of the courier that has enough calls."""
    full: dict[str, float] = field(default_factory=dict)

    def stretched(self, slug: str) -> dict[str, float]:
        """By how much the time of each group was stretched, in the mean."""
        return {
            group: 1 + sum(each) / len(each)
            for group, each in sorted(self.late[slug].items())
            if len(each) >= 50
        }

    def judge(self) -> None:
        """Judge what is known at the end only."""
        if self.late_seconds > LATE_MOST:
            self.wrong.append(f"a check of ample was put {self.late_seconds:.0f} s late")
        for slug in self.late.keys() - {"ample"}:
            groups = self.stretched(slug)
            first, others = groups.pop("first", 1.0), groups.values()
            if others and max(others) > UNEVEN * min(others):
                self.wrong.append(f"{slug}: some times stretch more than others: {groups}")
            if others and self.worst(slug) > STARVED * min(others):
                self.wrong.append(f"{slug}: a parcel's time was stretched by {self.worst(slug)}")
            if first > 1.1:
                self.wrong.append(f"{slug}: who goes first waited: {first}")

    def worst(self, slug: str) -> float:
        """By how much the time of one parcel was stretched at most."""
        return 1 + max(max(each) for each in self.late[slug].values())


class World:
    """Parcels, couriers and planners, at one time."""

    def __init__(self, store: Store, scale: Scale) -> None:
        self.store = store
        self.scale = scale
        self.chance = random.Random(scale.seed)
        self.now = BEGAN
        self.verdict = Verdict()
        self.parcels: dict[str, Parcel] = {}
        self.lines: dict[Slug, Line] = {}
        self.held: dict[Slug, tuple[str, dt.datetime]] = {}
        self.doom: str | None = None
        self.hands = 0
        self.processes = 0
        self.settings = scale.settings
        for kind in KINDS:
            made = [self._parcel(kind, n) for n in range(round(scale.parcels * kind.part))]
            demand = sum(1 / each.seconds for each in made) / kind.together
            self.lines[kind.slug] = Line(kind, demand / kind.excess)
            for begin in range(0, len(made), 2_000):
                some = made[begin : begin + 2_000]
                store.tracking.insert_many([dict(each.document) for each in some])
        self.looks = [(BEGAN, n, self._planner()) for n in range(PLANNERS)]
        heapq.heapify(self.looks)

    def _parcel(self, kind: Kind, n: int) -> Parcel:
        ((_, tag, unchanged, expected),) = self.chance.choices(MIX, [each[0] for each in MIX])
        name = f"{kind.slug}:N{n:06}"
        document = {
            "_id": name,
            "slug": kind.slug,
            "tracking_number": f"N{n:06}",
            "tag": str(tag),
            "active": True,
            "fields": {},
            "expected_delivery": expected,
            "created_at": BEGAN - unchanged * DAY,
            "updated_at": BEGAN - unchanged * DAY,
        }
        longest = self._seconds(scheduled(document, tag, BEGAN, self.settings), BEGAN)
        while True:
            asked = BEGAN - dt.timedelta(seconds=int(longest * self.chance.random()))
            if self._seconds(scheduled(document, tag, asked, self.settings), BEGAN) >= 0:
                break
        parcel = self.parcels[name] = Parcel(document, asked)
        parcel.seconds = self._seconds(document, asked)
        return parcel

    @staticmethod
    def _seconds(document: Document, asked: dt.datetime) -> float:
        seconds: float = (document["next_check_at"] - asked).total_seconds()
        return seconds

    def _planner(self) -> Recheck:
        self.processes += 1
        name = f"process {self.processes}"
        part = _Process(self, name)
        return Recheck(self.store, cast("Putter", part), frozenset(self.lines), part, part)

    async def live(self) -> Verdict:
        """Let its days go by."""
        ends = BEGAN + self.scale.days * DAY
        tick, kill = BEGAN, BEGAN + HOUR / self.scale.faster
        while self.now < ends:
            self.now = min(tick, self.looks[0][0])
            if self.now >= kill and self.doom is None:
                self.doom = self.chance.choice(["before", "after", "stands still"])
                kill += HOUR * self.chance.uniform(0.5, 3.0) / self.scale.faster
            if self.now == tick:
                tick += TICK
                self._call()
            else:
                await self._look()
        self._judge_the_end()
        return self.verdict

    async def _look(self) -> None:
        at, n, planner = heapq.heappop(self.looks)
        rest = PERIOD_SECONDS * self.chance.uniform(0.8, 1.2)
        try:
            await planner.look(lambda: self.now)
        except Killed:
            self.verdict.counts["kills"] += 1
            planner, rest = self._planner(), 5.0
        heapq.heappush(self.looks, (max(at, self.now) + dt.timedelta(seconds=rest), n, planner))

    async def others_look(self) -> None:
        """Stand still for longer than a lease lives: the others look meanwhile."""
        self.verdict.counts["stood still"] += 1
        self.now += dt.timedelta(seconds=LEASE_SECONDS + 1)
        looks = [planner for _, _, planner in self.looks]
        for planner in looks:
            await planner.look(lambda: self.now)

    def put(self, requests: Iterable[TrackingRequest]) -> None:
        """Judge what is put, and hand it to its line."""
        for request in requests:
            parcel = self.parcels[f"{request.slug}:{request.number}"]
            date = parcel.document["next_check_at"]
            key = f"{parcel.document['_id']}@{date.isoformat()}"
            expected = recheck_id(MAIN, hashlib.sha256(key.encode()).hexdigest()[:32])
            count = self.verdict.counts
            if request.id in parcel.put:
                count["put again under the same id"] += 1
            elif request.id != expected:
                # Its document was put off, and no answer came.
                self.verdict.wrong.append(f"{key} was put again, or for another date")
            else:
                count["checks"] += 1
                self._judge(parcel, date)
            parcel.put.add(cast("str", request.id))
            self.lines[request.slug].admit(request)

    def _judge(self, parcel: Parcel, date: dt.datetime) -> None:
        late = (self.now - date).total_seconds()
        slug = parcel.document["slug"]
        may = EARLY * parcel.seconds if self.lines[slug].kind.together > 1 else 0.0
        if late < 0:
            self.verdict.counts["moved"] += 1
        if -late > may:
            self.verdict.wrong.append(f"{parcel.document['_id']} was put {-late:.0f} s too early")
        if slug == "ample" or self.now - BEGAN > self.scale.days / 3 * DAY:
            self._note_late(parcel, late)

    def _note_late(self, parcel: Parcel, late: float) -> None:
        slug = parcel.document["slug"]
        self.verdict.late[slug][parcel.group].append(late / parcel.seconds)
        if slug == "ample":
            self.verdict.late_seconds = max(self.verdict.late_seconds, late)

    def _call(self) -> None:
        answered = [
            each for line in self.lines.values() for each in line.called(TICK.total_seconds())
        ]
        names = [f"{each.slug}:{each.number}" for each in answered]
        if self.chance.random() < 0.05:  # somebody asks by hand, and is answered
            names.append(self.chance.choice(list(self.parcels)))
            self.hands += 1
        if names:
            self.store.tracking.bulk_write(
                [self._answered(name) for name in set(names)], ordered=False
            )

    def _answered(self, name: str) -> UpdateOne:
        parcel = self.parcels[name]
        document = scheduled(parcel.document, Tag(parcel.document["tag"]), self.now, self.settings)
        parcel.asked, parcel.put = self.now, set()
        parcel.seconds = self._seconds(document, self.now)
        change = {member: document[member] for member in ("next_check_at", "check_pace")}
        return UpdateOne({"_id": name}, {"$set": change})

    def _judge_the_end(self) -> None:
        for slug, line in self.lines.items():
            self.verdict.full[slug] = line.numbers / max(1, line.calls) / line.kind.together
        for parcel in self.parcels.values():
            late = (self.now - parcel.asked).total_seconds() - parcel.seconds
            if late > 0 and not parcel.put:
                self._note_late(parcel, late)
        self.verdict.judge()


class _Process:
    """What one planner works with: the tube, the lines, the leases."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name

    async def put_rechecks(self, requests: Iterable[TrackingRequest]) -> None:
        put, world = list(requests), self.world
        doom, world.doom = (world.doom, None) if put else (None, world.doom)
        if doom == "before":
            raise Killed
        if doom == "stands still":
            await world.others_look()
        world.put(put)
        if doom == "after":
            raise Killed

    async def resting(self) -> tuple[frozenset[Account], float]:
        return frozenset(), 0.0

    async def room(self, slug: Slug, most: int, within: float) -> int:
        assert within == AHEAD.total_seconds()
        return self.world.lines[slug].room(most, within)

    def together(self, slug: Slug) -> int:
        return self.world.lines[slug].kind.together

    async def hold(self, slugs: Sequence[Slug]) -> list[Slug]:
        """As lua/plan.lua."""
        world, held = self.world, []
        for slug in slugs:
            who, until = world.held.get(slug, (self.name, world.now))
            if who == self.name or until <= world.now:
                world.held[slug] = self.name, world.now + dt.timedelta(seconds=LEASE_SECONDS)
                held.append(slug)
        return held


async def followed(uri: str, scale: Scale) -> Verdict:
    """Follow parcels in a database of their own; nobody waits for a disk."""
    store = Store(Names(uri, f"followed_{scale.seed}_{scale.parcels}"))
    store.tracking = store.tracking.with_options(write_concern=WriteConcern(1, j=False))
    try:
        store.client.drop_database(store.tracking.database.name)
        await store.prepare()
        return await World(store, scale).live()
    finally:
        store.client.drop_database(store.tracking.database.name)
        await store.close()


def told(verdict: Verdict) -> list[str]:
    """Word a verdict."""
    lines = [", ".join(f"{count:,} {what}" for what, count in verdict.counts.items())]
    for slug, full in verdict.full.items():
        groups = ", ".join(f"{group} by {by:.2f}" for group, by in verdict.stretched(slug).items())
        worst = f"one parcel's by {verdict.worst(slug):.2f} at most"
        lines.append(f"{slug}: calls {full:.0%} full, times stretched {groups}, {worst}")
    wrong = [f"WRONG {each}" for each in verdict.wrong[:20]]
    lines.append(f"ample: {verdict.late_seconds:.0f} s late at most")
    return [*lines, *wrong, f"{len(verdict.wrong)} promises were broken"]


def main() -> int:
    """Follow many; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    for name, default in Scale()._asdict().items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    scale = Scale(**vars(parser.parse_args()))
    began = time.monotonic()
    with running(MONGODB) as mongodb:
        verdict = asyncio.run(followed(mongodb.url, scale))
    sys.stdout.write(
        f"{scale.parcels:,} parcels, {scale.days:g} days, seed {scale.seed}, "
        f"in {time.monotonic() - began:.0f} s\n" + "\n".join(told(verdict)) + "\n"
    )
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
