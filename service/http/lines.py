"""`/v1/lines` and `/v1/stats`: couriers' lines, their pauses and limits. For operators only."""

from __future__ import annotations

import datetime as dt
from http import HTTPStatus
from typing import Annotated, TypedDict, cast

import msgspec
from aiohttp import web
from msgspec import Meta

from service.http.backend.operators import Operators
from service.http.callers import Callers
from service.http.exchange import About, Problem, Route, answer, malformed
from service.http.reading import courier_of, parameters_of, read_body, read_query
from service.operator.catalogue import Catalogue
from service.operator.keys import Scope
from service.operator.limits import SETTABLE, check_together
from service.operator.limits import members as limits_members
from service.operator.look import line_members
from service.operator.pause import LONGEST_SECONDS, SHORTEST_SECONDS, read_duration
from service.operator.statistics import members, statistics_of
from tracking.errors import MalformedJob

_LASTS = Annotated[float, Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]
_WHY = Annotated[str, Meta(max_length=200)]


class Pause(msgspec.Struct, forbid_unknown_fields=True):
    """For how long nobody calls a courier, and why."""

    seconds: Annotated[
        _LASTS | None,
        Meta(description="how many seconds it lasts, up to ten years; null until it is resumed"),
    ] = None
    reason: Annotated[
        _WHY, Meta(description="why, in 200 characters at most, for those who look at the line")
    ] = ""


class Paused(msgspec.Struct):
    """A courier that nobody calls; `seconds` null: until it is resumed."""

    slug: str
    paused: bool
    seconds: float | None
    reason: str


class WasPaused(msgspec.Struct):
    """What kept a courier: `by_hand`, somebody had paused it; `why`, its calls failed."""

    slug: str
    by_hand: bool
    why: str


_MANY = Annotated[int, Meta(ge=1, le=1_000_000)]
_QUOTA = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_TOGETHER = Annotated[int, Meta(ge=1, le=100)]


class NewLimits(msgspec.Struct, forbid_unknown_fields=True):
    """Limits to be set over the file; those that are not named stay as they are."""

    per_second: Annotated[
        _MANY | msgspec.UnsetType,
        Meta(description="how many calls start in any second: 1 or more", examples=[5]),
    ] = msgspec.UNSET
    concurrent: Annotated[
        _MANY | msgspec.UnsetType, Meta(description="how many calls run at once: 1 or more")
    ] = msgspec.UNSET
    per_hour: Annotated[
        _QUOTA | msgspec.UnsetType | None,
        Meta(description="how many calls start in an hour: 1 or more; null for no such quota"),
    ] = msgspec.UNSET
    per_day: Annotated[
        _QUOTA | msgspec.UnsetType | None,
        Meta(description="how many calls start in a day: 1 or more; null for no such quota"),
    ] = msgspec.UNSET
    together: Annotated[
        _TOGETHER | msgspec.UnsetType,
        Meta(description="how many numbers a call carries: 1 up to what the courier answers for"),
    ] = msgspec.UNSET


class LimitsNow(TypedDict):
    """A courier's limits. `set`: of these, what was set over the file."""

    slug: str
    limits: dict[str, int | None]
    set: dict[str, int | None]
    known_to_workers: Annotated[
        bool | None, Meta(description="whether new calls go by them; null: Redis does not answer")
    ]


