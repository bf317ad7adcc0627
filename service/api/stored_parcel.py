"""What is stored about a parcel, as `/v1/parcels/{slug}/{number}` answers it.

The documents leave as they are stored (docs/interface.md §3); these types describe them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from tracking.checkpoint import Tag

Instant = Annotated[datetime, Meta(tz=True)]


class StoredCheckpoint(TypedDict):
    """One scan of a parcel; null is what the courier does not say."""

    checkpoint_time: Annotated[str, Meta(description="the courier's local text, ISO 8601")]
    checkpoint_offset: Annotated[str | None, Meta(description="of that time, as in `+02:00`")]
    checkpoint_utc: Instant | None
    message: str
    country_name: str | None
    country_iso3: str | None
    city: str | None
    state: str | None
    postal_code: str | None
    location: str | None
    tag: Tag
    subtag: str
    raw_tag: Annotated[str | None, Meta(description="the courier's own code")]


class StoredError(TypedDict):
    """How the last operation failed; the next good answer clears it."""

    code: str
    message: str
    at: Instant


class StoredAttempt(TypedDict):
    """A call to the courier."""

    at: Instant
    outcome: str
    http_status: int | None
    ms: float


class Parcel(TypedDict):
    """What is stored about a parcel. A document of an older version lacks what came later."""

    _id: str
    slug: str
    tracking_number: str
    tag: Tag
    subtag: str
    delivered: bool
    active: Annotated[bool, Meta(description="whether it is checked again by itself")]
    checkpoints: Annotated[list[StoredCheckpoint], Meta(description="oldest first")]
    expected_delivery: Annotated[str | None, Meta(description="the courier's text")]
    delivered_at: Annotated[str | None, Meta(description="the courier's text")]
    delivered_at_utc: Instant | None
    signed_by: str | None
    origin: str | None
    destination: str | None
    proof_of_delivery: NotRequired[Annotated[str | None, Meta(description="a web address")]]
    weight_grams: NotRequired[int | None]
    service: NotRequired[Annotated[str | None, Meta(description="the courier's product")]]
    reference: NotRequired[Annotated[str | None, Meta(description="the sender's own")]]
    sub_parcels: NotRequired[
        Annotated[list[str], Meta(description="numbers of the other parcels of the consignment")]
    ]
    error: StoredError | None
    attempts: Annotated[list[StoredAttempt], Meta(description="the last calls, oldest first")]
    tracked_count: int
    created_at: Instant
    updated_at: Annotated[Instant, Meta(description="when the courier said something new")]
    last_checked_at: Instant | None
    next_check_at: Instant | None
