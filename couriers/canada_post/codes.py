"""What Canada Post's event identifiers mean in AfterShip's words."""

from __future__ import annotations

from couriers.reading import statuses

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "3000 3002",
        statuses.ACCEPTED: "1300 1301 1302 1303 2300 4000",
        statuses.IN_TRANSIT: (
            "100 101 102 103 104 105 106 107 170 175 804 815 1240 1241 1244 1444 1703 1705 2500 "
            "2501 4100 4550 4900"
        ),
        statuses.ARRIVED: "113 400 405 4600",
        statuses.ARRIVED_ABROAD: "700 701 4310 4311",
        statuses.DEPARTED: "114 115 116 410 4202 4950 8901",
        statuses.FORWARDED: "1480 1490",
        statuses.CUSTOMS_BEGUN: "800 2601 4330 4400",
        statuses.CUSTOMS_DONE: "130 900 910 4450 4500 5201",
        statuses.CUSTOMS_DELAY: "127 810 1487 1495",
        statuses.OUT_FOR_DELIVERY: "174 500",
        # A parcel locker of the post's is not yet the addressee: 1406 is the collection out of it.
        statuses.FOR_PICKUP: "156 1405 1407 1435 1436 1437 1438 1479 1488 1701 2407",
        statuses.ATTEMPTED: "630 1443",
        statuses.BUSINESS_CLOSED: "1411 2411",
        statuses.DELIVERED: (
            "1421 1422 1423 1424 1425 1426 1427 1428 1429 1430 1431 1432 1433 1434 1441 1442 1461 "
            "1462 1463 1465 1466 1467 1468 1469 1471 1472 1473 1475 1476 1496 1497 1498 1499 5300"
        ),
        statuses.SIGNED_FOR: "1408 1409",
        statuses.COLLECTED: "1406",
        statuses.PROBLEM: (
            "117 118 150 172 179 621 622 623 624 625 626 627 628 1245 1410 1414 1450 1483 1484 "
            "1493 1494 2410 2414 4650 4700"
        ),
        statuses.WRONG_ADDRESS: "120 171 173 1412 2412",
        statuses.OUTSIDE_CAUSE: "159 160 161 162 163",
        statuses.REFUSED: "121",
        statuses.PICKUP_MISSED: "629",
        statuses.DAMAGED: "710",
        statuses.RETURNING: (
            "167 168 169 181 182 183 184 1100 1415 1416 1417 1418 1419 1420 1481 1482 1491 1492 "
            "2600 2802 3001"
        ),
    }
)
"""`event-identifier` without leading zeros: the developer programme's table of scan events."""

SIGNATURES = frozenset({"20", "21"})
"""A signature was recorded: in the second of the delivery, later, or before another delivery."""

_NO_PLACE = (
    "152 190 198 610 611 612 613 614 615 616 617 618 619 620 1200 1203 1210 1214 1215 1216 1220 "
    "1221 1223 1224 1225 1230 1232 1234 2001 2101"
)
SILENT = SIGNATURES | frozenset(_NO_PLACE.split())
"""Events that say nothing new of the parcel's way: signatures and photos, new dates, payments,
wishes of the addressee, and where a delivered parcel lies."""

UNKNOWN = frozenset({"004"})
REFUSED = frozenset({"E002", "AA001", "AA002", "AA003", "AA004", "AA005", "AA006"})
THROTTLED = "Server"
"""`code` of messages: no history (yet); our credentials; "Rejected by SLM Monitor"."""

ZONES: dict[str, tuple[str, int]] = {
    "NST": ("America/St_Johns", -210),
    "NDT": ("America/St_Johns", -150),
    "AST": ("America/Halifax", -240),
    "ADT": ("America/Halifax", -180),
    "EST": ("America/Toronto", -300),
    "EDT": ("America/Toronto", -240),
    "CST": ("America/Winnipeg", -360),
    "CDT": ("America/Winnipeg", -300),
    "MST": ("America/Edmonton", -420),
    "MDT": ("America/Edmonton", -360),
    "PST": ("America/Vancouver", -480),
    "PDT": ("America/Vancouver", -420),
    # Saskatchewan, which has no summer time.
    "CSTNO": ("America/Regina", -360),
}
"""`event-time-zone`: Canada's abbreviations, with the zone that has them and the minutes that they
name. Abroad it is empty or a country's name: no offset."""

_PROVINCES = "AB BC MB NB NL NS NT NU ON PE QC SK YT"
PROVINCES = frozenset(_PROVINCES.split())
