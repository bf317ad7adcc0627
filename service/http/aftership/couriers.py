"""`/tracking/{version}/couriers…`: couriers as AfterShip shows them, and what is not offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

from service.http.aftership.envelope import BELOW, Envelope, refusal
from service.http.aftership.reading import read, version_of
from service.http.backend.shipments import AFTERSHIP_NAMES, Code
from service.http.callers import Callers
from service.http.exchange import NOT_IN_THE_DOCUMENT, Problem, Route
from service.operator.catalogue import Catalogue, Sign
from service.operator.keys import Scope
from tracking.errors import MalformedJob
from tracking.request import Slug


def shown(catalogue: Catalogue, slugs: Sequence[Slug]) -> dict[str, Any]:
    """Show couriers, in their order."""
    return {"total": len(slugs), "couriers": [_courier(catalogue, slug) for slug in slugs]}


def named(catalogue: Catalogue, names: Sequence[str], *, active: bool) -> list[Slug]:
    """List the couriers that names mean, all where there is none; `active`: that can be asked."""
    resolved = {catalogue.registry.resolve(name) for name in names}
    return [
        slug
        for slug in catalogue.slugs
        if (not names or slug in resolved) and not (active and catalogue.missing_credentials(slug))
    ]


def detected(catalogue: Catalogue, number: str, among: Sequence[str]) -> list[Slug]:
    """List couriers that may have a number, the likeliest first. Raises MalformedJob."""
    asked = named(catalogue, among, active=False)
    return [
        each.slug
        for each in catalogue.candidates(number)
        if each.sign is not Sign.NO_MODULE and each.slug in asked
    ]


def _courier(catalogue: Catalogue, slug: Slug) -> dict[str, Any]:
    return {
        "slug": slug,
        "name": catalogue.name(slug),
        "phone": None,
        "other_name": None,
        "web_url": None,
        "required_fields": [AFTERSHIP_NAMES[each] for each in catalogue.required_fields(slug)],
        "optional_fields": [],
        "default_language": None,
        "support_languages": [],
        "service_from_country_regions": [],
    }


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
        found = named(self._catalogue, names, active=active)
        return self._envelope.answered(request, shown(self._catalogue, found))

    async def detect(self, request: web.Request) -> web.Response:
        """List the couriers that may have a number. Raises Problem."""
        self._callers.account(request, Scope.READ)
        version_of(request)
        asked = await read(request, Detect)
        try:
            found = detected(self._catalogue, asked.tracking_number, asked.slug)
        except MalformedJob as error:
            raise refusal(Code.BAD_NUMBER, error.detail) from error
        return self._envelope.answered(request, shown(self._catalogue, found))

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
