"""GLS Group's Track and Trace, version 1. The answers are written after its OpenAPI text."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import gls
from couriers.gls import CODES, SILENT, STATUSES
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    NoCredentials,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "50000000017"

Json = dict[str, object]


def event(at: str, code: str, what: str = "", **more: object) -> Json:
    place = {"city": "Kassel", "postalCode": "34117", "country": "DE"}
    return {"code": code, "description": what, "eventDateTime": f"{at}+0100"} | place | more


PREADVICE = event("2026-01-26T15:00:00", "INTIAL.PREADVICE", "The data was entered.", city="")
HANDED_OVER = event("2026-01-26T18:20:00", "INTIAL.NORMAL", "The parcel was handed over to GLS.")
AT_DEPOT = event("2026-01-27T04:40:00", "INBOUD.NORMAL", "The parcel has reached the depot.")
DELIVERED = event("2026-01-27T12:31:00", "DELIVD.NORMAL", "The parcel has been delivered.")
AT_SHOP = event("2026-01-27T12:31:00", "DELIVD.PARCELSHOP", "Delivered at the ParcelShop.")


def parcel(status: str | None, *events: Json, number: str = NUMBER, **more: object) -> Json:
    told: Json = {"requested": number, "unitno": number, "events": list(events)}
    return told | ({} if status is None else {"status": status}) | more


def reply(*parcels: Json) -> Json:
    return {"parcels": list(parcels)}


def refusal(code: str) -> Json:
    return reply({"requested": NUMBER, "errorCode": code, "errorMessage": "no"})


def fault(code: str) -> Json:
    return {"fault": {"faultstring": "no", "detail": {"errorcode": code}}}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return gls.parse(status, {}, data, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(reply(parcel("DELIVERED", DELIVERED, AT_DEPOT, HANDED_OVER, PREADVICE)))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-01-27T12:31:00"
    assert told.delivered_at_utc == datetime(2026, 1, 27, 11, 31, tzinfo=UTC)
    first, second = told.checkpoints[:2]
    assert (first.tag, first.city, first.checkpoint_offset) == (Tag.INFO_RECEIVED, None, "+01:00")
    assert (second.city, second.postal_code, second.country_iso3) == ("Kassel", "34117", "DEU")
    assert told.unknown_codes == ()


def test_a_parcel_under_way() -> None:
    told = parse(reply(parcel("INTRANSIT", HANDED_OVER, PREADVICE)))

    assert (told.tag, told.subtag) == (Tag.IN_TRANSIT, "InTransit_002")


def test_a_parcel_shop_is_not_yet_the_addressee() -> None:
    told = parse(reply(parcel("DELIVEREDPS", AT_SHOP)))

    assert told.tag is Tag.AVAILABLE_FOR_PICKUP
    assert told.checkpoints[0].tag is Tag.AVAILABLE_FOR_PICKUP


@pytest.mark.parametrize(
    ("events", "tag"),
    [
        ([DELIVERED], Tag.DELIVERED),
        ([AT_SHOP], Tag.AVAILABLE_FOR_PICKUP),
        ([HANDED_OVER], Tag.IN_TRANSIT),
    ],
)
def test_a_closed_history_says_only_what_its_events_do(events: list[Json], tag: Tag) -> None:
    assert parse(reply(parcel("FINAL", *events))).tag is tag


def test_a_delivery_of_an_unknown_kind_is_believed_with_the_parcels_status() -> None:
    fetched = event("2026-01-28T10:00:00", "DELIVD.CONSIGNEE", "It was picked up at the ParcelShop")
    told = parse(reply(parcel("DELIVERED", fetched, AT_SHOP)))

    assert (told.tag, told.delivered_at) == (Tag.DELIVERED, "2026-01-28T10:00:00")
    assert not parse(reply(parcel("FINAL", fetched))).delivered


@pytest.mark.parametrize(
    ("what", "subtag"),
    [
        ("The parcel could not be delivered: incorrect address.", "Exception_007"),
        ("The consignee has refused the parcel.", "Exception_003"),
        ("The consignee was not available.", "AttemptFail_002"),
        ("The parcel is at the depot again: something new.", "AttemptFail_001"),
    ],
)
def test_why_a_parcel_was_not_delivered_is_told_by_its_event(what: str, subtag: str) -> None:
    failed = event("2026-01-27T12:31:00", "NODELI.X", what)

    assert parse(reply(parcel("NOTDELIVERED", failed, AT_DEPOT))).subtag == subtag


def test_a_delivery_without_an_event_has_the_time_of_the_status() -> None:
    told = parse(reply(parcel("DELIVERED", HANDED_OVER, statusDateTime="2026-01-27T12:31:00+0100")))

    assert told.delivered_at == "2026-01-27T12:31:00"
    assert told.delivered_at_utc == datetime(2026, 1, 27, 11, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "subtag"),
    [
        ("PREADVICE", "InfoReceived_001"),
        ("INDELIVERY", "OutForDelivery_001"),
        ("INWAREHOUSE", "InTransit_003"),
        ("NOTDELIVERED", "AttemptFail_001"),
        ("CANCELED", "Exception_001"),
    ],
)
def test_what_its_statuses_mean(status: str, subtag: str) -> None:
    assert parse(reply(parcel(status))).subtag == subtag


def test_an_unknown_status_is_named_and_the_events_decide() -> None:
    told = parse(reply(parcel("TELEPORTED", DELIVERED)))

    assert (told.tag, told.unknown_codes) == (Tag.DELIVERED, ("TELEPORTED",))


@pytest.mark.parametrize("status", [200, 404])
def test_an_unknown_parcel_may_become_known(status: int) -> None:
    told = parse(refusal("E_404_01"), status)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, refusal("E_400_01"), InvalidNumber),
        (200, refusal("E_400_02"), RequestRefused),
        (200, refusal("E_500_01"), CourierDown),
        (200, refusal("E_777_01"), UnreadableAnswer),
        (400, {"title": "Bad Request", "detail": "Failed to convert"}, RequestRefused),
        (401, fault("steps.jwt.TokenExpired"), AuthFailed),
        (429, fault("policies.ratelimit.QuotaViolation"), RateLimited),
        (500, {}, CourierDown),
        (503, b"<html>", CourierDown),
        (404, {"title": "Not Found", "detail": "No static resource"}, UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, reply(), UnreadableAnswer),
        (200, reply(parcel(None)), UnreadableAnswer),
        (
            200,
            reply(parcel("INTRANSIT", {"code": "X", "eventDateTime": "27.1."})),
            UnreadableAnswer,
        ),
        (200, reply(parcel("DELIVERED", DELIVERED, number="OTHER")), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


@pytest.mark.parametrize(
    ("code", "subtag"),
    [
        ("INBOUD.NORMAL", "InTransit_003"),
        ("OUTBOD.NORMAL", "InTransit_007"),
        ("OUTDEL.NORMAL", "OutForDelivery_001"),
        ("DELIVD.DEL_BY_PSAPP", "Delivered_002"),
        ("CHANGD.PARCELBOX", "InTransit_001"),
    ],
)
def test_what_the_codes_of_its_events_mean(code: str, subtag: str) -> None:
    [told] = parse(reply(parcel("FINAL", event("2026-01-27T06:00:00", code, "x")))).checkpoints

    assert told.subtag == subtag


def test_a_change_of_address_decides_nothing() -> None:
    changed = event("2026-01-27T08:00:00", "CHANGD.MONEWADDR", "Delivery at new address")
    told = parse(reply(parcel("FINAL", changed, AT_DEPOT)))

    assert (told.subtag, told.unknown_codes) == ("InTransit_003", ())


def test_a_number_of_several_parcels_is_delivered_when_all_of_them_are() -> None:
    one = parcel("DELIVERED", DELIVERED) | {"unitno": "90000000005"}
    two = parcel("INDELIVERY", AT_DEPOT) | {"unitno": "90000000006"}
    told = parse(reply(one, two))

    assert (told.tag, len(told.checkpoints)) == (Tag.OUT_FOR_DELIVERY, 2)
    assert parse(reply(one, one | {"unitno": "90000000007"})).delivered


def test_of_a_number_that_was_used_again_the_newest_counts_alone() -> None:
    again = parcel("INTRANSIT", event("2026-08-27T04:40:00", "INTIAL.NORMAL"))
    told = parse(reply(parcel("DELIVERED", DELIVERED), again))

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 1)


def test_the_card_number_that_was_asked_for_is_ours_too() -> None:
    assert parse(reply(parcel("DELIVERED", DELIVERED, unitno="OTHER"))).delivered


def test_only_these_codes_mean_delivered() -> None:
    statuses = {code for code, status in STATUSES.items() if status.tag is Tag.DELIVERED}
    events = {code for code, status in CODES.items() if status.tag is Tag.DELIVERED}

    assert statuses == {"DELIVERED"}
    assert events == {"DELIVD.NORMAL", "DELIVD.POD", "DELIVD.NO POD", "DELIVD.DEL_BY_PSAPP"}
    assert not SILENT & STATUSES.keys()


REQUEST = TrackingRequest(Slug("gls"), Number(NUMBER), NUMBER)


async def test_it_is_asked_with_a_token(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((request.path, request.headers["Authorization"]))
        if request.path == "/token":
            return web.json_response({"access_token": "t1", "expires_in": 14399})
        return web.json_response(reply(parcel("DELIVERED", DELIVERED)))

    told = await gls.track(fetch_for(await courier(site), slug="gls"), REQUEST)

    assert told.delivered
    basic = base64.b64encode(b"the-client:the-secret").decode()
    path = f"/track-and-trace-v1/tracking/simple/trackids/{NUMBER}"
    assert asked == [("/token", f"Basic {basic}"), (path, "Bearer t1")]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="gls", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__GLS__CLIENT_SECRET"):
        await gls.track(fetch, REQUEST)
