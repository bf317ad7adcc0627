"""Which couriers may have a number. Check digits are computed here, by other means."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers.detection import MEANINGS, Sign, detect
from couriers.http.credentials import CourierSettings
from couriers.reading.numbers import gs1 as gs1_checks
from couriers.reading.numbers import luhn, mod_37_36, s10_checks
from couriers.registry import Registry
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
    ("check", "number"),
    [
        (gs1_checks, "4006381333931"),  # a GTIN-13
        (gs1_checks, "106141412345678908"),  # an SSCC
        (luhn, "79927398713"),  # the usual example of Luhn's
        (luhn, "4111111111111111"),  # a card number for trials
        (mod_37_36, "A12425GABC1234002M"),  # the example of the GRid Standard
    ],
)
def test_a_check_of_a_standard_takes_its_published_example_and_no_other_last_character(
    check: Callable[[str], bool], number: str
) -> None:
    others = {each for each in "0123456789" if each != number[-1]}

    assert check(number)
    assert not any(check(number[:-1] + each) for each in others)


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
        (s10("XY", "12345678", "JB"), "chronopost-france"),
        (s10("EE", "00000001", "JB"), "chronopost-france"),
    ],
)
def test_form_and_check_digit_put_a_courier_first(number: str, slug: str) -> None:
    first = detect(number, REGISTRY)[0]

    assert (first.slug, first.sign) == (slug, Sign.CHECKED)


PUBLISHED = {
    "ups": """1Z5R89390357567127 1Z879E930346834440 1Z410E7W0392751591 1Z8V92A70367203024
        1ZXX3150YW44070023 K2479825491 J4603636537""",
    "fedex": """986578788855 477179081230 799531274483 790535312317 974367662710 041441760228964
        568283610012000 568283610012734 9611020987654312345672 61299998820821171811
        1001921334250001000300779017972697 1001921380360001000300639585804382
        1001901781990001000300617767839437 1002297871540001000300790695517286
        9622001900000000000000776632517510 9622001560000000000000794808390594
        9622001560001234567100794808390594 9632001560123456789900794808390594
        1027590111820004833500785458233610 1195266473930007521100871079919940
        32971514560102447849175802862014 33810799560000004380417923803212 001234500000000027""",
    "usps": """03071790000523483741 71123456789123456787 4201002334249200190132607600833457
        4201028200009261290113185417468510 420221539101026837331000039521 71969010756003077385
        9505511069605048600624 9101123456789000000013 92748931507708513018050063
        9400111201080805483016 9361289878700317633795 9405803699300124287899
        4202215392748931507708513018050063""",
    "dhl": "3318810025 8487135506 3318810036 3318810014 73891051146 JJD0099999999 JVGL0999999990",
    "canada-post": "0073938000549297 7035114477138472 4002847016405018",
    "dpd-uk": "09980000020033F 09980000020034D",
    "purolator": """320595463938 320606146993 287809468872 320610804900 331426749957 331434972567
        KYV009956937 CGK002986959 JFV247545960 TLR000083964""",
    "royal-mail": "RB123456785GB",
    "inpost-paczkomaty": "612345678901234567890123",
    "new-zealand-post": "CL092594237NZ EY593742046NZ FF138431175NZ",
}
"""Numbers that carriers or their customers have published as valid examples."""

UNSERVED = {
    "Amazon": "TBA000000000000 TBC000000000000 TBM502887274000 C1004444443",
    "Canpar": "D576002440000001718010 L576002440000000001004 S576002440000000025001",
    "DHL eCommerce": "GM2951173225174494 GM295117494011169042 GM9E44608A27984866BA2D",
    "GOFO Express": "GFUS01011884214464",
    "Landmark Global": "LTN74207623N1",
    "LaserShip": "LX17635036 LH13820469 1LS717793482164 1LS7119013618127-1 1LSCXVE0058631Y",
    "Old Dominion": "07209562763 77767553207 77806528897 80003280379",
    "OnTrac": "C11031500001879 C10999911320231 D10011354453707",
    "Spee-Dee": "SP029692510000920746",
    "Yodel": "JJD0002257639032011 JD0002254405060992",
    "YunExpress": "YT2229521272164446",
}
"""The same of couriers that had no module when this was written."""


@pytest.mark.parametrize(
    ("number", "slug"),
    [(number, slug) for slug, numbers in PUBLISHED.items() for number in numbers.split()],
)
def test_a_published_number_is_its_couriers_first_of_all(number: str, slug: str) -> None:
    assert detect(number, REGISTRY)[0].slug == slug


@pytest.mark.parametrize(
    ("number", "name"),
    [(number, name) for name, numbers in UNSERVED.items() for number in numbers.split()],
)
def test_a_number_of_a_courier_without_a_module_is_said_by_name(number: str, name: str) -> None:
    first = detect(number, REGISTRY)[0]

    assert first.name == name
    assert (first.sign is Sign.NO_MODULE) == (first.slug not in REGISTRY.slugs)


@pytest.mark.parametrize(
    ("number", "slug"),
    [
        ("1Z5R89390357567126", "ups"),
        ("K2479825492", "ups"),
        ("996578788855", "fedex"),
        ("1001901781990001000300617767839438", "fedex"),
        ("32971514560102447849175802852014", "fedex"),
        ("9600000000000000000001", "fedex"),
        ("4201028200009261290113185417468511", "usps"),
        ("03071790000523483742", "usps"),
        ("3318810010", "dhl"),
        ("0073938000549292", "canada-post"),
        ("09980000020033D", "dpd-uk"),
        ("320595463939", "purolator"),
        ("287809468875", "purolator"),
        ("C11031500001889", "ontrac"),
        ("80003280389", "old-dominion"),
        ("TBB000000000000", "amazon"),
        ("1LS7119013618127-2", "lasership"),
    ],
)
def test_a_published_example_of_a_wrong_number_never_passes_for_its_couriers(
    number: str, slug: str
) -> None:
    assert signs(number).get(slug, Sign.CHECK_FAILED) is Sign.CHECK_FAILED


@pytest.mark.parametrize(
    ("number", "slugs"),
    [
        # Pieces of DHL Express, with and without the J that only the barcode has.
        ("JD014600004790042206", ["dhl", "dhl-germany", "australia-post"]),
        ("JJD014600004790042206", ["dhl", "dhl-germany", "australia-post"]),
        ("JD000390000012345678", ["dhl-germany", "dhl", "australia-post"]),
        ("JJD000390000012345678", ["dhl-germany", "dhl", "australia-post"]),
        # Depots of DPD: in Belgium, in Germany; and in Britain.
        ("05308801410058", ["dpd", "hermes-de", "dpd-uk"]),
        ("01234567890123", ["dpd", "hermes-de", "dpd-uk"]),
        ("15502370264989", ["dpd-uk", "dpd", "hermes-de"]),
    ],
)
def test_a_loose_form_ranks_by_how_much_of_it_is_the_couriers_own(
    number: str, slugs: list[str]
) -> None:
    ranked = [each.slug for each in detect(number, REGISTRY)]

    assert ranked[0] == slugs[0]
    assert [slug for slug in ranked if slug in slugs] == slugs


def one_more(number: str) -> str:
    return number[:-1] + str((int(number[-1]) + 1) % 10)


@pytest.mark.parametrize("digits", [f"003404341610940425{each:02}"[:19] for each in range(100)])
def test_a_slip_in_a_number_of_dhl_paket_is_no_number_of_somebody_else(digits: str) -> None:
    number = gs1(digits)
    right, wrong = detect(number, REGISTRY), detect(one_more(number), REGISTRY)

    assert (right[0].slug, right[0].sign) == ("dhl-germany", Sign.CHECKED)
    assert (wrong[0].slug, wrong[0].sign) == ("dhl-germany", Sign.CHECK_FAILED)


def test_digits_alone_that_pass_a_check_still_stand_above_digits_alone_that_fail_one() -> None:
    ranked = detect("986578788855", REGISTRY)

    assert (ranked[0].slug, ranked[0].sign) == ("fedex", Sign.CHECKED)
    assert Sign.CHECK_FAILED in {each.sign for each in ranked}


def test_a_form_that_many_share_stands_below_one_that_is_a_couriers_own() -> None:
    ranked = [(each.slug, each.sign) for each in detect("0G00000000000", REGISTRY)]

    assert ranked == [("la-poste-colissimo", Sign.FORM), ("australia-post", Sign.LOOSE)]


def test_a_courier_that_gets_a_module_is_no_longer_one_without() -> None:
    feed = CourierSettings(Slug("amazon"), base_url="http://127.0.0.1:1", module="json_feed")

    found = detect("TBA502887274000", Registry([feed]))
    assert Sign.NO_MODULE not in {each.sign for each in found}


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
    better = [other for other, sign in found.items() if sign < Sign.CHECK_FAILED]
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

    assert {"hong-kong-post", "usps", "royal-mail", "postnord"} <= set(found)
    assert not {"ups", "fedex", "dhl", "gls", "dpd-uk"} & set(found)
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


def test_every_sign_is_explained() -> None:
    assert set(MEANINGS) == set(Sign)
