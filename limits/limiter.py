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
from typing import Any

from limits import keys
from limits.clock import Clock
from limits.epoch import Epoch
from limits.permit import CallPermit, Reports, encode_reports
from limits.pipeline import Pipeline
from limits.rules import RuleBook, Rules, answer_keep_seconds
from limits.server import MEMORY_FIX
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
from tracking.errors import LimitsBroken, LimitsDown, NotStarted, ResultsDown
from tracking.line import Kind, Line, kind_of, line_of
from tracking.operation import State
from tracking.request import TrackingRequest, own_number

AGAIN_SECONDS = 0.1
"""How soon a call in mid-way asks again while Redis is silent."""

LEAVE_SECONDS = 1.0
"""Nothing hangs on the last word of a worker that stops; a Redis that is away must not delay it."""

NONE_KNOWN = -1
"""The revision that is older than all: Redis may have lost its own with its epoch."""

_UNKNOWN = ("epoch", "rules")
"""What a worker must learn before scripts grant it anything."""

SURVEYED_AT_ONCE, INSPECTED_AT_ONCE, SWEPT_AT_ONCE = 2_000, 50, 50
"""More lines at once would hold up the takes behind them: each of these takes Redis 3 ms."""


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


class Limiter:
    """Implements `service.ports.Limits` on Redis. One per process."""

    def __init__(
        self, pipeline: Pipeline, clock: Clock, epoch: Epoch, book: RuleBook, policy: Policy
    ) -> None:
        self.token = secrets.token_urlsafe(6)
        self._pipeline = pipeline
        self._clock = clock
        self._epoch = epoch
        self._book = book
        self._rules_of = book.guarded
        self._policy = policy
        self.max_age, self.remembers_seconds = policy.max_age, answer_keep_seconds(policy.max_age)
        self.ids: Iterator[str] = map(f"{self.token}-{{}}".format, itertools.count(1))
        self._written: dict[Line, tuple[Rules, tuple[str, int], bytes]] = {}
        self._learned = ""
        self._reports = Reports(self._started)
        self._starts: dict[Line, _Starts] = {}

    async def start(self, lines: Sequence[Line] = ()) -> None:
        """Learn epoch and rules; needed once before anything else. Raises StoreError.

        `lines`: all that this worker knows.
        """
        await self._learn("epoch")
        if self._policy.who:
            await self._survey(lines, LIVES_SECONDS)

    async def close(self) -> None:
        """Let what is under way arrive."""
        await self._reports.close()
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
        fresh = keys.write_verdict(answer, answer.observed_ms or 0) if answer else b""
        args = (call_id, keys.write_request(request, job_key, full=full), fresh)
        reply = await self._run("admit", line, args)
        if reply[1] in _UNKNOWN:
            await self._learn(reply[1])
            reply = await self._run("admit", line, args)
        if reply[1] == "held" and is_gone(reply[2]):
            # It cannot take its leave itself.
            await self._pipeline.run("survey", [keys.LINES, keys.WORKERS], ("", reply[2], 0))
            reply = await self._run("admit", line, args)
        match reply[1:]:
            case ["granted" | "dying" as word, grant]:
                call = self._call(line, grant, asked)
                return Granted(call) if word == "granted" else Dying(call)
            case ["parked", why, put, *ask]:
                ask_again = self._clock.monotonic(int(ask[0])) if ask else None
                return Parked(str(why), put == 1, ask_again, at_us=int(reply[0]))
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
        return await self._take_result("take", line, (base, room, int(claims)))

    async def finish(self, call: Call, verdict: Verdict, room: int) -> TakeResult:
        """End the call with all its operations, then take (lua/finish.lua)."""
        written = keys.write_verdict(verdict, call.granted_us // 1000, call.request.fields)
        number = own_number(call.request.number, call.account)
        args, more = (call.id, written, number, self._after(call), room), 1
        while more:
            asked = time.monotonic()
            _, more, *rest = await self._run("finish", call.line, args)
        return await self._read_result(call.line, rest, asked)

    async def retry(self, call: Call, setback: Setback, room: int) -> TakeResult:
        """Give the slot back, repeat the call later, and stop the line if need be (lua/retry.lua).

        The start stays spent, unless the courier was not asked at all.
        """
        unsent = setback.firm and not call.permit.started
        mark = self._policy.mark_of(call.line) if setback.of_credentials else ""
        written = keys.write_setback(setback, mark, unsent=unsent)
        args = (call.id, written, self._after(call), room)
        return await self._take_result("retry", call.line, args)

    async def hand_back(self, call: Call, room: int) -> TakeResult:
        """Hand the requests back to the head of their list (lua/hand_back.lua).

        The start stays spent unless it is certain that nothing was sent.
        """
        args = (call.id, int(not call.permit.started), self._after(call), room)
        return await self._take_result("hand_back", call.line, args)

    async def sweep(self, lines: Sequence[Line], removed: Sequence[Line] = ()) -> Sequence[Swept]:
        """Put right what vanished workers left (lua/survey.lua, lua/inspect.lua, lua/sweep.lua).

        Of lines that were `removed` for good nothing is kept (lua/clear.lua).
        """
        # Asked now and then, too: a proxy may lead an open connection to another server.
        busy, _ = await asyncio.gather(self._survey(lines, LIVES_SECONDS), self._epoch.agree())
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

    def _after(self, call: Call) -> str:
        """The base of what is taken at the end of a call, always the same.

        A call that is given once more, to be recorded as dead, has one death more: who asks still,
        perhaps in this process, and who records it must not be given the same calls.
        """
        digest = hashlib.blake2b(f"{call.id} {call.deaths}".encode(), digest_size=9)
        return f"{self.token}-{digest.hexdigest()}"

    async def _survey(self, lines: Sequence[Line], lives_seconds: float) -> list[Line]:
        who, found = self._policy.who, dict[str, None]()
        if who:
            who.guards = self._book.fits()
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
                _, swept, dying, put, more = await self._run("sweep", line, (who,))
                back, drain = back + int(swept), drain or put == 1
                calls.extend(self._call(line, grant, asked) for grant in dying)
        except Exception as broke:  # noqa: BLE001 - told beside what was put right
            error = broke
        return Swept(line, back, tuple(calls), drain, error)

    async def _clear(self, line: Line) -> Swept:
        try:
            _, cleared = await self._run("clear", line, ())
        except Exception as broke:  # noqa: BLE001 - told beside what was put right
            return Swept(line, error=broke)
        self._written.pop(line, None)
        return Swept(line, cleared=cleared == 1)

    async def _take_result(
        self, script: str, line: Line, args: tuple[str | bytes | int, ...]
    ) -> TakeResult:
        asked = time.monotonic()
        _, *rest = await self._run(script, line, args)
        return await self._read_result(line, rest, asked)

    async def _read_result(self, line: Line, rest: list[Any], asked: float) -> TakeResult:
        grants, why, ask, put = rest
        ask_again = self._clock.monotonic(int(ask)) if int(ask) else None
        if why in _UNKNOWN:
            with contextlib.suppress(ResultsDown):  # the line is asked for again in a second
                await self._learn(why)
                ask_again = ask_again and time.monotonic()
        full = why == "full" and ask_again is not None
        groups = self._groups(line, grants, asked)
        return TakeResult(
            groups, ask_again, put_drain=put == 1, full=full, used_up=why == "used_up"
        )

    def _groups(self, line: Line, grants: list[Any], asked: float) -> tuple[tuple[Call, ...], ...]:
        """Read calls, each with its riders behind it: they are under one permit."""
        groups: list[tuple[Call, ...]] = []
        for grant in grants:
            if keys.rides(grant):
                rules, permit = self._rules_of(line), groups[-1][0].permit
                groups[-1] += (keys.read_call(line, rules, grant, permit),)
            else:
                groups.append((self._call(line, grant, asked),))
        return tuple(groups)

    async def _run(self, script: str, line: Line, args: Sequence[str | bytes | int]) -> list[Any]:
        reports = self._reports.take(line)
        try:
            reply = await self._pipeline.run(
                script, [keys.wait_list(line)], (self._rules(line), encode_reports(reports), *args)
            )
        except LimitsDown:
            self._reports.put_back(line, reports)
            raise
        return list(reply)

    async def _started(self, line: Line) -> None:
        try:
            await self._run("started", line, ())
        except (LimitsBroken, LimitsDown):
            return  # put back by _run, or lost: the lane is held longer, which is safe

    async def _again(self, line: Line, call_id: str, start_id: str) -> int:
        """Wait for a free lane for one further start (lua/again.lua). Raises NotStarted."""
        while True:
            try:
                reply = await self._run("again", line, (start_id, call_id))
            except LimitsDown:
                await asyncio.sleep(AGAIN_SECONDS)  # the call's deadline ends this
                continue
            except LimitsBroken as error:
                raise NotStarted(error.message) from error
            match reply[1:]:
                case ["granted", at]:
                    return int(at)
                case ["wait", ask]:
                    await asyncio.sleep(self._clock.monotonic(int(ask)) - time.monotonic())
                case ["rules"]:
                    try:
                        await self._learn("rules")
                    except (LimitsDown, ResultsDown):
                        await asyncio.sleep(AGAIN_SECONDS)
                case _:
                    raise NotStarted(f"the lease of call {call_id} is over")

    async def _learn(self, unknown: str) -> None:
        """Learn what a script found that this process does not know. Raises StoreError.

        A Redis of another epoch may have lost the revision of the rules: they are learned, too.
        """
        if unknown == "epoch":
            await self._epoch.agree()
        epoch = self._epoch.name
        await self._book.learn()
        self._learned = epoch

    def _call(self, line: Line, grant: list[Any], asked: float) -> Call:
        rules = self._written[line][0]
        starts = self._starts.get(line)
        if starts is None:
            starts = self._starts[line] = _Starts(line, self._again, self._reports, self._book)
        deadline = asked + rules.call_timeout_seconds
        permit = CallPermit(grant[0], int(grant[1]), deadline, self._clock, starts)
        return keys.read_call(line, rules, grant, permit)

    def _rules(self, line: Line) -> bytes:
        rules, epoch = self._rules_of(line), self._epoch.name
        revision = self._book.revision if self._learned == epoch else NONE_KNOWN
        written = self._written.get(line)
        if written is None or written[0] is not rules or written[1] != (epoch, revision):
            common: dict[str, object] = {
                "epoch": epoch,
                "revision": revision,
                "token": self.token,
                "deaths": self._policy.deaths,
                "max_age_ms": round(self._policy.max_age * 1000),
            }
            written = self._written[line] = (
                rules,
                (epoch, revision),
                keys.write_rules(rules, common),
            )
        return written[2]


@dataclass(frozen=True, slots=True)
class _Starts:
    """The starts of one line (see limits.permit.Starts)."""

    line: Line
    ask: Callable[[Line, str, str], Awaitable[int]]
    reports: Reports
    book: RuleBook

    def sent(self, start_id: str, send_us: int) -> None:
        self.reports.add(self.line, start_id, send_us)

    def answered(self, seconds: float) -> None:
        self.book.note(self.line, seconds)

    async def again(self, call_id: str, start_id: str) -> int:
        return await self.ask(self.line, call_id, start_id)


def _parts(lines: Sequence[Line], most: int) -> Iterator[Sequence[Line]]:
    for begin in range(0, len(lines), most):
        yield lines[begin : begin + most]
