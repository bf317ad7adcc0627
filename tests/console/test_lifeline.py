"""When a process gives its parent a sign of life, and how soon what it counted goes with it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pytest

from service.observe.counts import Counts
from service.worker.supervisor import lifeline
from service.worker.supervisor.lifeline import Lifeline
from service.worker.supervisor.parent import PIPE_BYTES
from service.worker.wiring.process import BEATS, keep_beating

KEY = ("tracker_repairs_total", "drain")


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The parent's end and the child's; the end of it stops nobody."""
    monkeypatch.setattr(Lifeline, "_await_end", lambda _: None)
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


async def test_what_is_counted_at_rest_makes_a_beat_of_its_own(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifeline, "NEWS_SECONDS", 0.02)
    ours, theirs = pipe
    counts = Counts()
    Lifeline(theirs, 1.0, counts)

    for _ in range(2):
        counts.add(KEY)
        counts.add(KEY)
        await asyncio.sleep(0.2)
        assert os.read(ours, PIPE_BYTES) == b".\ntracker_repairs_total\tdrain\t2\n"


async def test_what_found_no_room_in_the_pipe_goes_with_a_later_beat(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifeline, "NEWS_SECONDS", 0.02)
    ours, theirs = pipe
    counts = Counts()
    tie = Lifeline(theirs, 1.0, counts)
    os.write(theirs, b"x" * PIPE_BYTES)
    counts.add(KEY)
    await asyncio.sleep(0.2)

    read = os.read(ours, PIPE_BYTES)
    tie.beat()

    assert read == b"x" * PIPE_BYTES
    assert os.read(ours, PIPE_BYTES) == b".\ntracker_repairs_total\tdrain\t1\n"


async def test_a_process_at_rest_beats_as_often_as_its_parent_must_hear() -> None:
    silence, beats = 0.6, list[float]()

    def beat(**_: bool) -> None:
        beats.append(time.monotonic())

    beating = asyncio.create_task(keep_beating(beat, silence))
    await asyncio.sleep(0.9 * silence)
    beating.cancel()

    assert 2 <= len(beats) <= BEATS
