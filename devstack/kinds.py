"""The three servers: how each is found, started, reached and asked whether it serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from devstack import find, probe

HOST = "127.0.0.1"


class Durability(StrEnum):
    """What an acknowledged write survives.

    ===== ================================================================== =====================
    value means                                                              used for
    ===== ================================================================== =====================
    FULL  a kill and a power cut: what production must run with              everything by default
    NONE  nothing: no binlog, no append-only file (mongod keeps its journal) measuring what it costs
    ===== ================================================================== =====================
    """

    FULL = "full"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of server.

    `variable` names the environment variable with the address of a server that runs already.
    `url` is what clients are given, with `{port}` or, for a configured address, as configured.
    `arguments` gets the port, an existing private folder and the durability.
    `probe` raises OSError as long as the server does not serve.
    """

    name: str
    variable: str
    default_port: int
    url: str
    find: Callable[[], find.Program]
    arguments: Callable[[int, Path, Durability], list[str]]
    probe: Callable[[str, int], None]


def _beanstalkd(port: int, folder: Path, durability: Durability) -> list[str]:
    # -z as in docker-compose.yml.
    listen = ["-l", HOST, "-p", str(port), "-z", "1310720"]
    match durability:
        case Durability.FULL:
            return [*listen, "-b", str(folder), "-f", "0"]
        case Durability.NONE:
            return listen


def _redis(port: int, folder: Path, durability: Durability) -> list[str]:
    arguments = ["--bind", HOST, "--port", str(port), "--dir", str(folder), "--save", ""]
    arguments += ["--maxmemory-policy", "noeviction"]
    match durability:
        case Durability.FULL:
            arguments += ["--appendonly", "yes", "--appendfsync", "always"]
            # As in docker-compose.yml.
            return [*arguments, "--auto-aof-rewrite-min-size", "256mb"]
        case Durability.NONE:
            return [*arguments, "--appendonly", "no"]


def _mongodb(port: int, folder: Path, _durability: Durability) -> list[str]:
    arguments = ["--bind_ip", HOST, "--port", str(port), "--dbpath", str(folder)]
    # Journal files are else made 100 MB each, ahead of their use: slow and large for a test.
    small = "log=(prealloc=false,file_max=8MB)"
    arguments += ["--nounixsocket", "--wiredTigerEngineConfigString", small]
    arguments += ["--wiredTigerCacheSizeGB", "0.25"]
    # What mongod notes of itself every second: a third of what it does while nobody asks it.
    return [*arguments, "--setParameter", "diagnosticDataCollectionEnabled=false"]


BEANSTALKD = Kind(
    name="beanstalkd",
    variable="DEVSTACK_BEANSTALKD",
    default_port=11300,
    url=f"{HOST}:{{port}}",
    find=find.beanstalkd,
    arguments=_beanstalkd,
    probe=probe.beanstalkd,
)
REDIS = Kind(
    name="redis",
    variable="DEVSTACK_REDIS",
    default_port=6379,
    url=f"redis://{HOST}:{{port}}/0",
    find=find.redis,
    arguments=_redis,
    probe=probe.redis,
)
MONGODB = Kind(
    name="mongodb",
    variable="DEVSTACK_MONGODB",
    default_port=27017,
    url=f"mongodb://{HOST}:{{port}}",
    find=find.mongodb,
    arguments=_mongodb,
    probe=probe.mongodb,
)
