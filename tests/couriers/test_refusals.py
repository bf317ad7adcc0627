"""What HTTP statuses mean alike everywhere, and how long a courier wants to be left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers.http.refusals import RETRY_AFTER_MOST, refuse, retry_after
from tracking.errors import AuthFailed, CourierDown, CourierError, RateLimited, RequestRefused

NOON = {"date": "Mon, 05 Jan 2026 12:00:00 GMT"}


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (301, b"", RequestRefused),
        (304, b"", RequestRefused),
        (401, b"", AuthFailed),
        (403, b"scope missing", AuthFailed),
        (403, b"Quota exceeded", RateLimited),
        (403, b"Rate limit", RateLimited),
        (408, b"", CourierDown),
        (429, b"", RateLimited),
        (500, b"", CourierDown),
        (503, b"quota", CourierDown),
        (599, b"", CourierDown),
    ],
)
def test_the_statuses_that_mean_the_same_everywhere(
    status: int, body: bytes, error: type[CourierError]
) -> None:
    with pytest.raises(error):
        refuse(status, {}, body)


@pytest.mark.parametrize("status", [200, 204, 207, 400, 404, 409, 410, 422])
def test_every_other_status_is_for_the_module_to_judge(status: int) -> None:
    refuse(status, {}, b"quota")


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({}, b"", None),
        ({"retry-after": "120"}, b"", 120),
        ({"retry-after": "0"}, b"", 1),
        ({"retry-after": "1.5"}, b"", 1.5),
        ({"retry-after": "999999999"}, b"", RETRY_AFTER_MOST),
        ({"retry-after": "soon"} | NOON, b"", None),
        ({"retry-after": "-5"} | NOON, b"", None),
        ({"retry-after": "Mon, 05 Jan 2026 12:01:30 GMT"} | NOON, b"", 90),
        ({"retry-after": "Mon, 05 Jan 2026 11:00:00 GMT"} | NOON, b"", 1),
        ({"retry-after": "Mon, 05 Jan 2126 12:00:00 GMT"} | NOON, b"", RETRY_AFTER_MOST),
        ({"retry-after": "Mon, 05 Jan 2026 12:01:30 GMT"}, b"", None),
        (NOON, b"Daily quota exceeded", 12 * 3600),
        (NOON, b"quota exceeded", None),
        ({}, b"Daily quota exceeded", None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], body: bytes, seconds: float | None) -> None:
    assert retry_after(headers, body) == seconds


@given(st.text(), st.text(), st.binary())
def test_no_header_breaks_the_reading(named: str, date: str, body: bytes) -> None:
    wait = retry_after({"retry-after": named, "date": date}, body)

    assert wait is None or 1 <= wait <= RETRY_AFTER_MOST
