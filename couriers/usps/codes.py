"""What the Postal Service's own codes mean in AfterShip's words."""

from __future__ import annotations

from couriers.reading import statuses

EVENTS: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "MA GX GA 89",
        statuses.ACCEPTED: "80 83 03 OA PA TM UA AD",
        statuses.ARRIVED: "81 07 10 14 19 41 A1",
        statuses.DEPARTED: "82 42 EF SF T1",
        # DX: "awaiting delivery scan"; nobody knows better, and nothing is wrong yet.
        statuses.IN_TRANSIT: "L1 EX NT TL PC 08 15 17 DX",
        statuses.FORWARDED: "06",
        statuses.OUT_FOR_DELIVERY: "OF",
        statuses.FOR_PICKUP: "16",
        statuses.ATTEMPTED: "02 52 53 54 55 56",
        statuses.BUSINESS_CLOSED: "51",
        statuses.DELIVERED: "01",
        statuses.COLLECTED: "43",
        statuses.REFUSED: "04",
        statuses.WRONG_ADDRESS: "05 21 22 25 26",
        statuses.MOVED: "23 24",
        statuses.PICKUP_MISSED: "27",
        statuses.PROBLEM: "28 11",
        statuses.RETURNING: "09 29 31 44",
    }
)
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
