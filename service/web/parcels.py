"""The pages of an account's parcels: the list, its export, and the form that adds one."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

from service.http.backend.operators import cursor_of
from service.http.exchange import REQUEST_ID, Problem, finish
from service.http.parcels import ListedParcels
from service.http.reading import read_query
from service.http.serve import Backing
from service.operator.catalogue import Sign
from service.operator.connections import in_thread
from service.operator.keys import Scope
from service.operator.parcels import (
    COUNTED_MOST,
    SOUGHT_MOST,
    Counts,
    Narrow,
    Which,
    counts_of,
    exported,
    page_of,
)
from service.operator.put import job_of
from service.web import assets
from service.web.frame import Frame, Page, see_other
from service.web.visitors import Visitor
from service.web.writing import link, part
from tracking.checkpoint import Tag
from tracking.errors import MalformedJob, StoreError
from tracking.request import FIELDS, FIELDS_PREFIX, Account, account_and_id

COUNTED_SECONDS = 30.0
"""How long counts are shown before they are counted again."""

AGES = {"1": "an hour", "24": "a day", "168": "a week", "720": "30 days"}
"""Hours, and what the list calls them."""

SORTS = {"-updated": "changed last", "-created": "added last", "next_check": "next check"}
CANDIDATES_MOST = 8


class Parcels:
    """For one event loop."""

    def __init__(self, frame: Frame, backing: Backing) -> None:
        self._frame = frame
        self._catalogue = backing.catalogue
        self._door = backing.door
        self._stores = backing.operations.stored.stores
        self._counts: dict[Account, tuple[float, Counts]] = {}

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", "/parcels", self.listed),
            Page("GET", "/parcels/export", self.export),
            Page("GET", "/parcels/add", self.form, Scope.INGEST),
            Page("POST", "/parcels/add", self.add, Scope.INGEST),
            Page("GET", "/parcels/detect", self.detect, Scope.INGEST),
        ]

    async def listed(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """List parcels, with how many there are by tag. Raises Problem, StoreError."""
        meant = _meant(request)
        which = meant.which(visitor.account, self._catalogue)
        given = _given(request)
        values: dict[str, Any] = {"rows": (), "narrow": False, "following": "", "too_much": ""}
        try:
            page = await in_thread(page_of, self._stores, which, meant.limit)
        except Narrow as error:
            values["too_much"] = f"{error}"
        else:
            following = {**given, "cursor": cursor_of(*page.last)} if page.last else None
            values |= {"rows": page.rows, "narrow": page.narrow}
            values["following"] = link("/parcels", **following) if following else ""
        return self._frame.render(
            request,
            visitor,
            "parcels/list.html",
            **values,
            given=given,
            counts=await self._counted(visitor.account),
            filtered=any(name != "sort" for name in given),
            tags=tuple(Tag),
            slugs=self._catalogue.slugs,
            ages=AGES,
            sorts=SORTS,
            export=link("/parcels/export", **given),
            sought_most=SOUGHT_MOST,
            counted_most=COUNTED_MOST,
            may_add=Scope.INGEST in visitor.scopes,
        )

    async def _counted(self, account: Account) -> Counts | None:
        """Count by tag, not more often than COUNTED_SECONDS; None where that takes too long."""
        now = time.monotonic()
        until, counts = self._counts.get(account, (0.0, None))
        if until > now:
            return counts
        try:
            counted: Counts = await in_thread(counts_of, self._stores, account)
        except Narrow:
            return counts
        self._counts = {name: each for name, each in self._counts.items() if each[0] > now}
        self._counts[account] = now + COUNTED_SECONDS, counted
        return counted

    async def export(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Write all that the list would show as CSV, as it is read. Raises Problem, StoreError."""
        which = _meant(request).which(visitor.account, self._catalogue)
        return await _streamed(request, self._stores, which)

    async def form(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Show the form that adds a parcel."""
        return self._form(request, visitor, dict(request.query), HTTPStatus.OK)

    async def detect(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Show the choice of couriers for what is typed: a part of an open form."""
        number = request.query.get("number", "")
        return self._frame.render(
            request,
            visitor,
            "parcels/couriers.html",
            candidates=self._candidates(number),
            slugs=self._catalogue.slugs,
            chosen="",
            asked=bool(number),
        )

    async def add(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Put a request for a parcel; without a courier the likely ones are offered.

        Raises Problem, StoreError.
        """
        posted = await request.post()
        given = {name: text.strip() for name, text in posted.items() if isinstance(text, str)}
        members = {name: given[name] for name in ("number", "slug", *FIELDS) if given.get(name)}
        try:
            if "slug" not in members:
                members["slug"] = self._catalogue.likeliest(members.get("number", ""))
            put = job_of(members, self._catalogue, visitor.account)
        except MalformedJob as error:
            status = HTTPStatus.UNPROCESSABLE_ENTITY
            return self._form(request, visitor, given, status, error.detail)
        await self._door.take([put])
        return see_other(address(put.slug, put.number), id=account_and_id(put.id)[1])

    def _form(
        self,
        request: web.Request,
        visitor: Visitor,
        given: dict[str, str],
        status: HTTPStatus,
        wrong: str = "",
    ) -> web.Response:
        number = given.get("number", "")
        return self._frame.render(
            request,
            visitor,
            "parcels/add.html",
            status,
            given=given,
            wrong=wrong,
            candidates=self._candidates(number),
            chosen=given.get("slug", ""),
            asked=bool(number),
            slugs=self._catalogue.slugs,
            fields={name: (name.removeprefix(FIELDS_PREFIX), FIELDS[name]) for name in FIELDS},
        )

    def _candidates(self, number: str) -> Sequence[Any]:
        try:
            found = self._catalogue.candidates(number)
        except MalformedJob:
            return ()
        return [each for each in found if each.sign is not Sign.NO_MODULE][:CANDIDATES_MOST]


def address(slug: str, number: str) -> str:
    """Write the path of a parcel's page."""
    return f"/parcels/{part(slug)}/{part(number)}"


def _given(request: web.Request) -> dict[str, str]:
    """Take what was filled in of the form of the list."""
    names = ("tag", "slug", "active", "label", "search", "age", "sort")
    return {name: text for name in names if (text := request.query.get(name, "").strip())}


def _meant(request: web.Request) -> ListedParcels:
    """Read the query of a list, in which a form sends empty members too. Raises Problem."""
    given = _given(request)
    if age := given.pop("age", ""):
        if age not in AGES:
            raise Problem(HTTPStatus.BAD_REQUEST, f"age is one of {', '.join(AGES)} hours")
        since = dt.datetime.now(dt.UTC) - dt.timedelta(hours=int(age))
        given["updated_since"] = since.isoformat()
    if cursor := request.query.get("cursor"):
        given["cursor"] = cursor
    return read_query(request.clone(rel_url=request.rel_url.with_query(given)), ListedParcels)


async def _streamed(request: web.Request, stores: Any, which: Which) -> web.StreamResponse:
    if request.method == "HEAD":
        return web.Response(headers=csv_headers("parcels.csv"))
    parts = exported(stores, which)
    begun = await in_thread(next, parts, None), await in_thread(next, parts, None)
    response = web.StreamResponse(headers=csv_headers("parcels.csv"))
    finish(response, request[REQUEST_ID])
    await response.prepare(request)
    try:
        for text in begun:
            await response.write((text or "").encode())
        while (text := await in_thread(next, parts, None)) is not None:
            await response.write(text.encode())
    except (ConnectionError, StoreError):
        # Cut off, so that nobody takes a part for the whole.
        if request.transport:
            request.transport.abort()
        return response
    await response.write_eof()
    return response


def csv_headers(name: str) -> dict[str, str]:
    """Make the headers of a CSV file that a browser saves."""
    kind = {"Content-Type": "text/csv; charset=utf-8"}
    return {**assets.HEADERS, **kind, "Content-Disposition": f'attachment; filename="{name}"'}
