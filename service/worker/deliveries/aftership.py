"""Shipments and their parcels as AfterShip shows them, in each of its versions. Pure.

What nobody knows here is null, or missing where AfterShip's types know no null. Its webhook for a
change of a parcel holds the same:

    {"event": "tracking_update", "event_id": "<UUID>", "is_tracking_first_tag": true,
     "msg": {…}, "ts": 1772366400}
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from service.worker.results.shipments import RETURNING
from tracking.checkpoint import Tag
from tracking.request import account_and_id

VERSIONS = ("2026-07", "2026-01", "2025-07", "2025-04")
"""The newest first."""

FIRST_WITH_OBJECTS = "2026-01"
"""Since then a promised date is an object, and a checkpoint's postal code is called so."""

UNSAID: Mapping[str, Any] = dict.fromkeys(
    (
        "title",
        "custom_fields",
        "origin_country_region",
        "origin_state",
        "origin_city",
        "origin_postal_code",
        "origin_raw_location",
        "destination_country_region",
        "destination_state",
        "destination_city",
        "destination_postal_code",
        "destination_raw_location",
        "note",
        "order_id",
        "order_id_path",
        "order_date",
        "order_number",
        "order_promised_delivery_date",
        "language",
        "delivery_type",
        "pickup_location",
        "pickup_note",
        "tracking_account_number",
        "tracking_key",
        "tracking_ship_date",
        "location_id",
        "shipping_method",
        "shipment_direction",
    )
) | {"shipment_tags": [], "customers": []}
"""What an account may say of a shipment, where it does not."""

Members = dict[str, Any]


def tracking(shipment: Mapping[str, Any], version: str, now: dt.datetime) -> Members:
    """Show a shipment, found with its parcel as `stored`, as AfterShip's Tracking."""
    stored: Mapping[str, Any] = shipment.get("stored") or {}
    completed: Mapping[str, Any] = shipment["completed"] or {}
    identity = account_and_id(shipment["_id"])[1]
    words = UNSAID | shipment["words"]
    scans = stored.get("checkpoints") or []
    subtag = completed.get("subtag") or stored.get("subtag") or "Pending_001"
    shown = [checkpoint(each, shipment["slug"], version) for each in scans]
    if completed:
        shown.append(_completion(completed, shipment["slug"], version))
    return {
        **words,
        "id": identity,
        "legacy_id": identity,
        "created_at": instant(shipment["created_at"]),
        "updated_at": instant(shipment["changed_at"]),
        "tracking_number": shipment["number"],
        "slug": shipment["slug"],
        "title": words["title"] or shipment["number"],
        "active": not completed and bool(stored.get("active", True)),
        "tag": shipment["tag"],
        "subtag": subtag,
        "subtag_message": MESSAGES.get(subtag, ""),
        "custom_fields": _custom_fields(words["custom_fields"]),
        "order_promised_delivery_date": _promised(words["order_promised_delivery_date"], version),
        "source": "api",
        "checkpoints": shown,
        "return_to_sender": any(each["subtag"] in RETURNING for each in scans),
        "shipment_type": words.get("shipment_type") or stored.get("service"),
        **_delivery(stored, scans, now),
        **_NOT_KNOWN,
    }


def checkpoint(scan: Mapping[str, Any], slug: str, version: str) -> Members:
    """Show a stored checkpoint."""
    told = f"{scan['checkpoint_time']}{scan.get('checkpoint_offset') or ''}"
    recorded = scan.get("recorded_at")
    shown = {
        "created_at": recorded and instant(recorded),
        "slug": slug,
        "checkpoint_time": told,
        "location": scan.get("location"),
        "city": scan.get("city"),
        "state": scan.get("state"),
        _postal_code_in(version): scan.get("postal_code"),
        "coordinate": None,
        "country_region": scan.get("country_iso3"),
        "country_region_name": scan.get("country_name"),
        "message": scan["message"],
        "tag": scan["tag"],
        "subtag": scan["subtag"],
        "subtag_message": MESSAGES.get(scan["subtag"], ""),
        "raw_tag": scan.get("raw_tag"),
        "events": [],
        "source": "carrier",
    }
    if version >= FIRST_WITH_OBJECTS:
        parts = (slug, told, scan["message"], scan.get("location") or "", scan.get("raw_tag") or "")
        shown["hash"] = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return shown


def update(name: str, shipment: Mapping[str, Any], at: dt.datetime) -> Members:
    """Say that a parcel has changed; `name`: of the event."""
    shown = tracking(shipment, VERSIONS[0], at)
    digest = hashlib.sha256(name.encode()).digest()
    firsts = [each for each in shown["checkpoints"] if each["tag"] == shown["tag"]]
    return {
        "event": "tracking_update",
        "event_id": str(uuid.UUID(bytes=digest[:16], version=4)),
        "is_tracking_first_tag": len(firsts) <= 1,
        "msg": shown,
        "ts": int(at.timestamp()),
    }


def shipment_of(
    said: Mapping[str, Any] | None, after: Mapping[str, Any], named: Mapping[str, Any]
) -> Members:
    """Join what an account says of a shipment, if anything, with what its parcel has become.

    `named`: its `slug`, its `number`, and `at`, when it changed.
    """
    nothing = {
        "_id": f"{named['slug']}:{named['number']}",
        "slug": named["slug"],
        "number": named["number"],
        "words": {},
        "completed": None,
        "created_at": named["at"],
    }
    completed = (said or {}).get("completed")
    tag = completed["tag"] if completed else after["tag"]
    return {**nothing, **(said or {}), "stored": after, "tag": tag, "changed_at": named["at"]}


