"""Measured sends on their way back to Redis.

They travel with the next script of their line. When none is due within the time in which a report
matters, a script of their own carries them: a lane without a report is held up to a second longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from tracking.line import Line
from tracking.network import stopped

OWN_SCRIPT_AFTER_SECONDS = 0.3
"""A lane is asked for again about 0.85 s after its send; less than half leaves room to be slow."""

Send = Callable[[Line], Awaitable[None]]
"""Runs `started` for one line, which picks the reports up by `take`."""

_encode = msgspec.json.Encoder().encode


class Reports:
    """What was sent and when, per line, until a script has carried it to Redis."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: dict[Line, list[str | int]] = {}
        self._since: dict[Line, float] = {}
        self._carrying: asyncio.Task[None] | None = None

    def add(self, line: Line, start_id: str, send_us: int) -> None:
        """Note one send, in µs of Redis' clock."""
        self._waiting.setdefault(line, []).extend((start_id, send_us))
        self._since.setdefault(line, time.monotonic())
        if self._carrying is None:
            self._carrying = asyncio.create_task(self._carry())

    def take(self, line: Line) -> list[str | int]:
        """Hand over what waits for a script of `line`: [start id, µs, …]."""
        self._since.pop(line, None)
        return self._waiting.pop(line, [])

    def put_back(self, line: Line, reports: list[str | int]) -> None:
        """The script did not arrive: the reports wait for the next one."""
        if reports:
            self._waiting.setdefault(line, [])[:0] = reports
            self._since.setdefault(line, time.monotonic())

    async def _carry(self) -> None:
        try:
            while self._since:
                oldest = min(self._since.values())
                await asyncio.sleep(max(0.0, oldest + OWN_SCRIPT_AFTER_SECONDS - time.monotonic()))
                due = time.monotonic() - OWN_SCRIPT_AFTER_SECONDS
                lines = [line for line, since in self._since.items() if since <= due]
                await asyncio.gather(*(self._send(line) for line in lines))
        finally:
            self._carrying = None

    async def close(self) -> None:
        """Stop carrying; what is left only costs its lanes some time."""
        if self._carrying is not None:
            await stopped(self._carrying)


def encode(reports: list[str | int]) -> bytes:
    """Write reports as lua/lib/context.lua reads them."""
    return _encode(reports)
