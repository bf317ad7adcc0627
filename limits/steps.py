"""Steps of lines on their way to the scripts and back, as one process sends and reads them.

With each goes what the process knows: the epoch, the rules of the line, and sends that were
measured since the last step. What it does not know the answers say, and it learns that.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from limits import keys
from limits.clock import Clock
from limits.epoch import Epoch
from limits.permit import CallPermit, Reports, Starts, encode_reports
from limits.pipeline import Pipeline
from limits.rules import RuleBook, Rules
from tracking.call import Call, TakeResult
from tracking.errors import LimitsBroken, LimitsDown, NotStarted, ResultsDown
from tracking.line import Line
from tracking.request import Account

AGAIN_SECONDS = 0.1
"""How soon a call in mid-way asks again while Redis is silent."""

NONE_KNOWN = -1
"""The revision that is older than all: Redis may have lost its own with its epoch."""

UNKNOWN = ("epoch", "rules")
"""What a worker must learn before scripts grant it anything."""


async def ration(pipeline: Pipeline, quotas: Mapping[Account, int], revision: int) -> None:
    """Have Redis go by these quotas of accounts (lua/ration.lua). Raises LimitsDown."""
    named = [each for pair in quotas.items() for each in pair]
    await pipeline.run("ration", [keys.ACCOUNT_QUOTAS, keys.REVISION], (revision, *named))


class Steps:
    """One per process. `common`: what is the same in the rules of all lines."""

    def __init__(
        self,
        pipeline: Pipeline,
        clock: Clock,
        epoch: Epoch,
        book: RuleBook,
        common: Mapping[str, object],
    ) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._epoch = epoch
        self._book = book
        self._rules_of = book.guarded
        self._common = common
        self._written: dict[Line, tuple[Rules, tuple[str, int, bool], bytes]] = {}
        self._learned = ""
        self._rationed = False
        self._reports = Reports(self._started)
        self._starts: dict[Line, Starts] = {}
        self._nth = itertools.count(1)

    async def close(self) -> None:
        """Carry no more reports."""
        await self._reports.close()

    def forget(self, line: Line) -> None:
        """Drop what is known of a line that was removed for good."""
        self._written.pop(line, None)

    async def take_result(
        self, script: str, line: Line, args: tuple[str | bytes | int, ...]
    ) -> TakeResult:
        """Run a step that may grant calls."""
        asked = time.monotonic()
        _, *rest = await self.run(script, line, args)
        return await self.read_result(line, rest, asked)

    async def read_result(self, line: Line, rest: list[Any], asked: float) -> TakeResult:
        """Read what take.lua answers behind the time, to who `asked` then."""
        grants, why, ask, put = rest
        ask_again = self._clock.monotonic(int(ask)) if int(ask) else None
        if why in UNKNOWN:
            with contextlib.suppress(ResultsDown):  # the line is asked for again in a second
                await self.learn(why)
                ask_again = ask_again and time.monotonic()
        full = why == "full" and ask_again is not None
        groups = self._groups(line, grants, asked)
        return TakeResult(groups, ask_again, put == 1, full, why == "used_up")

    def _groups(self, line: Line, grants: list[Any], asked: float) -> tuple[tuple[Call, ...], ...]:
        """Read calls, each with its riders behind it: they are under one permit."""
        groups: list[tuple[Call, ...]] = []
        for grant in grants:
            if keys.rides(grant):
                rules, permit = self._rules_of(line), groups[-1][0].permit
                groups[-1] += (keys.read_call(line, rules, grant, permit, next(self._nth)),)
            else:
                groups.append((self.call(line, grant, asked),))
        return tuple(groups)

    async def run(
        self, script: str, line: Line, args: Sequence[str | bytes | int], weight: int = 1
    ) -> list[Any]:
        """Run one step. LimitsDown: it may have run, so repeat it as it is."""
        reports, of = self._reports.take(line), [keys.wait_list(line)]
        told = (self._rules(line), encode_reports(reports), *args)
        try:
            reply = await self._pipeline.run(script, of, told, weight)
        except LimitsDown:
            self._reports.put_back(line, reports)
            raise
        return list(reply)

    async def _started(self, line: Line) -> None:
        try:
            await self.run("started", line, ())
        except (LimitsBroken, LimitsDown):
            return  # put back by _run, or lost: the lane is held longer, which is safe

    async def _again(self, line: Line, call_id: str, start_id: str) -> int:
        """Wait for a free lane for one further start (lua/again.lua). Raises NotStarted."""
        while True:
            try:
                reply = await self.run("again", line, (start_id, call_id))
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
                        await self.learn("rules")
                    except (LimitsDown, ResultsDown):
                        await asyncio.sleep(AGAIN_SECONDS)
                case _:
                    raise NotStarted(f"the lease of call {call_id} is over")

    async def learn(self, unknown: str) -> None:
        """Learn what a script found that this process does not know. Raises StoreError.

        A Redis of another epoch may have lost the revision of the rules: they are learned, too.
        """
        if unknown == "epoch":
            await self._epoch.agree()
        epoch = self._epoch.name
        await self._book.learn()
        if (quotas := self._book.quotas) or self._rationed:
            await ration(self._pipeline, quotas, self._book.revision)
        self._rationed = bool(quotas)
        self._learned = epoch

    def call(self, line: Line, grant: list[Any], asked: float) -> Call:
        """Read a grant of lua/lib/flight.lua, with a permit of its own."""
        rules = self._written[line][0]
        starts = self._starts.get(line)
        if starts is None:
            starts = self._starts[line] = Starts(line, self._again, self._reports, self._book)
        deadline = asked + rules.call_timeout_seconds
        permit = CallPermit(grant[0], int(grant[1]), deadline, self._clock, starts)
        return keys.read_call(line, rules, grant, permit, next(self._nth))

    def _rules(self, line: Line) -> bytes:
        rules, epoch = self._rules_of(line), self._epoch.name
        revision = self._book.revision if self._learned == epoch else NONE_KNOWN
        written, known_by = self._written.get(line), (epoch, revision, self._rationed)
        if written is None or written[0] is not rules or written[1] != known_by:
            known = {"epoch": epoch, "revision": revision, **self._common}
            known |= self._book.rationed(line)
            written = (rules, known_by, keys.write_rules(rules, known))
            self._written[line] = written
        return written[2]
