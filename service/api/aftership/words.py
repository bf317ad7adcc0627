"""What may be said of a shipment, under AfterShip's names, and how it is stored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from service.api.aftership.envelope import Code, refusal

Text = str | None | UnsetType
_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Customer(msgspec.Struct):
    """Who gets a parcel."""

    role: str | None = None
    name: str | None = None
    phone_number: str | None = None
    email: str | None = None
    language: str | None = None
    id: str | None = None


class Promised(msgspec.Struct):
    """By when a shop promised it."""

    promised_delivery_date: str | None = None
    promised_delivery_date_min: str | None = None
    promised_delivery_date_max: str | None = None


class Words(msgspec.Struct):
    """What an account may say; null takes back what it said."""

    title: Text = UNSET
    order_id: Text = UNSET
    order_id_path: Text = UNSET
    order_number: Text = UNSET
    order_date: Text = UNSET
    order_promised_delivery_date: Promised | str | UnsetType | None = UNSET
    custom_fields: dict[str, str | _Int64 | float | bool | None] | UnsetType | None = UNSET
    note: Text = UNSET
    language: Text = UNSET
    customers: Annotated[list[Customer], Meta(max_length=3)] | UnsetType | None = UNSET
    shipment_tags: list[str] | UnsetType | None = UNSET
    shipment_type: Text = UNSET
    shipment_direction: Literal["forward", "return"] | UnsetType | None = UNSET
    shipping_method: Text = UNSET
    location_id: Text = UNSET
    delivery_type: (
        Literal["pickup_at_store", "pickup_at_courier", "door_to_door"] | UnsetType | None
    ) = UNSET
    pickup_location: Text = UNSET
    pickup_note: Text = UNSET
    tracking_account_number: Text = UNSET
    tracking_key: Text = UNSET
    tracking_ship_date: Text = UNSET
    origin_country_region: Text = UNSET
    origin_state: Text = UNSET
    origin_city: Text = UNSET
    origin_postal_code: Text = UNSET
    origin_raw_location: Text = UNSET
    destination_country_region: Text = UNSET
    destination_state: Text = UNSET
    destination_city: Text = UNSET
    destination_postal_code: Text = UNSET
    destination_raw_location: Text = UNSET


class Create(Words, kw_only=True):
    """A new shipment."""

    tracking_number: str
    slug: str | None = None
    id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")] | None = None
    slug_group: Any = None
    courier_connection_id: Any = None
    last_mile: Any = None


class Update(Words, kw_only=True):
    """What changes of a shipment."""

    slug: str | None = None


class Complete(msgspec.Struct):
    """How a parcel ended."""

    reason: Literal["DELIVERED", "LOST", "RETURNED_TO_SENDER"]
    event_datetime: Annotated[str, Meta(max_length=100)] | None = None


WORDS = Words.__struct_fields__

_NOT_OFFERED = {
    "slug_group": "name a slug",
    "courier_connection_id": "credentials of couriers stand in config.toml",
    "last_mile": "create a tracking for it",
}


def words_of(said: Words) -> dict[str, Any]:
    """Take what was said as it is stored. Raises Problem for what is not offered."""
    for name, instead in _NOT_OFFERED.items():
        if getattr(said, name, None) is not None:
            why = f"The value of {name} is invalid: it is not offered here, {instead}."
            raise refusal(Code.BAD_VALUE, why)
    words: dict[str, Any] = msgspec.to_builtins(said)
    words = {name: words[name] for name in WORDS if name in words}
    if isinstance(promised := words.get("order_promised_delivery_date"), str):
        words["order_promised_delivery_date"] = msgspec.to_builtins(Promised(promised))
    # As a list: MongoDB gives a meaning to names with dots and dollars.
    if fields := words.get("custom_fields"):
        words["custom_fields"] = [{"name": key, "value": each} for key, each in fields.items()]
    return words
