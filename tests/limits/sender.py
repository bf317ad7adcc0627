"""How the steps of a random walk reach Redis: alone or together, and again after a lost reply."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine
from limits_bench import KEYS
from redis import Redis

from limits.keys import ACCOUNT_QUOTAS, write_rules
from limits.rules import Rules
from limits.script_file import BATCH, load

RULES = Rules(concurrent=3, per_second=2, max_waiting=6, per_hour=1000, per_day=1_000_000)
EPOCH = "walk"
AT_ONCE = "AT_ONCE = 100"
INLINE = "INLINE = 16"
SETTLES_NOTHING = {"admit", "cancel", "forget"}
SOONEST_FLAG_SECONDS = 0.9

Reply = list[Any]


@dataclass(frozen=True)
class Step:
    """One operation on its way to a script; `then` hears its reply."""

    name: str
    args: tuple[Any, ...]
    then: Callable[[Reply], None]


def written(steps: Sequence[Step], worker: str, rules: Rules = RULES) -> list[Any]:
    """Keys and arguments of one script of all these steps (lua/lib/batch.lua)."""
    widths = {step.name: 2 + len(step.args) for step in steps}
    kinds = " ".join(f"{name} {width}" for name, width in widths.items())
    same: dict[str, object] = {"epoch": EPOCH, "token": worker, "deaths": 2, "revision": 0}
    same |= {"max_age_ms": 30_000, "rationed": True}
    which = list(widths)
    values = [each for step in steps for each in (which.index(step.name), "[]", *step.args)]
    return [1, KEYS.wait_list, 0, 1, kinds, write_rules(rules, same), 1, *values]


class Sender(RuleBasedStateMachine):
    """One courier's Redis, and the steps on their way to it."""

    def __init__(self, url: str, at_once: int, together: int) -> None:
        super().__init__()
        self.text = load()[BATCH].text
        # The record holds less than one step looks at, as it does in earnest.
        for name, most in ((AT_ONCE, at_once), (INLINE, min(16, at_once // 2))):
            assert name in self.text
            self.text = self.text.replace(name, f"{name.partition(' = ')[0]} = {most}")
        self.redis = Redis.from_url(url, decode_responses=True)
        self.redis.flushdb()
        self.redis.set(KEYS.epoch, f"{EPOCH} 0")
        self.redis.hset(ACCOUNT_QUOTAS, "!", 0)
        self.rules = RULES
        self.leaps: list[tuple[str, str]] = []
        self.together = together
        self.queue: list[Step] = []
        self.worker = "w1"
        self.sent = 1
        self.flag_until = 0.0

    def hear(self, name: str, reply: Reply, worker: str) -> None:
        """Every reply, before `then` has it."""
        raise NotImplementedError

    def run(self, name: str, *args: Any, sent: int = 1) -> Reply:
        """Have one step done now, and read its reply."""
        self.flush()
        heard: list[Reply] = []
        self.ask(Step(name, args, heard.append), sent=sent)
        self.flush()
        return heard[0]

    def ask(self, *steps: Step, sent: int = 1, worker: str = "w1") -> None:
        """Have steps done in one script, which others may join."""
        if worker != self.worker:
            self.flush()
        self.worker = worker
        self.queue += steps
        self.sent = max(self.sent, sent)
        if len(self.queue) >= self.together:
            self.flush()

    def flush(self) -> None:
        """Send what waits."""
        if not self.queue:
            return
        self.leap()
        steps, sent, worker = self.queue, self.sent, self.worker
        self.queue, self.sent, self.worker = [], 1, "w1"
        flag_until = self._flag_until()
        for _ in range(sent):
            replies = self.redis.eval(self.text, *written(steps, worker, self.rules))
        for step, reply in zip(steps, replies, strict=True):
            self.hear(step.name, reply, worker)
            more_to_come = (step.name == "finish" and reply[1]) or step.args[-1] == ""
            if step.name not in SETTLES_NOTHING and not more_to_come:
                self.flag_until = flag_until
        for step, reply in zip(steps, replies, strict=True):
            step.then(reply)

    def leap(self) -> None:
        """Let the time go by that is to have gone by before the next script."""
        for key, member in self.leaps:
            self.redis.zadd(key, {member: 1}, xx=True)
        self.leaps.clear()

    def answer_together(self, most: int) -> None:
        """From now on the courier answers for so many numbers in one call."""
        self.flush()
        self.rules = replace(RULES, together=most)

    def _flag_until(self) -> float:
        """Until when, by time.monotonic(), who waits has a flag, once a script settles the line.

        It raises one where there is none; another one it leaves as it is, for an unchanged line.
        """
        began = time.monotonic()
        left_ms = self.redis.pttl(KEYS.wait_list_activated)
        soonest = SOONEST_FLAG_SECONDS
        return began + (soonest if left_ms < 0 else min(soonest, (left_ms - 1) / 1000))
