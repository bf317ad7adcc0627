"""The command line run in this process, against the real servers of the test."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import greenstalk
import pymongo
import pytest
import redis
from command_line import Done, Run
from family import Family, Start

from devstack.servers import Server
from service.console import main
from service.operator import connections

PATIENCE_MS = connections.PATIENCE_MS


class Terminal(io.BytesIO):
    """Standard input as a person has it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command line, pointed at servers that are not there."""
    for name, value in {
        "BEANSTALKD__SERVERS": '["127.0.0.1:1"]',
        "REDIS__URL": "redis://127.0.0.1:1/0",
        "MONGODB__URI": "mongodb://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(f"TRACKER_{name}", value)
    monkeypatch.setattr(connections, "PATIENCE_MS", 300)  # nobody will answer

    def run(*arguments: str, stdin: str = "", at_terminal: bool = False) -> Done:
        typed = Terminal(stdin.encode()) if at_terminal else io.BytesIO(stdin.encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(typed))
        try:
            code = main(arguments)
        except SystemExit as ended:  # argparse ends so
            code = ended.code if isinstance(ended.code, int) else 1
        captured = capfd.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def addresses(beanstalkd: Server, redis_url: str, mongo_uri: str, database: str) -> dict[str, str]:
    """The variables that point at the test's servers."""
    return {
        "TRACKER_BEANSTALKD__SERVERS": json.dumps([beanstalkd.url]),
        "TRACKER_REDIS__URL": redis_url,
        "TRACKER_MONGODB__URI": mongo_uri,
        "TRACKER_MONGODB__DATABASE": database,
    }


@pytest.fixture
def run(offline: Run, monkeypatch: pytest.MonkeyPatch, addresses: dict[str, str]) -> Run:
    """The command line, pointed at the test's servers."""
    for name, value in addresses.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(connections, "PATIENCE_MS", PATIENCE_MS)
    return offline


@pytest.fixture
def tube(beanstalkd: Server) -> Iterator[greenstalk.Client[bytes]]:
    address = (beanstalkd.host, beanstalkd.port)
    client: greenstalk.Client[bytes]
    with greenstalk.Client(address, encoding=None, use="requests_flow", watch="requests_flow") as (
        client
    ):
        yield client


@pytest.fixture
def store(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def collections(mongo_uri: str, database: str) -> Iterator[Any]:
    """The test's MongoDB database: `collections.tracking`, `collections.dead`."""
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient(mongo_uri, tz_aware=True) as client:
        yield client[database]


@pytest.fixture
def unread() -> Iterator[int]:
    """A full pipe that nobody reads: a terminal after Ctrl-S, a log driver that hangs."""
    ends = os.pipe()
    os.set_blocking(ends[1], False)
    with suppress(BlockingIOError):
        while True:
            os.write(ends[1], b"x" * 4096)
    os.set_blocking(ends[1], True)
    yield ends[1]
    for end in ends:
        os.close(end)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    families: list[Family] = []

    def made(
        how: str = "well", *, out: int | None = None, archiver: str = "", **numbers: float
    ) -> Family:
        given = {"processes": 2, "silence": 30.0, "grace": 10.0} | numbers
        family = Family(tmp_path, how, given, out, archiver)
        families.append(family)
        return family

    yield made
    for family in families:
        family.end()
