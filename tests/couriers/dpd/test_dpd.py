"""DPD. The answers are written after the types of its service descriptions."""

from __future__ import annotations

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import dpd
from couriers.dpd import STEPS
from couriers.reading.xml import read_xml
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    NoCredentials,
    RateLimited,
    UnreadableAnswer,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "09980000000018"


def line(name: str, said: str) -> str:
    return (
        f"<{name}><content>{said}</content><bold>true</bold><paragraph>false</paragraph></{name}>"
    )


def step(status: str, date: str | None, said: str = "", more: str = "", **flags: str) -> str:
    told = {"statusHasBeenReached": "true", "isCurrentStatus": "false"} | flags
    return (
        f"<statusInfo><status>{status}</status>{line('label', 'Parcel out for delivery')}"
        f"<description>{line('content', said)}</description>"
        + "".join(f"<{name}>{each}</{name}>" for name, each in told.items())
        + line("location", "Duiven (NL)")
        + (line("date", date) if date else "")
        + f"{more}</statusInfo>"
    )


COMING = {"statusHasBeenReached": "false"}
ACCEPTED = step("ACCEPTED", "1/12/2026 4:30:00 PM", "DPD has received your parcel.")
AT_DEPOT = step("AT_DELIVERY_DEPOT", "1/14/2026 5:05:10 AM", "At parcel delivery centre.")
DELIVERED = step("DELIVERED", "1/14/2026 11:41:00 AM", "Delivered successfully.")


def envelope(inside: str) -> bytes:
    return (
        '<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>'
        f"{inside}</soap:Body></soap:Envelope>"
    ).encode()


def answer(*steps: str) -> bytes:
    space = "http://dpd.com/common/service/types/ParcelLifeCycleService/2.0"
    return envelope(
        f'<n:getTrackingDataResponse xmlns:n="{space}"><trackingresult><shipmentInfo>'
        "<status>SHIPMENT</status></shipmentInfo>"
        f"{''.join(steps)}</trackingresult></n:getTrackingDataResponse>"
    )


def fault(detail: str) -> bytes:
    return envelope(
        "<soap:Fault><faultcode>soap:Server</faultcode><faultstring>Fault occured</faultstring>"
        f"<detail>{detail}</detail></soap:Fault>"
    )


REFUSAL = fault(
    '<n:authenticationFault xmlns:n="http://dpd.com/common/service/types/Authentication/2.0">'
    "<errorCode>LOGIN_5</errorCode><errorMessage>The authtoken is invalid</errorMessage>"
    "</n:authenticationFault>"
)


def business(message: str) -> bytes:
    return fault(f"<faults><faultCode>X</faultCode><message>{message}</message></faults>")


def parse(body: bytes, status: int = 200) -> Tracking:
    return dpd.parse(status, {}, body, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(answer(ACCEPTED, AT_DEPOT, DELIVERED))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert (told.delivered_at, told.delivered_at_utc) == ("2026-01-14T11:41:00", None)
    assert [point.subtag for point in told.checkpoints[:2]] == ["InTransit_002", "InTransit_003"]
    first = told.checkpoints[0]
    assert (first.checkpoint_time, first.location) == ("2026-01-12T16:30:00", "Duiven (NL)")
    assert (first.message, first.raw_tag) == ("DPD has received your parcel.", "ACCEPTED")


def test_steps_that_are_still_to_come_have_not_happened() -> None:
    told = parse(answer(ACCEPTED, step("ON_THE_ROAD", None), step("DELIVERED", None, **COMING)))

    assert (told.tag, len(told.checkpoints), told.delivered_at) == (Tag.IN_TRANSIT, 1, None)


def test_a_parcel_that_was_only_announced_has_a_current_step_and_none_reached() -> None:
    first = step("ACCEPTED", None, isCurrentStatus="true", **COMING)
    told = parse(answer(first, step("DELIVERED", None, **COMING)))

    assert (told.tag, told.checkpoints) == (Tag.INFO_RECEIVED, ())


@pytest.mark.parametrize(
    ("status", "said", "more", "subtag"),
    [
        ("AT_DELIVERY_DEPOT", "Your parcel is out for delivery.", "", "OutForDelivery_001"),
        ("AT_DELIVERY_DEPOT", "At parcel delivery centre.", "", "InTransit_003"),
        ("ON_THE_ROAD", "The parcel is on the road.", "", "InTransit_001"),
        (
            *("ON_THE_ROAD", "The parcel is on the road."),
            *(f"<errorItems>{line('content', 'Held for a while')}</errorItems>", "Exception_001"),
        ),
        (
            *("AT_DELIVERY_DEPOT", ""),
            *(
                f"<importantItems>{line('content', 'Ready for pick-up')}</importantItems>",
                "AvailableForPickup_001",
            ),
        ),
        ("DELIVERED", "Delivered to the Pickup parcel shop.", "", "AvailableForPickup_001"),
        ("DELIVERED", "Delivered to the sender.", "", "Exception_011"),
        ("Courier", "", "", "OutForDelivery_001"),
        ("ParcelShop", "", "", "AvailableForPickup_001"),
        ("DeliveryFailure", "Nobody was there", "", "AttemptFail_001"),
        ("Delivered", "", "", "Delivered_001"),
        ("PickedUp", "DPD has received your parcel.", "", "InTransit_002"),
        ("Depot", "At parcel delivery centre.", "", "InTransit_003"),
        ("BetweenDepots", "The parcel is at the parcel dispatch centre.", "", "InTransit_001"),
        ("Drone", "Delivered by a drone", "", "InTransit_001"),
    ],
)
def test_what_its_steps_mean(status: str, said: str, more: str, subtag: str) -> None:
    told = parse(answer(step(status, "14.01.2026 08:00", said, more)))

    assert told.subtag == subtag
    assert told.unknown_codes == (("Drone",) if status == "Drone" else ())


@pytest.mark.parametrize(
    ("date", "local"),
    [
        ("1/2/2026 12:05:00 AM", "2026-01-02T00:05:00"),
        ("02.01.2026 08:15:00", "2026-01-02T08:15:00"),
        ("2026-01-02T08:15:00", "2026-01-02T08:15:00"),
    ],
)
def test_a_date_is_read_in_the_forms_that_say_which_is_the_month(date: str, local: str) -> None:
    [told] = parse(answer(step("ACCEPTED", date))).checkpoints

    assert told.checkpoint_time == local


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, answer()), (200, answer(step("ACCEPTED", None))), (500, business("Parcel not found"))],
)
def test_nothing_known_is_not_found_yet(status: int, body: bytes) -> None:
    assert parse(body, status).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, REFUSAL, AuthFailed),
        (200, REFUSAL, AuthFailed),
        (401, b"", AuthFailed),
        (500, fault(""), CourierDown),
        (500, business("out of order"), CourierDown),
        (503, b"", CourierDown),
        (429, b"", RateLimited),
        (404, b"<html/>", UnreadableAnswer),
        (200, b"<html/>", UnreadableAnswer),
        (200, b"{}", UnreadableAnswer),
        (200, answer(step("ACCEPTED", "01/02/2026, 08:15")), UnreadableAnswer),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_one_step_means_delivered() -> None:
    assert [code for code, told in STEPS.items() if told.tag is Tag.DELIVERED] == ["delivered"]


