"""Accounts: who shares this service, with which keys, users and quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web

from service.operator.accounts import KeptAccount, NotDone, accounts, add_account
from service.operator.connections import Collections, in_thread
from service.operator.users import users
from service.web.board import Board
from service.web.entrance import fields_of
from service.web.frame import Frame, Page, see_other
from service.web.visitors import Visitor
from tracking.request import parse_account


class AccountPages:
    """The pages of accounts."""

    def __init__(self, frame: Frame, board: Board) -> None:
        self._frame = frame
        self._stores = board.stores

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", "/accounts", self.show, operators=True),
            Page("POST", "/accounts", self.add, operators=True),
        ]

    async def show(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """List all accounts. Raises StoreError."""
        return await self._page(request, visitor, {})

    async def add(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Add an account. Raises StoreError."""
        name = (await fields_of(request))["name"].strip()
        try:
            account = parse_account(name)
            await in_thread(add_account, self._stores, account, visitor.operator)
        except (NotDone, ValueError) as error:
            return await self._page(request, visitor, {"name": f"{error}"}, name)
        return see_other("/accounts", done=f"the account {name} is added: invite its first owner")

    async def _page(
        self, request: web.Request, visitor: Visitor, wrong: Mapping[str, str], name: str = ""
    ) -> web.StreamResponse:
        return self._frame.render(
            request,
            visitor,
            "operators/accounts.html",
            HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK,
            wrong=wrong,
            name=name,
            **await in_thread(_accounts, self._stores),
        )


def _accounts(stores: Collections) -> dict[str, Any]:
    found: list[KeptAccount] = accounts(stores)
    people = Counter(each.account for each in users(stores))
    return {"accounts": [(each, people[each.name]) for each in found]}
