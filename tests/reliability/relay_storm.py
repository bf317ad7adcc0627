"""A relay under load, every part of which is broken all the time but the receiver; the verdict.

Foreign requests come at an even rate, of several senders, signed, of many sizes, and among them
some that must be refused. Meanwhile the door is killed with -9, and beanstalkd, Redis, MongoDB
and worker processes are; each comes again. When all is mended and nothing is left to deliver:

* each request that was answered 202 arrived, byte for byte, with a signature that is right;
* none of them became two deliveries, and no delivery was sent again behind a stored success;
* nothing that had to be refused was taken, and nothing of it arrived.

What was answered 503, or not at all, may have arrived or not.

    PYTHONPATH=.:tests/reliability python -m relay_storm --posts 20000 --rate 500
    PYTHONPATH=.:tests/reliability python -m relay_storm --posts 5700 --kills 0
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foreign_posts import NO_ANSWER, Post, Sender, posts
from relay_arena import RelayArena, relay_arena
from storms import Fault, break_each, post_evenly, restart

from devstack.foreign import NUMBER, wrong_arrival
from devstack.judge import Call, Noted, noted_in, wrong_attempts
from devstack.senders import Message

TAKEN, FULL = 202, 503
PATIENCE = 360.0
"""Seconds in which something must move: a third attempt comes five minutes after the second."""

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is posted, how fast, and how often something is killed."""

    posts: int
    rate: float
    doors: int
    tubes: int
    stores: int
    workers: int
    down: float = 0.5
    seed: int = 1


