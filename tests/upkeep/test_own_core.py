"""A busy process stays on one core, unless somebody else is on it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service.worker.upkeep import own_core
from service.worker.upkeep.own_core import OwnCore, Spent, should_stay

SOON = 10.0
ALLOWED = os.sched_getaffinity(0)

pytestmark = pytest.mark.skipif(len(ALLOWED) < 2, reason="this machine gives us one core")


@pytest.fixture(autouse=True)
def elsewhere_afterwards() -> Iterator[None]:
    yield
    for thread in own_core.THREADS.iterdir():
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), ALLOWED)


@pytest.mark.parametrize(
    ("ran", "waited", "stays"),
    [
        (0.0, 0.0, False),
        (0.29, 0.0, False),
        (0.3, 0.0, True),
        (0.7, 0.3, True),
        (0.55, 0.45, False),
        (0.3, 0.7, False),
    ],
)
def test_a_process_stays_while_it_is_busy_and_hardly_waits_for_its_core(
    ran: float,
    waited: float,
    stays: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    for seconds in (1.0, 2.0):
        spent = Spent(round(ran * seconds * 1e9), round(waited * seconds * 1e9))

        assert should_stay(spent, seconds) is stays


def test_all_threads_stay_on_the_core_of_the_event_loop_and_go_free_together() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    own = OwnCore()
    try:
        own.look(stay=True)
        own.look(stay=True)
        staying = os.sched_getaffinity(0), os.sched_getaffinity(thread.native_id or 0)
        own.look(stay=False)
        free = os.sched_getaffinity(0), os.sched_getaffinity(thread.native_id or 0)
    finally:
        done.set()
        thread.join()

    assert staying[0] == staying[1] < ALLOWED
    assert len(staying[0]) == 1
    assert free == (ALLOWED, ALLOWED)


def test_what_an_operator_decides_meanwhile_holds() -> None:
    own = OwnCore()
    own.look(stay=True)
    (core,) = os.sched_getaffinity(0)
    decided = {(ALLOWED - {core}).pop()}
    os.sched_setaffinity(0, decided)

    own.look(stay=False)
    own.look(stay=True)

    assert os.sched_getaffinity(0) == decided


async def test_a_process_looks_at_what_the_kernel_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_core, "LOOK_SECONDS", 0.02)
    thread = tmp_path / str(os.getpid())
    thread.mkdir()
    (thread / "stat").write_text((own_core.THREADS / thread.name / "stat").read_text())
    ran = waited = 0

    async def until_cores_are(count: int, *, runs: bool, waits: bool) -> None:
        nonlocal ran, waited
        async with asyncio.timeout(SOON):
            while len(os.sched_getaffinity(0)) != count:
                ran, waited = ran + runs * 10**10, waited + waits * 10**10
                (tmp_path / "new").write_text(f"{ran} {waited} 7\n")
                (tmp_path / "new").rename(thread / "schedstat")
                await asyncio.sleep(0.01)

    (thread / "schedstat").write_text("0 0 0\n")
    looking = asyncio.create_task(OwnCore(tmp_path).run())
    try:
        await until_cores_are(1, runs=True, waits=False)
        await until_cores_are(len(ALLOWED), runs=True, waits=True)
        await until_cores_are(1, runs=True, waits=False)
        await until_cores_are(len(ALLOWED), runs=False, waits=False)
    finally:
        looking.cancel()


async def test_where_the_kernel_counts_nothing_a_process_goes_on_as_it_is(tmp_path: Path) -> None:
    looking = asyncio.create_task(OwnCore(tmp_path).run())

    done, _ = await asyncio.wait({looking}, timeout=0.1)

    looking.cancel()
    assert not done
    assert os.sched_getaffinity(0) == ALLOWED
