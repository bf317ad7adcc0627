"""A site that stood still says so, and nobody is blamed for what it noticed late."""

from __future__ import annotations

import signal
import socket
import time

import pytest

from devstack.judge import SECOND_NS, Call, most_starts_in_any_second
from devstack.site.remote import CourierSite

REQUEST = b"GET /feed/acme/AB000001 HTTP/1.1\r\nHost: courier\r\n\r\n"


def starts(*instants: tuple[float, float]) -> list[Call]:
    """Calls as they were noticed, each with how late that may have been."""
    return [
        Call("acme", f"N{at}", round(at * SECOND_NS), late_ns=round(late * SECOND_NS))
        for at, late in instants
    ]


def test_a_call_that_was_noticed_late_may_have_come_before_the_window() -> None:
    # Sent at 0.2 and at 1.22, and noticed at 0.5 and at 1.22.
    assert most_starts_in_any_second(starts((0.5, 0.0), (1.22, 0.0))) == 2
    assert most_starts_in_any_second(starts((0.5, 0.3), (1.22, 0.0))) == 1


def test_lateness_of_the_last_call_of_a_window_excuses_nothing() -> None:
    assert most_starts_in_any_second(starts((0.5, 0.0), (0.6, 0.0), (1.2, 0.5))) == 3


@pytest.mark.parametrize("stood_still", [0.03, 0.5])
def test_calls_that_came_while_the_site_stood_still_are_known(
    courier_site: CourierSite, stood_still: float
) -> None:
    courier_site.reset()
    with socket.create_connection(("127.0.0.1", courier_site.port)) as caller:
        caller.sendall(REQUEST)
        assert caller.recv(4096)
        courier_site.process.signal(signal.SIGSTOP)
        sent = time.monotonic_ns()
        caller.sendall(REQUEST)
        time.sleep(stood_still)
        courier_site.process.signal(signal.SIGCONT)
        assert caller.recv(4096)
    prompt, late = courier_site.calls("acme")

    assert late.arrived_ns - sent >= stood_still * SECOND_NS
    assert late.arrived_ns - late.late_ns <= sent
    assert prompt.late_ns < late.late_ns
