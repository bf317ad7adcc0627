"""The ends of calls: each leaves its slot, and the last of a group takes for the next in line.

An end may be sent again as it is: it ends nothing twice, and what it took is granted again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from limits import keys
from limits.steps import Steps
from tracking.call import Call, Setback, TakeResult, Verdict
from tracking.line import Line
from tracking.request import own_number


class CallEnds:
    """That part of `service.ports.Limits`; `token` is the process's name in Redis.

    `mark_of`: of the credentials by which a line is called.
    """

    def __init__(self, steps: Steps, token: str, mark_of: Callable[[Line], str]) -> None:
        self.token = token
        self._steps = steps
        self._mark_of = mark_of

    async def finish(self, ends: Sequence[tuple[Call, Verdict]], room: int | None) -> TakeResult:
        """End calls of a group with all their operations, then take (lua/finish.lua).

        They go out together, and the last one takes: nobody waits for as many round trips.
        """
        line, base = ends[0][0].line, self._after(ends[-1][0])
        steps: list[tuple[str | bytes | int, ...]] = [(*_end(*end), base, "") for end in ends[:-1]]
        steps.append(taking := (*_end(*ends[-1]), base, _room(room)))
        rest, is_late = list[Any](), False
        while steps:
            asked = time.monotonic()
            replies = await self._steps.run_all("finish", line, steps)
            for step, (_, _, *told) in zip(steps, replies, strict=True):
                # Many waited behind this number, so the slot is free only now.
                is_late = is_late or (step is not taking and told[1] == "freed")
                rest = told if step is taking else rest
            steps = [step for step, reply in zip(steps, replies, strict=True) if reply[1]]
        if room is not None and is_late:
            return await self._steps.take_result("take", line, (base, room, 0))
        return await self._steps.read_result(line, rest, asked)

    async def retry(self, call: Call, setback: Setback, room: int | None) -> TakeResult:
        """Give the slot back, repeat the call later, and stop the line if need be (lua/retry.lua).

        The start stays spent, unless the courier was not asked at all.
        """
        unsent = setback.firm and not call.permit.started
        mark = self._mark_of(call.line) if setback.of_credentials else ""
        written = keys.write_setback(setback, mark, unsent=unsent)
        args = (call.id, written, self._after(call), _room(room))
        return await self._steps.take_result("retry", call.line, args)

    async def hand_back(self, calls: Sequence[Call], room: int | None) -> TakeResult:
        """Hand requests of a group back to the head of their lists (lua/hand_back.lua).

        The start stays spent unless it is certain that nothing was sent.
        """
        first = calls[0]
        args = (_ids(calls), int(not first.permit.started), self._after(first), _room(room))
        return await self._steps.take_result("hand_back", first.line, args)

    async def halve(self, calls: Sequence[Call], room: int | None) -> TakeResult:
        """Have the numbers of a group called in two halves, at once (lua/halve.lua)."""
        args = (_ids(calls), self._after(calls[0]), _room(room))
        return await self._steps.take_result("halve", calls[0].line, args)

    async def ask_alone(self, call: Call, room: int | None) -> TakeResult:
        """Have a number called by itself, at once (lua/ask_alone.lua)."""
        args = (call.id, self._after(call), _room(room))
        return await self._steps.take_result("ask_alone", call.line, args)

    def _after(self, call: Call) -> str:
        """The base of what is taken at the end of a call, always the same.

        A call that is given once more, to be recorded as dead, has one death more: who asks still,
        perhaps in this process, and who records it must not be given the same calls.
        """
        digest = hashlib.blake2b(f"{call.id} {call.deaths}".encode(), digest_size=9)
        return f"{self.token}-{digest.hexdigest()}"


def _end(call: Call, verdict: Verdict) -> tuple[str, bytes, str]:
    written = keys.write_verdict(verdict, call.granted_us // 1000, call.request.fields)
    return call.id, written, own_number(call.request.number, call.account)


def _room(room: int | None) -> str | int:
    return "" if room is None else room


def _ids(calls: Sequence[Call]) -> str:
    return "\n".join(call.id for call in calls)
