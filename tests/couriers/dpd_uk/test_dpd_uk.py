"""DPD UK's unofficial feed: a reference, then events. The answers are written after its shape."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import dpd_uk
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    RateLimited,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "15509990000007"
CODE = f"{NUMBER}*20417"

ORDERED = ("2026-01-05 12:38:00", "We've received your order details, but have not yet received it")
TAKEN = ("2026-01-05 20:22:00", "We have your parcel and it's on its way to our depot")
DEPOT = ("2026-01-06 02:49:00", "Your parcel is at our depot")
TODAY = ("2026-01-06 06:59:00", "Your parcel will be with you today ")
ARRIVED = ("2026-01-06 08:15:00", "Your parcel has been delivered")
PHOTO = ("2026-01-06 08:16:00", "Delivery photo")

UNKNOWN = {"statusCode": 404, "error": "Not Found"}


def history(*rows: tuple[str, str], **more: object) -> bytes:
    events = [
        {"eventDate": at, "eventLocation": "DPD", "eventText": what} | more
        for at, what in reversed(rows)
    ]
    return json.dumps({"data": events}).encode()


def parse(body: bytes, status: int = 200) -> Tracking:
    return dpd_uk.parse(status, {}, body, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(history(ORDERED, TAKEN, DEPOT, DEPOT, TODAY, ARRIVED))

    assert told.delivered
    assert told.delivered_at == "2026-01-06T08:15:00"
    assert told.delivered_at_utc is None
    assert [point.tag for point in told.checkpoints] == [
        Tag.INFO_RECEIVED,
        Tag.IN_TRANSIT,
        Tag.IN_TRANSIT,
        Tag.OUT_FOR_DELIVERY,
        Tag.DELIVERED,
    ]
    assert told.checkpoints[3].message == "Your parcel will be with you today"


def test_who_scanned_is_no_place_and_local_time_has_no_offset() -> None:
    [told] = parse(history(TAKEN)).checkpoints

    assert (told.location, told.country_name, told.city) == (None, None, None)
    assert (told.checkpoint_offset, told.checkpoint_utc) == (None, None)


def test_a_notice_after_the_delivery_does_not_take_it_back() -> None:
    told = parse(history(TODAY, ARRIVED, PHOTO))

    assert told.delivered
    assert told.checkpoints[-1].message == "Delivery photo"


@pytest.mark.parametrize(
    ("what", "tag"),
    [
        ("We've received your order details, but have not yet received it", Tag.INFO_RECEIVED),
        ("Your parcel is at our depot", Tag.IN_TRANSIT),
        ("The parcel is undergoing customs clearance", Tag.IN_TRANSIT),
        ("The parcel is on the vehicle for delivery", Tag.OUT_FOR_DELIVERY),
        ("Your parcel has been delivered to the pickup shop", Tag.AVAILABLE_FOR_PICKUP),
        ("Your parcel is at the local depot awaiting collection", Tag.AVAILABLE_FOR_PICKUP),
        ("Your parcel was not delivered", Tag.ATTEMPT_FAIL),
        ("Your delivery has been cancelled, please contact the sender", Tag.EXCEPTION),
        ("Your parcel is being returned to the sender", Tag.EXCEPTION),
        ("The parcel has been delivered, signed for by BILAL", Tag.DELIVERED),
        ("Your text message has been delivered", Tag.IN_TRANSIT),
        ("A wording never seen before", Tag.IN_TRANSIT),
    ],
)
def test_what_its_sentences_mean(what: str, tag: Tag) -> None:
    assert parse(history(("2026-01-06 08:15:00", what))).tag is tag


@pytest.mark.parametrize(
    ("code", "what", "tag"),
    [
        ("000", "", Tag.INFO_RECEIVED),
        ("015", "", Tag.OUT_FOR_DELIVERY),
        ("001", "Delivered by hand", Tag.DELIVERED),
        ("001", "Your parcel has been delivered to a Pickup shop", Tag.AVAILABLE_FOR_PICKUP),
        ("999", "Your parcel is at our depot", Tag.IN_TRANSIT),
    ],
)
def test_a_code_comes_before_the_words_unless_they_deny_the_delivery(
    code: str, what: str, tag: Tag
) -> None:
    told = parse(history(("2026-01-06 08:15:00", what), eventCode=code))

    assert told.tag is tag
    assert told.checkpoints[0].raw_tag == code


def test_who_signed_is_told() -> None:
    told = parse(
        history(("2014-01-15 19:23:00", "The parcel has been delivered, signed for by BILAL"))
    )

    assert told.signed_by == "BILAL"
    assert told.subtag == "Delivered_003"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, b'{"error": {"message": "Not Found"}}', UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, b'{"data": []}', UnreadableAnswer),
        (200, b"{}", UnreadableAnswer),
        (200, history(("6 January", "x")), UnreadableAnswer),
        (200, history(("", "x")), UnreadableAnswer),
        (200, history(TAKEN, parcelNumber="1550 9990 0000 99 A"), WrongNumber),
        (401, b"", AuthFailed),
        (403, b"", AuthFailed),
        (429, b"", RateLimited),
        (500, b"", CourierDown),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def reference(*parcels: dict[str, str]) -> bytes:
    return json.dumps({"data": list(parcels)}).encode()


PARCEL = {"parcelNumber": "1550 9990 0000 07 K", "parcelCode": CODE}


def find(body: bytes, status: int = 200) -> str | None:
    return dpd_uk.parse_reference(status, {}, body, NUMBER)


def test_a_reference_gives_the_parcels_code() -> None:
    assert find(reference(PARCEL)) == CODE


def test_of_two_parcels_with_one_number_the_newer_one_counts() -> None:
    old = PARCEL | {"parcelCode": "old*1", "collectionDate": "2025-06-01"}
    new = PARCEL | {"parcelCode": "new*1", "collectionDate": "2026-01-05"}

    assert find(reference(old, new)) == find(reference(new, old)) == "new*1"


def test_only_the_feeds_own_sentence_means_unknown() -> None:
    message = "Your reference number could not be found"

    assert find(json.dumps({"error": UNKNOWN | {"message": message}}).encode(), 404) is None
    with pytest.raises(UnreadableAnswer, match="moved"):
        find(json.dumps({"error": UNKNOWN | {"message": "Not Found"}}).encode(), 404)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (reference(), WrongNumber),
        (reference(PARCEL | {"parcelNumber": "15500000000099"}), WrongNumber),
        (reference(PARCEL | {"parcelCode": "../../login"}), UnreadableAnswer),
        (reference({"parcelNumber": NUMBER}), UnreadableAnswer),
        (b"<html>", UnreadableAnswer),
    ],
)
def test_a_reference_that_leads_nowhere(body: bytes, error: type[CourierError]) -> None:
    with pytest.raises(error):
        find(body)


class Dpd:
    """Answers as the feed does; keeps the paths it was asked for."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.history = history(TAKEN, ARRIVED)
        self.known = True

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        self.paths.append(str(request.rel_url))
        if not self.known:
            error = UNKNOWN | {"message": "Your reference number could not be found"}
            return web.json_response({"error": error}, status=404)
        if request.path == "/v1/reference":
            return web.Response(body=reference(PARCEL))
        if request.path.endswith("/parcelevents"):
            return web.Response(body=self.history)
        status = "Your parcel will be with you today at 08:15 on Tue 6 January 2026"
        return web.json_response({"data": PARCEL | {"trackingStatusCurrent": status}})


