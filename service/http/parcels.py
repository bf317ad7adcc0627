"""`/v1/parcels`: an account's parcels, listed; one, asked again where it is too old; its history.

The documents leave as they are stored (docs/interface.md §3); `Parcel` describes them.
"""

from __future__ import annotations

import datetime as dt
from http import HTTPStatus
from typing import Annotated, Any, NotRequired, TypedDict, cast

import msgspec
from aiohttp import web
from msgspec import Meta

from service.http.backend.door import Door
from service.http.backend.operations import Operations, OperationView, queued
from service.http.backend.operators import cursor_of
from service.http.exchange import About, Parameter, Problem, Route, answer, malformed
from service.http.operations import WAIT, WAIT_MOST, Operation, OperationRoutes, told
from service.http.reading import (
    CURSOR,
    MOMENT,
    TIME,
    in_utc,
    parameters_of,
    parcel_of,
    place_of,
    read_query,
    seconds_of,
)
from service.operator.catalogue import Catalogue
from service.operator.connections import in_thread
from service.operator.keys import Scope
from service.operator.parcels import SOUGHT_MOST, Sort, Which, page_of
from service.operator.put import Sendable, job_of
from service.operator.stored import fields_in, shown
from tracking.checkpoint import Tag
from tracking.errors import MalformedJob
from tracking.operation import State
from tracking.request import Account, Slug, account_and_id


class StoredCheckpoint(TypedDict):
    """One scan of a parcel; null is what the courier does not say."""

    checkpoint_time: Annotated[str, Meta(description="the courier's local text, ISO 8601")]
    checkpoint_offset: Annotated[str | None, Meta(description="of that time, as in `+02:00`")]
    checkpoint_utc: MOMENT | None
    message: str
    country_name: str | None
    country_iso3: str | None
    city: str | None
    state: str | None
    postal_code: str | None
    location: str | None
    tag: Tag
    subtag: str
    raw_tag: Annotated[str | None, Meta(description="the courier's own code")]
    recorded_at: NotRequired[Annotated[MOMENT, Meta(description="when it was first told here")]]


class StoredError(TypedDict):
    """How the last operation failed; the next good answer clears it."""

    code: str
    message: str
    at: MOMENT


class StoredAttempt(TypedDict):
    """A call to the courier."""

    at: MOMENT
    outcome: str
    http_status: int | None
    ms: float


class Parcel(TypedDict):
    """What is stored about a parcel. A document of an older version lacks what came later."""

    _id: str
    slug: str
    tracking_number: str
    tag: Tag
    subtag: str
    delivered: bool
    active: Annotated[bool, Meta(description="whether it is checked again by itself")]
    checkpoints: Annotated[list[StoredCheckpoint], Meta(description="oldest first")]
    expected_delivery: Annotated[str | None, Meta(description="the courier's text")]
    delivered_at: Annotated[str | None, Meta(description="the courier's text")]
    delivered_at_utc: MOMENT | None
    signed_by: str | None
    origin: str | None
    destination: str | None
    proof_of_delivery: NotRequired[Annotated[str | None, Meta(description="a web address")]]
    weight_grams: NotRequired[int | None]
    service: NotRequired[Annotated[str | None, Meta(description="the courier's product")]]
    reference: NotRequired[Annotated[str | None, Meta(description="the sender's own")]]
    sub_parcels: NotRequired[
        Annotated[list[str], Meta(description="numbers of the other parcels of the consignment")]
    ]
    asked_alone: NotRequired[
        Annotated[bool, Meta(description="answers for several numbers leave it out")]
    ]
    error: StoredError | None
    attempts: Annotated[list[StoredAttempt], Meta(description="the last calls, oldest first")]
    tracked_count: int
    created_at: MOMENT
    updated_at: Annotated[MOMENT, Meta(description="when the courier said something new")]
    last_checked_at: MOMENT | None
    next_check_at: MOMENT | None


AGE_MOST = 31_536_000.0
"""Seconds: a year."""

