"""Services of an account: what they are, how they do, what was alerted, and acts on them.

A secret is shown once, on the page that answers the form which made it, beside programs that verify
what it signs.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from typing import Any

from aiohttp import web

from service.operator import deliveries, service_view
from service.operator.connections import in_thread
from service.operator.deliveries import DeliveryState
from service.operator.keys import Scope
from service.operator.services import Made, Services, ServiceType
from service.web.bodies import visible
from service.web.deliveries import DELIVERIES, INBOX
from service.web.frame import HERE, Answer, Page, View, see_other, view
from service.web.plots import Bar, bars
from service.web.statistics import Plot
from service.web.visitors import Visitor, fields_of
from service.web.writing import link, part

SERVICES = "/services"
ONE = f"{SERVICES}/{{name}}"
BESIDE = f"{SERVICES}/-"
"""No service has this name: below it stands what is no page of one."""

WAIT_SECONDS = 5.0
"""How long the page of a test waits for the attempt; then it is loaded again."""

LOOK_SECONDS = 0.2
STATES = {"active": "It goes on.", "paused": "It rests: what comes waits."}


class ServicePages:
    """For one event loop. Each handler raises Problem, 404 for what is another account's."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stores = services.stores

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", SERVICES, self.listed),
            Page("GET", f"{BESIDE}/alerts", self._alerts),
            Page("GET", ONE, self.show),
            Page("GET", f"{ONE}/now", self._show_now, live=True),
            Page("POST", f"{ONE}/state", self.set_state, Scope.HOOKS),
            Page("POST", f"{ONE}/test", self.test, Scope.HOOKS),
            Page("GET", f"{ONE}/tests/{{id}}", self._show_test),
            Page("GET", f"{ONE}/rotate", self._ask, Scope.HOOKS),
            Page("POST", f"{ONE}/rotate", self.rotate, Scope.HOOKS),
            Page("GET", f"{ONE}/delete", self._ask, Scope.HOOKS),
            Page("POST", f"{ONE}/delete", self.delete, Scope.HOOKS),
        ]

    async def listed(self, _: web.Request, visitor: Visitor) -> Answer:
        """List the account's. Raises StoreError."""
        rows = await in_thread(service_view.rows_of, self._services, visitor.account)
        types = tuple(map(str, ServiceType))
        return view("services/list.html", rows=rows, types=types, beside=BESIDE)

    async def _alerts(self, _: web.Request, visitor: Visitor) -> Answer:
        """List what was mailed to whom, and when. Raises StoreError."""
        heard = [visitor.account, *([""] if visitor.operates else [])]
        mails = await in_thread(service_view.mails_of, self._stores, heard)
        return view("services/alerts.html", mails=mails)

    async def show(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show one, and how it does. Raises Problem, StoreError."""
        values = await in_thread(self._whole, visitor, request.match_info["name"])
        return view("services/one.html", **values)

    async def _show_now(self, request: web.Request, visitor: Visitor) -> View:
        """Show how one does now. Raises Problem, StoreError."""
        values = await in_thread(self._how, visitor, request.match_info["name"])
        return view("services/now.html", **values)

    def _how(self, visitor: Visitor, name: str) -> dict[str, Any]:
        told = service_view.whole_members(self._services, visitor.account, name)
        return {"it": told, "counted_most": service_view.COUNTED_MOST}

    def _whole(self, visitor: Visitor, name: str) -> dict[str, Any]:
        values, stores = self._how(visitor, name), self._stores
        identity = self._services.named(visitor.account, name).id
        now, is_webhook = dt.datetime.now(dt.UTC), values["it"]["type"] == ServiceType.WEBHOOK
        hours = service_view.hours_of(stores, [identity], now)[identity]
        resend = {"service": name, "since": f"{now - dt.timedelta(days=1):%Y-%m-%dT%H:%M}"}
        return {
            **values,
            "plot": _plot(hours),
            "alert": service_view.alert_of(stores, identity),
            "mails": service_view.mails_of(stores, [visitor.account], identity),
            "resend": resend,
            "list": link(DELIVERIES if is_webhook else INBOX, service=name),
        }

    async def set_state(self, request: web.Request, visitor: Visitor) -> Answer:
        """Pause one, or let it go on. Raises Problem, StoreError."""
        name, state = request.match_info["name"], (await fields_of(request))["state"]
        if state not in STATES:
            return see_other(f"{SERVICES}/{part(name)}")
        asked = (visitor.operator, visitor.account, name, {"state": state})
        await in_thread(self._services.change, *asked)
        return see_other(f"{SERVICES}/{part(name)}", done=STATES[state])

    async def test(self, request: web.Request, visitor: Visitor) -> Answer:
        """Have a test delivered. Raises Problem, StoreError."""
        name = request.match_info["name"]
        put = await in_thread(self._services.test, visitor.operator, visitor.account, name)
        return see_other(f"{SERVICES}/{part(name)}/tests/{part(put.id)}")

    async def _show_test(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show how a test went; waits a while for its attempt. Raises Problem, StoreError."""
        ends = time.monotonic() + WAIT_SECONDS
        name, identity = request.match_info["name"], request.match_info["id"]
        while True:
            told = await in_thread(deliveries.show, self._stores, visitor.account, identity)
            if told["service"] != name:
                raise web.HTTPNotFound
            told["waits"] = not told["attempts"] and told["state"] == DeliveryState.OPEN
            if not told["waits"] or time.monotonic() >= ends:
                break
            await asyncio.sleep(LOOK_SECONDS)
        for each in told["attempts"]:
            each["body"] = visible(each["body"])
        service = await in_thread(self._services.named, visitor.account, name)
        return view("services/test.html", told=told, service=service)

    async def _ask(self, request: web.Request, visitor: Visitor, wrong: str = "") -> Answer:
        """Ask before a secret or a service is another, or gone."""
        name, act = request.match_info["name"], request.path.rpartition("/")[2]
        service = await in_thread(self._services.named, visitor.account, name)
        return view(f"services/{act}.html", service=service, wrong=wrong)

    async def rotate(self, request: web.Request, visitor: Visitor) -> Answer:
        """Give one a new secret, and show it. Raises Problem, StoreError."""
        name = request.match_info["name"]
        made = await in_thread(self._services.rotate, visitor.operator, visitor.account, name)
        return show_secret(self._services, made)

    async def delete(self, request: web.Request, visitor: Visitor) -> Answer:
        """Delete one, once its name was typed. Raises Problem, StoreError."""
        name = request.match_info["name"]
        if (await fields_of(request))["typed"].strip() != name:
            return await self._ask(request, visitor, "type the name as it stands above")
        await in_thread(self._services.delete, visitor.operator, visitor.account, name)
        return see_other(SERVICES, done=f"The service {name} is deleted.")


def show_secret(services: Services, made: Made) -> View:
    """Render the page that shows a new secret, this once."""
    variable = "WEBHOOK" if made.service.type is ServiceType.WEBHOOK else "RELAY"
    return view(
        "services/made.html",
        it=service_view.members(services, made.service),
        secret=made.secret,
        hears_from=made.hears_from,
        variable=variable,
        verifiers=_verifiers(variable),
        old_ends_at=made.service.secrets[1].ends_at if len(made.service.secrets) > 1 else None,
    )


def _verifiers(name: str) -> dict[str, str]:
    """Give programs that verify a signature, as text; `name` is how its headers begin."""
    named = [("webhook-", f"{name.lower()}-"), ("HTTP_WEBHOOK_", f"HTTP_{name}_")]
    return {
        language: text.replace(*named[0]).replace(*named[1])
        for language, text in _VERIFIERS.items()
    }


_VERIFIERS = {
    language: (HERE / f"templates/services/verify/{language.lower()}.txt").read_text("utf-8")
    for language in ("Python", "Node", "PHP")
}


def _plot(hours: list[service_view.Hour]) -> Plot:
    """Draw what was tried in each hour of a day, what failed at the foot."""
    tried, failed = sum(each.attempts for each in hours), sum(each.failed for each in hours)
    title = "Attempts of the last day"
    if tried:
        title += f": {tried:,}, {1 - failed / tried:.1%} of them taken"
    drawn = bars(title, [Bar(f"{each.at:%H}:00", each.attempts, each.failed) for each in hours])
    rows = [(f"{each.at:%d %H}:00", f"{each.attempts:,}", f"{each.failed:,}") for each in hours]
    return Plot(title, drawn, ("Hour (UTC)", "#Attempts", "#Failed"), rows)
