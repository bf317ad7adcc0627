"""A receiver of webhooks records what arrives, and behaves as it is set."""

from __future__ import annotations

import time
import urllib.error
import urllib.request

import pytest

from devstack.receiver import Receiver
from devstack.site.remote import CourierSite

BODY = b'{"type":"parcel.changed"}'


def post(receiver: Receiver, name: str = "D1") -> int | None:
    """Deliver; the status, None where no answer came."""
    headers = {"Webhook-Id": name, "Content-Type": "application/json"}
    request = urllib.request.Request(receiver.url, BODY, headers)  # noqa: S310 - of this machine
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - as above
            status: int = answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
    return status


def test_what_arrives_is_recorded_as_it_came(site: CourierSite) -> None:
    receiver, began = Receiver(site, "shop"), time.monotonic_ns()
    assert post(receiver) == 200
    post(Receiver(site, "other"))

    (received,) = receiver.received()
    assert (received.call.number, received.body, received.call.status) == ("D1", BODY, 200)
    assert received.headers["webhook-id"] == "D1"
    assert received.json == {"type": "parcel.changed"}
    assert began < received.call.arrived_ns < time.monotonic_ns()


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [
        ({"fault": "status", "status": 410}, 410),
        ({"fault": "redirect"}, 404),
        ({"fault": "reset"}, None),
    ],
)
def test_it_behaves_as_set_for_as_many_requests(
    behaviour: dict[str, object], status: int | None, site: CourierSite
) -> None:
    receiver = Receiver(site, "shop")
    receiver.behave(first=1, **behaviour)

    assert [post(receiver), post(receiver)] == [status, 200]
    assert [each.call.status == 200 for each in receiver.received()] == [False, True]


def test_couriers_are_judged_without_the_receivers(site: CourierSite) -> None:
    post(Receiver(site, "shop"))

    assert site.summary() == {}
    assert [call.slug for call in site.calls()] == ["shop"]
