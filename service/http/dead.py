"""`/v1/dead`: requests that got no answer, listed, kicked and deleted. For operators only."""

from __future__ import annotations

import contextlib
import datetime as dt
from http import HTTPStatus
from typing import Annotated, NotRequired, TypedDict, cast

import msgspec
from aiohttp import web
from msgspec import Meta

from service.http.backend.operators import Acted, Filter, Operators, behind
from service.http.callers import Callers
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
from service.operator.catalogue import Catalogue
from service.operator.dead import shown
from service.operator.keys import Scope
from tracking.errors import MalformedJob
from tracking.request import NAME, Account

RECORDS_MOST = 500
"""Of one kick or deletion."""

PAGE_MOST = 200

NAMED_MOST = 100
"""Records that an answer names."""

_ACCOUNT = Annotated[str, Meta(pattern=f"^{NAME.pattern}$")]
_LIMIT = Annotated[int, Meta(ge=1, le=PAGE_MOST)]
_IDS = Annotated[tuple[str, ...], Meta(max_length=RECORDS_MOST)]


class Meant(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead requests are meant: those that agree with all that is given."""

    slug: Annotated[
        str | None, Meta(description="a courier: only its requests", examples=["usps"])
    ] = None
    reason: Annotated[str | None, Meta(description="a reason: only requests with it")] = None
    account: Annotated[
        _ACCOUNT | None, Meta(description="an account, 1 to 20 of a-z and 0-9: only its requests")
    ] = None
    since: Annotated[MOMENT | None, Meta(description=f"{TIME}: recorded since then")] = None
    cursor: CURSOR = None


class Listed(Meant):
    """Which dead requests are listed, and how many."""

    limit: Annotated[_LIMIT, Meta(description=f"how many at most, 1 to {PAGE_MOST}")] = 50


class Chosen(Meant):
    """Which dead requests are kicked or deleted."""

    ids: Annotated[_IDS, Meta(description=f"a list of ids of records, {RECORDS_MOST} at most")] = ()
    all: Annotated[bool, Meta(description="true for every record, and then by itself")] = False


class DeadRequest(TypedDict):
    """A record of a request that got no answer; null is what its job did not name."""

    _id: str
    slug: NotRequired[str | None]
    number: NotRequired[str | None]
    operations: NotRequired[list[str]]
    reason: NotRequired[str]
    detail: NotRequired[str]
    body: NotRequired[Annotated[str | None, Meta(description="its job, as far as it is kept")]]
    server: NotRequired[Annotated[str | None, Meta(description="where its job is buried")]]
    job: NotRequired[int | None]
    at: NotRequired[dt.datetime | None]


class Page(msgspec.Struct):
    """Dead requests, the newest first; `cursor` is null where no more follow."""

    dead: list[DeadRequest]
    cursor: str | None


class NotDone(msgspec.Struct):
    """A record to which nothing was done, and why."""

    id: str
    detail: str


class Came(msgspec.Struct):
    """What became of records; with `cursor` the next ones are asked for, null: there are none."""

    failed: int
    failures: list[NotDone]
    cursor: str | None


class Kicked(Came, kw_only=True):
    """How many were put again."""

    kicked: int


class Deleted(Came, kw_only=True):
    """How many were deleted, with their buried jobs."""

    deleted: int


class DeadRoutes:
    """The routes."""

    def __init__(self, operators: Operators, catalogue: Catalogue, callers: Callers) -> None:
        self._operators = operators
        self._catalogue = catalogue
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name them."""
        return [
            Route("GET", "/v1/dead", self.listed, _LIST),
            Route("GET", "/v1/dead/{id}", self.one, _ONE),
            Route("POST", "/v1/dead/kick", self.kick, _KICK),
            Route("DELETE", "/v1/dead", self.delete, _DELETE),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """List those that are meant, the newest first. Raises Problem, StoreError."""
        self._callers.operator(request)
        wanted = read_query(request, Listed)
        chosen = self._filter(wanted, (), HTTPStatus.BAD_REQUEST)
        found = await self._operators.dead(chosen, wanted.limit)
        more = behind(found[-1]) if len(found) == wanted.limit else None
        return answer(Page([cast("DeadRequest", shown(each)) for each in found], more))

    async def one(self, request: web.Request) -> web.Response:
        """Tell all of one. Raises Problem, StoreError."""
        self._callers.operator(request)
        found = await self._operators.dead(Filter(ids=(request.match_info["id"],)), 1)
        if not found:
            why = "no dead request has this id: GET /v1/dead lists them"
            raise Problem(HTTPStatus.NOT_FOUND, why)
        return answer(shown(found[0]))

    async def kick(self, request: web.Request) -> web.Response:
        """Put those that are meant again. Raises Problem, StoreError."""
        who, chosen = self._callers.operator(request), await read_body(request, Chosen)
        wanted = self._chosen(chosen, HTTPStatus.UNPROCESSABLE_ENTITY)
        came = await self._operators.kick(who, wanted, RECORDS_MOST)
        return answer(Kicked(*_rest_of(came), kicked=came.done))

    async def delete(self, request: web.Request) -> web.Response:
        """Delete those that are meant. Raises Problem, StoreError."""
        who, chosen = self._callers.operator(request), read_query(request, Chosen)
        wanted = self._chosen(chosen, HTTPStatus.BAD_REQUEST)
        came = await self._operators.delete(who, wanted, RECORDS_MOST)
        return answer(Deleted(*_rest_of(came), deleted=came.done))

    def _chosen(self, chosen: Chosen, status: HTTPStatus) -> Filter:
        narrowed = (chosen.ids, chosen.slug, chosen.reason, chosen.account, chosen.since)
        if any(narrowed) == chosen.all:
            why = "say which: ids, slug, reason, account or since, or all=true without any of them"
            raise Problem(status, why, parameter="all")
        return self._filter(chosen, chosen.ids, status)

    def _filter(self, meant: Meant, ids: tuple[str, ...], status: HTTPStatus) -> Filter:
        slug, account = meant.slug, meant.account
        if slug is not None:
            # A courier that nobody has is no mistake: requests for it die, too.
            with contextlib.suppress(MalformedJob):
                slug = self._catalogue.resolve(slug)[0]
        return Filter(
            ids=ids,
            slug=slug,
            reason=meant.reason,
            since=in_utc(meant.since, "since", status),
            account=None if account is None else Account(account),
            behind=place_of(meant.cursor, status),
        )


def _rest_of(acted: Acted) -> tuple[int, list[NotDone], str | None]:
    named = list(acted.failures.items())[:NAMED_MOST]
    return len(acted.failures), [NotDone(*each) for each in named], acted.cursor


_LIST = About(
    "List dead requests, the newest first.", Scope.ADMIN, {200: Page}, (404,), parameters_of(Listed)
)
_ONE = About("Tell all of a dead request.", Scope.ADMIN, {200: DeadRequest}, (404,))
_KICK = About(
    "Put dead requests again, as new operations, and delete their records.",
    Scope.ADMIN,
    {200: Kicked},
    (404,),
    body=Chosen,
)
_DELETE = About(
    "Delete records of dead requests, with their buried jobs.",
    Scope.ADMIN,
    {200: Deleted},
    (404,),
    parameters_of(Chosen),
)
