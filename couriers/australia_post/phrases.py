"""The meanings of Australia Post's statuses, sentences and error codes."""

from __future__ import annotations

from couriers.reading import statuses

STATUSES: dict[str, statuses.Status] = {
    "created": statuses.INFO_RECEIVED,
    "sealed": statuses.INFO_RECEIVED,
    "initiated": statuses.INFO_RECEIVED,
    "in transit": statuses.IN_TRANSIT,
    "delivered": statuses.DELIVERED,
    "awaiting collection": statuses.FOR_PICKUP,
    "possible delay": statuses.PROBLEM,
    "unsuccessful pickup": statuses.PROBLEM,
    "article damaged": statuses.DAMAGED,
    "cancelled": statuses.PROBLEM,
    "held by courier": statuses.PROBLEM,
    "cannot be delivered": statuses.WRONG_ADDRESS,
    "at delivery depot": statuses.ARRIVED,
    "booked in": statuses.ARRIVED,
    "delivered in full": statuses.DELIVERED,
    "final shortage": statuses.PROBLEM,
    "on board for delivery": statuses.OUT_FOR_DELIVERY,
    # A part of a consignment is not the consignment.
    "partial delivery": statuses.IN_TRANSIT,
    "picked up": statuses.ACCEPTED,
    "ready for pickup": statuses.FOR_PICKUP,
    "re-consigned": statuses.FORWARDED,
    "scanned in transit": statuses.IN_TRANSIT,
    "to be re-delivered": statuses.ATTEMPTED,
    "unsuccessful delivery": statuses.ATTEMPTED,
}
"""`status` of an article, in lower case: the tables of articles and of StarTrack consignments."""

SILENT = frozenset({"unknown", "track items for detailed delivery information"})
"""Statuses that leave it to the events, or to the articles of a consignment."""

SENTENCES: dict[str, statuses.Status] = {
    "shipping information received by australia post": statuses.INFO_RECEIVED,
    "shipping information approved by australia post": statuses.INFO_RECEIVED,
    "shipment information received": statuses.INFO_RECEIVED,
    "received by australia post": statuses.ACCEPTED,
    "received and accepted by australia post": statuses.ACCEPTED,
    "received by our network": statuses.ACCEPTED,
    "item lodged": statuses.ACCEPTED,
    "we've got it": statuses.ACCEPTED,
    "incorrectly sorted and forwarded to correct location": statuses.FORWARDED,
    "redirected to new address": statuses.FORWARDED,
    "received item from sender (outbound)": statuses.ACCEPTED,
    "cleared and awaiting international departure": statuses.IN_TRANSIT,
    "processed through australia post facility": statuses.IN_TRANSIT,
    "item processed at facility": statuses.IN_TRANSIT,
    "processed by air carrier": statuses.IN_TRANSIT,
    "arrived at facility in destination country": statuses.ARRIVED_ABROAD,
    "arrived awaiting clearance (inbound)": statuses.CUSTOMS_BEGUN,
    "item is in customs": statuses.CUSTOMS_BEGUN,
    "item cleared by customs": statuses.CUSTOMS_DONE,
    "onboard for delivery": statuses.OUT_FOR_DELIVERY,
    "on board for delivery": statuses.OUT_FOR_DELIVERY,
    "with australia post for delivery today": statuses.OUT_FOR_DELIVERY,
    "it's coming today": statuses.OUT_FOR_DELIVERY,
    "delivered": statuses.DELIVERED,
    "delivered - left in a safe place": statuses.DELIVERED,
    "delivered in full": statuses.DELIVERED,
}
"""Whole sentences of events, in lower case, as its samples have them."""

INVALID = frozenset({"ESB-10001", "ESB-10002"})
UNKNOWN = frozenset({"51104"})
DOWN = frozenset({"ESB-20010", "ESB-20050", "99999"})
TOO_MANY = frozenset({"API_002"})
"""Codes of errors: no number of theirs, or no tracked product; not found (yet); an outage, also
inside a 200; too many requests. The rest (51100 to 51103) says that we asked wrongly."""
