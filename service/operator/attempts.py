"""Attempts to enter, counted in MongoDB for all processes: the collection `login_attempts`.

========== ======================================================================================
attempt    may be made, in 15 minutes or an hour
========== ======================================================================================
`login`    10 times for an e-mail, 50 times from an address; one that succeeds does not count
`sign-up`  5 and 20 times in an hour, of which each has a mail sent
`reset`    5 and 20 times in an hour, in the same way
`invite`   100 times in an hour by an account, in the place of an e-mail
`mail`     10 times in an hour by an account: a test of where its alerts go
========== ======================================================================================

An e-mail or an address counts under the first digits of its SHA-256, so there are some 400,000
documents at most, whatever is tried, and none of them says who tried. Two that share these digits
share their attempts. An address of IPv6 counts with its /64, which is given to one household.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address, ip_address, ip_network

from pymongo import ReturnDocument

from service.operator.connections import Collections
from service.operator.keys import digest
from service.worker.results.database import Document
from tracking.errors import NotNow

DIGITS = 4
"""Of the SHA-256, in hexadecimal: 65,536 places for each way to count."""


class Attempt(StrEnum):
    """What somebody tries."""

    LOGIN = "login"
    SIGN_UP = "sign-up"
    RESET = "reset"
    INVITE = "invite"
    TEST_MAIL = "mail"


@dataclass(frozen=True, slots=True)
class Bound:
    """How often it may be tried in so many seconds, for one e-mail and from one address."""

    email: int
    address: int
    seconds: int


BOUNDS = {
    Attempt.LOGIN: Bound(10, 50, 900),
    Attempt.SIGN_UP: Bound(5, 20, 3_600),
    Attempt.RESET: Bound(5, 20, 3_600),
    Attempt.INVITE: Bound(100, 0, 3_600),
    Attempt.TEST_MAIL: Bound(10, 0, 3_600),
}


class TooOften(NotNow):
    """It was tried too often."""


def count_attempt(stores: Collections, what: Attempt, email: str, address: str = "") -> None:
    """Count an attempt before it is made. Raises TooOften, PyMongoError.

    What is refused for its address does not count for the e-mail, which is somebody else's.
    """
    seconds = BOUNDS[what].seconds
    for name, most in _places(what, email, address).items():
        found = _count(stores, name, seconds)
        if found["count"] > most:
            left = (found["until"] - dt.datetime.now(dt.UTC)).total_seconds()
            minutes = max(1, round(left / 60))
            raise TooOften(f"this was tried too often: try again in {minutes} minutes", left)


def give_back(stores: Collections, what: Attempt, email: str, address: str) -> None:
    """Give an attempt back that succeeded: it alone, so that nobody earns more by their own."""
    names = list(_places(what, email, address))
    stores.login_attempts.update_many({"_id": {"$in": names}}, {"$inc": {"count": -1}})


def _places(what: Attempt, email: str, address: str) -> dict[str, int]:
    """Name where it counts, and how often it may there; acts of accounts have no address."""
    bound = BOUNDS[what]
    by_email = {f"{what}:email:{digest(email)[:DIGITS]}": bound.email}
    if not address:
        return by_email
    return {f"{what}:address:{digest(network_of(address))[:DIGITS]}": bound.address} | by_email


def network_of(address: str) -> str:
    """Give what counts as one address: of IPv6 the /64; what is no address is itself."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or ip_network((int(found), 64), strict=False))
    return str(found)


def _count(stores: Collections, name: str, seconds: int) -> Document:
    # MongoDB deletes what is over within a minute or so: until then it begins from one here.
    over = {"$lte": ["$until", "$$NOW"]}
    counted = {"$cond": [over, 1, {"$add": ["$count", 1]}]}
    until = {"$cond": [over, {"$add": ["$$NOW", seconds * 1000]}, "$until"]}
    change = [{"$set": {"count": counted, "until": until}}]
    return stores.login_attempts.find_one_and_update(
        {"_id": name}, change, upsert=True, return_document=ReturnDocument.AFTER
    ) or {"count": 0}
