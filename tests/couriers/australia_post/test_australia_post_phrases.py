"""Australia Post's sentences: they carry no codes, and its own statuses are coarse."""

from __future__ import annotations

import json

import pytest

from couriers import australia_post
from tracking.checkpoint import Tag, Tracking

NUMBER = "7XX0000000001"

Json = dict[str, object]


def event(at: str, what: str) -> Json:
    return {"description": what, "date": f"{at}+10:00", "location": "PERTH WA"}


AT_FACILITY = event("2026-05-05T03:10:00", "Arrived at facility")
DELIVERED = event("2026-05-06T11:02:00", "Delivered")


def article(status: str, *events: Json) -> Json:
    return {"article_id": NUMBER, "status": status, "events": list(events)}


def result(*articles: Json) -> Json:
    return {"tracking_results": [{"tracking_id": NUMBER, "trackable_items": list(articles)}]}


def parse(body: Json) -> Tracking:
    return australia_post.parse(200, {}, json.dumps(body).encode(), NUMBER)


def test_what_waits_to_be_collected_is_not_delivered_whatever_its_status_says() -> None:
    waits = event("2026-05-07T11:02:00", "Awaiting collection at CANADA")
    told = parse(result(article("Delivered", waits, AT_FACILITY)))

    assert (told.tag, told.delivered_at) == (Tag.AVAILABLE_FOR_PICKUP, None)
    assert parse(result(article("Delivered", DELIVERED, AT_FACILITY))).delivered


@pytest.mark.parametrize(
    ("what", "subtag"),
    [
        ("Item lodged", "InTransit_002"),
        ("Received by our network", "InTransit_002"),
        ("Picked up from Sender", "InTransit_002"),
        ("Incorrectly sorted and forwarded to correct location", "InTransit_009"),
        ("Redirected to new address", "InTransit_009"),
        ("International arrival - awaiting clearance", "InTransit_006"),
        ("Cleared by Customs", "InTransit_005"),
        ("Landed in Canada", "InTransit_003"),
        ("It's coming today", "OutForDelivery_001"),
        ("No one in attendance", "AttemptFail_002"),
        ("Delivery location closed", "AttemptFail_003"),
        ("Held at facility - In transit redirection", "InTransit_001"),
    ],
)
def test_what_more_of_its_sentences_mean(what: str, subtag: str) -> None:
    told = parse(result(article("Unknown", event("2026-05-05T08:00:00", what))))

    assert told.subtag == subtag