KEYS = {"delis_id": "shop", "password": "p<4&s"}
REQUEST = TrackingRequest(Slug("dpd"), Number(NUMBER), NUMBER)


class Site:
    """Logs in with numbered tokens, and accepts the one it is told to."""

    def __init__(self) -> None:
        self.logins: list[tuple[str, str]] = []
        self.actions: list[str] = []
        self.asked: list[str | None] = []
        self.accepted = "a&1"
        self.refuses_logins = False

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        question = read_xml(await request.read())
        if login := question.first("getAuth"):
            self.logins.append((login.text("delisId") or "", login.text("password") or ""))
            self.actions.append(request.headers["SOAPAction"])
            told = f"<authToken>a&amp;{len(self.logins)}</authToken>"
            body = REFUSAL if self.refuses_logins else envelope(f"<return>{told}</return>")
            return web.Response(body=body, status=500 if self.refuses_logins else 200)
        assert "getTrackingData" in request.headers["SOAPAction"]
        named = question.first("getTrackingData")
        assert named is not None
        assert named.text("parcelLabelNumber") == NUMBER
        header = question.first("authentication")
        token = header.text("authToken") if header else None
        self.asked.append(token)
        known = token == self.accepted
        return web.Response(
            body=answer(DELIVERED) if known else REFUSAL, status=200 if known else 500
        )


async def test_its_token_stands_in_the_question_and_is_renewed_once(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    site = Site()
    address = await courier(site)
    first = fetch_for(address, slug="dpd", credentials=KEYS, own_permit=RecordingPermit())
    assert (await dpd.track(first, REQUEST)).delivered
    site.accepted = "a&2"
    told = await dpd.track(fetch_for(address, slug="dpd", credentials=KEYS), REQUEST)

    assert told.delivered
    assert site.logins == [("shop", "p<4&s")] * 2
    assert site.asked == ["a&1", "a&1", "a&2"]
    assert permit.steps == ["before_send", "after_send", "again", "before_send", "after_send"]


async def test_a_login_that_is_refused_is_no_outage(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    site = Site()
    site.refuses_logins = True
    fetch = fetch_for(await courier(site), slug="dpd", credentials=KEYS)
    with pytest.raises(AuthFailed):
        await dpd.track(fetch, REQUEST)

    assert permit.steps == []


@pytest.mark.parametrize(("path", "version"), [("/LoginService/V2_1", "2.1"), ("/token", "2.0")])
async def test_the_version_of_the_login_is_that_of_its_address(
    path: str, version: str, courier: Courier, fetch_for: FetchFor
) -> None:
    site = Site()
    address = await courier(site)
    fetch = fetch_for(address, slug="dpd", credentials=KEYS, token_url=f"{address}{path}")
    await dpd.track(fetch, REQUEST)

    assert site.actions == [f'"http://dpd.com/common/service/types/LoginService/{version}/getAuth"']


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="dpd", credentials={"password": "x"})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__DPD__DELIS_ID"):
        await dpd.track(fetch, REQUEST)
