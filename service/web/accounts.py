"""Accounts: who shares this service, with which keys, users and quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web

from service.config.schema import Config
from service.http.exchange import Problem
from service.operator.accounts import KeptAccount, accounts, add_account, find_account
from service.operator.connections import Collections, in_thread
from service.operator.quotas import Quota, Uses, quotas_of, set_quotas
from service.operator.users import users
from service.web.board import Board
from service.web.frame import NOTHING, Answer, Page, see_other, view
from service.web.visitors import Visitor, count_in, fields_of
from tracking.errors import NotDone
from tracking.request import Account, parse_account

DIGITS_MOST = 10


class AccountPages:
    """The pages of accounts."""

    def __init__(self, board: Board) -> None:
        self._config = board.operators.config
        self._stores = board.stores

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", "/accounts", self.show, operators=True),
            Page("POST", "/accounts", self.add, operators=True),
            Page("GET", "/accounts/{name}", self.show_one, operators=True),
            Page("POST", "/accounts/{name}/quotas", self.set_quotas, operators=True),
        ]

    async def add(self, request: web.Request, visitor: Visitor) -> Answer:
        """Add an account. Raises StoreError."""
        name = (await fields_of(request))["name"].strip()
        try:
            account = parse_account(name)
            await in_thread(add_account, self._stores, account, visitor.operator)
        except (NotDone, ValueError) as error:
            return await self.show(request, visitor, {"name": f"{error}"}, name)
        return see_other("/accounts", done=f"The account {name} is added: invite its first owner.")

    async def set_quotas(self, request: web.Request, visitor: Visitor) -> Answer:
        """Set those quotas that were changed in the form. Raises Problem, StoreError."""
        name, form = await self._named(request), await fields_of(request)
        now = (await in_thread(quotas_of, self._config, self._stores, [name]))[name]
        wishes, wrong = dict[Quota, int | None](), dict[str, str]()
        for quota in Quota:
            typed = form[quota].strip().replace(",", "")
            try:
                most = count_in(typed, DIGITS_MOST) if typed else None
            except ValueError:
                wrong[quota] = "write a number, or nothing for any number"
            else:
                wishes |= {quota: most} if most != now[quota].allowed else {}
        try:
            if wishes and not wrong:
                asked = (self._config, self._stores, visitor.operator, name, wishes)
                await in_thread(set_quotas, *asked)
        except NotDone as error:
            wrong = dict.fromkeys(wishes, f"{error}")
        if wrong:
            return await self.show_one(request, visitor, wrong, form)
        return see_other(f"/accounts/{name}", done=f"The quotas of {name} are set.")

    async def _named(self, request: web.Request) -> Account:
        """Read which account a page is about. Raises Problem."""
        try:
            name = parse_account(request.match_info["name"])
            return (await in_thread(find_account, self._stores, name)).name
        except (NotDone, ValueError) as error:
            raise Problem(HTTPStatus.NOT_FOUND, f"{error}") from error

    async def show_one(
        self,
        request: web.Request,
        _: Visitor,
        wrong: Mapping[str, str] = NOTHING,
        given: Mapping[str, str] = NOTHING,
    ) -> Answer:
        """Show an account and its quotas. Raises Problem, StoreError."""
        name = await self._named(request)
        uses = (await in_thread(quotas_of, self._config, self._stores, [name]))[name]
        return view(
            "operators/account.html",
            account=await in_thread(find_account, self._stores, name),
            people=await in_thread(users, self._stores, name),
            uses=uses,
            wrong=wrong,
            given=given,
        )

    async def show(
        self, _: web.Request, __: Visitor, wrong: Mapping[str, str] = NOTHING, name: str = ""
    ) -> Answer:
        """List all accounts. Raises StoreError."""
        found = await in_thread(_accounts, self._config, self._stores)
        return view("operators/accounts.html", wrong=wrong, name=name, accounts=found)


def _accounts(config: Config, stores: Collections) -> list[tuple[KeptAccount, int, Uses]]:
    found: list[KeptAccount] = accounts(stores)
    people = Counter(each.account for each in users(stores))
    uses = quotas_of(config, stores, [each.name for each in found])
    return [(each, people[each.name], uses[each.name]) for each in found]
