"""Real permits, real seconds: three workers share the couriers and keep every limit.

A send is stamped where the request would leave, on this machine's clock; the judge is the one of
the courier site. The full run, against the site itself, is a chaos run.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from limits_bench import ANSWERED, Hire, Worker, asked
from portion import TIMES
from redis.asyncio import Redis
from watched_limits import judged, watched

from devstack.judge import SECOND_NS, most_in_flight, most_starts_in_any_second, rate_share
from devstack.judge import Call as Arrival
from limits.keys import of_line
from limits.rules import Rules
from tracking.call import Call, TakeResult
from tracking.request import Slug

SLUGS = (Slug("usps"), Slug("dpd-uk"))
WAITING = 24 if TIMES else 10
PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Crowd:
    """Workers that drain slugs as the service does: ask when due, call, finish, go on."""

    workers: list[Worker]
    seconds: tuple[float, float]
    """How long a call takes: the least and the most."""
    left: int
    drawn: random.Random = field(default_factory=lambda: random.Random(1))
    sent: list[Arrival] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    calls: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)

    async def drain(self, slugs: Iterable[Slug]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), self.calls:
            asking = [
                self.calls.create_task(self.ask(worker, slug))
                for worker in self.workers
                for slug in slugs
            ]
            await self.done.wait()
            for task in asking:
                task.cancel()

    async def ask(self, worker: Worker, slug: Slug) -> None:
        while True:
            result = await worker.limiter.take(next(worker.limiter.ids), slug, 10, claims=True)
            self.go_on(worker, result)
            # Who has no duty would be called by the tube; here it looks in from time to time.
            wait = 0.5 if result.ask_again is None else result.ask_again - time.monotonic()
            await asyncio.sleep(max(wait, 0.0))

    def go_on(self, worker: Worker, result: TakeResult) -> None:
        for call in result.calls:
            self.calls.create_task(self.make(worker, call))

    async def make(self, worker: Worker, call: Call) -> None:
        await call.permit.before_send()
        arrived_ns = time.monotonic_ns()
        call.permit.after_send()
        await asyncio.sleep(self.drawn.uniform(*self.seconds))
        ended_ns = time.monotonic_ns()
        result = await worker.finish(call, ANSWERED, 10)
        request = call.request
        self.sent.append(Arrival(request.slug, request.number, arrived_ns, ended_ns))
        self.left -= 1
        if not self.left:
            self.done.set()
        self.go_on(worker, result)

    def of(self, slug: Slug) -> list[Arrival]:
        return [arrival for arrival in self.sent if arrival.slug == slug]


def typical_share(arrivals: list[Arrival]) -> float:
    """How much of the rate is used between a start and the next but one, half of the time."""
    starts = sorted(arrival.arrived_ns for arrival in arrivals)
    gaps = [later - start for start, later in zip(starts, starts[2:], strict=False)]
    return SECOND_NS / statistics.median(gaps)


async def test_three_workers_never_start_three_calls_in_a_second_and_waste_no_turn(
    hire: Hire, redis: Redis
) -> None:
    workers = [await hire(Rules()) for _ in range(3)]
    for slug in SLUGS:
        await redis.rpush(of_line(slug).wait_list, *(f"N{n:03}" for n in range(WAITING)))
    crowd = Crowd(workers, seconds=(0.05, 0.3), left=len(SLUGS) * WAITING)
    violations = await watched(redis, Rules())

    await crowd.drain(SLUGS)

    assert await judged(redis, violations) == {
        (slug, limit): 0 for slug in SLUGS for limit in ("rate", "concurrency")
    }

    for slug in SLUGS:
        arrivals = crowd.of(slug)
        assert sorted(arrival.number for arrival in arrivals) == [
            f"N{n:03}" for n in range(WAITING)
        ]
        assert most_starts_in_any_second(arrivals) <= 2
        if TIMES:
            assert typical_share(arrivals) >= 0.95
            assert rate_share(arrivals, per_second=2) >= 0.8  # one pause of the machine costs much


async def test_slow_calls_never_overlap_more_than_allowed_and_no_slot_stays_empty(
    hire: Hire, redis: Redis
) -> None:
    rules = Rules(concurrent=3, per_second=100)
    workers = [await hire(rules) for _ in range(3)]
    slug = SLUGS[0]
    await redis.rpush(of_line(slug).wait_list, *(f"N{n:03}" for n in range(9)))
    crowd = Crowd(workers, seconds=(1.0, 1.0), left=9)
    violations = await watched(redis, rules)

    began_ns = time.monotonic_ns()
    await crowd.drain([slug])

    assert most_in_flight(crowd.sent) == 3
    assert await judged(redis, violations) == {(slug, "rate"): 0, (slug, "concurrency"): 0}
    last_ns = max(arrival.ended_ns or 0 for arrival in crowd.sent)
    assert last_ns - began_ns < 5 * SECOND_NS or not TIMES


async def test_the_slot_of_a_slow_call_is_passed_on_in_the_reply_that_ends_it(hire: Hire) -> None:
    worker = await hire(Rules(concurrent=3, per_second=100))
    running = [await worker.granted(f"N{n:03}") for n in range(3)]
    for n in range(3, 6):
        await worker.parked(f"N{n:03}")

    taken = [(await worker.finish(call, ANSWERED, 5)).calls for call in running]

    assert [[call.request.number for call in calls] for calls in taken] == [
        ["N003"],
        ["N004"],
        ["N005"],
    ]


async def test_starts_given_out_to_new_requests_and_to_waiting_ones_share_one_rate(
    hire: Hire,
) -> None:
    """The original counted only those that did not have to wait."""
    workers = [await hire(Rules()) for _ in range(3)]
    crowd = Crowd(workers, seconds=(0.05, 0.1), left=8)
    slug = SLUGS[0]

    async def ask_for(n: int) -> None:
        await asyncio.sleep(n * 0.2)
        worker = workers[n % 3]
        admission = await worker.limiter.admit(
            next(worker.limiter.ids), asked(f"N{n:03}", slug=slug), f"job-{n}"
        )
        if call := getattr(admission, "call", None):
            await crowd.make(worker, call)

    async with asyncio.TaskGroup() as asking:
        asking.create_task(crowd.drain([slug]))
        for n in range(8):
            asking.create_task(ask_for(n))

    assert len(crowd.sent) == 8
    assert most_starts_in_any_second(crowd.sent) <= 2
