"""Purolator's Tracking Web Service. The answers are written after its WSDL and its example."""

from __future__ import annotations

import pytest
from aiohttp import encode_basic_auth, web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import purolator
from couriers.purolator import CODES
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

NUMBER = "320000000016"


def event(at: str, kind: str, what: str, details: str = "") -> str:
    day, _, clock = at.partition("T")
    return (
        f"<Scan><ScanType>{kind}</ScanType><PIN><Value>{NUMBER}</Value></PIN>"
        f"<Depot><Name>MONTREAL SORT CTR, PQ</Name></Depot><ScanDate>{day}</ScanDate>"
        f"<ScanTime>{clock.replace(':', '')}</ScanTime><Description>{what}</Description>"
        f"<Comment/><SummaryScanIndicator>false</SummaryScanIndicator>{details}</Scan>"
    )


CREATED = event("2026-01-19T10:00:00", "Other", "Shipment created")
PICKED_UP = event("2026-01-19T17:45:00", "ProofOfPickUp", "Picked up by Purolator at MONTREAL")
SORTED = event("2026-01-20T01:30:00", "Other", "Arrived at sort facility")
LOADED = event("2026-01-20T08:15:00", "OnDelivery", "On vehicle for delivery")
WAITING = event("2026-01-20T12:00:00", "Other", "Available for pickup at the counter")
SIGNED = "<ScanDetails><DeliverySignature>A PERSON</DeliverySignature></ScanDetails>"
DELIVERED = event("2026-01-20T13:01:15", "Delivery", "Shipment delivered", SIGNED)


def parcel(*events: str, number: str = NUMBER, errors: str = "") -> str:
    scans = f"<Scans>{''.join(events)}</Scans>" if events else ""
    return (
        f"<TrackingInformation><PIN><Value>{number}</Value></PIN>{scans}"
        f"<ResponseInformation><Errors>{errors}</Errors></ResponseInformation>"
        "</TrackingInformation>"
    )


def envelope(inside: str) -> bytes:
    space = "http://schemas.xmlsoap.org/soap/envelope/"
    return f'<s:Envelope xmlns:s="{space}"><s:Body>{inside}</s:Body></s:Envelope>'.encode()


def reply(*parcels: str, errors: str = "") -> bytes:
    return envelope(
        '<TrackPackagesByPinResponse xmlns="http://purolator.com/pws/datatypes/v1">'
        f"<ResponseInformation><Errors>{errors}</Errors></ResponseInformation>"
        f"<TrackingInformationList>{''.join(parcels)}</TrackingInformationList>"
        "</TrackPackagesByPinResponse>"
    )


def error(words: str) -> str:
    return f"<Error><Code>0</Code><Description>{words}</Description></Error>"


def fault(key: str, message: str) -> bytes:
    detail = f"<ValidationDetail><Key>{key}</Key><Message>{message}</Message></ValidationDetail>"
    return envelope(
        f"<s:Fault><detail><ValidationFault>{detail}</ValidationFault></detail></s:Fault>"
    )


