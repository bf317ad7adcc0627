"""Servers that answer, and refuse: full, read-only, busy, locked, alone, draining."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import redis

from chaos.arena import FIRST, Arena
from chaos.faults.card import Card, Undo
from chaos.scale import Scale

NOBODY = ("127.0.0.1", "1")
BUSY_AFTER_MS = 100


def cards(scale: Scale) -> Iterator[Card]:
    """Each way to refuse, for the server that has it."""
    yield Card("redis full", frozenset({"redis"}), (1.0, 10.0), _full)
    if not scale.sentinels:  # they would promote another one
        yield Card("redis read-only", frozenset({"redis"}), (1.0, 4.0), _read_only)
        yield Card("redis busy", frozenset({"redis"}), (1.0, 4.0), _busy)
    if scale.members:
        yield Card("mongodb without a majority", frozenset({"mongodb"}), (1.0, 9.0), _alone)
    yield Card("mongodb locked", frozenset({"mongodb"}), (1.0, 6.0), _locked)
    yield Card("beanstalkd draining", frozenset({FIRST}), (1.0, 4.0), _draining)


def _full(arena: Arena, _: random.Random) -> Undo:
    with arena.redis() as client:
        client.config_set("maxmemory", "1")

    def undo() -> None:
        with arena.redis() as client:
            client.config_set("maxmemory", "0")

    return undo


def _read_only(arena: Arena, _: random.Random) -> Undo:
    """Make it a replica of nobody: it keeps its data, as the copy never begins."""
    with arena.redis() as client:
        client.replicaof(*NOBODY)

    def undo() -> None:
        with arena.redis() as client:
            client.replicaof("NO", "ONE")

    return undo


def _busy(arena: Arena, _: random.Random) -> Undo:
    """Run a script without end; Redis tells everybody else that it is busy."""

    def loop() -> None:
        with suppress(redis.RedisError), arena.redis() as client:
            client.config_set("busy-reply-threshold", BUSY_AFTER_MS)
            client.eval("while true do end", 0)

    thread = threading.Thread(target=loop, name="busy script", daemon=True)
    thread.start()

    def undo() -> None:
        # Refused while it is not busy yet, and when the script has ended with its connection.
        with suppress(redis.RedisError), arena.redis() as client:
            client.script_kill()
        thread.join()

    return undo


def _locked(arena: Arena, _: random.Random) -> Undo:
    """Hold all writes back; what is asked meanwhile is done afterwards."""
    with arena.bucket() as bucket:
        bucket.client.admin.command("fsync", lock=True)

    def undo() -> None:
        with arena.bucket() as bucket:
            bucket.client.admin.command("fsyncUnlock")

    return undo


def _alone(arena: Arena, _: random.Random) -> Undo:
    """Leave it without the one who makes its majority: it answers, and confirms nothing."""
    assert arena.members is not None
    secondary = arena.members.secondary
    secondary.pause()
    arena.reached("no majority")
    return secondary.resume


def _draining(arena: Arena, _: random.Random) -> Undo:
    """Let it take no more jobs; only a restart ends that."""
    server = arena.servers[FIRST]
    if server.pid is not None:
        os.kill(server.pid, signal.SIGUSR1)

    def undo() -> None:
        server.kill()
        server.start()

    return undo
