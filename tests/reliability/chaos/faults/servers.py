"""Servers that die, freeze, forget their scripts or get a wrong setting."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from chaos.arena import Arena
from chaos.faults.card import Card, Do, Undo, nothing
from chaos.faults.workers import BOOT_PATIENCE
from chaos.scale import Scale
from chaos.workers import wait_until
from devstack.servers import Server

REFUSED = "worker refuses to start"

Treat = Callable[[Server], Undo]


def cards(scale: Scale, draw: random.Random) -> Iterator[Card]:
    """A kill, a short and a long freeze for every server; and what only Redis knows."""
    redis = () if scale.sentinels else ("redis",)  # faults/failovers.py has its own
    for name in ("beanstalkd", *redis, "mongodb"):
        # One of several is elected again for seconds after its return.
        if name != "mongodb" or not scale.members:
            yield Card(f"{name} killed", frozenset({name}), (0.1, 2.0), _on(name, _kill))
        yield Card(f"{name} frozen", frozenset({name}), (0.5, 3.0), _on(name, _freeze))
    for name in ("beanstalkd", *redis):
        # Longer than the clients' time-out of five seconds.
        yield Card(f"{name} frozen for long", frozenset({name}), (6.0, 8.0), _on(name, _freeze))
    yield Card("scripts forgotten", frozenset({"redis"}), (0.0, 0.0), _forget_scripts)
    name = draw.choice(scale.names)
    needs = frozenset({"redis", name})
    yield Card("wrong eviction policy", needs, (0.5, 2.0), _wrong_policy(name))


def long_absence(scale: Scale) -> Iterator[Card]:
    """MongoDB gone for as long as the run asks for."""
    if lasts := scale.away_seconds:
        yield Card("mongodb killed for long", frozenset({"mongodb"}), (lasts, lasts), _GONE)


def _on(name: str, treat: Treat) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        return treat(arena.servers[name])

    return do


def _kill(server: Server) -> Undo:
    server.kill()
    return server.start


_GONE = _on("mongodb", _kill)


def _freeze(server: Server) -> Undo:
    server.pause()
    return server.resume


def _forget_scripts(arena: Arena, _: random.Random) -> Undo:
    with arena.redis() as client:
        client.script_flush()
    return nothing


def _wrong_policy(name: str) -> Do:
    """Workers that run go on; a worker that is started now must refuse."""

    def do(arena: Arena, _: random.Random) -> Undo:
        worker = arena.workers[name]
        with arena.redis() as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
        worker.stop()
        worker.start()

        def right_again() -> None:
            if wait_until(lambda: worker.logged(REFUSED), BOOT_PATIENCE):
                arena.reached(REFUSED)
            with arena.redis() as client:
                client.config_set("maxmemory-policy", "noeviction")

        return right_again

    return do
