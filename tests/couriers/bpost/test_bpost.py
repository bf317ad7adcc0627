"""bpost. The answers are written after its XML schema."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from aiohttp import encode_basic_auth, web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import bpost
from couriers.bpost import CODES, SENTENCES
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    NoCredentials,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "323200000000000000000017"


def state(code: str, at: str, what: str = "", location: str = "BRUSSEL X") -> str:
    return (
        f"<stateInfo><time>{at}+01:00</time><location>{location}</location>"
        f"<stateCode>{code}</stateCode><stateDescription>{what}</stateDescription></stateInfo>"
    )


ANNOUNCED = state("", "2026-01-12T10:00:00", "Confirmation of preparation of the shipment received")
SORTED = state("", "2026-01-13T04:12:00", "Your item has been sorted.")
ON_ROUND = state(
    "", "2026-01-14T07:05:00", "The postman\u2019s delivery round for your item has started"
)
DELIVERED = state("U01", "2026-01-14T11:41:00", "Item delivered")
WINDOW = (
    "<deliveryTimeWindow>"
    "<plannedDeliveryDateWindowStart>2026-01-14T09:00:00+01:00</plannedDeliveryDateWindowStart>"
    "<plannedDeliveryDateWindowEnd>2026-01-14T13:00:00+01:00</plannedDeliveryDateWindowEnd>"
    "</deliveryTimeWindow>"
)


def answer(*states: str, number: str = NUMBER, more: str = "") -> bytes:
    space = "http://schema.post.be/tracking/v1/"
    return (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
        f'<itemTracking xmlns="{space}"><itemCode>{number}</itemCode>{more}'
        f"{''.join(states)}<trackingId>7</trackingId></itemTracking>"
    ).encode()


def exception(kind: str, message: str) -> bytes:
    space = "http://schema.post.be/api/shm/v1/"
    return (
        f'<{kind}Exception xmlns="{space}"><code>1</code><message>{message}</message>'
        f"</{kind}Exception>"
    ).encode()


def parse(body: bytes, status: int = 200) -> Tracking:
    return bpost.parse(status, {}, body, NUMBER)


def test_a_delivered_parcel() -> None:
    more = (
        "<cityOrCountryOfdeparture>GENT</cityOrCountryOfdeparture>"
        "<cityOrCountryOfDestination>LUIK</cityOrCountryOfDestination>"
    )
    told = parse(answer(ANNOUNCED, SORTED, ON_ROUND, DELIVERED, more=more))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-01-14T11:41:00"
    assert told.delivered_at_utc == datetime(2026, 1, 14, 10, 41, tzinfo=UTC)
    assert (told.origin, told.destination) == ("GENT", "LUIK")
    tags = [point.tag for point in told.checkpoints[:3]]
    assert tags == [Tag.INFO_RECEIVED, Tag.IN_TRANSIT, Tag.OUT_FOR_DELIVERY]
    assert told.checkpoints[1].location == "BRUSSEL X"


def test_a_parcel_under_way_and_when_it_is_expected() -> None:
    told = parse(answer(ANNOUNCED, SORTED, more=WINDOW))

    assert (told.tag, told.delivered_at) == (Tag.IN_TRANSIT, None)
    assert told.expected_delivery == "2026-01-14T13:00:00+01:00"


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("N74", "Item available at Pick-up point", "AvailableForPickup_001"),
        ("U08", "", "Delivered_001"),
        ("U02", "Delivered at the parcel shop", "AvailableForPickup_001"),
        ("U01", "Delivered to the sender", "Exception_011"),
        ("B06", "Address is incomplete", "Exception_007"),
        ("X99", "Returned to sender", "Exception_010"),
        ("X99", "Item delivered", "InTransit_001"),
        ("T00", "Sorted - sorted_out", "InTransit_001"),
        ("L00", "BoundToRound - out_for_distribution", "OutForDelivery_001"),
        ("U01", "DistributedNormally - regular", "Delivered_001"),
    ],
)
def test_what_its_states_mean(code: str, what: str, subtag: str) -> None:
    told = parse(answer(state(code, "2026-01-14T08:00:00", what)))

    assert told.subtag == subtag
    assert told.unknown_codes == (() if code in CODES else (code,))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, answer()),
        (404, exception("business", "The item could not be found")),
        (400, exception("business", "Unknown barcode")),
        (404, exception("business", "No item found for this barcode")),
        (404, b"No item found for this barcode"),
        (404, b" no item found for this barcode: 323200000000000000000017\n"),
    ],
)
def test_nothing_known_is_not_found_yet(status: int, body: bytes) -> None:
    assert parse(body, status).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b"", AuthFailed),
        (429, b"", RateLimited),
        (500, exception("system", "no"), CourierDown),
        (200, exception("system", "no"), CourierDown),
        (400, exception("business", "Barcode missing"), RequestRefused),
        (200, exception("business", "Unknown account"), UnreadableAnswer),
        (404, b"<html/>", UnreadableAnswer),
        (404, b"no such page", UnreadableAnswer),
        (404, b"404 page not found", UnreadableAnswer),
        (200, b"No item found for this barcode", UnreadableAnswer),
        (404, b"<html>No item found for this barcode</html>", UnreadableAnswer),
        (200, b"<html/>", UnreadableAnswer),
        (200, b"{}", UnreadableAnswer),
        (200, answer(state("U01", "14/01/2026")), UnreadableAnswer),
        (200, answer(DELIVERED, number="323200000000000000000024"), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_no_sentence_means_delivered() -> None:
    assert Tag.DELIVERED not in {told.tag for told in SENTENCES.values()}
    delivered = {code for code, told in CODES.items() if told.tag is Tag.DELIVERED}
    assert delivered == {f"U0{number}" for number in range(9)}


REQUEST = TrackingRequest(Slug("bpost"), Number(NUMBER), NUMBER)


async def test_it_is_asked_with_its_passphrase(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((request.path, request.headers["Authorization"]))
        return web.Response(body=answer(DELIVERED), content_type="application/xml")

    keys = {"account_id": "1", "passphrase": "p4ss"}
    fetch = fetch_for(await courier(site), slug="bpost", credentials=keys)
    told = await bpost.track(fetch, REQUEST)

    assert told.delivered
    path = f"/services/trackedmail/item/{NUMBER}/trackingInfo"
    assert asked == [(path, encode_basic_auth("1", "p4ss"))]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="bpost", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__BPOST__PASSPHRASE"):
        await bpost.track(fetch, REQUEST)
