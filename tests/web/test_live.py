"""Live fragments: what moves on open pages is computed once for all that show it."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import cast

import jinja2
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from service.operator.keys import Scope
from service.operator.users import Role
from service.web.frame import LIVE_SECONDS, Frame, View, view
from service.web.visitors import Visitor, Visitors
from tracking.request import MAIN, Account

ANNA = Visitor("anna@main.example", MAIN, Role.OWNER, "token-of-anna", (Scope.READ,))
BEN = Visitor("ben@main.example", MAIN, Role.OWNER, "token-of-ben", (Scope.READ,))
EVE = Visitor("eve@acme.example", Account("acme"), Role.OWNER, "token-of-eve", (Scope.READ,))


@cache
def _request(query: str, etag: str) -> web.Request:
    headers = {"If-None-Match": etag} if etag else {}
    return make_mocked_request("GET", f"/count{query}", headers)


class Ground:
    """A fragment with a form, on a clock of its own; `computed` counts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.computed = 0
        self.shown = "3 parcels"
        self._frame = Frame(cast("Visitors", None), (), clock=lambda: self.now)

    async def ask(self, visitor: Visitor, query: str = "", etag: str = "") -> web.Response:
        answer = await self._frame.live(_request(query, etag), visitor, self._compute)
        assert isinstance(answer, web.Response)
        return answer

    async def _compute(self, *_: object) -> View:
        self.computed += 1
        await asyncio.sleep(0)
        if not self.shown:
            raise ValueError("away")
        return view("count.html", shown=self.shown)


@pytest.fixture
def ground(monkeypatch: pytest.MonkeyPatch) -> Ground:
    kept = jinja2.DictLoader({"count.html": "{{ shown }} {{ csrf() }}"})
    monkeypatch.setattr(jinja2, "FileSystemLoader", lambda _: kept)
    return Ground()


async def test_a_thousand_pages_that_ask_at_once_cost_one_look(ground: Ground) -> None:
    answers = await asyncio.gather(*(ground.ask(ANNA) for _ in range(1_000)))

    assert {each.text for each in answers} == {answers[0].text}
    assert ground.computed == 1


async def test_it_is_computed_again_after_two_seconds(ground: Ground) -> None:
    await ground.ask(ANNA)
    ground.now += LIVE_SECONDS
    ground.shown = "4 parcels"

    assert "4 parcels" in str((await ground.ask(ANNA)).text)
    assert ground.computed == 2


async def test_what_has_not_changed_is_not_sent_again(ground: Ground) -> None:
    first = await ground.ask(ANNA)
    ground.now += LIVE_SECONDS
    same = await ground.ask(ANNA, etag=first.headers["ETag"])
    ground.now += LIVE_SECONDS
    ground.shown = "4 parcels"
    other = await ground.ask(ANNA, etag=first.headers["ETag"])

    assert (same.status, same.body) == (304, None)
    assert other.status == 200


async def test_forms_in_it_carry_the_token_of_each_visitor(ground: Ground) -> None:
    anna, ben = await ground.ask(ANNA), await ground.ask(BEN)

    assert "token-of-anna" in str(anna.text)
    assert "token-of-ben" in str(ben.text)
    assert anna.headers["ETag"] == ben.headers["ETag"]
    assert ground.computed == 1


async def test_accounts_and_queries_have_fragments_of_their_own(ground: Ground) -> None:
    await ground.ask(ANNA)
    ground.shown = "another's parcels"
    eve = await ground.ask(EVE)
    ground.shown = "filtered parcels"
    filtered = await ground.ask(ANNA, "?tag=Delivered")

    assert "another&#39;s" in str(eve.text)
    assert "filtered" in str(filtered.text)
    assert "3 parcels" in str((await ground.ask(ANNA)).text)


async def test_a_look_that_fails_is_made_again_by_the_next_page(ground: Ground) -> None:
    page, ground.shown = ground.shown, ""
    with pytest.raises(ValueError, match="away"):
        await ground.ask(ANNA)
    ground.shown = page

    assert page in str((await ground.ask(ANNA)).text)
