"""Statuses in AfterShip's words, to which every courier's codes and sentences are brought.

A sentence is the last resort, where a courier gives no known code. Sentences lie: "not delivered",
"delivered to a parcel shop" and "text message delivered" hold the word and mean something else. So
what a sentence holds never ends a parcel's journey: `recognise` knows no Delivered, the rules that
look like it come first, and what no rule knows is "in transit", which keeps the parcel being asked
for. Only a sentence that is known from its first word to its last may end it (`recognise_end`), and
only where a courier gives no code beside it.

`python tests/couriers/phrase_precision.py` measures both on the couriers' own wordings.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from couriers.reading.answer import text
from tracking.checkpoint import Checkpoint, Tag


class Status(NamedTuple):
    """A tag and its subtag, in AfterShip's words."""

    tag: Tag
    subtag: str


INFO_RECEIVED = Status(Tag.INFO_RECEIVED, "InfoReceived_001")
IN_TRANSIT = Status(Tag.IN_TRANSIT, "InTransit_001")
ACCEPTED = Status(Tag.IN_TRANSIT, "InTransit_002")
ARRIVED = Status(Tag.IN_TRANSIT, "InTransit_003")
ARRIVED_ABROAD = Status(Tag.IN_TRANSIT, "InTransit_004")
CUSTOMS_DONE = Status(Tag.IN_TRANSIT, "InTransit_005")
CUSTOMS_BEGUN = Status(Tag.IN_TRANSIT, "InTransit_006")
DEPARTED = Status(Tag.IN_TRANSIT, "InTransit_007")
PROBLEM_SOLVED = Status(Tag.IN_TRANSIT, "InTransit_008")
FORWARDED = Status(Tag.IN_TRANSIT, "InTransit_009")
OUT_FOR_DELIVERY = Status(Tag.OUT_FOR_DELIVERY, "OutForDelivery_001")
APPOINTMENT = Status(Tag.OUT_FOR_DELIVERY, "OutForDelivery_004")
ATTEMPTED = Status(Tag.ATTEMPT_FAIL, "AttemptFail_001")
NOBODY_THERE = Status(Tag.ATTEMPT_FAIL, "AttemptFail_002")
BUSINESS_CLOSED = Status(Tag.ATTEMPT_FAIL, "AttemptFail_003")
DELIVERED = Status(Tag.DELIVERED, "Delivered_001")
COLLECTED = Status(Tag.DELIVERED, "Delivered_002")
SIGNED_FOR = Status(Tag.DELIVERED, "Delivered_003")
AT_NEIGHBOUR = Status(Tag.DELIVERED, "Delivered_005")
FOR_PICKUP = Status(Tag.AVAILABLE_FOR_PICKUP, "AvailableForPickup_001")
PROBLEM = Status(Tag.EXCEPTION, "Exception_001")
MOVED = Status(Tag.EXCEPTION, "Exception_002")
REFUSED = Status(Tag.EXCEPTION, "Exception_003")
CUSTOMS_DELAY = Status(Tag.EXCEPTION, "Exception_004")
OUTSIDE_CAUSE = Status(Tag.EXCEPTION, "Exception_005")
PAYMENT_DUE = Status(Tag.EXCEPTION, "Exception_006")
WRONG_ADDRESS = Status(Tag.EXCEPTION, "Exception_007")
PICKUP_MISSED = Status(Tag.EXCEPTION, "Exception_008")
REJECTED = Status(Tag.EXCEPTION, "Exception_009")
RETURNING = Status(Tag.EXCEPTION, "Exception_010")
RETURNED = Status(Tag.EXCEPTION, "Exception_011")
DAMAGED = Status(Tag.EXCEPTION, "Exception_012")
LOST = Status(Tag.EXCEPTION, "Exception_013")


