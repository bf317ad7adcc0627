"""The meanings of Correios' pairs of event and type, in AfterShip's words.

The list of events in Correios' manual of its older tracking service, which has the same pairs.
What it calls delivered to the contracting party, or delivered of a collection, stands in no table.
"""

from __future__ import annotations

from couriers.reading import statuses

_ROUND_ENDS: dict[statuses.Status, str] = {
    statuses.IN_TRANSIT: "15 22 32 45 53 66",
    statuses.DELIVERED: "00 01 70",
    statuses.AT_NEIGHBOUR: "67",
    statuses.FOR_PICKUP: "24 68",
    statuses.NOBODY_THERE: "02 18 20",
    statuses.BUSINESS_CLOSED: "25",
    statuses.ATTEMPTED: "33 35 46",
    statuses.CUSTOMS_BEGUN: "55 58 59 77",
    statuses.CUSTOMS_DONE: "57",
    statuses.CUSTOMS_DELAY: "40 44 56 81 83",
    statuses.PAYMENT_DUE: "54",
    statuses.FORWARDED: "87",
    statuses.PROBLEM: "03 09 12 29 30 38 39 41 43 47 60 61 69 71 72 73 74 75 76 84 85",
    statuses.REFUSED: "04",
    statuses.WRONG_ADDRESS: "06 07 08 19 34 82",
    statuses.MOVED: "10",
    statuses.PICKUP_MISSED: "26",
    statuses.DAMAGED: "13 28 37 86",
    statuses.LOST: "50 51 52 80 98",
    statuses.RETURNING: "05 14 21 36 42 48 49 62 89",
    statuses.RETURNED: "23",
}
"""The types of BDE, BDI and BDR: how a round of deliveries ended for an object."""

_OTHERS: dict[statuses.Status, str] = {
    statuses.INFO_RECEIVED: "FC-82 CO-02 CO-03 CO-04 CO-05 CO-07",
    statuses.ACCEPTED: "PO-00 PO-01 PO-09 CO-01",
    statuses.ARRIVED: ("CAR-01 CMR-01 CD-00 CD-01 CD-02 CD-03 CMT-00 CUN-00 CUN-01 FC-10 PAR-18"),
    statuses.DEPARTED: "DO-00 DO-01 DO-02 RO-00 RO-01 PMT-01 TRI-00",
    statuses.IN_TRANSIT: "FC-02 FC-05 FC-08 LDI-11 LDI-13",
    # "Received in" a place: the country of destination, not the addressee.
    statuses.ARRIVED_ABROAD: "PAR-15 PAR-16",
    statuses.CUSTOMS_BEGUN: (
        "PAR-12 PAR-14 PAR-21 PAR-22 PAR-27 PAR-32 FC-12 FC-13 FC-19 FC-24 FC-26 FC-27 FC-31 "
        "FC-32 FC-33 FC-34 FC-35 FC-37"
    ),
    statuses.CUSTOMS_DONE: "PAR-10 PAR-19 PAR-28 PAR-31 PAR-34 PAR-42 BDR-31",
    statuses.CUSTOMS_DELAY: "PAR-25 FC-41",
    statuses.PROBLEM_SOLVED: "BLQ-44 BLQ-54 BLQ-61",
    statuses.PAYMENT_DUE: "PAR-11 PAR-17 PAR-30 PAR-33",
    statuses.OUT_FOR_DELIVERY: "OEC-00 OEC-01",
    statuses.FOR_PICKUP: "LDI-00 LDI-01 LDI-02 LDI-03 LDI-04 LDI-14",
    statuses.BUSINESS_CLOSED: "FC-07",
    statuses.WRONG_ADDRESS: "FC-04",
    statuses.REFUSED: "PAR-26",
    statuses.PROBLEM: (
        "BLQ-01 BLQ-02 BLQ-05 BLQ-11 BLQ-21 BLQ-22 BLQ-51 CO-06 CO-09 CO-10 CO-13 FC-03 FC-09 "
        "FC-29 FC-42 PAR-20 PAR-41 BDR-63"
    ),
    statuses.DAMAGED: "FC-11",
    statuses.LOST: "BLQ-31 FC-51 IDC-01 IDC-02 IDC-03 IDC-04 IDC-05 IDC-06 IDC-07",
    # OEC-09 and LDE: the carrier brings it to the sender.
    statuses.RETURNING: "FC-01 FC-47 LDE-00 LDE-09 OEC-09 PAR-13 PAR-23 PAR-24 PAR-40 BDR-64",
}

CODES: dict[str, statuses.Status] = {
    f"{event}-{kind}": status
    for status, kinds in _ROUND_ENDS.items()
    for kind in kinds.split()
    for event in ("BDE", "BDI", "BDR")
} | {code: status for status, codes in _OTHERS.items() for code in codes.split()}
"""`codigo` and `tipo`, as "BDE-01"."""

REVOKES = "EST"
"""`codigo` of "please disregard the previous information"."""

SILENT = frozenset(f"{REVOKES}-{kind}" for kind in ("01", "02", "03", "04", "05", "06", "09"))
"""Events that say nothing of where an object is."""
