"""Statuses in AfterShip's words: what every courier's codes and sentences are brought to."""

from __future__ import annotations

from typing import NamedTuple

from tracking.checkpoint import Tag


class Status(NamedTuple):
    """A tag and its subtag, in AfterShip's words."""

    tag: Tag
    subtag: str


INFO_RECEIVED = Status(Tag.INFO_RECEIVED, "InfoReceived_001")
IN_TRANSIT = Status(Tag.IN_TRANSIT, "InTransit_001")
ACCEPTED = Status(Tag.IN_TRANSIT, "InTransit_002")
ARRIVED = Status(Tag.IN_TRANSIT, "InTransit_003")
ARRIVED_ABROAD = Status(Tag.IN_TRANSIT, "InTransit_004")
CUSTOMS_DONE = Status(Tag.IN_TRANSIT, "InTransit_005")
CUSTOMS_BEGUN = Status(Tag.IN_TRANSIT, "InTransit_006")
DEPARTED = Status(Tag.IN_TRANSIT, "InTransit_007")
PROBLEM_SOLVED = Status(Tag.IN_TRANSIT, "InTransit_008")
FORWARDED = Status(Tag.IN_TRANSIT, "InTransit_009")
OUT_FOR_DELIVERY = Status(Tag.OUT_FOR_DELIVERY, "OutForDelivery_001")
APPOINTMENT = Status(Tag.OUT_FOR_DELIVERY, "OutForDelivery_004")
ATTEMPTED = Status(Tag.ATTEMPT_FAIL, "AttemptFail_001")
NOBODY_THERE = Status(Tag.ATTEMPT_FAIL, "AttemptFail_002")
BUSINESS_CLOSED = Status(Tag.ATTEMPT_FAIL, "AttemptFail_003")
DELIVERED = Status(Tag.DELIVERED, "Delivered_001")
COLLECTED = Status(Tag.DELIVERED, "Delivered_002")
SIGNED_FOR = Status(Tag.DELIVERED, "Delivered_003")
AT_NEIGHBOUR = Status(Tag.DELIVERED, "Delivered_005")
FOR_PICKUP = Status(Tag.AVAILABLE_FOR_PICKUP, "AvailableForPickup_001")
PROBLEM = Status(Tag.EXCEPTION, "Exception_001")
MOVED = Status(Tag.EXCEPTION, "Exception_002")
REFUSED = Status(Tag.EXCEPTION, "Exception_003")
CUSTOMS_DELAY = Status(Tag.EXCEPTION, "Exception_004")
OUTSIDE_CAUSE = Status(Tag.EXCEPTION, "Exception_005")
PAYMENT_DUE = Status(Tag.EXCEPTION, "Exception_006")
WRONG_ADDRESS = Status(Tag.EXCEPTION, "Exception_007")
PICKUP_MISSED = Status(Tag.EXCEPTION, "Exception_008")
REJECTED = Status(Tag.EXCEPTION, "Exception_009")
RETURNING = Status(Tag.EXCEPTION, "Exception_010")
RETURNED = Status(Tag.EXCEPTION, "Exception_011")
DAMAGED = Status(Tag.EXCEPTION, "Exception_012")
LOST = Status(Tag.EXCEPTION, "Exception_013")