def chosen(shown: Members, fields: Sequence[str]) -> Members:
    """Leave what was asked for, and always the id; all of it where nothing was."""
    if not fields:
        return shown
    return {name: value for name, value in shown.items() if name == "id" or name in fields}


def instant(moment: dt.datetime) -> str:
    """Write an instant: whole seconds, UTC."""
    return moment.astimezone(dt.UTC).isoformat(timespec="seconds")


def _delivery(
    stored: Mapping[str, Any], scans: Sequence[Mapping[str, Any]], now: dt.datetime
) -> Members:
    """Derive members from the parcel's checkpoints."""
    failed = [each for each in scans if each["tag"] == Tag.ATTEMPT_FAIL]
    tried = [each for each in scans if each["tag"] in (Tag.ATTEMPT_FAIL, Tag.DELIVERED)]
    accepted = next((each for each in scans if each["subtag"] == "InTransit_002"), None)
    expected, grams = stored.get("expected_delivery"), stored.get("weight_grams")
    proof = stored.get("proof_of_delivery")
    return {
        "tracked_count": stored.get("tracked_count", 0),
        "signed_by": stored.get("signed_by"),
        "shipment_pickup_date": accepted and accepted["checkpoint_time"],
        "shipment_delivery_date": stored.get("delivered_at"),
        "transit_time": accepted and _days(accepted, stored, now),
        "first_attempted_at": tried[0]["checkpoint_time"] if tried else None,
        "failed_delivery_attempts": len(failed),
        "shipment_weight": {"unit": "kg", "value": grams / 1000} if grams else None,
        "proof_of_delivery": [{"url": proof}] if proof else None,
        "courier_estimated_delivery_date": expected
        and {
            "estimated_delivery_date": expected,
            "estimated_delivery_date_min": None,
            "estimated_delivery_date_max": None,
        },
        "latest_estimated_delivery": expected
        and {"type": "specific", "source": "Carrier EDD", "datetime": expected},
    }


def _days(accepted: Mapping[str, Any], stored: Mapping[str, Any], now: dt.datetime) -> int | None:
    """Count the days from when the courier had the parcel, as far as time zones are known."""
    begun, ended = accepted.get("checkpoint_utc"), stored.get("delivered_at_utc")
    if begun is None or (stored.get("delivered") and ended is None):
        return None
    spent: dt.timedelta = (ended or now) - begun
    return max(0, spent.days)


def _completion(completed: Mapping[str, Any], slug: str, version: str) -> Members:
    at = completed["event"] or instant(completed["at"])
    scan = {"checkpoint_time": at, "message": MESSAGES[completed["subtag"]], **completed}
    scan["recorded_at"] = completed["at"]
    return checkpoint(scan, slug, version) | {"source": "user"}


def _promised(words: Mapping[str, Any] | None, version: str) -> Mapping[str, Any] | str | None:
    if words is None or version >= FIRST_WITH_OBJECTS:
        return words
    return words.get("promised_delivery_date")


def _custom_fields(words: Sequence[Mapping[str, Any]] | None) -> Members | None:
    return None if words is None else {each["name"]: each["value"] for each in words}


def _postal_code_in(version: str) -> str:
    return "postal_code" if version >= FIRST_WITH_OBJECTS else "zip"


_NOT_KNOWN: Mapping[str, Any] = {
    "subscribed_smses": [],
    "subscribed_emails": [],
    "order_tags": [],
    "courier_destination_country_region": None,
    "courier_tracking_link": None,
    "courier_redirect_link": None,
    "courier_connection_id": None,
    "shipment_package_count": None,
    "on_time_status": None,
    "on_time_difference": None,
    "aftership_estimated_delivery_date": None,
    "custom_estimated_delivery_date": None,
    "first_estimated_delivery": None,
    "carbon_emissions": None,
    "first_mile": None,
    "last_mile": None,
}
"""What AfterShip knows and nobody here."""

MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "Pending_001": "Pending",
        "InfoReceived_001": "Info received",
        "InTransit_001": "In transit",
        "InTransit_002": "Acceptance scan",
        "InTransit_003": "Arrival scan",
        "InTransit_004": "Arrived at the destination country or region",
        "InTransit_005": "Customs clearance completed",
        "InTransit_006": "Customs clearance started",
        "InTransit_007": "Departure scan",
        "InTransit_008": "Problem resolved",
        "InTransit_009": "Forwarded to a different delivery address",
        "OutForDelivery_001": "Out for delivery",
        "OutForDelivery_003": "Customer contacted",
        "OutForDelivery_004": "Delivery appointment scheduled",
        "AttemptFail_001": "Failed attempt",
        "AttemptFail_002": "Addressee not available",
        "AttemptFail_003": "Business closed",
        "Delivered_001": "Delivered",
        "Delivered_002": "Picked up by the customer",
        "Delivered_003": "Signed by the customer",
        "Delivered_004": "Delivered, and paid in cash",
        "Delivered_005": "Left with a neighbour",
        "AvailableForPickup_001": "Available for pickup",
        "Exception_001": "Exception",
        "Exception_002": "Customer moved",
        "Exception_003": "Customer refused delivery",
        "Exception_004": "Delayed by customs clearance",
        "Exception_005": "Delayed by external factors",
        "Exception_006": "Held for payment",
        "Exception_007": "Incorrect address",
        "Exception_008": "Pickup missed",
        "Exception_009": "Rejected by the courier",
        "Exception_010": "Returning to sender",
        "Exception_011": "Returned to sender",
        "Exception_012": "Shipment damaged",
        "Exception_013": "Shipment lost",
        "Expired_001": "Expired",
    }
)
"""A test keeps it whole for every subtag that couriers' modules give."""
