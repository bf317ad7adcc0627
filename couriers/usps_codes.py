"""What the Postal Service's own codes mean in AfterShip's words."""

from __future__ import annotations

from couriers import words
from couriers.words import Status

EVENTS: dict[str, Status] = {
    # Before the Postal Service has it.
    "MA": words.INFO_RECEIVED,
    "GX": words.INFO_RECEIVED,
    "GA": words.INFO_RECEIVED,
    "89": words.INFO_RECEIVED,
    # Shipping partners, accepted, moving.
    "80": words.ACCEPTED,
    "81": words.ARRIVED,
    "82": words.DEPARTED,
    "83": words.ACCEPTED,
    "03": words.ACCEPTED,
    "OA": words.ACCEPTED,
    "PA": words.ACCEPTED,
    "TM": words.ACCEPTED,
    "UA": words.ACCEPTED,
    "AD": words.ACCEPTED,
    "07": words.ARRIVED,
    "10": words.ARRIVED,
    "14": words.ARRIVED,
    "19": words.ARRIVED,
    "41": words.ARRIVED,
    "A1": words.ARRIVED,
    "42": words.DEPARTED,
    "EF": words.DEPARTED,
    "SF": words.DEPARTED,
    "T1": words.DEPARTED,
    "L1": words.IN_TRANSIT,
    "EX": words.IN_TRANSIT,
    "NT": words.IN_TRANSIT,
    "TL": words.IN_TRANSIT,
    "PC": words.IN_TRANSIT,
    "08": words.IN_TRANSIT,
    "15": words.IN_TRANSIT,
    "17": words.IN_TRANSIT,
    "06": words.FORWARDED,
    # "Awaiting delivery scan": nobody knows better, and nothing is wrong yet.
    "DX": words.IN_TRANSIT,
    # At the addressee's end.
    "OF": words.OUT_FOR_DELIVERY,
    "16": words.FOR_PICKUP,
    "02": words.ATTEMPTED,
    "51": words.BUSINESS_CLOSED,
    "52": words.ATTEMPTED,
    "53": words.ATTEMPTED,
    "54": words.ATTEMPTED,
    "55": words.ATTEMPTED,
    "56": words.ATTEMPTED,
    "01": words.DELIVERED,
    "43": words.COLLECTED,
    # What went wrong.
    "04": words.REFUSED,
    "05": words.WRONG_ADDRESS,
    "21": words.WRONG_ADDRESS,
    "22": words.WRONG_ADDRESS,
    "25": words.WRONG_ADDRESS,
    "26": words.WRONG_ADDRESS,
    "23": words.MOVED,
    "24": words.MOVED,
    "27": words.PICKUP_MISSED,
    "28": words.PROBLEM,
    "11": words.PROBLEM,
    "09": words.RETURNING,
    "29": words.RETURNING,
    "31": words.RETURNING,
    "44": words.RETURNING,
}
"""`eventCode`: Publication 199, appendix on tracking scan events, with codes seen in answers."""

CATEGORIES: dict[str, Status] = {
    "pre-shipment": words.INFO_RECEIVED,
    "accepted": words.ACCEPTED,
    "in transit": words.IN_TRANSIT,
    "in-transit": words.IN_TRANSIT,
    "moving through network": words.IN_TRANSIT,
    "preparing for delivery": words.ARRIVED,
    "forwarded": words.FORWARDED,
    "out for delivery": words.OUT_FOR_DELIVERY,
    "delivery attempt": words.ATTEMPTED,
    "delivery attempt: action needed": words.ATTEMPTED,
    "available for pickup": words.FOR_PICKUP,
    # Somebody else has it, who may be a shipping partner: not yet the addressee.
    "delivered to agent": words.FOR_PICKUP,
    "delivered": words.DELIVERED,
    "return to sender": words.RETURNING,
    "returned to sender": words.RETURNED,
    "alert": words.PROBLEM,
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
