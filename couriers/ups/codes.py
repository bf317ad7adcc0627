"""What UPS' own status codes mean in AfterShip's words."""

from __future__ import annotations

from couriers.reading import statuses

_MEANINGS: dict[statuses.Status, str] = {
    statuses.INFO_RECEIVED: "3 44 45 77 79 80 157 166",
    statuses.ACCEPTED: "38 160 167 168 169",
    statuses.IN_TRANSIT: "5 10 16 25 39 47 57 70 71 73 74 75 87 137 138 158 159 164 165",
    statuses.CUSTOMS_BEGUN: "12 92 123 126",
    statuses.CUSTOMS_DONE: "14 84 134",
    statuses.PROBLEM_SOLVED: "94 127 128",
    statuses.FORWARDED: "28 63 96",
    statuses.OUT_FOR_DELIVERY: "6 21 37 72 78 89 91 146 162",
    # Delivered to an agent or a post office is not yet delivered to the addressee.
    statuses.FOR_PICKUP: "17 40 100 106 108 143 144 161",
    statuses.ATTEMPTED: "22 23 24 60 61 62 66 145",
    statuses.DELIVERED: "11 26",
    statuses.PROBLEM: "7 13 29 30 43 49 69 76 83 93 129 130 139 140 142 147 149",
    statuses.OUTSIDE_CAUSE: "32 46 48 51 52 53 55 86 90 132",
    statuses.CUSTOMS_DELAY: "58 124 125 141",
    statuses.PAYMENT_DUE: "85",
    statuses.WRONG_ADDRESS: "50",
    statuses.REFUSED: "64",
    statuses.RETURNING: "33 35 36 118 119",
    statuses.RETURNED: "34 67",
    statuses.DAMAGED: "59 81",
    statuses.LOST: "68",
}

STATUS_CODES: dict[str, statuses.Status] = {
    f"{int(code):03}": status for status, codes in _MEANINGS.items() for code in codes.split()
}
"""`statusCode`, three digits: UPS' list of customer-facing texts (its own is incomplete)."""

_NO_PLACE = (
    "0 18 19 20 27 41 42 54 56 65 82 88 95 97 98 99 101 102 103 104 105 107 109 110 111 112 "
    "113 114 115 116 117 120 121 122 131 133 135 136 148 150 151 152 153 154 155 163"
)
SILENT = frozenset(f"{int(code):03}" for code in _NO_PLACE.split())
"""Codes of the same list that say nothing of where a parcel is: requests by the addressee, changed
dates, attempts to collect from the sender, and a photo, which comes before the delivery."""

ACTIVITIES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "MP",
        statuses.ACCEPTED: "XD PU",
        statuses.IN_TRANSIT: "OR DS YP EP IP ZA ZC ZW LX YH 3P 6B",
        statuses.ARRIVED: "AR",
        statuses.DEPARTED: "DP",
        statuses.FORWARDED: "HM",
        statuses.OUT_FOR_DELIVERY: "OF OT",
        statuses.NOBODY_THERE: "48",
        statuses.BUSINESS_CLOSED: "G3",
        statuses.ATTEMPTED: "5R",
        statuses.FOR_PICKUP: "2Q ZP",
        statuses.DELIVERED: "9E FS KB KE YC",
        statuses.COLLECTED: "2W",
    }
)
"""`code` of an activity, two characters, as its users have seen them; UPS lists them nowhere."""

TYPES: dict[str, statuses.Status] = {
    "M": statuses.INFO_RECEIVED,
    "MV": statuses.PROBLEM,
    "P": statuses.ACCEPTED,
    "I": statuses.IN_TRANSIT,
    "DO": statuses.IN_TRANSIT,
    "DD": statuses.IN_TRANSIT,
    "W": statuses.IN_TRANSIT,
    "O": statuses.OUT_FOR_DELIVERY,
    "D": statuses.DELIVERED,
    "RS": statuses.RETURNING,
}
"""`type`, for codes in neither list. X is left out: it covers ordinary customs progress."""

UNKNOWN = frozenset({"TW0001", "TJ001"})
INVALID = frozenset({"TV1002"})
REFUSED = frozenset({"250001", "250002", "250003", "10401"})
"""Codes of warnings and errors: not known yet, never a number, our credentials."""
