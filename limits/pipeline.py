"""The way to Redis and back: what accumulates during one round trip goes out together.

A caller awaits one step and reads as one step. All steps become few scripts, of whatever kinds and
lines they are; those of no line go beside them in the same pipeline. They travel by hash.
When Redis has forgotten them (restart, SCRIPT FLUSH) they are loaded and sent again: a refused
script has done nothing.

Where there are replicas, most servers must have what Redis did: a failover would lose what only the
primary has. Of n servers, the primary among them, n // 2 replicas make the majority with it: then
no other primary can have one beside it. A worker learns from the epoch how many are to confirm a
step (epoch.py); people's steps ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline as Pipe
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import NoPermissionError, NoScriptError, RedisError, ResponseError

from limits.clock import LEAP_SECONDS, MICRO, Clock
from limits.failure import Unconfirmed, redis_down, takes_no_writes
from limits.keys import EPOCH, LEAP
from limits.script_file import ALONE, BATCH, Script, load
from tracking.errors import LimitsDown

MOST_AT_ONCE = 100
"""Steps in one exchange, by their weights."""

MOST_IN_SCRIPT = 50
"""The same in one script, during which Redis hears nobody else: more could take it 5 ms. A script
does not begin all of them where the first ones have much to do."""

NOT_BEGUN = 0
"""In the place of a step's reply (lua/lib/batch.lua)."""

ENOUGH = 100
"""So many waiting steps do not wait for the pipeline under way: they go out on a second connection.
Redis works on one pipeline while this process reads the replies of the other."""

Notice = Callable[[Exception | None], None]
Value = str | bytes | int

LEAST = "min-replicas-to-write"
CONFIRM_MS = 1_000
"""How long Redis waits for a replica: it answers in milliseconds, or is cut off or frozen."""


@dataclass(slots=True, eq=False)
class _Step:
    name: str
    keys: Sequence[str]
    args: Sequence[Value]
    reply: asyncio.Future[Any]
    weight: int = 1


