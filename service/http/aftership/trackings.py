"""`/tracking/{version}/trackings…`: an account's shipments, as AfterShip's SDKs ask for them."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web

from service.http.aftership.envelope import BELOW, Envelope, refusal
from service.http.aftership.reading import (
    Complete,
    Create,
    Update,
    cursor_of,
    fields_of,
    filters_of,
    page_of,
    read,
    version_of,
    words_of,
)
from service.http.backend.shipments import Code, Position, ShipmentError, Shipments
from service.http.callers import Callers
from service.http.exchange import NOT_IN_THE_DOCUMENT, Route
from service.operator.catalogue import Catalogue
from service.operator.keys import Scope
from service.worker.deliveries.aftership import chosen, tracking
from tracking.request import Account, account_and_id


class TrackingRoutes:
    """The routes."""

    def __init__(
        self, shipments: Shipments, catalogue: Catalogue, callers: Callers, envelope: Envelope
    ) -> None:
        self._shipments = shipments
        self._catalogue = catalogue
        self._callers = callers
        self._envelope = envelope

    def routes(self) -> list[Route]:
        """Name them."""
        every = f"{BELOW}/trackings"
        one = f"{every}/{{id}}"
        named = (
            ("POST", every, self.create),
            ("GET", every, self.page),
            ("GET", one, self.look),
            ("PUT", one, self.update),
            ("DELETE", one, self.delete),
            ("POST", f"{one}/retrack", self.retrack),
            ("POST", f"{one}/mark-as-completed", self.complete),
        )
        by_parcel = [
            (method, path.replace("{id}", "{slug}/{number}"), handler)
            for method, path, handler in named
            if path.startswith(one)
        ]
        return [Route(*each, NOT_IN_THE_DOCUMENT) for each in (*named, *by_parcel)]

    async def create(self, request: web.Request) -> web.Response:
        """Make a shipment; 201 once its request is durable. Raises Problem, StoreError."""
        account = self._account(request, Scope.INGEST)
        said = await read(request, Create)
        words = {name: each for name, each in words_of(said).items() if each is not None}
        named = {"number": said.tracking_number, "slug": said.slug or "", "id": said.id or ""}
        traced = request.headers.get("traceparent")
        with _refusing():
            made = await self._shipments.create(account, named, words, traced)
        return self._told(request, made, HTTPStatus.CREATED)

    async def page(self, request: web.Request) -> web.Response:
        """List shipments, the newest first. Raises Problem, StoreError."""
        account = self._account(request, Scope.READ)
        query = request.query
        wanted = filters_of(query, account, self._catalogue.registry.resolve)
        asked, fields = page_of(query, account), fields_of(query)
        found, more = await self._shipments.page(wanted, asked.most, asked.after)
        total = await self._shipments.count(wanted)
        last = Position(found[-1]["created_at"], found[-1]["_id"]) if more else None
        pagination = {
            "total": total,
            "next_cursor": cursor_of(last) if last else "",
            "has_next_page": more,
        }
        shown = [chosen(self._shown(request, each), fields) for each in found]
        return self._envelope.answered(request, {"pagination": pagination, "trackings": shown})

    async def look(self, request: web.Request) -> web.Response:
        """Show one shipment. Raises Problem, StoreError."""
        account = self._account(request, Scope.READ)
        if request.query.get("lang"):
            why = "The value of lang is invalid: messages are not translated here, leave it out."
            raise refusal(Code.BAD_VALUE, why)
        with _refusing():
            found = await self._shipments.find(account, await self._named(request, account))
        shown = chosen(self._shown(request, found), fields_of(request.query))
        return self._envelope.answered(request, shown)

    async def update(self, request: web.Request) -> web.Response:
        """Change what an account says of one. Raises Problem, StoreError."""
        account = self._account(request, Scope.INGEST)
        said = await read(request, Update)
        with _refusing():
            named = await self._named(request, account)
            made = await self._shipments.update(account, named, said.slug or "", words_of(said))
        return self._told(request, made)

    async def delete(self, request: web.Request) -> web.Response:
        """Delete one. Raises Problem, StoreError."""
        account = self._account(request, Scope.INGEST)
        with _refusing():
            before = await self._shipments.delete(account, await self._named(request, account))
        return self._told(request, before)

    async def retrack(self, request: web.Request) -> web.Response:
        """Have one that ended asked for again. Raises Problem, StoreError."""
        account = self._account(request, Scope.INGEST)
        with _refusing():
            made = await self._shipments.retrack(account, await self._named(request, account))
        return self._told(request, made)

    async def complete(self, request: web.Request) -> web.Response:
        """Note how one ended. Raises Problem, StoreError."""
        account = self._account(request, Scope.INGEST)
        said = await read(request, Complete)
        with _refusing():
            named = await self._named(request, account)
            made = await self._shipments.complete(account, named, said.reason, said.event_datetime)
        return self._told(request, made)

    async def _named(self, request: web.Request, account: Account) -> str:
        """Give the id of the shipment that a path names, by it or by its courier and number."""
        named = request.match_info
        if "id" in named:
            return named["id"]
        found = await self._shipments.find(account, (named["slug"], named["number"]))
        return account_and_id(found["_id"])[1]

    def _account(self, request: web.Request, scope: Scope) -> Account:
        account = self._callers.account(request, scope)
        version_of(request)
        return account

    def _told(
        self, request: web.Request, shipment: Mapping[str, Any], status: int = HTTPStatus.OK
    ) -> web.Response:
        return self._envelope.answered(request, self._shown(request, shipment), status)

    def _shown(self, request: web.Request, shipment: Mapping[str, Any]) -> dict[str, Any]:
        return tracking(shipment, version_of(request), dt.datetime.now(dt.UTC))


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Turn what cannot be done into a Problem with AfterShip's code."""
    try:
        yield
    except ShipmentError as error:
        problem = refusal(error.code, error.detail)
        if error.other:
            problem.more["data"] = {"id": error.other}
        raise problem from error
