"""Foreign requests: as a job of the tube `webhooks`, and as an event in MongoDB."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pytest

from service.operator.connections import Collections
from service.worker.deliveries.delivery import event_id
from service.worker.deliveries.foreign_request import (
    BODY_MOST,
    HEAD_MOST,
    JOB_MOST,
    ForeignRequest,
    decode_foreign,
    encode_foreign,
    foreign_event,
    foreign_in,
    new_request_id,
)
from service.worker.deliveries.ingest_label import new_label
from service.worker.results.change import EventName
from tracking.errors import MalformedJob
from tracking.request import Account

SHOP = Account("shop")
EVERY_BYTE = bytes(range(256))
LATIN = EVERY_BYTE.decode("latin-1")
NOW = dt.datetime(2026, 11, 26, 12, 0, 0, 1_000, tzinfo=dt.UTC)
HEAD: dict[str, Any] = {
    "id": "0" * 32,
    "label": f"shop-orders-{'a' * 21}",
    "at": 1_795_780_800_001,
    "method": "POST",
    "target": "/",
    "url": "https://shop.example/",
    "headers": [["Host", "shop.example"]],
}


def odd_request() -> ForeignRequest:
    """A request in which every byte stands wherever one may."""
    return ForeignRequest(
        id=new_request_id(),
        label=new_label(SHOP, "orders", b"k" * 32),
        received_at=NOW,
        method="PRI",
        target=f"/%C3%A9/{LATIN}?a=1&a=2",
        url=f"https://in.example/{LATIN}",
        headers=(("X-Odd", LATIN), ("x-odd", ""), ("Set", "a"), ("X-ODD", "b")),
        body=EVERY_BYTE + b"\n\n{}\n",
    )


def test_a_request_comes_out_of_a_job_as_it_went_in() -> None:
    request = odd_request()

    assert decode_foreign(encode_foreign(request)) == request


def test_a_request_without_a_body_comes_out_of_a_job_as_it_went_in() -> None:
    request = decode_foreign(json.dumps(HEAD).encode() + b"\n")

    assert request.body == b""
    assert decode_foreign(encode_foreign(request)) == request


def test_a_request_comes_out_of_mongodb_as_it_went_in(stores: Collections) -> None:
    request = odd_request()
    stores.events.insert_one(foreign_event(request, SHOP))

    stored = stores.events.find_one({"account": SHOP})

    assert stored
    assert foreign_in(stored) == request


def test_an_event_of_a_request_is_named_by_the_id_that_the_door_drew() -> None:
    request = odd_request()

    event = foreign_event(request, SHOP)

    assert event == foreign_event(request, SHOP)
    assert event["_id"] == event_id(request.id, EventName.RELAY_REQUEST)
    assert (event["type"], event["at"], event["parcel"]) == ("relay.request", NOW, "")


def test_an_event_without_a_label_is_none_of_a_request() -> None:
    event = foreign_event(odd_request(), SHOP)
    event["request"]["label"] = "shop"

    with pytest.raises(ValueError, match="no ingest label"):
        foreign_in(event)


def test_values_of_a_header_are_found_in_any_case_and_in_order() -> None:
    assert odd_request().values("x-Odd") == [LATIN, "", "b"]


def test_the_largest_request_of_usual_bytes_is_a_job_that_the_tube_takes() -> None:
    headers = tuple(("X", each * (HEAD_MOST // 2)) for each in ('"', "\xe9"))
    largest = replace(odd_request(), target="/", headers=headers, body=b"\0" * BODY_MOST)

    assert len(encode_foreign(largest)) <= JOB_MOST


@pytest.mark.parametrize(
    ("reason", "head"),
    [
        ("bad_json", HEAD | {"id": "0" * 31}),
        ("bad_json", HEAD | {"id": "0" * 32 + "\n"}),
        ("bad_json", HEAD | {"id": "A" * 32}),
        ("bad_json", HEAD | {"at": -1}),
        ("bad_json", HEAD | {"at": 1.5}),
        ("bad_json", HEAD | {"at": 10**18}),
        ("bad_json", HEAD | {"method": ""}),
        ("bad_json", HEAD | {"method": "GET /"}),
        ("bad_json", HEAD | {"target": ""}),
        ("bad_json", HEAD | {"headers": [["Host"]]}),
        ("bad_json", HEAD | {"more": 1}),
        ("bad_json", {name: value for name, value in HEAD.items() if name != "url"}),
        ("bad_json", []),
        ("bad_shape", HEAD | {"label": "shop-orders"}),
        ("bad_shape", HEAD | {"label": f"shop-orders-{'b' * 21}"}),
        ("bad_shape", HEAD | {"target": "/\u20ac"}),
        ("bad_shape", HEAD | {"url": "\u0100"}),
        ("bad_shape", HEAD | {"headers": [["X", "\U0001f4e6"]]}),
    ],
)
def test_a_head_that_no_door_wrote_is_malformed(reason: str, head: object) -> None:
    with pytest.raises(MalformedJob) as malformed:
        decode_foreign(json.dumps(head).encode() + b"\nbody")

    assert malformed.value.reason == reason


@pytest.mark.parametrize("job", [b"", b"{}", b"\xff\n", b"\n", b"[" * 10_000 + b"\n"])
def test_a_job_without_a_head_is_malformed(job: bytes) -> None:
    with pytest.raises(MalformedJob):
        decode_foreign(job)
