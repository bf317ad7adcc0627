"""Workers that die, freeze, stop and start."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from itertools import cycle, islice

import redis

from chaos.arena import Arena
from chaos.faults.card import Card, Do, Undo
from chaos.scale import CALL_TIMEOUT, LEASE, Scale
from chaos.workers import Worker, wait_until
from limits import keys
from service.worker.wiring.failpoints import DeliveryPoint, FailPoint

HANGING = "a hanging courier"
"""A worker frozen whole, parent included, may hold a call beyond its lease if the courier hangs
too: that cannot be excluded (docs/reliability.md), so the two never come together."""

SILENCE = LEASE - CALL_TIMEOUT
BOOT_PATIENCE = 20.0
POINT_PATIENCE = 5.0
DELIVERY_PATIENCE = 15.0
"""Others fill and drain the lines of services: who has just been started waits for its turn."""

LIST_PATIENCE = 10.0
POINT = "fail point"
DIED = "died "
"""Begins the mark of a fail point that killed a worker."""

Treat = Callable[[Worker], Undo]


def cards(scale: Scale, deal: int, draw: random.Random) -> Iterator[Card]:
    """One card for each way to treat a worker, and for some fail points: others in each deal."""
    ways: list[tuple[str, tuple[float, float], Treat]] = [
        ("worker killed", (0.2, 1.5), _kill_worker),
        ("worker stopped in order", (0.2, 1.0), _stop_worker),
        ("process frozen until it is killed", (LEASE, LEASE + 2.0), _freeze_process),
        ("process frozen for a moment", (0.4, SILENCE - 1.5), _freeze_process),
        ("parent frozen", (SILENCE, LEASE), _freeze_parent),
        ("worker frozen whole", (LEASE + 0.5, LEASE + 2.0), _freeze_whole),
        ("log reader stalls, then a stop", (LEASE, LEASE + 2.0), _stall_log_reader),
    ]
    name = draw.choice(scale.names)
    yield Card("process killed", frozenset({name}), (0.0, 0.0), _killed(name))
    for kind, lasts, treat in ways:
        name = draw.choice(scale.names)
        needs = {name, HANGING} if treat is _freeze_whole else {name}
        yield Card(kind, frozenset(needs), lasts, _on(name, treat))
    first = scale.seed + deal * scale.fail_points  # short runs begin elsewhere with each seed
    points = DeliveryPoint if scale.hooks else FailPoint
    for point in islice(cycle(points), first, first + scale.fail_points):
        name = draw.choice(scale.names)
        yield Card(f"{POINT} {point}", frozenset({name}), (4.0, 7.0), _armed(name, point))


def _on(name: str, treat: Treat) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        return treat(arena.workers[name])

    return do


def _killed(name: str) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        worker = arena.workers[name]
        # One that is just being started holds nothing yet.
        wait_until(lambda: worker.serves, BOOT_PATIENCE)
        # Only the sweep finds a call that came from a wait list: no job of it comes back.
        wait_until(lambda: _has_call_without_job(arena, worker), LIST_PATIENCE)
        worker.signal_children(signal.SIGKILL)

        def noticed() -> None:
            # Its parent starts another; one killed or stopped next would have noticed nothing.
            wait_until(lambda: worker.died, POINT_PATIENCE)

        return noticed

    return do


def _has_call_without_job(arena: Arena, worker: Worker) -> bool:
    """Whether a process of this worker makes a call that it took from a wait list."""
    pids = worker.children
    try:
        with arena.redis() as client:
            living = [json.loads(told) for told in client.zrange(keys.WORKERS, 0, -1)]
            tokens = tuple(each["token"] for each in living if each["pid"] in pids)
            in_flight = [
                (call, text)
                for courier in arena.scale.couriers
                for call, text in client.hgetall(f"wait_inflight:{courier.slug}").items()
            ]
    except redis.RedisError:
        return False  # it is away as well
    return any(
        call.startswith(tokens) and "job" not in json.loads(text)
        for call, text in in_flight
        if call[0] not in "=#" and text.endswith("}")  # somebody may have cut it off
    )


def _kill_worker(worker: Worker) -> Undo:
    worker.kill()
    return worker.start


def _stop_worker(worker: Worker) -> Undo:
    worker.stop()
    return worker.start


def _freeze_process(worker: Worker) -> Undo:
    worker.signal_children(signal.SIGSTOP)
    return lambda: _thaw(worker)


def _freeze_parent(worker: Worker) -> Undo:
    """Its processes go on, and it must not kill them for what it did not hear meanwhile."""
    worker.signal_parent(signal.SIGSTOP)
    return lambda: _thaw(worker)


def _freeze_whole(worker: Worker) -> Undo:
    worker.signal_parent(signal.SIGSTOP)
    worker.signal_children(signal.SIGSTOP)
    return lambda: _thaw(worker)


def _thaw(worker: Worker) -> None:
    worker.signal_children(signal.SIGCONT)
    worker.signal_parent(signal.SIGCONT)


def _stall_log_reader(worker: Worker) -> Undo:
    """It works on, and stops when it is asked to: at its end it waits a moment for the reader."""
    worker.stall_log_reader()

    def stop() -> None:
        worker.stop()
        worker.log_reader_goes_on()
        worker.start()

    return stop


def _armed(name: str, point: FailPoint | DeliveryPoint) -> Do:
    patience = DELIVERY_PATIENCE if isinstance(point, DeliveryPoint) else POINT_PATIENCE

    def do(arena: Arena, draw: random.Random) -> Undo:
        worker = arena.workers[name]
        worker.stop()
        worker.start(f"{point}:{draw.randint(1, 3)}")

        def disarm() -> None:
            if wait_until(lambda: worker.serves, BOOT_PATIENCE):
                wait_until(lambda: worker.died, patience)
            # Some points lie on the way out.
            if worker.stop() or worker.died:
                arena.reached(f"{DIED}{point}")
            worker.start()

        return disarm

    return do