class Pipeline:
    """One pipeline is under way at a time, two when much is asked; the next one fills up."""

    def __init__(self, redis: Redis, clock: Clock, notice: Notice = lambda _: None) -> None:
        """`notice` hears of it when Redis goes away (the error) and when it is back (None).

        Made in the event loop that it works in; Python 3.11 asks the kernel to name that loop.
        """
        self.redis = redis
        self._clock = clock
        self._notice = notice
        self._loop = asyncio.get_running_loop()
        self.confirmed: int | None = None
        """How many replicas must have a step for it to count; None: Redis is asked each time."""
        self._away = False
        self._quiet_us = 0
        self._leapt: Callable[[], None] = lambda: None
        self._scripts = load()
        self._waiting: list[_Step] = []
        self._first: asyncio.Task[None] | None = None
        self._second: asyncio.Task[None] | None = None

    def greet_with(self, greeting: Callable[[AbstractConnection], Awaitable[None]]) -> None:
        """Let every connection begin with `greeting`, which logs in; it may refuse by raising."""
        self.redis.connection_pool.connection_kwargs["redis_connect_func"] = greeting

    def quiet_after_leap(self, seconds: float, leapt: Callable[[], None]) -> None:
        """Have nobody start for so long after Redis' clock leapt; `leapt` hears of it then.

        The longest of all leases: until then a call may be open of a worker that hangs.
        """
        self._quiet_us, self._leapt = round(seconds * MICRO), leapt

    def text(self, name: str) -> str:
        """The whole text of a script of no line."""
        return self._scripts[name].text

    def run(
        self, name: str, keys: Sequence[str], args: Sequence[Value], weight: int = 1
    ) -> asyncio.Future[Any]:  # each script has replies of its own; limiter.py reads them
        """Run one step. LimitsDown: it may have run, so repeat it as it is.

        `weight`: as many steps as it has to do, where that is more than one.
        """
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(_Step(name, keys, args, reply, weight))
        self._see_to_sending()
        return reply

    async def close(self) -> None:
        """Wait for what is under way; nothing may be asked afterwards."""
        while sender := self._first or self._second:
            await sender

    def _see_to_sending(self) -> None:
        if self._first is None:
            self._first = asyncio.create_task(self._send_all())
        elif self._second is None and len(self._waiting) >= ENOUGH:
            self._second = asyncio.create_task(self._send_some())

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._send_next()
        finally:
            self._first = None

    async def _send_some(self) -> None:
        try:
            while len(self._waiting) >= ENOUGH:
                await self._send_next()
        finally:
            self._second = None

    async def _send_next(self) -> None:
        steps, self._waiting = _next_of(self._waiting)
        await self._send(list(_together(steps)))

    async def _send(self, groups: list[list[_Step]]) -> None:
        try:
            if self._clock.before_leap is not None:
                await self._tell_of_leap(self._clock.before_leap)
            replies = await self._exchange(groups)
            forgotten = [
                index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)
            ]
            if forgotten:
                await self._load({self._script_of(groups[index]) for index in forgotten})
                again = await self._exchange([groups[index] for index in forgotten])
                for index, reply in zip(forgotten, again, strict=True):
                    replies[index] = reply
        except (TimeoutError, RedisError, OSError, LimitsDown) as error:
            self._tell(error)
            for group in groups:
                _fail(group, error)
            return
        except BaseException as error:
            _give_up(groups, error)
            if isinstance(error, Exception):
                return  # those who asked tell of the defect; the next steps go on
            raise
        self._put_back([*chain.from_iterable(map(_not_begun, groups, replies))])
        refusals = [
            error
            for group, reply in zip(groups, replies, strict=True)
            for error in _settle(group, reply)
            if takes_no_writes(error)
        ]
        self._tell(refusals[0] if refusals else None)
        if refusals:
            await self._leave()

    def _put_back(self, steps: Sequence[_Step]) -> None:
        """Send them again, before those that came later."""
        if steps:
            self._waiting[:0] = steps
            self._see_to_sending()

    async def _tell_of_leap(self, high: float) -> None:
        """Tell Redis that its clock leapt, before anything else."""
        if self._quiet_us:
            latest_us = round((time.monotonic() + high + LEAP_SECONDS) * MICRO)
            said = EPOCH, LEAP, str(self._quiet_us), str(latest_us)
            _, news = await self.redis.eval(self.text("leap"), 2, *said)
            if news:
                self._leapt()
        self._clock.before_leap = None

    async def _leave(self) -> None:
        """Close the connections: another Redis may take the writes, at the same address."""
        with contextlib.suppress(RedisError, OSError):
            await self.redis.connection_pool.disconnect(inuse_connections=False)

    def _tell(self, error: Exception | None) -> None:
        if self._away != (error is not None):
            self._away = error is not None
            self._notice(error)

    async def _exchange(self, groups: Sequence[list[_Step]]) -> list[Any]:
        pipeline = self.redis.pipeline(transaction=False)
        for group in groups:
            keys, args = _written(group, self._clock.latest_us())
            sha = self._script_of(group).sha
            pipeline.execute_command("EVALSHA", sha, len(keys), *keys, *args)
        confirmed = self.confirmed
        if confirmed is None:
            confirmed = await confirmations(self.redis)
        before = time.monotonic()
        replies = await executed(pipeline, confirmed=confirmed)
        after = time.monotonic()
        for reply in replies:
            if (instant := _instant(reply)) is not None:
                self._clock.observe(before, instant, after)
        late = [
            index
            for index, reply in enumerate(replies)
            if isinstance(reply, int) and _batches(groups[index])
        ]
        if any(map(_batches, groups)):  # others come as late as they like, and show nothing
            self._clock.came_late(after - before if late else None)
        for index in late:
            replies[index] = [NOT_BEGUN] * len(groups[index])
        return replies

    def _script_of(self, group: Sequence[_Step]) -> Script:
        return self._scripts[BATCH if _batches(group) else group[0].name]

    async def _load(self, scripts: Iterable[Script]) -> None:
        for script in scripts:
            await self.redis.script_load(script.text)


def unconfirmed(redis: Redis) -> Pipeline:
    """Make one for steps that a failover may lose: those who ask do them once more."""
    pipeline = Pipeline(redis, Clock())
    pipeline.confirmed = 0
    return pipeline


def _next_of(waiting: list[_Step]) -> tuple[list[_Step], list[_Step]]:
    """Choose the steps of one exchange, and give the others, as old as they are.

    The oldest step goes, with all of its line; then the oldest of the others, with its line. Half
    of what a request costs Redis is done once for a line in each script, and no step waits for
    longer than until it is the oldest.
    """
    if _how_many(waiting, MOST_AT_ONCE) == len(waiting):
        return waiting, []
    of_lines: dict[str, list[_Step]] = {}
    for step in waiting:
        of_lines.setdefault(_line_of(step), []).append(step)
    steps = list(chain.from_iterable(of_lines.values()))
    steps = steps[: _how_many(steps, MOST_AT_ONCE)]
    chosen = set(steps)
    return steps, [step for step in waiting if step not in chosen]


def _together(steps: Iterable[_Step]) -> Iterable[list[_Step]]:
    """Steps of lines in few groups, each line's in their order; what belongs to no line goes alone.

    Steps of one line go together: they share what is done once for it.
    """
    batch = []
    for step in steps:
        if step.name in ALONE:
            yield [step]
        else:
            batch.append(step)
    batch.sort(key=_line_of)
    while batch:
        some = _how_many(batch, MOST_IN_SCRIPT)
        yield batch[:some]
        batch = batch[some:]


