"""A parcel for which only shipments asked is followed as long as one of these is active."""

from __future__ import annotations

from typing import Any

import pytest

from service.results.connection import Store
from service.results.shipments import let_go

NUMBER = "9405903699300184125060"
PARCEL = f"usps:{NUMBER}"
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
    return let_go(store.shipments, store.operations, [PARCEL, "usps:N000002"])


@pytest.mark.parametrize("ended", [COMPLETED, {"deleted": True}])
async def test_it_is_let_go_once_all_of_them_have_ended(
    store: Store, ended: dict[str, Any]
) -> None:
    said(store, **ended)
    said(store, "shop/0b", **COMPLETED)
    for identity in (ASKED, "shop/shipment-0b.5f0c6a2e"):
        asked(store, identity)
    asked(store, "recheck-1", "AUTOMATIC")

    assert gone(store) == [PARCEL]


async def test_it_is_followed_while_one_account_s_is_active(store: Store) -> None:
    said(store, **COMPLETED)
    said(store, "shop/0b")

    assert gone(store) == []


@pytest.mark.parametrize("identity", ["order-7", "usps:9405:1", "other/shipment-0a.1", "shop/a"])
async def test_it_is_followed_where_somebody_asked_otherwise(store: Store, identity: str) -> None:
    said(store, **COMPLETED)
    asked(store, ASKED)
    asked(store, identity)

    assert gone(store) == []


async def test_a_parcel_without_shipments_is_followed(store: Store) -> None:
    assert gone(store) == []
