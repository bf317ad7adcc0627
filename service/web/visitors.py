"""Visitors of pages: who looks, known by the session's cookie, and what a form proves."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar, cast

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

KEPT_MOST = 1_000
"""Answers of a kind that are kept at once."""

FORM_FIELD = "csrf"

T = TypeVar("T")
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


class Kept:
    """Answers, each kept for a while; who asks meanwhile waits for the one that is on its way."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[Hashable, tuple[asyncio.Task[Any], float]] = {}

    async def get(
        self, name: Hashable, seconds: float, ask: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """Give what is kept, or ask. What `ask` raises is raised to all who wait, and not kept."""
        task, until = self._found.get(name, (None, 0.0))
        if task is None or until <= self._clock() or (task.done() and task.exception()):
            if len(self._found) >= KEPT_MOST:
                self._found.clear()
            task = asyncio.create_task(ask())
            self._found[name] = task, self._clock() + seconds
        return cast("T", await asyncio.shield(task))

    def forget(self) -> None:
        """Ask for all again: an act has changed what is kept."""
        self._found.clear()


class Visitors:
    """For one event loop. Methods raise ResultsDown."""

    def __init__(self, config: Config, stores: Collections) -> None:
        self.config = config
        self.stores = stores
        self.proxies = Proxies(config.http)
        self._known = Kept()
        self._users = False

    async def any_user(self) -> bool:
        """Whether there is a user; once there was one, nobody asks again."""
        self._users = self._users or await in_thread(any_user, self.stores)
        return self._users

    def base_of(self, request: web.Request) -> str:
        """Name where this service is reached, as links and examples begin."""
        scheme = self.proxies.asking(request).scheme
        return self.config.http.public_url or f"{scheme}://{request.host}"

    async def of(self, request: web.Request) -> Visitor:
        """Find who looks; a session is nobody's where a proxy says that somebody else looks."""
        email, visitor = self.proxies.asking(request).email, NOBODY
        if text := request.cookies.get(COOKIE, ""):
            name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            ask = partial(in_thread, _visitor, self.stores, text)
            visitor = await self._known.get(name, KNOWN_SECONDS, ask)
        return NOBODY if email and visitor.email != email else visitor

    def forget(self) -> None:
        """Look all sessions up again: one has ended, or a role changed."""
        self._known.forget()

    async def insist_on_origin(self, request: web.Request, visitor: Visitor) -> None:
        """Raises Problem where a form was not posted by a page of this service."""
        origin = request.headers.get("Origin", "")
        if origin.partition("://")[2] != request.host:
            why = "this form was posted by another site, or by a browser that hides where from"
            raise Problem(HTTPStatus.FORBIDDEN, why)
        text = (await fields_of(request))[FORM_FIELD]
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


async def fields_of(request: web.Request) -> Mapping[str, str]:
    """Read the texts of a form; what it lacks is ""."""
    posted = await form_of(request)
    return defaultdict(
        str, ((name, text) for name, text in posted.items() if isinstance(text, str))
    )


def count_in(text: str, digits: int) -> int:
    """Read a number that somebody typed, of so many digits at most. Raises ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= digits):
        raise ValueError(text)
    return int(text)


def token_of(text: str) -> str:
    """Make the token of a session's forms out of its cookie."""
    return hmac.new(text.encode("utf-8", "surrogatepass"), b"csrf", hashlib.sha256).hexdigest()


def _visitor(stores: Collections, text: str) -> Visitor:
    user = find_session(stores, text)
    if user is None:
        return NOBODY
    token, why = token_of(text), suspension_of(stores, user.account)
    return Visitor(user.email, user.account, user.role, token, scopes_of(user.role), why)
