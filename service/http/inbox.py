"""`/v1/inbox`: what other systems sent to an account's relays, looked at, edited and sent again."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from service.config.schema import Config
from service.http.backend.operators import cursor_of
from service.http.callers import Callers, owner_of
from service.http.deliveries import LIMIT, PAGE_MOST, AttemptMade, Meant, which_of
from service.http.exchange import About, Parameter, Problem, Route, answer
from service.http.reading import parameters_of, read_body, read_query
from service.operator.connections import in_thread
from service.operator.deliveries import Delivery, DeliveryState
from service.operator.inbox import Edit, delete, edit, inbox_of, resend, show, sought
from service.operator.keys import Scope
from service.operator.services import BadWish, Services

EDIT_MOST = 2 << 20
"""Bytes of an edited request as JSON: a body of 1 MiB in Base64, and its head."""

_KEY = Annotated[str, Meta(description="the same one makes one request, however often it is sent")]


class ListedInbox(Meant):
    """Which relayed requests are listed: those that agree with all that is given."""

    status: Annotated[
        Annotated[int, Meta(ge=0, le=599)] | None,
        Meta(description="the status by which the last attempt was answered, from 0: not at all"),
    ] = None
    words: Annotated[
        str | None, Meta(description="words of path, headers or body: what has each of them")
    ] = None
    limit: Annotated[LIMIT, Meta(description=f"how many at most, 1 to {PAGE_MOST}")] = 50


class RelayedNow(msgspec.Struct, kw_only=True):
    """A request that another system sent to a relay, on its way to the destination."""

    id: Annotated[str, Meta(description="the header relay-id of each of its attempts")]
    service: Annotated[str, Meta(description="the name of its relay")]
    state: DeliveryState
    why: Annotated[str, Meta(description="why its last attempt failed, or why it ended")]
    status: Annotated[
        int | None,
        Meta(description="of the answer to its last attempt; 0: none came; null: none was made"),
    ]
    made: Annotated[int, Meta(description="attempts that were made")]
    round: Annotated[int, Meta(description="1, and one more with each resend")]
    received_at: Annotated[dt.datetime, Meta(description="when the door had all of it")]
    next_at: Annotated[dt.datetime | None, Meta(description="when it is due; null where it is not")]
    ended_at: dt.datetime | None
    method: Annotated[str | None, Meta(description="null where it is not kept any more")]
    url: Annotated[str | None, Meta(description="as its sender addressed it")]
    edited_from: Annotated[str | None, Meta(description="the one of which it is an edited copy")]


class Pushed(msgspec.Struct):
    """What became of what a courier pushed: the parcels that are asked for, or why there are none.

    docs/couriers.md lists the reasons.
    """

    courier: str
    verified: bool
    why: str
    parcels: list[str]


class WholeRelayed(RelayedNow, kw_only=True):
    """All of a relayed request. Texts of its head hold a byte in each character (Latin-1)."""

    target: Annotated[str | None, Meta(description="path and query, as they were sent")]
    headers: Annotated[list[tuple[str, str]], Meta(description="in order, with repetition")]
    media_type: Annotated[str | None, Meta(description="its header Content-Type")]
    body: Annotated[str | None, Meta(description="the body, where it is text in UTF-8")]
    body_base64: Annotated[str | None, Meta(description="a body that is not")]
    push: Annotated[Pushed | None, Meta(description="of what a courier pushed")]
    attempts: list[AttemptMade]


class InboxPage(msgspec.Struct):
    """Relayed requests, the newest first; `cursor` is null where no more follow."""

    requests: list[RelayedNow]
    searched_until: Annotated[
        dt.datetime | None,
        Meta(description="words: of what came from then on some may not be found yet"),
    ]
    cursor: str | None


class EditedRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What is another of a request than it was; what is not named stays."""

    method: str | None = None
    target: Annotated[str | None, Meta(description="path and query, as they are sent")] = None
    headers: Annotated[
        list[tuple[str, str]] | None, Meta(description="all of them, as names and values")
    ] = None
    body: Annotated[str | None, Meta(description="the body as text, sent in UTF-8")] = None
    body_base64: Annotated[bytes | None, Meta(description="or its bytes in Base64")] = None


class Sending(msgspec.Struct):
    """A relayed request that is sent now, and how it stands."""

    id: str
    state: DeliveryState
    url: Annotated[str, Meta(description="where it is looked at")]


