"""Ingest labels: what is genuine, and what has not even the form."""

from __future__ import annotations

import base64

import pytest

from service.worker.deliveries.ingest_label import (
    LABEL_MOST,
    RANDOM_CHARACTERS,
    IngestLabel,
    is_genuine,
    new_label,
    parse_label,
)
from tracking.request import Account

KEY, SHOP = b"k" * 32, Account("shop")
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def test_a_label_is_genuine_under_its_key_alone() -> None:
    label = new_label(SHOP, "orders", KEY)

    assert is_genuine(label, KEY)
    assert not is_genuine(label, b"l" * 32)


def test_the_longest_names_make_a_label_that_fits_a_part_of_a_host() -> None:
    label = str(new_label(Account("a" * 20), "9" * 20, KEY))

    assert len(label) == LABEL_MOST
    assert parse_label(label)
    assert parse_label(f"{label}a") is None


def test_a_label_is_read_in_letters_of_any_case() -> None:
    label = new_label(SHOP, "orders", KEY)

    read = parse_label(str(label).upper())

    assert read == label
    assert is_genuine(read, KEY)


def test_no_two_labels_are_alike() -> None:
    assert len({new_label(SHOP, "orders", KEY) for _ in range(100)}) == 100


def test_a_label_with_any_other_letter_is_forged() -> None:
    label = new_label(SHOP, "orders", KEY)
    forged = [
        f"{label.random[:at]}{letter}{label.random[at + 1 :]}"
        for at in range(RANDOM_CHARACTERS)
        for letter in LETTERS
        if letter != label.random[at]
    ]

    read = [parse_label(f"shop-orders-{each}") for each in forged]

    assert not any(each and is_genuine(each, KEY) for each in read)


@pytest.mark.parametrize(("account", "service"), [("shop2", "orders"), ("shop", "order")])
def test_the_random_part_of_one_name_is_forged_in_another(account: str, service: str) -> None:
    label = new_label(SHOP, "orders", KEY)

    assert not is_genuine(IngestLabel(Account(account), service, label.random), KEY)


@pytest.mark.parametrize("random", ["", "a" * 20, "1" * 21, "ä" * 21])
def test_a_random_part_of_no_bytes_is_not_genuine(random: str) -> None:
    assert not is_genuine(IngestLabel(SHOP, "orders", random), KEY)


def test_a_random_part_that_stands_for_the_bytes_of_another_is_no_label() -> None:
    written = base64.b32encode(b"\0" * 13).decode().rstrip("=").lower()
    other = f"{written[:-1]}b"
    assert base64.b32decode(f"{other.upper()}===") == b"\0" * 13

    assert parse_label(f"shop-orders-{written}")
    assert parse_label(f"shop-orders-{other}") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "shop",
        "shop-orders",
        f"shop-{'a' * 21}",
        f"-orders-{'a' * 21}",
        f"shop--{'a' * 21}",
        f"shop-orders-{'a' * 20}",
        f"shop-orders-{'a' * 22}",
        f"shop-orders-{'1' * 21}",
        f"shop-orders-{'ä' * 21}",
        f"shöp-orders-{'a' * 21}",
        f"shop-or_ders-{'a' * 21}",
        f"shop-orders-more-{'a' * 21}",
        f"{'s' * 21}-o-{'a' * 21}",
        f"shop-orders-{'a' * 21}\n",
        f"shop-orders-{'a' * 20}=",
    ],
)
def test_what_has_not_the_form_of_a_label_is_none(text: str) -> None:
    assert parse_label(text) is None