def _how_many(steps: Sequence[_Step], most: int) -> int:
    """Of the first steps, as many as weigh so much together at most; one at least."""
    whole = 0
    for some, step in enumerate(steps):
        whole += step.weight
        if whole > most and some:
            return some
    return len(steps)


def _line_of(step: _Step) -> str:
    return step.keys[0]


def _batches(group: Sequence[_Step]) -> bool:
    return group[0].name not in ALONE


def _written(group: Sequence[_Step], latest_us: int) -> tuple[Sequence[Value], Sequence[Value]]:
    """Keys and arguments of one script, in the order of lua/lib/batch.lua."""
    if not _batches(group):
        return group[0].keys, group[0].args
    kinds: dict[tuple[str, int], int] = {}
    widths: list[str] = []
    # A line is its key and its rules: the rules of one line may change between two steps.
    lines: dict[tuple[Any, Any], int] = {}
    laws: dict[Value, int] = {}
    for step in group:
        if (kind := (step.name, len(step.args))) not in kinds:
            kinds[kind] = len(kinds)
            widths.append(f"{step.name} {len(step.args)} ")
    requests: list[Value] = []
    for step in group:
        line = lines.setdefault((step.keys[0], step.args[0]), len(lines))
        requests.append(line * len(kinds) + kinds[step.name, len(step.args)])
        requests.extend(step.args[1:])
    which = [laws.setdefault(rules, len(laws) + 1) for _, rules in lines]
    head = latest_us, len(laws), "".join(widths)
    return [key for key, _ in lines], [*head, *laws, *which, *requests]


def _instant(reply: Any) -> int | None:
    """Redis' time in a reply, in µs; the first of a batch, where all have the same."""
    while isinstance(reply, list) and reply:
        reply = next((each for each in reply if each != NOT_BEGUN), None)
    return reply if isinstance(reply, int) else None


def _not_begun(group: Sequence[_Step], reply: Any) -> Iterator[_Step]:
    """Find the steps for which a script had no time left, because those before took it long."""
    if _batches(group) and not isinstance(reply, Exception):
        for step, own in zip(group, reply, strict=True):
            if own == NOT_BEGUN and not step.reply.done():
                yield step


def _settle(group: Sequence[_Step], reply: Any) -> Iterator[Exception]:
    """Hand each step its reply. What Redis refused is yielded as well."""
    if isinstance(reply, Exception):
        _fail(group, reply)
        yield reply
        return
    for step, own in zip(group, reply if _batches(group) else [reply], strict=True):
        # What Redis will not do for one of them must not take the others along.
        if isinstance(own, Exception):
            _fail([step], own)
            yield own
        elif own != NOT_BEGUN and not step.reply.done():
            step.reply.set_result(own)


def _give_up(groups: Iterable[Sequence[_Step]], error: BaseException) -> None:
    for step in chain.from_iterable(groups):
        if not isinstance(error, Exception):
            step.reply.cancel()
        elif not step.reply.done():
            step.reply.set_exception(error)


def _fail(group: Sequence[_Step], error: Exception) -> None:
    for step in group:
        if not step.reply.done():
            down = redis_down(error)
            down.__cause__ = error
            step.reply.set_exception(down)


async def confirmations(redis: Redis) -> int:
    """Ask how many replicas are to confirm what is done here; 0 where it may work without any."""
    try:
        told = await redis.info("replication")
    except NoPermissionError:
        return 0
    if "min_slaves_good_slaves" not in told:
        return 0
    wanted = 1
    with suppress(ResponseError):  # not allowed to this user, or not offered by this provider
        wanted = int((await redis.config_get(LEAST)).get(LEAST) or wanted)
    return max(wanted, (int(told["connected_slaves"]) + 1) // 2)


async def executed(pipeline: Pipe, *, confirmed: int) -> list[Any]:
    """Execute a pipeline, and wait until so many replicas have what it did.

    Refusals are among the replies; where too few have it, each of them is Unconfirmed.
    """
    if confirmed:
        pipeline.execute_command("WAIT", confirmed, CONFIRM_MS)
    replies: list[Any] = await pipeline.execute(raise_on_error=False)
    # The reply to WAIT is an error where Redis was demoted while it waited.
    if confirmed and not (isinstance(waited := replies.pop(), int) and waited >= confirmed):
        return [Unconfirmed() for _ in replies]
    return replies


async def done(pipeline: Pipe, *, confirmed: int) -> None:
    """Do the same, and raise the first refusal."""
    for reply in await executed(pipeline, confirmed=confirmed):
        if isinstance(reply, Exception):
            raise reply
