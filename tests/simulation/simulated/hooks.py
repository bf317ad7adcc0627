"""The services of a world: as MongoDB has them, and what is judged of their deliveries at the end.

======= ============================================================================================
promise is broken where
======= ============================================================================================
H1      a service wants to hear of a change, or of the end of an operation, and there is no delivery
        for it; or one is neither delivered nor dead with its reason nor held
H4      one is delivered that its destination never took, or an attempt has no row
======= ============================================================================================
"""

from __future__ import annotations

import base64
import datetime as dt
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.worker.deliveries.delivery import delivery_id
from service.worker.deliveries.secret_box import SecretBox
from service.worker.deliveries.service import (
    SealedSecret,
    Service,
    ServiceState,
    Wanted,
    document_of,
)
from service.worker.deliveries.signing import new_secret
from service.worker.results.change import EventName
from service.worker.results.database import UNTOLD
from simulated.destinations import Destinations
from simulated.keyspace import Keyspace
from simulated.mongodb import Collections
from simulated.patches import BEGAN
from simulated.plan import Plan, ServicePlan
from simulated.producer import Asked
from simulated.stumbling import STUMBLED_OVER
from simulated.watch import Watch
from tracking.line import service_line
from tracking.request import MAIN

KEYS = f"k1:{base64.b64encode(bytes(32)).decode()}"
TIMEOUT_SECONDS = 3.0
LEFT = ("wait_requests", "wait_inflight", "calls_leases")
OPERATION_ENDED = EventName.OPERATION_ENDED


def service_documents(plan: Plan) -> list[dict[str, Any]]:
    """Make the documents of `services`."""
    if not plan.services:
        return []
    box = SecretBox.of(KEYS)
    return [document_of(_service(each, box)) for each in plan.services]


def _service(each: ServicePlan, box: SecretBox) -> Service:
    return Service(
        id=each.id,
        account=MAIN,
        name=each.name,
        destination=f"https://{each.name}.example/",
        secrets=(SealedSecret(box.closed(new_secret(), each.id)),),
        made_at=dt.datetime.fromtimestamp(BEGAN - 86_400, dt.UTC),
        wanted=Wanted(frozenset({EventName.PARCEL_DELIVERED} if each.delivered_only else ())),
        concurrent=each.concurrent,
        per_second=each.per_second,
        attempts=each.attempts,
        timeout_seconds=TIMEOUT_SECONDS,
        ordered=each.ordered,
    )


def webhook_of(plan: Plan, identity: str) -> str:
    """Choose the service that a request names, by its id alone; "" for none."""
    names = ["", "", "nobody", *(each.name for each in plan.services)]
    return names[zlib.crc32(identity.encode()) % len(names)] if plan.services else ""


@dataclass(slots=True)
class HookJudge:
    """Judges what became of deliveries."""

    plan: Plan
    collections: Collections
    destinations: Destinations
    space: Keyspace
    asked: Sequence[Asked]
    watch: Watch

    def unquiet(self) -> str:
        """What is still to be told or delivered, or "" for nothing."""
        if not self.plan.services:
            return ""
        if untold := [name for name, each in self.collections.tracking.items() if UNTOLD in each]:
            return f"a change of {untold[0]} is not told"
        if waiting := [each for each in self._deliveries.values() if each["state"] == "open"]:
            return f"{len(waiting)} deliveries are open, such as {waiting[0]['_id']}"
        if self.destinations.posts:
            return f"{len(self.destinations.posts)} attempts run"
        for each in self.plan.services:
            for kind in LEFT:
                if self.space.find(f"{kind}:{service_line(each.id)}"):
                    return f"{kind} of {each.name} is not empty"
        missing = list(self._ends_untold())
        return missing[0] if missing else ""

    def breaches(self) -> Iterator[tuple[str, str]]:
        """Everything that is not as promised."""
        for mark in self.collections.marks:
            for event in mark.events:
                for each in self.plan.services:
                    if each.delivered_only and event is not EventName.PARCEL_DELIVERED:
                        continue
                    if delivery_id(mark.id, event, each.id) not in self._deliveries:
                        yield "H1", f"{each.name} never hears of {event} of {mark.number}"
        for what in self._ends_untold():
            yield "H1", what
        yield from self._ended_oddly()

    def _ended_oddly(self) -> Iterator[tuple[str, str]]:
        rows, services = self.destinations.rows(), self.collections.others["services"].stored
        for name, each in self._deliveries.items():
            match each["state"]:
                case "delivered" if not self.destinations.taken[name]:
                    yield "H4", f"{name} is delivered, and nobody took it"
                case "delivered" if rows[name] != each["made"]:
                    yield "H4", f"{name} has {each['made']} attempts, {rows[name]} are stored"
                case "dead" if not each["why"]:
                    yield "H1", f"{name} is dead for no reason"
                case "held" if services[each["service"]]["state"] != ServiceState.DISABLED:
                    yield "H1", f"{name} is held, and its service is not disabled"
                case "open" | "cancelled":
                    yield "H1", f"{name} is {each['state']}"

    def _ends_untold(self) -> Iterator[str]:
        """Operations that have ended, of which the service that they name has not heard."""
        ids = {each.name: each.id for each in self.plan.services}
        told = {
            (each["operation"], each["service"])
            for each in self._deliveries.values()
            if each["type"] == OPERATION_ENDED
        }
        for asked in self.asked:
            if not asked.id or asked.webhook not in ids or asked.number.startswith(STUMBLED_OVER):
                continue  # nobody can read that one
            is_over = asked.id in self.watch.ended or f"job-{asked.job}" in self.collections.dead
            if is_over and (asked.id, ids[asked.webhook]) not in told:
                yield f"{asked.webhook} has not heard that {asked.id} ended"

    @property
    def _deliveries(self) -> Mapping[str, dict[str, Any]]:
        return self.collections.others["deliveries"].stored
