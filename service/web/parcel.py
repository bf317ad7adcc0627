"""The page of one parcel: where it is, what is asked about it, and what comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

from service.http.backend.operations import OperationView, queued
from service.http.events import NAMED_MOST, Stream
from service.http.exchange import Problem, malformed
from service.http.operations import holding, own_id
from service.http.reading import parcel_of
from service.http.serve import Backing
from service.operator.audit import recorded
from service.operator.connections import in_thread
from service.operator.forget import NOT_REACHED, Found, forget
from service.operator.keys import Scope
from service.operator.parcels import spoken_of
from service.operator.put import Sendable, job_of
from service.operator.stored import fields_in, shown
from service.web.frame import Answer, Page, View, see_other, view
from service.web.parcels import address
from service.web.visitors import Visitor, Visitors, fields_of
from service.web.writing import link
from tracking.errors import MalformedJob
from tracking.request import Number, Slug, account_and_id, operation_id

OPEN_MOST = 5
"""Open operations whose places are looked up for a page."""

ONE = "/parcels/{slug}/{number}"


class OneParcel:
    """For one event loop. Each handler raises Problem, 404 for what is another account's."""

    def __init__(self, visitors: Visitors, backing: Backing) -> None:
        self._visitors = visitors
        self._config = backing.config
        self._catalogue = backing.catalogue
        self._door = backing.door
        self._operations = backing.operations
        self._stores = backing.operations.stored.stores

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", ONE, self.show),
            Page("GET", f"{ONE}/now", self.now),
            Page("GET", f"{ONE}/events", self.events),
            Page("POST", f"{ONE}/ask", self.ask, Scope.INGEST),
            Page("GET", f"{ONE}/forget", self.confirm, operators=True),
            Page("POST", f"{ONE}/forget", self.forget, operators=True),
        ]

    async def show(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show a parcel. Raises Problem, StoreError."""
        values = await self._values(request, visitor)
        return view("parcels/one.html", **values)

    async def now(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show what of an open page has changed. Raises Problem, StoreError."""
        values = await self._values(request, visitor)
        return view("parcels/now.html", **values)

    async def events(self, request: web.Request, visitor: Visitor) -> Answer:
        """Tell an open page of its operations, as `/v1/events` does. Raises Problem, StoreError."""
        named = request.query.getall("id", [])[:NAMED_MOST]
        only = frozenset(own_id(each, visitor.account) for each in named)
        if not only:
            raise Problem(HTTPStatus.BAD_REQUEST, "name the operations: ?id=…")

        async def knows(request: web.Request) -> bool:
            return (await self._visitors.of(request)).known

        with holding(self._operations, visitor.email):
            return await Stream(self._operations, knows).tell(
                request, visitor.account, only, whose=visitor.account, progress=True
            )

    async def ask(self, request: web.Request, visitor: Visitor) -> Answer:
        """Have the courier asked now. Raises Problem, StoreError."""
        slug, number = parcel_of(request, self._catalogue)
        document = await self._operations.stored.tracking(slug, number, visitor.account)
        if not document and not await self._operations.of_parcel(slug, number, visitor.account):
            raise web.HTTPNotFound
        members = {"slug": slug, "number": number, "max_age": 0} | fields_in(document)
        try:
            put = job_of(members, self._catalogue, visitor.account)
        except MalformedJob as error:
            raise malformed(error, HTTPStatus.UNPROCESSABLE_ENTITY) from error
        await self._door.take([put])
        return see_other(address(slug, number), id=account_and_id(put.id)[1])

    async def confirm(self, request: web.Request, _: Visitor) -> Answer:
        """Ask whether to forget it. Raises Problem."""
        return self._confirm(request)

    async def forget(self, request: web.Request, visitor: Visitor) -> Answer:
        """Forget it, once its number was typed. Raises Problem, StoreError."""
        slug, number = parcel_of(request, self._catalogue)
        if (await fields_of(request))["typed"].strip().upper() != number:
            return self._confirm(request, "type the number as it stands above")

        def act() -> Found:
            # Which number it was is forgotten as well.
            with recorded(self._stores.audit, visitor.operator, "forget", {"slug": slug}) as it:
                [found] = forget(self._config, [(slug, number)])
                it |= {"failed": len(found.failed)}
            return found

        found = await asyncio.to_thread(act)
        done = "; ".join(found.failed) or "The parcel is forgotten."
        return see_other("/parcels", done=done)

    def _confirm(self, request: web.Request, wrong: str = "") -> View:
        slug, number = parcel_of(request, self._catalogue)
        return view(
            "parcels/forget.html",
            slug=slug,
            number=number,
            address=address(slug, number),
            wrong=wrong,
            not_reached=NOT_REACHED,
        )

    async def _values(self, request: web.Request, visitor: Visitor) -> dict[str, Any]:
        """Find all that a page of the parcel shows."""
        slug, number = parcel_of(request, self._catalogue)
        account = visitor.account
        operations = await self._operations.of_parcel(slug, number, account)
        operations = await self._with_asked(request, visitor, (slug, number), operations)
        # After them: what one has stored that has ended is shown, and an open page hears of others.
        document = await self._operations.stored.tracking(slug, number, account)
        words = await in_thread(spoken_of, self._stores.shipments, account, [f"{slug}:{number}"])
        if not (document or operations or words):
            raise web.HTTPNotFound
        still = [each for each in operations if not each.ended][:OPEN_MOST]
        waiting = await asyncio.gather(*(self._operations.find(each.id) for each in still))
        where = address(slug, number)
        ids = [account_and_id(each.id)[1] for each in still]
        return {
            "slug": slug,
            "number": number,
            "courier": self._catalogue.name(slug),
            "parcel": shown(document) if document else None,
            "words": words.get(f"{slug}:{number}", {}),
            "waiting": [found or each for found, each in zip(waiting, still, strict=True)],
            "operations": [(account_and_id(each.id)[1], each) for each in operations],
            "address": where,
            "again": link(f"{where}/now", id=request.query.get("id", "")),
            "events": f"{where}/events?" + "&".join(link("", id=each)[1:] for each in ids),
        }

    async def _with_asked(
        self,
        request: web.Request,
        visitor: Visitor,
        parcel: tuple[Slug, Number],
        known: Sequence[OperationView],
    ) -> list[OperationView]:
        """Add the operation that was just put, while its job is in the tube still."""
        identity = request.query.get("id", "")
        if not identity:
            return list(known)
        name = own_id(identity, visitor.account)
        if name in {each.id for each in known}:
            return list(known)
        found = await self._operations.find(name)
        if found is None:
            found = queued(Sendable(operation_id(visitor.account, identity), *parcel, b""))
        elif (found.slug, found.number) != parcel:
            raise web.HTTPNotFound
        return [found, *known]
