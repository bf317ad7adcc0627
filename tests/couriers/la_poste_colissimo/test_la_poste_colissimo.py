"""La Poste's Suivi v2. The answers are written after its OpenAPI text."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import la_poste_colissimo
from couriers.la_poste_colissimo import CODES, NOT_YET, SILENT
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

NUMBER = "6X00000000016"

Json = dict[str, object]


def event(code: str, at: str, what: str = "") -> Json:
    return {"code": code, "label": what, "date": f"{at}+01:00"}


DECLARED = event("DR1", "2026-01-12T10:00:00", "Your parcel is soon to be ours.")
ACCEPTED = event("PC1", "2026-01-12T16:30:00", "Your parcel was handed in.")
SORTED = event("ET1", "2026-01-13T04:12:00", "Your parcel is being sorted.")
AT_SITE = event("MD2", "2026-01-14T07:05:00", "We are preparing it for delivery.")
DELIVERED = event("DI1", "2026-01-14T11:41:00", "Your parcel has been delivered.")


def shipment(*events: Json, **more: object) -> Json:
    told = {
        "idShip": NUMBER,
        "product": "colissimo",
        "isFinal": False,
        "event": list(events),
        "contextData": {"originCountry": "FR", "arrivalCountry": "BE"},
    }
    return {"lang": "en_GB", "scope": "open", "returnCode": 200, "shipment": told | more}


def refusal(code: int, number: str = NUMBER) -> Json:
    return {"returnCode": code, "returnMessage": "no", "lang": "en_GB", "idShip": number}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return la_poste_colissimo.parse(status, {}, data, NUMBER)


@pytest.mark.parametrize("listed", [True, False])
def test_a_delivered_parcel(listed: bool) -> None:  # noqa: FBT001 - a case, not a switch
    one = shipment(DELIVERED, AT_SITE, SORTED, ACCEPTED, DECLARED, isFinal=True)
    told = parse([one] if listed else one)

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-01-14T11:41:00"
    assert told.delivered_at_utc == datetime(2026, 1, 14, 10, 41, tzinfo=UTC)
    assert (told.origin, told.destination) == ("France", "Belgium")
    assert [point.raw_tag for point in told.checkpoints] == ["DR1", "PC1", "ET1", "MD2", "DI1"]
    assert told.checkpoints[0].checkpoint_offset == "+01:00"


def test_a_parcel_under_way() -> None:
    told = parse(shipment(SORTED, ACCEPTED, DECLARED, estimDate="2026-01-14T09:00:00+01:00"))

    assert (told.tag, told.subtag) == (Tag.IN_TRANSIT, "InTransit_001")
    assert told.expected_delivery == "2026-01-14T09:00:00+01:00"


def test_final_alone_is_no_delivery() -> None:
    back = event("DI2", "2026-01-20T09:00:00", "Your parcel was given back to its sender.")
    told = parse(shipment(back, AT_SITE, isFinal=True))

    assert (told.tag, told.subtag, told.active) == (Tag.EXCEPTION, "Exception_011", False)
    assert told.delivered_at is None


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("MD2", "", "OutForDelivery_001"),
        ("AG1", "Waiting at the post office", "AvailableForPickup_001"),
        ("ND1", "Could not be delivered", "AttemptFail_001"),
        ("DO3", "Held by customs", "Exception_004"),
        ("DI3", "Delayed", "Exception_001"),
        ("RE1", "Returned", "Exception_010"),
        ("DI1", "Delivered to your parcel shop", "AvailableForPickup_001"),
        ("ZZ9", "Delivered by a drone", "InTransit_001"),
        ("ZZ9", "Out for delivery", "OutForDelivery_001"),
    ],
)
def test_what_its_codes_mean(code: str, what: str, subtag: str) -> None:
    told = parse(shipment(event(code, "2026-01-14T08:00:00", what)))

    assert told.subtag == subtag
    assert told.unknown_codes == (("ZZ9",) if code == "ZZ9" else ())


def test_customs_papers_after_a_delivery_do_not_undo_it() -> None:
    assert parse(shipment(event("ID0", "2026-01-15T08:00:00"), DELIVERED)).delivered


@pytest.mark.parametrize("code", sorted(NOT_YET))
@pytest.mark.parametrize("status", [200, 207, 404])
def test_nothing_known_for_now_is_not_found_yet(code: int, status: int) -> None:
    for body in (refusal(code), [refusal(code)]):
        assert parse(body, status).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, refusal(400), InvalidNumber),
        (207, [refusal(400)], InvalidNumber),
        (401, {"code": "UNAUTHORIZED", "message": "no key"}, AuthFailed),
        (207, [refusal(401)], AuthFailed),
        (429, {"message": "Too many requests"}, RateLimited),
        (500, refusal(500), CourierDown),
        (504, b"<html>", CourierDown),
        (207, [refusal(504)], CourierDown),
        (404, {"message": "no Route matched"}, UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, [], UnreadableAnswer),
        (200, shipment(), UnreadableAnswer),
        (200, shipment(event("DI1", "14/01/2026")), UnreadableAnswer),
        (200, [refusal(104, "OTHER")], WrongNumber),
        (200, shipment(DELIVERED, idShip="OTHER"), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_of_a_number_that_was_used_again_the_newest_counts_alone() -> None:
    again = shipment(event("ET1", "2026-09-13T04:12:00"))
    told = parse([shipment(DELIVERED), again])

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 1)


def test_ours_is_found_among_several() -> None:
    assert parse([refusal(104, "OTHER"), shipment(DELIVERED)], 207).delivered


def test_on_its_round_it_is_out_for_delivery() -> None:
    told = parse(shipment(event("MD1", "2026-01-14T08:00:00")))

    assert (told.subtag, told.unknown_codes) == ("OutForDelivery_001", ())


def test_only_these_codes_mean_delivered() -> None:
    delivered = {code for code, status in CODES.items() if status.tag is Tag.DELIVERED}

    assert delivered == {"DI0", "DI1"}
    assert not SILENT & CODES.keys()


REQUEST = TrackingRequest(Slug("la-poste-colissimo"), Number(NUMBER), NUMBER)


async def test_it_is_asked_with_its_key(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((request.path_qs, request.headers["X-Okapi-Key"]))
        return web.json_response(shipment(DELIVERED))

    keys = {"api_key": "the-key"}
    fetch = fetch_for(await courier(site), slug="la-poste-colissimo", credentials=keys)
    told = await la_poste_colissimo.track(fetch, REQUEST)

    assert told.delivered
    assert asked == [(f"/suivi/v2/idships/{NUMBER}?lang=en_GB", "the-key")]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="la-poste-colissimo", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__LA_POSTE_COLISSIMO__API_KEY"):
        await la_poste_colissimo.track(fetch, REQUEST)
