"""`/tracking/{version}/…`: AfterShip's routes, as its SDKs ask them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from service.api.aftership import couriers
from service.api.aftership.envelope import BELOW, Code, Envelope, refusal
from service.api.aftership.reading import read, version_of
from service.api.callers import Callers
from service.api.problems import Problem
from service.api.routes import NOT_IN_THE_DOCUMENT, Route
from service.client.catalogue import Catalogue
from service.client.keys import Scope
from tracking.errors import MalformedJob

NOT_OFFERED: Mapping[str, str] = MappingProxyType(
    {
        "courier-connections": "credentials of couriers stand in [couriers.SLUG] of config.toml",
        "estimated-delivery-date": "nothing is predicted; a tracking tells what its courier says",
        "notifications": "nobody is notified",
    }
)
"""What AfterShip has below `/tracking/{version}/` and nobody here, and what is there instead."""


class Detect(msgspec.Struct):
    """Whose number it is, among these couriers."""

    tracking_number: str
    slug: Annotated[list[str], Meta(max_length=200)] = []


class CourierRoutes:
    """Couriers, and what is not offered."""

    def __init__(self, catalogue: Catalogue, callers: Callers, envelope: Envelope) -> None:
        self._catalogue = catalogue
        self._callers = callers
        self._envelope = envelope

    def routes(self) -> list[Route]:
        """Name them; the last one takes what no other does, so it must stand behind all others."""
        return [
            Route("GET", f"{BELOW}/couriers", self.couriers, NOT_IN_THE_DOCUMENT),
            Route("GET", f"{BELOW}/couriers/all", self.couriers, NOT_IN_THE_DOCUMENT),
            Route("POST", f"{BELOW}/couriers/detect", self.detect, NOT_IN_THE_DOCUMENT),
            Route("*", f"{BELOW}/{{rest:.*}}", self.not_offered, NOT_IN_THE_DOCUMENT),
        ]

    async def couriers(self, request: web.Request) -> web.Response:
        """List couriers. Raises Problem."""
        self._callers.account(request, Scope.READ)
        version_of(request)
        names = [name for name in request.query.get("slug", "").split(",") if name]
        active = request.query.get("active", "").lower() == "true"
        found = couriers.named(self._catalogue, names, active=active)
        return self._envelope.answered(request, couriers.shown(self._catalogue, found))

    async def detect(self, request: web.Request) -> web.Response:
        """List the couriers that may have a number. Raises Problem."""
        self._callers.account(request, Scope.READ)
        version_of(request)
        asked = await read(request, Detect)
        try:
            found = couriers.detected(self._catalogue, asked.tracking_number, asked.slug)
        except MalformedJob as error:
            raise refusal(Code.BAD_NUMBER, error.detail) from error
        return self._envelope.answered(request, couriers.shown(self._catalogue, found))

    async def not_offered(self, request: web.Request) -> web.Response:
        """Say so. Raises Problem."""
        self._callers.account(request, Scope.READ)
        version_of(request)
        what = request.match_info["rest"].partition("/")[0]
        if instead := NOT_OFFERED.get(what):
            raise Problem(HTTPStatus.FORBIDDEN, f"{what} is not offered here: {instead}")
        why = (
            "there is nothing at this path with this method: docs/aftership.md lists what there is"
        )
        raise Problem(HTTPStatus.NOT_FOUND, why)
