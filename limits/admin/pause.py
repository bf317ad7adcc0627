"""Pauses of lines: set and ended for people, and the credentials that a pause is about."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.admin.line_scripts import LineScripts
from limits.failure import redis_asked
from limits.pipeline import confirmations, done
from limits.rules import RulesOf
from limits.server import HOLD
from tracking.line import Line


@dataclass(frozen=True, slots=True)
class Resumed:
    """The pauses that ended: `by_hand`, a person had paused the line; `why`, its calls failed."""

    by_hand: bool
    why: str

    def __bool__(self) -> bool:
        """Whether anything did."""
        return self.by_hand or bool(self.why)


class Pauses:
    """Pauses and resumes lines. Every method raises LimitsDown, and may be repeated then."""

    def __init__(self, redis: Redis, rules_of: RulesOf) -> None:
        self._redis = redis
        self._scripts = LineScripts(redis, rules_of)

    async def pause(self, line: Line, seconds: float | None, why: str = "") -> None:
        """Let nobody call, for so many seconds or until `resume`. Calls that run are not cut off.

        A pause by hand that is there already is replaced.
        """
        told = json.dumps({"why": why, "at": round(time.time())})
        ms = None if seconds is None else round(seconds * 1000)
        with redis_asked():
            pipeline = self._redis.pipeline(transaction=False)
            args = (keys.of_line(line).calls_held, told, *(() if ms is None else ("PX", str(ms))))
            pipeline.eval(HOLD, 1, *args)
            await done(pipeline, confirmed=await confirmations(self._redis))

    async def resume(self, line: Line, *, by_hand: bool = True) -> Resumed:
        """Let a line go on within seconds, whatever stopped it (lua/resume.lua).

        `by_hand` False: not if somebody has paused it by hand.
        """
        _, held, why = await self._scripts.run("resume", line, int(by_hand))
        return Resumed(by_hand=held == 1, why=str(why))

    async def revise(self, line: Line, revision: int) -> None:
        """Let no call start by older rules than these (lua/revise.lua)."""
        await self._scripts.run("revise", line, revision)

    async def marks(self, lines: Sequence[Line]) -> dict[Line, str]:
        """Find the lines that stand because credentials were refused, with the mark of those."""
        names = map(keys.calls_brake, lines)
        with redis_asked():
            texts = await self._redis.mget(names) if lines else []
        # Of a thousand lines few have a brake.
        found = {line: brake_in(text) for line, text in zip(lines, texts, strict=True) if text}
        return {line: state["mark"] for line, state in found.items() if "mark" in state}


def brake_in(text: str | bytes | None) -> dict[str, Any]:
    """Read calls_brake; one that is no JSON object tells nothing."""
    try:
        state = json.loads(text or "{}")
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}
