"""A courier may hold its answers until a test lets them go: nothing depends on how fast it is."""

from __future__ import annotations

import http.client
import threading

from devstack.site.remote import CourierSite


def test_a_held_answer_goes_out_when_the_courier_is_told_to_behave(site: CourierSite) -> None:
    site.behave("dhl", held=True)
    statuses: list[int] = []

    def call() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
        connection.request("GET", "/feed/dhl/LX100000001")
        statuses.append(connection.getresponse().status)
        connection.close()

    caller = threading.Thread(target=call)
    caller.start()
    caller.join(0.5)
    assert statuses == []

    site.behave("dhl")
    caller.join(30)

    assert statuses == [200]