class LineNow(TypedDict):
    """A line at this moment, as `info` shows it; null: nobody waits, or nothing binds."""

    slug: str
    running: int
    concurrent: int
    started_last_second: int
    per_second: int
    waiting_manual: int
    waiting_automatic: int
    waiting_later: Annotated[int, Meta(description="retries that are not due yet")]
    oldest_age_seconds: float | None
    bound_by: Annotated[str, Meta(description="what keeps those who wait: rate, concurrency …")]
    until_seconds: Annotated[float | None, Meta(description="when that ends")]
    last_starts_seconds: Annotated[
        float | None, Meta(description="until the call is expected to start of the last that waits")
    ]
    paused_why: Annotated[str, Meta(description="by_hand, or the code of an error")]
    paused_note: Annotated[str, Meta(description="what the person wrote who paused it")]
    hour_left: Annotated[int | None, Meta(description="calls that per_hour leaves; null without")]
    day_left: Annotated[int | None, Meta(description="calls that per_day leaves; null without")]
    asked: Annotated[bool, Meta(description="whether anybody ever asked")]
    together: Annotated[int, Meta(description="numbers that go with a call, at most")]
    calls: Annotated[int, Meta(description="calls that were counted")]
    numbers: Annotated[int, Meta(description="numbers that went with these")]
    numbers_a_call: Annotated[float | None, Meta(description="null before the first call")]
    checks_due: Annotated[
        int | None,
        Meta(
            description="re-checks that are due and not put yet, 10,000 at most; "
            "null: MongoDB does not answer"
        ),
    ]
    checks_behind_seconds: Annotated[
        float | None, Meta(description="for how long the first of them is due")
    ]
    counts: Annotated[dict[str, int], Meta(description="what happened in the last hour")]


class Times(TypedDict):
    """Seconds that a share of the times do not exceed; null without any."""

    p50: float | None
    p95: float | None
    p99: float | None


class Figures(TypedDict):
    """What happened: operations by their ends, calls that ended none, requests that became none."""

    operations: int
    calls: int
    CANCELLED: int
    ERROR: int
    SUCCESS: int
    repeated: int
    handed_back: int
    lost: int
    idle: int
    merged: int
    full: int
    id_reused: int
    too_late: int
    malformed: int
    waited: Times
    took: Times


class Span(Figures):
    """What happened in one of the spans, which begins `at` this time."""

    at: dt.datetime


class Statistics(TypedDict):
    """What happened since a time, in spans of `each_seconds`; slug null: to all together."""

    slug: str | None
    since: dt.datetime
    until: dt.datetime
    each_seconds: int
    total: Figures
    spans: list[Span]


class AllLines(msgspec.Struct):
    """All lines that anybody ever asked; `worries` do not pass by themselves."""

    lines: list[LineNow]
    worries: list[str]


class Lately(msgspec.Struct, forbid_unknown_fields=True):
    """Which statistics, and of which time."""

    slug: Annotated[str | None, Meta(description="a courier; without it, all together")] = None
    last: Annotated[str, Meta(description="a length of time, like 90s, 15m, 2h or 3d")] = "1h"


