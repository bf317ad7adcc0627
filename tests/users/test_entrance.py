"""The pages of the entrance, as a browser asks for them, over a real MongoDB."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer
from msgspec import structs
from people import ANNA, HERE, PASSWORD, add

from service import PROGRAM
from service.config.schema import Config, Http, Mail, Web
from service.http.application import mount
from service.http.exchange import problems
from service.operator import invitations
from service.operator.connections import Collections
from service.operator.sessions import find_session, open_session
from service.operator.users import Role
from service.web.entrance import Entrance, own_path
from service.web.frame import Frame, Page, View, view
from service.web.visitors import COOKIE, Visitor, Visitors
from tracking.request import MAIN

WRONG = "wrong horse battery"

Open = Callable[..., Awaitable["Browser"]]


class Browser:
    """A browser: it keeps cookies, says where a form stands, and follows nothing by itself."""

    def __init__(self, client: TestClient[Any, Any], entrance: Entrance) -> None:
        self.client = client
        self.entrance = entrance
        self.origin = f"http://127.0.0.1:{client.port}"

    async def get(self, path: str, **headers: str) -> ClientResponse:
        return await self.client.get(path, headers=headers, allow_redirects=False)

    async def post(self, path: str, origin: str | None = None, /, **fields: str) -> ClientResponse:
        """Load the page with the form, and send it with the token that stands in it."""
        text = await (await self.get("/" if path == "/logout" else path)).text()
        found = re.search(r'name="csrf" value="(\w*)"', text)
        headers = {"Origin": self.origin if origin is None else origin}
        posted = {"csrf": found[1] if found else "", **fields}
        return await self.client.post(path, data=posted, headers=headers, allow_redirects=False)

    async def login(self, email: str = ANNA, password: str = PASSWORD, **more: str) -> Any:
        return await self.post("/login", email=email, password=password, **more)

    @property
    def session(self) -> str:
        """The text of the cookie, "" without one."""
        cookies = self.client.session.cookie_jar.filter_cookies(self.client.make_url("/"))
        return cookies[COOKIE].value if COOKIE in cookies else ""

    async def where(self) -> str:
        """Which page the first one is: its heading, or where it leads."""
        answered = await self.get("/")
        return answered.headers.get("Location") or await answered.text()


@pytest.fixture
async def open_browser(config: Config, stores: Collections) -> AsyncIterator[Open]:
    async def nothing(_: web.Request) -> None:
        """Check nothing: what `api` checks of all requests has its own tests."""

    async with AsyncExitStack() as closing:

        async def made(**sections: Any) -> Browser:
            visitors = Visitors(structs.replace(config, **sections), stores)
            frame, entrance = Frame(visitors, ()), Entrance(visitors)

            async def first(_: web.Request, __: Visitor) -> View:
                return view("entrance/sent.html")

            application = web.Application(middlewares=[problems(nothing)])
            mount(application, frame.routes([Page("GET", "/", first), *entrance.pages()]))
            client = TestClient(TestServer(application))
            await closing.enter_async_context(client)
            closing.push_async_callback(entrance.close)
            return Browser(client, entrance)

        yield made


@pytest.fixture
def anna(stores: Collections) -> str:
    add(stores)
    return ANNA


MAIL = Mail(host="127.0.0.1", sender="tracker@tracker.example")


async def test_without_users_a_page_shows_how_the_first_one_is_made_and_nothing_else(
    open_browser: Open,
) -> None:
    browser = await open_browser(mail=MAIL, web=Web(sign_up="open"))

    for path in ("/", "/login", "/password", "/reset", "/sign-up"):
        answered = await browser.get(path)
        text = await answered.text()

        assert answered.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert f"{PROGRAM} user add --first" in text
        assert "<form" not in text


async def test_a_start_without_users_names_the_command_for_the_first_one_in_the_log(
    open_browser: Open, stores: Collections, written: Callable[[], list[dict[str, Any]]]
) -> None:
    browser = await open_browser()
    await browser.entrance.announce()
    add(stores, account=MAIN)
    await browser.entrance.announce()

    [event] = written()
    assert event["event"] == "there is no user yet"
    assert f"{PROGRAM} user add --first" in event["fix"]


async def test_the_first_owner_comes_in_by_the_link(
    open_browser: Open, stores: Collections
) -> None:
    browser = await open_browser()
    path = f"/welcome/{invitations.first_owner(stores, HERE)}"

    shown = await (await browser.get(path)).text()
    mistyped = await browser.post(path, email=ANNA, password=PASSWORD, again="another one")
    done = await browser.post(path, email=ANNA, password=PASSWORD, again=PASSWORD)

    assert "first owner" in shown
    assert (mistyped.status, done.status) == (HTTPStatus.FORBIDDEN, HTTPStatus.SEE_OTHER)
    found = find_session(stores, browser.session)
    assert found
    assert (found.email, found.account, found.role) == (ANNA, MAIN, Role.OWNER)
    assert (await browser.get(path)).status == HTTPStatus.GONE


async def test_a_link_that_is_only_looked_at_works_on(
    open_browser: Open, stores: Collections
) -> None:
    browser = await open_browser()
    path = f"/welcome/{invitations.first_owner(stores, HERE)}"

    for _ in range(3):
        assert (await browser.get(path)).status == HTTPStatus.OK
        assert (await browser.client.head(path)).status == HTTPStatus.OK


async def test_a_session_opens_by_login_and_ends_by_logout(
    open_browser: Open, stores: Collections, anna: str
) -> None:
    browser = await open_browser()
    assert await browser.where() == "/login?next=%2F"

    await browser.login()
    text = browser.session
    assert find_session(stores, text)
    assert anna in await browser.where()

    left = await browser.post("/logout")
    assert (left.status, browser.session) == (HTTPStatus.SEE_OTHER, "")
    assert find_session(stores, text) is None
    assert (await browser.where()).startswith("/login")


@pytest.mark.usefixtures("anna")
async def test_the_cookie_is_kept_from_scripts_and_other_sites(open_browser: Open) -> None:
    plain = await (await open_browser()).login()
    behind = Http(trusted_proxies=("127.0.0.1",))
    proxied = await open_browser(http=behind)
    proxied.client.session.headers["X-Forwarded-Proto"] = "https"
    by_tls = await proxied.login()

    cookie, safer = (each.headers["Set-Cookie"] for each in (plain, by_tls))
    for attribute in ("HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=1209600"):
        assert attribute in cookie
        assert attribute in safer
    assert ("Secure" in cookie, "Secure" in safer) == (False, True)


@pytest.mark.usefixtures("anna")
async def test_a_login_opens_a_new_session_whatever_cookie_the_browser_brings(
    open_browser: Open, stores: Collections
) -> None:
    planted, browser = open_session(stores, ANNA, PASSWORD) or "", await open_browser()
    for text in ("planted", planted):
        browser.client.session.cookie_jar.update_cookies(
            {COOKIE: text}, browser.client.make_url("/")
        )
        headers = {"Origin": browser.origin}
        fields = {"email": ANNA, "password": PASSWORD, "csrf": ""}
        if text == planted:
            page = await (await browser.get("/")).text()
            found = re.search(r'name="csrf" value="(\w+)"', page)
            assert found
            fields["csrf"] = found[1]
        await browser.client.post("/login", data=fields, headers=headers, allow_redirects=False)

        assert browser.session not in {"", text}
        assert find_session(stores, text) is None


async def test_an_answer_does_not_tell_whether_an_e_mail_is_known(
    open_browser: Open, anna: str
) -> None:
    browser = await open_browser(mail=MAIL, web=Web(sign_up="open"))
    told: dict[str, list[tuple[int, str, str | None]]] = {}
    for email in (anna, "anna@nope.example"):
        for path in ("/login", "/reset", "/sign-up"):
            answered = await browser.post(path, email=email, password=WRONG)
            text = (await answered.text()).replace(email, "EMAIL")
            told.setdefault(email, []).append(
                (answered.status, text, answered.headers.get("Location"))
            )

    assert told[anna] == told["anna@nope.example"]
    assert [each[0] for each in told[anna]] == [403, 303, 303]


async def test_login_ends_after_ten_wrong_passwords_for_a_known_and_an_unknown_e_mail(
    open_browser: Open, anna: str
) -> None:
    browser = await open_browser()
    for email in (anna, "anna@nope.example"):
        for _ in range(10):
            assert (await browser.login(email, WRONG)).status == 403

        refused = await browser.login(email, PASSWORD)

        assert refused.status == HTTPStatus.TOO_MANY_REQUESTS
        assert 0 < int(refused.headers["Retry-After"]) <= 900


@pytest.mark.usefixtures("anna")
async def test_a_form_of_another_site_logs_nobody_in_nor_out(
    open_browser: Open, stores: Collections
) -> None:
    browser = await open_browser()
    for origin in ("https://evil.example", "null", ""):
        refused = await browser.post("/login", origin, email=ANNA, password=PASSWORD)
        assert (refused.status, browser.session) == (HTTPStatus.FORBIDDEN, "")
    await browser.login()

    refused = await browser.client.post("/logout", headers={"Origin": browser.origin})
    assert refused.status == HTTPStatus.FORBIDDEN
    assert find_session(stores, browser.session)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/parcels?tag=Delivered", "/parcels?tag=Delivered"),
        ("", "/"),
        ("parcels", "/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/%09/evil.example", "/%09/evil.example"),
        ("\\/evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/\u2044evil.example", "/"),
        ("/x\r\nSet-Cookie: a=b", "/"),
        ("/" + "x" * 2_000, "/"),
    ],
)
def test_a_login_goes_on_at_a_path_of_this_service_alone(text: str, path: str) -> None:
    assert own_path(text) == path


@pytest.mark.usefixtures("anna")
async def test_a_login_goes_on_where_somebody_wanted_to(open_browser: Open) -> None:
    browser = await open_browser()

    assert (await browser.login(next="//evil.example")).headers["Location"] == "/"
    assert (await browser.get("/login?next=/password")).headers["Location"] == "/password"


async def test_who_asks_for_a_reset_gets_a_mail_in_the_background(
    open_browser: Open, stores: Collections, anna: str
) -> None:
    browser = await open_browser(mail=MAIL)

    answered = await browser.post("/reset", email=f" {anna.upper()} ")
    refused = await browser.post("/reset", email="anna")
    await browser.entrance.close()

    assert answered.headers["Location"] == "/sent"
    assert refused.status == HTTPStatus.FORBIDDEN
    [mail] = stores.mails.find()
    assert mail["to"] == anna


@pytest.mark.usefixtures("anna")
async def test_without_a_mail_server_nobody_asks_for_a_reset_and_sign_up_is_closed(
    open_browser: Open,
) -> None:
    browser = await open_browser()

    for path in ("/reset", "/sign-up"):
        assert (await browser.get(path)).status == HTTPStatus.NOT_FOUND
        assert path not in await (await browser.get("/login")).text()


@pytest.mark.usefixtures("anna")
async def test_a_change_of_ones_password_ends_other_sessions_and_keeps_this_browser_in(
    open_browser: Open, stores: Collections
) -> None:
    browser, elsewhere = await open_browser(), open_session(stores, ANNA, PASSWORD) or ""
    await browser.login()
    before, new = browser.session, {"password": "another horse", "again": "another horse"}

    wrong = await browser.post("/password", old=WRONG, **new)
    done = await browser.post("/password", old=PASSWORD, **new)

    assert (wrong.status, done.status) == (HTTPStatus.FORBIDDEN, HTTPStatus.SEE_OTHER)
    assert find_session(stores, before) is find_session(stores, elsewhere) is None
    assert find_session(stores, browser.session)
    assert ANNA in await browser.where()


async def test_a_user_whom_a_trusted_proxy_names_comes_in_without_a_password(
    open_browser: Open, stores: Collections, anna: str
) -> None:
    http = Http(trusted_proxies=("127.0.0.1",), user_header="X-Email")
    browser = await open_browser(http=http)

    nobody = await browser.get("/login", **{"X-Email": "nobody@acme.example"})
    let_in = await browser.get("/login?next=/password", **{"X-Email": anna.upper()})

    assert nobody.status == HTTPStatus.FORBIDDEN
    assert let_in.headers["Location"] == "/password"
    assert find_session(stores, browser.session)
    other = await browser.get("/", **{"X-Email": "nobody@acme.example"})
    assert other.headers["Location"].startswith("/login")
    assert (await browser.get("/", **{"X-Email": anna})).status == HTTPStatus.OK


async def test_a_user_header_of_anybody_else_lets_nobody_in(open_browser: Open, anna: str) -> None:
    for http in (
        Http(trusted_proxies=("10.0.0.7",), user_header="X-Email"),
        Http(trusted_proxies=("127.0.0.1",)),
    ):
        browser = await open_browser(http=http)
        assert "<form" in await (await browser.get("/login", **{"X-Email": anna})).text()
        assert browser.session == ""


@pytest.mark.usefixtures("anna")
async def test_passwords_are_not_taken_in_the_clear_from_other_machines(open_browser: Open) -> None:
    browser = await open_browser(http=Http(trusted_proxies=("127.0.0.1",)))
    far = {"X-Forwarded-For": "198.51.100.7"}

    in_the_clear = await browser.get("/login", **far)
    by_tls = await browser.get("/login", **far, **{"X-Forwarded-Proto": "https"})

    assert (in_the_clear.status, by_tls.status) == (HTTPStatus.FORBIDDEN, HTTPStatus.OK)
    assert "trusted_proxies" in await in_the_clear.text()


async def test_what_somebody_types_is_written_as_text(open_browser: Open, anna: str) -> None:
    browser, planted = await open_browser(), '"><script>alert(1)</script>'
    assert anna

    for answered in (
        await browser.login(planted, "x", next=f"/{planted}"),
        await browser.get(f"/login?next=/{planted}"),
    ):
        assert "<script>alert" not in await answered.text()
        assert answered.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answered.headers["Content-Security-Policy"]
