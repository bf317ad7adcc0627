"""Breaks what breaks by itself: workers, servers, and what operators do by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulated.crew import Hand, Workers
from simulated.exchange import Port, Surroundings
from simulated.loop import Process
from simulated.operator_hands import Operator
from simulated.plan import BY_ITSELF, LEAPS, PROMOTED, Plan
from simulated.redis_server import RedisServer

LOOK_SECONDS = 0.5
OUTAGE = (0.2, 8.0)
LONG_OUTAGE = (20.0, 100.0)
LEAP = 20.0
"""So much further than back Redis' clock goes forward: leases end by that."""


@dataclass(slots=True)
class Nemesis:
    """Looks every half a second whether something breaks."""

    plan: Plan
    around: Surroundings
    workers: Workers
    redis: RedisServer
    operator: Operator
    mongodb: Port
    back: Callable[[], None]
    step_clock: Callable[[float], None]

    def look(self) -> None:
        if not self.around.chance.on:
            return
        for kind in (*BY_ITSELF, PROMOTED, LEAPS):
            if self.around.chance.strikes(kind):
                self._break(kind)
        self.around.loop.outside(LOOK_SECONDS, self.look)

    def _break(self, kind: str) -> None:
        hands = self.workers.hands
        if kind.startswith("worker "):
            if hands:
                self._break_worker(kind, self.around.chance.draw.choice(hands))
            return
        steps: dict[str, Callable[[], None]] = {
            "redis away": self._cut_redis,
            PROMOTED: self._promote_replica,
            "redis forgets scripts": self.redis.forget_scripts,
            "redis clock steps back": lambda: self.step_clock(-self.around.chance.delay()),
            LEAPS: lambda: self.step_clock(LEAP * self.around.chance.delay()),
            "beanstalkd away": self._cut_beanstalkd,
            "mongodb away": self._cut_mongodb,
            "redis full": self._fill_redis,
            "mongodb away for long": lambda: self._cut_mongodb(LONG_OUTAGE),
            "list deleted": self.operator.delete,
            "number taken out by hand": self.operator.take_out,
            "number pushed by hand": self.operator.push,
            "number cancelled by hand": self.operator.cancel,
        }
        steps[kind]()

    def _break_worker(self, kind: str, hand: Hand) -> None:
        match kind:
            case "worker killed":
                self.workers.kill(hand.process)
            case "worker stopped":
                self.workers.stop(hand)
            case "worker paused":
                self.workers.pause(hand.process)
            case "worker paused for long":
                self._pause_for_long(hand.process)

    def heal(self) -> None:
        """From now on nothing breaks, and everything is there."""
        self.around.chance.on = False
        self.redis_is_back()
        self.redis.fill(full=False)
        self.beanstalkd_is_back()
        self.mongodb_is_back()

    def redis_is_back(self) -> None:
        if self.redis.away:
            self.redis.away = False
            self.redis.restart()

    def beanstalkd_is_back(self) -> None:
        self._set_beanstalkd(away=False)

    def mongodb_is_back(self) -> None:
        self.mongodb.away = False
        self.back()

    def _cut_redis(self) -> None:
        self.redis.away = True
        self._later(self.redis_is_back)

    def _promote_replica(self) -> None:
        self.redis.away = True
        self._later(self._replica_serves)

    def _replica_serves(self) -> None:
        if self.around.chance.on:
            self.redis.promote()
        self.redis.away = False

    def _fill_redis(self) -> None:
        self.redis.fill(full=True)
        self._later(lambda: self.redis.fill(full=False))

    def _cut_beanstalkd(self) -> None:
        self._set_beanstalkd(away=True)
        self.workers.break_connections()
        self._later(self.beanstalkd_is_back)

    def _cut_mongodb(self, outage: tuple[float, float] = OUTAGE) -> None:
        self.mongodb.away = True
        self._later(self.mongodb_is_back, outage)

    def _later(self, step: Callable[[], None], outage: tuple[float, float] = OUTAGE) -> None:
        self.around.loop.outside(self.around.chance.draw.uniform(*outage), step)

    def _set_beanstalkd(self, *, away: bool) -> None:
        workers = self.workers
        workers.server.away = workers.jobs.away = workers.puts.away = away

    def _pause_for_long(self, process: Process) -> None:
        """Beyond TTR or lease. A parent kills what is silent, unless it stands still itself."""
        draw, workers = self.around.chance.draw, self.workers
        seconds = draw.uniform(1.0, 2.5) * max(self.plan.lease, float(self.plan.ttr % 20))
        workers.pause(process, seconds)
        silence = self.plan.lease - self.plan.call_timeout
        if draw.random() < 0.5 and silence < seconds:
            self.around.loop.outside(silence, workers.kill, process)
