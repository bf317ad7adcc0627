"""The page of one delivery: its body, its attempts, and what may be done about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from service.operator import deliveries, delivery_acts
from service.operator.audit import Operator
from service.operator.connections import Collections, in_thread
from service.operator.deliveries import Delivery, DeliveryState, EventName
from service.operator.keys import Scope
from service.operator.services import Services, UnknownService
from service.web import assets
from service.web.bodies import Sent, curl, shown_body, visible
from service.web.deliveries import DELIVERIES, address_of
from service.web.frame import Answer, Page, View, see_other, view
from service.web.visitors import Visitor
from tracking.request import Account

JSON = "application/json"
ONE = f"{DELIVERIES}/{{id}}"

Act = Callable[[Services, Operator, Account, str], Delivery]


class OneDelivery:
    """For one event loop. Each handler raises Problem, 404 for what is another account's."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stores = services.stores

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", ONE, self.show),
            Page("GET", f"{ONE}/body", self.download),
            Page("POST", f"{ONE}/resend", self.resend, Scope.HOOKS),
            Page("POST", f"{ONE}/cancel", self.cancel, Scope.HOOKS),
            Page("GET", f"{ONE}/now", self.show_now, live=True),
        ]

    async def show(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show all of one; a relayed request has a page of its own. Raises Problem, StoreError."""
        name = request.match_info["id"]
        one = await in_thread(deliveries.one, self._stores, visitor.account, name)
        if one.type is EventName.RELAY_REQUEST:
            return see_other(address_of(one))
        values = await in_thread(self._values, visitor, name)
        return view("deliveries/one.html", **values)

    async def download(self, request: web.Request, visitor: Visitor) -> Answer:
        """Give a body as a file. Raises Problem, StoreError."""
        name = request.match_info["id"]
        told = await in_thread(deliveries.show, self._stores, visitor.account, name)
        return as_file(told["body"], f"delivery-{name}.json")

    async def resend(self, request: web.Request, visitor: Visitor) -> Answer:
        """Have one sent now. Raises Problem, StoreError."""
        return await self._act(request, visitor, delivery_acts.resend, "It is sent again now.")

    async def cancel(self, request: web.Request, visitor: Visitor) -> Answer:
        """Have one never sent again. Raises Problem, StoreError."""
        return await self._act(request, visitor, delivery_acts.cancel, "It is not sent any more.")

    async def _act(self, request: web.Request, visitor: Visitor, act: Act, done: str) -> Answer:
        asked = (self._services, visitor.operator, visitor.account, request.match_info["id"])
        return see_other(address_of(await in_thread(act, *asked)), done=done)

    async def show_now(self, request: web.Request, visitor: Visitor) -> View:
        """Show how one stands now. Raises Problem, StoreError."""
        now = await in_thread(now_of, self._stores, visitor, request.match_info["id"])
        return view("deliveries/now.html", **now)

    def _values(self, visitor: Visitor, name: str) -> dict[str, Any]:
        told = deliveries.show(self._stores, visitor.account, name)
        body = (told["body"] or "").encode()
        try:
            url = self._services.named(visitor.account, told["service"]).destination
        except UnknownService:
            url = ""
        sent = Sent("POST", url, [("Content-Type", JSON)], body, f"delivery-{name}.json")
        return {
            "body": None if told["body"] is None else shown_body(body, JSON),
            "curl": curl(sent) if url and body else "",
            **now_of(self._stores, visitor, name),
        }


def now_of(stores: Collections, visitor: Visitor, name: str) -> dict[str, Any]:
    """Find how a delivery stands: what a page shows again and again. Raises UnknownDelivery."""
    one = deliveries.one(stores, visitor.account, name)
    service = deliveries.names_of_services(stores, [one])[one.service]
    attempts = [
        {**each, "headers": list(each["headers"].items()), "body": visible(each["body"])}
        for each in deliveries.attempts_of(stores, one)
    ]
    has_arrived = one.state in {DeliveryState.DELIVERED, DeliveryState.COMPLETED}
    return {
        "one": {**deliveries.members(one, service), "status": one.status},
        "attempts": attempts,
        "may_cancel": one.state in deliveries.CANCELS,
        "has_arrived": has_arrived,
    }


def as_file(body: str | bytes | None, name: str) -> Answer:
    """Answer a body as a file that a browser saves, and does not look into. Raises HTTPNotFound."""
    if body is None:
        raise web.HTTPNotFound
    headers = {
        **assets.HEADERS,
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
    }
    return web.Response(body=body.encode() if isinstance(body, str) else body, headers=headers)
