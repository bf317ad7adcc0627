"""Couriers whose token runs out, and what is asked again then; one renewal for each call."""

from __future__ import annotations

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit
from recorded_cases import body_of, cases_of

from couriers import dpd, hermes_de, ups
from couriers.reading.answer import read_xml
from tracking.request import Number, Slug, TrackingRequest

RENEWED = ["before_send", "after_send", "again", "before_send", "after_send"]


def delivered(module: str) -> bytes:
    return body_of(cases_of(module)["a delivered parcel"])


REFUSAL = cases_of("dpd")["a login that is refused is no outage"]["calls"][0]["answer"]


class Dpd:
    """Logs in with numbered tokens, and accepts the one it is given in `accepted`."""

    def __init__(self) -> None:
        self.logins: list[tuple[str | None, str | None]] = []
        self.actions: list[str] = []
        self.asked: list[str | None] = []
        self.accepted = "a&1"

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        question = read_xml(await request.read())
        if login := question.first("getAuth"):
            self.logins.append((login.text("delisId"), login.text("password")))
            self.actions.append(request.headers["SOAPAction"])
            token = f"<authToken>a&amp;{len(self.logins)}</authToken>"
            return web.Response(text=f"<return>{token}</return>")
        assert "getTrackingData" in request.headers["SOAPAction"]
        named = question.first("getTrackingData")
        assert named is not None
        assert named.text("parcelLabelNumber") == DPD.number
        header = question.first("authentication")
        token = header.text("authToken") if header else None
        self.asked.append(token)
        if token == self.accepted:
            return web.Response(body=delivered("dpd"))
        return web.Response(body=body_of(REFUSAL), status=500)


DPD = TrackingRequest(Slug("dpd"), Number("09980000000018"), "09980000000018")
DPD_KEYS = {"delis_id": "shop", "password": "p<4&s"}


async def test_dpds_token_stands_in_the_question_and_is_renewed_once(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    site = Dpd()
    address = await courier(site)
    first = fetch_for(address, slug="dpd", credentials=DPD_KEYS, own_permit=RecordingPermit())
    assert (await dpd.track(first, DPD)).delivered
    site.accepted = "a&2"
    told = await dpd.track(fetch_for(address, slug="dpd", credentials=DPD_KEYS), DPD)

    assert told.delivered
    assert site.logins == [("shop", "p<4&s")] * 2
    assert site.asked == ["a&1", "a&1", "a&2"]
    assert permit.steps == RENEWED


@pytest.mark.parametrize(("path", "version"), [("/LoginService/V2_1", "2.1"), ("/token", "2.0")])
async def test_the_version_of_dpds_login_is_that_of_its_address(
    path: str, version: str, courier: Courier, fetch_for: FetchFor
) -> None:
    site = Dpd()
    address = await courier(site)
    fetch = fetch_for(address, slug="dpd", credentials=DPD_KEYS, token_url=f"{address}{path}")
    await dpd.track(fetch, DPD)

    assert site.actions == [f'"http://dpd.com/common/service/types/LoginService/{version}/getAuth"']


async def test_a_token_of_hermes_that_ran_out_is_renewed_once(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    posted: list[str] = []
    asked: list[tuple[str, str, str]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        if request.path == "/token":
            posted.append((await request.read()).decode())
            return web.json_response({"access_token": f"t{len(posted)}", "expires_in": "3600"})
        headers = request.headers
        asked.append((request.path_qs, headers["Authorization"], headers["Accept-Language"]))
        if len(asked) == 2:
            refused = {"listOfResultCodes": [{"code": "e903", "message": "no"}]}
            return web.json_response(refused, status=400)
        return web.Response(body=body)

    case = cases_of("hermes_de")["a delivered parcel: newest first is true"]
    number, body = case["number"], body_of(case)
    keys = {"client_id": "c", "client_secret": "s3cret", "username": "u", "password": "p4ss"}
    address = await courier(site)
    for own_permit in (RecordingPermit(), permit):
        fetch = fetch_for(address, slug="hermes-de", credentials=keys, own_permit=own_permit)
        request = TrackingRequest(Slug("hermes-de"), Number(number), number)
        assert (await hermes_de.track(fetch, request)).delivered

    login = "grant_type=password&client_id=c&client_secret=s3cret&username=u&password=p4ss"
    assert posted == [login, login]
    question = f"/shipmentinfo?shipmentID={number}"
    assert asked == [(question, f"Bearer t{token}", "EN") for token in (1, 1, 2)]
    assert permit.steps == RENEWED


async def test_ups_is_asked_with_one_token_and_a_transaction_of_each_call(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str, dict[str, str]]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        body = (await request.read()).decode()
        asked.append((request.path, body, {k.lower(): v for k, v in request.headers.items()}))
        if request.path == "/token":
            return web.json_response({"access_token": "t0ken", "expires_in": "14399"})
        return web.Response(body=delivered("ups"))

    number = cases_of("ups")["a delivered parcel"]["number"]
    question = TrackingRequest(Slug("ups"), Number(number), number)
    address = await courier(site)
    for own_permit in (permit, RecordingPermit()):
        told = await ups.track(fetch_for(address, slug="ups", own_permit=own_permit), question)
        assert told.delivered

    token, first, second = asked
    assert token[1] == "grant_type=client_credentials"
    assert token[2]["authorization"] == "Basic dGhlLWNsaWVudDp0aGUtc2VjcmV0"
    assert first[0] == f"/api/track/v1/details/{number}"
    assert first[2]["authorization"] == "Bearer t0ken"
    assert first[2]["transactionsrc"]
    assert first[2]["transid"] != second[2]["transid"]
    assert permit.steps == ["before_send", "after_send"]
