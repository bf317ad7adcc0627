"""What the courier site answers is what the courier modules read."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from couriers import dpd_uk, hong_kong_post, json_feed, usps
from couriers.registry import Courier
from devstack.site.found import SHAPES
from devstack.site.shapes.reply import Asked, Reply
from tracking.checkpoint import Tag

BEARER = {"Authorization": "Bearer courier-site-usps"}


def answer(shape: str, method: str, path: str, body: object = None) -> Reply:
    asked = Asked(method, tuple(path.split("/")), {}, BEARER, json.dumps(body).encode())
    reply = SHAPES[shape].read(asked)
    assert reply is not None
    return reply


def feed(number: str) -> Reply:
    return answer("feed", "GET", f"dhl/{number}")


def usps_v3(number: str) -> Reply:
    return answer("usps", "GET", f"tracking/v3/tracking/{number}")


def usps_v3r2(number: str) -> Reply:
    return answer("usps", "POST", "tracking/v3r2/tracking", [{"trackingNumber": number}])


def hong_kong(number: str) -> Reply:
    return answer("hong-kong-post", "POST", "api/version/1/mailTracking", {"itemNo": [number]})


def dpd_events(number: str) -> Reply:
    return answer("dpd-uk", "GET", f"v1/parcels/{number}*20416/parcelevents")


def dpd_parcel(number: str) -> Reply:
    return answer("dpd-uk", "GET", f"v1/parcels/{number}*20416")


EACH = pytest.mark.parametrize(
    ("ask", "courier"),
    [
        (feed, json_feed),
        (usps_v3, usps),
        (usps_v3r2, usps),
        (hong_kong, hong_kong_post),
        (dpd_events, dpd_uk),
    ],
)


@EACH
@pytest.mark.parametrize(
    ("number", "tag", "scans"),
    [("15502370264988", Tag.DELIVERED, 5), ("15502370264989", Tag.IN_TRANSIT, 3)],
)
def test_a_courier_reads_the_sites_answer(
    ask: Callable[[str], Reply], courier: Courier, number: str, tag: Tag, scans: int
) -> None:
    reply = ask(number)

    tracking = courier.parse(reply.status, reply.headers, reply.body, number)

    assert (tracking.tag, len(tracking.checkpoints)) == (tag, scans)
    times = [checkpoint.checkpoint_time for checkpoint in tracking.checkpoints]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("ask", "courier"),
    [(feed, json_feed), (usps_v3, usps), (usps_v3r2, usps), (hong_kong, hong_kong_post)],
)
@pytest.mark.parametrize("number", ["UNKNOWN4711", "15502370264988"])
def test_a_courier_reads_that_a_number_is_unknown(
    ask: Callable[[str], Reply], courier: Courier, number: str
) -> None:
    status, body = ask(number).unknown  # also what the fault "unknown" answers

    tracking = courier.parse(status, {}, body, number)

    assert (tracking.tag, tracking.checkpoints) == (Tag.PENDING, ())


def test_dpds_reference_leads_to_the_parcel() -> None:
    number = "15502370264988"
    asked = Asked("GET", ("v1", "reference"), {"referenceNumber": number}, {}, b"")
    reply = SHAPES["dpd-uk"].read(asked)
    assert reply is not None

    assert dpd_uk.parse_reference(200, {}, reply.body, number) == f"{number}*20416"
    assert dpd_uk.parse_reference(*reply.unknown[:1], {}, reply.unknown[1], number) is None


def test_dpds_parcel_tells_its_status_in_a_sentence() -> None:
    number = "15502370264988"

    tracking = dpd_uk.parse(200, {}, dpd_parcel(number).body, number)

    assert tracking.tag is Tag.DELIVERED
