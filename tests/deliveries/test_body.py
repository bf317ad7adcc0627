"""What receivers read, word for word."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from followers import NOW, SCAN, mark

from service.worker.deliveries.body import (
    BODY_MOST,
    aftership,
    event_document,
    operation_data,
    parcel_data,
    standard,
)
from service.worker.deliveries.service import Format
from service.worker.results.change import EventName
from tracking.request import Account


def test_a_change_of_a_parcel_tells_what_is_and_what_was() -> None:
    body = standard(EventName.PARCEL_DELIVERED, NOW, parcel_data(mark()))

    assert json.loads(body) == {
        "type": "parcel.delivered",
        "timestamp": "2026-03-01T12:00:00.250Z",
        "data": {
            "slug": "usps",
            "number": "94000001",
            "tag": "Delivered",
            "subtag": "Delivered_001",
            "delivered": True,
            "updated_at": "2026-03-01T12:00:00.250Z",
            "checkpoints": [SCAN],
            "expected_delivery": None,
            "changed": ["tag", "subtag", "checkpoints"],
            "before": {"tag": "InTransit", "subtag": "InTransit_001", "checkpoints": 0},
        },
    }


def test_an_operation_is_told_as_its_account_asks_for_it() -> None:
    document: dict[str, Any] = {
        "_id": "shop/order-1@1",
        "id": "shop/order-1",
        "slug": "usps",
        "number": "94000001",
        "state": "SUCCESS",
        "output": {"tag": "Delivered"},
        "resend_of": "shop/order-0",
        "started_at": NOW,
        "finished_at": NOW + dt.timedelta(seconds=1),
        "attempts": [{"at": NOW, "outcome": "answered", "http_status": 200, "ms": 212}],
    }
    body = standard(EventName.OPERATION_ENDED, NOW, operation_data(document))

    assert json.loads(body)["data"] == {
        "id": "order-1",
        "slug": "usps",
        "number": "94000001",
        "status": "SUCCESS",
        "startedAt": "2026-03-01T12:00:00.250Z",
        "finishedAt": "2026-03-01T12:00:01.250Z",
        "output": {"tag": "Delivered"},
        "resendOf": "order-0",
        "attempts": [
            {
                "at": "2026-03-01T12:00:00.250Z",
                "outcome": "answered",
                "http_status": 200,
                "ms": 212,
            }
        ],
    }


def test_of_a_body_that_is_too_long_the_newest_checkpoints_stay_and_it_says_so() -> None:
    scans = [SCAN | {"message": f"{n} " + "é" * 5_000} for n in range(50)]
    long = mark(after=mark().after | {"checkpoints": scans})
    body = standard(EventName.PARCEL_CHANGED, NOW, parcel_data(long))

    assert BODY_MOST * 0.9 < len(body) <= BODY_MOST
    said = json.loads(body)["data"]
    assert said["truncated"] is True
    assert said["checkpoints"][-1] == scans[-1]
    assert said["checkpoints"] == scans[-len(said["checkpoints"]) :]
    assert said["tag"] == "Delivered"


def test_aftership_reads_of_a_parcel_of_which_its_account_says_nothing() -> None:
    scans = [
        SCAN | {"subtag": "Delivered_001", "message": f"{n} " + "é" * 5_000} for n in range(50)
    ]
    long = mark(after=mark().after | {"checkpoints": scans})
    body = aftership("EVENT", long, None)

    assert BODY_MOST * 0.9 < len(body) <= BODY_MOST
    said = json.loads(body)
    assert (said["msg"]["id"], said["msg"]["title"]) == ("usps:94000001", "94000001")
    assert said["msg"]["truncated"] is True
    assert said["is_tracking_first_tag"] is False
    assert said["event_id"] == json.loads(aftership("EVENT", long, None))["event_id"]


def test_what_is_too_long_without_checkpoints_keeps_what_is_essential() -> None:
    long = mark(after=mark().after | {"signed_by": "x" * BODY_MOST})
    said = json.loads(standard(EventName.PARCEL_CHANGED, NOW, parcel_data(long)))["data"]

    assert said["truncated"] is True
    assert "signed_by" not in said
    assert (said["slug"], said["number"], said["tag"]) == ("usps", "94000001", "Delivered")


def test_an_event_has_its_bodies_by_their_formats_and_an_end() -> None:
    assert event_document(
        name="EVENT",
        account=Account("shop"),
        event=EventName.PARCEL_CHANGED,
        at=NOW,
        bodies={Format.STANDARD: b"{}"},
        parcel="usps:94000001",
    ) == {
        "_id": "EVENT",
        "account": "shop",
        "type": "parcel.changed",
        "at": NOW,
        "parcel": "usps:94000001",
        "slug": "usps",
        "number": "94000001",
        "operation": "",
        "bodies": {"standard": b"{}"},
        "until": NOW + dt.timedelta(days=60),
    }
