"""`/v1/links`: addresses that start a check without a key; `/start/…`: these addresses."""

from __future__ import annotations

import datetime as dt
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

from service.config.schema import Http
from service.http.backend.links import (
    APART_SECONDS,
    LINKS_MOST,
    Link,
    Links,
    TooManyLinks,
    UnknownLink,
    UsedJustNow,
)
from service.http.callers import Callers, owner_of
from service.http.exchange import About, Problem, Route, answer, malformed
from service.http.reading import parameters_of, read_body, read_query
from service.operator.keys import Scope
from service.operator.put import PostedLink
from tracking.errors import MalformedJob
from tracking.request import account_and_id

# The browser names no address that holds a secret to another site.
_SECRET = {"Referrer-Policy": "no-referrer"}


class ListedLink(msgspec.Struct, rename="camel"):
    """A secret link, without its secret; `startedAt` is when it was last used."""

    id: str
    slug: str
    number: str
    title: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None


class NewLink(msgspec.Struct, rename="camel"):
    """A secret link that was made just now. Nobody can read its `url` again."""

    id: str
    url: str
    slug: str
    number: str
    title: str | None
    created_at: dt.datetime


class ListedLinks(msgspec.Struct):
    """Links, the oldest first; more are listed `after` the id `next`, null where there are none."""

    links: list[ListedLink]
    next: str | None


class StartedCheck(msgspec.Struct):
    """A check that a link started; `url` tells those with a key what became of it."""

    id: str
    url: str
    spooled: bool


class Listing(msgspec.Struct, forbid_unknown_fields=True):
    """Which links are listed."""

    after: Annotated[
        str, Meta(pattern="^([0-9a-f]{24})?$", description="the id of a link: list later ones")
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=1_000, description="how many, from 1 to 1000")] = 100


class LinkRoutes:
    """The routes."""

    def __init__(self, links: Links, callers: Callers, http: Http) -> None:
        self._links = links
        self._callers = callers
        self._http = http

    def routes(self) -> list[Route]:
        """Name them."""
        by_get = [Route("GET", "/start/{secret}", self.start, _START)]
        return [
            Route("POST", "/v1/links", self.add, _ADD),
            Route("GET", "/v1/links", self.listed, _LIST),
            Route("DELETE", "/v1/links/{id}", self.revoke, _REVOKE),
            Route("POST", "/start/{secret}", self.start, _START),
            *(by_get if self._http.links_by_get else ()),
        ]

    async def add(self, request: web.Request) -> web.Response:
        """Make a link. Raises Problem, StoreError."""
        who = owner_of(self._callers, request, Scope.INGEST)
        wanted = await read_body(request, PostedLink)
        members: dict[str, Any] = msgspec.to_builtins(wanted)
        title = members.pop("title")
        kept = {name: value for name, value in members.items() if value is not None}
        try:
            made, secret = await self._links.add(who, kept, title)
        except MalformedJob as error:
            raise malformed(error, HTTPStatus.UNPROCESSABLE_ENTITY) from error
        except TooManyLinks as error:
            why = f"there are {LINKS_MOST} links already: revoke those that nobody needs"
            raise Problem(HTTPStatus.CONFLICT, why) from error
        url = self._url(request, f"/start/{secret}")
        said = NewLink(made.id, url, made.slug, made.number, made.title, made.made_at)
        response = answer(said, HTTPStatus.CREATED)
        response.headers.update(_SECRET)
        return response

    async def listed(self, request: web.Request) -> web.Response:
        """List the account's. Raises Problem, StoreError."""
        account = self._callers.account(request, Scope.READ)
        wanted = read_query(request, Listing)
        found = await self._links.of(account, wanted.after, wanted.limit + 1)
        shown = [*map(_listed, found[: wanted.limit])]
        return answer(ListedLinks(shown, shown[-1].id if len(found) > len(shown) else None))

    async def revoke(self, request: web.Request) -> web.Response:
        """End a link. Raises Problem, StoreError."""
        who = owner_of(self._callers, request, Scope.INGEST)
        if not await self._links.revoke(who, request.match_info["id"]):
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such link: `GET /v1/links` lists them")
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def start(self, request: web.Request) -> web.Response:
        """Start the check of the link with this secret. Raises Problem, StoreError."""
        traceparent = request.headers.get("traceparent")
        try:
            started = await self._links.start(request.match_info["secret"], traceparent)
        except UnknownLink as error:
            why = "there is no such link, or it was revoked: ask for a new one where you got it"
            raise Problem(HTTPStatus.NOT_FOUND, why) from error
        except UsedJustNow as error:
            why = "this link was used just now: it starts one check a second at most"
            later = {"Retry-After": f"{APART_SECONDS}"}
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, why, later) from error
        except MalformedJob as error:
            raise malformed(error, HTTPStatus.CONFLICT) from error
        identity = account_and_id(started.put.id)[1]
        url = self._url(request, f"/v1/operations/{identity}")
        response = answer(StartedCheck(identity, url, started.spooled), HTTPStatus.CREATED)
        response.headers.update(_SECRET | {"Location": url})
        return response

    def _url(self, request: web.Request, path: str) -> str:
        return f"{self._http.public_url or f'http://{request.host}'}{path}"


def _listed(link: Link) -> ListedLink:
    return ListedLink(link.id, link.slug, link.number, link.title, link.made_at, link.started_at)


_ADD = About(
    "Make a secret link: who has its address may start a check of this parcel.",
    Scope.INGEST,
    {201: NewLink},
    refusals=(409,),
    body=PostedLink,
)
_LIST = About(
    "List the secret links of the account, the oldest first.",
    Scope.READ,
    {200: ListedLinks},
    parameters=parameters_of(Listing),
)
_REVOKE = About("Revoke a secret link.", Scope.INGEST, {204: None}, refusals=(404,))
_START = About(
    "Start the check of a secret link; no key is asked for.",
    None,
    {201: StartedCheck},
    refusals=(403, 404, 409, 429),
)
