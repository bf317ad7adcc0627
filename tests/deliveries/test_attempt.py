"""How an attempt of a delivery is judged, and when the next one is due."""

from __future__ import annotations

import pytest

from service.worker.deliveries.attempt import (
    DELAYS_SECONDS,
    JITTER,
    Ending,
    Failure,
    ending_of,
    next_delay_seconds,
)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_delivers(status: int) -> None:
    assert ending_of(status, {}) == Ending(status=status)


@pytest.mark.parametrize(
    ("status", "failure", "of_the_service"),
    [
        (100, Failure.NOT_HTTP, True),
        (199, Failure.NOT_HTTP, True),
        (300, Failure.REDIRECT, False),
        (302, Failure.REDIRECT, False),
        (308, Failure.REDIRECT, False),
        (400, Failure.REFUSED, False),
        (401, Failure.REFUSED, False),
        (404, Failure.REFUSED, False),
        (409, Failure.REFUSED, False),
        (410, Failure.GONE, True),
        (422, Failure.REFUSED, False),
        (429, Failure.OVERLOADED, True),
        (500, Failure.SERVER_ERROR, True),
        (501, Failure.SERVER_ERROR, True),
        (503, Failure.SERVER_ERROR, True),
        (599, Failure.SERVER_ERROR, True),
        (600, Failure.NOT_HTTP, True),
        (999, Failure.NOT_HTTP, True),
    ],
)
def test_any_other_status_fails_and_says_against_whom(
    status: int, failure: Failure, *, of_the_service: bool
) -> None:
    ending = ending_of(status, {})
    assert (ending.failure, ending.status) == (failure, status)
    assert ending.is_of_the_service is of_the_service


@pytest.mark.parametrize(
    ("status", "asked", "rests"),
    [
        (429, "30", 30.0),
        (503, "30", 30.0),
        (502, "30", 30.0),
        (504, "86400", 3_600.0),
        (500, "30", None),
        (400, "30", None),
        (503, "soon", None),
    ],
)
def test_a_receiver_may_ask_for_a_rest_of_an_hour_at_most(
    status: int, asked: str, rests: float | None
) -> None:
    assert ending_of(status, {"retry-after": asked}).rest_seconds == rests


@pytest.mark.parametrize("failure", [Failure.FORBIDDEN_ADDRESS, Failure.REDIRECT, Failure.REFUSED])
def test_what_is_the_deliverys_own_is_not_held_against_its_destination(failure: Failure) -> None:
    assert not Ending(failure).is_of_the_service


def test_ten_attempts_take_some_75_hours() -> None:
    delays = [next_delay_seconds(made, 10, lambda _least, _most: 1.0) for made in range(1, 11)]
    assert delays == [*DELAYS_SECONDS, None]
    assert 74 <= sum(DELAYS_SECONDS) / 3_600 <= 76


def test_more_attempts_than_ten_follow_as_the_last_two_do() -> None:
    assert next_delay_seconds(12, 20, lambda _least, _most: 1.0) == DELAYS_SECONDS[-1]


def test_what_failed_together_does_not_return_together() -> None:
    delays = {next_delay_seconds(2, 10) for _ in range(20)}
    assert len(delays) > 1
    least, most = DELAYS_SECONDS[1] * (1 - JITTER), DELAYS_SECONDS[1] * (1 + JITTER)
    assert all(least <= (delay or 0) <= most for delay in delays)
