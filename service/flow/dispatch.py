"""Acts on a Turn: starts granted calls, schedules the next look, puts a drain job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from service.flow.call import Asker
from service.flow.tasks import Tasks
from service.ports import Drains
from tracking.call import Call, Turn
from tracking.errors import CourierError, GivenUp, TubesDown, WorkersVanished
from tracking.line import Line

_REFUSED_FOR_A_DAY = {
    "no_credentials": "nobody could ask for a day: credentials are missing",
    "auth_failed": "the courier refused our credentials for a day",
    "rate_limited": "the courier asked for fewer calls for a day, and answered none",
}


class Dispatcher:
    """Goes on after every step that may leave somebody waiting."""

    def __init__(
        self,
        asker: Asker,
        tasks: Tasks,
        drains: Drains,
        look_again: Callable[[Line, float], None],
    ) -> None:
        self._asker = asker
        self._room = asker.room
        self._tasks = tasks
        self._drains = drains
        self._look_again = look_again

    async def go_on(self, line: Line, turn: Turn) -> None:
        """Do what a turn says, and give back what room it left. Never waits for its calls."""
        for calls in turn.groups:
            self._room.pass_on(self._tasks.start(self.carry(calls)))
        self._room.leave()
        if turn.full:
            self._room.waiting.add(line)
        if turn.ask_again is not None:
            self._look_again(line, turn.ask_again)
        if turn.put_drain:
            try:
                await self._drains.put_drain(line)
            except TubesDown:
                return  # the sweeper puts it when the tubes are back

    async def die(self, call: Call) -> None:
        """End a request over which too many workers vanished, or that is given up.

        While MongoDB is away it stays as it is: to wait would keep the sweeper from all others, and
        the sweep finds it again.
        """
        if not self._room.may_call():
            return
        await self.go_on(call.line, await self._asker.give_up(call, _reason(call)))

    async def carry(self, calls: Sequence[Call]) -> bool:
        """Carry a group, for which this task has a place, to its end and to what follows it.

        True: the request of its last call waits again.
        """
        try:
            kept = await self._asker.perform(calls)
        except asyncio.CancelledError:
            return await self._hand_back(calls)
        waits = False
        for n, (call, (outcome, attempt)) in enumerate(zip(calls, kept, strict=True)):
            try:
                turn = await self._asker.keep(call, outcome, attempt)
            except asyncio.CancelledError:
                return await self._hand_back(calls[n:])
            await self.go_on(call.line, turn)
            waits = turn.waits
        return waits

    async def _hand_back(self, calls: Sequence[Call]) -> bool:
        """Let other workers go on with calls, because this worker stops.

        They are under way, or their outcomes are not durable. Their requests wait in Redis now, so
        what follows a turn is due: a drain job for the next worker, and the end of their own jobs.
        """
        for call in calls:
            await self.go_on(call.line, await self._asker.hand_back(call))
        return True


def _reason(call: Call) -> CourierError:
    if call.given_up:
        return GivenUp(call.given_up, _REFUSED_FOR_A_DAY.get(call.given_up, call.given_up))
    return WorkersVanished(call.deaths)