class LineRoutes:
    """The routes."""

    def __init__(self, operators: Operators, catalogue: Catalogue, callers: Callers) -> None:
        self._operators = operators
        self._catalogue = catalogue
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name them."""
        return [
            Route("GET", "/v1/lines", self.lines, _LINES),
            Route("GET", "/v1/lines/{slug}", self.line, _LINE),
            Route("POST", "/v1/lines/{slug}/pause", self.pause, _PAUSE),
            Route("POST", "/v1/lines/{slug}/resume", self.resume, _RESUME),
            Route("GET", "/v1/lines/{slug}/limits", self.limits, _LIMITS),
            Route("PATCH", "/v1/lines/{slug}/limits", self.change_limits, _SET_LIMITS),
            Route("DELETE", "/v1/lines/{slug}/limits", self.change_limits, _RESET_LIMITS),
            Route("GET", "/v1/stats", self.stats, _STATS),
        ]

    async def lines(self, request: web.Request) -> web.Response:
        """Show all lines. Raises Problem, StoreError."""
        self._callers.operator(request)
        found = await self._operators.lines(self._catalogue.slugs)
        told = [cast("LineNow", line_members(each)) for each in found.told]
        return answer(AllLines(told, list(found.worries)))

    async def line(self, request: web.Request) -> web.Response:
        """Show one line. Raises Problem, StoreError."""
        self._callers.operator(request)
        try:
            found = await self._operators.line(request.match_info["slug"], self._catalogue)
        except MalformedJob as error:
            raise malformed(error, HTTPStatus.NOT_FOUND) from error
        return answer(line_members(found))

    async def pause(self, request: web.Request) -> web.Response:
        """Let nobody call a courier. Raises Problem, StoreError."""
        who = self._callers.operator(request)
        slug, wanted = courier_of(request, self._catalogue), await read_body(request, Pause)
        await self._operators.pause(who, slug, wanted.seconds, wanted.reason)
        return answer(Paused(slug, paused=True, seconds=wanted.seconds, reason=wanted.reason))

    async def resume(self, request: web.Request) -> web.Response:
        """Let a courier be called again. Raises Problem, StoreError."""
        who, slug = self._callers.operator(request), courier_of(request, self._catalogue)
        ended = await self._operators.resume(who, slug)
        return answer(WasPaused(slug, ended.by_hand, ended.why))

    async def limits(self, request: web.Request) -> web.Response:
        """Show a courier's limits. Raises Problem, StoreError."""
        who, slug = self._callers.operator(request), courier_of(request, self._catalogue)
        return answer(limits_members(await self._operators.limits(who, slug)))

    async def change_limits(self, request: web.Request) -> web.Response:
        """Set some of them, or let the file hold again. Raises Problem, StoreError."""
        who, slug = self._callers.operator(request), courier_of(request, self._catalogue)
        wishes: dict[str, int | None] | list[str] = []
        if request.method == "PATCH":
            wanted = await read_body(request, NewLimits)
            given = {name: getattr(wanted, name) for name in SETTABLE}
            wishes = {name: each for name, each in given.items() if each is not msgspec.UNSET}
            if not wishes:
                raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"name one of {', '.join(SETTABLE)}")
            try:
                check_together(self._operators.config, slug, wishes)
            except ValueError as error:
                raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return answer(limits_members(await self._operators.limits(who, slug, wishes)))

    async def stats(self, request: web.Request) -> web.Response:
        """Show statistics. Raises Problem, StoreError."""
        self._callers.operator(request)
        wanted = read_query(request, Lately)
        try:
            slug = self._catalogue.resolve(wanted.slug)[0] if wanted.slug else ""
            seconds = read_duration(wanted.last)
        except MalformedJob as error:
            raise Problem(HTTPStatus.BAD_REQUEST, error.detail, parameter="slug") from error
        except ValueError as error:
            raise Problem(HTTPStatus.BAD_REQUEST, f"last: {error}", parameter="last") from error
        return answer(members(await statistics_of(self._operators.config, slug, seconds)))


_LINES = About(
    "Tell of all lines: what runs, waits and binds.", Scope.ADMIN, {200: AllLines}, (404,)
)
_LINE = About("Tell of one line.", Scope.ADMIN, {200: LineNow}, (404,))
_PAUSE = About(
    "Let nobody call a courier, for a time or until it is resumed.",
    Scope.ADMIN,
    {200: Paused},
    (404,),
    body=Pause,
)
_RESUME = About("Let a courier be called again.", Scope.ADMIN, {200: WasPaused}, (404,))
_LIMITS = About("Tell what a courier's limits are.", Scope.ADMIN, {200: LimitsNow}, (404,))
_SET_LIMITS = About(
    "Set limits of a courier over config.toml: new calls go by them at once.",
    Scope.ADMIN,
    {200: LimitsNow},
    (404, 422),
    body=NewLimits,
)
_RESET_LIMITS = About(
    "Let config.toml hold again for a courier's limits.", Scope.ADMIN, {200: LimitsNow}, (404,)
)
_STATS = About(
    "Tell what happened lately, in spans of equal length.",
    Scope.ADMIN,
    {200: Statistics},
    (404,),
    parameters_of(Lately),
)
