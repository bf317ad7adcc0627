"""The walk of an attacker over all pages: with texts that are HTML, other origins, others' ids."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import bson
import pytest
from browser_ground import NARROW, WIDE, window
from crawl import Walk, matches, path_in, walk
from pages_ground import ACME, Person, Service
from planted import plant, secret_of
from playwright.sync_api import Browser

from devstack.process import Process
from devstack.site.shapes.parcel import MARKUP
from service.config.schema import Config
from service.http.backend.door import open_door
from service.http.backend.operations import open_operations
from service.http.serve import Backing
from service.observe.background import Background
from service.operator.catalogue import Catalogue
from service.web.assets import HEADERS
from service.web.pages import open_pages
from tracking.request import MAIN

pytestmark = pytest.mark.prove

NOT_LINKED = {"/welcome/{token}", "/sent", "/reset", "/sign-up", "/services/{name}/tests/{id}"}
"""Pages to which only mails, strangers and forms lead."""

LISTED = {"accounts", "keys"}
"""All of them are shown, or asked for together: an installation has few."""

PAGE_BYTES = 150_000


@pytest.fixture(scope="module")
def more_settings(couriers: dict[str, str]) -> dict[str, str]:
    return couriers


@pytest.fixture(scope="module")
def planted(service: Service, worker: Process) -> Iterator[Service]:
    assert worker.pid
    plant(service)
    yield service
    assert "unexpected" not in service.log


@pytest.fixture(scope="module")
def walks(planted: Service) -> dict[str, Walk]:
    """The walks of an owner of `main`, one of `acme`, a viewer of `main`, and a stranger."""
    return {
        "main": walk(planted.person()),
        "acme": walk(planted.person("owner", ACME)),
        "viewer": walk(planted.person("viewer")),
        "stranger": walk(planted.stranger(), "/login"),
    }


async def paths_of(config: Config, spool: Path) -> set[str]:
    """The paths of all pages, with their parameters."""
    async with open_operations(config, Background().beside) as operations:
        backing = Backing(config, open_door(config, spool), Catalogue(config), operations)
        async with open_pages(backing) as opened:
            found = {each.path for each in opened.routes if not each.path.startswith("/static")}
        await backing.door.close()
    return found


@pytest.fixture(scope="module")
def there(service: Service) -> set[str]:
    """The paths of all pages."""
    with tempfile.TemporaryDirectory(prefix="pytest-", dir="/var/tmp") as disk:
        return asyncio.run(paths_of(service.config, Path(disk) / "spool.sqlite"))


def test_links_and_forms_lead_to_every_page(there: set[str], walks: dict[str, Walk]) -> None:
    """So that what is found on the walk is all that there is."""
    paths = set.union(*(each.paths for each in walks.values()))

    assert {path for path in there if not matches(path, paths)} <= NOT_LINKED
    assert [link for each in walks.values() for link in each.broken if "%3Cs" not in link] == []


def test_no_text_of_a_courier_or_a_user_becomes_html(walks: dict[str, Walk]) -> None:
    shown = [page for each in walks.values() for page in each.pages.values()]

    assert any(MARKUP in page.words for page in shown)
    for page in shown:
        assert page.tree.xpath("//x-probe | //*[@onclick]") == [], page.path
        assert [each.text for each in page.tree.iter("script") if each.text] == [], page.path
        assert page.tree.xpath("//@href[starts-with(., 'javascript:')]") == [], page.path


def test_every_page_has_the_policy_and_is_kept_nowhere(walks: dict[str, Walk]) -> None:
    for page in [page for each in walks.values() for page in each.pages.values()]:
        assert dict(page.headers).items() >= HEADERS.items(), page.path
        assert page.headers["Cache-Control"] == "no-store", page.path
        assert len(page.body) < 150_000, page.path


def test_no_form_is_taken_from_another_site_or_without_its_token(
    planted: Service, walks: dict[str, Walk]
) -> None:
    owner, before = planted.person(), stored(planted)

    for path, page in walks["main"].posts.items():
        fields = dict(page.form(path).form_values())
        assert fields.get("csrf"), path
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}):
            assert owner.post(path, fields, **headers).status == 403, path
        assert owner.post(path, fields | {"csrf": "x"}).status == 403, path

    assert stored(planted) == before


def test_nobody_sees_anything_of_another_account(walks: dict[str, Walk]) -> None:
    mine = [page for page in walks["acme"].pages.values() if secret_of(ACME) in page.text]

    assert mine
    for page in walks["acme"].pages.values():
        assert secret_of(MAIN) not in page.text, page.path
    for name in ("viewer", "stranger"):
        for page in walks[name].pages.values():
            assert secret_of(ACME) not in page.text, page.path


def test_no_address_of_another_account_opens(planted: Service, walks: dict[str, Walk]) -> None:
    main, acme = walks["main"], walks["acme"]
    strangers = planted.person("owner", ACME), planted.stranger()
    # A filter says what it was given, whatever that is.
    addresses = [each for each in (*main.pages, *main.files) if secret_of(MAIN) not in each]

    for address in addresses:
        for person in strangers:
            assert secret_of(MAIN).encode() not in person.get(address).body, address
    for path in {*map(path_in, addresses)} - acme.paths:
        assert strangers[0].get(path).status in {403, 404}, path
    for address in main.streams - acme.streams:
        assert b"data:" in planted.person().hear(address), address
        assert b"data:" not in strangers[0].hear(address), address


def test_nothing_of_another_account_is_changed(planted: Service, walks: dict[str, Walk]) -> None:
    acme, before = planted.person("owner", ACME), stored(planted)
    token = dict(acme.get("/").form("/logout").form_values())

    for path in set(walks["main"].posts) - set(walks["acme"].posts) - {"/logout"}:
        fields = dict(walks["main"].posts[path].form(path).form_values())
        answer = acme.post(path, fields | token)
        assert answer.status in {403, 404}, path
        assert secret_of(MAIN) not in answer.text, path

    assert stored(planted) == before


def test_a_viewer_changes_nothing(planted: Service, walks: dict[str, Walk]) -> None:
    viewer, before = planted.person("viewer"), stored(planted)
    token = dict(viewer.get("/").form("/logout").form_values())

    for path in set(walks["main"].posts) - set(walks["viewer"].posts) - {"/logout"}:
        fields = dict(walks["main"].posts[path].form(path).form_values())
        assert viewer.post(path, fields | token).status in {403, 404}, path

    assert stored(planted) == before


def test_a_login_leads_to_no_other_site(stranger: Person) -> None:
    for away in ("https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example"):
        page = stranger.get(f"/login?next={away.replace(chr(9), '%09')}")
        assert "evil.example" not in page.text


def test_axe_finds_nothing_on_any_page(
    there: set[str], browser: Browser, planted: Service, walks: dict[str, Walk]
) -> None:
    found: list[str] = []

    for name, person in (("main", planted.person()), ("stranger", planted.stranger())):
        with window(browser, person) as shown:
            for address in one_of_each(there, walks[name]):
                shown.open(address)
                found += shown.findings((WIDE, "light"), (NARROW, "dark"))

    assert found == []


def test_pages_are_small_and_read_no_collection_to_its_end(
    planted: Service, walks: dict[str, Walk]
) -> None:
    database = planted.stores.tracking.database
    # A worker that lives beside the pages looks at all alerts each time.
    of_pages = {"appName": {"$ne": "courier-tracking-worker"}}
    database.command("profile", 1, filter=of_pages | {"planSummary": {"$regex": "COLLSCAN"}})
    for person in (planted.person(), planted.person("owner", ACME)):
        walk(person)
    database.command("profile", 0, filter="unset")

    read = {each["ns"].partition(".")[2] for each in database["system.profile"].find()}
    assert "accounts" in read <= LISTED
    shown = [page for found in walks.values() for page in found.pages.values()]
    assert max(len(page.body) for page in shown) < PAGE_BYTES


def one_of_each(patterns: set[str], found: Walk) -> Iterator[str]:
    """An address of each page; a fragment is none."""
    whole = [each for each, page in found.pages.items() if page.text.startswith("<!doctype")]
    for pattern in sorted(patterns):
        yield from [each for each in whole if matches(pattern, [path_in(each)])][:1]


def stored(service: Service) -> dict[tuple[str, Any], bytes]:
    """All documents that hold something of `main`, but for what is written down of acts."""
    mark, found = secret_of(MAIN).encode(), {}
    for name in service.stores.tracking.database.list_collection_names():
        if name in {"audit", "sessions", "login_attempts"}:
            continue
        for document in service.stores.tracking.database[name].find():
            if mark in (kept := bson.encode(document)):
                found[name, str(document["_id"])] = kept
    assert found
    return found


STRANGE = ("%00", "%ED%A0%80", "%0d%0aX-Y:z", "9" * 40, "a" * 3_000)


def test_nothing_in_an_address_is_a_defect(
    planted: Service, there: set[str], walks: dict[str, Walk]
) -> None:
    owner = planted.person()
    parameters = {path_in(each): parse_qsl(urlsplit(each).query) for each in walks["main"].pages}
    strange = [
        *(re.sub(r"\{.*?\}", text, each) for each in there if "{" in each for text in STRANGE),
        *(
            f"{path}?{name}={text}"
            for path, query in parameters.items()
            for name, _ in query
            for text in STRANGE
        ),
    ]

    for address in strange:
        shown = owner.get(address)
        assert shown.status < 500, address
        assert "X-Y" not in shown.headers, address
