"""The worker processes of a world: started, killed, paused, stopped, started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from simulated.courier import Couriers
from simulated.destinations import Destinations
from simulated.exchange import Port, Surroundings
from simulated.intake import Tubes
from simulated.loop import Process
from simulated.mongodb import SimulatedStore
from simulated.plan import Plan
from simulated.tubes import TubeServer
from simulated.worker import Servers, run_worker
from tracking.errors import TubesDown

BACK_SECONDS = (0.2, 3.0)
SHORT_PAUSE = (0.05, 2.0)


@dataclass(slots=True, eq=False)
class Hand:
    """One process and what ends with it."""

    process: Process
    tubes: Tubes
    store: SimulatedStore
    stop: asyncio.Event
    task: asyncio.Task[None] | None = None
    stopping: bool = False


@dataclass(slots=True)
class Workers:
    """Keeps `plan.workers` of them going, as their parents do."""

    plan: Plan
    around: Surroundings
    server: TubeServer
    couriers: Couriers
    destinations: Destinations
    store: Callable[[], SimulatedStore]
    jobs: Port
    puts: Port
    hands: list[Hand] = field(default_factory=list)
    gone: list[Hand] = field(default_factory=list)
    started: int = 0

    def start(self) -> None:
        for _ in range(self.plan.workers):
            self._start_one()

    def _start_one(self) -> None:
        around = self.around
        self.started += 1
        skew = around.chance.draw.uniform(-0.3, 0.3)
        process = Process(f"w{self.started}", skew)
        tubes = Tubes(self.server, self.jobs, self.puts, around, [])
        stop = asyncio.Event()
        hand = Hand(process, tubes, self.store(), stop)
        around.trace.add(process.name, "starts")
        servers = Servers(tubes, hand.store, self.destinations)
        work = run_worker(self.plan, servers, stop, around)
        hand.task = around.loop.create_task(work, context=process.context)
        hand.task.add_done_callback(lambda _: self._ended(hand), context=process.context)
        self.hands.append(hand)

    def kill(self, process: Process) -> None:
        """Nothing of it runs on, not even to clean up; the kernel closes its connections."""
        hand = self._hand_of(process)
        if hand is None:
            return
        process.alive = False
        self._remove(hand)
        self.around.trace.add(process.name, "is dead")

    def pause(self, process: Process, seconds: float | None = None) -> None:
        if process.paused or not process.alive:
            return
        if seconds is None:
            seconds = self.around.chance.draw.uniform(*SHORT_PAUSE)
        process.paused = True
        self.couriers.paused(process)
        self.destinations.paused(process)
        self.around.trace.add(process.name, f"stands still for {seconds:.2f} s")
        self.around.loop.outside(seconds, self._go_on, process)

    def stop(self, hand: Hand) -> None:
        """As SIGTERM does."""
        hand.stopping = True
        self.around.loop.inside(hand.process, hand.stop.set)

    def is_stopping(self, process: Process) -> bool:
        """Whether a process was told to stop, and hands back what it has."""
        hand = self._hand_of(process)
        return hand is None or hand.stopping

    def break_connections(self) -> None:
        """beanstalkd went away."""
        for hand in self.hands:
            for connection in hand.tubes.connections:
                self.server.close(connection)

    def _go_on(self, process: Process) -> None:
        if process.paused:
            self.around.trace.add(process.name, "goes on")
            self.around.loop.resume(process)

    def _hand_of(self, process: Process) -> Hand | None:
        return next((hand for hand in self.hands if hand.process is process), None)

    def _remove(self, hand: Hand) -> None:
        self.hands.remove(hand)
        self.gone.append(hand)
        for connection in hand.tubes.connections:
            self.server.close(connection)
        self.couriers.hang_up(hand.process)
        self.destinations.hang_up(hand.process)
        self.around.loop.outside(self.around.chance.draw.uniform(*BACK_SECONDS), self._start_one)

    def _ended(self, hand: Hand) -> None:
        assert hand.task is not None
        if not hand.stopping or hand.task.cancelled() or hand.task.exception() is not None:
            self.around.trace.breach("worker", f"{hand.process.name} ended: {hand.task!r}")
        self.around.trace.add(hand.process.name, "has stopped")
        hand.process.alive = False
        self._remove(hand)


def ports(around: Surroundings) -> tuple[Port, Port]:
    """The ways to beanstalkd: of jobs, of puts."""
    return Port("tubes", around, TubesDown), Port("putter", around, TubesDown)
