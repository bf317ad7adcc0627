"""Which couriers may have a number. Check digits are computed here, by other means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers.detection import MEANINGS, POSTS, Sign, detect
from couriers.http.settings import CourierSettings
from couriers.reading.check_digits import s10_checks
from couriers.registry import COURIERS, Registry
from tracking.errors import MalformedJob
from tracking.request import Slug

REGISTRY = Registry()


def signs(number: str) -> dict[str, Sign]:
    return {each.slug: each.sign for each in detect(number, REGISTRY)}


def gs1(digits: str) -> str:
    odd, even = digits[-1::-2], digits[-2::-2]
    return digits + str(-(3 * sum(map(int, odd)) + sum(map(int, even))) % 10)


def s10(prefix: str, digits: str, country: str) -> str:
    rest = sum(int(digit) * weight for digit, weight in zip(digits, (8, 6, 4, 2, 3, 5, 9, 7))) % 11  # noqa: B905 - eight of each
    check = {0: 5, 1: 0}.get(rest, 11 - rest)
    return f"{prefix}{digits}{check}{country}"


@pytest.mark.parametrize(
    ("number", "slug"),
    [
        ("9405903699300184125060", "usps"),
        ("1Z5R89390357567127", "ups"),
        ("986578788855", "fedex"),
        ("3318810025", "dhl"),
        ("EA999580311HK", "hong-kong-post"),
        ("RT215770195HK", "hong-kong-post"),
        (s10("RN", "12345678", "GB"), "royal-mail"),
        (s10("CX", "00000001", "AU"), "australia-post"),
        ("15502370264989N", "dpd-uk"),
        (gs1("700000000000001"), "canada-post"),
    ],
)
def test_form_and_check_digit_put_a_courier_first(number: str, slug: str) -> None:
    first = detect(number, REGISTRY)[0]

    assert (first.slug, first.sign) == (slug, Sign.CHECKED)


@pytest.mark.parametrize(
    ("number", "slug"),
    [
        ("1Z5R89390357567128", "ups"),
        ("EA999580312HK", "hong-kong-post"),
        ("15502370264989P", "dpd-uk"),
        ("7000000000000010", "canada-post"),
        ("986578788856", "fedex"),
    ],
)
def test_a_failed_check_digit_lowers_the_rank_and_excludes_nobody(number: str, slug: str) -> None:
    found = signs(number)

    assert found[slug] is Sign.CHECK_FAILED
    better = [other for other, sign in found.items() if sign is Sign.FORM]
    ranked = [each.slug for each in detect(number, REGISTRY)]
    assert all(ranked.index(other) < ranked.index(slug) for other in better)


@pytest.mark.parametrize(
    ("number", "slugs"),
    [
        ("123456789012", {"canada-post", "fedex", "gls", "ups"}),
        (gs1("37000000000000001"), {"bring", "postnord"}),
        ("00000000018SE", {"postnord"}),
        ("6X00000000016", {"la-poste-colissimo"}),
        ("3SABCD000000017", {"postnl"}),
    ],
)
def test_every_courier_that_is_possible_is_named(number: str, slugs: set[str]) -> None:
    assert slugs <= set(signs(number))


def test_a_number_of_the_posts_may_be_delivered_by_any_of_them() -> None:
    found = signs("EA999580311HK")

    assert set(found) == POSTS
    assert [sign for sign in found.values() if sign is not Sign.DELIVERS] == [Sign.CHECKED]
    assert set(signs(s10("RR", "00000001", "JP")).values()) == {Sign.DELIVERS}


def test_blanks_hyphens_and_small_letters_change_nothing() -> None:
    assert detect(" ea 9995-8031 1hk", REGISTRY) == detect("EA999580311HK", REGISTRY)


def test_nobody_has_this() -> None:
    assert detect("ABCDEFGHIJKL", REGISTRY) == ()
    with pytest.raises(MalformedJob):
        detect("!", REGISTRY)


def test_a_courier_of_the_configuration_has_no_forms_and_is_not_named() -> None:
    feed = CourierSettings(Slug("mine"), base_url="http://127.0.0.1:1", module="json_feed")

    assert "mine" not in {each.slug for each in detect("123456789012", Registry([feed]))}


@given(
    prefix=st.from_regex(r"[A-Z]{2}", fullmatch=True),
    digits=st.from_regex(r"[0-9]{8}", fullmatch=True),
)
def test_only_one_of_ten_check_digits_is_right(prefix: str, digits: str) -> None:
    right = [digit for digit in "0123456789" if s10_checks(f"{prefix}{digits}{digit}GB")]

    assert [f"{prefix}{digits}{right[0]}GB"] == [s10(prefix, digits, "GB")]
    assert len(right) == 1


@given(number=st.from_regex(r"[A-Z0-9]{4,40}", fullmatch=True))
def test_any_number_gets_a_ranked_list_in_which_nobody_stands_twice(number: str) -> None:
    found = detect(number, REGISTRY)

    assert list(found) == sorted(found)
    assert len({each.slug for each in found}) == len(found)


def test_every_post_is_a_courier_and_every_sign_is_explained() -> None:
    assert COURIERS.keys() >= POSTS
    assert set(MEANINGS) == set(Sign)
