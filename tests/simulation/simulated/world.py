"""One world: everything that a seed makes, from the first request until nothing moves."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from limits.script_file import load
from service.config.domain import rules_for
from service.worker.wiring.webhooks import Webhooks
from simulated.chance import Chance
from simulated.courier import Couriers
from simulated.crew import Workers, ports
from simulated.destinations import Destinations
from simulated.exchange import Port, Surroundings
from simulated.hooks import HookJudge, service_documents, webhook_of
from simulated.intake import SimulatedIntake
from simulated.keyspace import Keyspace
from simulated.loop import RUNNING, Process, StillError, VirtualLoop
from simulated.mongodb import Collections, SimulatedDead, SimulatedResults, SimulatedStore
from simulated.nemesis import Nemesis
from simulated.operator_hands import Operator
from simulated.patches import BEGAN, replaced
from simulated.plan import LEAPS, PROMOTED, Plan
from simulated.producer import Producer
from simulated.redis_server import RedisServer
from simulated.scripting import Scripting, Scripts
from simulated.story import Logger, Points, parcels_under_way
from simulated.stumbling import stumbling
from simulated.trace import Trace
from simulated.tubes import TubeServer
from simulated.verdict import A_CHECK, Judge
from simulated.watch import Watch
from simulated.worker import NoServices, config_for, lease_of_deliveries
from tracking.errors import ResultsDown
from tracking.request import Slug

LOOK_SECONDS = 1.0
QUIET_WITHIN = 900.0
"""A pause after refused credentials is a minute, the next one two; all else ends sooner."""

LONGEST_PAUSE = 3_600.0
"""One that began just before the end of an outage, or of a line where one never succeeds; and so
late a check comes again that found no room."""

MOST_TURNS = 3_000_000
"""A world that runs in circles is a broken one."""

Changed = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Breakage:
    """How a world is broken on purpose, for the judges to find: scripts, or parts of the wiring."""

    scripts: Changed = lambda text: text
    parts: Callable[[dict[str, Any]], dict[str, Any]] = lambda parts: parts


UNBROKEN = Breakage()


class World:
    """Built from a plan; `run` lives it through. `trace` tells what happened."""

    def __init__(self, plan: Plan, scripting: Scripting, breakage: Breakage = UNBROKEN) -> None:
        self.plan = plan
        self.loop = VirtualLoop(Random(f"order {plan.seed}") if plan.shuffle else None)
        self.trace = Trace(lambda: self.loop.now)
        chance = Chance(plan, self.trace)
        self._around = Surroundings(self.loop, chance, self.trace, self._kill, self._pause)
        self._breakage = breakage
        self._clock_ahead = plan.clock_ahead
        self.space = Keyspace(self._redis_time)
        self.space.replicated = PROMOTED in plan.rates
        self.server = TubeServer(self.loop, self.trace)
        slugs = {each.slug: each for each in plan.slugs}
        self.couriers = Couriers(
            self._around, slugs, plan.lease, plan.concurrency, plan.outage, plan.left_out
        )
        self.mended_at = max(plan.faulty, plan.outage.ends if plan.outage else 0.0)
        self.collections = Collections(self.trace, parcels_under_way(plan), refused=plan.refused)
        for each in service_documents(plan):
            self.collections.others["services"].stored[each["_id"]] = each
        self.destinations = Destinations(
            self._around,
            {each.id: each for each in plan.services},
            self.collections,
            lease_of_deliveries(plan),
            lambda process: self.workers.is_stopping(process),  # noqa: PLW0108 - they come later
        )
        webhooks = functools.partial(webhook_of, plan)
        self.producer = Producer(plan, self._around, self.server, webhooks)
        self._mongodb = Port("mongodb", self._around, ResultsDown)
        self._mongodb_is_back: list[asyncio.Future[None]] = []
        self.workers = Workers(
            plan,
            self._around,
            self.server,
            self.couriers,
            self.destinations,
            lambda: SimulatedStore(self._mongodb, self.collections, self._when_back),
            *ports(self._around),
        )
        config = config_for(plan)
        self._operator = Operator(
            plan,
            self._around,
            self.space,
            self.producer.asked,
            lambda slug: rules_for(config, slug),
        )
        self.watch = self._watch(self._operator.pushed)
        self.redis = RedisServer(
            self._around, self.space, Scripts(scripting, breakage.scripts), self.watch
        )
        self.loop.connect = self.redis.connect
        self.hooks = HookJudge(
            plan,
            self.collections,
            self.destinations,
            self.space,
            self.producer.asked,
            self.watch,
        )
        self.nemesis = Nemesis(
            plan,
            self._around,
            self.workers,
            self.redis,
            self._operator,
            self._mongodb,
            self._tell_back,
            self._step_clock,
        )
        self._judge = Judge(
            plan,
            self.producer,
            self.server,
            self.collections,
            self.space,
            self.watch,
            self.couriers,
            self._operator,
            self.hooks,
        )

    def run(self) -> Trace:
        """Live until nothing moves, and judge."""
        self.loop.set_exception_handler(self._unexpected)
        logger = Logger(self.trace)
        with replaced(self.loop.time, self._wall, self.plan.seed, self._parts(), logger):
            try:
                self.loop.run_until_complete(self._live())
            except StillError:
                self.trace.breach("I7", f"nothing happens any more: {self._judge.unquiet()}")
            for promise, what in self._judge.breaches():
                self.trace.breach(promise, what)
            self._note_repairs()
            logger.is_over = True
            self.loop.dispose()
        return self.trace

    async def _live(self) -> None:
        self.producer.start()
        self.workers.start()
        self.nemesis.look()
        await asyncio.sleep(self.plan.faulty)
        self.trace.add("world", "is healed")
        self.nemesis.heal()
        await asyncio.sleep(self.mended_at - self.loop.now)
        longest = self.loop.now + LONGEST_PAUSE
        until = longest if self.plan.outage or self.plan.hopeless else self.loop.now
        while what := self._judge.unquiet():
            if what.startswith(A_CHECK):  # what it changes is to be delivered, too
                until = max(until, min(self.loop.now, longest))
            if self.loop.now > until + QUIET_WITHIN or self.loop.turns > MOST_TURNS:
                self.trace.breach("I7", f"not quiet: {what}")
                return
            await asyncio.sleep(LOOK_SECONDS)
        self.trace.add("world", "is quiet")

    def _watch(self, by_hand: Mapping[str, Mapping[str, float]]) -> Watch:
        config = config_for(self.plan)
        rules = {each.slug: rules_for(config, Slug(each.slug)) for each in self.plan.slugs}
        names = {script.sha: name for name, script in load().items()}
        rates = self.plan.rates
        listed = rates.keys().isdisjoint({"list deleted", "number taken out by hand"})
        steps = not rates.keys().isdisjoint({"redis clock steps back", LEAPS})
        return Watch(self.space, self.trace, rules, by_hand, names, listed, steps)

    def _parts(self) -> dict[str, Any]:
        def intake(sources: Any, room: int, on_jobs: Any) -> SimulatedIntake:
            tubes = next(hand.tubes for hand in self.workers.hands if hand.process is RUNNING.get())
            return SimulatedIntake(tubes, sources, room, on_jobs)

        points = Points(self._around)
        parts = {
            "Intake": intake,
            "Trackings": SimulatedResults,
            "Webhooks": Webhooks if self.plan.services else NoServices,
            "Dead": SimulatedDead,
            "Tracker": lambda _, __: self.couriers,
            "FailPoints": points,
            **stumbling(self._around.chance),
        }
        return self._breakage.parts(parts)

    def _wall(self) -> float:
        process = RUNNING.get()
        return BEGAN + self.loop.now + (process.skew if process is not None else 0.0)

    def _redis_time(self) -> int:
        return round((BEGAN + self.loop.now + self._clock_ahead) * 1_000_000)

    def _step_clock(self, seconds: float) -> None:
        self._clock_ahead += seconds
        self._judge.stepped_back += max(0.0, -seconds)

    def _kill(self, process: Process) -> None:
        self.workers.kill(process)

    def _pause(self, process: Process) -> None:
        self.workers.pause(process)

    def _when_back(self) -> asyncio.Future[None]:
        back: asyncio.Future[None] = self.loop.create_future()
        self._mongodb_is_back.append(back)
        return back

    def _tell_back(self) -> None:
        for back in self._mongodb_is_back:
            if not back.done():
                back.set_result(None)
        self._mongodb_is_back.clear()
        for hand in self.workers.hands:
            self.loop.inside(hand.process, hand.store.returned)

    def _unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.trace.breach("loop", f"{context['message']}: {error!r}")

    def _note_repairs(self) -> None:
        for slug in self.plan.slugs:
            for kind in ("lost", "repeated"):
                self.trace.repair(kind, self.watch.happened(kind, slug.slug))
        self.trace.repair("lease expired", self.space.expired_leases)
