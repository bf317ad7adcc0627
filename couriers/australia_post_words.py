"""What Australia Post's statuses, sentences and error codes mean."""

from __future__ import annotations

from couriers import words
from couriers.words import Status

STATUSES: dict[str, Status] = {
    "created": words.INFO_RECEIVED,
    "sealed": words.INFO_RECEIVED,
    "initiated": words.INFO_RECEIVED,
    "in transit": words.IN_TRANSIT,
    "delivered": words.DELIVERED,
    "awaiting collection": words.FOR_PICKUP,
    "possible delay": words.PROBLEM,
    "unsuccessful pickup": words.PROBLEM,
    "article damaged": words.DAMAGED,
    "cancelled": words.PROBLEM,
    "held by courier": words.PROBLEM,
    "cannot be delivered": words.WRONG_ADDRESS,
    "at delivery depot": words.ARRIVED,
    "booked in": words.ARRIVED,
    "delivered in full": words.DELIVERED,
    "final shortage": words.PROBLEM,
    "on board for delivery": words.OUT_FOR_DELIVERY,
    # A part of a consignment is not the consignment.
    "partial delivery": words.IN_TRANSIT,
    "picked up": words.ACCEPTED,
    "ready for pickup": words.FOR_PICKUP,
    "re-consigned": words.FORWARDED,
    "scanned in transit": words.IN_TRANSIT,
    "to be re-delivered": words.ATTEMPTED,
    "unsuccessful delivery": words.ATTEMPTED,
}
"""`status` of an article, in lower case: the tables of articles and of StarTrack consignments."""

SILENT = frozenset({"unknown", "track items for detailed delivery information"})
"""Statuses that leave it to the events, or to the articles of a consignment."""

SENTENCES: dict[str, Status] = {
    "shipping information received by australia post": words.INFO_RECEIVED,
    "shipping information approved by australia post": words.INFO_RECEIVED,
    "shipment information received": words.INFO_RECEIVED,
    "received by australia post": words.ACCEPTED,
    "received and accepted by australia post": words.ACCEPTED,
    "received by our network": words.ACCEPTED,
    "item lodged": words.ACCEPTED,
    "we've got it": words.ACCEPTED,
    "incorrectly sorted and forwarded to correct location": words.FORWARDED,
    "redirected to new address": words.FORWARDED,
    "received item from sender (outbound)": words.ACCEPTED,
    "cleared and awaiting international departure": words.IN_TRANSIT,
    "processed through australia post facility": words.IN_TRANSIT,
    "item processed at facility": words.IN_TRANSIT,
    "processed by air carrier": words.IN_TRANSIT,
    "arrived at facility in destination country": words.ARRIVED_ABROAD,
    "arrived awaiting clearance (inbound)": words.CUSTOMS_BEGUN,
    "item is in customs": words.CUSTOMS_BEGUN,
    "item cleared by customs": words.CUSTOMS_DONE,
    "onboard for delivery": words.OUT_FOR_DELIVERY,
    "on board for delivery": words.OUT_FOR_DELIVERY,
    "with australia post for delivery today": words.OUT_FOR_DELIVERY,
    "it's coming today": words.OUT_FOR_DELIVERY,
    "delivered": words.DELIVERED,
    "delivered - left in a safe place": words.DELIVERED,
    "delivered in full": words.DELIVERED,
}
"""Whole sentences of events, in lower case, as its samples have them."""

INVALID = frozenset({"ESB-10001", "ESB-10002"})
UNKNOWN = frozenset({"51104"})
DOWN = frozenset({"ESB-20010", "ESB-20050", "99999"})
TOO_MANY = frozenset({"API_002"})
"""Codes of errors: no number of theirs, or no tracked product; not found (yet); an outage, also
inside a 200; too many requests. The rest (51100 to 51103) says that we asked wrongly."""
