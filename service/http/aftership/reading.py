"""Reading what AfterShip's SDKs send: versions, bodies member by member, queries of lists."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from service.http.aftership.envelope import refusal
from service.http.backend.shipments import Code, Filters, Position
from service.http.exchange import Problem
from service.http.reading import body_of, insist_on_json, json_of
from service.worker.deliveries.aftership import VERSIONS
from tracking.checkpoint import Tag
from tracking.request import Account, account_and_id, operation_id

T = TypeVar("T")

_CODES = {"tracking_number": Code.BAD_NUMBER, "slug": Code.BAD_SLUG, "id": Code.BAD_ID}
_MISSING = re.compile(r"missing required field `(\w+)`")
_WHERE = re.compile(r" - at `\$?\.?(.+)`\Z")


def version_of(request: web.Request) -> str:
    """Read the version of the API that a request names. Raises Problem."""
    version = request.match_info["version"]
    if version not in VERSIONS:
        why = f"the version {version[:20]!r} is not served here: ask for {', '.join(VERSIONS)}"
        raise Problem(HTTPStatus.NOT_FOUND, why)
    return version


async def read(request: web.Request, kind: type[T]) -> T:
    """Read a body; members that `kind` does not name are ignored. Raises Problem."""
    insist_on_json(request)
    body = await body_of(request)
    try:
        posted = json_of(body)
        # Half a character: it is JSON, and no text that anybody could store or send.
        msgspec.json.encode(posted)
    except Problem as problem:
        raise refusal(Code.BAD_JSON, problem.detail) from problem
    except UnicodeEncodeError as error:
        raise refusal(Code.BAD_JSON, "a text holds half of a surrogate pair") from error
    if not isinstance(posted, dict):
        raise refusal(Code.BAD_JSON, "the body is no JSON object")
    try:
        return msgspec.convert(posted, kind)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from error


def _refused(why: str) -> Problem:
    """Word what msgspec finds wrong."""
    if missing := _MISSING.search(why):
        name = missing[1]
        code = Code.NO_NUMBER if name == "tracking_number" else Code.NO_VALUE
        return refusal(code, f"{name} is required.")
    name = where[1] if (where := _WHERE.search(why)) else "the body"
    return refusal(
        _CODES.get(name, Code.BAD_VALUE), f"The value of {name} is invalid: {_WHERE.sub('', why)}."
    )


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


LIMIT, LIMIT_MOST = 100, 200
NUMBERS_MOST = 50

_NO_FILTERS = ("transit_time", "courier_destination_country_region")
_FEW = re.compile(r"[1-9][0-9]{0,2}")
_PLUS = re.compile(r" (\d\d:?\d\d)\Z")
"""A zone whose + was not escaped."""

_LISTS = {
    "slug": "slug",
    "tracking_numbers": "number",
    "origin": "words.origin_country_region",
    "destination": "words.destination_country_region",
    "shipment_tags": "words.shipment_tags",
    "order_id": "words.order_id",
}
"""Where the values stand that a parameter lists."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Page:
    """How much of it, and from where."""

    most: int
    after: Position | None


def filters_of(
    query: Mapping[str, str], account: Account, resolve: Callable[[str], str | None]
) -> Filters:
    """Read filters; `resolve` finds the slug that a name means. Raises Problem."""
    for name in _NO_FILTERS:
        if query.get(name):
            raise _invalid(name, "it is not offered here as a filter")
    texts = {where: _list(query, name) for name, where in _LISTS.items()}
    if len(texts["number"]) > NUMBERS_MOST:
        raise _invalid("tracking_numbers", f"list {NUMBERS_MOST} at most")
    texts["number"] = [form for each in texts["number"] for form in _forms(each)]
    texts["slug"] = [resolve(each) or each for each in texts["slug"]]
    tags = _list(query, "tag")
    if unknown := [each for each in tags if each not in set(Tag)]:
        raise _invalid("tag", f"{unknown[0][:40]} is none; there are {', '.join(Tag)}")
    if "\0" in (keyword := query.get("keyword", "").strip()):
        raise _invalid("keyword", "leave control characters out")
    return Filters(
        account,
        texts,
        keyword,
        (_instant(query, "created_at_min"), _instant(query, "created_at_max")),
        (_instant(query, "updated_at_min"), _instant(query, "updated_at_max")),
        tags,
        _returning(query),
    )


def page_of(query: Mapping[str, str], account: Account) -> Page:
    """Read how many are wanted, and after which. Raises Problem."""
    text = query.get("limit") or f"{LIMIT}"
    if not (_FEW.fullmatch(text) and int(text) <= LIMIT_MOST):
        raise _invalid("limit", f"write a number from 1 to {LIMIT_MOST}")
    cursor = query.get("cursor")
    return Page(int(text), position_of(cursor, account) if cursor else None)


def fields_of(query: Mapping[str, str]) -> list[str]:
    """Read which members are wanted; none: all."""
    return _list(query, "fields")


def cursor_of(position: Position) -> str:
    """Write a position for a client, who need not read it."""
    ms = (position.created_at - _EPOCH) // dt.timedelta(milliseconds=1)
    written = json.dumps([ms, account_and_id(position.name)[1]], separators=(",", ":"))
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def position_of(cursor: str, account: Account) -> Position:
    """Read a position that `cursor_of` wrote. Raises Problem."""
    try:
        written = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        ms, identity = json.loads(written)
        if type(ms) is int and isinstance(identity, str):
            identity.encode()  # half of a surrogate pair is no text that MongoDB takes
            at = _EPOCH + dt.timedelta(milliseconds=ms)
            return Position(at, operation_id(account, identity))
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        pass
    raise _invalid("cursor", "send next_cursor of the page before")


def _list(query: Mapping[str, str], name: str) -> list[str]:
    return [text for each in query.get(name, "").split(",") if (text := each.strip())]


def _forms(number: str) -> set[str]:
    """Write a number in each form in which it may be stored: some couriers keep hyphens."""
    upper = number.upper()
    return {upper, upper.replace("-", ""), re.sub("[ \t-]", "", upper)}


def _instant(query: Mapping[str, str], name: str) -> dt.datetime | None:
    text = query.get(name)
    if not text:
        return None
    try:
        read = dt.datetime.fromisoformat(_PLUS.sub(r"+\1", text.strip()))
        return (read if read.tzinfo else read.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise _invalid(name, "write YYYY-MM-DDTHH:mm:ssZ") from error


def _returning(query: Mapping[str, str]) -> bool | None:
    asked = set(_list(query, "return_to_sender"))
    if not asked <= {"true", "false"}:
        raise _invalid("return_to_sender", "write true or false")
    return None if len(asked) != 1 else "true" in asked


def _invalid(name: str, why: str) -> Exception:
    return refusal(Code.BAD_VALUE, f"The value of {name} is invalid: {why}.")
