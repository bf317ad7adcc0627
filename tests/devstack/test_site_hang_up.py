"""The courier site's own lateness must not look like one call too many."""

from __future__ import annotations

import http.client
import signal
import time
from collections.abc import Callable

from devstack import judge
from devstack.site.remote import CourierSite

PATIENCE = 10.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_caller_that_hung_up_is_gone_before_the_next_call_arrives(site: CourierSite) -> None:
    first, second = (
        http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE) for _ in range(2)
    )
    second.request("GET", "/_calls/summary")
    second.getresponse().read()  # so that its next request needs no new connection
    site.behave("dhl", fault="hang")
    first.request("GET", "/feed/dhl/LX1")
    wait_until(lambda: len(site.calls()) == 1)
    site.behave("dhl")

    site.process.signal(signal.SIGSTOP)  # so that the site sees both at the same look
    first.close()
    second.request("GET", "/feed/dhl/LX2")
    site.process.signal(signal.SIGCONT)
    second.getresponse().read()
    second.close()
    wait_until(lambda: all(call.ended_ns for call in site.calls()))

    assert judge.most_in_flight(site.calls()) == 1
