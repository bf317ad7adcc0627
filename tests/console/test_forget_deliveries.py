"""`forget` and what was sent about a parcel: no body, no attempt and no delivery of it stays."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis
from command_line import Run
from webhook_ground import store_attempt, store_delivery, store_service, stored

from service.operator import forget
from service.worker.deliveries.delivery import Delivery, DeliveryState
from tracking.request import Account

NUMBER, OTHER = "9405903699300184125060", "9405903699300184125061"
KINDS = ("deliveries", "events", "attempts")


def counts(collections: Any) -> list[int]:
    return [collections[kind].count_documents({}) for kind in KINDS]


def in_flight(store: redis.Redis, delivery: Delivery) -> None:
    """An attempt of it runs, as admit.lua notes it."""
    store.hset(f"wait_inflight:{delivery.line}", f"={delivery.id}", "call")


def test_what_was_sent_about_a_parcel_to_any_account_goes_and_nothing_of_another(
    run: Run, collections: Any
) -> None:
    services = [store_service(collections, account=Account(each)) for each in ("main", "shop")]
    states = (DeliveryState.OPEN, DeliveryState.DELIVERED)
    for service, state in zip(services, states, strict=True):
        made = store_delivery(collections, service, parcel=f"usps:{NUMBER}", made=1, state=state)
        store_attempt(collections, made, 1)
        store_attempt(collections, made, 2)  # stored, and not counted yet
    other = store_delivery(collections, services[0], parcel=f"usps:{OTHER}", made=1)
    store_attempt(collections, other, 1)

    done = run("forget", "usps", NUMBER, "--yes", "--json")

    [told] = done.json
    assert (done.code, told["known"], [told[kind] for kind in KINDS]) == (0, True, [2, 2, 4])
    assert counts(collections) == [1, 1, 1]
    assert stored(collections, other) == other


def test_an_attempt_in_flight_ends_before_its_body_goes(
    run: Run, collections: Any, store: redis.Redis
) -> None:
    service = store_service(collections)
    made = store_delivery(collections, service, parcel=f"usps:{NUMBER}")
    in_flight(store, made)
    seen: list[object] = []

    def end_it() -> None:
        """What Work does: the attempt's row first, then the end in Redis."""
        time.sleep(1.0)
        seen.append((stored(collections, made).state, *counts(collections)))
        store_attempt(collections, made, 1)
        store.delete(f"wait_inflight:{made.line}")

    attempt = threading.Thread(target=end_it)
    attempt.start()
    done = run("forget", "usps", NUMBER, "--yes", "--json")
    attempt.join()

    assert done.code == 0
    # Cancelled from the beginning, so that no other attempt begins.
    assert seen == [(DeliveryState.CANCELLED, 1, 1, 0)]
    assert counts(collections) == [0, 0, 0]


def test_an_attempt_that_hangs_keeps_nothing_from_being_forgotten(
    run: Run, collections: Any, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "LEASE_MOST_SECONDS", 0.3)
    made = store_delivery(collections, store_service(collections), parcel=f"usps:{NUMBER}")
    in_flight(store, made)

    assert run("forget", "usps", NUMBER, "--yes").code == 0

    assert counts(collections) == [0, 0, 0]


def test_what_was_deleted_in_part_is_found_by_the_next_forget(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forget that dies after any step leaves the deliveries, by which the rest is found."""
    made = store_delivery(collections, store_service(collections), parcel=f"usps:{NUMBER}")
    store_attempt(collections, made, 1)
    gone = forget.delete_parts

    def dies(_: Any, __: Any) -> dict[str, int]:
        raise KeyboardInterrupt

    monkeypatch.setattr(forget, "delete_parts", dies)
    assert run("forget", "usps", NUMBER, "--yes").code == 130
    assert counts(collections) == [1, 1, 1]

    monkeypatch.setattr(forget, "delete_parts", gone)
    assert run("forget", "usps", NUMBER, "--yes").code == 0
    assert counts(collections) == [0, 0, 0]
