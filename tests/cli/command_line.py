"""What a verb printed and put."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import greenstalk


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
