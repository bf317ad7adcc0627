"""The entrance: login and logout, links by which somebody chooses a password, sign-up, reset.

Nothing here tells whether an e-mail is known: an unknown one costs a login as much, and mails are
written in the background. Attempts count before they are made. A login always opens a new session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from aiohttp import web

from service import PROGRAM
from service.config.schema import Config
from service.http.exchange import Problem
from service.http.proxies import Asking
from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.operator import invitations, sessions, users
from service.operator.attempts import Attempt, count_attempt, give_back
from service.operator.connections import Collections, in_thread
from service.operator.invitations import Invitation
from service.operator.passwords import LEAST_CHARACTERS, Looks
from service.web.frame import NO_USER, Answer, Page, View, see_other, view
from service.web.visitors import COOKIE, Visitor, Visitors, fields_of
from tracking.errors import NotDone, ResultsDown

EMAIL_MOST = 254
FIRST_PAGE = "/"
NEXT_MOST = 2_000

Ask = Callable[[Collections, Config, str], None]
"""Mails somebody a link, or does not."""


def own_path(text: str) -> str:
    """Read where a login goes on: a path of this service, else the first page.

    Browsers take two slashes for another site, with a backslash for each, and drop tabs.
    """
    is_plain = text.isascii() and text.isprintable() and not set(text) & {"\\", " "}
    is_path = text.startswith("/") and not text.startswith("//")
    return text if is_plain and is_path and len(text) <= NEXT_MOST else FIRST_PAGE


class Entrance:
    """For one event loop; `close` it behind the last request."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors
        self._config = visitors.config
        self._stores = visitors.stores
        self._looks = Looks()
        self._tasks: set[asyncio.Task[None]] = set()

    def pages(self) -> list[Page]:
        """Name them."""
        pages = [
            Page("GET", "/login", self._show_login, None),
            Page("POST", "/login", self._login, None),
            Page("POST", "/logout", self._logout, None),
            Page("GET", "/welcome/{token}", self._show_link, None),
            Page("POST", "/welcome/{token}", self._use_link, None),
            Page("GET", "/sent", self._show_sent, None),
            Page("GET", "/password", self._show_password),
            Page("POST", "/password", self._change_password),
        ]
        if self._config.mail.host:
            pages += self._asked_by_mail("/reset", Attempt.RESET, invitations.ask_for_reset)
        if self._config.web.sign_up != "closed":
            pages += self._asked_by_mail("/sign-up", Attempt.SIGN_UP, invitations.ask_to_sign_up)
        return pages

    async def announce(self) -> None:
        """Say in the log how the first user is made, where there is none."""
        with suppress(ResultsDown):  # the pages say it, too
            if not await self._visitors.any_user():
                emit(Event.NO_USER, fix=f"`{PROGRAM} user add --first` prints a link.")

    async def close(self) -> None:
        """Wait for the mails that are being written."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _show_login(self, request: web.Request, visitor: Visitor) -> Answer:
        """Ask for e-mail and password; open a session at once for whom a proxy let in."""
        asking, where = self._asking(request), own_path(request.query.get("next", ""))
        if not await self._visitors.any_user():
            return NO_USER
        if visitor.known:
            return see_other(where)
        if not asking.email:
            return self._login_page(where)
        text = await in_thread(sessions.open_session_of, self._stores, asking.email)
        if text is None:
            why = f"there is no user {asking.email[:EMAIL_MOST]}: ask an owner for an invitation"
            raise Problem(HTTPStatus.FORBIDDEN, why)
        return await self._let_in(request, asking, text, where)

    async def _login(self, request: web.Request, _: Visitor) -> Answer:
        asking, form = self._asking(request), await fields_of(request)
        email, where = form["email"].strip().lower()[:EMAIL_MOST], own_path(form["next"])
        attempt = (self._stores, Attempt.LOGIN, email, asking.address)
        await in_thread(count_attempt, *attempt)
        opened = (sessions.open_session, self._stores, email, form["password"])
        text = await self._looks.run(*opened)
        if text is None:
            wrong = "The e-mail or the password is wrong."
            return self._login_page(where, email=form["email"], wrong=wrong)
        await in_thread(give_back, *attempt)
        return await self._let_in(request, asking, text, where)

    async def _logout(self, request: web.Request, _: Visitor) -> Answer:
        await self._end_session(request)
        left = see_other("/login")
        left.del_cookie(COOKIE, path="/")
        return left

    async def _show_link(self, request: web.Request, _: Visitor) -> Answer:
        """Ask for a password. To look uses no link: programs look at links in mails."""
        self._asking(request)
        found = await self._link(request)
        return _page("welcome", found=found, email="")

    async def _use_link(self, request: web.Request, _: Visitor) -> Answer:
        asking, form = self._asking(request), await fields_of(request)
        found, token = await self._link(request), request.match_info["token"]
        try:
            password = chosen(form)
            given = (self._stores, self._config, token, form["email"], password)
            user = await self._looks.run(invitations.accept, *given)
        except NotDone as error:
            values = {"found": found, "email": form["email"]}
            return _page("welcome", f"{error}", **values)
        text = await in_thread(sessions.open_session_of, self._stores, user.email)
        return await self._let_in(request, asking, text or "", FIRST_PAGE)

    async def _show_password(self, request: web.Request, _: Visitor) -> Answer:
        self._asking(request)
        return _page("password")

    async def _change_password(self, request: web.Request, visitor: Visitor) -> Answer:
        """Change the visitor's own password: all sessions end, and a new one opens here."""
        asking, form = self._asking(request), await fields_of(request)
        attempt = (self._stores, Attempt.LOGIN, visitor.email, asking.address)
        await in_thread(count_attempt, *attempt)
        try:
            changed = (users.change_password, self._stores, visitor.operator, form["old"])
            await self._looks.run(*changed, chosen(form))
        except NotDone as error:
            return _page("password", f"{error}")
        await in_thread(give_back, *attempt)
        text = await in_thread(sessions.open_session_of, self._stores, visitor.email)
        return await self._let_in(request, asking, text or "", FIRST_PAGE)

    def _asked_by_mail(self, path: str, what: Attempt, ask: Ask) -> list[Page]:
        """Make the page at which somebody asks for a link by mail, and what it posts to."""

        async def show(request: web.Request, _: Visitor) -> Answer:
            self._asking(request)
            if not await self._visitors.any_user():
                return NO_USER
            return _page("ask")

        async def post(request: web.Request, _: Visitor) -> Answer:
            asking, form = self._asking(request), await fields_of(request)
            try:
                email = users.email_of(form["email"])
            except NotDone as error:
                return _page("ask", f"{error}")
            await in_thread(count_attempt, self._stores, what, email, asking.address)
            self._in_background(ask, email)
            return see_other("/sent")

        return [Page("GET", path, show, None), Page("POST", path, post, None)]

    async def _show_sent(self, _: web.Request, __: Visitor) -> Answer:
        return view("entrance/sent.html")

    def _in_background(self, ask: Ask, email: str) -> None:
        """Ask while the answer is on its way, which takes as long whatever becomes of it."""

        async def run() -> None:
            try:
                await in_thread(ask, self._stores, self._config, email)
            except Exception as error:  # noqa: BLE001 - nobody else hears of it
                emit_unexpected(error)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _link(self, request: web.Request) -> Invitation:
        found = await in_thread(invitations.find_link, self._stores, request.match_info["token"])
        if found is None:
            why = "this link was used already, or has ended: ask for another one"
            raise Problem(HTTPStatus.GONE, why)
        return found

    def _asking(self, request: web.Request) -> Asking:
        """Tell who asks. Raises Problem where others could read a password on its way."""
        asking = self._visitors.proxies.asking(request)
        if not asking.is_private:
            why = (
                "passwords are not taken in the clear: put a proxy that speaks TLS in front, and "
                "name its address in [http] trusted_proxies"
            )
            raise Problem(HTTPStatus.FORBIDDEN, why)
        return asking

    async def _let_in(self, request: web.Request, asking: Asking, text: str, where: str) -> Answer:
        """Give the browser its new session, and end the one that it had."""
        await self._end_session(request)
        let_in = see_other(where)
        seconds, secure = sessions.SESSION_DAYS * 86_400, asking.scheme == "https"
        let_in.set_cookie(
            COOKIE, text, max_age=seconds, path="/", secure=secure, httponly=True, samesite="Lax"
        )
        return let_in

    async def _end_session(self, request: web.Request) -> None:
        if old := request.cookies.get(COOKIE):
            await in_thread(sessions.end_session, self._stores, old)
        self._visitors.forget()

    def _login_page(self, where: str, email: str = "", wrong: str = "") -> View:
        has_mail, signs_up = bool(self._config.mail.host), self._config.web.sign_up != "closed"
        values = {"where": where, "email": email, "has_mail": has_mail, "signs_up": signs_up}
        return _page("login", wrong, **values)


def _page(name: str, wrong: str = "", **values: Any) -> View:
    """Show a page with a form, and above it what is wrong with what was sent."""
    status = HTTPStatus.FORBIDDEN if wrong else HTTPStatus.OK
    values |= {"wrong": wrong[:1].upper() + wrong[1:], "least": LEAST_CHARACTERS}
    return view(f"entrance/{name}.html", status, **values)


def chosen(form: Mapping[str, str]) -> str:
    """Read a password that was typed twice. Raises NotDone where it was not the same."""
    if form["password"] != form["again"]:
        raise NotDone("the two passwords are not the same: type it once more")
    return form["password"]
