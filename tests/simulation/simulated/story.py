"""What a world begins with, and how it hears of what the workers log and where they come by."""

from __future__ import annotations

import datetime as dt
from random import Random
from typing import Any

from service.observe.events import Event
from service.worker.results.database import Document
from service.worker.results.document import Answer
from service.worker.results.merge import merge
from service.worker.wiring.failpoints import FailPoint, FailPoints
from simulated.exchange import Surroundings
from simulated.patches import BEGAN
from simulated.plan import Plan
from simulated.trace import Trace
from tracking.call import Attempt, Call
from tracking.checkpoint import Checkpoint, Tag, Tracking
from tracking.line import line_of
from tracking.request import Number, Slug, TrackingRequest

REPAIRS = {
    Event.SWEPT: "sweeper repaired",
    Event.HANDED_BACK: "handed back",
    Event.SERVED_FRESH: "answered by a fresh result",
    Event.DEAD: "recorded as dead",
    Event.PAUSED: "courier paused",
    Event.AUTH_FAILED: "courier paused",
    Event.NO_CREDENTIALS: "courier paused",
    Event.BACK: "server is back",
    Event.NO_MEMORY: "kept waiting by a full redis",
    Event.ID_REUSED: "id of another parcel refused",
}
HARMLESS = "a defect of the module"


class Logger:
    """Where `emit` ends: each event is a line of the trace, and a defect breaks a promise."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.is_over = False
        """Whatever is cut off at the end of the world is no defect."""

    def emit(self, event: Event, **fields: Any) -> None:
        if self.is_over:
            return
        told = " ".join(f"{name}={value!s:.60}" for name, value in fields.items())
        if event == Event.UNEXPECTED and HARMLESS not in told:
            self._trace.breach("defect", f"{told} {fields.get('traceback', '')}")
        self._trace.add("log", f"{event}: {told}".replace("\n", " "))
        if event == Event.SWEPT and fields["drain"]:
            self._trace.repair("drain job put again")
        if event in REPAIRS:
            self._trace.repair(REPAIRS[event])


class Points:
    """Stands in for `FailPoints`: tells where a worker came by."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def from_environment(self) -> FailPoints:
        return FailPoints(FailPoint, self._reach)

    def _reach(self, point: FailPoint) -> None:
        self._around.trace.repairs[f"point {point}"] += 1


def parcels_under_way(plan: Plan) -> dict[str, Document]:
    """Documents of before, whose next check is due at some moment while things break."""
    draw = Random(f"parcels {plan.seed}")
    documents = {}
    for number in range(draw.choice((0, 0, 3, 6))):
        slug = draw.choice(plan.slugs).slug
        request = TrackingRequest(Slug(slug), Number(f"R{number:05}"), f"R{number:05}")
        before = BEGAN - 86_400.0
        permit: Any = None
        line, granted_us = line_of(request), round(before * 1_000_000)
        call = Call(f"before-{number}", line, request, permit, granted_us, before)
        scan = Checkpoint("2026-01-01T00:00:00", "before", Tag.IN_TRANSIT, "InTransit_001")
        at = dt.datetime.fromtimestamp(before, dt.UTC)
        answer = Answer(
            call, Tracking(scan.tag, scan.subtag, (scan,)), Attempt(at, "answered", 1, 200)
        )
        document = merge(None, answer).document
        due = dt.datetime.fromtimestamp(BEGAN + draw.uniform(0, plan.faulty), dt.UTC)
        documents[document["_id"]] = document | {"next_check_at": due, "revision": 0}
    return documents
