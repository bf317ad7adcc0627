"""Visitors of pages: who looks, known by the session's cookie, and what a form proves."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import MultiDictProxy

from service.config.schema import Config
from service.http.exchange import Problem
from service.http.proxies import Proxies
from service.http.reading import BODY_SECONDS
from service.operator.audit import Operator, Via
from service.operator.connections import Collections, in_thread
from service.operator.keys import Scope
from service.operator.sessions import any_user, find_session
from service.operator.suspension import suspension_of
from service.operator.users import Role, scopes_of
from tracking.request import MAIN, Account

COOKIE = "session"

KNOWN_SECONDS = 5.0
"""How long a session is not looked up again; one that ends elsewhere works as long at most."""

KNOWN_MOST = 10_000
"""Sessions that are kept at once."""

FORM_FIELD = "csrf"

Form = MultiDictProxy[str | bytes | bytearray | web.FileField]


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor; of one that is not `known`, `email` is "" and no page with a scope opens.

    `csrf` is the token that forms of this session carry. `suspended`: why the account is, None
    where it is not.
    """

    email: str = ""
    account: Account = MAIN
    role: str = ""
    csrf: str = ""
    scopes: tuple[Scope, ...] = ()
    suspended: str | None = None

    @property
    def known(self) -> bool:
        """Whether somebody is logged in."""
        return bool(self.email)

    @property
    def operates(self) -> bool:
        """Whether operators' pages open: to owners of `main`."""
        return self.known and self.account == MAIN and self.role == Role.OWNER

    @property
    def owns(self) -> bool:
        """Whether keys and users of the account are the visitor's to change."""
        return self.role == Role.OWNER

    @property
    def operator(self) -> Operator:
        """Name the visitor, for the record of an act."""
        return Operator(account=self.account, via=Via.WEB, user=self.email)


NOBODY = Visitor()


class Visitors:
    """For one event loop. Methods raise ResultsDown."""

    def __init__(
        self, config: Config, stores: Collections, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.config = config
        self.stores = stores
        self.proxies = Proxies(config.http)
        self._clock = clock
        self._known: dict[str, tuple[Visitor, float]] = {}
        self._users = False

    async def any_user(self) -> bool:
        """Whether there is a user; once there was one, nobody asks again."""
        self._users = self._users or await in_thread(any_user, self.stores)
        return self._users

    async def of(self, request: web.Request) -> Visitor:
        """Find who looks; a session is nobody's where a proxy says that somebody else looks."""
        visitor, email = await self._of_session(request), self.proxies.asking(request).email
        return NOBODY if email and visitor.email != email else visitor

    async def _of_session(self, request: web.Request) -> Visitor:
        text = request.cookies.get(COOKIE, "")
        if not text:
            return NOBODY
        name, now = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), self._clock()
        visitor, until = self._known.get(name, (NOBODY, 0.0))
        if until > now:
            return visitor
        visitor = await in_thread(_visitor, self.stores, text)
        if len(self._known) >= KNOWN_MOST:
            self._known.clear()
        self._known[name] = (visitor, now + KNOWN_SECONDS)
        return visitor

    def forget(self) -> None:
        """Look all sessions up again: one has ended, or a role changed."""
        self._known.clear()

    async def insist_on_origin(self, request: web.Request, visitor: Visitor) -> None:
        """Raises Problem where a form was not posted by a page of this service."""
        origin = request.headers.get("Origin", "")
        if origin.partition("://")[2] != request.host:
            why = "this form was posted by another site, or by a browser that hides where from"
            raise Problem(HTTPStatus.FORBIDDEN, why)
        given = (await form_of(request)).get(FORM_FIELD)
        text = given if isinstance(given, str) else ""
        if not hmac.compare_digest(text.encode(), visitor.csrf.encode()):
            why = "this page is older than your session: load it again, and send the form once more"
            raise Problem(HTTPStatus.FORBIDDEN, why)


_NO_FORM = (
    ValueError,
    LookupError,  # of a charset
    ConnectionError,
    web.RequestPayloadError,
    HttpProcessingError,
)


async def form_of(request: web.Request) -> Form:
    """Read a form, also once more. Raises Problem where it is none, or not here in time."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.post()
    except TimeoutError as error:
        why = f"the form was not here within {BODY_SECONDS:g} s"
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, why) from error
    except _NO_FORM as error:
        raise Problem(HTTPStatus.BAD_REQUEST, "this is no form, or not the whole of it") from error


def token_of(text: str) -> str:
    """Make the token of a session's forms out of its cookie."""
    return hmac.new(text.encode("utf-8", "surrogatepass"), b"csrf", hashlib.sha256).hexdigest()


def _visitor(stores: Collections, text: str) -> Visitor:
    user = find_session(stores, text)
    if user is None:
        return NOBODY
    token, why = token_of(text), suspension_of(stores, user.account)
    return Visitor(user.email, user.account, user.role, token, scopes_of(user.role), why)
