"""A parcel's page is right also where its operation ends while the page is made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import make_mocked_request

from service.http.backend.operations import OperationView
from service.http.serve import Backing
from service.operator.users import Role
from service.web import parcel
from service.web.frame import View
from service.web.parcel import OneParcel
from service.web.visitors import Visitor, Visitors
from tracking.operation import State
from tracking.request import MAIN, Account, Number, Slug

ANNA = Visitor("anna@main.example", MAIN, Role.MEMBER)
PARCEL = Slug("acme-post"), Number("AB1")


class EndsAfter:
    """Operations and parcels of which the one operation ends right after the nth look."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.stored = SimpleNamespace(tracking=self.tracking, stores=None)
        self.stored.stores = SimpleNamespace(shipments=None)

    def has_ended(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    async def tracking(self, *_: object) -> dict[str, Any] | None:
        return {"_id": "acme-post:AB1", "tag": "Delivered"} if self.has_ended() else None

    async def of_parcel(self, slug: Slug, number: Number, _: Account) -> list[OperationView]:
        return [self.view(slug, number)]

    async def find(self, _: str) -> OperationView | None:
        return self.view(*PARCEL)

    def view(self, slug: Slug, number: Number) -> OperationView:
        state = State.SUCCESS if self.has_ended() else State.RUNNING
        return OperationView("order-1", slug, number, {"status": state.value})


@pytest.mark.parametrize("looks", range(4))
async def test_what_is_shown_is_stored_or_the_page_hears_of_the_end(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcel, "spoken_of", lambda *_: {})
    catalogue = SimpleNamespace(parcel=lambda *_: PARCEL, name=lambda _: "Acme Post")
    backing = SimpleNamespace(
        config=None, catalogue=catalogue, door=None, operations=EndsAfter(looks)
    )
    pages = OneParcel(cast("Visitors", None), cast("Backing", backing))
    named = dict(zip(("slug", "number"), PARCEL, strict=True))

    shown = await pages.now(make_mocked_request("GET", "/", match_info=named), ANNA)

    assert isinstance(shown, View)
    assert shown.values["parcel"] or "order-1" in shown.values["events"]
