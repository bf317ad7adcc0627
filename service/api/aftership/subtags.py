"""What AfterShip's subtags mean, in words: `subtag_message`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