MAX_AGE = Annotated[
    float,
    Meta(ge=0, le=AGE_MOST, description="ask again where what is stored is older, in seconds"),
]


class Asked(msgspec.Struct):
    """A request that was put and has not ended; `parcel` is what is stored, null for nothing."""

    operation: Operation
    parcel: Parcel | None


class History(msgspec.Struct):
    """The operations of a parcel, the newest first."""

    operations: list[Operation]


PAGE_MOST = 200
SEARCH_MOST = 100


class ListedParcels(msgspec.Struct, forbid_unknown_fields=True):
    """Which parcels are listed, and how many: those that agree with all that is given."""

    tag: Annotated[
        tuple[Tag, ...], Meta(description="a tag, like InTransit; several times for several")
    ] = ()
    slug: Annotated[str, Meta(description="only of this courier", examples=["usps"])] = ""
    active: Annotated[bool | None, Meta(description="whether it is checked by itself")] = None
    label: Annotated[
        str,
        Meta(max_length=SEARCH_MOST, description="only with this label (`shipment_tags`)"),
    ] = ""
    search: Annotated[
        str,
        Meta(
            max_length=SEARCH_MOST,
            description="the beginning of a number, or of an order, customer, title or label",
        ),
    ] = ""
    updated_since: Annotated[
        MOMENT | None, Meta(description=f"{TIME}: what changed from then on")
    ] = None
    sort: Annotated[
        Sort,
        Meta(
            description="-updated (the newest first), updated, -created, created, or next_check "
            "(the next first; only what is checked again)"
        ),
    ] = Sort.UPDATED
    cursor: CURSOR = None
    limit: Annotated[
        int, Meta(ge=1, le=PAGE_MOST, description=f"how many at most, 1 to {PAGE_MOST}")
    ] = 50

    def which(self, account: Account, catalogue: Catalogue) -> Which:
        """Express it of an account. Raises Problem."""
        status = HTTPStatus.BAD_REQUEST
        try:
            slug = catalogue.resolve(self.slug)[0] if self.slug else ""
        except MalformedJob:
            slug = Slug(self.slug)  # a courier that is not configured any more
        return Which(
            account,
            self.tag,
            slug,
            self.active,
            in_utc(self.updated_since, "updated_since", status),
            self.search.strip(),
            self.label.strip(),
            self.sort,
            place_of(self.cursor, status),
        )


class ParcelPage(msgspec.Struct):
    """Parcels in the wanted order; `cursor` is null where no more follow.

    With `sort=updated` it is there as long as the page is not empty: what changes later follows it.
    """

    parcels: list[Parcel]
    narrow: Annotated[
        bool,
        Meta(
            description=f"more than {SOUGHT_MOST} are found by `search` or `label`: these are of "
            "the first ones"
        ),
    ]
    cursor: str | None


