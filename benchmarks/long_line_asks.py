"""Everything that one may ask of a long line, each in the shape that takes longest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from benchmarks.long_line import ANSWER, ASKED, LINE, NAMES, NOW, SLUG, LongLine, later, number_of
from limits.admin.cancel import CancelFilter, CancelTarget
from tracking.line import Line
from tracking.request import Number, Origin

IN_A_ROW = 10_000
"""Numbers that are cancelled one behind the other, before somebody takes what follows them."""

DUE = 2_000
RELISTED_SECONDS = 0.7


async def ask_line(line: LongLine) -> None:
    """Ask everything of the line; at last somebody deletes its lists."""
    await _admissions(line)
    await _places(line)
    await _calls(line)
    await _retries(line)
    await _cancels(line)
    await _sweeps(line)


async def _admissions(line: LongLine) -> None:
    of = line.times.of
    async with of("admit: new numbers"):
        await line.ask(line.new_numbers())
    async with of("admit: numbers that wait"):
        await line.ask(line.waiting())
    async with of("admit: AUTOMATIC numbers, now MANUAL"):
        await line.ask(line.waiting(automatic=1))
    async with of("admit: many ids for one number"):
        await line.ask(line.waiting()[:1] * ASKED)


async def _places(line: LongLine) -> None:
    of, place = line.times.of, line.view.place
    async with of("place: numbers anywhere"):
        await asyncio.gather(*(place(LINE, each) for each in line.waiting(automatic=1)))
    async with of("place: numbers that do not wait"):
        await asyncio.gather(*(place(LINE, each) for each in line.new_numbers(200)))
    async with of("place: the line"):
        await asyncio.gather(*(place(LINE, Number("")) for _ in range(ASKED)))


async def _calls(line: LongLine) -> None:
    of, limiter = line.times.of, line.limiter
    async with of("take: 100 calls"):
        calls = await line.calls()
    async with of("again, and started"):
        await asyncio.gather(
            *(line.step("again", LINE, f"{each.id}#2", each.id) for each in calls),
            *(line.step("started", LINE) for _ in calls),
        )
    async with of("finish, each taking the next"):
        await asyncio.gather(*(limiter.finish([(call, ANSWER)], 1) for call in calls))
    await line.land()
    calls = await line.calls()
    async with of("hand_back, each taking the next"):
        await asyncio.gather(*(limiter.hand_back([call], 1) for call in calls))
    await line.land()
    calls = await line.calls()
    await line.redis.delete(NAMES.calls_leases)
    async with of("sweep: 300 calls of workers that vanished"):
        await limiter.sweep([LINE])
    await line.land()


async def _retries(line: LongLine) -> None:
    of, limiter = line.times.of, line.limiter
    calls = await line.calls()
    async with of("retry"):
        await asyncio.gather(*(limiter.retry(call, NOW, 0) for call in calls))
    await _let_wait(line, due_ms=1)
    async with of(f"admit: new numbers, {DUE:,} retries due"):
        await line.ask(line.new_numbers())
    calls = await line.calls(many=100)
    await _let_wait(line, due_ms=1)
    async with of(f"finish, {DUE:,} retries due"):
        await asyncio.gather(*(limiter.finish([(call, ANSWER)], 1) for call in calls))
    await _let_wait(line, due_ms=1)
    async with of(f"take, {DUE:,} retries due"):
        await line.calls()
    await line.land()
    await _let_wait(line, due_ms=4_000_000_000_000)
    async with of(f"resume, {DUE:,} retries not due"):
        for _ in range(ASKED // 50):
            await line.redis.set(NAMES.calls_paused, "x", px=2**42)
            await line.redis.set(NAMES.calls_brake, '{"why":"x","pauses":1}')
            await line.step("resume", LINE, 1)
    await line.redis.delete(NAMES.calls_paused, NAMES.calls_brake, NAMES.wait_later)


async def _let_wait(line: LongLine, due_ms: int) -> None:
    numbers = line.new_numbers(DUE)
    await line.redis.hset(NAMES.wait_requests, mapping={n: later(line.record, n) for n in numbers})
    await line.redis.zadd(NAMES.wait_later, dict.fromkeys(numbers, due_ms))


async def _cancels(line: LongLine) -> None:
    of, canceller = line.times.of, line.canceller
    numbers = (*line.waiting(), *line.waiting(automatic=1))
    async with of("cancel: numbers anywhere"):
        await _all(canceller.cancel_many([CancelTarget(SLUG, number) for number in numbers]))
    some = line.waiting()
    wanted = zip(some, (await line.ask(some))[0], strict=True)
    async with of("cancel: ids"):
        await _all(canceller.cancel_many([CancelTarget(SLUG, *each) for each in wanted]))
    by_hand = [Number(f"HAND{index}") for index in range(ASKED)]
    await line.redis.rpush(NAMES.wait_list, *by_hand)
    async with of("cancel: numbers pushed by hand"):
        await _all(canceller.cancel_many([CancelTarget(SLUG, number) for number in by_hand]))
    async with of("cancel_where: AUTOMATIC ones"):
        await _all(canceller.cancel_where(SLUG, CancelFilter(origin=Origin.AUTOMATIC)), most=ASKED)
    async with of("forget"):
        await asyncio.gather(*(line.forgetter.forget(SLUG, n) for n in line.waiting(most=200)))
    begin = 10 + int(str(await line.redis.hget(NAMES.wait_order, "manual") or 0))
    part = range(begin, begin + min(IN_A_ROW, line.length // 4))
    await _all(canceller.cancel_many([CancelTarget(SLUG, number_of(0, index)) for index in part]))
    async with of("take, many in a row cancelled"):
        await line.calls()
    await line.land()
    async with of("cancel: the line"):
        await _all(canceller.cancel_courier(SLUG), most=ASKED)


async def _sweeps(line: LongLine) -> None:
    of, limiter = line.times.of, line.limiter
    async with of("sweep, nothing to be put right"):
        for _ in range(20):
            await limiter.sweep([LINE])
            await line.step("sweep", LINE, "")
    taken = await line.redis.rpop(NAMES.wait_list_automatic, 200)
    async with of("admit: AUTOMATIC numbers taken out by hand, now MANUAL"):
        await line.ask(Number(str(each)) for each in taken or () if each)
    await line.redis.lpop(NAMES.wait_list, ASKED)
    async with of("admit, cancel: many others taken out by hand"):
        await line.ask(line.waiting(most=200))
        await _all(
            line.canceller.cancel_many([CancelTarget(SLUG, n) for n in line.waiting(most=200)])
        )
    await line.redis.rpop(NAMES.wait_list, ASKED)
    async with of("sweep: many numbers taken out by hand"):
        await _for_a_while(line, LINE)
    await line.redis.delete(NAMES.wait_list, NAMES.wait_list_automatic, NAMES.wait_later)
    await line.redis.delete(NAMES.wait_drainer)
    async with of("sweep: the lists deleted"):
        await _for_a_while(line, LINE)


async def _for_a_while(line: LongLine, *lines: Line) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(line.limiter.sweep(lines), RELISTED_SECONDS)


async def _all(came: AsyncIterator[object], most: int = 1_000_000) -> None:
    seen = 0
    async for _ in came:
        seen += 1
        if seen == most:
            break
