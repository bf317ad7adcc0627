"""`/v1/couriers`: the couriers there are, what each needs, and who may have a number."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

from service.config.schema import Config, together_for
from service.http.callers import Callers
from service.http.exchange import About, Route, answer, malformed
from service.http.reading import MOMENT, parameters_of, read_query
from service.operator.catalogue import Catalogue
from service.operator.connections import Collections, in_thread
from service.operator.keys import Scope
from service.operator.trials import Trial, trials_in
from tracking.errors import MalformedJob, StoreError
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
    tried_at: Annotated[
        MOMENT | None, Meta(description="when it was last tried by hand; null: never")
    ]
    tried: Annotated[
        str | None, Meta(description="what came of that: a tag, or the code of an error")
    ]
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

    def __init__(
        self, config: Config, stores: Collections, catalogue: Catalogue, callers: Callers
    ) -> None:
        self._config = config
        self._stores = stores
        self._catalogue = catalogue
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name it."""
        return [Route("GET", "/v1/couriers", self.listed, _LIST)]

    async def listed(self, request: web.Request) -> web.Response:
        """List couriers. Raises Problem."""
        self._callers.account(request, Scope.READ)
        wanted = read_query(request, Wanted)
        tried: Mapping[Slug, Trial] = {}
        with suppress(StoreError):  # all else stands in the configuration
            tried = await in_thread(trials_in, self._stores)
        if wanted.number is None:
            every = [self._shown(slug, tried.get(slug)) for slug in self._catalogue.slugs]
            return answer(Couriers(every))
        try:
            served = self._catalogue.candidates(wanted.number, served=True)
        except MalformedJob as error:
            raise malformed(error, HTTPStatus.BAD_REQUEST) from error
        shown = [self._shown(each.slug, tried.get(each.slug), why=each.meaning) for each in served]
        return answer(Couriers(shown))

    def _shown(self, slug: Slug, tried: Trial | None, **more: Any) -> Courier:
        return Courier(
            slug,
            self._catalogue.name(slug),
            not self._catalogue.missing_credentials(slug),
            list(self._catalogue.required_fields(slug)),
            together_for(self._config, slug),
            self._catalogue.registry.courier(slug).VERIFIED,
            tried and tried.tried_at,
            tried and tried.outcome,
            **more,
        )


_LIST = About(
    "List the couriers, and what each needs; or those that may have a number.",
    Scope.READ,
    {200: Couriers},
    parameters=parameters_of(Wanted),
)
