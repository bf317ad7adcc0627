"""What a verb printed and put, and records of dead requests for it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import greenstalk

NUMBER = "94000001"
BODY = {"type": "requests_flow", "payload": {"slug": "usps", "number": NUMBER, "id": "order-1"}}


@dataclass(frozen=True, slots=True)
class Done:
    """What a verb printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


Run = Callable[..., Done]


def bodies(tube: greenstalk.Client[bytes]) -> list[Any]:
    """Take all jobs that are ready, in the order of the tube."""
    found = []
    while True:
        try:
            job = tube.reserve(timeout=0)
        except greenstalk.TimedOutError:
            return found
        found.append(json.loads(job.body))
        tube.delete(job)


def dead(collections: Any, identity: str, hours: float = 0.0, **members: Any) -> None:
    """A record that is so old."""
    document = {
        "_id": identity,
        "slug": "usps",
        "number": NUMBER,
        "operations": ["order-1"],
        "reason": "courier_down",
        "detail": "503 five times",
        "body": json.dumps(BODY),
        "server": None,
        "job": None,
        "at": dt.datetime.now(dt.UTC) - dt.timedelta(hours=hours),
    }
    collections.dead.insert_one(document | members)
