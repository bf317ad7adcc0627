"""Wishes for a service: what its account may set, as a type that reads and describes them."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriers.slugs import ALIASES, SLUGS
from service.config.schema import Config
from service.worker.deliveries.destination import (
    BadDestination,
    allowed_of,
    check_headers,
    own_names_of,
    parse_destination,
)
from service.worker.deliveries.secret_box import new_key
from service.worker.deliveries.service import Format, Handshake, Service, ServiceType
from service.worker.results.change import EventName
from service.worker.results.database import Document
from tracking.checkpoint import Tag
from tracking.errors import NotDone

Wishes: TypeAlias = Mapping[str, object]

_LIST_MOST = Meta(max_length=200)
_SOME = Annotated[int, Meta(ge=1, le=1_000)]

ANSWER_MOST = 1_024
"""Bytes of the answer that a sender gets."""

OF_EVENTS = frozenset({"events", "slugs", "tags", "format"})
"""What may be set of a webhook service alone: of which events it hears, and in which format."""

OF_FILTERS = tuple(each for each in EventName if each is not EventName.RELAY_REQUEST)

OF_COURIERS = frozenset({"courier", "push_secret"})
"""What of `ingest` may be set of a courier service alone."""


class IngestWishes(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How a relay or courier service takes requests; what is not named stays, or is as usual."""

    handshake: Annotated[
        Handshake | UnsetType,
        Meta(description=f"which handshake is answered, of {', '.join(filter(None, Handshake))}"),
    ] = UNSET
    verify_token: Annotated[
        Annotated[str, Meta(pattern=r"^[!-~]{0,200}$(?!\n)")] | UnsetType,
        Meta(description="the token that a handshake must have, in ASCII; empty: any"),
    ] = UNSET
    status: Annotated[
        Annotated[int, Meta(ge=200, le=299)] | UnsetType,
        Meta(description="the status by which senders are answered: from 200 up to 299"),
    ] = UNSET
    body: Annotated[
        Annotated[str, Meta(max_length=ANSWER_MOST)] | UnsetType,
        Meta(description="the text by which senders are answered, of 1 KiB at most"),
    ] = UNSET
    per_second: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | UnsetType,
        Meta(description="how many requests each door takes in a second: from 1 up to 100000"),
    ] = UNSET
    bytes_per_second: Annotated[
        Annotated[int, Meta(ge=1_024, le=1 << 30)] | UnsetType,
        Meta(description="how many bytes each door takes in a second: from 1024 up to 1073741824"),
    ] = UNSET
    dedupe_header: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{0,64}$(?!\n)")] | UnsetType,
        Meta(
            description="a header by which the same request is known for a day; empty: none",
            examples=["X-GitHub-Delivery"],
        ),
    ] = UNSET
    courier: Annotated[
        str | UnsetType,
        Meta(description="the courier that pushes, of a courier service alone", examples=["dhl"]),
    ] = UNSET
    push_secret: Annotated[
        Annotated[str, Meta(max_length=500)] | UnsetType,
        Meta(description="the secret by which the courier's pushes are verified; empty: none"),
    ] = UNSET


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
            description=f"a list of names of events, of {', '.join(OF_FILTERS)}; empty: all",
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
    ingest: Annotated[
        IngestWishes | UnsetType,
        Meta(description="an object that says how a relay or courier service takes requests"),
    ] = UNSET


class ServiceChange(ServiceWishes, kw_only=True):
    """What is to be changed of a service."""

    state: Annotated[
        Literal["active", "paused"] | UnsetType,
        Meta(description="active or paused; active also ends that it is disabled"),
    ] = UNSET


_NAMED = re.compile(r"\$\.(\w+)(?:\.(\w+))?")
_UNKNOWN = re.compile(r"unknown field `(\w+)`")
"""The name of a member, as msgspec tells what is wrong with it."""


class BadWish(NotDone):
    """A wish that cannot be met; `parameter` is its name."""

    def __init__(self, parameter: str, why: str) -> None:
        super().__init__(f"{parameter}: {why}")
        self.parameter = parameter


def read_type(wishes: Wishes) -> ServiceType:
    """Read of which type a new service is to be. Raises BadWish."""
    try:
        return ServiceType(str(wishes.get("type", ServiceType.WEBHOOK)))
    except ValueError as error:
        raise BadWish("type", f"write one of {', '.join(ServiceType)}") from error


