"""Who may call, who waits: every step is one script, decided on Redis' clock.

    in flight  at most `Rules.concurrent` calls of a line, over all workers     (20)
    started    at most `Rules.per_second` in any second [t, t + 1 s)            (2)

Safety    holds for any number of workers, because Redis decides and because a lane is free again
          only a second and the guard after the *measured* send.
Liveness  a vanished worker's slot comes back when its lease ends, `Rules.lease_seconds` after the
          grant; its requests when the sweeper finds them without a lease.

Everything here may be repeated: scripts are idempotent by their ids. Who admits or takes draws one
of `ids` and keeps it until the answer has come; the end of a call has its id from the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from limits import keys
from limits.clock import Clock
from limits.epoch import Epoch
from limits.pipeline import Pipeline, Value
from limits.rules import RuleBook, answer_keep_seconds
from limits.server import MEMORY_FIX
from limits.steps import UNKNOWN, Steps
from limits.workers import LIVES_SECONDS, WorkerInfo, is_gone, registration
from tracking.call import (
    Asked,
    Call,
    Dying,
    Ended,
    Granted,
    Held,
    NoMemory,
    Parked,
    Setback,
    Swept,
    TakeResult,
    Verdict,
)
from tracking.errors import LimitsBroken, LimitsDown, ResultsDown
from tracking.line import Kind, Line, kind_of, line_of
from tracking.operation import State
from tracking.request import TrackingRequest, own_number

T = TypeVar("T")

LEAVE_SECONDS = 1.0
"""Nothing hangs on the last word of a worker that stops; a Redis that is away must not delay it."""

SURVEYED_AT_ONCE, INSPECTED_AT_ONCE, SWEPT_AT_ONCE = 2_000, 50, 50
"""More lines at once would hold up the takes behind them: each of these takes Redis 3 ms."""

ENDED_AT_ONCE = 50
"""Most numbers of a group that end in one step: Redis hears nobody else for 3 ms."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is the same for all lines. `max_age` in seconds; `deaths` before a request is dead.

    `who`: this process, for people; None tells nobody of it. `mark_of`: of the credentials by which
    a line is called, so that others end a pause for wrong ones. `kind_of`: of a line, None where
    this process works on none of that kind: there it sweeps nothing.
    """

    max_age: float = 30.0
    deaths: int = 10
    who: WorkerInfo | None = None
    mark_of: Callable[[Line], str] = lambda _: ""
    kind_of: Callable[[Line], Kind | None] = kind_of


class CallEnds:
    """The ends of calls: each leaves its slot, and the last of a group takes for the next in line.

    `token` is the process's name in Redis.
    """

    def __init__(self, steps: Steps, token: str, mark_of: Callable[[Line], str]) -> None:
        self.token = token
        self._steps = steps
        self._mark_of = mark_of

    async def finish(self, ends: Sequence[tuple[Call, Verdict]], room: int | None) -> TakeResult:
        """End calls of a group with all their operations, then take (lua/finish.lua).

        They go out together, in few steps, and the last one takes: nobody waits for as many round
        trips.
        """
        line, base = ends[0][0].line, self._after(ends[-1][0])
        parts = [(part, part[-1] is ends[-1]) for part in _parts(ends, ENDED_AT_ONCE)]
        rest, is_late = list[Any](), False
        while parts:
            asked = time.monotonic()
            runs = [
                self._end(line, part, base, _room(room) if takes else "") for part, takes in parts
            ]
            # Mostly there is one, which needs no task of its own.
            replies = [await runs[0]] if len(runs) == 1 else await asyncio.gather(*runs)
            again = list[tuple[Sequence[tuple[Call, Verdict]], bool]]()
            for (part, takes), (_, left, *told) in zip(parts, replies, strict=True):
                # Many waited behind one of these numbers, so the slot is free only now.
                is_late = is_late or (not takes and told[1] == "freed")
                rest = told if takes else rest
                if left:
                    again.append(([end for end in part if end[0].id in left], takes))
            parts = again
        if room is not None and is_late:
            return await self._steps.take_result("take", line, (base, room, 0))
        return await self._steps.read_result(line, rest, asked)

    def _end(
        self, line: Line, ends: Sequence[tuple[Call, Verdict]], base: str, room: str | int
    ) -> Awaitable[list[Any]]:
        first, *others = map(_written, ends)
        args: list[Value] = [*first, base, room]
        for other in others:
            args += other
        # Each costs Redis half of what another step does.
        return self._steps.run("finish", line, args, weight=(len(ends) + 1) // 2)

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

        This process may be given a call once more, to be recorded as dead: by its job that came
        again, and by the sweep. Who asks still and who records it must not be given the same calls.
        """
        digest = hashlib.blake2b(f"{call.id} {call.nth}".encode(), digest_size=9)
        return f"{self.token}-{digest.hexdigest()}"


