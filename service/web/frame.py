"""The frame of all pages: it knows who looks, renders, and makes a page of whatever goes wrong.

A handler takes the request and its visitor, and gives `view(…)`, `see_other(…)` behind an act, or
raises what a route raises: Problem, StoreError, NotDone.

=========================== ==================================================================
what a page must not do     what keeps it from that
=========================== ==================================================================
run what others wrote       Jinja2 escapes; `assets.POLICY` lets no script run that stands in a page
act for another site        each POST carries the session's token, and comes from our own origin
show what it kept           `Cache-Control: no-store`, as all answers have
be framed, lead elsewhere   `assets.POLICY`; `own_path` reads where a login goes on
=========================== ==================================================================
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from urllib.parse import quote, unquote

import jinja2
from aiohttp import web
from markupsafe import Markup

from service import PROGRAM, VERSION
from service.http.callers import suspension
from service.http.exchange import REQUEST_ID, Problem, Route, problem_of
from service.operator.keys import Scope
from service.web import writing
from service.web.assets import HEADERS, address
from service.web.visitors import NOBODY, Kept, Visitor, Visitors

HERE = Path(__file__).parent

LIVE_SECONDS = 2.0
"""How often a page asks for its live fragments, and how long one serves all who ask."""

LOGIN = "/login"

NOTICE = "notice"
"""The cookie of what the next page says is done. In its address anybody could make it say things,
and e-mails would stand in logs."""

NOTICE_SECONDS = 60
NOTICE_MOST = 300

NOTHING: Mapping[str, str] = MappingProxyType({})
"""What is wrong with a form that nobody has sent, and what was typed in it."""


class View(NamedTuple):
    """A template, and what it shows."""

    template: str
    values: Mapping[str, Any]
    status: HTTPStatus


Answer = web.StreamResponse | View
Handler = Callable[[web.Request, Visitor], Awaitable[Answer]]
Values = Callable[[web.Request, Visitor], Awaitable[Mapping[str, Any]]]


class Page(NamedTuple):
    """A page, or what one of its forms posts to.

    `scope` is what the visitor's role must be good for, None for everybody. `operators`: for owners
    of `main` alone; there is no such page for all others. `live`: a fragment that an open page asks
    for again and again; it is made once per account, role and query for all pages that are open in
    LIVE_SECONDS.
    """

    method: str
    path: str
    handler: Handler
    scope: Scope | None = Scope.READ
    operators: bool = False
    live: bool = False


class Entry(NamedTuple):
    """An entry of the navigation: `path` and everything below it belongs to it."""

    name: str
    path: str
    scope: Scope = Scope.READ
    operators: bool = False


class Frame:
    """For one event loop."""

    def __init__(
        self, visitors: Visitors, entries: Sequence[Entry], clock: Callable[[], float] = time.time
    ) -> None:
        self.visitors = visitors
        self._entries = entries
        self._token = secrets.token_hex(16)
        """Stands for the CSRF token in what is rendered: so a fragment serves many visitors."""
        self._fragments = Kept(clock)
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters |= writing.FILTERS
        token = Markup('<input type="hidden" name="csrf" value="{}">').format(self._token)
        self._templates.globals |= {
            "version": VERSION,
            "program": PROGRAM,
            "csrf": lambda: token,
            "link": writing.link,
            "asset": address,
            "may": may,
            "zip": zip,
        }

    def routes(self, pages: Sequence[Page]) -> list[Route]:
        """Make routes of pages."""
        return [Route(each.method, each.path, self._served(each), None) for each in pages]

    def _render(self, request: web.Request, visitor: Visitor, view: View) -> web.Response:
        notice = unquote(request.cookies.get(NOTICE, ""))
        html = self.text(request, visitor, view, notice=notice)
        answered = self._answer(html, visitor, view.status)
        if notice:
            answered.del_cookie(NOTICE, path="/")
        return answered

    def text(self, request: web.Request, visitor: Visitor, view: View, **values: Any) -> str:
        """Render a template; the token in it still stands for each visitor's own."""
        shown = [each for each in self._entries if may(visitor, each)]
        values |= {"visitor": visitor, "entries": shown, "path": request.path}
        values |= {"query": request.query, **view.values}
        return self._templates.get_template(view.template).render(values)

    async def missing(self, request: web.Request) -> web.StreamResponse:
        """Say that there is no such page."""
        return await self._served(Page("GET", request.path, _nothing, None))(request)

    async def live(
        self, request: web.Request, visitor: Visitor, handler: Handler
    ) -> web.StreamResponse:
        """Give a fragment; pages that ask while it is made wait for it."""

        async def make() -> tuple[str, str]:
            html = self.text(request, visitor, cast("View", await handler(request, visitor)))
            return html, f'"{hashlib.sha256(html.encode()).hexdigest()[:24]}"'

        key = (visitor.account, visitor.role, request.path_qs)
        html, etag = await self._fragments.get(key, LIVE_SECONDS * 0.9, make)
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": etag})
        answered = self._answer(html, visitor, HTTPStatus.OK)
        answered.headers["ETag"] = etag
        return answered

    def _answer(self, html: str, visitor: Visitor, status: HTTPStatus) -> web.Response:
        text = html.replace(self._token, visitor.csrf)
        # The name of a file that somebody sends may hold what is no character.
        body, kind = text.encode("utf-8", "replace"), "text/html"
        return web.Response(
            status=status, body=body, content_type=kind, charset="utf-8", headers=dict(HEADERS)
        )

    def _served(self, page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            visitor = NOBODY
            try:
                visitor = await self.visitors.of(request)
                if page.scope is not None:
                    if not await self.visitors.any_user():
                        return self._render(request, NOBODY, NO_USER)
                    if not visitor.known:
                        return _to_login(request)
                _insist_on(visitor, page)
                if page.method != "GET":
                    await self.visitors.insist_on_origin(request, visitor)
                if page.live:
                    return await self.live(request, visitor, page.handler)
                found = await page.handler(request, visitor)
                return self._render(request, visitor, found) if isinstance(found, View) else found
            except Exception as error:  # noqa: BLE001 - whatever it is, it becomes a page
                problem = problem_of(error, request[REQUEST_ID])
                shown = view("problem.html", problem.status, problem=problem)
                answered = self._render(request, visitor, shown)
                answered.headers.update(problem.headers or {})
                return answered

        return serve


def view(template: str, status: HTTPStatus | None = None, **values: Any) -> View:
    """Name a template, and what it shows; 422 where what was typed is `wrong`."""
    usual = HTTPStatus.UNPROCESSABLE_ENTITY if values.get("wrong") else HTTPStatus.OK
    return View(template, values, status or usual)


NO_USER = view("nobody.html", HTTPStatus.SERVICE_UNAVAILABLE)
"""Says that there is no user, and how the first one is made."""


def moving(
    path: str, name: str, values: Values, scope: Scope | None = Scope.READ, *, operators: bool
) -> list[Page]:
    """Make a page, `name.html`, and the fragment of it that moves, `name_now.html`."""

    async def whole(request: web.Request, visitor: Visitor) -> View:
        return view(f"{name}.html", **await values(request, visitor))

    async def now(request: web.Request, visitor: Visitor) -> View:
        return view(f"{name}_now.html", **await values(request, visitor))

    return [
        Page("GET", path, whole, scope, operators),
        Page("GET", f"{path}/now", now, scope, operators, live=True),
    ]


async def _nothing(_: web.Request, __: Visitor) -> View:
    raise Problem(HTTPStatus.NOT_FOUND, "there is no such page")


def may(visitor: Visitor, what: Page | Entry) -> bool:
    """Whether a visitor may see it."""
    if what.operators and not visitor.operates:
        return False
    return what.scope is None or what.scope in visitor.scopes


def _insist_on(visitor: Visitor, page: Page) -> None:
    if page.operators and not visitor.operates:
        raise web.HTTPNotFound
    if page.scope is not None and visitor.suspended is not None:
        raise Problem(HTTPStatus.FORBIDDEN, suspension(visitor.account, visitor.suspended))
    if not may(visitor, page):
        why = f"your role is {visitor.role}: ask an owner of the account {visitor.account}"
        raise Problem(HTTPStatus.FORBIDDEN, why)


def _to_login(request: web.Request) -> web.Response:
    """Lead to the login, also where a part of an open page is asked for."""
    if "HX-Request" in request.headers:
        return web.Response(headers={"HX-Redirect": LOGIN} | dict(HEADERS))
    return see_other(LOGIN, next=request.path_qs if request.method == "GET" else "")


def see_other(path: str, done: str = "", **query: str) -> web.Response:
    """Lead to another page, by GET; it says what is done, this once, in a sentence."""
    where = writing.link(path, **query)
    led = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": where} | dict(HEADERS))
    if done:
        text, seconds = quote(done[:NOTICE_MOST]), NOTICE_SECONDS
        led.set_cookie(NOTICE, text, max_age=seconds, path="/", httponly=True, samesite="Strict")
    return led