def read_wishes(
    config: Config, service: Service, wishes: Wishes, *, is_new: bool = False
) -> Document:
    """Write wishes as members of a document of `services`. Raises BadWish.

    `service`: as it is now. `ingest` has those members that are set; its secret is not sealed yet.
    """
    try:
        read = msgspec.convert(dict(wishes), ServiceChange)
    except msgspec.ValidationError as error:
        raise _bad_wish(f"{error}") from error
    members: Document = msgspec.to_builtins(read)
    _insist_on_type(service.type, members, is_new=is_new)
    if members.get("destination"):
        allowed, own = allowed_of(config, service.account), own_names_of(config)
        _check("destination", parse_destination, members["destination"], allowed, own)
    if "headers" in members:
        _check("headers", check_headers, members["headers"])
    if "slugs" in members:
        members["slugs"] = [_known(config, "slugs", slug) for slug in members["slugs"]]
    for name in members.keys() & {"events", "slugs", "tags"}:
        members[name] = sorted(set(members[name]))
    if "ingest" in members:
        members["ingest"] = _read_ingest(config, members["ingest"])
    if members.get("timeout_seconds", 0) > (longest := config.webhooks.timeout_seconds):
        raise BadWish("timeout_seconds", f"write seconds from 1 up to {longest:g}")
    if "state" in members:  # by hand it goes on, whatever switched it off
        members |= {"disabled_at": None, "disabled_why": ""}
    return members


def _insist_on_type(kind: ServiceType, members: Document, *, is_new: bool) -> None:
    """Raises BadWish for what a service of this type has not, or lacks."""
    ingest = members.get("ingest", {})
    wrong = sorted(members.keys() & ({"ingest"} if kind is ServiceType.WEBHOOK else OF_EVENTS))
    if kind is not ServiceType.COURIER:
        wrong += sorted(f"ingest.{each}" for each in ingest.keys() & OF_COURIERS)
        if not members.get("destination", not is_new):
            raise BadWish("destination", "say where deliveries go: https://…")
    elif not ingest.get("courier", not is_new):
        raise BadWish("ingest.courier", "say which courier pushes, like dhl")
    if wrong:
        raise BadWish(wrong[0], f"a service of type {kind} has none")
    if EventName.RELAY_REQUEST in members.get("events", ()):
        raise BadWish("events", f"{EventName.RELAY_REQUEST} goes to its relay alone")


def _read_ingest(config: Config, members: dict[str, Any]) -> Document:
    if len(members.get("body", "").encode()) > ANSWER_MOST:
        raise BadWish("ingest.body", f"write {ANSWER_MOST} bytes at most")
    if "courier" in members:
        members["courier"] = _known(config, "ingest.courier", members["courier"])
    if (token := members.pop("verify_token", None)) is not None:
        members["token_sha256"] = token and hashlib.sha256(token.encode()).hexdigest()
    return members


def _bad_wish(told: str) -> BadWish:
    found, unknown = _NAMED.search(told), _UNKNOWN.search(told)
    path = [*filter(None, found.groups() if found else ()), *(unknown.groups() if unknown else ())]
    struct = IngestWishes if len(path) > 1 and path[0] == "ingest" else ServiceChange
    name, hints = ".".join(path), get_type_hints(struct, include_extras=True)
    if not path or path[-1] not in hints:
        return BadWish(name, f"there is no such setting: {', '.join(hints)} are")
    what, _, _ = told.partition(" - ")
    return BadWish(name, f"{what}: write {hints[path[-1]].__metadata__[0].description}")


def _check(name: str, check: Callable[..., object], *asked: object) -> None:
    try:
        check(*asked)
    except BadDestination as error:
        raise BadWish(name, f"{error}") from error


def _known(config: Config, name: str, slug: str) -> str:
    """Resolve an alias. Raises BadWish."""
    meant = ALIASES.get(slug, slug)
    if meant not in SLUGS and not getattr(config.couriers.get(meant), "module", ""):
        raise BadWish(name, f"{meant[:64]!r} is no courier: write slugs like royal-mail")
    return meant


def new_sealing_key(name: str | None = None) -> str:
    """Make a key for `[webhooks] keys`; by default its name is today's date."""
    return new_key(name or f"{dt.datetime.now(dt.UTC):%Y-%m-%d}")
