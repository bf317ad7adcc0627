"""What the codes of Hermes Germany mean in AfterShip's words.

Source: Hermes' list of event codes, which names each event twice: by three numbers (what, why,
where) and by an older one of four digits.
"""

from __future__ import annotations

from couriers.reading import statuses

EVENTS: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "000",
        statuses.ACCEPTED: "010 037 065",
        statuses.IN_TRANSIT: "030 035 101",
        statuses.CUSTOMS_BEGUN: "033",
        statuses.ARRIVED: "045 080 085",
        statuses.PROBLEM: "048",
        statuses.DEPARTED: "050",
        statuses.FOR_PICKUP: "055",
        statuses.ATTEMPTED: "060",
        statuses.DELIVERED: "090",
        statuses.RETURNING: "100 115",
        # "The return shipment has arrived at the client", who sent the parcel.
        statuses.RETURNED: "125",
    }
)
"""The first of the three numbers: what happened."""

REASONS: dict[str, statuses.Status] = statuses.by_code(
    {
        # 000…: announced, and not yet where it was expected. 080004: kept because the road there
        # is full, or a part of the shipment is missing. 100006, 100007: called a return, and only
        # turned round. 320…: cancelled, among wishes that say nothing of the way.
        statuses.PROBLEM: (
            "000001 000002 000003 000004 060007 060009 060024 060095 080004 100006 100007 320020 "
            "320021"
        ),
        statuses.CUSTOMS_DONE: "033002",
        statuses.CUSTOMS_DELAY: "033003 033051",
        # 055002: to the carrier of an island. 100008: to its right place, called a return.
        statuses.FORWARDED: "033005 033006 055002 100008",
        # At a shop, by who sends it.
        statuses.ACCEPTED: "045001008",
        statuses.PROBLEM_SOLVED: "048090 060090 100090",
        statuses.OUT_FOR_DELIVERY: "050001",
        # 060000: back from its round.
        statuses.IN_TRANSIT: "050024 050029 050090 060000",
        statuses.REFUSED: "060001",
        statuses.WRONG_ADDRESS: "060002",
        statuses.NOBODY_THERE: "060003 060004 060005 060006",
        # 100005: called a return, and only turned round: it is checked.
        statuses.DAMAGED: "060008 100005",
        statuses.PAYMENT_DUE: "060010",
        statuses.PICKUP_MISSED: "060012",
        statuses.COLLECTED: "090003",
    }
)
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
