"""A parcel for which only shipments asked is followed as long as one of these is active."""

from __future__ import annotations

from typing import Any

import pytest

from service.worker.results.connection import Store
from service.worker.results.shipments import no_longer_followed

NUMBER = "9405903699300184125060"
PARCEL = f"usps:{NUMBER}"
SHOPS = f"{PARCEL}@shop"
ASKED = "shipment-0a.5f0c6a2e"
COMPLETED: dict[str, Any] = {"completed": {"reason": "LOST"}}


def said(store: Store, identity: str = "0a", **more: Any) -> None:
    """What an account said of the parcel."""
    whole = {"_id": identity, "parcel": PARCEL, "completed": None, "deleted": False}
    store.shipments.insert_one(whole | more)


def asked(store: Store, identity: str, origin: str = "MANUAL") -> None:
    """An operation of the parcel that ended."""
    about = {"slug": "usps", "number": NUMBER, "origin": origin}
    store.operations.insert_one({"_id": f"{identity}@1", "id": identity, **about})


def gone(store: Store) -> list[str]:
    names = [PARCEL, SHOPS, "usps:N000002"]
    return no_longer_followed(store.shipments, store.operations, names)


@pytest.mark.parametrize("ended", [COMPLETED, {"deleted": True}])
async def test_it_is_let_go_once_all_of_them_have_ended(
    store: Store, ended: dict[str, Any]
) -> None:
    said(store, **ended)
    said(store, "shop/0b", **COMPLETED)
    for identity in (ASKED, "shop/shipment-0b.5f0c6a2e"):
        asked(store, identity)
    asked(store, "recheck-1", "AUTOMATIC")

    assert gone(store) == [PARCEL, SHOPS]


async def test_an_account_follows_it_while_one_of_its_own_is_active(store: Store) -> None:
    said(store, **COMPLETED)
    said(store, "shop/0b", **COMPLETED)
    said(store, "shop/0c")

    assert gone(store) == [PARCEL]


@pytest.mark.parametrize(
    ("identity", "left"),
    [
        ("order-7", [SHOPS]),
        ("usps:9405/1:1", [SHOPS]),
        ("shop/a", [PARCEL]),
        ("shop/shipment-0a.1", [PARCEL]),
        ("other/a", [PARCEL, SHOPS]),
    ],
)
async def test_an_account_that_asked_otherwise_follows_it(
    store: Store, identity: str, left: list[str]
) -> None:
    for each in ("0a", "shop/0b"):
        said(store, each, **COMPLETED)
    asked(store, ASKED)
    asked(store, identity)

    assert gone(store) == left


async def test_a_parcel_without_shipments_is_followed(store: Store) -> None:
    assert gone(store) == []
