"""The meanings of Hermes Germany's codes, in AfterShip's words.

Source: Hermes' list of event codes, which names each event twice: by three numbers (what, why,
where) and by an older one of four digits.
"""

from __future__ import annotations

from couriers.reading import statuses

EVENTS: dict[str, statuses.Status] = {
    "000": statuses.INFO_RECEIVED,
    "010": statuses.ACCEPTED,
    "030": statuses.IN_TRANSIT,
    "033": statuses.CUSTOMS_BEGUN,
    "035": statuses.IN_TRANSIT,
    "037": statuses.ACCEPTED,
    "045": statuses.ARRIVED,
    "048": statuses.PROBLEM,
    "050": statuses.DEPARTED,
    "055": statuses.FOR_PICKUP,
    "060": statuses.ATTEMPTED,
    "065": statuses.ACCEPTED,
    "080": statuses.ARRIVED,
    "085": statuses.ARRIVED,
    "090": statuses.DELIVERED,
    "100": statuses.RETURNING,
    "101": statuses.IN_TRANSIT,
    "115": statuses.RETURNING,
    # "The return shipment has arrived at the client", who sent the parcel.
    "125": statuses.RETURNED,
}
"""The first of the three numbers: what happened."""

REASONS: dict[str, statuses.Status] = {
    # Announced, and not yet where it was expected.
    "000001": statuses.PROBLEM,
    "000002": statuses.PROBLEM,
    "000003": statuses.PROBLEM,
    "000004": statuses.PROBLEM,
    "033002": statuses.CUSTOMS_DONE,
    "033003": statuses.CUSTOMS_DELAY,
    "033005": statuses.FORWARDED,
    "033006": statuses.FORWARDED,
    "033051": statuses.CUSTOMS_DELAY,
    # At a shop, by who sends it.
    "045001008": statuses.ACCEPTED,
    "048090": statuses.PROBLEM_SOLVED,
    "050001": statuses.OUT_FOR_DELIVERY,
    "050024": statuses.IN_TRANSIT,
    "050029": statuses.IN_TRANSIT,
    "050090": statuses.IN_TRANSIT,
    # To the carrier of an island.
    "055002": statuses.FORWARDED,
    # Back from its round.
    "060000": statuses.IN_TRANSIT,
    "060001": statuses.REFUSED,
    "060002": statuses.WRONG_ADDRESS,
    "060003": statuses.NOBODY_THERE,
    "060004": statuses.NOBODY_THERE,
    "060005": statuses.NOBODY_THERE,
    "060006": statuses.NOBODY_THERE,
    "060007": statuses.PROBLEM,
    "060008": statuses.DAMAGED,
    "060009": statuses.PROBLEM,
    "060010": statuses.PAYMENT_DUE,
    "060012": statuses.PICKUP_MISSED,
    "060024": statuses.PROBLEM,
    "060090": statuses.PROBLEM_SOLVED,
    "060095": statuses.PROBLEM,
    # Kept because the road there is full, or a part of the shipment is missing.
    "080004": statuses.PROBLEM,
    "090003": statuses.COLLECTED,
    # Called a return, and only turned round: it is checked, or goes to its right place.
    "100005": statuses.DAMAGED,
    "100006": statuses.PROBLEM,
    "100007": statuses.PROBLEM,
    "100008": statuses.FORWARDED,
    "100090": statuses.PROBLEM_SOLVED,
    # Cancelled, among wishes that say nothing of the way.
    "320020": statuses.PROBLEM,
    "320021": statuses.PROBLEM,
}
"""The first two of the three numbers, or all, where they change the meaning."""

SILENT = frozenset({"031", "310", "320", "380", "390"})
"""Measured; wishes of the addressee, and that they were taken back."""

OLD_EVENTS: dict[str, str] = {
    "00": "000",
    "06": "000001",
    "07": "000002",
    "08": "000003",
    "09": "000004",
    "10": "010",
    "15": "030",
    "16": "035",
    "17": "033",
    "18": "033005",
    "19": "037",
    "20": "045",
    "21": "045",
    "23": "045",
    "24": "045001008",
    "30": "050001",
    "33": "050024",
    "34": "055",
    "35": "090",
    "37": "060",
    "40": "060",
    "41": "080",
    "45": "085",
    "46": "048",
    "60": "100",
    "75": "125",
    "90": "031",
    "93": "320",
}
"""How the older codes begin, and what they are called now."""

OLD: dict[str, str] = {
    "1520": "115",
    "1720": "033002",
    "1730": "033003",
    "1751": "033051",
    "3010": "050021",
    "3430": "055002",
    "3530": "090003",
    "3710": "060001",
    "3715": "060010",
    "3720": "060002",
    "3731": "060003",
    "3732": "060004",
    "3733": "060005",
    "3734": "060006",
    "3740": "060008",
    "3750": "060009",
    "3760": "065001",
    "3761": "065002",
    "3780": "060007",
    "3795": "060095",
    "4010": "060001",
    "4015": "060010",
    "4020": "060002",
    "4024": "060024",
    "4025": "060000",
    "4031": "060003",
    "4032": "060004",
    "4033": "060005",
    "4034": "060006",
    "4035": "060012",
    "4040": "060008",
    "4050": "060009",
    "4060": "065001",
    "4061": "065002",
    "4062": "065002",
    "4070": "050090",
    "4072": "060090",
    "4080": "060007",
    "4095": "060095",
    "4690": "048090",
    "6085": "100005",
    "6086": "100006",
    "6087": "100007",
    "6088": "100008",
    "6090": "101001",
    "9340": "320020",
    "9341": "320021",
}
"""Older codes that mean more than their beginning."""

NOT_YET = "e001"
SUCCESS = "i001"
TOKEN_REFUSED = frozenset({"e902", "e903"})
FORBIDDEN = "e900"
"""`code` of a result, or of an error."""