class InboxRoutes:
    """The routes."""

    def __init__(self, config: Config, services: Services, callers: Callers) -> None:
        self._config = config
        self._stores = services.stores
        self._services = services
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name them."""
        one = "/v1/inbox/{id}"
        return [
            Route("GET", "/v1/inbox", self.listed, _LIST),
            Route("GET", one, self.one, _ONE),
            Route("POST", f"{one}/resend", self.resend, _RESEND),
            Route("POST", f"{one}/edit", self.edit, _EDIT),
            Route("DELETE", one, self.delete, _DELETE),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """List those that are meant, the newest first. Raises Problem, StoreError."""
        account = self._callers.account(request, Scope.READ)
        meant, status = read_query(request, ListedInbox), HTTPStatus.BAD_REQUEST
        which = await which_of(self._services, account, meant, status)
        try:
            words = () if meant.words is None else sought(meant.words)
        except BadWish as error:
            raise Problem(status, f"{error}", parameter=error.parameter) from error
        which = replace(which, status=meant.status, words=words)
        page = await in_thread(inbox_of, self._stores, which, meant.limit)
        found = [RelayedNow(**each) for each in page.requests]
        more = len(found) == meant.limit
        cursor = cursor_of(found[-1].received_at, found[-1].id) if more else None
        return answer(InboxPage(found, page.searched_until if words else None, cursor))

    async def one(self, request: web.Request) -> web.Response:
        """Show all of one. Raises Problem, StoreError."""
        account = self._callers.account(request, Scope.READ)
        told = await in_thread(show, self._stores, account, request.match_info["id"])
        return answer(msgspec.convert(told, WholeRelayed))

    async def resend(self, request: web.Request) -> web.Response:
        """Have one sent now. Raises Problem, StoreError."""
        who = owner_of(self._callers, request, Scope.HOOKS)
        sent = await in_thread(resend, self._services, who, who.account, request.match_info["id"])
        return _sending(sent)

    async def edit(self, request: web.Request) -> web.Response:
        """Have an edited copy of one sent now. Raises Problem, StoreError."""
        who = owner_of(self._callers, request, Scope.HOOKS)
        wished = await read_body(request, EditedRequest, EDIT_MOST)
        if wished.body is not None and wished.body_base64 is not None:
            why = "body and body_base64 are two bodies: send one of them"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, why, parameter="body")
        key = request.headers.get("Idempotency-Key", "")
        if key:
            self._callers.insist_on_idempotency_key(request)
        body = wished.body_base64 if wished.body is None else wished.body.encode()
        change = Edit(wished.method, wished.target, wished.headers, body, key)
        made = await in_thread(
            edit, self._services, who, who.account, request.match_info["id"], change
        )
        return _sending(made)

    async def delete(self, request: web.Request) -> web.Response:
        """Delete one, once no attempt of it runs. Raises Problem, StoreError."""
        who = owner_of(self._callers, request, Scope.HOOKS)
        name = request.match_info["id"]
        await in_thread(delete, self._config, self._stores, who, who.account, name)
        return web.Response(status=HTTPStatus.NO_CONTENT)


def _sending(delivery: Delivery) -> web.Response:
    url = f"/v1/inbox/{delivery.id}"
    response = answer(Sending(delivery.id, delivery.state, url), HTTPStatus.ACCEPTED)
    response.headers["Location"] = url
    return response


_LIST = About(
    "List what other systems sent to relays, the newest first.",
    Scope.READ,
    {200: InboxPage},
    parameters=parameters_of(ListedInbox),
)
_ONE = About(
    "Tell all of a relayed request: as it came, and its attempts.",
    Scope.READ,
    {200: WholeRelayed},
    (404,),
)
_RESEND = About("Send a relayed request again, now.", Scope.HOOKS, {202: Sending}, (404, 409))
_EDIT = About(
    "Send an edited copy of a relayed request, now.",
    Scope.HOOKS,
    {202: Sending},
    refusals=(404, 409),
    parameters=(Parameter("Idempotency-Key", _KEY, "header"),),
    body=EditedRequest,
)
_DELETE = About(
    "Delete a relayed request, with its body and its attempts.",
    Scope.HOOKS,
    {204: None},
    refusals=(404, 409),
)
