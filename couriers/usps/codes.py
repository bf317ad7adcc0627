"""The meanings of the Postal Service's own codes, in AfterShip's words."""

from __future__ import annotations

from couriers.reading import statuses

EVENTS: dict[str, statuses.Status] = {
    # Before the Postal Service has it.
    "MA": statuses.INFO_RECEIVED,
    "GX": statuses.INFO_RECEIVED,
    "GA": statuses.INFO_RECEIVED,
    "89": statuses.INFO_RECEIVED,
    # Shipping partners, accepted, moving.
    "80": statuses.ACCEPTED,
    "81": statuses.ARRIVED,
    "82": statuses.DEPARTED,
    "83": statuses.ACCEPTED,
    "03": statuses.ACCEPTED,
    "OA": statuses.ACCEPTED,
    "PA": statuses.ACCEPTED,
    "TM": statuses.ACCEPTED,
    "UA": statuses.ACCEPTED,
    "AD": statuses.ACCEPTED,
    "07": statuses.ARRIVED,
    "10": statuses.ARRIVED,
    "14": statuses.ARRIVED,
    "19": statuses.ARRIVED,
    "41": statuses.ARRIVED,
    "A1": statuses.ARRIVED,
    "42": statuses.DEPARTED,
    "EF": statuses.DEPARTED,
    "SF": statuses.DEPARTED,
    "T1": statuses.DEPARTED,
    "L1": statuses.IN_TRANSIT,
    "EX": statuses.IN_TRANSIT,
    "NT": statuses.IN_TRANSIT,
    "TL": statuses.IN_TRANSIT,
    "PC": statuses.IN_TRANSIT,
    "08": statuses.IN_TRANSIT,
    "15": statuses.IN_TRANSIT,
    "17": statuses.IN_TRANSIT,
    "06": statuses.FORWARDED,
    # "Awaiting delivery scan": nobody knows better, and nothing is wrong yet.
    "DX": statuses.IN_TRANSIT,
    # At the addressee's end.
    "OF": statuses.OUT_FOR_DELIVERY,
    "16": statuses.FOR_PICKUP,
    "02": statuses.ATTEMPTED,
    "51": statuses.BUSINESS_CLOSED,
    "52": statuses.ATTEMPTED,
    "53": statuses.ATTEMPTED,
    "54": statuses.ATTEMPTED,
    "55": statuses.ATTEMPTED,
    "56": statuses.ATTEMPTED,
    "01": statuses.DELIVERED,
    "43": statuses.COLLECTED,
    # What went wrong.
    "04": statuses.REFUSED,
    "05": statuses.WRONG_ADDRESS,
    "21": statuses.WRONG_ADDRESS,
    "22": statuses.WRONG_ADDRESS,
    "25": statuses.WRONG_ADDRESS,
    "26": statuses.WRONG_ADDRESS,
    "23": statuses.MOVED,
    "24": statuses.MOVED,
    "27": statuses.PICKUP_MISSED,
    "28": statuses.PROBLEM,
    "11": statuses.PROBLEM,
    "09": statuses.RETURNING,
    "29": statuses.RETURNING,
    "31": statuses.RETURNING,
    "44": statuses.RETURNING,
}
"""`eventCode`: Publication 199, appendix on tracking scan events, with codes seen in answers."""

CATEGORIES: dict[str, statuses.Status] = {
    "pre-shipment": statuses.INFO_RECEIVED,
    "accepted": statuses.ACCEPTED,
    "in transit": statuses.IN_TRANSIT,
    "in-transit": statuses.IN_TRANSIT,
    "moving through network": statuses.IN_TRANSIT,
    "preparing for delivery": statuses.ARRIVED,
    "forwarded": statuses.FORWARDED,
    "out for delivery": statuses.OUT_FOR_DELIVERY,
    "delivery attempt": statuses.ATTEMPTED,
    "delivery attempt: action needed": statuses.ATTEMPTED,
    "available for pickup": statuses.FOR_PICKUP,
    # Somebody else has it, who may be a shipping partner: not yet the addressee.
    "delivered to agent": statuses.FOR_PICKUP,
    "delivered": statuses.DELIVERED,
    "return to sender": statuses.RETURNING,
    "returned to sender": statuses.RETURNED,
    "alert": statuses.PROBLEM,
}
"""`statusCategory`, in lower case: the status of the parcel as a whole."""

REFUSED = frozenset(
    {"access_denied", "invalid_client", "invalid_grant", "invalid_token", "unauthorized_client"}
)
"""`error` where it is only a word: the credentials or the token are not accepted."""

NOT_YET = frozenset({"150001", "150002", "150003", "150004", "150009"})
"""`error.errors[].code`: no update yet, or a number nobody has scanned; ask again."""

NEVER = frozenset({"150007", "150008", "150010", "150011", "150012"})
"""`error.errors[].code`: another carrier's number, a pickup's, a fraud's; asking again is vain."""
