"""What PostNL's status and event codes mean in AfterShip's words."""

from __future__ import annotations

from couriers.reading import statuses

STATUSES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "1 13 14",
        # 23: collected at the sender's.
        statuses.ACCEPTED: "2 3 23",
        # 18: "definitely missing" in the phase of collection, so it never came to the courier.
        statuses.PROBLEM: "4 6 15 16 17 18",
        statuses.IN_TRANSIT: "5 21 31",
        statuses.OUT_FOR_DELIVERY: "7",
        statuses.ATTEMPTED: "8",
        statuses.CUSTOMS_BEGUN: "9 20",
        statuses.DELIVERED: "11",
        statuses.FOR_PICKUP: "12",
        statuses.REJECTED: "19",
        statuses.COLLECTED: "22",
        statuses.RETURNING: "27 28",
    }
)
"""`StatusCode`: the developer portal's table."""

EVENTS: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "A01 A10 A71 F01 M01 M03 X80 A20 A21 A22",
        statuses.ACCEPTED: "B01 B04 B06 C01 X40 A73 A74",
        statuses.IN_TRANSIT: (
            "J01 J06 X15 X16 A72 A75 Q15 Q16 Q17 Q18 Q19 S05 X19 X52 V12 V13 V22 V23 V50 A76"
        ),
        statuses.CUSTOMS_BEGUN: "X03 X60 X62 Y25 X10",
        statuses.CUSTOMS_DONE: "X04 X61 X65",
        statuses.CUSTOMS_DELAY: "X30 X63 X64 X66 Y46 Y64",
        statuses.PAYMENT_DUE: "X67",
        statuses.OUT_FOR_DELIVERY: "J05 X06 X55 Y05 J59",
        statuses.ATTEMPTED: "H34 K15 K16 K41 K70 K71 Y15 Y36 Y37 Y38 Y41",
        statuses.NOBODY_THERE: "K14 Y02 Y10 Y42 Y80",
        statuses.BUSINESS_CLOSED: "Y43",
        statuses.FOR_PICKUP: "I08 J02 J12 J23 J52 X05 Y26",
        statuses.DELIVERED: "I01 I03 I05 I09 I11 I12 I23 J91 Z01 Z02 Z03 Z04 Z08 Z09",
        statuses.AT_NEIGHBOUR: "I10 Z05",
        statuses.COLLECTED: "I02 I22 Z06",
        statuses.PROBLEM: "J07 K25 K91 V04 V31 G01 G02 G03 G05 T02 H23 H30 H31 Y29 Y45 Y48 Y71",
        statuses.OUTSIDE_CAUSE: "Y65",
        statuses.MOVED: "Y22",
        statuses.REFUSED: "Y03 Y13 Y44 Y50",
        statuses.WRONG_ADDRESS: "D02 D04 H36 Y01 Y09 Y12 Y17 Y30 Y31 Y32",
        statuses.DAMAGED: "Y04 Y11 Y14",
        statuses.REJECTED: "F03 F04 F05 F06 F07 F08 F10 X42 X43",
        statuses.RETURNING: (
            "H01 H02 H03 H04 H05 H07 H08 H09 H12 H15 H16 H17 H18 H20 H22 H24 H25 H38 H51 H52 K43 "
            "I07 X24 X81 Y16 Y18 Y19 Y20 Y21 Y40 Y47"
        ),
        statuses.RETURNED: "J63",
    }
)
"""`Code` of events, letter first: the portal's table, where many more only say "sorted"."""

_NO_PLACE = "A41 A42 A43 A46 A94 C02 J56 J80 K90 P20 P21 P22 P23 P24 Q14 I06"
SILENT = frozenset({"99", *_NO_PLACE.split()})
"""Not applicable, contacts, wishes; and I06, which counts as delivered when it is only sorted."""

NOTHING = frozenset({"2"})
"""`Code` of the warning "No shipment found"."""
