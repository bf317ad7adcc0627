"""Every registered courier is asked over real HTTP at the courier site, as a worker asks it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
from yarl import URL

from couriers.http.credentials import CourierSettings
from couriers.http.fetch import Fetch, TokenCache
from couriers.http.session import open_session
from couriers.registry import COURIERS, Registry
from couriers.slugs import TOGETHER
from devstack.site.found import SHAPES
from devstack.site.remote import CourierSite
from devstack.site.shapes.failures import Failure
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    RateLimited,
    UnreadableAnswer,
)
from tracking.request import Number, Slug, TrackingRequest

EVERY = sorted(COURIERS)
DELIVERED = "15502370264988"
UNDER_WAY = "15502370264989"
UNKNOWN = "00000000000010"
WAY = "OTHER_WAY"


ERRORS: dict[Failure, type[CourierError]] = {
    Failure.INVALID: InvalidNumber,
    Failure.AUTH: AuthFailed,
    Failure.LIMITED: RateLimited,
    Failure.DOWN: CourierDown,
    Failure.CHANGED: UnreadableAnswer,
}


class Leave:
    """A permit without limits: what is paced elsewhere is not the matter here."""

    started = False

    def __init__(self) -> None:
        self.deadline = time.monotonic() + 10
        self.sends = 0

    async def again(self) -> None:
        """Each further request is allowed."""

    async def before_send(self) -> None:
        """At once."""

    def after_send(self) -> None:
        self.sends += 1

    def answered(self, ago: float) -> None:
        """Nobody asks when."""


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as session:
        yield session


def settings(site: CourierSite, slug: str) -> CourierSettings:
    """Point a courier at the site; its addresses there end as the real ones do."""
    courier = COURIERS[Slug(slug)]
    base_url = f"{site.url}/{slug}"
    return CourierSettings(
        slug=Slug(slug),
        base_url=base_url,
        token_url=base_url + URL(courier.TOKEN_URL).path if hasattr(courier, "TOKEN_URL") else "",
        credentials=dict.fromkeys(courier.CREDENTIALS, "made-up"),
    )


async def ask(
    site: CourierSite,
    http: aiohttp.ClientSession,
    slug: str,
    number: str,
    section: CourierSettings | None = None,
) -> Tracking:
    section, leave = section or settings(site, slug), Leave()
    fetch = Fetch(http, section, leave, TokenCache())
    request = TrackingRequest(Slug(slug), Number(number), number)
    tracking = await Registry([section]).track(fetch, request)
    assert leave.sends == len(site.calls(slug))
    return tracking


@pytest.mark.parametrize("slug", sorted(TOGETHER))
async def test_several_numbers_are_answered_in_one_call_as_each_is_alone(
    site: CourierSite, http: aiohttp.ClientSession, slug: str
) -> None:
    section, numbers = settings(site, slug), (UNDER_WAY, UNKNOWN, DELIVERED)
    alone = {number: await ask(site, http, slug, number) for number in numbers[:1]}
    site.reset()
    requests = [TrackingRequest(Slug(slug), Number(each), each) for each in numbers]
    fetch = Fetch(http, section, Leave(), TokenCache())

    ends = await Registry([section]).track_many(fetch, requests)

    told = {number: end for number, end in ends.items() if isinstance(end, Tracking)}
    assert {number: end.tag for number, end in told.items()} == {
        UNDER_WAY: alone[UNDER_WAY].tag,
        UNKNOWN: Tag.PENDING,
        DELIVERED: Tag.DELIVERED,
    }
    assert told[UNDER_WAY].checkpoints == alone[UNDER_WAY].checkpoints
    assert [call.numbers for call in site.calls(slug)] == [numbers]


def test_the_site_speaks_for_every_courier_and_for_no_other() -> None:
    assert {*EVERY, "feed", "hook"} == set(SHAPES)


@pytest.mark.parametrize("slug", EVERY)
async def test_a_delivered_parcel_is_delivered_and_its_story_is_whole(
    site: CourierSite, http: aiohttp.ClientSession, slug: str
) -> None:
    told = await ask(site, http, slug, DELIVERED)

    assert told.delivered
    assert len(told.checkpoints) == 5
    assert told.delivered_at == told.checkpoints[-1].checkpoint_time
    tags = [point.tag for point in told.checkpoints]
    assert tags[0] is Tag.INFO_RECEIVED
    assert tags[-2:] == [Tag.OUT_FOR_DELIVERY, Tag.DELIVERED]


@pytest.mark.parametrize("slug", EVERY)
async def test_a_parcel_under_way_is_not_delivered(
    site: CourierSite, http: aiohttp.ClientSession, slug: str
) -> None:
    told = await ask(site, http, slug, UNDER_WAY)

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 3)
    assert told.delivered_at is None


@pytest.mark.parametrize("slug", EVERY)
async def test_an_unknown_number_is_pending(
    site: CourierSite, http: aiohttp.ClientSession, slug: str
) -> None:
    told = await ask(site, http, slug, UNKNOWN)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize("slug", EVERY)
@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ({"fault": "status", "status": 500}, CourierDown),
        ({"fault": "status", "status": 429, "retry_after": "7"}, RateLimited),
        ({"fault": "garbage"}, UnreadableAnswer),
        ({"fault": "truncated"}, UnreadableAnswer),
        ({"fault": "reset"}, CourierDown),
    ],
)
async def test_what_goes_wrong_is_an_error_of_the_closed_set(
    site: CourierSite,
    http: aiohttp.ClientSession,
    slug: str,
    behaviour: dict[str, object],
    error: type[CourierError],
) -> None:
    site.behave(slug, **behaviour)
    with pytest.raises(error):
        await ask(site, http, slug, DELIVERED)


@pytest.mark.parametrize(
    ("slug", "failure"), [(slug, each) for slug in EVERY for each in SHAPES[slug].FAILURES]
)
async def test_a_failure_in_the_couriers_own_form_is_the_error_it_means(
    site: CourierSite, http: aiohttp.ClientSession, slug: str, failure: Failure
) -> None:
    with pytest.raises(ERRORS[failure]):
        await ask(site, http, slug, f"{failure}00000010")


@pytest.mark.parametrize("slug", [slug for slug in EVERY if hasattr(COURIERS[Slug(slug)], WAY)])
async def test_a_courier_that_is_asked_in_its_other_way_tells_the_same(
    site: CourierSite, http: aiohttp.ClientSession, slug: str
) -> None:
    keys = getattr(COURIERS[Slug(slug)], WAY).credentials
    section = replace(settings(site, slug), credentials=dict.fromkeys(keys, "made-up"))
    for number in (DELIVERED, UNDER_WAY, "00000100000010", "00000200000010", UNKNOWN):
        told = await ask(site, http, slug, number, section)
        site.reset()
        first = await ask(site, http, slug, number)
        site.reset()

        assert (told.tag, told.delivered_at) == (first.tag, first.delivered_at)
    for failure in SHAPES[slug].FAILURES:
        with pytest.raises(ERRORS[failure]):
            await ask(site, http, slug, f"{failure}00000010", section)


@pytest.mark.parametrize("slug", EVERY)
def test_a_courier_can_fail_in_every_way_that_it_knows(slug: str) -> None:
    missing = set(Failure) - set(SHAPES[slug].FAILURES)

    assert missing <= {Failure.INVALID}
    # A courier that tells no invalid number has a module that refuses one by itself.
    assert bool(missing) == hasattr(SHAPES[slug], "IMPOSSIBLE")
