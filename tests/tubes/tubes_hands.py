"""What the tests of the tubes hold jobs with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import greenstalk

from service.worker.tubes.held import ReservedJob
from service.worker.tubes.intake import Intake

SOON = 8.0
"""Seconds; nothing here takes one, on a machine that is not busy. Less than an idle wait lasts."""

Producer = greenstalk.Client[bytes]


class Hands:
    """Takes what an intake hands over, and says when there is enough. `then` follows each batch."""

    def __init__(self) -> None:
        self.jobs: list[ReservedJob] = []
        self.batches: list[int] = []
        self.then: Callable[[], None] = lambda: None
        self._changed = asyncio.Event()

    def take(self, jobs: list[ReservedJob]) -> None:
        self.batches.append(len(jobs))
        self.jobs += jobs
        self._changed.set()
        self.then()

    async def have(self, count: int) -> list[ReservedJob]:
        """Wait until `count` jobs have come in all."""

        async def enough() -> None:
            while len(self.jobs) < count:
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(enough(), SOON)
        return self.jobs


async def until(condition: Callable[[], Any]) -> None:
    """Wait until `condition` is true; it may ask a server."""

    async def wait() -> None:
        while not condition():  # noqa: ASYNC110 - what it asks about is in another process
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), SOON)


class Begin:
    """Starts intakes and ends them with the test."""

    def __init__(self) -> None:
        self.intakes: list[Intake] = []

    def __call__(self, *sources: Any, room: int = 10) -> tuple[Intake, Hands]:
        hands = Hands()
        intake = Intake(sources, room, hands.take)
        self.intakes.append(intake)
        intake.start()
        return intake, hands


def reserved(producer: Producer) -> int:
    return count(producer, "current-jobs-reserved")


def ready(producer: Producer) -> int:
    return count(producer, "current-jobs-ready")


def count(producer: Producer, what: str) -> int:
    stats: Any = producer.stats()
    return int(stats[what])
