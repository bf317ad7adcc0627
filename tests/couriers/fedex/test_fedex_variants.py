"""FedEx: what stands in its answers besides the plain story of one package."""

from __future__ import annotations

import json

import pytest

from couriers import fedex
from tracking.checkpoint import Tag, Tracking
from tracking.errors import AuthFailed, CourierError, UnreadableAnswer

NUMBER = "123456789012"

Json = dict[str, object]


def scan(at: str, kind: str, what: str = "") -> Json:
    return {"date": at, "eventType": kind, "eventDescription": what}


OUT = scan("2026-03-05T08:10:00-07:00", "OD", "On FedEx vehicle for delivery")


def parse(*scans: Json, **more: object) -> Tracking:
    result = {"trackingNumberInfo": {"trackingNumber": NUMBER}, "scanEvents": list(scans)} | more
    complete = [{"trackingNumber": NUMBER, "trackResults": [result]}]
    body = json.dumps({"output": {"completeTrackResults": complete}}).encode()
    return fedex.parse(200, {}, body, NUMBER)


def at(kind: str, when: str) -> Json:
    return {"type": kind, "dateTime": when}


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("RP", "Return label link emailed to return sender"),
        ("RD", "Return label link expired"),
        ("HA", "Hold at location request accepted"),
        ("RR", "Customized delivery option requested"),
        ("DS", "Vehicle dispatched"),
        ("CH", "Location changed"),
    ],
)
def test_notices_and_wishes_decide_nothing(kind: str, what: str) -> None:
    told = parse(scan("2026-03-05T09:00:00-07:00", kind, what), OUT)

    assert (told.tag, told.unknown_codes) == (Tag.OUT_FOR_DELIVERY, ())
    assert len(told.checkpoints) == 2


def test_a_code_in_small_letters_is_the_same_code() -> None:
    told = parse(scan("2026-03-05T09:00:00-07:00", "Ow", "On the way"))

    assert (told.subtag, told.unknown_codes) == ("InTransit_001", ())


def test_a_scan_without_its_own_code_has_the_derived_one() -> None:
    arrived = {"date": "2026-03-05T13:05:00-07:00", "derivedStatusCode": "DL"}
    odd = {"date": "2026-03-05T12:05:00-07:00", "eventType": "ZY", "derivedStatusCode": "IT"}
    told = parse(arrived, odd)

    assert told.delivered
    assert [point.raw_tag for point in told.checkpoints] == ["ZY", "DL"]
    assert (told.checkpoints[0].subtag, told.unknown_codes) == ("InTransit_001", ("ZY",))


def test_a_code_in_no_list_is_counted_also_where_only_the_status_has_it() -> None:
    latest = {"code": "ZZ", "description": "Something new"}

    assert parse(OUT, latestStatusDetail=latest).unknown_codes == ("ZZ",)


def test_a_delivery_without_its_scan_has_the_time_of_the_answer() -> None:
    times = [at("SHIP", "2026-03-02T00:00:00"), at("ACTUAL_DELIVERY", "2026-03-05T13:05:00-07:00")]
    told = parse(OUT, latestStatusDetail={"code": "DL"}, dateAndTimes=times)

    assert told.delivered
    assert told.delivered_at == "2026-03-05T13:05:00"
    assert told.delivered_at_utc is not None
    assert told.delivered_at_utc.hour == 20


def test_a_time_of_delivery_before_the_delivery_is_none() -> None:
    times = [at("ACTUAL_DELIVERY", "2026-03-05T13:05:00-07:00")]

    assert parse(OUT, dateAndTimes=times).delivered_at is None


def test_a_window_tells_until_when_it_is_expected() -> None:
    window = {"window": {"begins": "2026-03-05T12:00:00", "ends": "2026-03-05T16:00:00-07:00"}}
    told = parse(OUT, estimatedDeliveryTimeWindow=window)

    assert told.expected_delivery == "2026-03-05T16:00:00-07:00"
    assert parse(OUT, estimatedDeliveryTimeWindow={"window": None}).expected_delivery is None


@pytest.mark.parametrize("latest", [{}, {"code": "", "description": ""}])
def test_a_result_without_scans_or_a_status_cannot_be_read(latest: Json) -> None:
    with pytest.raises(UnreadableAnswer):
        parse(latestStatusDetail=latest)


@pytest.mark.parametrize(
    ("code", "error"), [("LOGIN.REAUTHENTICATE.ERROR", AuthFailed), ("FORBIDDEN.ERROR", AuthFailed)]
)
def test_refused_credentials_may_come_in_a_400(code: str, error: type[CourierError]) -> None:
    body = json.dumps({"errors": [{"code": code, "message": "no"}]}).encode()
    with pytest.raises(error):
        fedex.parse(400, {}, body, NUMBER)
