"""What people do by hand: push numbers and take them out, delete lists, cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from limits.admin.cancel import Canceller
from limits.connect import open_redis
from limits.rules import Rules
from limits.server import RedisAddress
from service.worker.flow.tasks import keep_trying
from simulated.commands import execute
from simulated.exchange import Surroundings
from simulated.keyspace import Items, Keyspace
from simulated.loop import Process
from simulated.plan import Plan
from simulated.producer import Asked
from tracking.request import Number, Slug


@dataclass(slots=True)
class Operator:
    """`pushed`: the numbers of each courier, with the moment; `cancelled`: what was, or may be."""

    plan: Plan
    around: Surroundings
    space: Keyspace
    asked: Sequence[Asked]
    rules_of: Callable[[Slug], Rules]
    pushed: dict[str, dict[str, float]] = field(default_factory=dict)
    cancelled: set[tuple[str, str]] = field(default_factory=set)

    def push(self) -> None:
        number = f"HAND{sum(map(len, self.pushed.values())):04}"
        slug = self._to_a_list("RPUSH", number)
        self.pushed.setdefault(slug, {})[number] = self.around.loop.now

    def delete(self) -> None:
        self._to_a_list("DEL")

    def take_out(self) -> None:
        draw = self.around.chance.draw
        key = f"wait_list:{draw.choice(self.plan.slugs).slug}"
        self.space.tick()
        listed = self.space.of(Items, key)
        if listed and (numbers := [number for number in listed if number]):
            listed.remove(draw.choice(numbers))
            self.space.tidy(key)

    def cancel(self) -> None:
        meant = [each for each in self.asked if not each.malformed]
        if not meant:
            return
        one = self.around.chance.draw.choice(meant)
        by_id = (one.id or "") if self.around.chance.draw.random() < 0.5 else ""
        self.cancelled.add((one.slug, one.number))
        person = Process("operator")
        work = self._cancel(Slug(one.slug), Number(one.number), by_id)
        self.around.loop.create_task(work, context=person.context)

    async def _cancel(self, slug: Slug, number: Number, operation: str) -> None:
        redis = open_redis(RedisAddress())
        canceller = Canceller(redis, self.rules_of)
        ended = await keep_trying(lambda: canceller.cancel(slug, number, operation))
        self.around.trace.repair("cancelled by hand", ended.operations)
        await redis.aclose()

    def _to_a_list(self, command: str, *args: str) -> str:
        slug = self.around.chance.draw.choice(self.plan.slugs).slug
        self.space.tick()
        execute(self.space, command, [f"wait_list:{slug}", *args])
        return slug
