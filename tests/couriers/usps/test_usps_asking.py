"""How USPS is asked: with a token, in either version, and with what tells re-used numbers apart."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit
from usps_replies import ACCEPTED, DELIVERED, NUMBER, item

from couriers import usps
from tracking.errors import InvalidNumber, NoCredentials
from tracking.request import Number, Slug, TrackingRequest

REQUEST = TrackingRequest(
    Slug("usps"),
    Number(NUMBER),
    NUMBER,
    fields={"tracking_postal_code": "97301-1234", "tracking_ship_date": "20260302"},
)


class Usps:
    """Answers as USPS does; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, object]] = []
        self.authorization: list[str | None] = []

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        self.asked.append(
            (request.method, str(request.rel_url), json.loads(body) if body else None)
        )
        if request.path == "/token":
            return web.json_response({"access_token": "secret-token", "expires_in": "28799"})
        self.authorization.append(request.headers.get("Authorization"))
        told = item("Delivered", DELIVERED, ACCEPTED)
        return web.json_response([told] if request.method == "POST" else told)


async def test_the_current_api_is_asked_with_what_tells_reused_numbers_apart(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    site = Usps()
    told = await usps.track(fetch_for(await courier(site)), REQUEST)

    assert told.delivered
    assert told.http_status == 200
    token, asked = site.asked
    assert token[2] == {
        "client_id": "the-client",
        "client_secret": "the-secret",
        "grant_type": "client_credentials",
    }
    assert asked == (
        "POST",
        "/tracking/v3r2/tracking",
        [
            {
                "trackingNumber": NUMBER,
                "destinationZIPCode": "97301",
                "mailingDate": "2026-03-02",
            }
        ],
    )
    assert site.authorization == ["Bearer secret-token"]
    assert permit.steps == ["before_send", "after_send"]


async def test_the_older_api_is_asked_when_the_address_names_it(
    courier: Courier, fetch_for: FetchFor
) -> None:
    site = Usps()
    address = await courier(site)
    fetch = fetch_for(f"{address}/tracking/v3", token_url=f"{address}/token")
    told = await usps.track(fetch, REQUEST)

    assert told.delivered
    query = "expand=DETAIL&destinationZIPCode=97301&mailingDate=2026-03-02"
    assert site.asked[1] == ("GET", f"/tracking/v3/tracking/{NUMBER}?{query}", None)


async def test_without_credentials_nothing_is_asked_and_the_settings_are_named(
    fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    fetch = fetch_for("http://127.0.0.1:1", credentials={"client_id": "x"})
    with pytest.raises(NoCredentials) as failed:
        await usps.track(fetch, REQUEST)

    assert "[couriers.usps] client_secret" in failed.value.message
    assert "TRACKER_COURIERS__USPS__CLIENT_SECRET" in failed.value.message
    assert "client_id" not in failed.value.message
    assert permit.steps == []


async def test_a_number_that_could_leave_its_segment_is_refused_without_a_call(
    fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    request = TrackingRequest(Slug("usps"), Number("9400/../.."), "9400/../..")
    with pytest.raises(InvalidNumber):
        await usps.track(fetch_for("http://127.0.0.1:1"), request)

    assert permit.steps == []
