"""What a courier pushes is one call of that courier, whatever dies on the way, and no answer."""

from __future__ import annotations

import base64
import datetime as dt
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from plant import Plant
from running_worker import until

from devstack.site.shapes import parcel
from service.config.load import load
from service.operator.audit import Operator
from service.operator.connections import collections_of
from service.operator.services import Services
from service.worker.deliveries.foreign_request import (
    WEBHOOKS_TUBE,
    ForeignRequest,
    encode_foreign,
    new_request_id,
)
from service.worker.deliveries.ingest_label import IngestLabel
from service.worker.deliveries.secret_box import new_key
from service.worker.wiring.failpoints import RelayPoint
from tracking.request import MAIN

SLUG = "fedex"
SECRET = "security-token-of-a-webhook"  # noqa: S105 - of no courier
TAKES_OVER = 40.0

UNDERWAY = [
    number
    for number in (f"7946656{place:05}" for place in range(100))
    if parcel.scans(number)[-1].stage == "InTransit"
]
"""Numbers of which the courier site says that they are on their way."""


class Pushing:
    """A plant with a courier that pushes, and that is asked over a feed."""

    def __init__(self, plant: Plant, number: str) -> None:
        self.plant, self.number = plant, number
        plant.settings |= {
            "webhooks.keys": new_key("a"),
            f"couriers.{SLUG}.module": "json_feed",
            f"couriers.{SLUG}.base_url": f"{plant.site.url}/feed",
        }
        wished = {"courier": SLUG, "push_secret": SECRET}
        config = load(None, plant.environment, Path.cwd()).config
        with collections_of(config) as stores:
            Services(config, stores).make(
                Operator(), MAIN, "pushes", {"type": "courier", "ingest": wished}
            )
        [service] = plant.collection("services").find()
        self.label = IngestLabel(MAIN, "pushes", service["ingest"]["random"])

    def push(self, at: dt.datetime, secret: str = SECRET) -> None:
        """Put what a door takes from the courier."""
        result = {"trackingNumber": self.number, "trackResults": [{"status": "Delivered"}]}
        body = json.dumps({"output": {"completeTrackResults": [result]}}).encode()
        signature = base64.b64encode(hmac.digest(secret.encode(), body, "sha256")).decode()
        request = ForeignRequest(
            id=new_request_id(),
            label=self.label,
            received_at=at,
            method="POST",
            target="/",
            url=f"https://in.example/in/{self.label}/",
            headers=(("Content-Type", "application/json"), ("fdx-signature", signature)),
            body=body,
        )
        self.plant.producer.put_body(encode_foreign(request), WEBHOOKS_TUBE)

    @property
    def calls(self) -> int:
        return sum(each.number == self.number for each in self.plant.calls(SLUG))

    @property
    def document(self) -> dict[str, Any]:
        return self.plant.document(SLUG, self.number) or {"observed_us": 0}

    def follow(self) -> dict[str, Any]:
        """Ask by hand, once; gives what is stored then."""
        self.plant.producer.put(SLUG, self.number)
        until(lambda: self.document["observed_us"], 10.0, "the first answer is stored")
        return self.document

    def pushed(self) -> list[dict[str, Any]]:
        """What became of pushes, as their events say."""
        return [each["push"] for each in self.plant.collection("events").find().sort("at")]

    def operations(self) -> list[str]:
        """The re-checks of which Redis knows, by their ids."""
        key = f"tracking:operations:{SLUG}:{self.number}"
        return [each for each in self.plant.redis.zrange(key, 0, -1) if "recheck-" in each]


def this_minute() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(second=0, microsecond=0)


def test_pushes_of_a_minute_are_one_call_and_the_courier_s_own_answer_is_stored(
    plant: Plant,
) -> None:
    pushing, minute = Pushing(plant, UNDERWAY[0]), this_minute()
    worker = plant.hire().ready()
    before = pushing.follow()

    for second in (1, 2, 3):
        pushing.push(minute.replace(second=second))
    pushing.push(minute.replace(second=4), secret="another")  # noqa: S106 - of nobody
    until(lambda: pushing.document["observed_us"] > before["observed_us"], 15.0, "a newer answer")
    until(lambda: len(pushing.pushed()) == 4, 15.0, "all pushes are kept")
    until(lambda: not any(plant.producer.jobs(WEBHOOKS_TUBE).values()), 10.0, "no job is left")
    until(lambda: not any(plant.producer.jobs().values()), 10.0, "no request is left")

    found = pushing.document
    assert (pushing.calls, len(pushing.operations())) == (2, 1)
    assert (found["tag"], found["active"]) == (before["tag"], True)
    [*verified, other] = pushing.pushed()
    right = {"courier": SLUG, "verified": True, "why": "", "parcels": [f"{SLUG}:{UNDERWAY[0]}"]}
    assert verified == [right] * 3
    assert (other["verified"], other["why"], other["parcels"]) == (False, "not_verified", [])
    states = [(each["state"], each["why"]) for each in plant.collection("deliveries").find()]
    assert states == [("completed", "nowhere_to_go")] * 4
    assert worker.defects() == []


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(
            point, marks=() if point is RelayPoint.DELIVERY_INSERTED else pytest.mark.prove
        )
        for point in RelayPoint
    ],
)
def test_a_push_that_a_killed_worker_held_is_one_call_all_the_same(
    plant: Plant, point: RelayPoint
) -> None:
    number, minute = UNDERWAY[1 + list(RelayPoint).index(point)], this_minute()
    pushing = Pushing(plant, number)
    doomed = plant.hire(FAILPOINT=point).ready()
    before = pushing.follow()

    pushing.push(minute)
    until(lambda: doomed.events("process died", code=-9), 15.0, "the fail point is reached")
    doomed.stop()
    plant.hire().ready()
    until(
        lambda: pushing.document["observed_us"] > before["observed_us"],
        TAKES_OVER,
        "a newer answer",
    )
    pushing.push(minute)
    until(lambda: len(pushing.pushed()) == 2, 15.0, "the next push is kept")
    until(lambda: not any(plant.producer.jobs(WEBHOOKS_TUBE).values()), 10.0, "no job is left")
    until(lambda: not any(plant.producer.jobs().values()), 10.0, "no request is left")

    assert plant.collection("deliveries").count_documents({}) == 2
    assert (pushing.calls, len(pushing.operations())) == (2, 1)
