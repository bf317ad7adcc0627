"""What UPS' own status codes mean in AfterShip's words."""

from __future__ import annotations

from couriers import words
from couriers.words import Status

_MEANINGS: dict[Status, str] = {
    words.INFO_RECEIVED: "3 44 45 77 79 80 157 166",
    words.ACCEPTED: "38 160 167 168 169",
    words.IN_TRANSIT: "5 10 16 25 39 47 57 70 71 73 74 75 87 137 138 158 159 164 165",
    words.CUSTOMS_BEGUN: "12 92 123 126",
    words.CUSTOMS_DONE: "14 84 134",
    words.PROBLEM_SOLVED: "94 127 128",
    words.FORWARDED: "28 63 96",
    words.OUT_FOR_DELIVERY: "6 21 37 72 78 89 91 146 162",
    # Delivered to an agent or a post office is not yet delivered to the addressee.
    words.FOR_PICKUP: "17 40 100 106 108 143 144 161",
    words.ATTEMPTED: "22 23 24 60 61 62 66 145",
    words.DELIVERED: "11 26",
    words.PROBLEM: "7 13 29 30 43 49 69 76 83 93 129 130 139 140 142 147 148 149",
    words.OUTSIDE_CAUSE: "32 46 48 51 52 53 55 86 90 132 154",
    words.CUSTOMS_DELAY: "58 124 125 141",
    words.PAYMENT_DUE: "85",
    words.WRONG_ADDRESS: "50",
    words.REFUSED: "64",
    words.RETURNING: "33 35 36 118 119",
    words.RETURNED: "34 67",
    words.DAMAGED: "59 81",
    words.LOST: "68",
}

STATUS_CODES: dict[str, Status] = {
    f"{int(code):03}": status for status, codes in _MEANINGS.items() for code in codes.split()
}
"""`statusCode`, three digits: UPS' list of customer-facing texts (its own is incomplete)."""

_NO_PLACE = (
    "0 18 19 20 27 41 42 54 56 65 82 88 95 97 98 99 101 102 103 104 105 107 109 110 111 112 "
    "113 114 115 116 117 120 121 122 131 133 135 136 150 151 152 153 155 163"
)
SILENT = frozenset(f"{int(code):03}" for code in _NO_PLACE.split())
"""Codes of the same list that say nothing of where a parcel is: requests by the addressee, changed
dates, attempts to collect from the sender, and a photo, which comes before the delivery."""

_ACTIVITIES: dict[Status, str] = {
    words.INFO_RECEIVED: "MP",
    words.ACCEPTED: "XD PU",
    words.IN_TRANSIT: "OR DS YP EP IP ZA ZC ZW LX YH 3P 6B",
    words.ARRIVED: "AR",
    words.DEPARTED: "DP",
    words.FORWARDED: "HM",
    words.OUT_FOR_DELIVERY: "OF OT",
    words.NOBODY_THERE: "48",
    words.BUSINESS_CLOSED: "G3",
    words.ATTEMPTED: "5R",
    words.FOR_PICKUP: "2Q ZP",
    words.DELIVERED: "9E FS KB KE YC",
    words.COLLECTED: "2W",
}

ACTIVITIES: dict[str, Status] = {
    code: status for status, codes in _ACTIVITIES.items() for code in codes.split()
}
"""`code` of an activity, two characters, as its users have seen them; UPS lists them nowhere."""

TYPES: dict[str, Status] = {
    "M": words.INFO_RECEIVED,
    "MV": words.PROBLEM,
    "P": words.ACCEPTED,
    "I": words.IN_TRANSIT,
    "DO": words.IN_TRANSIT,
    "DD": words.IN_TRANSIT,
    "W": words.IN_TRANSIT,
    "O": words.OUT_FOR_DELIVERY,
    "D": words.DELIVERED,
    "RS": words.RETURNING,
}
"""`type`, for codes in neither list. X is left out: it covers ordinary customs progress."""

UNKNOWN = frozenset({"TW0001", "TJ001"})
INVALID = frozenset({"TV1002"})
REFUSED = frozenset({"250001", "250002", "250003", "10401"})
"""Codes of warnings and errors: not known yet, never a number, our credentials."""
