"""The pages of imports: a CSV file is put, and each of its rows followed to its answer."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web

from service.http.exchange import Problem
from service.http.serve import Backing
from service.operator import imports
from service.operator.connections import in_thread
from service.operator.keys import Scope
from service.operator.producer import batches
from service.operator.tables import BadTable
from service.web.frame import Answer, Page, moving, see_other, view
from service.web.parcels import csv_headers
from service.web.visitors import Visitor
from tracking.errors import NotDone, StoreError

TOGETHER = 500
"""Requests that are put at once: so many at most are put and not noted where a process ends."""

SHOWN_MOST = 200
"""Rows of a page; the report has all."""


class Imports:
    """For one event loop."""

    def __init__(self, backing: Backing) -> None:
        self._catalogue = backing.catalogue
        self._door = backing.door
        self._stores = backing.operations.stored.stores

    def pages(self) -> list[Page]:
        """Name them."""
        one = "/parcels/import/{id}"
        return [
            Page("GET", "/parcels/import", self.form, Scope.INGEST),
            Page("POST", "/parcels/import", self.take, Scope.INGEST),
            Page("GET", f"{one}/report", self.report),
            *moving(one, "parcels/import_one", self._values, operators=False),
        ]

    async def form(self, _: web.Request, visitor: Visitor, wrong: str = "") -> Answer:
        """Show the form that uploads a file, and what was imported lately. Raises StoreError."""
        return view(
            "parcels/import.html",
            wrong=wrong,
            slugs=self._catalogue.slugs,
            rows_most=imports.ROWS_MOST,
            imports=await in_thread(imports.listed, self._stores, visitor.account),
        )

    async def take(self, request: web.Request, visitor: Visitor) -> Answer:
        """Put the rows of a file; each is durable once the answer is there. Raises StoreError."""
        posted = await request.post()
        file = posted.get("file")
        if not isinstance(file, web.FileField) or not file.filename:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "choose a CSV file")
        body, name, slug = file.file.read(), file.filename[:100], f"{posted.get('slug', '')}"
        account = visitor.account
        try:
            table = await in_thread(imports.read, body, name, slug, self._catalogue, account)
        except BadTable as error:
            return await self.form(request, visitor, f"{error}")
        made = await in_thread(imports.begin, self._stores, account, name, table)
        count, done = 0, ""
        try:
            for some in batches(table.jobs, TOGETHER):
                await self._door.take(some)
                count += len(some)
        except (StoreError, NotDone) as error:  # a server is away, or a quota is used up
            done = f"Not all rows were put: {error}."
        await in_thread(imports.note_put, self._stores, made, count)
        return see_other(f"/parcels/import/{made}", done=done)

    async def report(self, request: web.Request, visitor: Visitor) -> Answer:
        """Give the report as CSV. Raises Problem, StoreError."""
        found = await self._found(request, visitor)
        text = await in_thread("".join, imports.report(found))
        return web.Response(body=text.encode(), headers=csv_headers("import.csv"))

    async def _values(self, request: web.Request, visitor: Visitor) -> Mapping[str, Any]:
        """Find how far an import is. Raises Problem, StoreError."""
        found = await self._found(request, visitor)
        # What needs somebody comes first.
        order = {"refused": 0, "failed": 1, imports.WAITS: 2}
        rows = sorted(
            found.outcomes, key=lambda each: (order.get(each.outcome, 3), each.row["row"])
        )
        return {"found": found, "rows": rows[:SHOWN_MOST], "counts": found.counts()}

    async def _found(self, request: web.Request, visitor: Visitor) -> imports.Import:
        named = request.match_info["id"]
        try:
            found: imports.Import = await in_thread(
                imports.find, self._stores, visitor.account, named
            )
        except imports.UnknownImport as error:
            raise Problem(HTTPStatus.NOT_FOUND, f"{error}") from error
        return found
