"""What an event loop and a thread tell each other is never missed."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Iterator

import pytest

from service.tubes.mailbox import Mailbox, answer

SOON = 10.0


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as opened:
        yield opened


async def test_a_thread_that_is_woken_before_it_sleeps_does_not_sleep(
    selector: selectors.BaseSelector,
) -> None:
    mailbox = Mailbox(asyncio.get_running_loop())
    selector.register(mailbox.ear, selectors.EVENT_READ)
    mailbox.sleep(selector, 0)

    mailbox.wake()
    async with asyncio.timeout(SOON):
        await asyncio.to_thread(mailbox.sleep, selector, None)

    mailbox.close()


async def test_ten_thousand_round_trips_miss_no_wake(selector: selectors.BaseSelector) -> None:
    mailbox = Mailbox(asyncio.get_running_loop())
    selector.register(mailbox.ear, selectors.EVENT_READ)
    ending = threading.Event()

    def serve() -> None:
        while not ending.is_set():
            mailbox.sleep(selector, None)
            _, visits = mailbox.collect()
            mailbox.call(answer, visits)
        mailbox.close()

    thread = threading.Thread(target=serve)
    thread.start()
    async with asyncio.timeout(30):
        for _ in range(10_000):
            await mailbox.round_trip()
    ending.set()
    mailbox.wake()
    await asyncio.to_thread(thread.join)


async def test_a_caller_that_waits_when_the_thread_ends_waits_no_more() -> None:
    mailbox = Mailbox(asyncio.get_running_loop())
    visiting = asyncio.create_task(mailbox.round_trip())
    await asyncio.sleep(0)

    mailbox.close()
    async with asyncio.timeout(SOON):
        await visiting
        await mailbox.round_trip()
