"""The two files of the deployment, read once, and the servers as they start them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from devstack.kinds import BEANSTALKD, REDIS, Durability, Kind
from devstack.servers import Server, running

ROOT = Path(__file__).parents[2]


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
def composed_redis(compose: dict[str, Any]) -> Iterator[Server]:
    ours = ["--bind", "127.0.0.1", "--port", "PORT", "--dir", "FOLDER"]
    kind = _with_flags(REDIS, compose["services"]["redis"]["command"][1:], ours)
    with running(kind) as server:
        yield _ours(server)


def _ours(server: Server) -> Server:
    if not server.ours:
        pytest.skip("a configured server has flags of its own")
    return server
