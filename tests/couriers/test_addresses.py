"""Whatever a number holds, it stays within its own segment of the address."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers.http.fetch import address, root
from couriers.reading.numbers import alphanumeric
from tracking.errors import InvalidNumber, RequestRefused

BASE = "https://courier.example/api"


@pytest.mark.parametrize(
    ("segment", "written"),
    [
        ("1Z999", "1Z999"),
        ("A/B", "A%2FB"),
        ("A?B", "A%3FB"),
        ("A#B", "A%23B"),
        ("A%2e%2e", "A%252e%252e"),
        ("A B", "A%20B"),
        ("A..B", "A..B"),
        ("15500000000001*10000", "15500000000001%2A10000"),
    ],
)
def test_a_segment_is_encoded_as_a_whole(segment: str, written: str) -> None:
    assert str(address(BASE, ["track", segment])) == f"{BASE}/track/{written}"


def test_several_texts_of_a_segment_are_parted_by_commas_and_encoded_each_as_a_whole() -> None:
    assert str(address(BASE, ["ids", ("1Z", "A,B", "C/D")])) == f"{BASE}/ids/1Z,A%2CB,C%2FD"
    with pytest.raises(InvalidNumber):
        address(BASE, ["ids", ("1Z", "..")])


def test_a_parameter_of_several_values_is_repeated() -> None:
    url = address(BASE, ["a"], {"id": ["1", "2&id=3"], "b": "x"})

    assert str(url) == f"{BASE}/a?id=1&id=2%26id%3D3&b=x"


@pytest.mark.parametrize("segment", ["", ".", "..", "1Z/../../admin", "1Z/./x", "../x"])
def test_a_step_upwards_is_refused(segment: str) -> None:
    with pytest.raises(InvalidNumber):
        address(BASE, ["track", segment])


def test_a_query_is_encoded() -> None:
    url = address(BASE, ["a"], {"q": "1&b=2#c+d"})

    assert url.query == {"q": "1&b=2#c+d"}
    assert str(url) == f"{BASE}/a?q=1%26b%3D2%23c%2Bd"


def test_a_slash_at_the_end_of_the_base_does_not_matter() -> None:
    assert address(f"{BASE}/", ["a"]) == address(BASE, ["a"])


@pytest.mark.parametrize(
    "base",
    [
        "",
        "courier.example",
        "ftp://courier.example",
        "http://",
        "https://user:pw@courier.example",
        "https://courier.example/?a=b",
        "https://courier.example/#a",
        "http://[::1",
        "http://courier.example:99999",
    ],
)
def test_a_base_that_is_no_bare_address_is_refused(base: str) -> None:
    with pytest.raises(RequestRefused):
        root(base)


@pytest.mark.parametrize("number", ["1Z-9", "1Z 9", "1Z.9", "1Z/9", "", "\u0661\u0662"])
def test_a_number_of_letters_and_digits_holds_nothing_else(number: str) -> None:
    with pytest.raises(InvalidNumber):
        alphanumeric(number)


@given(st.text(min_size=1))
def test_any_segment_comes_back_whole_or_is_refused(segment: str) -> None:
    try:
        url = address(BASE, ["track", segment, "events"])
    except (InvalidNumber, UnicodeEncodeError):
        return
    parts = url.raw_path.split("/")

    assert parts[:3] == ["", "api", "track"]
    assert parts[4:] == ["events"]
    assert unquote(parts[3]) == segment
    assert url.raw_query_string == ""
    assert url.raw_fragment == ""