class ParcelRoutes:
    """The routes."""

    def __init__(
        self, operations: Operations, held: OperationRoutes, catalogue: Catalogue, door: Door
    ) -> None:
        self._operations = operations
        self._held = held
        self._catalogue = catalogue
        self._door = door

    def routes(self) -> list[Route]:
        """Name them."""
        listed = About(
            "List an account's parcels: filtered, searched, sorted.",
            Scope.READ,
            {200: ParcelPage},
            refusals=(422,),
            parameters=parameters_of(ListedParcels),
        )
        look = About(
            "Tell what is stored about a parcel; with `max_age`, asked again where it is older.",
            Scope.READ,
            {200: Parcel, 202: Asked},
            refusals=(404, 422, 502),
            parameters=(Parameter("max_age", MAX_AGE), Parameter("wait", WAIT)),
        )
        history = About(
            "List the operations of a parcel, the newest first.",
            Scope.READ,
            {200: History},
            refusals=(404,),
        )
        return [
            Route("GET", "/v1/parcels", self.listed, listed),
            Route("GET", "/v1/parcels/{slug}/{number}", self.look, look),
            Route("GET", "/v1/parcels/{slug}/{number}/operations", self.history, history),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """List an account's parcels. Raises Problem, StoreError, NotDone."""
        account = self._held.callers.account(request, Scope.READ)
        meant = read_query(request, ListedParcels)
        which, stores = meant.which(account, self._catalogue), self._operations.stored.stores
        page = await in_thread(page_of, stores, which, meant.limit, None)
        cursor = cursor_of(*page.last) if page.last else None
        parcels = [cast("Parcel", each.parcel) for each in page.rows]
        return answer(ParcelPage(parcels, page.narrow, cursor))

    async def history(self, request: web.Request) -> web.Response:
        """List the operations of a parcel, the newest first. Raises Problem, StoreError."""
        account = self._held.callers.account(request, Scope.READ)
        found = await self._operations.of_parcel(*parcel_of(request, self._catalogue), account)
        if not found:
            raise _unknown()
        return answer(History([told(each) for each in found]))

    async def look(self, request: web.Request) -> web.Response:
        """Show what is stored, once it is young enough. Raises Problem, StoreError."""
        account = self._held.callers.account(request, Scope.READ)
        age, seconds = (
            seconds_of(request, "max_age", AGE_MOST),
            seconds_of(request, "wait", WAIT_MOST),
        )
        if age is None and seconds is not None:
            why = "wait goes with max_age: it is the request for a younger answer that is awaited"
            raise Problem(HTTPStatus.BAD_REQUEST, why)
        slug, number = parcel_of(request, self._catalogue)
        document = await self._operations.stored.tracking(slug, number, account)
        if document and (age is None or _seconds_old(document) <= age):
            return answer(_shown(document))
        if age is None:
            raise _unknown()
        wanted = {"slug": slug, "number": number, "max_age": age}
        put = await self._put(request, account, document, wanted)
        ended = await self._held.end_of(put.id, seconds or 0.0, request)
        if ended is None or not ended.ended:
            return _asked(put, ended, document)
        stored = await self._operations.stored.tracking(slug, number, account)
        if ended.members["status"] == State.SUCCESS and stored:
            return answer(_shown(stored))
        raise _unanswered(ended, stored)

    async def _put(
        self,
        request: web.Request,
        account: Account,
        document: dict[str, Any] | None,
        payload: dict[str, Any],
    ) -> Sendable:
        self._held.callers.account(request, Scope.INGEST)
        traced = request.headers.get("traceparent")
        try:
            put = job_of(payload | fields_in(document), self._catalogue, account, traced)
        except MalformedJob as error:
            raise malformed(error, HTTPStatus.UNPROCESSABLE_ENTITY) from error
        await self._door.take([put])
        return put


def _unknown() -> Problem:
    why = "nothing is known of this parcel: put a request for it, or ask with `?max_age=0&wait=60`"
    return Problem(HTTPStatus.NOT_FOUND, why)


def _seconds_old(document: dict[str, Any]) -> float:
    checked = document.get("last_checked_at")
    if not isinstance(checked, dt.datetime):
        return float("inf")
    return (dt.datetime.now(dt.UTC) - checked).total_seconds()


def _shown(document: dict[str, Any]) -> Parcel:
    return cast("Parcel", shown(document))


def _asked(
    put: Sendable, known: OperationView | None, document: dict[str, Any] | None
) -> web.Response:
    identity = account_and_id(put.id)[1]
    said = Asked(told(known or queued(put)), _shown(document) if document else None)
    response = answer(said, HTTPStatus.ACCEPTED)
    response.headers["Location"] = f"/v1/operations/{identity}"
    return response


def _unanswered(ended: OperationView, document: dict[str, Any] | None) -> Problem:
    output = ended.members["output"] or {}
    return Problem(
        HTTPStatus.BAD_GATEWAY,
        str(output.get("message") or "the request ended without an answer"),
        reason=output.get("code"),
        operation=told(ended),
        parcel=_shown(document) if document else None,
    )
