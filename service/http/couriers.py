"""`/v1/couriers`: the couriers there are, what each needs, and who may have a number."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

from service.config.schema import Config, together_for
from service.http.callers import Callers
from service.http.exchange import About, Route, answer, malformed
from service.http.reading import parameters_of, read_query
from service.operator.catalogue import Catalogue, Sign
from service.operator.keys import Scope
from tracking.errors import MalformedJob
from tracking.request import Slug


class Courier(msgspec.Struct):
    """A courier that may be asked."""

    slug: str
    name: str
    ready: Annotated[bool, Meta(description="false: the operators have set no credentials for it")]
    required_fields: Annotated[
        list[str], Meta(description="what a request must carry besides the number")
    ]
    numbers_per_call: Annotated[int, Meta(description="how many numbers one call carries")]
    verified: Annotated[str, Meta(description="what its module rests on")]
    why: Annotated[
        str | msgspec.UnsetType, Meta(description="with `number`: what speaks for this courier")
    ] = msgspec.UNSET


class Couriers(msgspec.Struct):
    """All couriers by their slugs; with `number` those that may have it, the likeliest first."""

    couriers: list[Courier]


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """Which couriers are listed."""

    number: Annotated[
        str | None, Meta(description="a tracking number: only couriers that may have it")
    ] = None


class CouriersRoutes:
    """The route."""

    def __init__(self, config: Config, catalogue: Catalogue, callers: Callers) -> None:
        self._config = config
        self._catalogue = catalogue
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name it."""
        return [Route("GET", "/v1/couriers", self.listed, _LIST)]

    async def listed(self, request: web.Request) -> web.Response:
        """List couriers. Raises Problem."""
        self._callers.account(request, Scope.READ)
        wanted = read_query(request, Wanted)
        if wanted.number is None:
            return answer(Couriers([self._shown(slug) for slug in self._catalogue.slugs]))
        try:
            found = self._catalogue.candidates(wanted.number)
        except MalformedJob as error:
            raise malformed(error, HTTPStatus.BAD_REQUEST) from error
        served = [each for each in found if each.sign is not Sign.NO_MODULE]
        return answer(Couriers([self._shown(each.slug, why=each.meaning) for each in served]))

    def _shown(self, slug: Slug, **more: Any) -> Courier:
        return Courier(
            slug,
            self._catalogue.name(slug),
            not self._catalogue.missing_credentials(slug),
            list(self._catalogue.required_fields(slug)),
            together_for(self._config, slug),
            self._catalogue.registry.courier(slug).VERIFIED,
            **more,
        )


_LIST = About(
    "List the couriers, and what each needs; or those that may have a number.",
    Scope.READ,
    {200: Couriers},
    parameters=parameters_of(Wanted),
)
