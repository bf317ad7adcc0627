"""Waits under one timer: each ends at its own instant, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import time

from limits.instants import Instants


async def test_each_wait_lasts_as_long_as_was_asked_for() -> None:
    instants, order = Instants(), list[float]()
    began = time.monotonic()

    async def wait(seconds: float) -> None:
        await instants.sleep(seconds)
        assert time.monotonic() - began >= seconds
        order.append(seconds)

    async with asyncio.timeout(5.0):
        await asyncio.gather(*map(wait, (0.06, 0.02, 0.04, 0.02, 0.03)))

    assert order == [0.02, 0.02, 0.03, 0.04, 0.06]


async def test_a_later_wait_may_end_sooner() -> None:
    instants = Instants()
    long = instants.sleep(30.0)

    await asyncio.wait_for(instants.sleep(0.01), 5.0)

    assert not long.done()


async def test_a_wait_that_is_given_up_keeps_nobody_else() -> None:
    instants = Instants()
    first, second = instants.sleep(0.01), instants.sleep(0.02)

    first.cancel()

    await asyncio.wait_for(second, 5.0)


async def test_who_comes_after_all_others_have_left_is_woken() -> None:
    instants = Instants()
    await instants.sleep(0.01)

    await asyncio.wait_for(instants.sleep(0.01), 5.0)
