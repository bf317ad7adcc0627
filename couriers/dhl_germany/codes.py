"""The meanings of DHL Paket's codes, in AfterShip's words.

Source: DHL's table of ICE events and RIC reasons, July 2024. The standard event code that DHL puts
beside them is too coarse to be trusted alone: it calls a parcel that was destroyed "ZU", which
means "delivery successful".
"""

from __future__ import annotations

from couriers.reading import statuses

EVENTS: dict[str, statuses.Status] = {
    # Before DHL has it.
    "PARCV": statuses.INFO_RECEIVED,
    "PURCR": statuses.INFO_RECEIVED,
    "NTPUP": statuses.PROBLEM,
    "CANCL": statuses.PROBLEM,
    # Accepted, moving.
    "PCKDU": statuses.ACCEPTED,
    "SHRCU": statuses.ACCEPTED,
    "ASMVT": statuses.IN_TRANSIT,
    "LDTHU": statuses.IN_TRANSIT,
    "LDTMV": statuses.IN_TRANSIT,
    "SRTED": statuses.IN_TRANSIT,
    "SECHK": statuses.IN_TRANSIT,
    "RELBL": statuses.IN_TRANSIT,
    "REPCK": statuses.IN_TRANSIT,
    "MVDPT": statuses.DEPARTED,
    "MVARR": statuses.ARRIVED,
    "ULFMV": statuses.ARRIVED,
    "INFCL": statuses.ARRIVED,
    "FWDCF": statuses.FORWARDED,
    "HNDDE": statuses.FORWARDED,
    "OFWRD": statuses.FORWARDED,
    "ROUCR": statuses.FORWARDED,
    "TRBCR": statuses.FORWARDED,
    # The driver deleted the event before: whatever that was, it did not happen.
    "STORN": statuses.IN_TRANSIT,
    # Customs.
    "HNDND": statuses.CUSTOMS_BEGUN,
    "ICPRC": statuses.CUSTOMS_BEGUN,
    "ITBAR": statuses.CUSTOMS_BEGUN,
    "HLDCP": statuses.CUSTOMS_BEGUN,
    "HLDCU": statuses.CUSTOMS_DELAY,
    "RSDCP": statuses.CUSTOMS_DONE,
    # At the addressee's end.
    "CNRFC": statuses.FOR_PICKUP,
    "HLDCC": statuses.FOR_PICKUP,
    "DLVRD": statuses.DELIVERED,
    "DLVRF": statuses.REFUSED,
    "NTDEL": statuses.ATTEMPTED,
    # What went wrong.
    "ALERT": statuses.PROBLEM,
    "CHECK": statuses.PROBLEM,
    "CNFSC": statuses.PROBLEM,
    "DMGDS": statuses.DAMAGED,
    "DSPSD": statuses.PROBLEM,
    "DTNPC": statuses.PROBLEM,
    "EXPHD": statuses.PROBLEM,
    "LDEXC": statuses.PROBLEM,
    "MSRTD": statuses.PROBLEM,
    "MVDEX": statuses.PROBLEM,
    "MVTEX": statuses.PROBLEM,
    "NTADT": statuses.PROBLEM,
    "PBNDT": statuses.PROBLEM,
    "RCCLS": statuses.PROBLEM,
    "RETRN": statuses.RETURNING,
}
"""`ice`: what happened."""

