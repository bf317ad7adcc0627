"""Everything that runs: courier site, real servers behind proxies, workers, a producer."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pymongo
import redis

from chaos import hooks
from chaos.clock import SteppedClock
from chaos.disk import SmallDisk, small_disk
from chaos.network import Network, network
from chaos.producer import Producer, Put
from chaos.proxy import HOST
from chaos.scale import (
    JITTER,
    LATENCY,
    REFUSED_ANSWERS,
    REFUSED_ENDS,
    REFUSED_RECORDS,
    Scale,
    settings,
)
from chaos.workers import Worker
from devstack.folder import private_folder
from devstack.kinds import BEANSTALKD, MONGODB, REDIS, Kind
from devstack.members import Members
from devstack.members import members as running_members
from devstack.nursery import Nursery
from devstack.sentinels import PASSWORD, SERVICE, Watched
from devstack.sentinels import watched as running_watched
from devstack.servers import Server, start_server
from devstack.site.remote import CourierSite

PRODUCER = "producer"
FIRST, SECOND = "beanstalkd", "beanstalkd-2"
BINLOG_BYTES = 65_536
"""Of the second beanstalkd: it must need a new file while its disk is full."""

ANSWER_PATIENCE = 1.0
CONFIG = "config.toml"


@dataclass(frozen=True, slots=True)
class Arena:
    """One run's world. `servers` are reached directly, by the judge; workers go through `network`.

    `pushed` logs the numbers that were pushed by hand, `marks` what was reached and how often,
    `forgotten` names what nobody else had when Redis was emptied, `cancelled` the operations that
    an operator wanted to cancel. `environment` points a command line at the servers.
    """

    scale: Scale
    folder: Path
    site: CourierSite
    servers: Mapping[str, Server]
    network: Network
    workers: Mapping[str, Worker]
    producer: Producer
    disk: SmallDisk
    clock: SteppedClock | None
    environment: Mapping[str, str]
    watched: Watched | None = None
    members: Members | None = None
    pushed: list[Put] = field(default_factory=list)
    marks: Counter[str] = field(default_factory=Counter)
    forgotten: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reached(self, what: str) -> None:
        """Note that something happened that a run must have seen."""
        with self.lock:
            self.marks[what] += 1

    @contextmanager
    def redis(self) -> Iterator[redis.Redis]:
        """Connect to Redis, past the proxies."""
        client = redis.Redis.from_url(
            (self.watched.primary() if self.watched else self.servers["redis"]).url,
            decode_responses=True,
            socket_timeout=ANSWER_PATIENCE,
        )
        with client:
            yield client

    @contextmanager
    def bucket(self) -> Iterator[Any]:
        """Connect to the results, past the proxies."""
        client: pymongo.MongoClient[dict[str, Any]]
        url = self.servers["mongodb"].url
        with pymongo.MongoClient(url, tz_aware=True, directConnection=True) as client:
            yield client["bucket"]


@contextmanager
def arena(scale: Scale) -> Iterator[Arena]:
    """Run everything for the length of a `with` block; workers are up, the producer is not."""
    with ExitStack() as closing:
        folder = closing.enter_context(private_folder())
        nursery = closing.enter_context(Nursery())
        disk = closing.enter_context(small_disk(folder / SECOND, nursery))
        site = closing.enter_context(CourierSite.start())
        clock = SteppedClock(folder) if scale.step_clock else None
        watched = closing.enter_context(running_watched()) if scale.sentinels else None
        members = closing.enter_context(running_members()) if scale.members else None
        servers = _servers(folder, nursery, disk)
        servers["mongodb"] = (
            members.primary if members else start_server(_ours(MONGODB), folder, nursery)
        )
        kind = clock.preloaded(REDIS) if clock else REDIS
        servers["redis"] = (
            watched.servers[0] if watched else start_server(_ours(kind), folder, nursery)
        )
        for server in servers.values():
            closing.callback(server.kill)
            server.wait_ready()
        _refuse_documents(servers["mongodb"])
        net = closing.enter_context(network([*scale.names, PRODUCER], servers))
        for courier in scale.couriers:
            site.behave(courier.slug, latency=LATENCY, jitter=JITTER)
        (folder / CONFIG).write_text(settings(scale, site.url))
        workers = {
            name: Worker(
                name, folder, nursery, _environment(folder, partial(net.port, name), watched)
            )
            for name in scale.names
        }
        ports = [net.port(PRODUCER, name) for name in (FIRST, SECOND)]
        scale = replace(scale, disk_fills=scale.disk_fills and disk.is_small)
        producer = Producer(scale, ports)
        straight = _environment(folder, lambda name: servers[name].port, watched)
        world = Arena(
            *(scale, folder, site, servers, net, workers, producer, disk, clock, straight),
            watched=watched,
            members=members,
        )
        if scale.hooks:
            hooks.make(scale, site, straight)
        for worker in workers.values():
            closing.callback(worker.end)
            worker.start()
        yield world


def _servers(folder: Path, nursery: Nursery, disk: SmallDisk) -> dict[str, Server]:
    second = disk.under(BEANSTALKD, "-s", str(BINLOG_BYTES))
    (folder / "second").mkdir()
    return {
        FIRST: start_server(_ours(BEANSTALKD), folder, nursery),
        SECOND: start_server(_ours(second), folder / "second", nursery),
    }


def _refuse_documents(mongodb: Server) -> None:
    """Have MongoDB refuse some numbers' documents, as a validator of an operator's may."""
    refused = {
        "tracking": ("tracking_number", REFUSED_ANSWERS),
        "operations": ("number", REFUSED_ENDS),
        "dead": ("number", REFUSED_RECORDS),
    }
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient(mongodb.url, directConnection=True) as client:
        for name, (member, numbers) in refused.items():
            valid = {member: {"$not": {"$regex": numbers}}}
            client["bucket"].create_collection(name, validator=valid)


def _ours(kind: Kind) -> Kind:
    """The kind without a configured address: nobody else's server may be killed."""
    return replace(kind, variable="")


def _environment(
    folder: Path, port_of: Callable[[str], int], watched: Watched | None
) -> dict[str, str]:
    tubes = [f"{HOST}:{port_of(server)}" for server in (FIRST, SECOND)]
    sentinels = (
        {
            "TRACKER_REDIS__SENTINELS": json.dumps(watched.addresses),
            "TRACKER_REDIS__SERVICE": SERVICE,
            "TRACKER_REDIS__SENTINEL_PASSWORD": PASSWORD,
        }
        if watched
        else {}
    )
    return {
        **sentinels,
        "TRACKER_CONFIG": str(folder / CONFIG),
        "TRACKER_METRICS__LISTEN": "",
        "TRACKER_BEANSTALKD__SERVERS": json.dumps(tubes),
        "TRACKER_REDIS__URL": f"redis://{HOST}:{port_of('redis')}/0",
        # Else the driver would go to the members of a replica set itself, past the links.
        "TRACKER_MONGODB__URI": f"mongodb://{HOST}:{port_of('mongodb')}/?directConnection=true",
    }
