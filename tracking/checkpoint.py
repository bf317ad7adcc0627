"""Checkpoints and trackings: a courier's answer in one vocabulary, AfterShip's."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Tag(StrEnum):
    """AfterShip's nine delivery statuses."""

    PENDING = "Pending"
    INFO_RECEIVED = "InfoReceived"
    IN_TRANSIT = "InTransit"
    OUT_FOR_DELIVERY = "OutForDelivery"
    ATTEMPT_FAIL = "AttemptFail"
    DELIVERED = "Delivered"
    AVAILABLE_FOR_PICKUP = "AvailableForPickup"
    EXCEPTION = "Exception"
    EXPIRED = "Expired"


FINAL_SUBTAGS = frozenset({"Exception_011", "Exception_013"})
"""Returned to the sender, and lost: nothing more will happen."""


class Checkpoint(NamedTuple):
    """One scan of a parcel. A tuple, because an answer makes dozens and a dataclass costs thrice.

    `checkpoint_time` is the courier's own local text in ISO 8601, without an offset;
    `checkpoint_offset` ("+02:00") only where the courier gave one; `checkpoint_utc` (aware, UTC)
    only where it follows from those two. Nothing here is ever guessed: unknown is None.
    `raw_tag` is the courier's own status code.
    """

    checkpoint_time: str
    message: str
    tag: Tag
    subtag: str
    country_name: str | None = None
    country_iso3: str | None = None
    checkpoint_offset: str | None = None
    checkpoint_utc: datetime | None = None
    city: str | None = None
    state: str | None = None
    postal_code: str | None = None
    location: str | None = None
    raw_tag: str | None = None


class Tracking(NamedTuple):
    """A courier's whole answer about one number; checkpoints oldest first.

    No checkpoints and tag Pending mean "the courier does not know this number (yet)".
    `delivered_at` and `expected_delivery` are the courier's text, and so are `service` (its name of
    the product) and `reference` (the sender's). `proof_of_delivery` is the web address of one.
    `sub_parcels` are the numbers of the other parcels of the same consignment; of a consignment's
    own number, of all its parcels. `unknown_codes` are status codes
    that the courier's module has no meaning for: their events count as its words say. `http_status`
    and `excerpt` (at most 1 KiB, redacted) describe the last answer for the record of attempts.
    """

    tag: Tag
    subtag: str
    checkpoints: tuple[Checkpoint, ...] = ()
    expected_delivery: str | None = None
    delivered_at: str | None = None
    delivered_at_utc: datetime | None = None
    signed_by: str | None = None
    origin: str | None = None
    destination: str | None = None
    proof_of_delivery: str | None = None
    weight_grams: int | None = None
    service: str | None = None
    reference: str | None = None
    sub_parcels: tuple[str, ...] = ()
    unknown_codes: tuple[str, ...] = ()
    http_status: int | None = None
    excerpt: str = ""

    @property
    def delivered(self) -> bool:
        """True when the courier's own status says so; never derived from words alone."""
        return self.tag is Tag.DELIVERED

    @property
    def active(self) -> bool:
        """False once nothing more is expected to happen to the parcel."""
        return is_active(self.tag, self.subtag)


def is_active(tag: Tag, subtag: str) -> bool:
    """Whether anything more is expected to happen to a parcel with this status."""
    return not (tag is Tag.DELIVERED or tag is Tag.EXPIRED or subtag in FINAL_SUBTAGS)


NOT_FOUND_YET = Tracking(tag=Tag.PENDING, subtag="Pending_001")
"""The courier does not know the number (yet): an answer, not an error."""


def output_of(tracking: Tracking) -> dict[str, object]:
    """The `output` of an operation that ended in SUCCESS; the rest is in the stored document."""
    return summary(tracking.tag, tracking.subtag, len(tracking.checkpoints))


def summary(tag: Tag, subtag: str, checkpoints: int) -> dict[str, object]:
    """The same of an answer of which only this much is at hand; `checkpoints` is their number."""
    return {
        "tag": str(tag),
        "subtag": subtag,
        "delivered": tag is Tag.DELIVERED,
        "checkpoints": checkpoints,
    }
