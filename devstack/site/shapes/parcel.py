"""The story of a made-up parcel: the same one each time the same number is asked for.

=============================== =====================================================
a number                        is
=============================== =====================================================
beginning `UNKNOWN` or `000000` unknown to the courier
beginning `000001`              on the vehicle today
beginning `000002`              held up: its address is wrong
beginning `000003` to `000008`  answered with a failure, see `failures`
beginning `000009`              told of in words that are HTML: nobody may take them for it
whose last digit is even        delivered
else                            on its way
=============================== =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

FIRST_SCAN = datetime(2026, 3, 2, 9, 30)  # noqa: DTZ001 - couriers tell local time without a zone
UNKNOWN = ("UNKNOWN", "000000")  # the second for couriers whose numbers are digits only
OUT_FOR_DELIVERY = "000001"
HELD_UP = "000002"
HTML = "000009"
HOURS_BETWEEN_SCANS = 11
DAYS_OF_PARCELS = 200


@dataclass(frozen=True, slots=True)
class Scan:
    """One event, in no courier's words. `at` is local time where it happened."""

    at: datetime
    stage: str
    city: str
    message: str


STAGES = (
    ("InfoReceived", "Shipping label created"),
    ("InTransit", "Accepted at the post office"),
    ("InTransit", "Arrived at the sorting centre"),
    ("OutForDelivery", "Out for delivery"),
    ("Delivered", "Delivered, front door"),
)
PROBLEM = ("Exception", "Incorrect address")
MARKUP = """<script>alert(1)</script>\"'><x-probe onclick=alert(1)>{{ 7 * 7 }}"""
CITIES = ("Portland", "Leeds", "Boise", "Kowloon", "Reading", "Denver", "York", "Tai Po")


def known(number: str) -> bool:
    """Say whether the courier has heard of the parcel."""
    return not number.upper().startswith(UNKNOWN)


def delivered(number: str) -> bool:
    """Say whether the parcel has arrived."""
    return stages(number)[-1] == STAGES[-1]


def stages(number: str) -> tuple[tuple[str, str], ...]:
    """Tell what has happened to the parcel, oldest first: AfterShip's word and a sentence."""
    if number.startswith(OUT_FOR_DELIVERY):
        return STAGES[:4]
    if number.startswith(HELD_UP):
        return (*STAGES[:3], PROBLEM)
    if number.startswith(HTML):
        return (*STAGES[:2], ("InTransit", MARKUP))
    digits = [character for character in number if character.isdigit()]
    arrived = bool(digits) and int(digits[-1]) % 2 == 0
    return STAGES if arrived else STAGES[:3]


def scans(number: str) -> tuple[Scan, ...]:
    """Tell the parcel's story, oldest scan first."""
    seed = crc32(number.encode())
    begin = FIRST_SCAN + timedelta(days=seed % DAYS_OF_PARCELS)
    return tuple(
        Scan(
            at=begin + timedelta(hours=HOURS_BETWEEN_SCANS * step),
            stage=stage,
            city=MARKUP if message == MARKUP else CITIES[(seed + step) % len(CITIES)],
            message=message,
        )
        for step, (stage, message) in enumerate(stages(number))
    )
