"""How weights, addresses and lists of parcels are read out of any courier's answer."""

from __future__ import annotations

import pytest

from couriers.reading.answer import address, grams, inside, others
from couriers.reading.checkpoints import together
from tracking.checkpoint import Tag, Tracking

PROOF = "https://proof.example/7"


@pytest.mark.parametrize(
    ("amount", "unit", "weight"),
    [
        ("2.4", "kg", 2400),
        (2, "KGS", 2000),
        ("1.00", "LBS", 454),
        ("12", "oz", 340),
        (750, "g", 750),
        ("0.0", "kg", None),
        ("2.4", "stone", None),
        ("2.4", None, None),
        ("2,4", "kg", None),
        ("-1", "kg", None),
        ("nan", "kg", None),
        ("9" * 400, "kg", None),
        (None, "kg", None),
    ],
)
def test_weights_are_brought_to_grams(
    amount: str | float | None, unit: str | None, weight: int | None
) -> None:
    assert grams(amount, unit) == weight


def test_only_web_addresses_prove_a_delivery() -> None:
    assert address(f" {PROOF} ") == PROOF
    assert [address(each) for each in ("string", "javascript:1", "https://", "", None)] == [
        None
    ] * 5


def test_a_list_stands_for_its_first() -> None:
    told = {"a": [{"b": ["c", "d"]}, {"b": "e"}]}

    assert inside(told, "a", "b") == "c"
    assert inside(told, "a", "x") is None
    assert inside(told) is None


def test_the_number_that_was_asked_for_is_no_sub_parcel() -> None:
    assert others(["B", "a", None, "B", 7, ""], "A") == ("B", "7")


def test_a_consignment_weighs_what_all_its_pieces_weigh() -> None:
    light = Tracking(Tag.IN_TRANSIT, "InTransit_001", weight_grams=500)
    heavy = light._replace(weight_grams=1500)

    assert together([light, heavy]).weight_grams == 2000
    assert together([light, heavy, light._replace(weight_grams=None)]).weight_grams is None
