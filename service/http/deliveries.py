"""`/v1/deliveries`: what was sent to an account's services, resent and cancelled."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from service.http.backend.operators import cursor_of
from service.http.callers import Callers, owner_of
from service.http.exchange import About, Problem, Route, answer
from service.http.reading import (
    CURSOR,
    MOMENT,
    TIME,
    in_utc,
    parameters_of,
    place_of,
    read_body,
    read_query,
)
from service.operator.audit import Operator
from service.operator.connections import in_thread
from service.operator.deliveries import (
    Delivery,
    DeliveryState,
    EventName,
    Which,
    deliveries_of,
    members,
    names_of_services,
    show,
)
from service.operator.delivery_acts import Acted, cancel, cancel_all, resend, resend_all
from service.operator.keys import Scope
from service.operator.services import Services, UnknownService
from tracking.request import Account

PAGE_MOST = 200
ACTED_MOST = 20_000
"""Of one request, as far as they are done within ACT_SECONDS."""

ACT_SECONDS = 20.0
"""No further batch is begun after that: proxies give up after a minute."""

LIMIT = Annotated[int, Meta(ge=1, le=PAGE_MOST)]


class Meant(msgspec.Struct, forbid_unknown_fields=True):
    """Which ones are meant: those that agree with all that is given."""

    service: Annotated[
        str | None, Meta(description="the name of a service: only what goes there")
    ] = None
    state: Annotated[
        DeliveryState | None,
        Meta(description="open, held, delivered, dead, cancelled or completed"),
    ] = None
    since: Annotated[MOMENT | None, Meta(description=f"{TIME}: what happened from then on")] = None
    until: Annotated[MOMENT | None, Meta(description=f"{TIME}: what happened before")] = None
    cursor: CURSOR = None


class MeantDeliveries(Meant):
    """Which deliveries are meant: those that agree with all that is given."""

    event: Annotated[
        EventName | None, Meta(description="the name of an event, like parcel.delivered")
    ] = None
    parcel: Annotated[
        str | None, Meta(description="a parcel as SLUG:NUMBER", examples=["usps:94055"])
    ] = None


class ListedDeliveries(MeantDeliveries):
    """Which deliveries are listed, and how many."""

    limit: Annotated[LIMIT, Meta(description=f"how many at most, 1 to {PAGE_MOST}")] = 50


class ResentDeliveries(MeantDeliveries):
    """Which deliveries are sent again; without `state` those that are dead or held."""

    all: Annotated[bool, Meta(description="true for all of the account, and then by itself")] = (
        False
    )


class CancelledDeliveries(ResentDeliveries):
    """Which deliveries are sent no more; without `state` those that are open or held."""


class DeliveryNow(msgspec.Struct, kw_only=True):
    """A delivery: an event on its way to one service."""

    id: Annotated[str, Meta(description="the header webhook-id of each of its attempts")]
    service: Annotated[str, Meta(description="the name of its service")]
    event: EventName
    event_id: Annotated[str, Meta(description="the same for all services that hear of it")]
    parcel: Annotated[str | None, Meta(description="SLUG:NUMBER; null for an event of no parcel")]
    operation: Annotated[str | None, Meta(description="the operation that ended, or null")]
    state: DeliveryState
    why: Annotated[str, Meta(description="why its last attempt failed, or why it ended")]
    made: Annotated[int, Meta(description="attempts that were made")]
    round: Annotated[int, Meta(description="1, and one more with each resend")]
    made_at: Annotated[dt.datetime, Meta(description="when the event was noted")]
    next_at: Annotated[dt.datetime | None, Meta(description="when it is due; null where it is not")]
    ended_at: dt.datetime | None


class AttemptMade(msgspec.Struct):
    """An attempt: one request to the destination. `failure` null: it answered 2xx."""

    number: int
    at: dt.datetime
    ms: int
    status: Annotated[int | None, Meta(description="null where no status line came")]
    failure: Annotated[str | None, Meta(description="connection, timeout, server_error …")]
    headers: Annotated[dict[str, str], Meta(description="of the answer")]
    body: Annotated[str, Meta(description="the beginning of the answer's body")]


class WholeDelivery(DeliveryNow, kw_only=True):
    """All of a delivery: with what is sent, and the attempts of the last days."""

    body: Annotated[
        str | None, Meta(description="the bytes that are signed; null where they are not kept")
    ]
    attempts: list[AttemptMade]


class DeliveryPage(msgspec.Struct):
    """Deliveries, those of the newest events first; `cursor` is null where no more follow."""

    deliveries: list[DeliveryNow]
    cursor: str | None


class NotResent(msgspec.Struct):
    """A delivery that is not sent again, or not cancelled, and why."""

    id: str
    detail: str


class ResentNow(msgspec.Struct):
    """How many are due now. With `cursor` the next ones are asked for, null: there are none."""

    resent: int
    failed: int
    failures: list[NotResent]
    cursor: str | None


class CancelledNow(msgspec.Struct):
    """How many are cancelled now. With `cursor` the next ones are asked for, null: none are."""

    cancelled: int
    failed: int
    failures: list[NotResent]
    cursor: str | None


_Act = Callable[[Services, Operator, Account, str], Delivery]
_ActOnAll = Callable[[Services, Operator, Which, float, int], Acted]


class DeliveryRoutes:
    """The routes."""

    def __init__(self, services: Services, callers: Callers) -> None:
        self._stores = services.stores
        self._services = services
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name them."""
        return [
            Route("GET", "/v1/deliveries", self.listed, _LIST),
            Route("POST", "/v1/deliveries/resend", self.resend_all, _RESEND_ALL),
            Route("POST", "/v1/deliveries/cancel", self.cancel_all, _CANCEL_ALL),
            Route("GET", "/v1/deliveries/{id}", self.one, _ONE),
            Route("POST", "/v1/deliveries/{id}/resend", self.resend, _RESEND),
            Route("POST", "/v1/deliveries/{id}/cancel", self.cancel, _CANCEL),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """List those that are meant, the newest first. Raises Problem, StoreError."""
        account = self._callers.account(request, Scope.READ)
        wanted = read_query(request, ListedDeliveries)
        which = await self._which(account, wanted, HTTPStatus.BAD_REQUEST)
        found = await in_thread(deliveries_of, self._stores, which, wanted.limit)
        names = await in_thread(names_of_services, self._stores, found)
        more = len(found) == wanted.limit
        cursor = cursor_of(found[-1].made_at, found[-1].id) if more else None
        return answer(DeliveryPage([_now_of(each, names) for each in found], cursor))

    async def one(self, request: web.Request) -> web.Response:
        """Show all of one. Raises Problem, StoreError."""
        account = self._callers.account(request, Scope.READ)
        told = await in_thread(show, self._stores, account, request.match_info["id"])
        return answer(WholeDelivery(**told))

    async def resend(self, request: web.Request) -> web.Response:
        """Have one sent now. Raises Problem, StoreError."""
        return await self._act(request, resend, HTTPStatus.ACCEPTED)

    async def cancel(self, request: web.Request) -> web.Response:
        """Have one never sent again. Raises Problem, StoreError."""
        return await self._act(request, cancel, HTTPStatus.OK)

    async def resend_all(self, request: web.Request) -> web.Response:
        """Have those sent now that are meant, the oldest first. Raises Problem, StoreError."""
        return answer(ResentNow(*await self._act_on_all(request, ResentDeliveries, resend_all)))

    async def cancel_all(self, request: web.Request) -> web.Response:
        """Have those never sent again that are meant. Raises Problem, StoreError."""
        acted = await self._act_on_all(request, CancelledDeliveries, cancel_all)
        return answer(CancelledNow(*acted))

    async def _act_on_all(
        self, request: web.Request, body: type[ResentDeliveries], act: _ActOnAll
    ) -> tuple[int, int, list[NotResent], str | None]:
        who = owner_of(self._callers, request, Scope.HOOKS)
        chosen, status = await read_body(request, body), HTTPStatus.UNPROCESSABLE_ENTITY
        given = (chosen.service, chosen.state, chosen.event, chosen.parcel)
        if any((*given, chosen.since, chosen.until)) == chosen.all:
            why = "say which: service, state, event, parcel, since or until, or all=true by itself"
            raise Problem(status, why, parameter="all")
        which = await self._which(who.account, chosen, status)
        came = await in_thread(act, self._services, who, which, ACT_SECONDS, ACTED_MOST)
        cursor = None if came.behind is None else cursor_of(*came.behind)
        failures = [NotResent(*each) for each in came.failures.items()]
        return came.done, came.failed, failures, cursor

    async def _act(self, request: web.Request, act: _Act, status: HTTPStatus) -> web.Response:
        who = owner_of(self._callers, request, Scope.HOOKS)
        done = await in_thread(act, self._services, who, who.account, request.match_info["id"])
        return answer(
            _now_of(done, await in_thread(names_of_services, self._stores, [done])), status
        )

    async def _which(self, account: Account, meant: MeantDeliveries, status: HTTPStatus) -> Which:
        which = await which_of(self._services, account, meant, status)
        return replace(which, event=meant.event, parcel=meant.parcel)


async def which_of(services: Services, account: Account, meant: Meant, status: HTTPStatus) -> Which:
    """Read which deliveries are meant; what means nothing is a Problem of this status."""
    cursor, service = place_of(meant.cursor, status), None
    if meant.service is not None:
        try:
            found = await in_thread(services.named, account, meant.service)
        except UnknownService as error:
            raise Problem(status, f"{error}", parameter="service") from error
        service = found.id
    return Which(
        account,
        service,
        meant.state,
        since=in_utc(meant.since, "since", status),
        until=in_utc(meant.until, "until", status),
        behind=cursor,
    )


def _now_of(delivery: Delivery, names: Mapping[str, str]) -> DeliveryNow:
    return DeliveryNow(**members(delivery, names[delivery.service]))


_LIST = About(
    "List deliveries, those of the newest events first.",
    Scope.READ,
    {200: DeliveryPage},
    parameters=parameters_of(ListedDeliveries),
)
_ONE = About(
    "Tell all of a delivery: its body and its attempts.", Scope.READ, {200: WholeDelivery}, (404,)
)
_RESEND = About("Send a delivery again, now.", Scope.HOOKS, {202: DeliveryNow}, refusals=(404, 409))
_CANCEL = About("Send a delivery no more.", Scope.HOOKS, {200: DeliveryNow}, refusals=(404, 409))
_RESEND_ALL = About(
    "Send deliveries again, now: the oldest first, those that are dead or held.",
    Scope.HOOKS,
    {200: ResentNow},
    body=ResentDeliveries,
)
_CANCEL_ALL = About(
    "Send deliveries no more: those that are open or held.",
    Scope.HOOKS,
    {200: CancelledNow},
    body=CancelledDeliveries,
)
