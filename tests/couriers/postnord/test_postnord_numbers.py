"""PostNord's container numbers: the same with the 00 of a label and without it."""

from __future__ import annotations

import json

import pytest

from couriers import postnord
from tracking.checkpoint import Tracking
from tracking.errors import WrongNumber

EVENT = {"eventTime": "2026-02-04T13:10:00", "status": "DELIVERED", "eventDescription": "Delivered"}


def parse(asked: str, *, item: str = "1", shipment: str = "2", reference: str = "3") -> Tracking:
    told = {"itemId": item, "status": "DELIVERED", "events": [EVENT]}
    told["references"] = [{"value": reference}]
    shipments = [{"shipmentId": shipment, "items": [told]}]
    body = {"TrackingInformationResponse": {"shipments": shipments}}
    return postnord.parse(200, {}, json.dumps(body).encode(), asked)


@pytest.mark.parametrize("kind", ["item", "shipment", "reference"])
@pytest.mark.parametrize("turn", [1, -1], ids=["asked without 00", "asked with 00"])
def test_a_label_number_is_the_same_with_and_without_its_zeros(kind: str, turn: int) -> None:
    asked, told = ["373500000000000017", "00373500000000000017"][::turn]

    assert parse(asked, **{kind: told}).delivered


def test_zeros_before_another_number_make_it_another() -> None:
    with pytest.raises(WrongNumber):
        parse("12345678901SE", item="0012345678901SE")
