"""The two files of the deployment, read once, and the servers as they start them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymongo
import pytest
from redis import Redis
from redis.exceptions import RedisError

from devstack.find import Program
from devstack.kinds import BEANSTALKD, MONGODB, REDIS, Durability, Kind
from devstack.servers import Server, running

ROOT = Path(__file__).parents[2]
PASSWORDS = {"REDIS_PASSWORD": "ab12", "MONGODB_PASSWORD": "cd34"}
VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::-(?P<default>[^}]*)|(?P<wanted>:\?[^}]+))?\})")

Fill = Callable[[dict[str, str]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a Dockerfile: its instructions in order, continuation lines joined."""

    base: str
    instructions: tuple[tuple[str, str], ...]

    def all(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.instructions if name == instruction]


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="docker-compose.yml is read with PyYAML")
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return loaded


def _filled(value: Any, variables: dict[str, str]) -> Any:
    """`value` as Compose reads it. Raises KeyError when a variable that must be there is not."""

    def fill(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match["wanted"]:
            return variables[match["name"]]
        return variables.get(match["name"], match["default"] or "")

    match value:
        case str():
            return VARIABLE.sub(fill, value)
        case list():
            return [_filled(each, variables) for each in value]
        case dict():
            return {name: _filled(each, variables) for name, each in value.items()}
    return value


@pytest.fixture(scope="session")
def fill(compose: dict[str, Any]) -> Fill:
    """Gives the compose file as it is with these variables in `.env`."""
    return lambda variables: _filled(compose, variables)


@pytest.fixture(scope="session")
def filled(fill: Fill) -> dict[str, Any]:
    return fill(PASSWORDS)


@pytest.fixture(scope="session")
def stages() -> dict[str, Stage]:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    for block in re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]:
        first, *lines = block.splitlines()
        base, _, name = first.partition(" AS ")
        pairs = (line.split(None, 1) for line in lines if line.strip())
        found[name] = Stage(base, tuple((word, rest.strip()) for word, rest in pairs))
    return found


def _with_flags(kind: Kind, flags: list[str], ours: list[str]) -> Kind:
    """`kind` started with the flags of the compose file, and `ours` in place of address and data.

    In `ours`, PORT and FOLDER stand for what this run uses.
    """

    def arguments(port: int, folder: Path, _durability: Durability) -> list[str]:
        replaced = {"PORT": str(port), "FOLDER": str(folder)}
        return [*flags, *(replaced.get(word, word) for word in ours)]

    return replace(kind, arguments=arguments)


@pytest.fixture
def composed_beanstalkd(compose: dict[str, Any]) -> Iterator[Server]:
    ours = ["-l", "127.0.0.1", "-p", "PORT", "-b", "FOLDER"]  # the last one of each counts
    kind = _with_flags(BEANSTALKD, compose["services"]["beanstalkd"]["command"], ours)
    with running(kind) as server:
        yield _ours(server)


@pytest.fixture
def composed_redis(filled: dict[str, Any], tmp_path: Path) -> Iterator[Server]:
    """Redis by the whole command of its container, shell and password included."""
    redis, worker = filled["services"]["redis"], filled["services"]["worker"]
    ours = ["--bind", "127.0.0.1", "--port", "PORT", "--dir", "FOLDER"]
    kind = _with_flags(REDIS, redis["command"][1:], ours)

    def shell() -> Program:
        found = REDIS.find()
        (tmp_path / "valkey-server").symlink_to(found.path)
        paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        environment = {**found.environment, **paths, **redis["environment"]}
        return replace(found, path=Path("/bin/sh"), environment=environment)

    url = worker["environment"]["TRACKER_REDIS__URL"].replace("redis:6379", "127.0.0.1:{port}")

    def logged_in(_: str, port: int) -> None:
        # Who is not logged in hears NOAUTH, also while the append-only file is still being read.
        with Redis.from_url(url.format(port=port)) as client:
            try:
                client.ping()
            except RedisError as error:
                raise ConnectionError(str(error)) from error

    with running(replace(kind, find=shell, url=url, probe=logged_in)) as server:
        yield _ours(server)


@pytest.fixture
def composed_mongodb(filled: dict[str, Any]) -> Iterator[Server]:
    """MongoDB with the user that its image makes, told by the address that the worker gets."""
    mongo, worker = filled["services"]["mongo"], filled["services"]["worker"]
    plain = replace(MONGODB, arguments=lambda *rest: [*MONGODB.arguments(*rest), "--auth"])
    url = worker["environment"]["TRACKER_MONGODB__URI"].replace("mongo:27017", "127.0.0.1:{port}")
    with running(replace(plain, url=url)) as server:
        _ours(server)
        user = mongo["environment"]["MONGO_INITDB_ROOT_USERNAME"]
        password = mongo["environment"]["MONGO_INITDB_ROOT_PASSWORD"]
        client: pymongo.MongoClient[dict[str, Any]]
        # Without a user anybody on the machine itself may make the first one.
        with pymongo.MongoClient(f"mongodb://{server.host}:{server.port}") as client:
            client.admin.command("createUser", user, pwd=password, roles=["root"])
        yield server


def _ours(server: Server) -> Server:
    if not server.ours:
        pytest.skip("a configured server has flags of its own")
    return server
