"""What the codes of DHL Paket mean in AfterShip's words.

Source: DHL's table of ICE events and RIC reasons, July 2024. The standard event code that DHL puts
beside them is too coarse to be trusted alone: it calls a parcel that was destroyed "ZU", which
means "delivery successful".
"""

from __future__ import annotations

from couriers.reading import statuses

EVENTS: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "PARCV PURCR",
        statuses.PROBLEM: (
            "NTPUP CANCL ALERT CHECK CNFSC DSPSD DTNPC EXPHD LDEXC MSRTD MVDEX MVTEX NTADT PBNDT "
            "RCCLS"
        ),
        statuses.ACCEPTED: "PCKDU SHRCU",
        # STORN: the driver deleted the event before; whatever that was, it did not happen.
        statuses.IN_TRANSIT: "ASMVT LDTHU LDTMV SRTED SECHK RELBL REPCK STORN",
        statuses.DEPARTED: "MVDPT",
        statuses.ARRIVED: "MVARR ULFMV INFCL",
        statuses.FORWARDED: "FWDCF HNDDE OFWRD ROUCR TRBCR",
        statuses.CUSTOMS_BEGUN: "HNDND ICPRC ITBAR HLDCP",
        statuses.CUSTOMS_DELAY: "HLDCU",
        statuses.CUSTOMS_DONE: "RSDCP",
        statuses.FOR_PICKUP: "CNRFC HLDCC",
        statuses.DELIVERED: "DLVRD",
        statuses.REFUSED: "DLVRF",
        statuses.ATTEMPTED: "NTDEL",
        statuses.DAMAGED: "DMGDS",
        statuses.RETURNING: "RETRN",
    }
)
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
