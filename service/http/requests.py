"""`POST /v1/requests`: one request, an array of them, or a line of JSON for each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from service.http.backend.door import Door
from service.http.callers import Callers
from service.http.exchange import JSON, About, Parameter, Problem, Route, come_later
from service.http.reading import FLAG, body_of, flag, insist_on_json, json_of
from service.operator.catalogue import Catalogue
from service.operator.keys import Scope
from service.operator.put import (
    ID_REUSED,
    Ignored,
    Posted,
    PostedRequest,
    Refusal,
    Row,
    SeenIds,
    Sendable,
    jobs_of_posted,
)
from service.operator.tables import BadTable, csv_rows
from tracking.errors import SpoolDown
from tracking.request import Account, account_and_id, operation_id

REQUESTS_MOST = 1_000
"""Requests of one POST."""

IN_HAND_MOST = 4 << 20
"""Bytes of bodies in hand: so many are judged and put within 3 s or so."""

NAMED_MOST = 100
"""Requests that a problem names."""

TABLE = "text/csv"
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
_encode = msgspec.json.Encoder().encode
_JSON = {"Content-Type": JSON}
SKIP_BAD = Annotated[FLAG, Meta(description="leave out those that are wrong, and take the others")]
IDEMPOTENCY_KEY = Annotated[str, Meta(description="the id of a single request")]


class Taken(msgspec.Struct):
    """A request that is durable; `spooled`: no beanstalkd took it yet.

    `ignored` names members of it that mean nothing, where there are any.
    """

    id: str
    slug: str
    number: str
    spooled: bool
    ignored: list[Ignored] | msgspec.UnsetType = msgspec.UNSET


class Left(msgspec.Struct):
    """A request that was not taken: `index` is its place in what was posted, from 0."""

    index: int
    reason: str
    detail: str


class ManyTaken(msgspec.Struct, omit_defaults=True):
    """What became of several requests; `left_out` only where bad ones were to be skipped.

    `ignored` names members of any of them that mean nothing.
    """

    requests: list[Taken]
    left_out: list[Left] = msgspec.field(default_factory=list)
    ignored: list[Ignored] = msgspec.field(default_factory=list)


class Requests:
    """The route."""

    def __init__(self, door: Door, catalogue: Catalogue, callers: Callers) -> None:
        self._door = door
        self._catalogue = catalogue
        self._callers = callers
        self._seen = SeenIds()
        self._in_hand = 0

    def routes(self) -> list[Route]:
        """Name it."""
        about = About(
            "Take requests: one, several as an array, a line of JSON for each, or a table.",
            Scope.INGEST,
            {202: (Taken, ManyTaken)},
            refusals=(409,),
            parameters=(
                Parameter("skip_bad", SKIP_BAD),
                Parameter("Idempotency-Key", IDEMPOTENCY_KEY, "header"),
            ),
            body=PostedRequest | list[PostedRequest],
            takes=(JSON, *LINES, TABLE),
        )
        return [Route("POST", "/v1/requests", self.post, about)]

    async def post(self, request: web.Request) -> web.Response:
        """Take requests; 202 once each is durable. Raises Problem."""
        account = self._callers.account(request, Scope.INGEST)
        self._door.insist_on_pace()
        skip_bad = flag(request, "skip_bad")
        form = insist_on_json(request, *LINES, TABLE)
        body = await body_of(request)
        with self._room(len(body)):  # only now: who sends slowly keeps nobody out
            posted, many = _posted(request, body, self._callers, form)
            good, refused, ignored = self._judged(request, posted, account)
            if refused and (not skip_bad or not good):
                raise _refused(refused, many=many)
            try:
                spooled = await self._door.take(good)
            except SpoolDown as error:
                raise _nowhere(good, error) from error
        self._seen.remember(good)
        whose = operation_id(account, "")
        taken = [
            Taken(each.id.removeprefix(whose), each.slug, each.number, alone)
            for each, alone in zip(good, spooled, strict=True)
        ]
        left_out = [Left(each.index, each.reason, each.detail) for each in refused]
        said = ManyTaken(taken, left_out, ignored) if many else taken[0]
        if ignored and not many:
            taken[0].ignored = ignored
        return web.Response(status=HTTPStatus.ACCEPTED, body=_encode(said) + b"\n", headers=_JSON)

    def _judged(self, request: web.Request, posted: Sequence[object], account: Account) -> Posted:
        traced = request.headers.get("traceparent")
        return jobs_of_posted(posted, self._catalogue, self._seen, traced, account)

    @contextlib.contextmanager
    def _room(self, size: int) -> Iterator[None]:
        """Hold room for a body of so many bytes. Raises Problem."""
        if self._in_hand and self._in_hand + size > IN_HAND_MOST:
            why = f"{self._in_hand} bytes are in hand, {IN_HAND_MOST} at most: come again later"
            raise come_later(why)
        self._in_hand += size
        try:
            yield
        finally:
            self._in_hand -= size


def _posted(
    request: web.Request, body: bytes, callers: Callers, form: str
) -> tuple[Sequence[object], bool]:
    """Read the requests of a body, and whether it may hold several. Raises Problem."""
    key = request.headers.get("Idempotency-Key")
    if form in LINES:
        posted: Sequence[object] = [line for line in body.splitlines() if line.strip()]
    elif form == TABLE:
        posted = _rows(body)
    else:
        read = json_of(body)
        if not isinstance(read, list):
            named = read if key is None else _with_id(read, key)
            if named != read:
                callers.insist_on_idempotency_key(request)
            return [named], False
        posted = read
    if key is not None:
        why = "Idempotency-Key names one request: give each of several its own `id` instead"
        raise Problem(HTTPStatus.BAD_REQUEST, why)
    if not posted:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "the body holds no request")
    if len(posted) > REQUESTS_MOST:
        why = f"{len(posted)} requests: send {REQUESTS_MOST} at most"
        raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    return posted, True


def _rows(body: bytes) -> Sequence[Row]:
    """Read a table of requests. Raises Problem."""
    try:
        lines = iter(body.decode("utf-8-sig").splitlines(keepends=True))
        return list(csv_rows(lines, "the body", has_slug=True))
    except UnicodeDecodeError as error:
        raise Problem(HTTPStatus.BAD_REQUEST, "the table is not UTF-8") from error
    except BadTable as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}", reason="bad_table") from error


def _with_id(read: object, key: str) -> object:
    """Give a request the id of the header, quoted as the draft of the standard has it or not."""
    name = re.sub(r'^"(.*)"\Z', r"\1", key)
    if not isinstance(read, dict):
        return read
    if read.get("id") not in (None, name):
        why = "Idempotency-Key and `id` differ: give one of them"
        raise Problem(HTTPStatus.BAD_REQUEST, why)
    return read | {"id": name}


def _refused(refused: Sequence[Refusal], *, many: bool) -> Problem:
    reused = all(each.reason == ID_REUSED for each in refused)
    status = HTTPStatus.CONFLICT if reused else HTTPStatus.UNPROCESSABLE_ENTITY
    first = refused[0]
    if not many:
        return Problem(status, first.detail, reason=first.reason)
    rest = f" ({len(refused) - 1} more are wrong)" if len(refused) > 1 else ""
    detail = f"none was taken: request {first.index}: {first.detail}{rest}"
    errors = [Left(each.index, each.reason, each.detail) for each in refused[:NAMED_MOST]]
    return Problem(status, detail, index=first.index, reason=first.reason, errors=errors)


def _nowhere(good: Sequence[Sendable], error: SpoolDown) -> Problem:
    """Say that some requests are durable nowhere. With these ids they may be sent once more."""
    why = f"nothing durable can be reached: {error.message}"
    return come_later(why, ids=[account_and_id(each.id)[1] for each in good])
