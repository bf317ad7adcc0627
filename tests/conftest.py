"""Real servers for every test that wants them; a server that cannot be found fails the test.

========================= ========= ================================================================
fixture                   lives     is
========================= ========= ================================================================
`stack`                   session   the three servers (`devstack.stack.Stack`)
`redis_url`               test      the session's Redis, emptied
`redis`                   test      a client of it, for what no worker shows
`mongo_uri`, `database`   test      the session's mongod, and a database name of this test's own
`fresh`                   test      the same, where a folder has another `database`
`indexed`                 test      a database that has a worker's indexes and no document, for a
                                    folder to override `database` with: to make all costs half a
                                    second
`store`                   test      a worker's store on them, whose collections are empty
`beanstalkd`              test      a beanstalkd of this test's own, as a `Server`: kill it at will
`beanstalkd_address`      test      its address, "127.0.0.1:PORT"
`other`                   test      a second beanstalkd
`site`                    test      the session's courier site, reset (`devstack.site.remote`)
`watched`                 session   two Redis servers under three Sentinels, whole again for each
                                    test (`devstack.sentinels.Watched`)
`disk`                    test      a folder on a disk: /tmp may be memory, which some things refuse
`unread_log`              test      what is logged meanwhile is written nowhere
`written`                 test      what is logged meanwhile, as a function that reads it
`measured`                session   figures by what they are; told at the end, judged by nobody
========================= ========= ================================================================

A test may kill, pause or stop `stack.redis` and `stack.mongodb`: the next test finds them serving.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import greenstalk
import pymongo
import pytest
import redis
from hypothesis import settings
from portion import PROFILE
from redis.asyncio import Redis
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from devstack.kinds import BEANSTALKD
from devstack.sentinels import Watched
from devstack.sentinels import watched as running_watched
from devstack.servers import Server, running
from devstack.site.remote import CourierSite
from devstack.stack import Stack
from service.observe import log
from service.observe.log import lines
from service.worker.results.connection import Store
from service.worker.results.database import Collections, Names, indexes_for, make_indexes

Mongo = pymongo.MongoClient[dict[str, Any]]

LOG_PATIENCE = 10.0
LONGEST = ("acceptance", "reliability", "simulation", "cli")
"""Folders of tests/."""

MEMORY = Path("/dev/shm")  # noqa: S108 - as /tmp: what is made in it is private
ROOM_BYTES = 2 << 30
"""All servers of a run have a tenth of this at a time."""

MEASURED = pytest.StashKey[dict[str, list[str]]]()
KEPT = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(PROFILE)
    _write_to_memory()
    config.stash[MEASURED] = {}
    _start_as_from_a_fresh_shell()
    # What `api` and `ingest` keep beside config.toml when somebody runs them in this checkout.
    config.stash[KEPT] = tempfile.TemporaryDirectory(prefix="pytest-", dir="/var/tmp")
    os.environ["TRACKER_INGEST__KEYS"] = f"{config.stash[KEPT].name}/keys.json"
    os.environ["TRACKER_INGEST__SPOOL"] = f"{config.stash[KEPT].name}/spool.sqlite"


def _write_to_memory() -> None:
    """Make temporary files in memory where it has room, unless TMPDIR says where they belong.

    Servers survive a kill there too. On the disk of a busy machine they wait for seconds, and each
    of hundreds of beanstalkd processes fills a file of 10 MB first.
    """
    if "TMPDIR" not in os.environ and MEMORY.is_dir():
        there = os.statvfs(MEMORY)
        if there.f_bavail * there.f_frsize >= ROOM_BYTES and not there.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"] = str(MEMORY)
            tempfile.tempdir = None  # or it stays what it was found to be


def _start_as_from_a_fresh_shell() -> None:
    """Without the settings of this shell, nor the signals that `nohup` or a `&` made it ignore.

    Both would be handed on to every process that a test starts. Workers of several tests run at
    once, and only one could listen at the port for metrics. Nor do they read the certificates of
    the system, by which they ask nobody: that is a quarter of what a worker's start costs.
    """
    for name in [name for name in os.environ if name.startswith("TRACKER_")]:
        del os.environ[name]
    os.environ["TRACKER_METRICS__LISTEN"] = ""
    os.environ["SSL_CERT_FILE"] = os.devnull
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: lambda *_: None}
    for number, handler in handlers.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing in the system's folder for temporary files, unless a test failed."""
    config.stash[KEPT].cleanup()
    if config.option.basetemp is None:
        for folder in Path(tempfile.gettempdir()).glob("pytest-of-*"):
            with suppress(OSError):  # it is not empty, or somebody else's
                folder.rmdir()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that all processes end at about the same time."""
    places = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.parent.name, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    return ByFile(config, log)


class ByFile(LoadFileScheduling):
    """Gives each process whole files; the acceptance suite, which plays side by side, to one."""

    def _split_scope(self, nodeid: str) -> str:
        return "acceptance" if nodeid.startswith("tests/acceptance/") else nodeid.split("::", 1)[0]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the figures of a process that tests beside others to the one that tells them."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["measured"] = session.config.stash[MEASURED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for what, values in getattr(node, "workeroutput", {}).get("measured", {}).items():
        node.config.stash[MEASURED].setdefault(what, []).extend(values)


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    return request.config.stash[MEASURED]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for what, values in config.stash[MEASURED].items():
        terminalreporter.write_line(f"{what}: {', '.join(values)}")


@pytest.fixture
def disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pytest-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    with Stack.start() as started:
        yield started


@pytest.fixture
def redis_url(stack: Stack) -> str:
    _heal(stack.redis)
    with redis.Redis.from_url(stack.redis.url) as client:
        client.flushdb()
    return stack.redis.url


@pytest.fixture(name="redis")
async def redis_client(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture(scope="session")
def two_servers() -> Iterator[Watched]:
    with running_watched() as started:
        yield started


@pytest.fixture
def watched(two_servers: Watched) -> Watched:
    two_servers.mend()
    with redis.Redis.from_url(two_servers.primary().url) as client:
        client.flushdb()
    return two_servers


@pytest.fixture
def mongo_uri(stack: Stack) -> str:
    _heal(stack.mongodb)
    return stack.mongodb.url


@pytest.fixture(scope="session")
def mongo(stack: Stack) -> Iterator[Mongo]:
    _heal(stack.mongodb)
    with pymongo.MongoClient[dict[str, Any]](stack.mongodb.url) as client:
        yield client


@pytest.fixture
def fresh(stack: Stack, mongo_uri: str, mongo: Mongo) -> Iterator[str]:
    assert mongo_uri
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield name
    _heal(stack.mongodb)
    mongo.drop_database(name)


@pytest.fixture
def database(fresh: str) -> str:
    return fresh


@pytest.fixture(scope="session")
def standing() -> dict[str, Any]:
    """What the database that is `indexed` consists of, as it was made."""
    return {}


@pytest.fixture
def indexed(mongo_uri: str, mongo: Mongo, standing: dict[str, Any]) -> str:
    names = Names(mongo_uri, f"indexed_{os.getpid()}")
    made = mongo.get_database(names.database, write_concern=pymongo.WriteConcern(w=1))
    for name in set(made.list_collection_names()) - standing.keys():
        made.drop_collection(name)
    if not standing or standing != _standing_in(made):
        made.command("profile", 0)
        mongo.drop_database(made)
        stores = Collections(mongo, names)
        for attribute in Collections.__annotations__:
            made.create_collection(stores.named(attribute).name)
        for attribute, wanted in indexes_for(names).items():
            make_indexes(stores.named(attribute), wanted)
        standing.clear()
        standing |= _standing_in(made)
    for name in standing.keys() - {""}:
        made[name].delete_many({})
    # Or what the test before left is there again after a kill.
    durable = pymongo.WriteConcern(w=1, j=True)
    made[names.tracking].with_options(write_concern=durable).delete_many({})
    return names.database


def _standing_in(database: pymongo.database.Database[dict[str, Any]]) -> dict[str, Any]:
    """The options of each collection, and how many indexes all have."""
    options = {each["name"]: each["options"] for each in database.list_collections()}
    return options | {"": database.command("dbStats")["indexes"]}


@pytest.fixture
async def store(mongo_uri: str, database: str) -> AsyncIterator[Store]:
    opened = Store(Names(mongo_uri, database))
    yield opened
    await opened.close()


@pytest.fixture
def beanstalkd() -> Iterator[Server]:
    with running(BEANSTALKD) as server:
        if not server.ours:
            _empty(server.host, server.port)
        yield server


@pytest.fixture
def beanstalkd_address(beanstalkd: Server) -> str:
    return beanstalkd.url


@pytest.fixture
def other() -> Iterator[Server]:
    with running(BEANSTALKD) as server:
        yield server


@pytest.fixture(scope="session")
def courier_site() -> Iterator[CourierSite]:
    with CourierSite.start() as started:
        yield started


@pytest.fixture
def site(courier_site: CourierSite) -> CourierSite:
    courier_site.reset()
    return courier_site


@pytest.fixture
def unread_log() -> Iterator[None]:
    """What is logged meanwhile is written nowhere."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    made = lines("json", out=descriptor)
    log.set_up("error", made)
    yield
    log.set_up("info", lines("json"))
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)
    made.out.flush(LOG_PATIENCE)
    os.close(descriptor)


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lines of the log so far."""
    file = tmp_path / "log"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    made = lines("json", worker="here:1", out=descriptor)
    log.set_up("info", made)

    def read() -> list[dict[str, Any]]:
        assert made.out.flush(LOG_PATIENCE)
        return [json.loads(line) for line in file.read_text().splitlines()]

    yield read
    log.set_up("info", lines("json"))
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)
    made.out.flush(LOG_PATIENCE)
    os.close(descriptor)


def _heal(server: Server) -> None:
    if server.ours:
        server.resume()
        server.start()


def _empty(host: str, port: int) -> None:
    """Delete every job that nobody holds, at a beanstalkd that is not ours to restart."""
    with greenstalk.Client((host, port)) as client:
        for tube in client.tubes():
            client.use(tube)
            for peek in (client.peek_ready, client.peek_delayed, client.peek_buried):
                _delete_all(client, peek)


def _delete_all(client: greenstalk.Client[str], peek: Callable[[], greenstalk.Job[str]]) -> None:
    while True:
        try:
            client.delete(peek())
        except greenstalk.NotFoundError:
            return