REASONS: dict[tuple[str, str], statuses.Status] = {
    ("DLVRD", "ACCPK"): statuses.COLLECTED,
    ("DLVRD", "SERPT"): statuses.COLLECTED,
    ("DLVRD", "NGHBR"): statuses.AT_NEIGHBOUR,
    # Handed to customs "for inspection and delivery": the addressee does not have it.
    ("DLVRD", "CUSTM"): statuses.CUSTOMS_BEGUN,
    # Likewise: handed to another carrier.
    ("DLVRD", "HNDTC"): statuses.FORWARDED,
    ("DLVRF", "DMGED"): statuses.DAMAGED,
    ("DLVRF", "TRPMT"): statuses.PAYMENT_DUE,
    ("DMGDS", "LDMGD"): statuses.IN_TRANSIT,
    ("HLDCC", "NTCCN"): statuses.PICKUP_MISSED,
    ("NTDEL", "NHOME"): statuses.NOBODY_THERE,
    ("NTDEL", "CNCNR"): statuses.NOBODY_THERE,
    ("NTDEL", "CLOSD"): statuses.BUSINESS_CLOSED,
    ("NTDEL", "CPUNK"): statuses.WRONG_ADDRESS,
    ("NTDEL", "RFUSD"): statuses.REFUSED,
    ("NTDEL", "NTCCN"): statuses.PICKUP_MISSED,
    ("OFWRD", "RTSCR"): statuses.RETURNING,
    ("OFWRD", "RTSSA"): statuses.RETURNING,
    ("EXPHD", "RTTSP"): statuses.RETURNING,
    ("EXPHD", "LOSTX"): statuses.LOST,
    ("RCCLS", "LOSTX"): statuses.LOST,
    ("EXPHD", "DMPHD"): statuses.DAMAGED,
    ("EXPHD", "CLREF"): statuses.CUSTOMS_DELAY,
    ("EXPHD", "PWMFD"): statuses.CUSTOMS_DELAY,
    ("REPCK", "DMGPC"): statuses.DAMAGED,
}
"""`ice` with the `ric` that changes its meaning."""

WHY: dict[str, statuses.Status] = {
    "BDADD": statuses.WRONG_ADDRESS,
    "WRGRI": statuses.WRONG_ADDRESS,
    "MOVED": statuses.MOVED,
    "DMGED": statuses.DAMAGED,
    "DMGPC": statuses.DAMAGED,
    "FRMJR": statuses.OUTSIDE_CAUSE,
    "TRPMT": statuses.PAYMENT_DUE,
}
"""`ric` that says why, of an event in EXPLAINED."""

EXPLAINED = frozenset({"ALERT", "EXPHD", "LDEXC", "MVDEX", "MVTEX", "NTDEL", "PURCR"})

STANDARD: dict[str, statuses.Status] = {
    "VA": statuses.INFO_RECEIVED,
    "AN": statuses.PROBLEM,
    "AE": statuses.ACCEPTED,
    "ES": statuses.ACCEPTED,
    "AA": statuses.DEPARTED,
    "EE": statuses.ARRIVED,
    "LA": statuses.ARRIVED,
    "NB": statuses.IN_TRANSIT,
    "PO": statuses.OUT_FOR_DELIVERY,
    "ZO": statuses.CUSTOMS_BEGUN,
    "ZF": statuses.FOR_PICKUP,
    "ZN": statuses.ATTEMPTED,
    "BV": statuses.PROBLEM,
    "ZU": statuses.DELIVERED,
}
"""`standard-event-code`, for an event that has no `ice`."""

LOADED = frozenset({"LDTMV", "SRTED"})
"""`ice` of what happens on all stretches of the way: the standard code says on which."""

STRETCHES = frozenset({"AA", "AE", "EE", "ES", "PO"})

SILENT = frozenset({"ADVIS", "PMTCR", "PMTCS"})
SILENT_STANDARD = frozenset({"DD", "GT"})
SILENT_REASONS = frozenset(
    {
        ("ALERT", "DLVTM"),
        ("DLVRD", "CODAR"),
        ("DLVRD", "CODRP"),
        ("PURCR", "REJCT"),
        ("PURCR", "SECPL"),
    }
)
"""Wishes and notices, and the way of the money of a parcel that was paid on delivery."""

NOT_YET = frozenset({"100", "200"})
INVALID = frozenset({"41"})
MALFORMED = frozenset({"45"})
REFUSED = frozenset({"5", "6", "62"})
"""`code` of the whole answer, "0" if all is well; but for 100, as users of the service tell."""
