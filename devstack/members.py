"""A MongoDB of three members, one of which only votes: without its secondary no majority confirms.

The primary stays the primary then, answers and reads, and takes writes that nobody confirms.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from devstack.errors import ServerFailed
from devstack.folder import private_folder
from devstack.kinds import HOST, MONGODB, Durability
from devstack.nursery import Nursery
from devstack.servers import Server, start_server

NAME = "members"
PATIENCE = 30.0
STEP = 0.05
ANSWER_PATIENCE_MS = 2_000


@dataclass(frozen=True, slots=True)
class Members:
    """The two that hold data, and the arbiter. The primary never changes."""

    primary: Server
    secondary: Server
    arbiter: Server

    @property
    def url(self) -> str:
        """As a worker is given it."""
        hosts = ",".join(f"{HOST}:{each.port}" for each in (self.primary, self.secondary))
        return f"mongodb://{hosts}/?replicaSet={NAME}"

    def lag(self, seconds: int) -> None:
        """Have the secondary apply what is written so much later; 0: at once again."""

        def change(config: dict[str, Any]) -> None:
            config["members"][1] |= {"priority": 0, "secondaryDelaySecs": seconds}

        _configure(self.primary, change)

    def mend(self) -> None:
        """Run everything as it was; returns when a majority confirms."""
        self.secondary.resume()
        self.secondary.start()
        self.lag(0)
        with _client(self.primary) as client:
            concern = pymongo.WriteConcern("majority")
            looks = client.get_database("looks", write_concern=concern)["looks"]
            _until(lambda: bool(looks.insert_one({})), "a majority")


@contextmanager
def members() -> Iterator[Members]:
    """Run them for the length of a `with` block."""
    with ExitStack() as closing:
        folder = closing.enter_context(private_folder())
        nursery = closing.enter_context(Nursery())
        kind = replace(MONGODB, variable="", arguments=_arguments, probe=_listens)

        def started(name: str) -> Server:
            (folder / name).mkdir()
            server = start_server(kind, folder / name, nursery)
            closing.callback(server.kill)
            return server

        found = Members(started("primary"), started("secondary"), started("arbiter"))
        for each in (found.primary, found.secondary, found.arbiter):
            each.wait_ready()
        with _client(found.primary) as client:
            # One member elects itself at once; three would wait for each other.
            first = {"_id": 0, "host": f"{HOST}:{found.primary.port}", "priority": 1}
            client.admin.command("replSetInitiate", {"_id": NAME, "members": [first]})
            _until(lambda: client.admin.command("hello")["isWritablePrimary"], "a primary")
            # Asked for before there may be an arbiter.
            client.admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 1})
        _configure(found.primary, lambda config: _join(config, found))
        found.mend()
        yield found


def _configure(primary: Server, change: Callable[[dict[str, Any]], None]) -> None:
    def changed() -> bool:
        # Read each time: a member that has caught up changes it as well.
        config = client.admin.command("replSetGetConfig")["config"]
        change(config)
        config["version"] += 1
        return bool(client.admin.command("replSetReconfig", config, force=True))

    with _client(primary) as client:
        _until(changed, "another configuration")


def _join(config: dict[str, Any], found: Members) -> None:
    joined = ((1, found.secondary, False), (2, found.arbiter, True))
    config["members"][1:] = [
        {"_id": n, "host": f"{HOST}:{each.port}", "priority": 0, "arbiterOnly": votes_only}
        for n, each, votes_only in joined
    ]


def _arguments(port: int, folder: Path, durability: Durability) -> list[str]:
    return [*MONGODB.arguments(port, folder, durability), "--replSet", NAME, "--oplogSize", "32"]


def _listens(host: str, port: int) -> None:
    """Raise OSError unless it does; that it takes writes is another matter here."""
    with socket.create_connection((host, port), ANSWER_PATIENCE_MS / 1000):
        pass


def _client(server: Server) -> pymongo.MongoClient[dict[str, Any]]:
    return pymongo.MongoClient(server.url, directConnection=True, timeoutMS=ANSWER_PATIENCE_MS)


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline, said = time.monotonic() + PATIENCE, ""
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except PyMongoError as error:
            said = str(error)[:200]
        time.sleep(STEP)
    raise ServerFailed("mongodb", f"{what}: not within {PATIENCE:g} s {said}", None)
