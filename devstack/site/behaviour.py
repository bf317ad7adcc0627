"""How a courier misbehaves: set at run time through `/_control/<slug>`, read back the same way."""

from __future__ import annotations

import asyncio
import random
from enum import StrEnum

import msgspec

from devstack.site.shapes.reply import Kind


class Fault(StrEnum):
    """What goes wrong with a call.

    ============ =================================================================================
    value        the caller sees
    ============ =================================================================================
    status       `status` with a short JSON body, and Retry-After where `retry_after` is set
    unknown      what this courier answers for a number it does not know
    hang         nothing, until the caller gives up
    drip         the right answer, one byte every 0.2 s
    huge         200 and a body without end
    gzip_bomb    200 and a gzip body without end, a thousand times larger unpacked
    reset        the connection is reset, without an answer
    cut          headers and half of the body, then the connection is reset
    redirect     302 to an address of this site that records who follows
    garbage      200 and an HTML page
    truncated    200 and the first half of the right answer, as if it were whole
    ============ =================================================================================
    """

    STATUS = "status"
    UNKNOWN = "unknown"
    HANG = "hang"
    DRIP = "drip"
    HUGE = "huge"
    GZIP_BOMB = "gzip_bomb"
    RESET = "reset"
    CUT = "cut"
    REDIRECT = "redirect"
    GARBAGE = "garbage"
    TRUNCATED = "truncated"


class Behaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the courier of one slug behaves from now on.

    Every answer is held back by `latency`, and by up to `jitter` more (seconds); with `held`, until
    a command makes the courier behave in another way. The `fault`
    befalls calls, or token requests where `at` says so: only those for `numbers` if any are named,
    of these only the first `first`, and of these only the `share` (0 to 1), drawn by `seed`.
    """

    latency: float = 0.0
    jitter: float = 0.0
    held: bool = False
    fault: Fault | None = None
    status: int = 500
    retry_after: str | None = None
    at: Kind = Kind.CALL
    numbers: tuple[str, ...] = ()
    first: int | None = None
    share: float = 1.0
    seed: int = 0


class Temper:
    """Draws, call by call, what a behaviour has in store."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.replaced = asyncio.Event()
        self._met = 0
        self._random = random.Random(behaviour.seed)

    async def hold_back(self) -> None:
        """Return when the next answer may go out."""
        if self.behaviour.held:
            await self.replaced.wait()
        await asyncio.sleep(self.behaviour.latency + self._random.random() * self.behaviour.jitter)

    def fault(self, kind: Kind, number: str) -> Fault | None:
        """Draw what befalls the next request of this kind and number."""
        rule = self.behaviour
        if rule.fault is None or kind is not rule.at:
            return None
        if rule.numbers and number not in rule.numbers:
            return None
        self._met += 1
        if rule.first is not None and self._met > rule.first:
            return None
        return rule.fault if self._random.random() < rule.share else None