_RULES: tuple[tuple[str, Status], ...] = (
    (r"not (?:yet )?(?:been )?received|awaiting (?:item|your parcel)", INFO_RECEIVED),
    # A reminder to fetch it: nothing has gone back yet.
    (r"\b(?:will|may) be returned\b.*\b(?:if|unless|within|not collected)\b", FOR_PICKUP),
    (r"(?:label|order|shipment) (?:has been )?created|pre-?advice|order details", INFO_RECEIVED),
    (r"preparing (?:the )?item for posting|pre-?shipment", INFO_RECEIVED),
    (r"return(?:ed|ing)?\b.*\b(?:sender|shipper)|being returned|on its way back", RETURNING),
    (r"refused", REFUSED),
    (r"no access|no secure location|receptacle|animal interference", ATTEMPTED),
    (r"held at (?:the )?post office", FOR_PICKUP),
    (r"\bdamaged?\b", DAMAGED),
    (r"(?:incorrect|insufficient|wrong|incomplete) address", WRONG_ADDRESS),
    (r"address (?:is|was) (?:incorrect|insufficient|wrong|incomplete)", WRONG_ADDRESS),
    (
        r"cancelled|canceled|\bdelay|\bpostponed|\bunable to\b|\bproblem\b|exception|\bon hold\b",
        PROBLEM,
    ),
    (r"nobody|no[ -]?one|not (?:at )?home|\bwere out\b|\bwas out\b|no response", NOBODY_THERE),
    (r"no authori[sz]ed recipient", NOBODY_THERE),
    (r"(?:customer|recipient|receiver|addressee|consignee) (?:was )?not available", NOBODY_THERE),
    (r"(?:business|location) (?:was )?closed", BUSINESS_CLOSED),
    (r"\bnot (?:be |been )?delivered|undeliver|attempt|unsuccessful|incomplete", ATTEMPTED),
    (r"deliver(?:y|ed) (?:was |could )?(?:not|fail)|missed you|sorry we", ATTEMPTED),
    (
        r"(?:awaiting|ready for|available for|for) (?:re-?delivery or )?(?:collection|pick-? ?up)",
        FOR_PICKUP,
    ),
    (r"(?<!will be )delivered (?:to|at) (?:a |the |your )?[\w' ]{0,30}(?:shop|store)", FOR_PICKUP),
    (
        r"(?<!will be )delivered (?:to|at) (?:a |the |your )?[\w' ]{0,30}(?:locker|point)",
        FOR_PICKUP,
    ),
    (r"out for delivery|on (?:the|a) vehicle|with (?:the|your|our) driver", OUT_FOR_DELIVERY),
    (r"onto (?:the|a) delivery vehicle|(?:with delivery|out with) courier", OUT_FOR_DELIVERY),
    (r"delivery\b.*\bis in progress", OUT_FOR_DELIVERY),
    (r"will be with you today|will be delivered today|being delivered today", OUT_FOR_DELIVERY),
    (
        r"released (?:from|by) customs|cleared customs|(?<!being )customs cleared|taxes paid",
        CUSTOMS_DONE,
    ),
    (r"vat has been paid|import is complete", CUSTOMS_DONE),
    (r"out of customs|clearance (?:processing )?complete|cleared by customs", CUSTOMS_DONE),
    (r"customs|\bclearance\b", CUSTOMS_BEGUN),
    (
        r"\bdeparted|\bhas left\b|\bleft\b.*\b(?:for|facility|destination|country)|despatched",
        DEPARTED,
    ),
    (r"arrived (?:at|in) (?:the )?(?:country of destination|destination country)", ARRIVED_ABROAD),
    (r"\barrived|\bis at our depot|\blanded in\b", ARRIVED),
    (r"\baccepted|\bposted\b|\bcollected from\b|picked[- ]up|we have your parcel", ACCEPTED),
    (r"dropped off", ACCEPTED),
)


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], Status], ...]:
    """Compile the rules when the first sentence is read: to detect a number takes none of them."""
    return tuple((re.compile(pattern, re.IGNORECASE), status) for pattern, status in _RULES)


_TO_THE_SENDER = re.compile(
    r"\bdelivered,?(?: successfully| safely)?(?: back)? to (?:the |its |your )?(?:original )?"
    r"(?:sender|shipper|consignor)\b(?!['\u2019]s)",
    re.IGNORECASE,
)
_TO_THE_RECIPIENT = re.compile(
    # A message that is sent to the recipient is no parcel.
    r"\bdelivered\b(?:(?!sent|noti|messag|await|ready)[^.,;]){0,40} to (?:the |its |your )?"
    r"(?:recipient|addressee|consignee|receiver)\b(?!['\u2019]s)",
    re.IGNORECASE,
)


def recognise(sentence: str) -> Status | None:
    """Find the nearest safe status for a sentence; never Delivered, None when no rule knows it."""
    if _TO_THE_SENDER.search(sentence):
        return RETURNING
    found = next((status for pattern, status in _compiled() if pattern.search(sentence)), None)
    return None if found == FOR_PICKUP and _TO_THE_RECIPIENT.search(sentence) else found


