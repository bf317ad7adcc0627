"""Who puts requests, and remembers what was acknowledged: the list that everything is judged by."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from service.worker.tubes.envelope import REQUESTS_TUBE
from simulated.courier import POISON, REFUSED
from simulated.exchange import Surroundings
from simulated.plan import OFTEN, PLAIN, Plan
from simulated.stumbling import STUMBLED_OVER
from simulated.tubes import TubeServer

MALFORMED = (b"{", b"\xff", b"[]", b'{"type":"requests_flow","payload":{"slug":"no-such"}}')


@dataclass(frozen=True, slots=True)
class Asked:
    """One job that was answered INSERTED. `at`: seconds of the world's clock."""

    job: int
    at: float
    slug: str = ""
    number: str = ""
    id: str | None = None
    max_age: float = 30.0
    expires: bool = False
    automatic: bool = False
    webhook: str = ""

    @property
    def malformed(self) -> bool:
        return not self.slug


@dataclass(slots=True)
class Producer:
    """Puts the plan's requests at random moments; equal numbers and equal ids are frequent.

    Some ids are given to two parcels. `webhook_of`: the service that requests of an id name.
    """

    plan: Plan
    around: Surroundings
    server: TubeServer
    webhook_of: Callable[[str], str]
    asked: list[Asked] = field(default_factory=list)
    unacknowledged: list[Asked] = field(default_factory=list)
    to_come: int = 0

    def start(self) -> None:
        draw = self.around.chance.draw
        poison = set(draw.sample(range(self.plan.requests), self.plan.poison))
        for number in range(self.plan.requests):
            self.to_come += 1
            at = draw.uniform(0.0, self.plan.producing)
            self.around.loop.outside(at, self._put, f"{POISON}{number}" if number in poison else "")

        for number in self.plan.always:
            for slug in self.plan.slugs:
                self.to_come += 1
                at = draw.uniform(0.0, self.plan.producing)
                self.around.loop.outside(at, self._put_always, slug.slug, number)

    def _put_always(self, slug: str, number: str) -> None:
        if self.server.away:
            self.around.loop.outside(0.5, self._put_always, slug, number)
            return
        self.to_come -= 1
        name = f"{number}-{slug}"
        payload = {"slug": slug, "number": number, "id": name}
        body = json.dumps({"type": REQUESTS_TUBE, "payload": payload}).encode()
        now = self.around.loop.now
        self.asked.append(Asked(self._store(body, 1024), now, slug, number, name))

    def _put(self, poison: str) -> None:
        if self.server.away:
            self.around.loop.outside(0.5, self._put, poison)
            return
        self.to_come -= 1
        draw = self.around.chance.draw
        if not poison and draw.random() < 0.05:
            self.asked.append(self._malformed())
            return
        if not poison and draw.random() < 0.01:
            poison = f"{STUMBLED_OVER}{self.to_come}"
        slug = draw.choice(self.plan.slugs).slug
        number = poison or self._number()
        payload: dict[str, Any] = {"slug": slug, "number": number}
        if draw.random() < 0.6:
            again = draw.random() < 0.15 and not poison
            payload["id"] = f"{slug}-{number}" if again else f"id-{self.to_come}-{slug}"
            if draw.random() < 0.04:
                payload["id"] = self._id_of_before() or payload["id"]
        if webhook := self.webhook_of(payload.get("id", "")):
            payload["webhook"] = webhook
        if draw.random() < 0.25:
            payload["max_age"] = draw.choice((0, 1, 100, 600))
        if draw.random() < 0.1 and not poison:
            payload["expires_in"] = draw.choice((0, 2, 15, 3600))
        if draw.random() < 0.2:
            payload["origin"] = "AUTOMATIC"
        body = json.dumps({"type": REQUESTS_TUBE, "payload": payload}).encode()
        job = self._store(body, draw.choice((0, 1024, 2**16)))
        asked = Asked(
            job,
            self.around.loop.now,
            slug,
            number,
            payload.get("id"),
            float(payload.get("max_age", 30.0)),
            "expires_in" in payload,
            "origin" in payload,
            payload.get("webhook", ""),
        )
        known = draw.random() >= 0.03
        (self.asked if known else self.unacknowledged).append(asked)

    def _id_of_before(self) -> str | None:
        """By mistake, an id that mostly is another parcel's."""
        ids = [each.id for each in self.asked if each.id]
        return self.around.chance.draw.choice(ids) if ids else None

    def _number(self) -> str:
        draw = self.around.chance.draw
        if draw.random() < 0.03:
            return f"{REFUSED}{draw.randrange(3)}"
        most = OFTEN if draw.random() < 0.5 else 10_000
        return f"{PLAIN}{draw.randrange(most):05}"

    def _malformed(self) -> Asked:
        body = self.around.chance.draw.choice(MALFORMED)
        return Asked(self._store(body, 1024), self.around.loop.now)

    def _store(self, body: bytes, priority: int) -> int:
        job = self.server.put(REQUESTS_TUBE, body, priority, self.plan.ttr)
        self.around.trace.add("producer", f"job {job} {body!r}")
        return job
