"""Requests and accounts: a decoded job, whose it is, and its courier and number in one form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, NewType

from tracking.errors import MalformedJob

Account = NewType("Account", str)
"""A checked name: 1 to 20 of a-z and 0-9, as it may be part of a host's name."""

MAIN: Final = Account("main")
"""Owns what comes by the tube; its ids stand bare everywhere."""

NAME: Final = re.compile(r"[a-z0-9]{1,20}")


def parse_account(text: str) -> Account:
    """Check the name of an account. Raises ValueError, for a person."""
    if not NAME.fullmatch(text):
        raise ValueError(f"{text[:40]!r} names no account: write 1 to 20 of a-z and 0-9")
    return Account(text)


def operation_id(account: Account, identity: str) -> str:
    """Make the id by which the whole system knows an operation: no producer's id contains `/`."""
    return identity if account == MAIN else f"{account}/{identity}"


def own_number(number: str, account: Account) -> str:
    """Name an account's number as Redis has it: as if it were another one. No number holds `@`."""
    return number if account == MAIN else f"{number}@{account}"


def number_and_account(name: str) -> tuple[str, Account]:
    """Take apart what `own_number` made."""
    if "@" not in name:
        return name, MAIN
    number, _, account = name.partition("@")
    return number, Account(account)


def account_and_id(operation: str) -> tuple[Account, str]:
    """Take the id of an operation apart: whose it is, and what its producer calls it."""
    account, slash, identity = operation.partition("/")
    # The id of requests without one of their own holds a number, which may contain `/`: after `:`.
    return (Account(account), identity) if slash and NAME.fullmatch(account) else (MAIN, operation)


def anonymous_id(slug: str, number: str, job_key: str) -> str:
    """Name the operation of requests whose producer gave no id, by the key of the first job."""
    return f"{slug}:{number}:{job_key}"


def anonymous_in(operation: str) -> tuple[str, str, str] | None:
    """Read what `anonymous_id` made: slug, number and the key of the first job.

    None for any other id. One that a producer gave may have this form too; nothing is lost by it.
    """
    slug, _, rest = operation.partition(":")
    number, _, job = rest.rpartition(":")
    return (slug, number, job) if slug and number and job and ":" not in number else None


Slug = NewType("Slug", str)
"""A courier's name in AfterShip's vocabulary, checked by `parse_slug`, aliases resolved."""

Number = NewType("Number", str)
"""A tracking number in the form of lists, keys and `_id`; made only by `parse_number`."""

SLUG_MOST = 64
SLUG = r"[a-z0-9]+(-[a-z0-9]+)*"
_SLUG = re.compile(SLUG)
_NUMBER = re.compile(r"[A-Z0-9][A-Z0-9 ._/-]{3,99}")
_USUAL_NUMBER = re.compile(r"[A-Z0-9][A-Z0-9._/]{3,99}")
_DROPPED = " \t-"

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "tracking_postal_code": "the receiver's postal code",
        "tracking_ship_date": "the day of dispatch, YYYYMMDD",
        "tracking_account_number": "the sender's account with the courier",
        "tracking_key": "a key that the courier gave for this parcel",
        "tracking_origin_country": "where it comes from, ISO 3166 alpha-3",
        "tracking_destination_country": "where it goes, ISO 3166 alpha-3",
        "tracking_state": "the receiver's state",
    }
)
"""Texts that a request may carry besides its number, and what they hold; AfterShip's names.

One that stands here is decoded, merged with those of other requests for its number, handed to the
courier, stored with the answer, put again with each re-check, and known to the command line.
"""

FIELDS_PREFIX = "tracking_"
"""Command lines and files may leave it out."""

NO_FIELDS: Mapping[str, str] = MappingProxyType({})


class Origin(StrEnum):
    """The origin of a request: people and shops (MANUAL), a schedule (AUTOMATIC, which yields)."""

    MANUAL = "MANUAL"
    AUTOMATIC = "AUTOMATIC"


class TrackingRequest(NamedTuple):
    """One decoded job of the tube `requests_flow`. A tuple, because each job makes two.

    `given` is the number as the producer wrote it. `id` is None when the producer gave none.
    `max_age` (seconds) is None for the configured default, 0 for "always ask the courier".
    `expires_at` is Unix time in seconds after which nobody wants the answer, None for never.
    `resend_of` is the id of the operation that this one repeats. `put_at` is Unix time in seconds
    at which its producer put it, None where it does not say so. `alone`: a courier's answer to
    several numbers left this one out, so it rides with no others. `webhook` names the service that
    hears of the end of its operation; only a request with an id has one. `cancel_on_reply`: not
    where a held reply has told of it.
    """

    slug: Slug
    number: Number
    given: str
    id: str | None = None
    origin: Origin = Origin.MANUAL
    max_age: float | None = None
    expires_at: float | None = None
    fields: Mapping[str, str] = NO_FIELDS
    traceparent: str | None = None
    resend_of: str | None = None
    put_at: float | None = None
    alone: bool = False
    webhook: str | None = None
    cancel_on_reply: bool = False


def account_of(request: TrackingRequest) -> Account:
    """Tell whose a request is; one without an id is `main`'s."""
    return account_and_id(request.id)[0] if request.id else MAIN


@lru_cache(1024)  # of what is refused nothing is kept
def parse_slug(text: str) -> Slug:
    """Check the form of a slug. Raises MalformedJob; whether a courier has it is not known here."""
    if len(text) > SLUG_MOST or not _SLUG.fullmatch(text):
        meant = "-".join(re.findall("[a-z0-9]+", text[:SLUG_MOST].lower()))
        hint = f"; did you mean {meant}?" if meant else ""
        raise MalformedJob(
            "bad_slug", f"{text[:80]!r} is not a slug: write a-z, 0-9, single hyphens{hint}"
        )
    return Slug(text)


def parse_number(given: str, keep: str = "") -> Number:
    """Bring a number into its one form: trimmed, upper case, without blanks and hyphens.

    `keep` names characters that this courier's numbers really contain ("-" for Estes).
    Raises MalformedJob when what is left cannot be a number (docs/interface.md §1).
    """
    if _USUAL_NUMBER.fullmatch(given):
        return Number(given)
    text = given.strip()
    if not text.isascii():
        raise MalformedJob(
            "bad_number", f"{given[:80]!r} holds other characters than ASCII: leave them out"
        )
    text = text.upper()
    for character in _DROPPED:
        if character not in keep:
            text = text.replace(character, "")
    if not _NUMBER.fullmatch(text):
        raise MalformedJob(
            "bad_number",
            f"{given[:80]!r} is not a tracking number: write 4 to 100 of A-Z 0-9 space . _ / -, "
            "the first a letter or digit",
        )
    return Number(text)