_PARCEL = (
    r"(?:(?:your|the|this|our) )?(?:shipment item|mail ?piece|mail item|parcel|package|packet|item"
    r"|shipment|consignment|article|order|letter|it)"
)
_DONE = rf"(?:{_PARCEL} )?(?:(?:has been|have been|was|is) )?(?:now )?(?:successfully |safely )?"
_PLACE = (
    r"(?:recipient|addressee|consignee|receiver|customer|individual|neighbou?r|household member"
    r"|family member|reception(?:ist)?|front desk|mail ?box|letter ?box|mail ?room|safe place"
    r"|safe location|secure location|p\.?o\.? box|residence|home|door ?step|porch|garage"
    r"|(?:front|back|rear|side) door(?:/porch)?|door|delivery address|address|mail slot)"
)
_WHOSE = r"(?:the |your |a |its |an? authori[sz]ed )?(?:recipient's |addressee's |receiver's )?"
_WHERE = (
    rf"(?: ?[,;:-]? (?:left )?(?:to|with|at|in|on|by|in/at)? ?{_WHOSE}{_PLACE}(?: as requested)?)"
)
_SIGNED = r"(?: ?[,;:-]? (?:and )?signed(?: for)?(?: by:? [^,;:]{1,60})?)"
_DELIVERED = re.compile(
    rf"{_DONE}delivered(?: successfully| safely| in full)?{_WHERE}{{0,2}}(?P<signed>{_SIGNED})?"
)
_COLLECTED = re.compile(
    rf"{_DONE}(?:collected|picked up) by (?:the )?(?:recipient|addressee|consignee|receiver)"
    r"(?: (?:at|from) [^,;:]{1,60})?"
)
_RETURNED = re.compile(
    rf"{_DONE}(?:delivered(?: back)?|returned successfully|(?<=successfully )returned|given back)"
    r",? to (?:the |its |your )?(?:original )?(?:sender|shipper|consignor)"
)


def recognise_end(sentence: str) -> Status | None:
    """Read an end that a whole sentence says: delivered, collected, or back at the sender.

    None for every sentence that says a word more. For events without a code: one that has a code
    which its module does not know is none of these.
    """
    said = whole(sentence)
    if _RETURNED.fullmatch(said):
        return RETURNED
    if _COLLECTED.fullmatch(said):
        return COLLECTED
    found = _DELIVERED.fullmatch(said)
    if found is None:
        return None
    if re.search(r"neighbou?r", said):
        return AT_NEIGHBOUR
    return SIGNED_FOR if found["signed"] else DELIVERED


def status_from_words(sentence: str) -> Status:
    """Find the nearest safe status for a sentence; never Delivered, "in transit" when unknown."""
    return recognise(sentence) or IN_TRANSIT


def unless_sent_back(status: Status, sentence: str) -> Status:
    """Correct a courier's code for "delivered" by a sentence that says that the sender has it."""
    back = status.tag is Tag.DELIVERED and _TO_THE_SENDER.search(sentence)
    return RETURNED if back else status


def unless_denied(status: Status, sentence: str) -> Status:
    """Correct a courier's code for "delivered" by a sentence that says to whom: a shop, the sender.

    Some couriers give the parcel shop, the way back and its end the code of a delivery. "Delivered
    to the sender" is that end; "returned to the sender" may be said when the way back begins.
    """
    status = unless_sent_back(status, sentence)
    denial = recognise(sentence) if status.tag is Tag.DELIVERED else None
    return denial if denial in (FOR_PICKUP, RETURNING) else status


def whole(sentence: str) -> str:
    """Bring a status sentence into the form in which tables hold it: lower case, no full stop."""
    return " ".join(sentence.lower().replace("\u2019", "'").split()).rstrip(".! ")


def by_code(codes: Mapping[Status, str]) -> dict[str, Status]:
    """Turn a table of each status' codes, parted by blanks, into one of what a code means."""
    return {code: status for status, listed in codes.items() for code in listed.split()}


def unknown_codes(codes: Iterable[str | int | None], *tables: Container[str]) -> tuple[str, ...]:
    """List the status codes that no table of a module holds, each once."""
    given = {code for each in codes if (code := text(each))}
    return tuple(sorted(code for code in given if not any(code in table for table in tables)))


def refined(status: Status, last: Checkpoint | None) -> Status:
    """Give a courier's coarse status the detail of the newest event that bears one.

    Only where both say the same, where the event says more of a parcel that is under way, or where
    what the status calls delivered went back to the sender.
    """
    if last is None:
        return status
    status = unless_returned(status, last)
    says_more = status == IN_TRANSIT and last.tag is Tag.OUT_FOR_DELIVERY
    return Status(last.tag, last.subtag) if says_more or last.tag is status.tag else status


def unless_returned(status: Status, last: Checkpoint | None) -> Status:
    """Call a delivery a return where the newest event says that the sender has it."""
    back = status.tag is Tag.DELIVERED and last is not None and last.subtag == RETURNED.subtag
    return RETURNED if back else status
