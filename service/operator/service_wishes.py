"""Wishes for a service: what its account may set, as a type that reads and describes them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriers.slugs import ALIASES, SLUGS
from service.config.schema import Config
from service.operator.accounts import NotDone
from service.worker.deliveries.destination import (
    BadDestination,
    allowed_of,
    check_headers,
    parse_destination,
)
from service.worker.deliveries.secret_box import new_key
from service.worker.deliveries.service import Format
from service.worker.results.change import EventName
from service.worker.results.database import Document
from tracking.checkpoint import Tag
from tracking.request import Account

Wishes: TypeAlias = Mapping[str, object]

_LIST_MOST = Meta(max_length=200)
_SOME = Annotated[int, Meta(ge=1, le=1_000)]


class ServiceWishes(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be set of a service; what is not named stays, or is as the settings say."""

    destination: Annotated[
        str | UnsetType,
        Meta(
            description="an address, as text that begins with https://",
            examples=["https://shop.example/hooks"],
        ),
    ] = UNSET
    events: Annotated[
        Annotated[list[EventName], _LIST_MOST] | UnsetType,
        Meta(
            description=f"a list of names of events, of {', '.join(EventName)}; empty: all",
            examples=[["parcel.delivered"]],
        ),
    ] = UNSET
    slugs: Annotated[
        Annotated[list[str], _LIST_MOST] | UnsetType,
        Meta(description="a list of couriers: only their parcels; empty: all", examples=[["usps"]]),
    ] = UNSET
    tags: Annotated[
        Annotated[list[Tag], _LIST_MOST] | UnsetType,
        Meta(
            description="a list of tags: only parcels that have one now, of "
            f"{', '.join(Tag)}; empty: all",
            examples=[["Exception"]],
        ),
    ] = UNSET
    headers: Annotated[
        Annotated[dict[str, str], Meta(max_length=50)] | UnsetType,
        Meta(
            description="an object of headers that are sent with each attempt, each value as text",
            examples=[{"X-From": "tracking"}],
        ),
    ] = UNSET
    format: Annotated[
        Format | UnsetType,
        Meta(description="standard or aftership: how bodies are written and signed"),
    ] = UNSET
    concurrent: Annotated[
        _SOME | UnsetType, Meta(description="how many attempts run at once: from 1 up to 1000")
    ] = UNSET
    per_second: Annotated[
        _SOME | UnsetType,
        Meta(description="how many attempts start in a second: from 1 up to 1000"),
    ] = UNSET
    attempts: Annotated[
        Annotated[int, Meta(ge=1, le=50)] | UnsetType,
        Meta(description="after how many attempts a delivery is dead: from 1 up to 50"),
    ] = UNSET
    timeout_seconds: Annotated[
        Annotated[float, Meta(ge=1, le=60)] | UnsetType,
        Meta(description="how many seconds an attempt may take: 1 or more, as settings allow"),
    ] = UNSET
    ordered: Annotated[
        bool | UnsetType,
        Meta(description="true or false: one delivery at a time, in the order of the events"),
    ] = UNSET


class ServiceChange(ServiceWishes, kw_only=True):
    """What is to be changed of a service."""

    state: Annotated[
        Literal["active", "paused"] | UnsetType,
        Meta(description="active or paused; active also ends that it is disabled"),
    ] = UNSET


_NAMED = re.compile(r"(?:\$\.|unknown field `)(\w+)")
"""The name of a member, as msgspec tells what is wrong with it."""


class BadWish(NotDone):
    """A wish that cannot be met; `parameter` is its name."""

    def __init__(self, parameter: str, why: str) -> None:
        super().__init__(f"{parameter}: {why}")
        self.parameter = parameter


def read_wishes(config: Config, account: Account, wishes: Wishes) -> Document:
    """Write wishes as members of a document of `services`. Raises BadWish."""
    try:
        read = msgspec.convert(dict(wishes), ServiceChange)
    except msgspec.ValidationError as error:
        raise _bad_wish(f"{error}") from error
    members: Document = msgspec.to_builtins(read)
    if "destination" in members:
        allowed, own = allowed_of(config, account), config.webhooks.own_names
        _check("destination", parse_destination, members["destination"], allowed, own)
    if "headers" in members:
        _check("headers", check_headers, members["headers"])
    if "slugs" in members:
        members["slugs"] = [_known(config, slug) for slug in members["slugs"]]
    for name in members.keys() & {"events", "slugs", "tags"}:
        members[name] = sorted(set(members[name]))
    if members.get("timeout_seconds", 0) > (longest := config.webhooks.timeout_seconds):
        raise BadWish("timeout_seconds", f"write seconds from 1 up to {longest:g}")
    if "state" in members:  # by hand it goes on, whatever switched it off
        members |= {"disabled_at": None, "disabled_why": ""}
    return members


def _bad_wish(told: str) -> BadWish:
    found, hints = _NAMED.search(told), get_type_hints(ServiceChange, include_extras=True)
    name = found[1] if found else ""
    if name not in hints:
        return BadWish(name, f"there is no such setting: {', '.join(hints)} are")
    what, _, _ = told.partition(" - ")
    return BadWish(name, f"{what}: write {hints[name].__metadata__[0].description}")


def _check(name: str, check: Callable[..., object], *asked: object) -> None:
    try:
        check(*asked)
    except BadDestination as error:
        raise BadWish(name, f"{error}") from error


def _known(config: Config, slug: str) -> str:
    """Resolve an alias. Raises BadWish."""
    meant = ALIASES.get(slug, slug)
    if meant not in SLUGS and not getattr(config.couriers.get(meant), "module", ""):
        raise BadWish("slugs", f"{meant[:64]!r} is no courier: write slugs like royal-mail")
    return meant


def new_sealing_key(name: str | None = None) -> str:
    """Make a key for `[webhooks] keys`; by default its name is today's date."""
    return new_key(name or f"{dt.datetime.now(dt.UTC):%Y-%m-%d}")
