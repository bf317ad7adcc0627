"""The view of Redis reads for `info`, `show` and `put --wait`, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from limits.admin.accounts import accounts_in
from limits.admin.operations import Operation, operations, operations_of
from limits.admin.running import LiveWorker, live_workers
from limits.admin.snapshot import LineSnapshots, seconds_until
from limits.failure import redis_asked
from limits.server import Memory, memory_in
from tracking.errors import NoCredentials
from tracking.line import Line
from tracking.operation import State
from tracking.request import MAIN, Account, Number, Slug

STOPPED = frozenset({"paused", "probing"})
"""What binds a line that was stopped, or that one call alone tries."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one number: its turn, what keeps it, and when its call is expected to start.

    `ahead` numbers have their turn before; None while it runs, or is in no list. `eta_seconds` is
    None too where nobody can tell. `ahead` is exact while nobody left the number's list before its
    turn (cancelled, or now wanted by a MANUAL request). It is off by no more than those who did,
    and mostly by few: they are taken to have stood evenly spread over the list.

    `bound_by` is as in `LineSnapshot`, "retry" before that is due, or "running" behind the call of
    its own number; `until_seconds` is when that ends. "account_quota": its account has no call left
    on this day.

    `list` is "manual", "automatic", "later" (a retry, not due) or "behind" (its number runs).
    `why`: what paused its line, "by_hand" or the code of an error. Without credentials each try
    stops the line again, so nobody can tell when its call starts.
    """

    state: State
    list: str
    ahead: int | None = None
    eta_seconds: float | None = None
    attempts: int = 0
    bound_by: str = ""
    until_seconds: float | None = None
    why: str = ""


class View(LineSnapshots):
    """Reads for people. Every method raises LimitsDown when Redis is silent."""

    async def workers(self) -> list[LiveWorker]:
        """All worker processes that live, by host and age."""
        with redis_asked():
            seconds, micros = await self.redis.time()
            return await live_workers(self.redis, seconds * 1000 + micros // 1000)

    async def memory(self) -> Memory:
        """What Redis uses of the memory that it may use."""
        with redis_asked():
            return memory_in(await self.redis.info("memory"))

    async def operation(self, operation: str) -> Operation | None:
        """Where an operation stands, by its id; None: still in the tube, or unknown."""
        return (await self.operations([operation])).get(operation)

    async def operations(
        self, ids: Sequence[str], about: Mapping[str, str] | None = None
    ) -> dict[str, Operation]:
        """As `operation`, for many in one round trip; what is not known is left out.

        `about`: the parcel of each id, `<slug>:<number>`; what is of another one is left out too.
        """
        with redis_asked():
            return await operations(self.redis, ids, about) if ids else {}

    async def operations_of(
        self, slug: Slug, number: Number, account: Account | None = None
    ) -> list[Operation]:
        """All operations of an account's parcel, each with its `id`, the newest first.

        None: those of each account, `main`'s before all others.
        """
        with redis_asked():
            whose = [account] if account else [MAIN, *await accounts_in(self.redis)]
            asked = (operations_of(self.redis, slug, number, each) for each in whose)
            return [each for told in await asyncio.gather(*asked) for each in told]

    async def place(self, line: Line, number: Number, *, itself: bool = False) -> Place | None:
        """Where a number stands, None when nobody waits for it (lua/place.lua).

        `itself`: of an operation that waits, so a call that runs for the number is not its own.
        """
        with redis_asked():
            await self.scripts.learn_rules()
        now_us, word, *told = await self.scripts.run("place", line, number, int(itself))
        match word, told:
            case "running", [tries]:
                return Place(State.RUNNING, "", attempts=tries)
            case "waiting", [where, ahead, tries, why, ends, starts]:
                place = Place(
                    State.WAITING,
                    where,
                    ahead=None if ahead == "" else ahead,
                    eta_seconds=seconds_until(starts, now_us),
                    attempts=tries,
                    bound_by=why,
                    until_seconds=seconds_until(ends, now_us),
                )
                return await self._explained(line, place) if why in STOPPED else place
        return None

    async def _explained(self, line: Line, place: Place) -> Place:
        """Say what paused a line; no start of the call where the time alone does not help."""
        why = (await self.line(line)).paused_why
        eta = None if why == NoCredentials.code else place.eta_seconds
        return replace(place, why=why, eta_seconds=eta)
