"""Asking couriers over HTTP: one `Fetch` per `track()`, every request through its permit."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from email.utils import formatdate
from html import escape
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
from aiohttp import hdrs
from yarl import URL

from couriers.http.credentials import (
    AccountKey,
    CourierSettings,
    Grant,
    Token,
    account_key,
    read_token,
)
from couriers.http.redaction import KEPT_BYTES, excerpt, redact, without_secrets
from couriers.http.session import Gate, courier_down
from couriers.http.several import Ends, Parse, ParseMany
from couriers.reading.answer import Answer
from tracking.call import Call, Permit
from tracking.checkpoint import Tracking
from tracking.errors import (
    CourierDown,
    CourierError,
    InvalidNumber,
    RequestRefused,
    Unread,
    UnreadableAnswer,
)
from tracking.request import Slug, TrackingRequest

EARLY_SECONDS = 60.0
"""A token this close to its end is renewed, so that none runs out on the way."""

BODY_BYTES = 1024 * 1024
RIDER_BYTES = 64 * 1024
"""An answer may be so large, and so much larger for each number beyond the first."""
_CHUNK_BYTES = 64 * 1024
_MESSAGE_CHARACTERS = 400
_READ_HEADERS = ("content-type", "date", "retry-after")

Path = Sequence[str | tuple[str, ...]]
"""Segments of an address; a tuple is one of several texts, which commas part."""


class Fetch:
    """The only way in which a courier module reaches the network.

    Every request to the tracking address waits for a permit of its own: the first spends the one
    the call was granted, each further one asks for another. Token endpoints are exempt. Redirects
    are not followed, nothing is repeated but once after a stale token. No request starts behind
    `permit.deadline`; the caller of `track()` cancels what is still running by then.
    All methods raise CourierError (CourierDown for whatever the network does),
    NotStarted and LimitsDown.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        settings: CourierSettings,
        permit: Permit,
        tokens: TokenCache,
        traceparent: str | None = None,
    ) -> None:
        """`traceparent` goes with each request that is permitted, so that traces go on there."""
        self.settings = settings
        self.body_most = BODY_BYTES
        self._traceparent = traceparent
        self._http = http
        self._permit = permit
        self._tokens = tokens
        self._asked = False
        self._secrets = {value for value in settings.credentials.values() if value}

    def get(
        self,
        path: Path,
        *,
        query: Mapping[str, str | Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        grant: Grant | None = None,
    ) -> Awaitable[Answer]:
        """GET `base_url` + `path`; each segment of `path` is encoded as a whole."""
        url = address(self.settings.base_url, path, query)
        return self._tracked("GET", url, dict(headers or {}), grant, {})

    def post(
        self,
        path: Path,
        *,
        json: Any = None,
        xml: str | None = None,
        headers: Mapping[str, str] | None = None,
        grant: Grant | None = None,
    ) -> Awaitable[Answer]:
        """POST a small body, `json` or else the text `xml`, to `base_url` + `path`."""
        url, named = address(self.settings.base_url, path), dict(headers or {})
        body = {"json": json}
        if xml is not None:
            body = {"data": xml.encode()}
            named.setdefault("Content-Type", "text/xml; charset=utf-8")
        return self._tracked("POST", url, named, grant, body)

    def read(self, answer: Answer, parse: Parse, number: str) -> Tracking:
        """Run a module's `parse` over an answer; errors leave with its status and excerpt.

        An answer that cannot be read leaves with its error, to be read again after a fix.
        """
        try:
            tracking = parse(answer.status, answer.headers, answer.body, number)
        except Exception as fault:
            error = self._explained(fault, answer)
            if isinstance(error, UnreadableAnswer):
                error.unread = self._unread(answer, number)
            if error is fault:
                raise
            raise error from fault
        return tracking._replace(http_status=answer.status)

    def read_many(self, answer: Answer, parse_many: ParseMany, numbers: Sequence[str]) -> Ends:
        """Run a module's `parse_many` over an answer about several numbers.

        A number's own error leaves with what is about this number, and nothing of the others. So an
        error of the whole answer leaves without an excerpt.
        """
        try:
            ends = parse_many(answer.status, answer.headers, answer.body, numbers)
        except Exception as fault:
            error = self._explained(fault, answer)
            error.excerpt = ""
            if error is fault:
                raise
            raise error from fault
        return {number: self._end(end, answer, number) for number, end in ends.items()}

    def _end(
        self, end: Tracking | CourierError, answer: Answer, number: str
    ) -> Tracking | CourierError:
        if isinstance(end, Tracking):
            return end._replace(http_status=answer.status)
        of_one = answer._replace(body=end.part or b"")
        end.part = None
        self._explained(end, of_one)
        if isinstance(end, UnreadableAnswer):
            end.unread = self._unread(of_one, number)
        return end

    def _unread(self, answer: Answer, number: str) -> Unread:
        headers = {name: answer.headers[name] for name in _READ_HEADERS if name in answer.headers}
        body = without_secrets(answer.body, self._secrets)
        return Unread(number, answer.status, headers, body, cut=len(body) >= KEPT_BYTES)

    @contextmanager
    def reading(self, answer: Answer) -> Iterator[None]:
        """Put the answer's status and a redacted excerpt on every error raised within.

        An error that is no CourierError is a fault of the parser: it becomes UnreadableAnswer, so
        that the answer is kept and the request repeated, and nobody ever reads it as "Pending".
        """
        try:
            yield
        except Exception as fault:
            error = self._explained(fault, answer)
            if error is fault:
                raise
            raise error from fault

    def _explained(self, fault: Exception, answer: Answer) -> CourierError:
        error = fault
        if not isinstance(error, CourierError):
            error = UnreadableAnswer(f"the parser failed: {type(fault).__name__}: {fault}")
        error.message = redact(error.message, self._secrets)[:_MESSAGE_CHARACTERS]
        error.args = (error.message,)
        error.http_status = answer.status
        error.excerpt = excerpt(answer.body, self._secrets)
        return error

    def _tracked(
        self,
        method: str,
        url: URL,
        headers: dict[str, str],
        grant: Grant | None,
        body: Mapping[str, Any],
    ) -> Awaitable[Answer]:
        if grant is None:
            return self._permitted(method, url, headers, body)
        return self._authorised(method, url, headers, grant, body)

    async def _authorised(
        self, method: str, url: URL, headers: dict[str, str], grant: Grant, body: Mapping[str, Any]
    ) -> Answer:
        value, held_before = await self._authorise(headers, grant)
        answer = await self._permitted(method, url, headers, _filled(body, grant, value))
        if not grant.is_refused_by(answer):
            return answer
        self._tokens.forget(account_key(self.settings, grant.url), value)
        if not held_before:
            return answer
        value, _ = await self._authorise(headers, grant)
        return await self._permitted(method, url, headers, _filled(body, grant, value))

    async def _permitted(
        self, method: str, url: URL, headers: dict[str, str], body: Mapping[str, Any]
    ) -> Answer:
        # The caller cancels a moment after the deadline: too late to hold a request back for
        # which a connection is at hand.
        if time.monotonic() >= self._permit.deadline:
            raise CourierDown(f"{url.host} did not answer in time")
        if self._asked:
            await self._permit.again()
        self._asked = True
        options: dict[str, Any] = {"middlewares": (Gate(self._permit),), **body}
        if self._traceparent is not None:
            headers = {"traceparent": self._traceparent, **headers}
        if headers:
            options["headers"] = headers
        return await self._exchange(method, url, options)

    async def _authorise(self, headers: dict[str, str], grant: Grant) -> tuple[str, bool]:
        async def renew() -> Token:
            options = {"json": grant.json, "data": grant.xml or grant.form}
            options["headers"] = grant.headers
            given = {name: value for name, value in options.items() if value is not None}
            answer = await self._exchange("POST", root(grant.url), given)
            try:
                return read_token(answer, grant)
            except CourierError as error:
                # The body stays out of the record: it may hold the very token.
                error.http_status = answer.status
                raise

        key = account_key(self.settings, grant.url)
        value, held_before = await self._tokens.get(key, renew)
        self._secrets.add(value)
        if not grant.in_place_of:
            headers[grant.header] = f"{grant.scheme}{value}"
        return value, held_before

    async def _exchange(self, method: str, url: URL, options: dict[str, Any]) -> Answer:
        try:
            # No `async with`: a body that is read to its end has given its connection back, and
            # a read that fails closes it.
            response = await self._http.request(method, url, allow_redirects=False, **options)
            most = self.body_most
            body = await (response.read() if _is_small(response, most) else _capped(response, most))
        except (aiohttp.ClientError, OSError) as broken:
            raise courier_down(url.host, broken) from broken
        except ValueError as unfit:
            raise RequestRefused("a header or the address holds what HTTP forbids") from unfit
        named = {name.lower(): value for name, value in response.headers.items()}
        if "date" not in named:
            named["date"] = _date(int(time.time()))
        return Answer(response.status, named, body)


class TokenCache:
    """Holds each account's token until shortly before it ends. One per process.

    Some couriers revoke the old token when they give a new one, so at most one renewal of an
    account is under way; other calls that need the token wait for it and share its failure.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[AccountKey, tuple[str, float]] = {}
        self._renewals: dict[AccountKey, asyncio.Future[str | CourierError | None]] = {}

    async def get(self, key: AccountKey, renew: Callable[[], Awaitable[Token]]) -> tuple[str, bool]:
        """Return the token, and whether it had been held before this call began.

        Raises what `renew` raises, also to those who only waited for it.
        """
        waited = False
        while True:
            held = self._held.get(key)
            if held is not None and self._clock() < held[1]:
                return held[0], not waited
            under_way = self._renewals.get(key)
            if under_way is None:
                return await self._renew(key, renew), False
            waited = True
            match await asyncio.shield(under_way):
                case CourierError() as failure:
                    raise failure
                case str(value):
                    return value, False
                case None:
                    continue  # the call that renewed was cancelled: this one takes over

    def forget(self, key: AccountKey, value: str) -> None:
        """Drop a token that the courier refused, unless a newer one has taken its place."""
        held = self._held.get(key)
        if held is not None and held[0] == value:
            del self._held[key]

    async def _renew(self, key: AccountKey, renew: Callable[[], Awaitable[Token]]) -> str:
        result: asyncio.Future[str | CourierError | None]
        result = asyncio.get_running_loop().create_future()
        self._renewals[key] = result
        outcome: str | CourierError | None = None
        try:
            token = await renew()
            self._held[key] = (token.value, self._clock() + token.lifetime - EARLY_SECONDS)
            outcome = token.value
        except CourierError as failure:
            outcome = failure
            raise
        finally:
            del self._renewals[key]
            result.set_result(outcome)
        return token.value


class Couriers(Protocol):
    """What is asked, and with which settings; `couriers.registry.Registry` is one."""

    def settings(self, slug: Slug) -> CourierSettings:
        """Return what is set for a resolved slug."""

    def track(self, fetch: Fetch, request: TrackingRequest) -> Awaitable[Tracking]:
        """Ask the courier of `request`."""

    def track_many(self, fetch: Fetch, requests: Sequence[TrackingRequest]) -> Awaitable[Ends]:
        """Ask the courier of all `requests` in one call."""


class Tracker:
    """Asks couriers, with the tokens that all calls of a process share. One per process."""

    def __init__(self, couriers: Couriers, http: aiohttp.ClientSession) -> None:
        self._couriers = couriers
        self._http = http
        self._tokens = TokenCache()

    def track(self, call: Call) -> Awaitable[Tracking]:
        """Spend the call's permit at its courier. Raises as `Registry.track`, now or awaited."""
        return self._couriers.track(self._fetch(call), call.request)

    def track_many(self, calls: Sequence[Call]) -> Awaitable[Ends]:
        """Spend the permit that all these calls share. Raises as `Registry.track_many`, awaited.

        The trace that goes on at the courier is that of the first.
        """
        fetch = self._fetch(calls[0])
        fetch.body_most += RIDER_BYTES * (len(calls) - 1)
        return self._couriers.track_many(fetch, [call.request for call in calls])

    def _fetch(self, call: Call) -> Fetch:
        request = call.request
        settings = self._couriers.settings(request.slug)
        return Fetch(self._http, settings, call.permit, self._tokens, request.traceparent)


def _filled(body: Mapping[str, Any], grant: Grant, token: str) -> Mapping[str, Any]:
    """Put the token where the grant wants it in the XML of a call."""
    if not grant.in_place_of:
        return body
    return {"data": body["data"].replace(grant.in_place_of.encode(), escape(token).encode())}


def _is_small(response: aiohttp.ClientResponse, most: int) -> bool:
    """Whether the head promises a body within the cap, which aiohttp then holds it to."""
    length = response.content_length
    return length is not None and length <= most and hdrs.CONTENT_ENCODING not in (response.headers)


@functools.lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


async def _capped(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read a body, counted after decompression: a small gzip may unfold to gigabytes."""
    body = bytearray()
    with closing(response):  # of a body that was read to its end, the connection is given back
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if len(body) > most:
                raise UnreadableAnswer(
                    f"the answer is larger than {most} bytes", http_status=response.status
                )
    return bytes(body)


_DOTS = (".", "..")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def address(
    base_url: str, path: Path, query: Mapping[str, str | Sequence[str]] | None = None
) -> URL:
    """Put path segments and query parameters behind `base_url`.

    A parameter of several values is repeated. Each segment is percent-encoded as a whole: no `/`,
    `?`, `#` or `%2e` in it can reach another path. Raises InvalidNumber for a segment that a
    courier's server might still read as a step upwards after decoding it, RequestRefused for a
    `base_url` that is none.
    """
    base = root(base_url)
    behind = "/".join(map(_encoded, path))
    whole = base.with_path(f"{base.raw_path.rstrip('/')}/{behind}", encoded=True)
    return whole.with_query(dict(query)) if query else whole


def _encoded(segment: str | tuple[str, ...]) -> str:
    if isinstance(segment, tuple):
        return ",".join(map(_encoded, segment))
    if _PLAIN.fullmatch(segment):
        return segment  # nearly every slug and number, at a fifth of the time
    if not segment or any(part in _DOTS for part in segment.split("/")):
        raise InvalidNumber(f"{segment[:80]!r} cannot be part of an address")
    return quote(segment, safe="")


@functools.lru_cache(maxsize=256)
def root(text: str) -> URL:
    """Check a configured address: http or https, a host, no account, query or fragment."""
    try:
        url = URL(text)
        fits = url.scheme in ("http", "https") and bool(url.host) and url.explicit_port != 0
    except ValueError as unfit:
        raise RequestRefused(f"{text[:200]!r} is no address: {unfit}") from unfit
    if not fits or url.user is not None or url.query_string or url.fragment:
        raise RequestRefused(f"{text[:200]!r} must be http(s)://host[:port][/path] and no more")
    return url
