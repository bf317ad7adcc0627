"""Bring and Posten's Tracking API, version 2. The answers are written after its reference."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import bring
from couriers.bring import CODES, SILENT
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    NoCredentials,
    RateLimited,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "370000000000000018"

Json = dict[str, object]


def event(at: str, status: str, what: str = "", **more: object) -> Json:
    place = {"city": "BERGEN", "postalCode": "5003", "countryCode": "NO", "country": "Norway"}
    told = {"description": what, "status": status, "dateIso": f"{at}+01:00", **place}
    return told | more


NOTIFIED = event("2026-01-19T10:00:00", "PRE_NOTIFIED", "Announced by the sender.")
HANDED_IN = event("2026-01-19T17:45:00", "HANDED_IN", "Handed in at a terminal.")
MOVING = event("2026-01-20T03:30:00", "IN_TRANSIT", "Forwarded.")
LOADED = event("2026-01-20T08:15:00", "TRANSPORT_TO_RECIPIENT", "Loaded for delivery.")
SIGNATURE = {"name": "K Hansen"}
DELIVERED = event(
    "2026-01-20T12:05:00", "DELIVERED", "It has been delivered.", recipientSignature=SIGNATURE
)


def package(*events: Json, number: str = NUMBER, **more: object) -> Json:
    return {"packageNumber": number, "eventSet": list(events), **more}


def reply(*packages: Json, number: str = "CONSIGNMENT1") -> Json:
    consignment = {"consignmentId": number, "packageSet": list(packages)}
    return {"apiVersion": "2", "consignmentSet": [consignment]}


def refusal(code: object) -> Json:
    return {"apiVersion": "2", "consignmentSet": [{"error": {"code": code, "message": "no"}}]}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return bring.parse(status, {}, data, NUMBER)


def test_a_delivered_package() -> None:
    told = parse(
        reply(
            package(
                DELIVERED, LOADED, MOVING, HANDED_IN, NOTIFIED, dateOfEstimatedDelivery="20.01.2026"
            )
        )
    )

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-01-20T12:05:00"
    assert told.delivered_at_utc == datetime(2026, 1, 20, 11, 5, tzinfo=UTC)
    assert (told.signed_by, told.expected_delivery) == ("K Hansen", "20.01.2026")
    first = told.checkpoints[0]
    assert (first.raw_tag, first.tag) == ("PRE_NOTIFIED", Tag.INFO_RECEIVED)
    assert (first.city, first.postal_code, first.country_iso3) == ("BERGEN", "5003", "NOR")


def test_a_package_under_way_and_out_for_delivery() -> None:
    assert parse(reply(package(MOVING, HANDED_IN))).tag is Tag.IN_TRANSIT
    assert parse(reply(package(LOADED, MOVING))).tag is Tag.OUT_FOR_DELIVERY


@pytest.mark.parametrize(
    ("status", "what", "subtag"),
    [
        ("READY_FOR_PICKUP", "", "AvailableForPickup_001"),
        ("COLLECTED", "", "InTransit_002"),
        ("ATTEMPTED_DELIVERY", "", "AttemptFail_001"),
        ("DEVIATION", "", "Exception_001"),
        ("RETURN", "", "Exception_010"),
        ("DELIVERED_SENDER", "", "Exception_011"),
        ("DELIVERED", "Delivered to the pickup point", "AvailableForPickup_001"),
        ("TELEPORTED", "delivered by magic", "InTransit_001"),
    ],
)
def test_what_its_statuses_mean(status: str, what: str, subtag: str) -> None:
    told = parse(reply(package(event("2026-01-20T12:05:00", status, what))))

    assert told.subtag == subtag
    assert told.unknown_codes == (("TELEPORTED",) if status == "TELEPORTED" else ())


@pytest.mark.parametrize("status", [*sorted(SILENT), "IN_TRANSIT"])
def test_a_notice_after_a_delivery_does_not_undo_it(status: str) -> None:
    later = event("2026-01-20T13:00:00", status, "Notice", insignificant=status == "IN_TRANSIT")

    assert parse(reply(package(later, DELIVERED))).delivered


def test_a_consignment_is_delivered_when_all_its_packages_are() -> None:
    one, two = package(DELIVERED, number="P1"), package(MOVING, number="P2")
    told = parse(reply(one, two, number=NUMBER))

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 2)
    assert parse(reply(one, number=NUMBER)).delivered


def test_of_a_number_that_was_used_again_the_newest_counts_alone() -> None:
    again = package(event("2026-08-20T03:30:00", "IN_TRANSIT"))
    told = parse(reply(again, package(DELIVERED)))

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 1)


def test_a_package_is_found_by_its_number_before() -> None:
    renamed = package(DELIVERED, number="P1", previousPackageNumber=NUMBER)

    assert parse(reply(renamed, package(MOVING, number="P2"))).delivered


@pytest.mark.parametrize(("status", "code"), [(200, 404), (404, 404), (200, "404")])
def test_an_unknown_number_may_become_known(status: int, code: object) -> None:
    told = parse(refusal(code), status)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, refusal(400), InvalidNumber),
        (400, refusal(400), InvalidNumber),
        (200, refusal(500), CourierDown),
        (200, refusal(503), CourierDown),
        (200, refusal(429), RateLimited),
        (200, refusal(401), AuthFailed),
        (401, b"", AuthFailed),
        (429, b"", RateLimited),
        (502, b"<html>", CourierDown),
        (404, b"<html>", UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, refusal("nonsense"), UnreadableAnswer),
        (200, {"consignmentSet": []}, UnreadableAnswer),
        (200, reply(), UnreadableAnswer),
        (200, reply(package()), UnreadableAnswer),
        (200, reply(package({"status": "DELIVERED", "dateIso": "20.01.2026"})), UnreadableAnswer),
        (200, reply(package(DELIVERED, number="OTHER")), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_one_status_means_delivered() -> None:
    delivered = {code for code, status in CODES.items() if status.tag is Tag.DELIVERED}

    assert delivered == {"DELIVERED"}
    assert not SILENT & CODES.keys()


REQUEST = TrackingRequest(Slug("bring"), Number(NUMBER), NUMBER)
KEYS = {"api_uid": "who@example.com", "api_key": "the-key"}


async def test_it_is_asked_with_both_headers(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, list[str | None]]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        names = ("X-Mybring-API-Uid", "X-Mybring-API-Key")
        asked.append((request.path_qs, [request.headers.get(name) for name in names]))
        return web.json_response(reply(package(DELIVERED)))

    fetch = fetch_for(await courier(site), slug="bring", credentials=KEYS)
    told = await bring.track(fetch, REQUEST)

    assert told.delivered
    path = f"/tracking/api/v2/tracking.json?q={NUMBER}&lang=en"
    assert asked == [(path, ["who@example.com", "the-key"])]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="bring", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__BRING__API_UID"):
        await bring.track(fetch, REQUEST)
