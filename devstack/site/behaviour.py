"""How a courier misbehaves: set at run time through `/_control/<slug>`, read back the same way."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from http import HTTPStatus
from zlib import crc32

import msgspec

from devstack.site.shapes.reply import Kind, Reply, encode


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
    senseless    the right answer, but for `numbers`: in their place it says what is no tracking
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
    SENSELESS = "senseless"


class Behaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the courier of one slug behaves from now on.

    Every answer is held back by `latency`, and by up to `jitter` more (seconds); with `held`, until
    a command makes the courier behave in another way. The `fault`
    befalls calls, or token requests where `at` says so: only those for `numbers`, or for one that
    ends in `ending`, if any are named, of these only the first `first`, and of these only the
    `share` (0 to 1), drawn by `seed`. A call for several numbers is for each of them.

    The answer to several leaves out the share `leaves_out` of them, always the same ones, and gives
    the others in another order with `reorders`.
    """

    latency: float = 0.0
    jitter: float = 0.0
    held: bool = False
    fault: Fault | None = None
    status: int = 500
    retry_after: str | None = None
    at: Kind = Kind.CALL
    numbers: tuple[str, ...] = ()
    ending: str = ""
    first: int | None = None
    share: float = 1.0
    seed: int = 0
    leaves_out: float = 0.0
    reorders: bool = False

    def befalls(self, number: str) -> bool:
        """Whether the fault is meant for this number."""
        if not self.numbers and not self.ending:
            return True
        ends_so = bool(self.ending) and number.endswith(self.ending)
        return ends_so or number in self.numbers


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

    def fault(self, kind: Kind, numbers: Sequence[str]) -> Fault | None:
        """Draw what befalls the next request of this kind for these numbers."""
        rule = self.behaviour
        if rule.fault is None or kind is not rule.at:
            return None
        if not any(map(rule.befalls, numbers)):
            return None
        self._met += 1
        if rule.first is not None and self._met > rule.first:
            return None
        return rule.fault if self._random.random() < rule.share else None

    def mixed_up(self, reply: Reply) -> Reply:
        """Leave numbers out of the answer to several, and give the others in another order."""
        rule = self.behaviour
        is_plain = not rule.leaves_out and not rule.reorders
        if is_plain or not reply.riders or reply.status != HTTPStatus.OK:
            return reply
        told = [each for each in json.loads(reply.body).items() if not is_left_out(each[0], rule)]
        if rule.reorders:
            self._random.shuffle(told)
        return replace(reply, body=encode(dict(told)))


def is_left_out(number: str, behaviour: Behaviour) -> bool:
    """Whether the answer to several leaves this number out, whenever it is asked for."""
    return crc32(number.encode()) % 10_000 < behaviour.leaves_out * 10_000
