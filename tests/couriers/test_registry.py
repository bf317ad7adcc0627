"""Which courier a slug means, and what every courier promises."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import cast

import aiohttp
import pytest
from aiohttp import web
from loopback import Courier as AnyCourier
from loopback import RecordingPermit

from couriers import json_feed, usps
from couriers.http.credentials import CourierSettings, environment_name
from couriers.http.fetch import BODY_BYTES, RIDER_BYTES, Tracker
from couriers.http.several import Ends
from couriers.reading.numbers import NumberForm
from couriers.registry import COURIERS, MODULES, Courier, CourierForMany, Registry, required_fields
from couriers.slugs import ALIASES, ALONE_AT, FEEDS, SLUGS, TOGETHER
from tracking.call import Call
from tracking.checkpoint import Tracking
from tracking.errors import MalformedJob, MissingField, UnreadableAnswer
from tracking.line import line_of
from tracking.request import FIELDS, Number, Slug, TrackingRequest, parse_slug

REPOSITORY = Path(__file__).resolve().parents[2]
EVERY: dict[str, Courier] = {str(slug): courier for slug, courier in COURIERS.items()}
EVERY.update(MODULES)
PARSE = ["status", "headers", "body", "number"]
SHARED = {"courier", "detection", "http", "pushes", "reading", "registry", "slugs", "tracker"}


def section(slug: str, **more: object) -> CourierSettings:
    return CourierSettings(slug=Slug(slug), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("usps", "usps"),
        ("hkpost", "hong-kong-post"),
        ("dpduk", "dpd-uk"),
        ("dpd-uk", "dpd-uk"),
        ("USPS", None),
        ("nobody", None),
        ("", None),
        ("__class__", None),
        ("couriers.usps", None),
    ],
)
def test_a_slug_is_looked_up_and_never_imported(text: str, slug: str | None) -> None:
    assert Registry().resolve(text) == slug


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("my-courir", "no courier is called 'my-courir': did you mean my-courier?"),
        ("uspss", "no courier is called 'uspss': did you mean usps?"),
        ("hkposst", "no courier is called 'hkposst': did you mean hkpost?"),
        ("zzz", "no courier is called 'zzz'; there are: "),
    ],
)
def test_a_slug_that_no_courier_has_is_malformed_and_the_nearest_one_is_named(
    text: str, told: str
) -> None:
    registry = Registry(
        [section("my-courier", module="json_feed", base_url="http://127.0.0.1:1", keep="-")]
    )

    with pytest.raises(MalformedJob) as caught:
        registry.named(text)

    assert caught.value.reason == "unknown_slug"
    assert caught.value.detail.startswith(told)
    assert registry.named("my-courier") == ("my-courier", "-")
    assert registry.named("hkpost") == ("hong-kong-post", "")


def test_a_courier_without_settings_has_its_modules_addresses() -> None:
    registry = Registry()

    assert registry.courier(Slug("usps")) is usps
    assert registry.settings(Slug("usps")).base_url == usps.BASE_URL
    assert registry.settings(Slug("usps")).token_url == usps.TOKEN_URL


def test_settings_go_before_the_modules_own() -> None:
    registry = Registry([section("usps", base_url="http://127.0.0.1:1/usps")])

    assert registry.settings(Slug("usps")).base_url == "http://127.0.0.1:1/usps"
    assert registry.settings(Slug("usps")).token_url == usps.TOKEN_URL


def test_an_alias_in_the_configuration_means_its_courier() -> None:
    registry = Registry([section("hkpost", keep="-")])

    assert registry.settings(Slug("hong-kong-post")).keep == "-"
    assert registry.settings(Slug("hong-kong-post")).slug == "hong-kong-post"


def test_a_feed_makes_a_new_slug_and_may_stand_in_for_an_old_one() -> None:
    url = "http://127.0.0.1:1/feed"
    slugs = ("my-courier", "usps")
    registry = Registry(section(slug, module="json_feed", base_url=url) for slug in slugs)

    assert registry.resolve("my-courier") == "my-courier"
    assert registry.courier(Slug("my-courier")) is json_feed
    assert registry.courier(Slug("usps")) is json_feed
    assert "my-courier" in registry.slugs


def test_every_module_has_its_line_among_the_slugs() -> None:
    folder = REPOSITORY / "couriers"
    files = {path.stem for path in [*folder.glob("*.py"), *folder.glob("*/__init__.py")]}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    modules = (files | packages) - SHARED - {"__init__"}

    assert modules == {slug.replace("-", "_") for slug in SLUGS} | FEEDS
    assert set(ALIASES.values()) <= SLUGS


def test_settings_do_not_show_their_secrets() -> None:
    assert "hidden" not in repr(section("usps", credentials={"client_secret": "hidden"}))


@pytest.mark.parametrize("slug", sorted(EVERY))
def test_every_courier_keeps_the_promises_of_its_protocol(slug: str) -> None:
    courier = EVERY[slug]

    assert courier.NAME
    assert courier.CREDENTIALS_FROM
    assert set(required_fields(courier)) <= set(FIELDS)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", key) for key in courier.CREDENTIALS)
    assert all(isinstance(pattern, NumberForm) for pattern in courier.PATTERNS)
    assert list(inspect.signature(courier.parse).parameters) == PARSE
    assert list(inspect.signature(courier.track).parameters) == ["fetch", "request"]
    assert inspect.iscoroutinefunction(courier.track)


FOR_MANY = [slug for slug, each in EVERY.items() if hasattr(each, "track_many")]


def test_how_many_numbers_a_module_takes_is_known_without_loading_it() -> None:
    assert set(FOR_MANY) - FEEDS == TOGETHER.keys()
    assert all(1 < each <= 100 for each in TOGETHER.values())
    assert {Slug("usps"): usps.OLDER} == ALONE_AT


@pytest.mark.parametrize("slug", FOR_MANY)
def test_a_courier_for_several_numbers_keeps_the_promises_of_its_protocol(slug: str) -> None:
    courier = cast(CourierForMany, EVERY[slug])

    assert list(inspect.signature(courier.parse_many).parameters) == [*PARSE[:-1], "numbers"]
    assert list(inspect.signature(courier.track_many).parameters) == ["fetch", "requests"]
    assert inspect.iscoroutinefunction(courier.track_many)


@pytest.mark.parametrize("slug", sorted(COURIERS))
def test_every_slug_is_one_and_no_alias_is(slug: str) -> None:
    assert parse_slug(slug) == slug
    assert slug not in ALIASES


def test_every_courier_is_held_apart_from_the_others() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    [apart] = [contract for contract in contracts if contract["type"] == "independence"]

    assert apart["modules"] == ["couriers.*"]
    let_through = {line.split(" -> ")[1].split(".")[1] for line in apart["ignore_imports"]}
    modules = {courier.__name__.split(".")[1] for courier in EVERY.values()}
    assert not let_through & {"*", "**", *modules}


def test_the_name_of_a_variable_follows_the_contract() -> None:
    assert environment_name("royal-mail", "client_id") == "TRACKER_COURIERS__ROYAL_MAIL__CLIENT_ID"


def test_the_countries_are_not_loaded_before_they_are_needed() -> None:
    code = "import couriers.registry, sys; print('pycountry' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "False"


async def test_what_a_courier_needs_besides_the_number_is_checked_before_it_is_asked(
    http: aiohttp.ClientSession, permit: RecordingPermit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usps, "REQUIRED_FIELDS", ("tracking_postal_code",), raising=False)
    request = TrackingRequest(Slug("usps"), Number("9400100000000000000017"), "9400")
    tracker = Tracker(Registry(), http)
    call = Call("c1", line_of(request), request, permit, granted_us=1, waiting_since=0.0)
    with pytest.raises(MissingField) as failed:
        await tracker.track(call)

    assert failed.value.field == "tracking_postal_code"
    assert permit.steps == []


async def test_the_courier_of_the_request_is_asked(
    courier: AnyCourier, http: aiohttp.ClientSession, permit: RecordingPermit
) -> None:
    async def site(_: web.BaseRequest) -> web.Response:
        return web.json_response({"tag": "InTransit", "checkpoints": []})

    url = await courier(site)
    registry = Registry([section("my-courier", module="json_feed", base_url=url)])
    request = TrackingRequest(Slug("my-courier"), Number("ABCD1"), "ABCD1")
    call = Call("c1", line_of(request), request, permit, granted_us=1, waiting_since=0.0)
    told = await Tracker(registry, http).track(call)

    assert told.tag == "InTransit"


class FeedOfSeveral:
    """A feed that knows the first of the numbers it is asked for, and leaves out the others."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    async def __call__(self, request: web.Request) -> web.Response:
        numbers = (await request.json())["numbers"]
        self.asked.append(numbers)
        return web.json_response({numbers[0]: {"tag": "InTransit"}})


