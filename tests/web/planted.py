"""Texts that are HTML, stored by two accounts in every way that there is, and marked as theirs.

A page that shows one of them as it is has an element of the name in MARKUP, and a page that shows
one to the other account holds the `secret_of` its account.
"""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

import greenstalk
from pages_ground import ACME, Person, Service
from webhook_ground import (
    foreign,
    store_attempt,
    store_delivery,
    store_relay,
    store_relayed,
    store_service,
)

from devstack.site.shapes.parcel import HTML, MARKUP
from service.operator.accounts import add_key, set_alerts
from service.operator.audit import Operator
from service.operator.invitations import invite
from service.operator.keys import Scope
from service.operator.users import Role
from service.worker.deliveries.mail import About, MailText, write_mail
from service.worker.deliveries.service import ServiceState
from tracking.request import MAIN, Account

PATIENCE_SECONDS = 20.0
SLUG = "acme-post"
WAITING = {MAIN: f"{HTML}1002", ACME: f"{HTML}2002"}
"""Of parcels that wait for a line that is paused."""

NUMBERS = {MAIN: f"{HTML}1001", ACME: f"{HTML}2001"}
OF_ACCOUNTS = (Scope.READ, Scope.INGEST, Scope.HOOKS)


def secret_of(account: Account) -> str:
    return f"only-{account}-may-read-this"


def text_of(account: Account) -> str:
    return f"{MARKUP} {secret_of(account)}"


def plant(service: Service) -> None:
    """Store them; returns once a worker has asked the courier for the parcels."""
    keys = {each: add_key(service.stores, Operator(), each, OF_ACCOUNTS).text for each in NUMBERS}
    for account, key in keys.items():
        _wait_until_known(service.stranger(), key)
        service.person("viewer", account)
        _plant_for(service, account, key)
    _put_malformed(service)
    wanted = {"slug": SLUG, "checkpoints.message": MARKUP}
    tracking, deadline = service.stores.tracking, time.monotonic() + PATIENCE_SECONDS
    while tracking.count_documents(wanted) < len(NUMBERS) or not service.stores.dead.find_one():
        assert time.monotonic() < deadline, "the parcels and a dead request are stored"
        time.sleep(0.05)
    owner, line = service.person(), f"/lines/{SLUG}"
    owner.submit(owner.get(line), f"{line}/limits", per_hour=1_000)
    owner.submit(owner.get(line), f"{line}/pause", reason=text_of(MAIN)[:200], length="1h")
    for account, number in WAITING.items():
        person = service.person("owner", account)
        file = f"number,slug\n{number},{SLUG}\n!,{text_of(account)}\n".encode()
        person.submit(person.get("/parcels/import"), "/parcels/import", file=file)


def _plant_for(service: Service, account: Account, key: str) -> None:
    text, stores = text_of(account), service.stores
    parcel = {
        "slug": SLUG,
        "tracking_number": NUMBERS[account],
        "title": text,
        "note": text,
        "order_id": text,
        "order_number": text,
        "customers": [{"name": text, "email": "a@example.com"}],
        "custom_fields": {"colour": text},
        "shipment_tags": [text],
        "destination_postal_code": "8000",
    }
    _post(service.stranger(), key, "/tracking/2026-07/trackings", parcel)
    _post(
        service.stranger(),
        key,
        "/v1/links",
        {"slug": SLUG, "number": NUMBERS[account], "title": text},
    )
    invite(stores, Operator(), f"guest@{account}.example", account, Role.VIEWER)
    set_alerts(stores, Operator(), account, f"'{{alerts}}'&{secret_of(account)}@example.com")
    hook = store_service(stores, "hook", account=account, headers={"X-Shop": text})
    delivery = store_delivery(stores, hook, parcel=f"{SLUG}:{NUMBERS[account]}")
    store_attempt(stores, delivery, 1, failure=text, excerpt=text, body=text.encode())
    _plant_relayed(service, account, text)
    mail = MailText(text, text)
    write_mail(stores.mails, f"m-{account}", "a@example.com", mail, About("service:x", account))


def _plant_relayed(service: Service, account: Account, text: str) -> None:
    """Store what a stranger sent to a relay, as each kind of body that a page shows."""
    paused = ServiceState.PAUSED
    relay = store_relay(service.stores, "relay", account=account, state=paused)
    form = "application/x-www-form-urlencoded"
    bodies = {
        "text/html": text.encode(),
        "application/json": json.dumps({text: text}).encode(),
        form: urlencode({text: text}).encode(),
        "image/svg+xml": bytes(range(1, 32)) * (1 << 15) + text.encode(),
    }
    for kind, body in bodies.items():
        headers = (("Content-Type", kind), ("X-Text", text), ("X-Long", text + "<" * 8_192))
        request = foreign(relay, target=f"/{MARKUP}", headers=headers, body=body)
        made = store_relayed(service.stores, relay, request, made=1)
        answer = {"body": text.encode(), "headers": {"x-text": text}}
        store_attempt(service.stores, made, 1, failure="server_error", **answer)


def _wait_until_known(person: Person, key: str) -> None:
    """Return once the key opens, and no request without one does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while [person.get("/v1/links", as_api_key=each).status for each in ("", key)] != [401, 200]:
        assert time.monotonic() < deadline, "the key is known"
        time.sleep(0.1)


def _post(person: Person, key: str, path: str, body: dict[str, Any]) -> None:
    """Post what a program would."""
    headers = {"as_api_key": key, "Content_Type": "application/json"}
    answer = person.ask("POST", path, json.dumps(body).encode(), headers)
    assert answer.status in {200, 201}, answer.text


def _put_malformed(service: Service) -> None:
    """Put a job that no worker reads: it is dead, with its words."""
    payload = {"slug": text_of(MAIN), "number": text_of(MAIN)}
    [address] = service.config.beanstalkd.servers
    host, _, port = address.rpartition(":")
    with greenstalk.Client((host, int(port)), use="requests_flow") as client:
        client.put(json.dumps({"type": "requests_flow", "payload": payload}))
