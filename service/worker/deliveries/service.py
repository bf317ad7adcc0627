"""Services: destinations of an account, what they want to hear of, and how they are written.

A service is a document of the collection `services`. Its id is random and never used again, because
it names a line; its name may be given to another service once it is deleted.

======== ===================================== ==================================================
state    deliveries                            how it comes about
======== ===================================== ==================================================
active   are attempted                         made so
paused   join and are held                     by hand, as when its account is suspended
disabled join for seven days and are held      410, or five days of failures; by hand made active
deleted  none                                  by hand; the document stays, as its id is spent
======== ===================================== ==================================================
"""

from __future__ import annotations

import datetime as dt
import secrets
import string
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from service.worker.results.change import EventName
from tracking.checkpoint import Tag
from tracking.line import Line, service_line
from tracking.request import Account, Slug

ID_CHARACTERS = 16


class Format(StrEnum):
    """How the body of a delivery is written and signed."""

    STANDARD = "standard"
    AFTERSHIP = "aftership"


class ServiceState(StrEnum):
    """The state of a service, by the table above."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"
    DELETED = "deleted"


HOLDING = frozenset({ServiceState.PAUSED, ServiceState.DISABLED})
"""Services in these states have their deliveries held."""

NOT_DELETED: Mapping[str, Any] = {
    "cleared_at": None,
    "state": {"$ne": ServiceState.DELETED.value},
}
"""Finds services that are not deleted, over the index of those that are not cleared either."""


class ServiceType(StrEnum):
    """What a service is for.

    A webhook service hears of events; a relay delivers what other systems send to its ingest label;
    to a courier service a courier sends what it has to say, and its parcels are asked for.
    """

    WEBHOOK = "webhook"
    RELAY = "relay"
    COURIER = "courier"


class Handshake(StrEnum):
    """How a sender finds out that somebody takes its requests, which the door answers by itself."""

    NONE = ""
    META = "meta"
    SLACK = "slack"
    GRAPH = "graph"
    OKTA = "okta"


class SealedSecret(NamedTuple):
    """A secret as it is stored (secret_box.py). It signs until `ends_at`, None: until replaced."""

    text: str
    ends_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a service wants to hear of; an empty set stands for all."""

    events: frozenset[EventName] = frozenset()
    slugs: frozenset[Slug] = frozenset()
    tags: frozenset[Tag] = frozenset()

    def takes(self, event: EventName, slug: Slug, tag: Tag) -> bool:
        """Whether an event of a parcel is wanted; `tag` is the parcel's after the change."""
        return (
            (not self.events or event in self.events)
            and (not self.slugs or slug in self.slugs)
            and (not self.tags or tag in self.tags)
        )


@dataclass(frozen=True, slots=True)
class Ingest:
    """How a relay or courier service takes requests.

    `random`: the last part of its ingest label. `handshake`, `token_sha256`: what the door answers
    by itself, and the SHA-256 of the token that it asks for, "" for none. `status`, `body`: of all
    other answers, once the request is durable. `per_second`, `bytes_per_second`: of one door.
    `dedupe_header`: the same value of it within a day is one delivery; "" for none. `courier`: who
    pushes, `push_secret`: sealed, by which its requests are verified.
    """

    random: str = ""
    handshake: Handshake = Handshake.NONE
    token_sha256: str = ""
    status: int = 202
    body: str = ""
    per_second: int = 100
    bytes_per_second: int = 10 << 20
    dedupe_header: str = ""
    courier: str = ""
    push_secret: str = ""


NO_INGEST = Ingest()


@dataclass(frozen=True, slots=True)
class Service:
    """A service as it is stored. `secrets`: the newest first; several while they are rotated.

    `disabled_at`, `disabled_why` are of one that is disabled (health.py). `ingest` is of all types
    but WEBHOOK.
    """

    id: str
    account: Account
    name: str
    destination: str
    secrets: tuple[SealedSecret, ...]
    made_at: dt.datetime
    wanted: Wanted = Wanted()
    headers: Mapping[str, str] | None = None
    format: Format = Format.STANDARD
    concurrent: int = 20
    per_second: int = 10
    attempts: int = 10
    timeout_seconds: float = 15.0
    ordered: bool = False
    state: ServiceState = ServiceState.ACTIVE
    disabled_at: dt.datetime | None = None
    disabled_why: str = ""
    type: ServiceType = ServiceType.WEBHOOK
    ingest: Ingest = NO_INGEST

    @property
    def line(self) -> Line:
        """The line on which its deliveries wait."""
        return service_line(self.id)

    def live_secrets(self, now: dt.datetime) -> list[str]:
        """List the sealed secrets by which an attempt is signed now, the newest first."""
        return [each.text for each in self.secrets if each.ends_at is None or each.ends_at > now]


def new_service_id() -> str:
    """Make the id of a service."""
    letters = string.ascii_lowercase + string.digits
    return "".join(secrets.choice(letters) for _ in range(ID_CHARACTERS))


def document_of(service: Service) -> dict[str, Any]:
    """Write a service as it is stored in `services`."""
    return {
        "_id": service.id,
        "account": service.account,
        "name": service.name,
        "destination": service.destination,
        "secrets": [{"text": each.text, "ends_at": each.ends_at} for each in service.secrets],
        "made_at": service.made_at,
        "events": sorted(service.wanted.events),
        "slugs": sorted(service.wanted.slugs),
        "tags": sorted(service.wanted.tags),
        "headers": dict(service.headers or {}),
        "format": service.format.value,
        "concurrent": service.concurrent,
        "per_second": service.per_second,
        "attempts": service.attempts,
        "timeout_seconds": service.timeout_seconds,
        "ordered": service.ordered,
        "state": service.state.value,
        "disabled_at": service.disabled_at,
        "disabled_why": service.disabled_why,
        "type": service.type.value,
        "ingest": asdict(service.ingest) | {"handshake": service.ingest.handshake.value},
    }


def service_in(document: Mapping[str, Any]) -> Service:
    """Read a document of `services`. Raises KeyError, ValueError for what is none."""
    wanted = Wanted(
        frozenset(map(EventName, document["events"])),
        frozenset(map(Slug, document["slugs"])),
        frozenset(map(Tag, document["tags"])),
    )
    return Service(
        id=document["_id"],
        account=Account(document["account"]),
        name=document["name"],
        destination=document["destination"],
        secrets=tuple(SealedSecret(each["text"], each["ends_at"]) for each in document["secrets"]),
        made_at=document["made_at"],
        wanted=wanted,
        headers=document["headers"],
        format=Format(document["format"]),
        concurrent=document["concurrent"],
        per_second=document["per_second"],
        attempts=document["attempts"],
        timeout_seconds=document["timeout_seconds"],
        ordered=document["ordered"],
        state=ServiceState(document["state"]),
        disabled_at=document.get("disabled_at"),
        disabled_why=document.get("disabled_why", ""),
        type=ServiceType(document.get("type", ServiceType.WEBHOOK)),
        ingest=_ingest_in(document.get("ingest") or {}),
    )


def _ingest_in(members: Mapping[str, Any]) -> Ingest:
    """Read the member `ingest`; one that a version before did not write has its default."""
    known = {name: members[name] for name in members.keys() & _INGEST}
    known["handshake"] = Handshake(members.get("handshake", ""))
    return Ingest(**known)


_INGEST = frozenset(each.name for each in fields(Ingest))
