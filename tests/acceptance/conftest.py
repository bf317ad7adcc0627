"""The acceptance suite: real servers, real workers, judged at the courier's and by what was put.

A test takes one fixture, `plant`: premises of its own with everything on them (plant.py), or, where
it is marked as a guest, couriers of its own at a worker of all guests. Most of a scenario is
waiting, so the selected tests play at the same time, each in a thread, and pytest collects how they
ended one by one. Where times are judged (tests/portion.py), tests that measure
(`@pytest.mark.measures`) play together, but with no others beside them. The durations that pytest
tells are those of the scenarios.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from plant import DATABASES, Ground, House, Plant, open_plant
from portion import TIMES

from devstack.folder import DISK, private_folder
from devstack.nursery import Nursery
from devstack.site.remote import CourierSite
from devstack.stack import Stack

AT_ONCE = 8
BEGIN_SECONDS = 1.0
"""Between the beginnings of the first: eight workers that start together starve one another."""

LONGEST = ("test_second_kind", "test_absent_servers", "test_stopping", "test_killed_workers")
"""Files whose scenarios wait for leases and sweeps: begun last they would end alone."""

HERE = Path(__file__).parent

Play = Future[None]

SECONDS = pytest.StashKey[float]()


class Programme:
    """Starts the selected tests, group by group, when the first of a group is asked for."""

    def __init__(self, tests: Sequence[pytest.Function], ground: Ground) -> None:
        self._tests = sorted(tests, key=lambda test: test.path.stem not in LONGEST)
        self._ground = ground
        self._house = House(ground)
        self._plays: dict[str, Play] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE, "plant")

    def play_of(self, test: pytest.Function) -> Play:
        """The run of one test, which goes on or is over."""
        if test.nodeid not in self._plays:
            wait(self._plays.values())
            together = [each for each in self._tests if _measures(each) == _measures(test)]
            for nth, each in enumerate(together):
                after = nth * BEGIN_SECONDS if nth < AT_ONCE else 0.0
                self._plays[each.nodeid] = self._pool.submit(self._play, each, after)
        return self._plays[test.nodeid]

    def close(self) -> None:
        """Start no more; what plays ends by its own deadlines."""
        self._pool.shutdown(cancel_futures=True)
        self._house.close()

    def _play(self, test: pytest.Function, after: float) -> None:
        time.sleep(after)
        began = time.monotonic()
        given = test.callspec.params if hasattr(test, "callspec") else {}
        try:
            with self._plant_of(test) as plant:
                test.obj(plant=plant, **given)
        finally:
            test.stash[SECONDS] = time.monotonic() - began

    def _plant_of(self, test: pytest.Function) -> AbstractContextManager[Plant]:
        if test.get_closest_marker("guest") is None:
            return open_plant(self._ground)
        return self._house.guest()


@pytest.fixture(scope="session")
def ground(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory, measured: dict[str, list[str]]
) -> Iterator[Ground]:
    with CourierSite.start() as site, private_folder(DISK) as disk, Nursery() as nursery:
        folder = tmp_path_factory.mktemp("workers")
        made = Ground(stack, site, nursery, folder, disk, measures=measured)
        for number in DATABASES:
            made.databases.put(number)
        yield made


@pytest.fixture(scope="session")
def programme(request: pytest.FixtureRequest, ground: Ground) -> Iterator[Programme]:
    tests = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.path.parent == HERE
        and "plant" in item.fixturenames
    ]
    made = Programme(tests, ground)
    yield made
    made.close()


@pytest.fixture
def plant(request: pytest.FixtureRequest, programme: Programme) -> Play:
    return programme.play_of(request.node)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    play = pyfuncitem.funcargs.get("plant")
    if not isinstance(play, Future):
        return None
    play.result()
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" and SECONDS in item.stash:
        report.duration = item.stash[SECONDS]
    return report


def _measures(test: pytest.Function) -> bool:
    return TIMES and test.get_closest_marker("measures") is not None
