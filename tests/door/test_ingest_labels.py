"""The key of ingest labels, which is made once, and what doors know of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.config.load import load
from service.operator.accounts import keys
from service.operator.connections import Collections, collections_of
from service.operator.ingest_labels import INGEST_KEY, ingest_key, ingests_of
from service.worker.deliveries.ingest_label import is_genuine, new_label
from service.worker.deliveries.service import (
    Handshake,
    Ingest,
    Service,
    ServiceState,
    ServiceType,
    document_of,
    new_service_id,
)
from service.worker.results.document import stored_now
from tracking.request import MAIN


@pytest.fixture
def stores(settings: dict[str, str]) -> Iterator[Collections]:
    with collections_of(load(None, settings, Path("/")).config) as made:
        yield made


def test_the_key_is_made_once_by_who_asks_first(stores: Collections) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: ingest_key(stores), range(8)))

    assert found == {ingest_key(stores)}
    [key] = found
    assert len(key) == 32
    assert is_genuine(new_label(MAIN, "shop", key), key)


def test_it_is_no_key_of_an_account(stores: Collections) -> None:
    ingest_key(stores)

    assert stores.keys.count_documents({"_id": INGEST_KEY}) == 1
    assert keys(stores) == []


def test_doors_know_how_services_that_have_a_label_take_requests(stores: Collections) -> None:
    made = Ingest(random="r" * 21, handshake=Handshake.META, token_sha256="a" * 64, body="ok")
    for name, kind, state in (
        ("relay", ServiceType.RELAY, ServiceState.ACTIVE),
        ("push", ServiceType.COURIER, ServiceState.DISABLED),
        ("gone", ServiceType.RELAY, ServiceState.DELETED),
        ("hook", ServiceType.WEBHOOK, ServiceState.ACTIVE),
    ):
        service = Service(
            new_service_id(),
            MAIN,
            name,
            "",
            (),
            made_at=stored_now(),
            state=state,
            type=kind,
            ingest=made,
        )
        stores.services.insert_one(document_of(service))
    stores.services.insert_one({"_id": "odd", "type": "relay", "state": "active", "ingest": 1})

    assert ingests_of(stores) == {f"main-{name}-{'r' * 21}": made for name in ("relay", "push")}