class Limiter(CallEnds):
    """Implements `service.ports.Limits` on Redis. One per process."""

    def __init__(
        self, pipeline: Pipeline, clock: Clock, epoch: Epoch, book: RuleBook, policy: Policy
    ) -> None:
        token = secrets.token_urlsafe(6)
        common: dict[str, object] = {
            "token": token,
            "deaths": policy.deaths,
            "max_age_ms": round(policy.max_age * 1000),
        }
        super().__init__(Steps(pipeline, clock, epoch, book, common), token, policy.mark_of)
        self._pipeline = pipeline
        self._clock = clock
        self._epoch = epoch
        self._book = book
        self._rules_of = book.guarded
        self._policy = policy
        self.max_age, self.remembers_seconds = policy.max_age, answer_keep_seconds(policy.max_age)
        self.ids: Iterator[str] = map(f"{self.token}-{{}}".format, itertools.count(1))

    async def start(self, lines: Sequence[Line] = ()) -> None:
        """Learn epoch and rules; needed once before anything else. Raises StoreError.

        `lines`: all that this worker knows.
        """
        await self._steps.learn("epoch")
        if self._policy.who:
            await self._survey(lines, LIVES_SECONDS)

    async def close(self) -> None:
        """Let what is under way arrive."""
        await self._steps.close()
        if self._policy.who:
            with contextlib.suppress(LimitsBroken, LimitsDown, TimeoutError):
                await asyncio.wait_for(self._survey((), 0.0), LEAVE_SECONDS)
        await self._pipeline.close()

    async def admit(
        self,
        call_id: str,
        request: TrackingRequest,
        job_key: str,
        answer: Verdict | None = None,
        *,
        full: bool = False,
    ) -> Asked:
        """Ask for a call (lua/admit.lua). `answer`: stored, and fresh enough; `full`: no room."""
        line, asked = line_of(request), time.monotonic()
        fresh = keys.write_answer(answer) if answer else b""
        args = (call_id, keys.write_request(request, job_key, full=full), fresh)
        reply = await self._steps.run("admit", line, args)
        if reply[1] in UNKNOWN:
            await self._steps.learn(reply[1])
            reply = await self._steps.run("admit", line, args)
        if reply[1] == "held" and is_gone(reply[2]):
            # It cannot take its leave itself.
            await self._pipeline.run("survey", [keys.LINES, keys.WORKERS], ("", reply[2], 0))
            reply = await self._steps.run("admit", line, args)
        match reply[1:]:
            case ["parked", why, put, *ask]:
                ask_again = self._clock.monotonic(int(ask[0])) if ask else None
                return Parked(str(why), put == 1, ask_again, at_us=int(reply[0]))
            case ["granted" | "dying" as word, grant]:
                call = self._steps.call(line, grant, asked)
                return Granted(call) if word == "granted" else Dying(call)
            case ["ended", state, *why]:
                return Ended(State(state), *why)
            case ["held", _]:
                return Held()
            case ["no_memory"]:
                return NoMemory(MEMORY_FIX)
        if refused := keys.read_refusal(reply[1:]):
            return refused
        raise LimitsDown(f"Redis changes its epoch faster than we can follow: {reply!r}")

    async def take(self, base: str, line: Line, room: int, *, claims: bool = False) -> TakeResult:
        """Take up to `room` waiting requests of `line` (lua/take.lua)."""
        return await self._steps.take_result("take", line, (base, room, int(claims)))

    async def sweep(self, lines: Sequence[Line], removed: Sequence[Line] = ()) -> Sequence[Swept]:
        """Put right what vanished workers left (lua/survey.lua, lua/inspect.lua, lua/sweep.lua).

        Of lines that were `removed` for good nothing is kept (lua/clear.lua).
        """
        # Asked now and then, too: a proxy may lead an open connection to another server.
        busy, _ = await asyncio.gather(self._survey(lines, LIVES_SECONDS), self._epoch.agree())
        if self._epoch.revision > self._book.revision:
            await self._learn_rules(lines)
        known = frozenset(lines)
        unsound: list[Line] = []
        for part in _parts(busy, INSPECTED_AT_ONCE):
            told = [n for line in part for n in (*self._rules_of(line).reach_us, line in known)]
            lists = [keys.wait_list(line) for line in part]
            unsound += await self._pipeline.run("inspect", lists, [*map(int, told)])
        swept: list[Swept] = []
        for part in _parts(unsound, SWEPT_AT_ONCE):
            swept += await asyncio.gather(*(self._sweep(line, line in known) for line in part))
        for part in _parts(removed, SWEPT_AT_ONCE):
            swept += await asyncio.gather(*map(self._clear, part))
        return swept

    async def _learn_rules(self, lines: Sequence[Line]) -> None:
        """Go by newer rules without being refused first, and tell so: somebody waits for that."""
        with contextlib.suppress(ResultsDown):  # the next sweep comes soon enough
            await self._steps.learn("rules")
            await self._survey(lines, LIVES_SECONDS)

    async def _survey(self, lines: Sequence[Line], lives_seconds: float) -> list[Line]:
        who, found = self._policy.who, dict[str, None]()
        if who:
            who.guards, who.revision = self._book.fits(), self._book.revision
        told = (registration(who, self.token), round(lives_seconds * 1000)) if who else ()
        for part in _parts(lines or [Line("")], SURVEYED_AT_ONCE):
            asked = [keys.LINES, keys.WORKERS, keys.COURIERS], (" ".join(part), *told)
            found |= dict.fromkeys(await self._pipeline.run("survey", *asked))
        return [line for line in map(Line, found) if self._policy.kind_of(line)]

    async def _sweep(self, line: Line, known: bool) -> Swept:  # noqa: FBT001 - asked once
        back, drain, more, calls, error = 0, False, 1, list[Call](), None
        try:
            while more:
                asked, who = time.monotonic(), next(self.ids) if known else ""
                _, swept, dying, put, more = await self._steps.run("sweep", line, (who,))
                back, drain = back + int(swept), drain or put == 1
                calls.extend(self._steps.call(line, grant, asked) for grant in dying)
        except Exception as broke:  # noqa: BLE001 - told beside what was put right
            error = broke
        return Swept(line, back, tuple(calls), drain, error)

    async def _clear(self, line: Line) -> Swept:
        try:
            _, cleared = await self._steps.run("clear", line, ())
        except Exception as broke:  # noqa: BLE001 - told beside what was put right
            return Swept(line, error=broke)
        self._steps.forget(line)
        return Swept(line, cleared=cleared == 1)


def _written(end: tuple[Call, Verdict]) -> tuple[str, bytes, str]:
    """Write the end of a call as lua/finish.lua reads it: its id, its verdict, its number."""
    call, verdict = end
    said = keys.write_verdict(verdict, call.granted_us // 1000, call.request.fields)
    return call.id, said, own_number(call.request.number, call.account)


def _room(room: int | None) -> str | int:
    return "" if room is None else room


def _ids(calls: Sequence[Call]) -> str:
    return "\n".join(call.id for call in calls)


def _parts(whole: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for begin in range(0, len(whole), most):
        yield whole[begin : begin + most]
