"""Relays for people: where a service takes requests, and how; and what tests any service.

An address has the service's ingest label in it: as a host, where a domain is set for that, and as a
path at the door.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import fields

from service.config.schema import Config
from service.operator.connections import Collections
from service.operator.ingest_labels import INGEST_KEY, ingest_key, ingests_of, key_in
from service.worker.deliveries.body import event_document, standard
from service.worker.deliveries.delivery import event_id
from service.worker.deliveries.foreign_request import ForeignRequest, foreign_event, new_request_id
from service.worker.deliveries.ingest_label import (
    PATH,
    IngestLabel,
    is_genuine,
    new_label,
    parse_label,
)
from service.worker.deliveries.secret_box import SecretBox
from service.worker.deliveries.service import Ingest, Service, ServiceType
from service.worker.results.change import EventName
from service.worker.results.database import Document
from tracking.request import Account

HIDDEN = frozenset({"random", "token_sha256", "push_secret"})
"""Of `ingest`: what addresses say, and what nobody reads again."""

TEST_BODY = b'{"test":true}'


def new_ingest(stores: Collections, kind: ServiceType, account: Account, name: str) -> Ingest:
    """Give a new service of this type its label. Raises PyMongoError."""
    if kind is ServiceType.WEBHOOK:
        return Ingest()
    return usual_ingest(kind, new_label(account, name, ingest_key(stores)).random)


def usual_ingest(kind: ServiceType, random: str = "") -> Ingest:
    """Say how a new service takes requests of which nothing is wished yet."""
    # Couriers take nothing but 200 for an answer, as some say.
    return Ingest(random, status=200) if kind is ServiceType.COURIER else Ingest(random)


def label_of(service: Service) -> IngestLabel:
    """Name a relay or courier service as the door knows it."""
    return IngestLabel(service.account, service.name, service.ingest.random)


def forged_labels(stores: Collections) -> list[str]:
    """List labels of services that doors take for forged. Raises PyMongoError."""
    key = key_in(stores.keys.find_one({"_id": INGEST_KEY}) or {"_id": ""})
    labels = [parse_label(each) for each in ingests_of(stores)]
    return sorted(str(each) for each in labels if each and not is_genuine(each, key))


def addresses_of(config: Config, service: Service) -> list[str]:
    """List the addresses at which a service takes requests; none of a webhook service."""
    if service.type is ServiceType.WEBHOOK:
        return []
    label, domain = label_of(service), config.ingest.domain
    hosts = [f"https://{label}.{domain}/"] if domain else []
    return [*hosts, f"http://{config.ingest.listen}{PATH}{label}/"]


def ingest_members(service: Service) -> Document | None:
    """Make the members that an account sees of how a service takes requests; None: it takes none.

    `verify_token` and `push_secret` say whether there is one.
    """
    if service.type is ServiceType.WEBHOOK:
        return None
    ingest = service.ingest
    shown = {each.name: getattr(ingest, each.name) for each in fields(ingest)}
    return {name: value for name, value in shown.items() if name not in HIDDEN} | {
        "verify_token": bool(ingest.token_sha256),
        "push_secret": bool(ingest.push_secret),
    }


def seal(box: SecretBox, owner: str, ingest: Document) -> Document:
    """Encrypt the secret among members of `ingest`."""
    secret = ingest.get("push_secret")
    return ingest | {"push_secret": box.closed(secret, owner)} if secret else ingest


def test_event(config: Config, service: Service, at: dt.datetime) -> tuple[str, Document]:
    """Make an event that says that it is a test; gives the id of its change or request, too."""
    change, changed = new_request_id(), EventName.PARCEL_CHANGED
    if service.type is ServiceType.WEBHOOK:
        return change, event_document(
            name=event_id(change, changed),
            account=service.account,
            event=changed,
            at=at,
            bodies={service.format: standard(changed, at, {"test": True})},
        )
    request = ForeignRequest(
        id=change,
        label=label_of(service),
        received_at=at,
        method="POST",
        target="/",
        url=addresses_of(config, service)[0],
        headers=(("Content-Type", "application/json"),),
        body=TEST_BODY,
    )
    return change, foreign_event(request, service.account)
