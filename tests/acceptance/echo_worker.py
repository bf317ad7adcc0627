"""A worker that has a made-up second kind of work besides couriers: it echoes numbers.

`python echo_worker.py` runs one worker process. The file that ECHO_LINES names says which lines
there are, and may change while the worker runs; ECHO_SITE is where the receiver listens.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymongo

from limits.rules import Rules
from service.config.load import load
from service.console.run import log_lines
from service.console.settings import HOME
from service.observe import log
from service.ports import Done, Job, Outcome
from service.worker.wiring.lines import LineWork
from service.worker.wiring.worker import run
from tracking.call import Attempt, Call, DeadLetter, Decision, Repeat, Setback
from tracking.errors import CourierDown, CourierError, TrackingError
from tracking.line import TRACKING, Kind, Line
from tracking.network import network_reason
from tracking.request import Number, Slug, TrackingRequest

ECHO: Kind = TRACKING._replace(
    name="echo",
    form=re.compile("~[a-z0-9]+"),
    merges=False,
    remembers=False,
    takes_over=False,
    operations=False,
    counted=False,
)

CONCURRENT, PER_SECOND = 3, 4
TIMEOUT, LEASE = 2.5, 5.0

BETWEEN = "."
"""Stands between the numbers of a group, in the address that is asked."""


@cache
def echo_rules(together: int) -> Rules:
    """How much a line of echoes allows, where so many numbers go with one call."""
    return Rules(
        concurrent=CONCURRENT,
        per_second=PER_SECOND,
        together=together,
        call_timeout_seconds=TIMEOUT,
        lease_seconds=LEASE,
        kind=ECHO,
    )


class EchoLines:
    """The lines of echoes, as the file says at this moment; implements `service.ports.Lines`."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def known(self) -> Sequence[Line]:
        return list(map(Line, self._now()["known"]))

    def rules_of(self, _: Line) -> Rules:
        return echo_rules(self._now()["together"])

    def mark_of(self, _: Line) -> str:
        return ""

    def is_marked(self, _: Line, mark: str) -> bool:
        return not mark

    def removed(self) -> Sequence[Line]:
        return list(map(Line, self._now()["removed"]))

    def cleared(self, line: Line) -> None:
        """Take no note: the file goes on listing it."""

    def _now(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._file.read_text())
        return told


class Echo:
    """Asks the receiver for all numbers of a group at once; implements `service.ports.Work`."""

    def __init__(self, site: str, uri: str, database: str) -> None:
        self._site = urlsplit(site)
        stores: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(uri)
        self._echoes = stores[database]["echoes"]

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        # A job may come back after its end, of which nobody but this store knows.
        known = await asyncio.to_thread(self._answered, [_name(call) for call in calls])
        numbers = [call.request.number for call in calls if _name(call) not in known]
        try:
            status = b"answered before"
            if numbers:
                status = await self._ask(calls[0], f"/feed/{calls[0].line}/{BETWEEN.join(numbers)}")
        except OSError as broken:
            raise CourierDown(f"no answer ({network_reason(broken)})") from broken
        if b" 5" in status or not status:
            raise CourierDown("it is down")
        return [Done("answered", {}, "", None) for _ in calls]

    async def _ask(self, call: Call, path: str) -> bytes:
        """Send one request, at the instant of the permit; the line with the answer's status."""
        reader, writer = await asyncio.open_connection(self._site.hostname, self._site.port)
        try:
            await call.permit.before_send()
            writer.write(f"GET {path} HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n".encode())
            call.permit.after_send()
            status = await reader.readline()
            await reader.read()
        finally:
            writer.close()
        return status

    async def store(self, call: Call, done: Done, attempt: Attempt) -> None:
        """Count how often a number was answered."""
        assert done.outcome == attempt.outcome
        counted = {"$inc": {"times": 1}, "$set": {"at": attempt.at}}
        await asyncio.to_thread(self._update, _name(call), counted)

    async def store_all(
        self, answers: Sequence[tuple[Call, Done, Attempt]]
    ) -> Sequence[TrackingError | None]:
        """Store one after the other: each counts for itself."""
        for each in answers:
            await self.store(*each)
        return [None] * len(answers)

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Write down why a number was not answered."""
        failed = {"$set": {"error": error.code, "at": attempt.at, "final": final}}
        await asyncio.to_thread(self._update, _name(call), failed)

    def decide(self, error: CourierError, call: Call, now: float) -> Decision:
        assert now >= call.waiting_since
        return Repeat(Setback(error.code, delay=0.2))

    def letter(self, call: Call, error: CourierError) -> DeadLetter:
        at = dt.datetime.now(dt.UTC)
        return DeadLetter(call.id, error.code, error.message, b"{}", at=at)

    def _update(self, name: str, update: dict[str, Any]) -> None:
        self._echoes.update_one({"_id": name}, update, upsert=True)

    def _answered(self, names: list[str]) -> set[str]:
        found = self._echoes.find({"_id": {"$in": names}, "times": {"$gte": 1}})
        return {each["_id"] for each in found}


def _name(call: Call) -> str:
    """Name the document of a call's number."""
    return f"{call.line}:{call.request.number}"


def read_echo(job: Job) -> TrackingRequest | None:
    """Read a job like `{"type": "echo", "line": "~shop", "number": "N001"}`; None of any other."""
    try:
        told = json.loads(job.body)
    except ValueError:
        return None
    if not isinstance(told, dict) or told.get("type") != "echo":
        return None
    number = Number(told["number"])
    return TrackingRequest(slug=Slug(told["line"]), number=number, given=number, id=told.get("id"))


def no_parent(*, works: bool = False) -> None:
    """Give no sign of life: nobody watches."""


def main() -> int:
    """Run the worker until a signal."""
    setting = load(None, os.environ, HOME)
    mongodb = setting.config.mongodb
    log.set_up(setting.config.log.level, log_lines(setting))
    work = Echo(os.environ["ECHO_SITE"], mongodb.uri, mongodb.database)
    lines = EchoLines(Path(os.environ["ECHO_LINES"]))
    return run(setting.config, no_parent, [LineWork(ECHO, lines, work, read_echo)])


if __name__ == "__main__":
    sys.exit(main())
