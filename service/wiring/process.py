"""What every process does that a parent watches: it gives signs of life, and hears signals."""

from __future__ import annotations

import asyncio
import signal
from typing import Literal, Protocol

from service.observe.background import Background

UNFIT = 1
"""The exit code of a process whose background tasks keep ending."""

BEATS = 6
"""So many in the time after which a silent process is killed: some may be late."""

BEAT_MOST_SECONDS = 1.0
"""What was counted goes with a beat, and should not be old when it is asked for."""


class Beat(Protocol):
    """A sign of life for the parent; `works`: this process is connected and does its work."""

    def __call__(self, *, works: bool = False) -> None:
        """Give the sign."""


async def keep_beating(beat: Beat, silence: float) -> None:
    """Beat until cancelled; `silence`: seconds after which the parent kills a silent process."""
    while True:
        beat()
        await asyncio.sleep(min(silence / BEATS, BEAT_MOST_SECONDS))


async def asked_or_unfit(stopping: asyncio.Task[Literal[True]], background: Background) -> None:
    """Return when a signal asks for a stop, or when a background task keeps ending."""
    unfit = asyncio.create_task(background.unfit.wait())
    await asyncio.wait({stopping, unfit}, return_when=asyncio.FIRST_COMPLETED)
    unfit.cancel()


def on_signals() -> asyncio.Event:
    """A signal asks for a stop in good order. Repeated ones change nothing here.

    A service manager signals the whole group, and the parent passes its own on: that is one wish
    told twice. "At once" is the parent's to decide, which kills.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    return stopped
