"""The frame of the pages: who sees what, what a form proves, and what browsers are let load."""

from __future__ import annotations

import asyncio
import json
import re
from hashlib import sha256

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from pages_ground import Person, Service

from service.http.exchange import Problem
from service.web import visitors
from service.web.assets import FILES, STATIC, address
from tracking.request import Account

ELSEWHERE = {"src", "href", "action", "srcset", "data", "poster", "hx-get", "hx-post"}
"""Attributes by which a page loads something, or leads somewhere."""


@pytest.fixture(scope="module")
def more_settings() -> dict[str, str]:
    """With keys, so that nothing but the pages themselves looks where a form comes from."""
    return {"TRACKER_HTTP__REQUIRE_KEY": "true"}


def test_each_page_forbids_browsers_all_that_is_not_ours(owner: Person) -> None:
    for path in ("/", "/login"):
        shown = owner.get(path)
        policy = shown.headers["Content-Security-Policy"].split("; ")

        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in shown.headers["Content-Security-Policy"]
        assert shown.headers["Cache-Control"] == "no-store"
        assert shown.headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_loads_nothing_from_another_host_and_has_no_inline_script(owner: Person) -> None:
    tree = owner.get("/").tree

    links = [(each.tag, name, each.get(name)) for each in tree.iter() for name in ELSEWHERE]
    assert {link for *_, link in links if link and not link.startswith(("/", "#", "?"))} == {
        "data:,"  # browsers ask for an icon otherwise
    }
    assert [each for each in tree.iter("script") if each.text or not each.get("src")] == []
    assert list(tree.iter("style")) == []
    assert [each for each in tree.iter() if each.get("style")] == []


def test_the_files_of_others_are_those_of_their_packages(stranger: Person) -> None:
    vendored = STATIC / "vendor"
    told = json.loads((vendored / "versions.json").read_text())

    assert set(told) == {path.name for path in vendored.glob("*.js")}
    for name, each in told.items():
        assert sha256((vendored / name).read_bytes()).hexdigest() == each["sha256"]
        assert (vendored / f"{name.removesuffix('.min.js')}.LICENSE").exists()
        assert stranger.get(address(f"vendor/{name}")).body == (vendored / name).read_bytes()


def test_files_are_kept_by_browsers_under_the_address_of_their_content(stranger: Person) -> None:
    for name, kind in FILES.items():
        now, before = stranger.get(address(name)), stranger.get(f"/static/000000000000/{name}")

        assert "immutable" in now.headers["Cache-Control"]
        assert (before.body, before.headers["Cache-Control"]) == (now.body, "no-store")
        assert now.headers.get_content_type() == kind


@pytest.mark.parametrize("name", ["../frame.py", "versions.json", "%2e%2e/frame.py", "vendor/"])
def test_no_other_file_is_served(stranger: Person, name: str) -> None:
    assert stranger.get(f"/static/000000000000/{name}").status == 404


def test_a_stranger_is_led_to_the_login_and_back(stranger: Person) -> None:
    led = stranger.get("/?tag=Delivered")

    assert (led.status, led.headers["Location"]) == (303, "/login?next=%2F%3Ftag%3DDelivered")
    assert stranger.get("/", HX_Request="true").headers["HX-Redirect"] == "/login"


def test_a_cookie_that_nobody_has_is_a_strangers(service: Service) -> None:
    assert Person(service.url, "x" * 43).get("/").status == 303


def test_the_navigation_has_the_pages_of_the_visitors_role(
    owner: Person, viewer: Person, acme: Person
) -> None:
    entries = [
        {each.text for each in person.get("/").tree.findall(".//header/nav//a")}
        for person in (owner, viewer, acme)
    ]

    assert entries[0] > entries[1]
    assert entries[1] == entries[2]


def test_a_post_without_the_sessions_token_is_refused(owner: Person, viewer: Person) -> None:
    mine, anothers = (
        dict(each.get("/").form("/logout").fields)["csrf"] for each in (owner, viewer)
    )

    assert mine != anothers
    for fields in ({}, {"csrf": ""}, {"csrf": anothers}):
        assert owner.post("/logout", fields).status == 403
    assert owner.get("/").status == 200


