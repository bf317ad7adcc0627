"""`/v1/services`: where an account has webhooks sent, made and changed by itself."""

from __future__ import annotations

import datetime as dt
from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web
from msgspec import Meta

from service.http.callers import Callers, owner_of
from service.http.exchange import About, Problem, Route, answer
from service.http.reading import read_body
from service.operator.connections import in_thread
from service.operator.keys import Scope
from service.operator.service_view import members, whole_members
from service.operator.service_wishes import ServiceChange, ServiceWishes
from service.operator.services import (
    Handshake,
    Made,
    Services,
    ServiceType,
)
from tracking.request import NAME

_NAMED = Annotated[str, Meta(pattern=f"^{NAME.pattern}$")]


class NewService(ServiceWishes, kw_only=True):
    """A service to be made."""

    name: Annotated[_NAMED, Meta(description="its name: 1 to 20 of a-z and 0-9")]
    type: Annotated[
        ServiceType,
        Meta(
            description="webhook hears of events, relay delivers what other systems send to it, to "
            "courier a courier pushes; for ever"
        ),
    ] = ServiceType.WEBHOOK


class IngestNow(msgspec.Struct, kw_only=True):
    """How a service takes requests: whether there is a token or a secret, but not which."""

    handshake: Handshake
    status: int
    body: str
    per_second: int
    bytes_per_second: int
    dedupe_header: str
    courier: str
    verify_token: bool
    push_secret: bool


class ServiceNow(msgspec.Struct, kw_only=True):
    """A service. Of its static headers only the names are shown: their values may be secret."""

    name: str
    type: ServiceType
    addresses: Annotated[
        list[str], Meta(description="where other systems send to it, of relay and courier services")
    ]
    line: Annotated[str, Meta(description="its line, as logs and figures name it")]
    destination: str
    events: list[str]
    slugs: list[str]
    tags: list[str]
    headers: list[str]
    format: Literal["standard", "aftership"]
    concurrent: int
    per_second: int
    attempts: int
    timeout_seconds: float
    ordered: bool
    state: Literal["active", "paused", "disabled"]
    made_at: dt.datetime
    disabled_at: dt.datetime | None
    disabled_why: Annotated[
        str, Meta(description="gone: it answered 410; failing: it failed for days; or empty")
    ]
    ingest: IngestNow | None


class DayOfService(msgspec.Struct):
    """What happened on a day (UTC): deliveries by their ends, attempts, and how many failed."""

    day: dt.datetime
    requests: Annotated[int, Meta(description="that a relay took")]
    delivered: int
    dead: int
    cancelled: int
    completed: int
    attempts: int
    failed: int
    retried: Annotated[int, Meta(description="attempts that were not the first of their delivery")]


class FailedAttempt(msgspec.Struct):
    """An attempt that was not answered by 2xx; `delivery` is the id of what was sent."""

    delivery: str
    number: int
    at: dt.datetime
    ms: int
    status: int | None
    failure: str


class WholeService(ServiceNow, kw_only=True):
    """A service, and how it does."""

    open: Annotated[int, Meta(description="deliveries that are open, 10,000 at most")]
    held: Annotated[int, Meta(description="deliveries that are held, 10,000 at most")]
    failing_since: Annotated[
        dt.datetime | None,
        Meta(description="when the first of its failures in a row was; null: it is well"),
    ]
    errors: Annotated[
        list[FailedAttempt], Meta(description="the last 5 attempts that failed, the newest first")
    ]
    days: Annotated[list[DayOfService], Meta(description="of the last 30 days those with anything")]


class MadeService(ServiceNow, kw_only=True):
    """A service that was made just now. Nobody can read its `secret` again."""

    secret: Annotated[str, Meta(description="with which receivers check signatures")]
    hears_from: Annotated[
        dt.datetime | None,
        Meta(description="from when on it surely hears of events; null: of all from now on"),
    ]


class AllServices(msgspec.Struct):
    """The services of an account, by their names."""

    services: list[ServiceNow]


class NewSecret(msgspec.Struct):
    """A secret that was made just now. Until `old_ends_at` both sign each attempt."""

    name: str
    secret: str
    old_ends_at: dt.datetime


class TestPut(msgspec.Struct):
    """A test that is on its way: `delivery` is its id, by which its attempts are found."""

    delivery: str
    url: str