async def ask_several(
    http: aiohttp.ClientSession, permit: RecordingPermit, url: str, *, postal_codes: tuple[str, ...]
) -> Ends:
    """Ask a feed for A1, B2, …, one for each postal code."""
    registry = Registry([section("my-courier", module="json_feed", base_url=url)])
    slug, calls = Slug("my-courier"), []
    for letter, postal_code in zip("ABCD", postal_codes, strict=False):
        number = Number(f"{letter}1234")
        fields = {"tracking_postal_code": postal_code}
        request = TrackingRequest(slug, number, number, fields=fields)
        calls.append(Call(letter, line_of(request), request, permit, 1, 0.0))
    return await Tracker(registry, http).track_many(calls)


async def test_several_numbers_are_one_request_and_one_permit(
    courier: AnyCourier, http: aiohttp.ClientSession, permit: RecordingPermit
) -> None:
    site = FeedOfSeveral()

    ends = await ask_several(http, permit, await courier(site), postal_codes=("1", "2"))

    assert {number: end.tag for number, end in ends.items()} == {"A1234": "InTransit"}  # type: ignore[union-attr]
    assert site.asked == [["A1234", "B1234"]]
    assert permit.steps == ["before_send", "after_send"]


async def test_a_number_without_what_the_courier_needs_does_not_keep_the_others_from_being_asked(
    courier: AnyCourier,
    http: aiohttp.ClientSession,
    permit: RecordingPermit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_feed, "REQUIRED_FIELDS", ("tracking_postal_code",), raising=False)
    site = FeedOfSeveral()
    url = await courier(site)

    ends = await ask_several(http, permit, url, postal_codes=("", "2", "3"))
    refused = await ask_several(http, permit, url, postal_codes=("", ""))

    assert [type(ends[number]) for number in ("A1234", "B1234")] == [MissingField, Tracking]
    assert [type(end) for end in refused.values()] == [MissingField, MissingField]
    assert site.asked == [["B1234", "C1234"]]


async def test_an_answer_about_several_numbers_may_be_larger_for_each_of_them(
    courier: AnyCourier, http: aiohttp.ClientSession, permit: RecordingPermit
) -> None:
    async def site(_: web.BaseRequest) -> web.Response:
        told = {"A1234": {"tag": "InTransit"}, "padding": "x" * (BODY_BYTES + RIDER_BYTES // 2)}
        return web.json_response(told)

    url = await courier(site)
    ends = await ask_several(http, permit, url, postal_codes=("1", "2"))

    assert isinstance(ends["A1234"], Tracking)
    with pytest.raises(UnreadableAnswer, match="larger than"):
        await ask_several(http, RecordingPermit(), url, postal_codes=("1",))
