"""The destinations of services: what arrives, and what they answer. They judge by their own clock.

======= ============================================================================================
promise is broken where
======= ============================================================================================
H2      more attempts are at a destination at once than its service allows, two of them of one
        delivery, or one of an ordered service ahead of an older one that is open
H3      more than it allows arrive in a second
H4      a delivery comes again of which a success is stored; or of which the last attempt is not
        stored, though the process that made it lives and its call is not over
======= ============================================================================================
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from service.worker.deliveries.attempt import Ending, Failure, ending_of
from service.worker.deliveries.sender import Sent
from service.worker.deliveries.service import Service
from service.worker.results.database import Document
from simulated.exchange import Surroundings
from simulated.loop import Process
from simulated.mongodb import Collections
from simulated.plan import NO_CONNECTION, ServicePlan
from tracking.call import Permit

OK, GONE = 200, 410
LEAST_LATENCY, MOST_LATENCY = 0.004, 0.020
"""They differ by less than `guard_ms`: nothing is measured on the lines of services."""

ANSWERS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "destination failing": (500, {}),
    "destination asking for a rest": (503, {"retry-after": "7"}),
    "destination refusing": (404, {}),
    "destination gone": (GONE, {}),
}

NEVER_TAKEN = "AB"
"""How ids end that a picky destination never takes: one in sixteen."""


@dataclass(slots=True, eq=False)
class Post:
    """One attempt on its way. `nth`: of its delivery, as its row is to be numbered.

    `call_ends`: when its worker gives it back, whatever could not be stored; `lease_ends`: when
    another worker may take it for lost.
    """

    service: ServicePlan
    delivery: str
    nth: int
    process: Process
    call_ends: float
    lease_ends: float
    answer: asyncio.Future[int]
    over: bool = False
    paused: bool = False


@dataclass(slots=True)
class Destinations:
    """All destinations. `is_stopping`: whether a process hands back what it has."""

    around: Surroundings
    services: Mapping[str, ServicePlan]
    stored: Collections
    lease: float
    is_stopping: Callable[[Process], bool]
    arrivals: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    posts: dict[Post, None] = field(default_factory=dict)
    last: dict[str, Post] = field(default_factory=dict)
    taken: Counter[str] = field(default_factory=Counter)
    sent: int = 0

    async def send(
        self, service: Service, headers: Mapping[str, str], body: bytes, permit: Permit, _: None
    ) -> Sent:
        """Stand in for `service.worker.deliveries.sender.Sender`."""
        around, plan = self.around, self.services[service.id]
        began, at = around.loop.now, dt.datetime.now(dt.UTC)
        ending = Ending(Failure.TIMEOUT)
        try:
            async with asyncio.timeout(min(service.timeout_seconds, permit.deadline - began)):
                ending = await self._post(plan, headers["webhook-id"], permit)
        except TimeoutError:
            assert body
        return Sent(ending, round((around.loop.now - began) * 1000), at, {}, b"")

    async def _post(self, plan: ServicePlan, delivery: str, permit: Permit) -> Ending:
        around, process = self.around, self.around.running()
        if around.chance.strikes(NO_CONNECTION, plan.name, delivery):
            await asyncio.sleep(around.chance.delay())
            return Ending(Failure.CONNECTION)
        await permit.before_send()
        answer: asyncio.Future[int] = around.loop.create_future()
        rows, ends = self._rows(delivery), (permit.deadline, around.loop.now + self.lease)
        post = Post(plan, delivery, len(rows) + 1, process, *ends, answer)
        if any(each["failure"] is None for each in rows):
            around.trace.breach("H4", f"{delivery} was taken by {plan.name}, and is sent again")
        self._judge_sending(post)
        around.trace.add(process.name, f"{plan.name} < {delivery} ({post.nth})")
        around.loop.outside(around.chance.latency(LEAST_LATENCY, MOST_LATENCY), self._arrive, post)
        permit.after_send()
        try:
            status = await answer
        finally:
            self._end(post)
        permit.answered(0.0)
        rest = next((more for code, more in ANSWERS.values() if code == status), {})
        return ending_of(status, rest)

    def hang_up(self, process: Process) -> None:
        """A process died: its connections ended."""
        for post in [each for each in self.posts if each.process is process]:
            self._end(post)

    def paused(self, process: Process) -> None:
        for post in self.posts:
            post.paused = post.paused or post.process is process

    def rows(self) -> Counter[str]:
        """How many attempts of each delivery are stored."""
        return Counter(each["delivery"] for each in self.stored.others["attempts"].stored.values())

    def _rows(self, delivery: str) -> list[Document]:
        """The attempts of a delivery that are stored."""
        rows = self.stored.others["attempts"].stored
        return [each for each in rows.values() if each["delivery"] == delivery]

    def _judge_sending(self, post: Post) -> None:
        breach, now = self.around.trace.breach, self.around.loop.now
        self.sent += 1
        told = f"{post.delivery} to {post.service.name}"
        before = self.last.get(post.delivery)
        if before and before.nth == post.nth:
            was_lost = not before.process.alive or self.is_stopping(before.process)
            if not was_lost and now < before.call_ends:
                breach("H4", f"{told} is sent again, and {before.process.name} had it")
        self.last[post.delivery] = post
        if post.service.ordered and (older := self._older_open(post.delivery)):
            breach("H2", f"{told} is sent ahead of {older}")

    def _older_open(self, name: str) -> str:
        """An older delivery of the same service that was there before this one was."""
        deliveries = list(self.stored.others["deliveries"].stored.values())
        this = next(each for each in deliveries if each["_id"] == name)
        place = (this["made_at"], name)
        for each in deliveries:  # in the order in which they were inserted
            if each["_id"] == name:
                break
            is_open = each["service"] == this["service"] and each["state"] == "open"
            if is_open and (each["made_at"], each["_id"]) < place:
                return str(each["_id"])
        return ""

    def _arrive(self, post: Post) -> None:
        self._count_arrival(post.service)
        if post.over or not post.process.alive:
            return  # its end of the connection is closed already
        post.paused = post.process.paused  # it may stand still since it sent this
        self.posts[post] = None
        self._count_at_once(post)
        took = self._answer_after(post)
        if took is not None:
            self.around.loop.outside(took, self._answer, post)

    def _count_arrival(self, service: ServicePlan) -> None:
        now, last = self.around.loop.now, self.arrivals[service.id]
        while last and last[0] <= now - 1.0:
            last.popleft()
        last.append(now)
        if len(last) > service.per_second:
            told = f"{len(last)} deliveries to {service.name} in a second"
            self.around.trace.breach("H3", f"{told} ({service.per_second})")

    def _count_at_once(self, post: Post) -> None:
        now, allowed = self.around.loop.now, 1 if post.service.ordered else post.service.concurrent
        counted = [
            each
            for each in self.posts
            if each.service is post.service and not (each.paused and now > each.lease_ends)
        ]
        if len(counted) > allowed:
            told = f"{len(counted)} deliveries to {post.service.name} at once"
            self.around.trace.breach("H2", f"{told} ({allowed})")
        if sum(each.delivery == post.delivery for each in counted) > 1:
            self.around.trace.breach("H2", f"{post.delivery} is at {post.service.name} twice")

    def _is_like(self, post: Post) -> str:
        service = post.service
        ends = float("inf") if service.is_like == "gone" else service.ends
        return service.is_like if service.begins <= self.around.loop.now < ends else "well"

    def _answer_after(self, post: Post) -> float | None:
        chance, is_like = self.around.chance, self._is_like(post)
        if is_like not in {"well", "refusing"}:
            self.around.trace.fault(f"destination {is_like}", post.service.name, post.delivery)
        if is_like == "hanging":
            return None
        if is_like == "slow":
            return chance.draw.uniform(0.5, 2.5)
        return chance.latency(0.01, 0.3)

    def _answer(self, post: Post) -> None:
        if post.over:
            return
        status, _ = ANSWERS.get(f"destination {self._is_like(post)}", (OK, {}))
        if post.service.picky and post.delivery[-1] in NEVER_TAKEN:
            status, _ = ANSWERS["destination refusing"]
            self.around.trace.fault("destination refusing", post.service.name, post.delivery)
        self._end(post)
        self.taken[post.delivery] += status == OK
        way = self.around.chance.latency(LEAST_LATENCY, MOST_LATENCY)
        self.around.loop.call_later(
            way, _set_status, post.answer, status, context=post.process.context
        )

    def _end(self, post: Post) -> None:
        post.over = True
        self.posts.pop(post, None)


def _set_status(answer: asyncio.Future[int], status: int) -> None:
    if not answer.done():
        answer.set_result(status)