@dataclass
class Log:
    """What senders and receiver know: answers by number, arrivals, and what is wrong with these.

    `drawn`: the second in which the requests were signed, so that none is too old.
    """

    posts: dict[int, Post]
    drawn: int = 0
    answers: dict[int, int] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    deliveries: dict[int, set[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def note_arrival(self, message: Message) -> None:
        """Judge a request as it arrives, so that none need be kept."""
        now = time.monotonic_ns()
        number, delivery = int(message.value(NUMBER) or -1), message.value("relay-id")
        self.calls.append(Call("relay", delivery, now, now))
        self.deliveries.setdefault(number, set()).add(delivery)
        post = self.posts.get(number)
        if post is None or post.refused:
            self.wrong.append(f"{number} arrived: {message.method} {message.target[:80]}")
        elif said := wrong_arrival(post.request, message, self.drawn):
            self.wrong.append(said)


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored when all is over: attempts by delivery, and how many deliveries per state."""

    noted: Mapping[str, Noted]
    states: dict[str, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of it. `wrong` is empty where every promise was kept."""

    taken: int
    spooled: int
    wrong: Sequence[str]
    table: Mapping[str, str]


async def storm(scale: Scale, folder: Path) -> Verdict:
    """Run once, in a folder on a disk."""
    async with relay_arena(folder) as arena:
        now = int(time.time())
        made = posts(scale.seed, scale.posts, arena.address, now)
        log = Log({each.request.number: each for each in made}, now)
        arena.receiver.keep = log.note_arrival
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(_post_all(scale, arena, log))
            group.create_task(_break_things(scale, arena))
        posted = time.monotonic()
        await arena.quiet(PATIENCE)
        times = {"posted": posted - began, "all delivered": time.monotonic() - began}
        wrong = [*arena.defects(), *wrong_things(log, stored := _stored(arena))]
        taken = sum(answer == TAKEN for answer in log.answers.values())
        spooled = arena.spooled()
        table = {"spooled": f"{spooled} requests", **_table(log, stored, times)}
        return Verdict(taken, spooled, wrong, table)


async def _post_all(scale: Scale, arena: RelayArena, log: Log) -> None:
    sender, ordered = Sender(arena.door.url), list(log.posts.values())

    async def post(index: int) -> None:
        each = ordered[index]
        log.answers[each.request.number] = await sender.post(each)

    await post_evenly(scale.posts, scale.rate, post)
    sender.close()


async def _break_things(scale: Scale, arena: RelayArena) -> None:
    stack = arena.stack

    async def kill_tubes() -> None:
        await restart(stack.beanstalkd, scale.down)

    async def kill_redis() -> None:
        await restart(stack.redis, scale.down)

    async def kill_worker() -> None:
        arena.worker.signal_children(signal.SIGKILL)

    async def kill_mongodb() -> None:
        """Kill those who wait for it, too: they have jobs in hand that are stored nowhere else."""
        await asyncio.to_thread(stack.mongodb.kill)
        await asyncio.sleep(scale.down)
        await kill_worker()
        await asyncio.to_thread(stack.mongodb.start)

    async def kill_waiting_door() -> None:
        """Kill the door while it waits for beanstalkd: what it has in hand is durable nowhere."""
        stack.beanstalkd.pause()
        await asyncio.sleep(scale.down)
        await arena.door.kill()
        stack.beanstalkd.resume()
        await arena.door.start()

    faults: dict[Fault, int] = {
        arena.door.restart: scale.doors // 2,
        kill_waiting_door: scale.doors - scale.doors // 2,
        kill_tubes: scale.tubes,
        kill_redis: scale.stores,
        kill_mongodb: scale.stores,
        kill_worker: scale.workers,
    }
    await break_each(faults, scale.posts / scale.rate, scale.seed)


def _stored(arena: RelayArena) -> Stored:
    with arena.database() as database:
        noted = noted_in(database["attempts"].find(), time.time_ns() - time.monotonic_ns())
        grouped = database["deliveries"].aggregate([{"$sortByCount": "$state"}])
        return Stored(noted, {each["_id"]: each["count"] for each in grouped})


def wrong_things(log: Log, stored: Stored) -> Iterator[str]:
    """Compare what was answered with what arrived, and that with what is stored."""
    yield from log.wrong
    yield from wrong_attempts(log.calls, stored.noted)
    for number, post in log.posts.items():
        answer, told = log.answers[number], f"{post.request.system} {number}"
        if answer not in {post.refused or TAKEN, FULL, NO_ANSWER}:
            yield f"{told} was answered {answer}"
        if answer == TAKEN and number not in log.deliveries:
            yield f"{told} was answered 202, and did not arrive"
        if len(made := log.deliveries.get(number, ())) > 1:
            yield f"{told} became {len(made)} deliveries"
    yield from (
        f"{count} deliveries are {state}"
        for state, count in stored.states.items()
        if state != "delivered"
    )


def _table(log: Log, stored: Stored, times: Mapping[str, float]) -> dict[str, str]:
    answers = Counter(log.answers.values())
    unsure = {each for each, said in log.answers.items() if said in {FULL, NO_ANSWER}}
    return {
        "answers": ", ".join(f"{code or 'none'}: {n}" for code, n in answers.most_common()),
        "arrived": f"{len(log.deliveries)} requests, in {len(log.calls)} attempts",
        "arrived without a 202": f"{len(unsure & log.deliveries.keys())}",
        "deliveries": ", ".join(f"{state}: {n}" for state, n in stored.states.items()),
        **{name: f"within {seconds:.1f} s" for name, seconds in times.items()},
    }


def main() -> int:
    """Run a large one, and print what came of it; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--posts", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=500.0, help="posts in a second")
    parser.add_argument("--kills", type=int, default=10, help="of the door, and of beanstalkd")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
    asked = parser.parse_args()
    kills, some = asked.kills, -(-asked.kills * 3 // 10)
    scale = Scale(asked.posts, asked.rate, kills, kills, some, some, seed=asked.seed)
    with tempfile.TemporaryDirectory(prefix="storm-", dir="/var/tmp") as folder:
        verdict = asyncio.run(storm(scale, Path(folder)))
    told = [
        f"seed {asked.seed}: {asked.posts} posts at {asked.rate:g} a second",
        *(f"{name:<26} {value}" for name, value in verdict.table.items()),
        *(f"WRONG {each}" for each in verdict.wrong[:SHOWN]),
        f"{len(verdict.wrong)} promises were broken",
    ]
    sys.stdout.write("\n".join(told) + "\n")
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
