"""The filler brings deliveries in: MongoDB has all, Redis the next ones of each service.

Who inserts deliveries has them brought in at once, where they are due. Whatever that leaves (the
line was full, Redis or a worker was away, a retry became due) the filler finds in MongoDB: one
process at a time looks at each service, every five seconds and when the line can have run low by
its rate; each process looks when it is woken. To bring in what is there changes nothing, so two who
fill the same line do no harm.

========== ========================================================================================
service    what is brought in
========== ========================================================================================
active     what is due, by (next_at, _id), where less than half of its window is in Redis
ordered    the first open one by the time of its event and its id, a second after that; it alone,
           and the next when it is over or held
resting    where nothing is due: after each pause another one that is not, as the single call that
           tries; of an ordered service the first
else       nothing
========== ========================================================================================
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections.abc import Callable, Iterable
from contextlib import suppress

from limits.window import Window, Windows
from limits.workers import Planners
from service.observe.background import wake_at
from service.observe.log import emit_unexpected
from service.worker.deliveries.delivery import Delivery, DeliveryState
from service.worker.deliveries.lines import window_of
from service.worker.deliveries.service import Service, ServiceState
from service.worker.deliveries.store import Due
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.deliveries.work import SOON_SECONDS
from tracking.errors import AWAY, LimitsBroken
from tracking.line import Line
from tracking.request import TrackingRequest

PERIOD_SECONDS = 5.0

LEASE_SECONDS = 10.0
"""Two looks: who fills a line and vanishes leaves it to others for so long."""

SETTLES_SECONDS = 1.0
"""So long the events of an ordered service may come in another order than they happened."""

AGAIN_SECONDS = 0.1
"""How soon an ordered service is looked at again of which one is still in Redis that is over."""


class Filler:
    """Fills the lines of services. One per process."""

    def __init__(
        self,
        due: Due,
        services: Subscriptions,
        windows: Windows,
        leases: Planners,
        bring: Callable[[Iterable[tuple[TrackingRequest, str]]], None],
    ) -> None:
        """`leases` say which lines this process fills."""
        self._due = due
        self._services = services
        self._windows = windows
        self._leases = leases
        self._bring = bring
        self._wanted: dict[Line, float] = {}
        """Lines to be looked at, and when, on the loop's clock."""
        self._sooner = asyncio.Event()
        self._probed: dict[Line, str] = {}
        """The delivery by which each resting line was tried last."""
        self._more: dict[Line, float] = {}
        """Lines of which MongoDB has more that is due, and after how long they are looked at again.

        That is doubled as long as nothing is brought in, until the common look is sooner.
        """

    def bring(self, deliveries: Iterable[Delivery]) -> None:
        """Bring in what was inserted or opened just now, where it is due within a minute."""
        now, due = dt.datetime.now(dt.UTC), list[Delivery]()
        for each in deliveries:
            service = self._services.by_line(each.line)
            if service is None or not _takes(service) or each.state is not DeliveryState.OPEN:
                continue
            seconds = max(0.0, (each.next_at - now).total_seconds())
            if service.ordered:
                self.wake(service.line, max(seconds, SETTLES_SECONDS))
            elif seconds == 0.0:
                due.append(each)
            elif seconds <= SOON_SECONDS:
                self.wake(service.line, seconds)
        self._bring([(each.request(), each.key) for each in due])

    def wake(self, line: Line, seconds: float = 0.0) -> None:
        """Look at a line, now or in so many seconds."""
        at = asyncio.get_running_loop().time() + seconds
        if at < self._wanted.get(line, float("inf")):
            self._wanted[line] = at
            self._sooner.set()

    def over(self, service: Service) -> None:
        """Take note that a delivery is over or held: an ordered service goes on with the next."""
        if service.ordered:
            self.wake(service.line)

    async def run(self) -> None:
        """Fill until cancelled."""
        loop = asyncio.get_running_loop()
        look_at = loop.time() + PERIOD_SECONDS * random.random()
        while True:
            self._sooner.clear()
            sooner = min(self._wanted.values(), default=look_at)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(sooner, look_at)):
                    await self._sooner.wait()
            now = loop.time()
            lines = [line for line, at in self._wanted.items() if at <= now]
            for line in lines:
                del self._wanted[line]
            try:
                if now >= look_at:
                    look_at = wake_at(now, PERIOD_SECONDS)
                    lines += await self.look()
                for line in dict.fromkeys(lines):
                    await self.fill(line)
            except AWAY:
                continue  # said elsewhere; the next look comes soon enough
            except LimitsBroken as error:
                emit_unexpected(error)

    async def look(self) -> list[Line]:
        """Find the lines to be filled, of those that this process fills.

        Raises LimitsDown, ResultsDown.
        """
        active = {each.line: each for each in self._services.all() if _takes(each)}
        if not active:
            return []
        ours = await self._leases.hold(list(active))
        counts = zip(ours, await self._windows.counts(ours), strict=True)
        low = {line: count for line, count in counts if count < _low(active[line])}
        if not low:
            return []
        now, ids = dt.datetime.now(dt.UTC), [active[line].id for line in low]
        due = await self._due.services_with_due(ids, now)
        found = [line for line in low if active[line].id in due]
        # An empty line that failed is tried by one that is not due.
        return found + await self._windows.trying([each for each in low if not low[each]])

    async def fill(self, line: Line) -> None:
        """Bring in what a line has room for. Raises LimitsDown, ResultsDown."""
        service = self._services.by_line(line)
        if service is not None and not _takes(service):
            # Who woke us may have made it active just now.
            await self._services.look()
            service = self._services.by_line(line)
        if service is None or not _takes(service):
            return
        window = await self._windows.look(line)
        if service.ordered:
            await self._fill_ordered(service, window)
        elif len(window.numbers) < _low(service):
            await self._fill(service, window)
        elif (seconds := self._more.pop(line, PERIOD_SECONDS)) < PERIOD_SECONDS:
            self._look_again(service, len(window.numbers), 2 * seconds)

    async def _fill(self, service: Service, window: Window) -> None:
        now, inside = dt.datetime.now(dt.UTC), window.numbers
        room = 2 * _low(service) - len(inside)
        new = await self._due.due(service.id, now, room, inside)
        self._bring([(each.request(), each.key) for each in new])
        if len(new) == room:
            self._look_again(service, len(inside) + room, AGAIN_SECONDS)
        elif not (inside or new) and window.probes:
            await self._probe(service)

    def _look_again(self, service: Service, inside: int, seconds: float) -> None:
        """Look again when the line can have run low by its rate."""
        lasts = (inside - _low(service)) / service.per_second
        self._more[service.line] = max(seconds, lasts)
        self.wake(service.line, max(seconds, lasts))

    async def _probe(self, service: Service) -> None:
        """Try a resting line by another delivery each time."""
        line = service.line
        if another := await self._due.later_on(service.id, self._probed.get(line, "")):
            self._probed[line] = another.id
            self._bring([(another.request(probe=True), another.key)])

    async def _fill_ordered(self, service: Service, window: Window) -> None:
        now = dt.datetime.now(dt.UTC)
        settled = now - dt.timedelta(seconds=SETTLES_SECONDS)
        head = await self._due.head(service.id, settled)
        if head is None or head.id in window.numbers:
            return
        if window.numbers and await self._due.is_open(window.numbers):
            self.wake(service.line, AGAIN_SECONDS)
            return
        seconds = (head.next_at - now).total_seconds()
        if seconds <= 0.0 or window.probes:
            self._bring([(head.request(probe=seconds > 0.0), head.key)])
        elif seconds <= SOON_SECONDS:
            self.wake(service.line, seconds)


def _low(service: Service) -> int:
    """Of how many in Redis on a line is filled again: half of its window."""
    return window_of(service.concurrent, service.per_second) // 2


def _takes(service: Service) -> bool:
    return service.state is ServiceState.ACTIVE
