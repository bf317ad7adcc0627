"""Settings of an account: where its alerts go, what is kept for how long; what the parts share.

Who only reads sees the links; a member makes some; all else is for owners, as their role says.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import web

from service.config.schema import Config
from service.operator.accounts import (
    KeptAccount,
    find_account,
    send_test_mail,
    set_alerts,
    set_inbox_keep_days,
)
from service.operator.attempts import Attempt, count_attempt
from service.operator.connections import in_thread
from service.operator.keys import Scope
from service.operator.quotas import Quota, quotas_of
from service.operator.sessions import SESSION_DAYS
from service.web.frame import Answer, Entry, Page, View, see_other, view
from service.web.visitors import Visitor, Visitors, count_in, fields_of
from tracking.errors import NotDone

OWNERS = Scope.HOOKS
"""What the role of owners alone is good for."""

DAYS_DIGITS = 3
ALERTS, RETENTION = "/settings/alerts", "/settings/retention"

PARTS = (
    Entry("Account", "/settings"),
    Entry("Users", "/settings/users", OWNERS),
    Entry("Keys", "/settings/keys", OWNERS),
    Entry("Secret links", "/settings/links"),
    Entry("Alerts", ALERTS, OWNERS),
    Entry("Retention", RETENTION, OWNERS),
)
"""The parts, in their order."""

QUOTAS = {
    Quota.CALLS: "Calls of couriers a day",
    Quota.PARCELS: "Parcels that are followed",
    Quota.REQUESTS: "Requests a minute",
}


class Kept(NamedTuple):
    """What is kept for so many days, None for ever; `setting` says so."""

    what: str
    days: int | None
    setting: str


def show(name: str, status: HTTPStatus | None = None, **values: Any) -> View:
    """Show a page of the settings."""
    return view(f"settings/{name}.html", status, parts=PARTS, **values)


def ask(title: str, what: str, button: str, back: str) -> View:
    """Ask before an act that nobody can take back, at the path to which its form posts."""
    return show("confirm", title=title, what=what, button=button, back=back)


class Settings:
    """For one event loop."""

    def __init__(self, visitors: Visitors) -> None:
        self._config = visitors.config
        self._stores = visitors.stores

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", "/settings", self._account_page),
            Page("GET", ALERTS, self._alerts_page, OWNERS),
            Page("POST", ALERTS, self._set_alerts, OWNERS),
            Page("POST", f"{ALERTS}/test", self._test_mail, OWNERS),
            Page("GET", RETENTION, self._retention_page, OWNERS),
            Page("POST", RETENTION, self._set_days, OWNERS),
        ]

    async def _account_page(self, _: web.Request, visitor: Visitor) -> Answer:
        account = await self._account(visitor)
        found = await in_thread(quotas_of, self._config, self._stores, [account.name])
        quotas = [(QUOTAS[each], use) for each, use in found[account.name].items()]
        return show("account", account=account, quotas=quotas)

    async def _set_alerts(self, request: web.Request, visitor: Visitor) -> Answer:
        address = (await fields_of(request))["alerts"].strip()
        asked = (self._stores, visitor.operator, visitor.account, address)
        try:
            await in_thread(set_alerts, *asked)
        except NotDone:
            wrong = {"given": address, "wrong": "This is no address of a mailbox."}
            return await self._alerts_page(request, visitor, **wrong)
        done = f"Alerts go to {address}." if address else "Alerts go to nobody by mail."
        return see_other(ALERTS, done=done)

    async def _test_mail(self, request: web.Request, visitor: Visitor) -> Answer:
        """Send a mail at once, and say what the server answered."""
        await in_thread(count_attempt, self._stores, Attempt.TEST_MAIL, visitor.account)
        asked = (self._config, self._stores, visitor.operator, visitor.account)
        try:
            answer = await in_thread(send_test_mail, *asked)
        except NotDone as error:
            return await self._alerts_page(request, visitor, refused=f"{error}")
        return see_other(ALERTS, done=f"The mail is sent. The server answered: {answer}")

    async def _alerts_page(self, _: web.Request, visitor: Visitor, **said: str) -> Answer:
        account = await self._account(visitor)
        values = {"given": account.alerts, "wrong": "", "refused": ""} | said
        status = HTTPStatus.BAD_GATEWAY if values["refused"] else None
        return show("alerts", status, account=account, host=self._config.mail.host, **values)

    async def _set_days(self, request: web.Request, visitor: Visitor) -> Answer:
        text = (await fields_of(request))["days"].strip()
        try:
            days = count_in(text, DAYS_DIGITS) if text else None
            asked = (self._stores, visitor.operator, visitor.account, days)
            await in_thread(set_inbox_keep_days, *asked)
        except (NotDone, ValueError):
            wrong = "Write a number of days from 1 to 90, or nothing."
            return await self._retention_page(request, visitor, text, wrong)
        kept = f"for {days} days" if days else "as long as the settings of this service say"
        return see_other(RETENTION, done=f"Relayed requests are kept {kept}.")

    async def _retention_page(
        self, _: web.Request, visitor: Visitor, given: str | None = None, wrong: str = ""
    ) -> Answer:
        account = await self._account(visitor)
        set_days = "" if account.inbox_keep_days is None else f"{account.inbox_keep_days}"
        return show(
            "retention",
            kept=kept_of(self._config, account),
            usual=self._config.webhooks.inbox_keep_days,
            given=set_days if given is None else given,
            wrong=wrong,
        )

    async def _account(self, visitor: Visitor) -> KeptAccount:
        return await in_thread(find_account, self._stores, visitor.account)


_KEPT = (
    ("Parcels that have ended, from their last change", "results", "keep_days"),
    ("What failed attempts quote of a courier's answer", "results", "excerpt_days"),
    ("Operations, from their end", "operations", "keep_days"),
    ("Requests that got no answer, and answers that nobody could read", "dead", "keep_days"),
    ("Deliveries of webhooks, from their end", "webhooks", "keep_days"),
    ("Their attempts, with what was answered", "webhooks", "attempts_keep_days"),
)


def kept_of(config: Config, account: KeptAccount) -> list[Kept]:
    """List what is kept of an account for how long, and what says so."""
    days = account.inbox_keep_days
    inbox = "of your account" if days else "[webhooks] inbox_keep_days"
    return [
        *(
            Kept(what, getattr(getattr(config, of), name), f"[{of}] {name}")
            for what, of, name in _KEPT
        ),
        Kept("Relayed requests, from their end", days or config.webhooks.inbox_keep_days, inbox),
        Kept("Sessions of users, from the login", SESSION_DAYS, ""),
        Kept("Records of what users and operators did", None, ""),
    ]
