"""What PostNL's status and event codes mean in AfterShip's words."""

from __future__ import annotations

from couriers import words
from couriers.words import Status

STATUSES: dict[str, Status] = {
    "1": words.INFO_RECEIVED,
    "2": words.ACCEPTED,
    "3": words.ACCEPTED,
    "4": words.PROBLEM,
    "5": words.IN_TRANSIT,
    "6": words.PROBLEM,
    "7": words.OUT_FOR_DELIVERY,
    "8": words.ATTEMPTED,
    "9": words.CUSTOMS_BEGUN,
    "11": words.DELIVERED,
    "12": words.FOR_PICKUP,
    "13": words.INFO_RECEIVED,
    "14": words.INFO_RECEIVED,
    "15": words.PROBLEM,
    "16": words.PROBLEM,
    "17": words.PROBLEM,
    # "Definitely missing" stands in the phase of collection: it never came to the courier.
    "18": words.PROBLEM,
    "19": words.REJECTED,
    "20": words.CUSTOMS_BEGUN,
    "21": words.IN_TRANSIT,
    "22": words.COLLECTED,
    # Collected at the sender's.
    "23": words.ACCEPTED,
    "27": words.RETURNING,
    "28": words.RETURNING,
    "31": words.IN_TRANSIT,
}
"""`StatusCode`: the developer portal's table."""

_MEANINGS: dict[Status, str] = {
    words.INFO_RECEIVED: "A01 A10 A71 F01 M01 M03 X80 A20 A21 A22",
    words.ACCEPTED: "B01 B04 B06 C01 X40 A73 A74",
    words.IN_TRANSIT: (
        "J01 J06 X15 X16 A72 A75 Q15 Q16 Q17 Q18 Q19 S05 X19 X52 V12 V13 V22 V23 V50 A76"
    ),
    words.CUSTOMS_BEGUN: "X03 X60 X62 Y25 X10",
    words.CUSTOMS_DONE: "X04 X61 X65",
    words.CUSTOMS_DELAY: "X30 X63 X64 X66 Y46 Y64",
    words.PAYMENT_DUE: "X67",
    words.OUT_FOR_DELIVERY: "J05 X06 X55 Y05 J59",
    words.ATTEMPTED: "H34 K15 K16 K41 K70 K71 Y15 Y36 Y37 Y38 Y41",
    words.NOBODY_THERE: "K14 Y02 Y10 Y42 Y80",
    words.BUSINESS_CLOSED: "Y43",
    words.FOR_PICKUP: "I08 J02 J12 J23 J52 X05 Y26",
    words.DELIVERED: "I01 I03 I05 I09 I11 I12 I23 J91 Z01 Z02 Z03 Z04 Z08 Z09",
    words.AT_NEIGHBOUR: "I10 Z05",
    words.COLLECTED: "I02 I22 Z06",
    words.PROBLEM: "J07 K25 K91 V04 V31 G01 G02 G03 G05 T02 H23 H30 H31 Y29 Y45 Y48 Y71",
    words.OUTSIDE_CAUSE: "Y65",
    words.MOVED: "Y22",
    words.REFUSED: "Y03 Y13 Y44 Y50",
    words.WRONG_ADDRESS: "D02 D04 H36 Y01 Y09 Y12 Y17 Y30 Y31 Y32",
    words.DAMAGED: "Y04 Y11 Y14",
    words.REJECTED: "F03 F04 F05 F06 F07 F08 F10 X42 X43",
    words.RETURNING: (
        "H01 H02 H03 H04 H05 H07 H08 H09 H12 H15 H16 H17 H18 H20 H22 H24 H25 H38 H51 H52 K43 "
        "I07 X24 X81 Y16 Y18 Y19 Y20 Y21 Y40 Y47"
    ),
    words.RETURNED: "J63",
}

EVENTS: dict[str, Status] = {
    code: status for status, codes in _MEANINGS.items() for code in codes.split()
}
"""`Code` of events, letter first: the portal's table, where many more only say "sorted"."""

_NO_PLACE = "A41 A42 A43 A46 A94 C02 J56 J80 K90 P20 P21 P22 P23 P24 Q14 I06"
SILENT = frozenset({"99", *_NO_PLACE.split()})
"""Not applicable, contacts, wishes; and I06, which counts as delivered when it is only sorted."""

NOTHING = frozenset({"2"})
"""`Code` of the warning "No shipment found"."""