def test_a_post_from_another_origin_is_refused(owner: Person) -> None:
    token = dict(owner.get("/").form("/logout").fields)

    for origin in ("http://evil.example", "null", "", f"{owner.url}.evil.example"):
        assert owner.post("/logout", token, Origin=origin).status == 403
    assert owner.get("/").status == 200


URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (URLENCODED, b"email=\xff"),
        (f"{URLENCODED}; charset=bogus", b"email=me"),
        (f"{URLENCODED}; charset=utf-16", b"email"),
        (MULTIPART, b"no boundary"),
        (f"{MULTIPART}; boundary=b", b"none of it"),
        (f"{MULTIPART}; boundary=b", b'--b\r\nContent-Disposition: form-data; name="email"\r\n'),
    ],
)
def test_what_is_no_form_is_refused_and_no_defect(
    service: Service, stranger: Person, kind: str, body: bytes
) -> None:
    headers = {"Origin": stranger.url, "Content-Type": kind}

    assert stranger.ask("POST", "/login", body, headers).status == 400
    assert "unexpected" not in service.log


async def test_a_form_that_comes_too_slowly_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitors, "BODY_SECONDS", 0.01)
    monkeypatch.setattr(web.Request, "post", lambda _: asyncio.Event().wait())

    with pytest.raises(Problem) as refused:
        await visitors.form_of(make_mocked_request("POST", "/login"))

    assert refused.value.status == 408


def test_what_goes_wrong_is_a_page_and_names_its_request(owner: Person) -> None:
    wrong = owner.post("/logout", {}, X_Request_Id="mine-1")

    assert (wrong.status, wrong.headers.get_content_type()) == (403, "text/html")
    assert wrong.heading == "Forbidden"
    assert wrong.headers["X-Request-Id"] == "mine-1"


def test_a_browser_that_asks_for_what_is_not_there_gets_a_page_and_a_program_a_problem(
    owner: Person, stranger: Person
) -> None:
    for person in (owner, stranger):
        lost = person.get("/nowhere", Accept="text/html,*/*;q=0.8")
        assert (lost.status, lost.headers.get_content_type()) == (404, "text/html")
        assert "there is no such page" in lost.words
    for path, accept in (("/nowhere", "*/*"), ("/v1/requests/x", "application/json")):
        told = stranger.get(path, Accept=accept)
        assert (told.status, told.headers.get_content_type()) == (404, "application/problem+json")
    assert stranger.post("/nowhere", {}, Accept="text/html").status == 404


def test_every_control_of_a_page_has_a_name(owner: Person) -> None:
    tree = owner.get("/").tree

    for each in tree.iter("input", "select", "textarea"):
        if each.get("type") != "hidden":
            assert tree.xpath(f"//label[@for='{each.get('id')}']") or each.get("aria-label")
    assert len(tree.findall(".//h1")) == 1
    assert tree.get("lang") == "en"
    assert re.fullmatch(r"[^·]+ · Courier tracking", tree.findtext(".//title"))


def test_a_user_of_a_suspended_account_is_told_why_and_may_leave(service: Service) -> None:
    service.command("account", "add", "closed")
    closed = service.person("owner", Account("closed"))
    service.command("account", "suspend", "closed", "--reason", "unpaid")

    shown = closed.get("/settings/alerts")

    assert shown.status == 403
    assert "the account closed is suspended: unpaid" in shown.words
    assert closed.submit(shown, "/logout").path.startswith("/login")


def test_without_a_user_the_pages_tell_how_to_make_the_first(service: Service) -> None:
    assert service.without_users.status == 503
    assert "user add --first" in service.without_users.words


def test_what_is_done_is_said_once_and_by_nobody_elses_words(acme: Person) -> None:
    page = acme.get("/settings/alerts")

    said = acme.submit(page, "/settings/alerts", alerts="me@acme.example")

    assert "Alerts go to me@acme.example." in said.words
    assert "?" not in said.path
    assert "Alerts go to me@acme.example." not in acme.get("/settings/alerts").words
    assert "evil" not in acme.get("/settings/alerts?done=evil&notice=evil").words
