"""One `api` with its pages for all tests of a file, on a database and a beanstalkd of its own.

========== ======== ===============================================================================
fixture    lives    is
========== ======== ===============================================================================
`settings` module   the variables with which it runs; a file may override `more_settings`
`service`  module   the process, its collections, and people of each role (`pages_ground.Service`)
`couriers` module   the courier site, and settings by which workers ask it
`worker`   module   a worker with the same settings, that works
`browser`  module   Chromium; a test is skipped where there is none
`owner`    test     an owner of `main`, who sees the pages for operators
`member`   test     a member of `main`
`viewer`   test     a viewer of `main`
`acme`     test     an owner of the account `acme`
`stranger` test     somebody who is not logged in
========== ======== ===============================================================================
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pymongo
import pytest
import redis
from pages_ground import ACME, BOOT_SECONDS, ROOT, Person, Service, serving_pages

from devstack.kinds import BEANSTALKD
from devstack.nursery import Nursery
from devstack.process import Process
from devstack.servers import running
from devstack.site.remote import CourierSite
from devstack.stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ONE = {"TRACKER_WORKER__PROCESSES": "1", "TRACKER_WORKER__GRACE_SECONDS": "3"}


@pytest.fixture(scope="module")
def more_settings() -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def settings(stack: Stack, more_settings: dict[str, str]) -> Iterator[dict[str, str]]:
    for server in (stack.redis, stack.mongodb):
        if server.ours:
            server.resume()
            server.start()
    with redis.Redis.from_url(stack.redis.url) as client:
        client.flushdb()
    name = f"test_{uuid.uuid4().hex[:12]}"
    with running(BEANSTALKD) as beanstalkd:
        yield {
            "TRACKER_BEANSTALKD__SERVERS": json.dumps([beanstalkd.url]),
            "TRACKER_REDIS__URL": stack.redis.url,
            "TRACKER_MONGODB__URI": stack.mongodb.url,
            "TRACKER_MONGODB__DATABASE": name,
        } | more_settings
    with pymongo.MongoClient[dict[str, object]](stack.mongodb.url) as mongo:
        mongo.drop_database(name)


@pytest.fixture(scope="module")
def couriers(courier_site: CourierSite) -> dict[str, str]:
    """Settings by which workers ask the courier site, for `more_settings` of a file."""
    courier_site.reset()
    return {
        f"TRACKER_COURIERS__{name}__{what}": value
        for name in ("ACME_POST", "BLUE_POST")
        for what, value in (("MODULE", "json_feed"), ("BASE_URL", f"{courier_site.url}/feed"))
    }


@pytest.fixture(scope="module")
def worker(service: Service) -> Iterator[Process]:
    with tempfile.TemporaryDirectory(prefix="pytest-") as folder, Nursery() as nursery:
        command, log = [sys.executable, str(ROOT / "worker.py"), "run"], Path(folder) / "log"
        process = Process(nursery, command, log, service.settings | ONE)
        process.spawn()
        deadline = time.monotonic() + BOOT_SECONDS
        while '"worker started"' not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process
        process.stop()


@pytest.fixture(scope="module")
def service(settings: dict[str, str]) -> Iterator[Service]:
    with (
        tempfile.TemporaryDirectory(prefix="pytest-", dir="/var/tmp") as folder,
        serving_pages(Path(folder), settings) as served,
    ):
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Here, as most tests need no browser: the library takes a while to load.
    from browser_ground import open_browser  # noqa: PLC0415

    with (
        tempfile.TemporaryDirectory(prefix="pytest-", ignore_cleanup_errors=True) as home,
        open_browser(Path(home)) as opened,
    ):
        yield opened


@pytest.fixture
def owner(service: Service) -> Person:
    return service.person("owner")


@pytest.fixture
def member(service: Service) -> Person:
    return service.person("member")


@pytest.fixture
def viewer(service: Service) -> Person:
    return service.person("viewer")


@pytest.fixture
def acme(service: Service) -> Person:
    return service.person("owner", ACME)


@pytest.fixture
def stranger(service: Service) -> Person:
    return service.stranger()