class ServiceRoutes:
    """The routes."""

    def __init__(self, services: Services, callers: Callers) -> None:
        self._services = services
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name them."""
        one = "/v1/services/{name}"
        return [
            Route("GET", "/v1/services", self.listed, _ALL),
            Route("POST", "/v1/services", self.make, _MAKE),
            Route("GET", one, self.one, _ONE),
            Route("PATCH", one, self.change, _CHANGE),
            Route("DELETE", one, self.delete, _DELETE),
            Route("POST", f"{one}/test", self.test, _TEST),
            Route("POST", f"{one}/secret/rotate", self.rotate, _ROTATE),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """List the account's. Raises Problem, StoreError."""
        account = self._callers.account(request, Scope.READ)
        found = await in_thread(self._services.of, account)
        return answer(AllServices([ServiceNow(**members(self._services, each)) for each in found]))

    async def one(self, request: web.Request) -> web.Response:
        """Show one. Raises Problem, StoreError."""
        account = self._callers.account(request, Scope.READ)
        name = request.match_info["name"]
        told = await in_thread(whole_members, self._services, account, name)
        return answer(WholeService(**told))

    async def make(self, request: web.Request) -> web.Response:
        """Make one; answers once all workers know it. Raises Problem, StoreError."""
        who = owner_of(self._callers, request, Scope.HOOKS)
        wishes: dict[str, Any] = msgspec.to_builtins(await read_body(request, NewService))
        name = wishes.pop("name")
        made = await in_thread(self._services.make, who, who.account, name, wishes)
        said = MadeService(
            **members(self._services, made.service),
            secret=_secret_of(made),
            hears_from=made.hears_from,
        )
        response = answer(said, HTTPStatus.CREATED)
        response.headers["Location"] = f"/v1/services/{name}"
        return response

    async def change(self, request: web.Request) -> web.Response:
        """Change one, or let it rest, or go on. Raises Problem, StoreError."""
        who = owner_of(self._callers, request, Scope.HOOKS)
        wishes = msgspec.to_builtins(await read_body(request, ServiceChange))
        if not wishes:
            names = ", ".join(ServiceChange.__struct_fields__)
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"name one of {names}")
        name = request.match_info["name"]
        made = await in_thread(self._services.change, who, who.account, name, wishes)
        return answer(ServiceNow(**members(self._services, made.service)))

    async def delete(self, request: web.Request) -> web.Response:
        """Delete one; what is open for it is cancelled. Raises Problem, StoreError."""
        who, name = owner_of(self._callers, request, Scope.HOOKS), request.match_info["name"]
        await in_thread(self._services.delete, who, who.account, name)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def test(self, request: web.Request) -> web.Response:
        """Send it an event that says that it is a test. Raises Problem, StoreError."""
        who, name = owner_of(self._callers, request, Scope.HOOKS), request.match_info["name"]
        put = await in_thread(self._services.test, who, who.account, name)
        url = f"/v1/deliveries/{put.id}"
        response = answer(TestPut(put.id, url), HTTPStatus.ACCEPTED)
        response.headers["Location"] = url
        return response

    async def rotate(self, request: web.Request) -> web.Response:
        """Give it a new secret; the old one signs on for a day. Raises Problem, StoreError."""
        who, name = owner_of(self._callers, request, Scope.HOOKS), request.match_info["name"]
        made = await in_thread(self._services.rotate, who, who.account, name)
        old = made.service.secrets[1].ends_at
        return answer(NewSecret(name, _secret_of(made), old or dt.datetime.now(dt.UTC)))


def _secret_of(made: Made) -> str:
    assert made.secret is not None  # noqa: S101 - it was made with it
    return made.secret


_ALL = About("List the services of the account.", Scope.READ, {200: AllServices})
_ONE = About("Tell of a service, and how it does.", Scope.READ, {200: WholeService}, (404,))
_MAKE = About(
    "Make a service: a destination to which events of this account are sent.",
    Scope.HOOKS,
    {201: MadeService},
    refusals=(409,),
    body=NewService,
)
_CHANGE = About(
    "Change a service, pause it, or make it active: it holds at once.",
    Scope.HOOKS,
    {200: ServiceNow},
    refusals=(404, 409),
    body=ServiceChange,
)
_DELETE = About(
    "Delete a service; what is not delivered yet is cancelled.",
    Scope.HOOKS,
    {204: None},
    refusals=(404,),
)
_TEST = About(
    "Send a service an event that says that it is a test.",
    Scope.HOOKS,
    {202: TestPut},
    refusals=(404, 409),
)
_ROTATE = About(
    "Give a service a new secret; for a day each attempt is signed with both.",
    Scope.HOOKS,
    {200: NewSecret},
    refusals=(404, 409),
)
