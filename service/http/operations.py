"""`/v1/operations/{id}`: where a request stands; awaited and cancelled."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, TypedDict

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from service.http.backend.door import Door
from service.http.backend.operations import NotCancelled, Operations, OperationView, Place
from service.http.callers import Callers
from service.http.exchange import (
    RETRY_SECONDS,
    About,
    Parameter,
    Problem,
    Route,
    Written,
    answer,
    come_later,
)
from service.http.reading import FLAG, flag, seconds_of
from service.http.requests import Taken
from service.operator.keys import Scope
from service.operator.resend import NotEnded, ended_one, renewed
from tracking.operation import State
from tracking.request import Account, account_and_id, operation_id

WAIT_MOST = 60.0
"""Seconds that a reply is held: proxies give up after a minute, too."""

ID_MOST = 512
"""Characters: an id that a producer gave has 128; one that names its parcel has more."""

WAIT = Annotated[
    float,
    Meta(ge=0, le=WAIT_MOST, description="hold the reply until the end, so many seconds long"),
]
MARK_REPLIED = Annotated[FLAG, Meta(description="note the time of this reply with the operation")]

Instant = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class CallMade(TypedDict):
    """A call to the courier that was made for an operation."""

    at: Instant
    outcome: str
    http_status: int | None
    ms: float


class Output(TypedDict, total=False):
    """What came of an operation: the first four after SUCCESS, else the last two."""

    tag: str
    subtag: str
    delivered: bool
    checkpoints: Annotated[int, Meta(description="how many there are")]
    code: str
    message: str


class Operation(msgspec.Struct, rename="camel"):
    """What became of a request. `slug` and `number` are null where its parcel was forgotten."""

    id: str
    slug: str | None
    number: str | None
    status: State | None
    started_at: Annotated[Instant | None, Meta(description="when its call began")]
    finished_at: Instant | None
    output: Annotated[
        Output | None,
        Meta(
            description="null before the end; `tag`, `subtag`, `delivered` and the number of "
            "`checkpoints` after SUCCESS, else `code` and `message`"
        ),
    ]
    place: Annotated[Place | None, Meta(description="where it stands while it is WAITING")]
    resend_of: Annotated[
        str | UnsetType, Meta(description="the id of the operation that it repeats")
    ] = UNSET
    webhook: Annotated[str | UnsetType, Meta(description="the service that hears of its end")] = (
        UNSET
    )
    replied_at: Annotated[
        Instant | UnsetType, Meta(description="when its end was first answered with `mark_replied`")
    ] = UNSET
    attempts: Annotated[
        list[CallMade] | UnsetType, Meta(description="the calls that were made for it")
    ] = UNSET


class OperationRoutes:
    """The routes."""

    def __init__(self, operations: Operations, door: Door, callers: Callers) -> None:
        self._operations = operations
        self._door = door
        self.callers = callers

    def routes(self) -> list[Route]:
        """Name them."""
        parameters = (Parameter("wait", WAIT), Parameter("mark_replied", MARK_REPLIED))
        look = About(
            "Tell where an operation stands; with `wait`, once it has ended.",
            Scope.READ,
            {200: Operation},
            refusals=(404,),
            parameters=parameters,
        )
        cancel = About(
            "Cancel an operation where it waits.",
            Scope.INGEST,
            {200: Operation},
            refusals=(404, 409),
        )
        resend = About(
            "Put the request of an operation that has ended as a new one.",
            Scope.INGEST,
            {202: Taken},
            refusals=(404, 409),
        )
        return [
            Route("GET", "/v1/operations/{id}", self.look, look),
            Route("POST", "/v1/operations/{id}/cancel", self.cancel, cancel),
            Route("POST", "/v1/operations/{id}/resend", self.resend, resend),
        ]

    async def look(self, request: web.Request) -> web.Response:
        """Show an operation; with `wait`, once it has ended. Raises Problem, StoreError."""
        identity = self._identity(request, Scope.READ)
        seconds = seconds_of(request, "wait", WAIT_MOST)
        marks = flag(request, "mark_replied") and request.method != "HEAD"
        if seconds is None:
            found = await self._operations.find(identity)
        else:
            found = await self.end_of(identity, seconds, request)
        if found is None:
            raise not_known(await self._operations.stored.dead(identity))
        is_held = seconds is not None and request.method != "HEAD"
        claimed = await self._operations.replies.claim(found) if is_held else None
        response = answer(told(await self._operations.note_reply(found) if marks else found))
        if claimed is None:
            return response
        return Written(response, claimed)

    async def end_of(
        self, identity: str, seconds: float, request: web.Request
    ) -> OperationView | None:
        """Hold the reply to a request until an operation ends. Raises Problem, StoreError."""
        with self.holding(request):
            gone = functools.partial(_gone, request)
            found = await self._operations.end_of(identity, seconds, gone)
        self.callers.key_of(request)  # a key that ended meanwhile hears nothing more
        return found

    async def cancel(self, request: web.Request) -> web.Response:
        """End it as CANCELLED where it waits. Raises Problem, StoreError."""
        found = known(await self._operations.find(self._identity(request, Scope.INGEST)))
        came = await self._operations.cancel(found)
        after = known(await self._operations.find(found.id))
        # Who cancels once more, because a reply was lost, hears the same.
        if came.kept is None or after.members["status"] == State.CANCELLED:
            return answer(told(after))
        if after.members["status"] == State.QUEUED:
            raise Problem(HTTPStatus.CONFLICT, _QUEUED, reason="queued")
        why = _KEPT[came.kept].format(state=after.members["status"])
        raise Problem(HTTPStatus.CONFLICT, why, reason=came.kept.value)

    async def resend(self, request: web.Request) -> web.Response:
        """Put the request of one that ended as a new one. Raises Problem, StoreError."""
        found = known(await self._operations.find(self._identity(request, Scope.INGEST)))
        try:
            meant = ended_one(found.id, found.members)
        except NotEnded as error:
            raise Problem(HTTPStatus.CONFLICT, f"{error}") from error
        document = None
        if found.slug and found.number:
            account, _ = account_and_id(found.id)
            document = await self._operations.stored.tracking(found.slug, found.number, account)
        put = renewed(meant, document, request.headers.get("traceparent"))
        [spooled] = await self._door.take([put])
        taken = Taken(account_and_id(put.id)[1], put.slug, put.number, spooled)
        return answer(taken, HTTPStatus.ACCEPTED)

    def _identity(self, request: web.Request, scope: Scope) -> str:
        account = self.callers.account(request, scope)
        return own_id(request.match_info["id"], account)

    async def release(self, _: web.Application) -> None:
        """Answer all who wait now with what is known, because the process ends."""
        self._operations.release()

    def holding(self, request: web.Request) -> contextlib.AbstractContextManager[None]:
        """Hold a reply; with too many of them raises Problem."""
        return holding(self._operations, self.callers.key_of(request))


@contextlib.contextmanager
def holding(operations: Operations, whose: str | None) -> Iterator[None]:
    """Hold a reply to a key, or to a user of the pages; with too many of them raises Problem.

    One of these has no more of them than are still free, so another one always finds some.
    """
    all_held = operations.held
    held, own = all_held.total(), all_held[whose]
    free = operations.held_most - held
    if free <= 0:
        why = f"{held} replies are held: ask without `wait`, or later"
        raise come_later(why)
    if whose is not None and own >= free:
        why = f"{own} replies are held for {whose}, and {free} are left for all others"
        later = {"Retry-After": str(RETRY_SECONDS)}
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, why, later)
    all_held[whose] += 1
    try:
        yield
    finally:
        operations.held -= Counter({whose: 1})


_KEPT = {
    NotCancelled.ELSEWHERE: "its id belongs to another parcel by now: ask again",
    NotCancelled.RUNNING: "it is with the courier now; a call that runs is not cut off",
    NotCancelled.ENDED: "it has already ended: {state}",
    NotCancelled.UNKNOWN: "it waits nowhere at this moment: ask again",
}

_QUEUED = "it is in its tube still: cancel it again once a worker has taken it"


def own_id(identity: str, account: Account) -> str:
    """Name the operation that an account means by an id, as every key names it.

    The one place where an account is kept from what is not its own: nothing of others' has such a
    name. Raises Problem.
    """
    known = operation_id(account, identity)
    if len(identity) > ID_MOST or account_and_id(known) != (account, identity):
        raise unknown()
    return known


def known(found: OperationView | None) -> OperationView:
    """Insist that there is one. Raises Problem."""
    if found is None:
        raise unknown()
    return found


def not_known(record: Mapping[str, Any] | None) -> Problem:
    """Say why there is no operation, where its request is recorded as dead."""
    if record is None:
        return unknown()
    return Problem(HTTPStatus.NOT_FOUND, f"it is dead: {record['detail']}", reason=record["reason"])


def unknown() -> Problem:
    """Say that no operation is known under an id."""
    return Problem(
        HTTPStatus.NOT_FOUND,
        "no operation is known under this id: it is still in its tube, ended long ago, "
        "or was never put. `?wait=` waits until it is known and has ended",
    )


def told(operation: OperationView) -> Operation:
    """Make the answer about an operation."""
    members = operation.members
    repeated = members.get("resend_of")
    return Operation(
        id=account_and_id(operation.id)[1],
        slug=operation.slug,
        number=operation.number,
        status=members["status"],
        started_at=members["startedAt"],
        finished_at=members["finishedAt"],
        output=members["output"],
        place=operation.place,
        resend_of=account_and_id(repeated)[1] if repeated else UNSET,
        webhook=members.get("webhook", UNSET),
        replied_at=members.get("repliedAt", UNSET),
        attempts=members.get("attempts") or UNSET,
    )


def _gone(request: web.Request) -> bool:
    """Whether nobody will read the reply: aiohttp lets a handler go on without its client."""
    return request.transport is None
