"""What FedEx' own status codes mean in AfterShip's words."""

from __future__ import annotations

from couriers.reading import statuses

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "OC OX IN MD EP",
        statuses.ACCEPTED: "PU PX AP OF",
        statuses.IN_TRANSIT: "IT IX AE AO EA ED EO OW PF PM RL SP",
        statuses.ARRIVED: "AA AC AF AR AX FD PL SF",
        statuses.DEPARTED: "DP LO TR",
        statuses.CUSTOMS_BEGUN: "CP",
        statuses.CUSTOMS_DONE: "CC",
        statuses.CUSTOMS_DELAY: "CD",
        statuses.OUT_FOR_DELIVERY: "OD AD",
        statuses.FOR_PICKUP: "HL HP",
        statuses.DELIVERED: "DL",
        statuses.PROBLEM: "DE SE CA",
        statuses.OUTSIDE_CAUSE: "DY DD PD PY",
        statuses.RETURNING: "RS RT",
    }
)
"""`eventType`, `latestStatusDetail.code` and `.derivedCode`: the API reference's status codes."""

REASONS: dict[str, statuses.Status] = {
    "03": statuses.WRONG_ADDRESS,
    "07": statuses.REFUSED,
    "08": statuses.NOBODY_THERE,
}
"""`exceptionCode`, which tells why an event DE or SE came about; else its words do."""

SILENT = frozenset({"CH", "DR", "DS", "HA", "LP", "RC", "RD", "RG", "RM", "RP", "RR"})
"""Codes of the same list that say nothing of where a parcel is: wishes of the addressee, labels for
a return that may come, vehicles on their way to the sender."""

UNKNOWN = "NOTFOUND"
"""How the codes of all errors end that mean "not known (yet)"."""

INVALID = frozenset({"TRACKING.TRACKINGNUMBER.INVALID"})
DOWN = ("SYSTEM.", "INTERNAL.", "SERVICE.UNAVAILABLE")
"""How the codes of outages begin, which also come inside a 200."""
REFUSED = frozenset({"NOT.AUTHORIZED.ERROR", "FORBIDDEN.ERROR", "LOGIN.REAUTHENTICATE.ERROR"})