def parse(body: bytes, status: int = 200) -> Tracking:
    return purolator.parse(status, {}, body, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(reply(parcel(DELIVERED, LOADED, SORTED, PICKED_UP, CREATED)))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert (told.delivered_at, told.delivered_at_utc) == ("2026-01-20T13:01:15", None)
    assert (told.signed_by, told.unknown_codes) == ("A PERSON", ())
    tags = [(point.raw_tag, point.subtag) for point in told.checkpoints[:3]]
    assert tags == [
        ("Other", "InfoReceived_001"),
        ("ProofOfPickUp", "InTransit_002"),
        ("Other", "InTransit_003"),
    ]
    assert told.checkpoints[0].location == "MONTREAL SORT CTR, PQ"


def test_scans_are_read_in_either_order() -> None:
    backwards = parse(reply(parcel(DELIVERED, LOADED, CREATED)))

    assert parse(reply(parcel(CREATED, LOADED, DELIVERED))) == backwards


@pytest.mark.parametrize(
    ("newest", "tag"),
    [(SORTED, Tag.IN_TRANSIT), (LOADED, Tag.OUT_FOR_DELIVERY), (WAITING, Tag.AVAILABLE_FOR_PICKUP)],
)
def test_a_parcel_under_way(newest: str, tag: Tag) -> None:
    told = parse(reply(parcel(newest, PICKED_UP)))

    assert (told.tag, told.signed_by) == (tag, None)


@pytest.mark.parametrize(
    ("kind", "what", "subtag"),
    [
        ("Undeliverable", "", "AttemptFail_001"),
        ("Undeliverable", "Business closed", "AttemptFail_003"),
        ("Undeliverable", "Refused by the receiver", "Exception_003"),
        ("Undeliverable", "Incorrect address", "Exception_007"),
        ("Undeliverable", "Delivered", "AttemptFail_001"),
        ("InternationalOutbound", "", "InTransit_007"),
        ("Undeliverable", "Shipment created - final manifest received", "InfoReceived_001"),
        ("Undeliverable", "Arrived at sort facility", "InTransit_003"),
        ("Undeliverable", "Departed sort facility", "InTransit_007"),
        ("Undeliverable", "Shipment redirected", "InTransit_009"),
        ("Undeliverable", "Item Held for Pickup at Locker", "AvailableForPickup_001"),
        (
            "Undeliverable",
            "Item available for receiver to pick up at post office",
            "AvailableForPickup_001",
        ),
        (
            "Undeliverable",
            "Receiver contacted, no answer.  Shipment available for pickup",
            "AvailableForPickup_001",
        ),
        ("Undeliverable", "Unable to deliver - item returned to shipper", "Exception_010"),
        ("Other", "Label information electronically submitted", "InfoReceived_001"),
        # Scans of a delivery that was none, and of one out of a locker.
        (
            "Delivery",
            "Transferring to Shipping Centre - please wait for further instructions",
            "InTransit_001",
        ),
        ("Delivery", "Delivered to Customer by Locker", "Delivered_002"),
        ("Delivery", "Package removed from Locker", "Delivered_001"),
        ("Other", "Delivered to Customer by Locker", "InTransit_001"),
        ("Delivery", "Delivered to the sender", "Exception_011"),
        ("Delivery", "Delivered to a shipping store", "AvailableForPickup_001"),
        ("Other", "Shipment delivered", "InTransit_001"),
        ("Teleport", "Shipment delivered", "InTransit_001"),
    ],
)
def test_what_its_types_of_scans_mean(kind: str, what: str, subtag: str) -> None:
    told = parse(reply(parcel(event("2026-01-20T12:00:00", kind, what))))

    assert told.subtag == subtag
    assert told.unknown_codes == (("Teleport",) if kind == "Teleport" else ())


def test_of_a_number_that_was_used_again_the_newest_counts_alone() -> None:
    again = parcel(event("2026-08-20T03:30:00", "OnDelivery", "On vehicle for delivery"))
    told = parse(reply(parcel(DELIVERED), again))

    assert (told.tag, len(told.checkpoints)) == (Tag.OUT_FOR_DELIVERY, 1)


@pytest.mark.parametrize(
    "body",
    [
        reply(parcel()),
        reply(parcel(errors=error("No Tracking Details are available"))),
        reply(errors=error("PIN not found")),
    ],
)
def test_an_unknown_number_may_become_known(body: bytes) -> None:
    told = parse(body)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize(
    ("status", "body", "raised"),
    [
        (500, fault("PIN", "The value is not valid"), InvalidNumber),
        (500, fault("GroupID", "The value is not valid"), RequestRefused),
        (
            500,
            envelope("<s:Fault><faultstring>Internal error</faultstring></s:Fault>"),
            CourierDown,
        ),
        (200, reply(errors=error("Invalid PIN")), InvalidNumber),
        (200, reply(errors=error("Something else")), UnreadableAnswer),
        (200, reply(), UnreadableAnswer),
        (401, b"", AuthFailed),
        (401, b"<html/>", AuthFailed),
        (403, b"<html/>", AuthFailed),
        (429, b"", RateLimited),
        (503, b"not xml", CourierDown),
        (404, b"<html/>", UnreadableAnswer),
        (200, b"<html/>", UnreadableAnswer),
        (200, b"{}", UnreadableAnswer),
        (200, reply(parcel(event("2026-01-20T1:30", "Other", ""))), UnreadableAnswer),
        (200, reply(parcel(DELIVERED, number="320000000024")), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, raised: type[CourierError]) -> None:
    with pytest.raises(raised) as failed:
        parse(body, status)

    assert type(failed.value) is raised


def test_only_one_type_of_scan_means_delivered() -> None:
    delivered = {code for code, status in CODES.items() if status.tag is Tag.DELIVERED}

    assert delivered == {"Delivery"}


REQUEST = TrackingRequest(Slug("purolator"), Number(NUMBER), NUMBER)
KEYS = {"api_key": "the-key", "password": "the-password"}


async def test_it_is_asked_with_an_envelope(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str | None, str | None]] = []
    bodies: list[bytes] = []

    async def site(request: web.BaseRequest) -> web.Response:
        names = ("Authorization", "SOAPAction")
        asked.append((request.path_qs, *(request.headers.get(name) for name in names)))
        bodies.append(await request.read())
        return web.Response(body=reply(parcel(DELIVERED)), content_type="text/xml")

    fetch = fetch_for(await courier(site), slug="purolator", credentials=KEYS)
    told = await purolator.track(fetch, REQUEST)

    assert told.delivered
    path = "/EWS/V1/Tracking/TrackingService.asmx"
    action = '"http://purolator.com/pws/service/v1/TrackPackagesByPin"'
    assert asked == [(path, encode_basic_auth("the-key", "the-password"), action)]
    assert f"<p:PIN><p:Value>{NUMBER}</p:Value></p:PIN>".encode() in bodies[0]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="purolator", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__PUROLATOR__API_KEY"):
        await purolator.track(fetch, REQUEST)