def asked(number: str = f"{NUMBER}K") -> TrackingRequest:
    return TrackingRequest(
        Slug("dpd-uk"), Number(number), number, fields={"tracking_postal_code": "SW1A 1AA"}
    )


STEP = ["before_send", "after_send"]


async def test_two_requests_each_with_a_permit_and_without_the_check_letter(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    site = Dpd()
    told = await dpd_uk.track(fetch_for(await courier(site)), asked())

    assert told.delivered
    assert told.http_status == 200
    assert site.paths == [
        f"/v1/reference?origin=PRTK&postcode=SW1A+1AA&referenceNumber={NUMBER}",
        f"/v1/parcels/{NUMBER}%2A20417/parcelevents",
    ]
    assert permit.steps == [*STEP, "again", *STEP]


async def test_a_parcel_without_events_is_asked_for_its_status(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    site = Dpd()
    site.history = b'{"data": []}'
    told = await dpd_uk.track(fetch_for(await courier(site)), asked())

    assert (told.tag, told.checkpoints) == (Tag.OUT_FOR_DELIVERY, ())
    assert site.paths[-1] == f"/v1/parcels/{NUMBER}%2A20417"
    assert permit.steps == [*STEP, "again", *STEP, "again", *STEP]


async def test_an_unknown_number_costs_one_request(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    site = Dpd()
    site.known = False
    told = await dpd_uk.track(fetch_for(await courier(site)), asked())

    assert (told.tag, told.http_status) == (Tag.PENDING, 404)
    assert permit.steps == STEP


@pytest.mark.parametrize("number", ["1550", "15509990000007KK", "ABCDEFGHIJKLMN"])
async def test_a_number_of_another_form_is_refused_without_a_call(
    number: str, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    with pytest.raises(InvalidNumber):
        await dpd_uk.track(fetch_for("http://127.0.0.1:1"), asked(number))

    assert permit.steps == []


async def test_a_step_that_fails_keeps_its_answer(courier: Courier, fetch_for: FetchFor) -> None:
    site = Dpd()
    site.history = b"<html>We are sorry"
    with pytest.raises(UnreadableAnswer) as failed:
        await dpd_uk.track(fetch_for(await courier(site)), asked())

    assert failed.value.excerpt == "<html>We are sorry"
    assert failed.value.http_status == 200
