"""The pages of an account's parcels: the list, its export, and the form that adds one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

from service.http.backend.operators import cursor_of
from service.http.exchange import REQUEST_ID, Problem, finish
from service.http.parcels import ListedParcels
from service.http.reading import read_query
from service.http.serve import Backing
from service.operator.connections import in_thread
from service.operator.keys import Scope
from service.operator.parcels import (
    COUNTED_MOST,
    SOUGHT_MOST,
    Counts,
    Narrow,
    Which,
    exported,
    page_of,
)
from service.operator.put import job_of
from service.web import assets
from service.web.board import Board
from service.web.frame import Answer, Page, View, see_other, view
from service.web.visitors import Visitor, fields_of
from service.web.writing import link, part
from tracking.checkpoint import Tag
from tracking.errors import MalformedJob, StoreError
from tracking.request import FIELDS, FIELDS_PREFIX, account_and_id

AGES = {"1": "an hour", "24": "a day", "168": "a week", "720": "30 days"}
"""Hours, and what the list calls them."""

SORTS = {"-updated": "changed last", "-created": "added last", "next_check": "next check"}
CANDIDATES_MOST = 8


class Parcels:
    """For one event loop."""

    def __init__(self, backing: Backing, board: Board) -> None:
        self._catalogue = backing.catalogue
        self._door = backing.door
        self._stores = backing.operations.stored.stores
        self._board = board

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", "/parcels", self.listed),
            Page("GET", "/parcels/export", self.export),
            Page("GET", "/parcels/add", self.form, Scope.INGEST),
            Page("POST", "/parcels/add", self.add, Scope.INGEST),
            Page("GET", "/parcels/detect", self.detect, Scope.INGEST),
        ]

    async def listed(self, request: web.Request, visitor: Visitor) -> Answer:
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
        return view(
            "parcels/list.html",
            **values,
            given=given,
            counts=await self._counted(visitor),
            filtered=any(name != "sort" for name in given),
            tags=tuple(Tag),
            slugs=self._catalogue.slugs,
            ages=AGES,
            sorts=SORTS,
            export=link("/parcels/export", **given),
            sought_most=SOUGHT_MOST,
            counted_most=COUNTED_MOST,
        )

    async def _counted(self, visitor: Visitor) -> Counts | None:
        """Count by tag; None where that takes too long."""
        try:
            return await self._board.accounts.counts(visitor.account)
        except Narrow:
            return None

    async def export(self, request: web.Request, visitor: Visitor) -> Answer:
        """Write all that the list would show as CSV, as it is read. Raises Problem, StoreError."""
        which = _meant(request).which(visitor.account, self._catalogue)
        return await _streamed(request, self._stores, which)

    async def form(self, request: web.Request, _: Visitor) -> Answer:
        """Show the form that adds a parcel."""
        return self._form(request.query)

    async def detect(self, request: web.Request, _: Visitor) -> Answer:
        """Show the choice of couriers for what is typed: a part of an open form."""
        number = request.query.get("number", "")
        return view(
            "parcels/couriers.html",
            candidates=self._candidates(number),
            slugs=self._catalogue.slugs,
            chosen="",
            asked=bool(number),
        )

    async def add(self, request: web.Request, visitor: Visitor) -> Answer:
        """Put a request for a parcel; without a courier the likely ones are offered.

        Raises Problem, StoreError.
        """
        given = {name: text.strip() for name, text in (await fields_of(request)).items()}
        members = {name: given[name] for name in ("number", "slug", *FIELDS) if given.get(name)}
        try:
            if "slug" not in members:
                members["slug"] = self._catalogue.likeliest(members.get("number", ""))
            put = job_of(members, self._catalogue, visitor.account)
        except MalformedJob as error:
            return self._form(given, error.detail)
        await self._door.take([put])
        return see_other(address(put.slug, put.number), id=account_and_id(put.id)[1])

    def _form(self, given: Mapping[str, str], wrong: str = "") -> View:
        number = given.get("number", "")
        return view(
            "parcels/add.html",
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
            return self._catalogue.candidates(number, served=True)[:CANDIDATES_MOST]
        except MalformedJob:
            return ()


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


async def _streamed(request: web.Request, stores: Any, which: Which) -> Answer:
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
